/* SPDX-License-Identifier: MIT */
/*
 * Guest writes that end in this process without an exit: eventfds to signal
 * (KVM_IOEVENTFD) and zones whose writes are collected in a ring
 * (KVM_REGISTER_COALESCED_MMIO).
 *
 * vCPUs in guest mode read the table without a lock; whoever replaces it waits
 * until each has passed an instruction boundary before the old one goes.
 * Source: Linux Documentation/virt/kvm/api.rst 4.59, 4.116.
 */
#ifndef LOCUM_VM_IOTAB_H
#define LOCUM_VM_IOTAB_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/types.h"

struct io_table;
struct vm;

/** enum io_bus - IO_CCW is s390's: accepted, and no guest writes there */
enum io_bus { IO_MMIO, IO_PIO, IO_CCW };

/**
 * struct iotab - the table of a VM, and its ring
 * @lock:     of whoever changes the table; no vCPU in guest mode takes it
 * @table:    NULL: nothing is registered
 * @ring:     page 2 of the first vCPU's mapping
 * @unmapped: vCPUs whose page 2 the client does not see as @ring (yet): while
 *            there are any, zones collect nothing and every write exits
 */
struct iotab {
	pthread_mutex_t lock;
	struct io_table *_Atomic table;
	pthread_mutex_t ring_lock;
	struct kvm_coalesced_mmio_ring *_Atomic ring;
	_Atomic u32 unmapped;
};

void iotab_init(struct iotab *t);
/** iotab_fini() - no vCPU runs any more */
void iotab_fini(struct iotab *t);

/**
 * iotab_set_event() - KVM_IOEVENTFD
 * Return: 0; -EINVAL (length, flags, wrap, no eventfd), -EBADF, -EEXIST,
 * -ENOENT, -ENOSPC, -ENOMEM, -EMFILE.
 */
int iotab_set_event(struct vm *vm, const struct kvm_ioeventfd *a) must_check;

/** iotab_add_zone() - KVM_REGISTER_COALESCED_MMIO
 * Return: 0; -EINVAL, -ENOSPC, -ENOMEM. */
int iotab_add_zone(struct vm *vm, const struct kvm_coalesced_mmio_zone *z) must_check;

/** iotab_del_zone() - KVM_UNREGISTER_COALESCED_MMIO: every zone that contains
 * @z goes.  Return: 0; -EINVAL, -ENOMEM. */
int iotab_del_zone(struct vm *vm, const struct kvm_coalesced_mmio_zone *z) must_check;

/** iotab_write() - a guest's write of @n (1..8) bytes, by a vCPU in guest mode
 * Return: false: it is the client's. */
bool iotab_write(struct vm *vm, enum io_bus bus, u64 addr, const void *data, unsigned n);

#endif
