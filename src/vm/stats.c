/* SPDX-License-Identifier: MIT */
#include "vm/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SIZE 48 /* as the kernel's */

/* One descriptor with its name: struct kvm_stats_desc, as the client reads it. */
struct desc {
	u32 flags;
	s16 exponent;
	u16 size;
	u32 offset, bucket_size;
	char name[NAME_SIZE];
};

_Static_assert(offsetof(struct desc, name) == sizeof(struct kvm_stats_desc), "one layout");

static const char *const vm_names[] = {
#define STAT(name, what) #name,
#include "vm/stats.def"
#undef STAT
};

static const char *const vcpu_names[] = {
#define STAT(name, what) #name,
#include "cpu/stats.def"
#undef STAT
#define TLB_STAT(name, what) #name,
#include "mmu/tlb_stats.def"
#undef TLB_STAT
};

static const struct {
	const char *const *names;
	unsigned count;
	size_t bytes;
} kinds[] = {
	[STATS_VM] = { vm_names, ARRAY_SIZE(vm_names), sizeof(struct vm_stats) },
	[STATS_VCPU] = { vcpu_names, ARRAY_SIZE(vcpu_names), sizeof(struct vcpu_counters) },
};

_Static_assert(sizeof(struct vm_stats) == 8 * ARRAY_SIZE(vm_names), "a u64 a name");
_Static_assert(sizeof(struct vcpu_counters) == 8 * ARRAY_SIZE(vcpu_names), "a u64 a name");

struct layout {
	size_t id, descs, data, bytes;
};

static struct layout layout_of(enum stats_kind kind)
{
	struct layout l = { .id = sizeof(struct kvm_stats_header) };

	l.descs = l.id + NAME_SIZE;
	l.data = l.descs + kinds[kind].count * sizeof(struct desc);
	l.bytes = l.data + kinds[kind].bytes;
	return l;
}

static void fill(u8 *map, enum stats_kind kind, const struct layout *l, const char *id)
{
	struct kvm_stats_header *h = (struct kvm_stats_header *)map;
	struct desc *d = (struct desc *)(map + l->descs);

	h->name_size = NAME_SIZE;
	h->num_desc = kinds[kind].count;
	h->id_offset = (u32)l->id;
	h->desc_offset = (u32)l->descs;
	h->data_offset = (u32)l->data;
	snprintf((char *)map + l->id, NAME_SIZE, "%s", id);
	for (unsigned i = 0; i < kinds[kind].count; i++) {
		d[i].flags = KVM_STATS_TYPE_CUMULATIVE | KVM_STATS_UNIT_NONE |
			       KVM_STATS_BASE_POW10;
		d[i].size = 1;
		d[i].offset = i * (u32)sizeof(u64);
		snprintf(d[i].name, NAME_SIZE, "%s", kinds[kind].names[i]);
	}
}

int stats_create(struct stats_area *a, enum stats_kind kind, const char *id)
{
	struct layout l = layout_of(kind);
	struct stat st;

	memset(a, 0, sizeof(*a));
	a->bytes = ALIGN_UP(l.bytes, PAGE_SIZE);
	a->fd = memfd_create(STATS_MEMFD_NAME, MFD_CLOEXEC);
	if (a->fd < 0)
		return -errno;
	if (ftruncate(a->fd, (off_t)a->bytes) || fstat(a->fd, &st))
		goto fail;
	a->map = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (a->map == MAP_FAILED)
		goto fail;
	madvise(a->map, a->bytes, MADV_DONTFORK);
	a->ino = st.st_ino;
	a->data = (u8 *)a->map + l.data;
	fill(a->map, kind, &l, id);
	return 0;
fail:;
	int r = -errno;

	close(a->fd);
	a->fd = -1;
	a->map = NULL;
	return r;
}

/* The client may have closed descriptors that it does not know (closefrom())
 * and opened others since. */
static bool fd_is_ours(const struct stats_area *a)
{
	struct stat st;

	return a->fd >= 0 && !fstat(a->fd, &st) && st.st_ino == a->ino;
}

void stats_destroy(struct stats_area *a)
{
	if (!a->map)
		return;
	if (fd_is_ours(a))
		close(a->fd);
	munmap(a->map, a->bytes);
	memset(a, 0, sizeof(*a));
	a->fd = -1;
}

int stats_reopen(const struct stats_area *a)
{
	char path[40];
	int fd;

	if (!fd_is_ours(a))
		return -EBADF;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) /* no /proc: the position is shared then */
		fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

void stats_print_json(FILE *f, enum stats_kind kind, const void *data)
{
	const u64 *v = data;

	fputc('{', f);
	for (unsigned i = 0; i < kinds[kind].count; i++)
		fprintf(f, "%s\"%s\": %llu", i ? ", " : "", kinds[kind].names[i],
			__atomic_load_n(&v[i], __ATOMIC_RELAXED));
	fputc('}', f);
}
