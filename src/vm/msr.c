/* SPDX-License-Identifier: MIT */
#include "vm/msr.h"

#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/msr.h"
#include "irq/lapic.h"
#include "pv/pv.h"
#include "vm/vm.h"

#define MSR_TSC	       0x10u
#define MSR_TSC_ADJUST 0x3bu
#define MSR_PLATFORM_INFO 0xceu

static bool is_apic(u32 index)
{
	return index == MSR_APIC_BASE || index == MSR_TSC_DEADLINE ||
	       (index >= MSR_X2APIC_FIRST && index <= MSR_X2APIC_LAST);
}

bool msr_is_ours(u32 index)
{
	return index == MSR_TSC || index == MSR_TSC_ADJUST ||
	       index == MSR_PLATFORM_INFO || is_apic(index) ||
	       pv_msr_feature(index) >= 0;
}

/* --- TSC --------------------------------------------------------------------- */

static enum msr_result write_tsc(struct vcpu *v, u64 value, bool host)
{
	struct cpu *c = &v->cpu;
	s64 before = c->tsc_offset;

	if (host) {
		pthread_mutex_lock(&v->vm->lock);
		c->tsc_offset = vm_sync_tsc(v->vm, v, value);
		pthread_mutex_unlock(&v->vm->lock);
	} else {
		c->tsc_offset += (s64)(value - vcpu_guest_tsc(v));
		/* A guest's write counts as an adjustment. */
		c->msr.tsc_adjust += (u64)(c->tsc_offset - before);
	}
	vcpu_tsc_changed(v);
	return MSR_OK;
}

static enum msr_result write_tsc_adjust(struct vcpu *v, u64 value, bool host)
{
	struct cpu *c = &v->cpu;

	if (!host && !cpuid_has(c->cpuid, CPUID_TSC_ADJUST))
		return MSR_UNKNOWN;
	/* The client restores the TSC itself: its value already contains this. */
	if (!host) {
		c->tsc_offset += (s64)(value - c->msr.tsc_adjust);
		vcpu_tsc_changed(v);
	}
	c->msr.tsc_adjust = value;
	return MSR_OK;
}

/* --- KVM's own ---------------------------------------------------------------- */

static bool pv_allowed(const struct vcpu *v, u32 index, bool host)
{
	return host || !v->pv_enforce || (v->pv_features >> pv_msr_feature(index) & 1);
}

static void write_system_time(struct vcpu *v, u64 value)
{
	struct kvmclock_tsc tsc = { v->tsc.clock.tsc_khz, v->cpu.tsc_offset };

	v->kvmclock.msr = value;
	kvmclock_update(&v->vm->kvmclock, &v->kvmclock, v->vm->mem, tsc);
}

static enum msr_result write_pv(struct vcpu *v, u32 index, u64 value, bool host)
{
	if (!pv_allowed(v, index, host))
		return MSR_UNKNOWN;
	switch (index) {
	case MSR_KVM_WALL_CLOCK:
	case MSR_KVM_WALL_CLOCK_NEW:
		v->wall_clock_msr = value;
		kvmclock_write_wall(&v->vm->kvmclock, v->vm->mem, value);
		return MSR_OK;
	case MSR_KVM_SYSTEM_TIME:
	case MSR_KVM_SYSTEM_TIME_NEW:
		write_system_time(v, value);
		return MSR_OK;
	case MSR_KVM_POLL_CONTROL:
		if (value & ~1ull)
			return MSR_INVALID;
		v->poll_control_msr = value;
		return MSR_OK;
	/* Not offered: a client may restore "off", a guest that did not look may
	 * turn them off, and nobody can turn them on. */
	case MSR_KVM_STEAL_TIME:
	case MSR_KVM_PV_EOI_EN:
	case MSR_KVM_ASYNC_PF_EN:
	case MSR_KVM_ASYNC_PF_INT:
		return value && !host ? MSR_INVALID : value & 1 ? MSR_INVALID : MSR_OK;
	default:
		return MSR_UNKNOWN;
	}
}

static enum msr_result read_pv(struct vcpu *v, u32 index, u64 *value, bool host)
{
	if (!pv_allowed(v, index, host))
		return MSR_UNKNOWN;
	switch (index) {
	case MSR_KVM_WALL_CLOCK:
	case MSR_KVM_WALL_CLOCK_NEW:
		*value = v->wall_clock_msr;
		return MSR_OK;
	case MSR_KVM_SYSTEM_TIME:
	case MSR_KVM_SYSTEM_TIME_NEW:
		*value = v->kvmclock.msr;
		return MSR_OK;
	case MSR_KVM_POLL_CONTROL:
		*value = v->poll_control_msr;
		return MSR_OK;
	case MSR_KVM_STEAL_TIME:
	case MSR_KVM_PV_EOI_EN:
	case MSR_KVM_ASYNC_PF_EN:
	case MSR_KVM_ASYNC_PF_INT:
	case MSR_KVM_ASYNC_PF_ACK:
		*value = 0;
		return MSR_OK;
	default:
		return MSR_UNKNOWN;
	}
}

