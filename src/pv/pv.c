/* SPDX-License-Identifier: MIT */
#include "pv/pv.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

#define PV_LEAF_STEP 0x100u
#define PV_LEAF_LAST 0x40010000u

u32 pv_features(bool tsc_stable)
{
	u32 f = BIT(KVM_FEATURE_CLOCKSOURCE) | BIT(KVM_FEATURE_NOP_IO_DELAY) |
		BIT(KVM_FEATURE_CLOCKSOURCE2) | BIT(KVM_FEATURE_PV_SEND_IPI);

	if (tsc_stable)
		f |= BIT(KVM_FEATURE_CLOCKSOURCE_STABLE_BIT);
	return f;
}

static const struct kvm_cpuid_entry2 *find(const struct kvm_cpuid_entry2 *e, unsigned n,
					   u32 function)
{
	for (unsigned i = 0; i < n; i++)
		if (e[i].function == function)
			return &e[i];
	return NULL;
}

static bool has_signature(const struct kvm_cpuid_entry2 *e)
{
	u32 sig[3] = { e->ebx, e->ecx, e->edx };

	return !memcmp(sig, KVM_SIGNATURE, sizeof(sig));
}

u32 pv_features_of(const struct kvm_cpuid_entry2 *entries, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		u32 base = entries[i].function;
		const struct kvm_cpuid_entry2 *leaf;

		if (base < KVM_CPUID_SIGNATURE || base >= PV_LEAF_LAST ||
		    base % PV_LEAF_STEP || !has_signature(&entries[i]))
			continue;
		leaf = find(entries, n, base | KVM_CPUID_FEATURES);
		return leaf ? leaf->eax : 0;
	}
	return 0;
}

int pv_msr_feature(u32 index)
{
	switch (index) {
	case MSR_KVM_WALL_CLOCK:
	case MSR_KVM_SYSTEM_TIME:
		return KVM_FEATURE_CLOCKSOURCE;
	case MSR_KVM_WALL_CLOCK_NEW:
	case MSR_KVM_SYSTEM_TIME_NEW:
		return KVM_FEATURE_CLOCKSOURCE2;
	case MSR_KVM_ASYNC_PF_EN:
		return KVM_FEATURE_ASYNC_PF;
	case MSR_KVM_STEAL_TIME:
		return KVM_FEATURE_STEAL_TIME;
	case MSR_KVM_PV_EOI_EN:
		return KVM_FEATURE_PV_EOI;
	case MSR_KVM_POLL_CONTROL:
		return KVM_FEATURE_POLL_CONTROL;
	case MSR_KVM_ASYNC_PF_INT:
	case MSR_KVM_ASYNC_PF_ACK:
		return KVM_FEATURE_ASYNC_PF_INT;
	case MSR_KVM_MIGRATION_CONTROL:
		return KVM_FEATURE_MIGRATION_CONTROL;
	default:
		return -1;
	}
}

static bool has_feature(const struct pv_call *c, unsigned bit)
{
	return c->features >> bit & 1;
}

static s64 dispatch(const struct pv_call *c)
{
	switch (c->nr) {
	case KVM_HC_VAPIC_POLL_IRQ:
		return 0;
	case KVM_HC_KICK_CPU:
		if (!has_feature(c, KVM_FEATURE_PV_UNHALT) || !c->kick)
			return -KVM_ENOSYS;
		c->kick(c->opaque, (u32)c->a1);
		return 0;
	case KVM_HC_CLOCK_PAIRING:
		return c->pairing ? c->pairing(c->opaque, c->a0, c->a1) : -KVM_ENOSYS;
	case KVM_HC_SEND_IPI:
		if (!has_feature(c, KVM_FEATURE_PV_SEND_IPI) || !c->send_ipi)
			return -KVM_ENOSYS;
		return c->send_ipi(c->opaque, c->a0, c->a1, (u32)c->a2, (u32)c->a3,
				   c->long_mode);
	case KVM_HC_SCHED_YIELD:
		if (!has_feature(c, KVM_FEATURE_PV_SCHED_YIELD) || !c->yield)
			return -KVM_ENOSYS;
		c->yield(c->opaque, (u32)c->a0);
		return 0;
	default:
		return -KVM_ENOSYS;
	}
}

u64 pv_hypercall(const struct pv_call *call)
{
	struct pv_call c = *call;
	s64 ret;

	if (!c.long_mode) {
		c.nr = (u32)c.nr;
		c.a0 = (u32)c.a0;
		c.a1 = (u32)c.a1;
		c.a2 = (u32)c.a2;
		c.a3 = (u32)c.a3;
	}
	ret = c.cpl ? -KVM_EPERM : dispatch(&c);
	return c.long_mode ? (u64)ret : (u32)ret;
}
