/* SPDX-License-Identifier: MIT */
/*
 * CPUID: the vCPU's table, and what a table may offer.
 */
#ifndef LOCUM_CPU_CPUID_H
#define LOCUM_CPU_CPUID_H

#include <linux/kvm.h>

#include "cpu/state.h"
#include "x86/cpuid.h"

#define CPUID_MAX_ENTRIES 256

/** struct cpuid_table - as the client set it, with the feature words drawn out */
struct cpuid_table {
	u32 n;
	u32 word[CW_COUNT];
	u32 xcr0; /* components that XCR0 may have, low half */
	struct kvm_cpuid_entry2 entry[CPUID_MAX_ENTRIES];
};

/** cpuid_has() - feature CPUID_* (x86/cpuid.h) is in table @t */
static inline bool cpuid_has(const struct cpuid_table *t, unsigned feature)
{
	return t->word[feature / 32] >> (feature % 32) & 1;
}

/** cpuid_has_feature() - feature FEAT_* (decode/features.def) is in @t */
bool cpuid_has_feature(const struct cpuid_table *t, unsigned feature);

/** cpu_disabled_quirks() - KVM_X86_QUIRK_* that do not hold */
static inline u64 cpu_disabled_quirks(const struct cpu *c)
{
	return c->ops && c->ops->disabled_quirks ? c->ops->disabled_quirks(c) : 0;
}

/** cpuid_has_mwait() - MONITOR and MWAIT are offered: by the table, or, without
 * KVM_X86_QUIRK_MISC_ENABLE_NO_MWAIT, by bit 18 of MISC_ENABLE */
bool cpuid_has_mwait(const struct cpu *c);

/** cpuid_entries() - the table's entries; they live as long as the table.
 * Return: how many. */
unsigned cpuid_entries(const struct cpuid_table *t, const struct kvm_cpuid_entry2 **entries);

/**
 * cpuid_set() - KVM_SET_CPUID2: copy @n entries and derive what follows from
 * them: vendor, MAXPHYADDR, 1G pages, XCR0 mask
 * Return: 0; -E2BIG above CPUID_MAX_ENTRIES; -EINVAL for a virtual address
 * width other than 48 (or 57 or 0); -EPERM for AMX tile data in leaf 0xD.
 */
int cpuid_set(struct cpu *c, const struct kvm_cpuid_entry2 *entry, unsigned n) must_check;

/** cpuid_signature() - EAX of leaf 1, which EDX holds after reset and INIT; family
 * 6 as long as there is none, as KVM */
u32 cpuid_signature(const struct cpuid_table *t);

/** cpuid_xcr0_ok() - may XCR0 be @v?  x87 always, AVX needs SSE, nothing that
 * leaf 0xD of @t does not have (XSETBV, KVM_SET_XCRS) */
bool cpuid_xcr0_ok(const struct cpuid_table *t, u64 v);

/** cpuid_dynamic() - fill in what depends on state in a copy of the table:
 * OSXSAVE, APIC, XSAVE area sizes (KVM_GET_CPUID2) */
void cpuid_dynamic(const struct cpu *c, struct kvm_cpuid_entry2 *e);

/** cpuid_query() - what the CPUID instruction answers
 * @reg: EAX, EBX, ECX, EDX in this order */
void cpuid_query(const struct cpu *c, u32 leaf, u32 subleaf, u32 reg[4]);

/** struct cpuid_offer - what GET_SUPPORTED_CPUID depends on beside the host
 * @vendor: -1 the host's, else enum decode_vendor
 * @pv_features: EAX of 0x40000001
 * @tsc_khz: of the guest; @tsc_stable: INVTSC may be offered */
struct cpuid_offer {
	int vendor;
	u32 pv_features;
	u32 tsc_khz;
	bool tsc_stable;
};

/** cpuid_supported() - KVM_GET_SUPPORTED_CPUID: at most 80 entries
 * @out: room for @max.  Return: how many there are (may exceed @max). */
unsigned cpuid_supported(const struct cpuid_offer *offer, struct kvm_cpuid_entry2 *out,
			 unsigned max);

#endif
