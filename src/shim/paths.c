/* SPDX-License-Identifier: MIT */
/* stat and access: /dev/kvm is a character device that everyone may use. */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "api/fd.h"
#include "locum/kvm.h"

/* Symbols of programs linked against a glibc before 2.33. */
SHIM_EXPORT int __xstat(int ver, const char *path, struct stat *st);
SHIM_EXPORT int __lxstat(int ver, const char *path, struct stat *st);
SHIM_EXPORT int __fxstat(int ver, int fd, struct stat *st);
SHIM_EXPORT int __fxstatat(int ver, int dir, const char *path, struct stat *st, int flags);
SHIM_EXPORT int __xstat64(int ver, const char *path, struct stat64 *st);
SHIM_EXPORT int __lxstat64(int ver, const char *path, struct stat64 *st);
SHIM_EXPORT int __fxstat64(int ver, int fd, struct stat64 *st);
SHIM_EXPORT int __fxstatat64(int ver, int dir, const char *path, struct stat64 *st,
			     int flags);

/* struct stat and struct stat64 are one layout on x86-64. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one struct stat");

static int kvm_stat(void *buf)
{
	struct stat *st = buf;

	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = makedev(KVM_MAJOR, KVM_MINOR);
	st->st_dev = makedev(0, 5); /* devtmpfs */
	st->st_ino = KVM_MINOR;
	st->st_nlink = 1;
	st->st_blksize = 4096;
	return 0;
}

static bool is_system_fd(int fd)
{
	return locum_owns(fd) && api_fd_is_system(fd);
}

#define STAT_HOOK(name, type)                                                  \
	SHIM_EXPORT int name(const char *path, type *st)                       \
	{                                                                      \
		return shim_is_kvm_path(path) ? kvm_stat(st) : REAL(name)(path, st); \
	}
STAT_HOOK(stat, struct stat)
STAT_HOOK(lstat, struct stat)
STAT_HOOK(stat64, struct stat64)
STAT_HOOK(lstat64, struct stat64)

#define FSTAT_HOOK(name, type)                                                 \
	SHIM_EXPORT int name(int fd, type *st)                                 \
	{                                                                      \
		return is_system_fd(fd) ? kvm_stat(st) : REAL(name)(fd, st);   \
	}
FSTAT_HOOK(fstat, struct stat)
FSTAT_HOOK(fstat64, struct stat64)

/* An empty path with AT_EMPTY_PATH means the descriptor itself. */
static bool names_kvm_at(int dir, const char *path, int flags)
{
	if ((flags & AT_EMPTY_PATH) && path && !*path)
		return is_system_fd(dir);
	return shim_is_kvm_path(path);
}

#define FSTATAT_HOOK(name, type)                                               \
	SHIM_EXPORT int name(int dir, const char *path, type *st, int flags)   \
	{                                                                      \
		return names_kvm_at(dir, path, flags) ?                        \
			       kvm_stat(st) :                                  \
			       REAL(name)(dir, path, st, flags);               \
	}
FSTATAT_HOOK(fstatat, struct stat)
FSTATAT_HOOK(fstatat64, struct stat64)

#define XSTAT_HOOK(name, type)                                                 \
	int name(int ver, const char *path, type *st)                          \
	{                                                                      \
		return shim_is_kvm_path(path) ? kvm_stat(st) :                 \
						REAL(name)(ver, path, st);     \
	}
XSTAT_HOOK(__xstat, struct stat)
XSTAT_HOOK(__lxstat, struct stat)
XSTAT_HOOK(__xstat64, struct stat64)
XSTAT_HOOK(__lxstat64, struct stat64)

#define FXSTAT_HOOK(name, type)                                                \
	int name(int ver, int fd, type *st)                                    \
	{                                                                      \
		return is_system_fd(fd) ? kvm_stat(st) : REAL(name)(ver, fd, st); \
	}
FXSTAT_HOOK(__fxstat, struct stat)
FXSTAT_HOOK(__fxstat64, struct stat64)

#define FXSTATAT_HOOK(name, type)                                              \
	int name(int ver, int dir, const char *path, type *st, int flags)      \
	{                                                                      \
		return names_kvm_at(dir, path, flags) ?                        \
			       kvm_stat(st) :                                  \
			       REAL(name)(ver, dir, path, st, flags);          \
	}
FXSTATAT_HOOK(__fxstatat, struct stat)
FXSTATAT_HOOK(__fxstatat64, struct stat64)

SHIM_EXPORT int statx(int dir, const char *path, int flags, unsigned mask,
		      struct statx *stx)
{
	if (!names_kvm_at(dir, path, flags))
		return REAL(statx)(dir, path, flags, mask, stx);
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS;
	stx->stx_mode = S_IFCHR | 0666;
	stx->stx_rdev_major = KVM_MAJOR;
	stx->stx_rdev_minor = KVM_MINOR;
	stx->stx_dev_minor = 5;
	stx->stx_ino = KVM_MINOR;
	stx->stx_nlink = 1;
	stx->stx_blksize = 4096;
	return 0;
}

/* --- access -------------------------------------------------------------- */

static int kvm_access(int mode)
{
	return shim_ret(mode & X_OK ? -EACCES : 0);
}

#define ACCESS_HOOK(name)                                                      \
	SHIM_EXPORT int name(const char *path, int mode)                       \
	{                                                                      \
		return shim_is_kvm_path(path) ? kvm_access(mode) :             \
						REAL(name)(path, mode);        \
	}
ACCESS_HOOK(access)
ACCESS_HOOK(euidaccess)
ACCESS_HOOK(eaccess)

SHIM_EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	return shim_is_kvm_path(path) ? kvm_access(mode) :
					REAL(faccessat)(dir, path, mode, flags);
}
