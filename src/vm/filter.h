/* SPDX-License-Identifier: MIT */
/*
 * MSR accesses that the client wants to see or to forbid
 * (KVM_CAP_X86_USER_SPACE_MSR, KVM_X86_SET_MSR_FILTER).
 */
#ifndef LOCUM_VM_FILTER_H
#define LOCUM_VM_FILTER_H

#include <linux/kvm.h>

#include "base/bits.h"

/** struct msr_filter - immutable once published
 * @default_allow: what holds for an MSR in no range
 * @range: copies of the client's; @bitmap: a bit per MSR, 1 = allowed */
struct msr_filter {
	bool default_allow;
	u32 count;
	struct msr_filter_range {
		u32 flags; /* KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE */
		u32 base, nmsrs;
		u8 *bitmap;
	} range[KVM_MSR_FILTER_MAX_RANGES];
	struct msr_filter *next_old; /* replaced filters wait for the VM's end */
};

/**
 * msr_filter_create() - a filter from the client's description
 * @in:   ranges whose `bitmap` pointers already point to our copies of
 *        (nmsrs + 7) / 8 bytes; these are copied again
 * @out:  receives the filter; NULL inside means "allow everything"
 * Return: 0, -EINVAL, -ENOMEM.
 */
int msr_filter_create(const struct kvm_msr_filter *in, struct msr_filter **out) must_check;
void msr_filter_destroy(struct msr_filter *f);

/** msr_filter_allows() - may the guest read (write) MSR @index?
 * x2APIC MSRs are never filtered.  @f may be NULL. */
bool msr_filter_allows(const struct msr_filter *f, u32 index, bool write);

#endif
