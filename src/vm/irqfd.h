/* SPDX-License-Identifier: MIT */
/*
 * KVM_IRQFD: eventfds that raise interrupts.
 *
 * One thread per VM, started with the first irqfd, waits for all of them and
 * injects: no vCPU leaves its guest for it.  Locks: `lock` is taken by that
 * thread, by ioctls and by a vCPU that acknowledges an interrupt; whoever holds
 * it waits for nobody.  Source: Linux Documentation/virt/kvm/api.rst 4.75.
 */
#ifndef LOCUM_VM_IRQFD_H
#define LOCUM_VM_IRQFD_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/types.h"

struct irqfd;
struct vm;

struct irqfds {
	pthread_mutex_t lock;
	struct irqfd *list; /* @lock */
	u64 last_serial;    /* @lock */
	pthread_t thread;
	bool running;	    /* @lock */
	int epoll, stop;    /* the thread's: set before it starts */
};

/** irqfds_init() - no irqfd, no thread */
void irqfds_init(struct irqfds *q);
/** irqfds_fini() - end the thread, let all eventfds go */
void irqfds_fini(struct irqfds *q);

/**
 * irqfd_set() - KVM_IRQFD
 * On return from a deassign no interrupt of it is under way.
 * Return: 0; -EINVAL (flags, no interrupt controller, resampling without an
 * in-kernel IOAPIC, no eventfd), -EBADF, -EBUSY (the eventfd has an interrupt
 * already), -ENOMEM, -EMFILE, -EAGAIN (no thread).
 */
int irqfd_set(struct vm *vm, const struct kvm_irqfd *a) must_check;

/** irqfd_acked() - the guest acknowledged @gsi: lower the line that resampling
 * irqfds hold up and tell their clients; any thread */
void irqfd_acked(struct vm *vm, u32 gsi);

#endif
