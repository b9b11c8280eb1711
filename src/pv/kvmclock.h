/* SPDX-License-Identifier: MIT */
/*
 * kvmclock: a VM's nanosecond clock, and the structures by which guests read it.
 *
 * One reference pair {host TSC, ns} holds for the whole VM and changes only
 * when the client sets the clock, so that the clock is monotonic across
 * vCPUs.  What a guest computes and what KVM_GET_CLOCK answers come from the
 * same arithmetic.  Source: Linux Documentation/virt/kvm/x86/msr.rst; api.rst
 * KVM_GET_CLOCK, KVM_SET_CLOCK.
 */
#ifndef LOCUM_PV_KVMCLOCK_H
#define LOCUM_PV_KVMCLOCK_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/clock.h"
#include "mem/mem.h"
#include "pv/pvclock.h"

/** struct kvmclock_vm - the VM's clock; `lock` guards the reference pair */
struct kvmclock_vm {
	pthread_mutex_t lock;
	const struct clock *clock; /* the host's */
	struct pvclock_scale scale; /* of the host's TSC */
	u64 tsc_ref;	/* host TSC ... */
	u64 ns_ref;	/* ... at which the clock showed this */
	_Atomic u32 epoch; /* bumped when the pair changes */
	u64 wall_msr;	/* last value written to MSR_KVM_WALL_CLOCK* */
};

/** struct kvmclock - a vCPU's share: owned by the vCPU's mutex
 * @msr:     value of MSR_KVM_SYSTEM_TIME*; bit 0 = enabled
 * @epoch:   of the pair that the guest's structure was written from
 * @stopped: tell the guest once that it was paused (KVM_KVMCLOCK_CTRL) */
struct kvmclock {
	u64 msr;
	u32 version;
	u32 epoch;
	bool stopped;
};

/**
 * struct kvmclock_tsc - the vCPU's TSC as a function of the host's
 * @khz:     frequency that the guest sees
 * @offset:  guest TSC = scaled host TSC + offset
 */
struct kvmclock_tsc {
	u32 khz;
	s64 offset;
};

/** kvmclock_vm_init() - the clock starts at 0 now */
void kvmclock_vm_init(struct kvmclock_vm *v, const struct clock *clock);
void kvmclock_vm_fini(struct kvmclock_vm *v);

/** kvmclock_now() - the VM's clock, ns */
u64 kvmclock_now(struct kvmclock_vm *v);

/** kvmclock_get(), kvmclock_set() - KVM_GET_CLOCK, KVM_SET_CLOCK
 * Return: 0; -EINVAL for unknown flags. */
void kvmclock_get(struct kvmclock_vm *v, struct kvm_clock_data *out);
int kvmclock_set(struct kvmclock_vm *v, const struct kvm_clock_data *in) must_check;

/**
 * kvmclock_update() - write the guest's structure if it is enabled
 *
 * Follows the version protocol: odd, fields, even.  Call when the MSR was
 * written, the pair changed, the vCPU's TSC offset or frequency changed.
 */
void kvmclock_update(struct kvmclock_vm *v, struct kvmclock *k, struct mem *mem,
		     struct kvmclock_tsc tsc);

/** kvmclock_is_stale() - the pair changed since the last update */
static inline bool kvmclock_is_stale(struct kvmclock_vm *v, const struct kvmclock *k)
{
	return (k->msr & 1) &&
	       __atomic_load_n((u32 *)&v->epoch, __ATOMIC_ACQUIRE) != k->epoch;
}

/** kvmclock_write_wall() - MSR_KVM_WALL_CLOCK*: the time of day of boot
 * (clock 0) into the structure at @gpa */
void kvmclock_write_wall(struct kvmclock_vm *v, struct mem *mem, gpa_t gpa);

/** kvmclock_pairing() - hypercall KVM_HC_CLOCK_PAIRING
 * Return: 0, -KVM_EOPNOTSUPP, -KVM_EFAULT */
s64 kvmclock_pairing(struct kvmclock_vm *v, struct mem *mem, gpa_t gpa, u64 type,
		     struct kvmclock_tsc tsc);

#endif
