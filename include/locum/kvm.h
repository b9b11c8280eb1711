/* SPDX-License-Identifier: MIT */
/*
 * liblocum: the KVM API without /dev/kvm.
 *
 * The calls mirror open(2), ioctl(2), dup(2) and close(2) on /dev/kvm and on
 * the file descriptors that its ioctls return.  Structures and request numbers
 * are those of <linux/kvm.h>.  Descriptors are real ones; a vCPU's may be
 * mapped with mmap(2) or locum_mmap().  All are safe to call from any thread.
 *
 * Return values: >= 0 as the kernel returns it, or -errno.  errno is not set.
 */
#ifndef LOCUM_KVM_H
#define LOCUM_KVM_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCUM_API __attribute__((visibility("default")))
#define LOCUM_VERSION "0.1"

/**
 * locum_open() - what open("/dev/kvm", flags) does
 * @flags: O_RDONLY, O_WRONLY or O_RDWR, optionally with O_CLOEXEC
 * Return: a descriptor of the system object; -EINVAL, -EMFILE, -ENOMEM.
 */
LOCUM_API int locum_open(int flags);

/**
 * locum_ioctl() - what ioctl(fd, request, arg) does
 * @fd: a descriptor of ours (else -ENOTTY)
 * Return: as the kernel's; -EIO on a descriptor inherited by fork(2).
 */
LOCUM_API long locum_ioctl(int fd, unsigned long request, unsigned long arg);

/**
 * locum_mmap() - what mmap(addr, len, prot, flags, fd, off) does
 * Through plain mmap(2) everything but page 2 of a vCPU is the same; coalesced
 * writes are collected only when each vCPU of the VM was mapped through here.
 * @fd: a vCPU's descriptor
 * Return: the address, or -errno as a number in -4095..-1.
 */
LOCUM_API long locum_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);

/** locum_close() - close a descriptor of ours; the object lives as long as one
 * descriptor of it or of one made from it is open.  Return: 0, -EBADF. */
LOCUM_API int locum_close(int fd);

/** locum_dup() - note that @newfd is now a duplicate of @fd (made with dup(2),
 * fcntl(2) ...).  Return: 0; -EBADF if @fd is not ours. */
LOCUM_API int locum_dup(int fd, int newfd);

/** locum_owns() - 1 if @fd is a descriptor of ours, else 0; async-signal-safe */
LOCUM_API int locum_owns(int fd);

/**
 * locum_configure() - set keys for VMs created from now on
 * @settings: "KEY=VALUE,KEY=VALUE..." as in the environment variable LOCUM_SET
 * @error: receives one line without newline on failure; @size bytes
 * Return: 0; -EINVAL for an unknown key or value (@error lists the valid ones).
 */
LOCUM_API int locum_configure(const char *settings, char *error, size_t size);

/**
 * locum_stats_json() - counters of a VM as JSON: {"vm": {...}, "vcpus": [...]}
 * @vm_fd: a VM descriptor
 * Return: a string that the caller frees with free(3); NULL if @vm_fd is not a
 * VM of ours or memory is short.
 */
LOCUM_API char *locum_stats_json(int vm_fd);

/**
 * locum_kick() - make the KVM_RUN that @tid is in, if any, return -EINTR
 * What a signal does; for callers that deliver none.  Async-signal-safe.
 * @tid: kernel thread id (gettid(2)) of the thread in KVM_RUN
 */
LOCUM_API void locum_kick(int tid);

#ifdef __cplusplus
}
#endif

#endif
