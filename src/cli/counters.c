/* SPDX-License-Identifier: MIT */
#include "cli/counters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMFD_LINK "/memfd:locum-stats"
#define MAX_COUNTERS 512 /* of one object; what is larger is none of ours */

bool counters_is_vm(const struct counters *c)
{
	return !strchr(c->id, '/');
}

static void free_item(struct counters *c)
{
	free(c->name);
	free(c->value);
}

void counters_free(struct counters_list *l)
{
	for (unsigned i = 0; i < l->count; i++)
		free_item(&l->item[i]);
	free(l->item);
	memset(l, 0, sizeof(*l));
}

static int read_at(int fd, void *to, size_t n, off_t at)
{
	ssize_t r = pread(fd, to, n, at);

	return r < 0 ? -errno : (size_t)r == n ? 0 : -EINVAL;
}

/* The names; the values follow in the order of the descriptors. */
static int read_names(int fd, const struct kvm_stats_header *h, struct counters *c)
{
	u8 d[sizeof(struct kvm_stats_desc) + COUNTER_NAME];

	for (unsigned i = 0; i < c->count; i++) {
		int r = read_at(fd, d, sizeof(d), (off_t)(h->desc_offset + i * sizeof(d)));

		if (r)
			return r;
		memcpy(c->name[i], d + sizeof(struct kvm_stats_desc), COUNTER_NAME - 1);
	}
	return 0;
}

static int read_item(int fd, struct counters *c)
{
	struct kvm_stats_header h;
	int r = read_at(fd, &h, sizeof(h), 0);

	memset(c, 0, sizeof(*c));
	if (r)
		return r;
	if (h.name_size != COUNTER_NAME || !h.num_desc || h.num_desc > MAX_COUNTERS)
		return -EINVAL;
	r = read_at(fd, c->id, COUNTER_NAME - 1, h.id_offset);
	if (r)
		return r;
	c->count = h.num_desc;
	c->name = calloc(c->count, COUNTER_NAME);
	c->value = calloc(c->count, sizeof(u64));
	r = c->name && c->value ? read_names(fd, &h, c) : -ENOMEM;
	if (!r)
		r = read_at(fd, c->value, c->count * sizeof(u64), h.data_offset);
	if (r)
		free_item(c);
	return r;
}

/* "kvm-PID.VM..." was made by process @pid. */
static bool made_by(const struct counters *c, pid_t pid)
{
	int maker;

	return sscanf(c->id, "kvm-%d.", &maker) == 1 && maker == pid;
}

static bool known(const struct counters_list *l, const char *id)
{
	for (unsigned i = 0; i < l->count; i++)
		if (!strcmp(l->item[i].id, id))
			return true;
	return false;
}

static int add(struct counters_list *l, struct counters *c)
{
	struct counters *item;

	if (!made_by(c, l->pid) || known(l, c->id)) { /* a client's duplicate */
		free_item(c);
		return 0;
	}
	item = realloc(l->item, (l->count + 1) * sizeof(*item));
	if (!item) {
		free_item(c);
		return -ENOMEM;
	}
	l->item = item;
	item[l->count++] = *c;
	return 0;
}

/* One entry of /proc/PID/fd.  What is no counter file, or went meanwhile, is
 * passed over. */
static int look_at(struct counters_list *l, const char *path)
{
	char target[sizeof(MEMFD_LINK)];
	struct counters c;
	ssize_t n = readlink(path, target, sizeof(target));
	int fd, r;

	if (n < (ssize_t)strlen(MEMFD_LINK) || memcmp(target, MEMFD_LINK, strlen(MEMFD_LINK)))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? -errno : 0;
	r = read_item(fd, &c);
	close(fd);
	if (r)
		return r == -ENOMEM ? r : 0;
	return add(l, &c);
}

/* "kvm-1.2/vcpu-10" after "kvm-1.2/vcpu-9". */
static int order(const void *a, const void *b)
{
	return strverscmp(((const struct counters *)a)->id, ((const struct counters *)b)->id);
}

int counters_read(struct counters_list *l, pid_t pid)
{
	char path[64 + sizeof(((struct dirent *)0)->d_name)];
	struct dirent *e;
	DIR *dir;
	int r = 0;

	memset(l, 0, sizeof(*l));
	l->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!r && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, e->d_name);
		r = look_at(l, path);
	}
	closedir(dir);
	if (l->count)
		qsort(l->item, l->count, sizeof(*l->item), order);
	if (r)
		counters_free(l);
	return r;
}

u64 counters_get(const struct counters_list *l, const char *name)
{
	u64 sum = 0;

	for (unsigned i = 0; i < l->count; i++)
		for (unsigned k = 0; k < l->item[i].count; k++)
			if (!strcmp(l->item[i].name[k], name))
				sum += l->item[i].value[k];
	return sum;
}
