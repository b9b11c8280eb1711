/* SPDX-License-Identifier: MIT */
#include "jit/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/hostcpu.h"

int arena_create(struct arena *a, size_t bytes)
{
	int fd, r;

	memset(a, 0, sizeof(*a));
	if (!hostcpu()->execmem)
		return -EACCES;
	fd = memfd_create("locum-code", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes))
		goto fail;
	a->rw = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (a->rw == MAP_FAILED) {
		a->rw = NULL;
		goto fail;
	}
	a->rx = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (a->rx == MAP_FAILED) {
		r = -errno;
		munmap(a->rw, bytes);
		close(fd);
		memset(a, 0, sizeof(*a));
		return r;
	}
	close(fd);
	madvise(a->rw, bytes, MADV_DONTFORK);
	madvise(a->rx, bytes, MADV_DONTFORK);
	a->bytes = bytes;
	return 0;
fail:
	r = -errno;
	close(fd);
	return r;
}

void arena_destroy(struct arena *a)
{
	if (!a->bytes)
		return;
	munmap(a->rw, a->bytes);
	munmap(a->rx, a->bytes);
	memset(a, 0, sizeof(*a));
}
