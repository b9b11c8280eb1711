/* SPDX-License-Identifier: MIT */
#include "vm/evfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Without /proc: what has no file type is an anonymous inode, which is as much
 * as can be told. */
static int check_by_type(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	return st.st_mode & S_IFMT ? -EINVAL : 0;
}

/* Is @fd an eventfd, and which? */
static int identify(int fd, u64 *id)
{
	char path[40], text[512], *at;
	ssize_t n;
	int info;

	*id = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return errno == EMFILE ? -EMFILE : check_by_type(fd);
	n = read(info, text, sizeof(text) - 1);
	close(info);
	if (n < 0)
		return check_by_type(fd);
	text[n] = 0;
	if (!strstr(text, "eventfd-count:"))
		return -EINVAL;
	/* The kernel counts from 0; old ones have no number. */
	at = strstr(text, "eventfd-id:");
	if (at)
		*id = strtoull(at + strlen("eventfd-id:"), NULL, 10) + 1;
	return 0;
}

int evfd_get(int fd, struct evfd *e)
{
	int r;

	if (fd < 0 || fcntl(fd, F_GETFD) < 0)
		return -EBADF;
	/* First ours: the client may close its own meanwhile. */
	e->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (e->fd < 0)
		return -errno;
	r = identify(e->fd, &e->id);
	if (r)
		evfd_put(e);
	return r;
}

void evfd_put(struct evfd *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

bool evfd_same(const struct evfd *a, const struct evfd *b)
{
	pid_t self;

	if (a->id && b->id)
		return a->id == b->id;
	self = getpid();
	return !syscall(SYS_kcmp, self, self, KCMP_FILE, a->fd, b->fd);
}

void evfd_signal(const struct evfd *e)
{
	u64 one = 1;

	/* It fails only at a counter of 2^64 - 2 that nobody has read. */
	if (write(e->fd, &one, sizeof(one)) < 0)
		return;
}

bool evfd_take(const struct evfd *e)
{
	struct iovec iov;
	struct pollfd p = { .fd = e->fd, .events = POLLIN };
	u64 count;
	ssize_t n;

	iov.iov_base = &count;
	iov.iov_len = sizeof(count);
	/* Must not block if another reader was faster. */
	n = preadv2(e->fd, &iov, 1, -1, RWF_NOWAIT);
	if (n < 0 && errno == EOPNOTSUPP && poll(&p, 1, 0) == 1)
		n = read(e->fd, &count, sizeof(count));
	return n == (ssize_t)sizeof(count);
}
