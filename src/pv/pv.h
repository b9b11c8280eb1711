/* SPDX-License-Identifier: MIT */
/*
 * KVM's own guest interface: the CPUID leaves 0x40000000 and 0x40000001, which
 * MSRs and hypercalls they promise, and the dispatch of hypercalls.
 */
#ifndef LOCUM_PV_PV_H
#define LOCUM_PV_PV_H

#include <asm/kvm_para.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>

#include "base/types.h"

/** pv_features() - EAX of leaf 0x40000001 that we can serve
 * @tsc_stable: the clock's TSC may be trusted */
u32 pv_features(bool tsc_stable);

/**
 * pv_features_of() - the features a guest may use
 * @entries: the vCPU's CPUID
 * Return: EAX of the features leaf behind KVM's signature (base 0x40000000 or
 * above in steps of 0x100); 0 when there is none.
 */
u32 pv_features_of(const struct kvm_cpuid_entry2 *entries, unsigned n);

/** pv_msr_feature() - feature bit without which MSR @index does not exist
 * Return: bit number, or -1 if @index is no MSR of KVM's. */
int pv_msr_feature(u32 index);

/** struct pv_call - a hypercall's registers, and what it may do
 * @send_ipi:  returns the number of deliveries or -KVM_E*
 * @pairing:   KVM_HC_CLOCK_PAIRING
 * @kick:      KVM_HC_KICK_CPU; @yield: KVM_HC_SCHED_YIELD; NULL: -KVM_ENOSYS
 */
struct pv_call {
	u64 nr, a0, a1, a2, a3;
	bool long_mode;
	unsigned cpl;
	u32 features;	/* of the vCPU's CPUID; ~0 when not enforced */
	void *opaque;
	s64 (*send_ipi)(void *opaque, u64 low, u64 high, u32 min, u32 icr,
			bool long_mode);
	s64 (*pairing)(void *opaque, gpa_t gpa, u64 type);
	void (*kick)(void *opaque, u32 apic_id);
	void (*yield)(void *opaque, u32 apic_id);
};

/** pv_hypercall() - carry out a hypercall
 * Return: what RAX becomes (32 bits of it outside long mode). */
u64 pv_hypercall(const struct pv_call *call);

#endif
