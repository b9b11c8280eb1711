/* SPDX-License-Identifier: MIT */
/*
 * Eventfds that the client hands over.
 *
 * The kernel keeps the eventfd itself; a process can only keep a descriptor, so
 * a duplicate of the client's is held.  Two descriptors mean the same eventfd
 * when their ids do (proc(5) "fdinfo"), or, without /proc, by kcmp(2).
 */
#ifndef LOCUM_VM_EVFD_H
#define LOCUM_VM_EVFD_H

#include "base/types.h"

/** struct evfd - a held eventfd
 * @fd: ours, close-on-exec
 * @id: the kernel's number of it; 0: not known */
struct evfd {
	int fd;
	u64 id;
};

/** evfd_get() - hold the client's eventfd @fd
 * Return: 0; -EBADF; -EINVAL: no eventfd; -EMFILE. */
int evfd_get(int fd, struct evfd *e) must_check;

/** evfd_put() - let go of it */
void evfd_put(struct evfd *e);

/** evfd_same() - both are one eventfd */
bool evfd_same(const struct evfd *a, const struct evfd *b);

/** evfd_signal() - add one to the counter: one write(2), nothing else (vCPU
 * threads may run under a strict system call filter) */
void evfd_signal(const struct evfd *e);

/** evfd_take() - reset the counter.  Return: false if it was 0 already. */
bool evfd_take(const struct evfd *e);

#endif