/* --- APIC ---------------------------------------------------------------------- */

static enum msr_result read_apic(struct vcpu *v, u32 index, u64 *value)
{
	if (v->lapic)
		return lapic_msr_read(v->lapic, index, value) ? MSR_OK : MSR_INVALID;
	if (index == MSR_APIC_BASE) {
		*value = v->apic_base;
		return MSR_OK;
	}
	*value = 0;
	return index == MSR_TSC_DEADLINE ? MSR_OK : MSR_UNKNOWN;
}

static enum msr_result write_apic(struct vcpu *v, u32 index, u64 value, bool host)
{
	if (v->lapic) {
		if (!lapic_msr_write(v->lapic, index, value, host))
			return MSR_INVALID;
		vcpu_timer_sync(v);
		return MSR_OK;
	}
	if (index == MSR_APIC_BASE) {
		if (!apicbase_valid(v->apic_base, value,
				    cpuid_has(v->cpu.cpuid, CPUID_X2APIC),
				    v->cpu.mmu.maxphyaddr, host))
			return MSR_INVALID;
		v->apic_base = value;
		return MSR_OK;
	}
	return index == MSR_TSC_DEADLINE ? MSR_OK : MSR_UNKNOWN;
}

/* --- dispatch ------------------------------------------------------------------- */

enum msr_result msr_read_ours(struct vcpu *v, u32 index, u64 *value, bool host)
{
	switch (index) {
	case MSR_TSC:
		*value = vcpu_guest_tsc(v);
		return MSR_OK;
	case MSR_TSC_ADJUST:
		if (!host && !cpuid_has(v->cpu.cpuid, CPUID_TSC_ADJUST))
			return MSR_UNKNOWN;
		*value = v->cpu.msr.tsc_adjust;
		return MSR_OK;
	case MSR_PLATFORM_INFO:
		if (!host && atomic_load(&v->vm->hide_platform_info))
			return MSR_UNKNOWN;
		*value = v->cpu.msr.platform_info;
		return MSR_OK;
	}
	if (is_apic(index))
		return read_apic(v, index, value);
	return pv_msr_feature(index) >= 0 ? read_pv(v, index, value, host) : MSR_UNKNOWN;
}

enum msr_result msr_write_ours(struct vcpu *v, u32 index, u64 value, bool host)
{
	switch (index) {
	case MSR_TSC:
		return write_tsc(v, value, host);
	case MSR_TSC_ADJUST:
		return write_tsc_adjust(v, value, host);
	case MSR_PLATFORM_INFO:
		return cpu_msr_write(&v->cpu, index, value, host) == CPU_MSR_OK ? MSR_OK :
										  MSR_INVALID;
	}
	if (is_apic(index))
		return write_apic(v, index, value, host);
	return pv_msr_feature(index) >= 0 ? write_pv(v, index, value, host) : MSR_UNKNOWN;
}

/* --- the client's view ------------------------------------------------------------ */

bool msr_get(struct vcpu *v, u32 index, u64 *value)
{
	if (msr_is_ours(index))
		return msr_read_ours(v, index, value, true) == MSR_OK;
	return cpu_msr_read(&v->cpu, index, value, true) == CPU_MSR_OK;
}

bool msr_set(struct vcpu *v, u32 index, u64 value)
{
	if (msr_is_ours(index))
		return msr_write_ours(v, index, value, true) == MSR_OK;
	return cpu_msr_write(&v->cpu, index, value, true) == CPU_MSR_OK;
}

/* Beside the processor's own (which include TSC, TSC_ADJUST and the deadline). */
static const u32 pv_list[] = {
	MSR_KVM_WALL_CLOCK,	MSR_KVM_SYSTEM_TIME, MSR_KVM_WALL_CLOCK_NEW,
	MSR_KVM_SYSTEM_TIME_NEW,
};

unsigned msr_list(u32 *out, unsigned max)
{
	unsigned n = cpu_msr_list(out, max);

	for (unsigned i = 0; i < ARRAY_SIZE(pv_list); i++, n++)
		if (n < max)
			out[n] = pv_list[i];
	return MIN(n, max);
}

unsigned msr_feature_list(u32 *out, unsigned max)
{
	return MIN(cpu_msr_feature_list(out, max), max);
}

bool msr_feature_get(u32 index, u64 *value)
{
	return cpu_msr_feature(index, value);
}
