/* SPDX-License-Identifier: MIT */
/*
 * A virtual machine: memory, interrupt controllers, clock, vCPUs.
 *
 * Lock order: vm->lock, then a vCPU's mutex is never taken while holding it;
 * a thread that holds a vCPU's mutex may take vm->lock.  Locks of mem, irq and
 * pv are leaves.
 */
#ifndef LOCUM_VM_VM_H
#define LOCUM_VM_VM_H

#include <linux/kvm.h>
#include <pthread.h>

#include "irq/irqchip.h"
#include "mem/mem.h"
#include "pv/kvmclock.h"
#include "vm/config.h"
#include "vm/filter.h"
#include "vm/iotab.h"
#include "vm/irqfd.h"
#include "vm/stats.h"
#include "vm/timer.h"

#define VM_MAX_VCPUS   64
#define VM_MAX_VCPU_ID 4096 /* APIC ids are below it */

struct vcpu;

/** struct vm - reference counted by the descriptors of the VM and its vCPUs */
struct vm {
	_Atomic u32 refs;
	_Atomic bool dead; /* an invariant broke: every ioctl answers -EIO */
	struct vm_config config;
	const struct clock *clock;

	pthread_mutex_t lock; /* creation, capabilities, TSC, dirty log calls */

	struct mem *mem;
	struct irqchip irqchip;
	struct kvmclock_vm kvmclock;
	struct timer timer;
	struct timer_slot slots[VM_MAX_VCPUS + 1]; /* the last: PIT, IOAPIC */
	bool timer_running;
	struct irqfds irqfds;
	struct iotab iotab;

	/* Published with release; read by anyone. */
	_Atomic u32 nr_vcpus;
	struct vcpu *_Atomic vcpus[VM_MAX_VCPUS];

	/* @lock */
	u32 bsp_id;	  /* KVM_SET_BOOT_CPU_ID */
	u32 max_vcpu_id;  /* ids below it; KVM_CAP_MAX_VCPU_ID */
	bool max_vcpu_id_set;
	u64 identity_map, tss_addr;
	u64 manual_dirty; /* KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2 */
	u32 default_tsc_khz;
	s64 tsc_last_offset; /* of the last client write of a TSC: */
	u64 tsc_last_value, tsc_last_ns;
	bool tsc_written;
	struct msr_filter *old_filters; /* replaced: a vCPU may still read one */

	/* Written under @lock, read by vCPUs. */
	struct msr_filter *_Atomic filter;
	_Atomic u32 user_msr_mask;   /* KVM_MSR_EXIT_REASON_* */
	_Atomic u64 disabled_quirks; /* KVM_X86_QUIRK_* */
	_Atomic u64 disabled_exits;  /* KVM_X86_DISABLE_EXITS_* */
	_Atomic bool exception_payload, triple_fault_event;
	_Atomic bool hide_platform_info; /* from the guest: KVM_CAP_MSR_PLATFORM_INFO */

	char name[32];		 /* "kvm-PID.N", the N-th of its process */
	struct stats_area stats; /* struct vm_stats */
};

/**
 * vm_create() - a VM without memory, vCPUs or devices
 * Return: 0 and *@out with one reference; -ENOMEM, -EAGAIN (no thread).
 */
int vm_create(const struct vm_config *config, struct vm **out) must_check;

void vm_get(struct vm *vm);
/** vm_put() - the last reference destroys the VM; no vCPU is running then */
void vm_put(struct vm *vm);

/** vm_vcpu() - the vCPU with @id (APIC id), NULL if there is none; any thread */
struct vcpu *vm_vcpu(struct vm *vm, u32 id);

/** vm_each_vcpu - for (i, v) over the vCPUs that exist */
#define vm_each_vcpu(vm, i, v)                                                 \
	for (u32 i = 0; i < atomic_load(&(vm)->nr_vcpus) &&                    \
			((v) = atomic_load(&(vm)->vcpus[i]), true);            \
	     i++)

/** vm_request_all() - vcpu_request() to every vCPU */
void vm_request_all(struct vm *vm, u32 bits);

/** vm_client_wrote() - the client may have written guest memory: decoded code is
 * compared with its saved bytes before its next use, and vCPUs that run
 * translated code come to look.  @self: the calling vCPU's thread, or NULL */
void vm_client_wrote(struct vm *vm, struct vcpu *self);

/** vm_kill() - an invariant broke: stop every vCPU, answer -EIO from now on */
void vm_kill(struct vm *vm);

/** vm_sync_tsc() - the TSC offset that @v gets when the client writes @value
 * Writes to several vCPUs that mean "the same time" give one offset, so that
 * their TSCs agree.  Source: Linux Documentation/virt/kvm/x86/timekeeping.rst;
 * the one-second rule is KVM's. */
s64 vm_sync_tsc(struct vm *vm, struct vcpu *v, u64 value);

/** vm_set_tsc_offset() - @v gets TSC offset @offset, and later writes of a TSC are
 * compared with what it says now; vm->lock held */
void vm_set_tsc_offset(struct vm *vm, struct vcpu *v, s64 offset);

/** vm_has_lapic() - LAPICs are ours (full or split irqchip) */
static inline bool vm_has_lapic(const struct vm *vm)
{
	return vm->irqchip.mode != IRQCHIP_NONE;
}

/** vm_has_pic() - PIC and IOAPIC are ours too */
static inline bool vm_has_pic(const struct vm *vm)
{
	return vm->irqchip.mode == IRQCHIP_KERNEL;
}

#endif
