/* SPDX-License-Identifier: MIT */
/* open, close, dup and ioctl on /dev/kvm and on descriptors of ours. */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/fd.h"
#include "api/map.h"
#include "locum/kvm.h"

/* libc's checked forms, which no header declares outside _FORTIFY_SOURCE. */
SHIM_EXPORT int __open_2(const char *path, int flags);
SHIM_EXPORT int __open64_2(const char *path, int flags);
SHIM_EXPORT int __openat_2(int dir, const char *path, int flags);
SHIM_EXPORT int __openat64_2(int dir, const char *path, int flags);

static int open_kvm(int flags)
{
	shim_signals_init();
	return shim_ret(locum_open(flags));
}

static bool needs_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

#define TAKE_MODE(mode, flags)                                                 \
	mode_t mode = 0;                                                       \
	if (needs_mode(flags)) {                                               \
		va_list ap;                                                    \
		va_start(ap, flags);                                           \
		mode = (mode_t)va_arg(ap, int);                                \
		va_end(ap);                                                    \
	}

SHIM_EXPORT int open(const char *path, int flags, ...)
{
	TAKE_MODE(mode, flags)
	if (shim_is_kvm_path(path))
		return open_kvm(flags);
	return REAL(open)(path, flags, mode);
}

SHIM_EXPORT int open64(const char *path, int flags, ...)
{
	TAKE_MODE(mode, flags)
	if (shim_is_kvm_path(path))
		return open_kvm(flags);
	return REAL(open64)(path, flags, mode);
}

SHIM_EXPORT int openat(int dir, const char *path, int flags, ...)
{
	TAKE_MODE(mode, flags)
	if (shim_is_kvm_path(path))
		return open_kvm(flags);
	return REAL(openat)(dir, path, flags, mode);
}

SHIM_EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	TAKE_MODE(mode, flags)
	if (shim_is_kvm_path(path))
		return open_kvm(flags);
	return REAL(openat64)(dir, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
	return shim_is_kvm_path(path) ? open_kvm(flags) : REAL(__open_2)(path, flags);
}

int __open64_2(const char *path, int flags)
{
	return shim_is_kvm_path(path) ? open_kvm(flags) : REAL(__open64_2)(path, flags);
}

int __openat_2(int dir, const char *path, int flags)
{
	return shim_is_kvm_path(path) ? open_kvm(flags) :
					REAL(__openat_2)(dir, path, flags);
}

int __openat64_2(int dir, const char *path, int flags)
{
	return shim_is_kvm_path(path) ? open_kvm(flags) :
					REAL(__openat64_2)(dir, path, flags);
}

/* --- close ------------------------------------------------------------- */

static bool ours(int fd)
{
	return locum_owns(fd) && !api_borrows_memory();
}

SHIM_EXPORT int close(int fd)
{
	return ours(fd) ? shim_ret(locum_close(fd)) : REAL(close)(fd);
}

/* Drop our descriptors of a range that the kernel is about to close. */
static void forget_range(unsigned first, unsigned last)
{
	int max = api_fd_max();

	if (api_borrows_memory())
		return;
	for (unsigned fd = first; fd <= last && (int)fd <= max; fd++)
		if (locum_owns((int)fd))
			locum_close((int)fd);
}

SHIM_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (!(flags & (int)CLOSE_RANGE_CLOEXEC))
		forget_range(first, last);
	return REAL(close_range)(first, last, flags);
}

SHIM_EXPORT void closefrom(int first)
{
	forget_range(first < 0 ? 0 : (unsigned)first, ~0u);
	REAL(closefrom)(first);
}

/* --- duplicates --------------------------------------------------------- */

/* @newfd, just made by the kernel, is a duplicate of @fd if @fd is ours. */
static int note_dup(int fd, int newfd)
{
	if (newfd >= 0 && newfd != fd && ours(fd))
		locum_dup(fd, newfd);
	return newfd;
}

SHIM_EXPORT int dup(int fd)
{
	return note_dup(fd, REAL(dup)(fd));
}

SHIM_EXPORT int dup2(int fd, int newfd)
{
	if (fd != newfd && ours(newfd) && fcntl(fd, F_GETFD) >= 0)
		locum_close(newfd);
	return note_dup(fd, REAL(dup2)(fd, newfd));
}

SHIM_EXPORT int dup3(int fd, int newfd, int flags)
{
	if (fd != newfd && ours(newfd) && fcntl(fd, F_GETFD) >= 0)
		locum_close(newfd);
	return note_dup(fd, REAL(dup3)(fd, newfd, flags));
}

static int after_fcntl(int fd, int cmd, int r)
{
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? note_dup(fd, r) : r;
}

/* Every command's argument is an int or a pointer: both travel as a long. */
#define TAKE_ARG(arg, last)                                                    \
	va_list ap;                                                            \
	va_start(ap, last);                                                    \
	unsigned long arg = va_arg(ap, unsigned long);                         \
	va_end(ap)

SHIM_EXPORT int fcntl(int fd, int cmd, ...)
{
	TAKE_ARG(arg, cmd);
	return after_fcntl(fd, cmd, REAL(fcntl)(fd, cmd, arg));
}

SHIM_EXPORT int fcntl64(int fd, int cmd, ...)
{
	TAKE_ARG(arg, cmd);
	return after_fcntl(fd, cmd, REAL(fcntl64)(fd, cmd, arg));
}

/* --- ioctl --------------------------------------------------------------- */

SHIM_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	TAKE_ARG(arg, request);
	/* Programs built for musl pass the request as an int. */
	if (locum_owns(fd))
		return shim_ret(locum_ioctl(fd, (u32)request, arg));
	return REAL(ioctl)(fd, request, arg);
}

/* --- mmap ------------------------------------------------------------------ */

/* Allocators call it before anything is set up: descriptors that are not ours
 * take the system call, which is all that libc's function does. */
static void *map(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct map_call c = { addr, len, prot, flags, fd, off };
	long r = fd >= 0 && locum_owns(fd) ? locum_mmap(addr, len, prot, flags, fd, off) :
					     map_raw(&c);

	if (r >= 0 || r < -4095)
		return (void *)r;
	errno = (int)-r;
	return MAP_FAILED;
}

SHIM_EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return map(addr, len, prot, flags, fd, off);
}

SHIM_EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t off)
{
	return map(addr, len, prot, flags, fd, off);
}

/* syscall(2): the calls that matter to us, for clients that avoid libc's
 * wrappers but not libc. */
SHIM_EXPORT long syscall(long nr, ...)
{
	unsigned long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	switch (nr) {
	case SYS_ioctl:
		if (locum_owns((int)a[0]))
			return shim_ret(locum_ioctl((int)a[0], (u32)a[1], a[2]));
		break;
	case SYS_open:
		if (shim_is_kvm_path((const char *)a[0]))
			return open_kvm((int)a[1]);
		break;
	case SYS_openat:
		if (shim_is_kvm_path((const char *)a[1]))
			return open_kvm((int)a[2]);
		break;
	case SYS_mmap:
		return (long)map((void *)a[0], a[1], (int)a[2], (int)a[3], (int)a[4],
				 (off_t)a[5]);
	case SYS_close:
		return close((int)a[0]);
	case SYS_seccomp:
		shim_note_filter();
		break;
	case SYS_prctl:
		if (a[0] == PR_SET_SECCOMP)
			shim_note_filter();
		break;
	case SYS_dup:
		return dup((int)a[0]);
	case SYS_dup2:
		return dup2((int)a[0], (int)a[1]);
	case SYS_dup3:
		return dup3((int)a[0], (int)a[1], (int)a[2]);
	}
	return REAL(syscall)(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
