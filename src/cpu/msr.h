/* SPDX-License-Identifier: MIT */
/*
 * MSRs that belong to the processor alone.  TSC, APIC and KVM's own are the
 * owner's (cpu/ops.h).
 */
#ifndef LOCUM_CPU_MSR_H
#define LOCUM_CPU_MSR_H

#include "cpu/state.h"
#include "x86/msr.h"

/** enum cpu_msr - @CPU_MSR_UNKNOWN: not here; @CPU_MSR_INVALID: refused */
enum cpu_msr { CPU_MSR_OK, CPU_MSR_UNKNOWN, CPU_MSR_INVALID };

/** cpu_msr_read(), cpu_msr_write() - by the guest, or by the client (@host),
 * who may see and set what a guest without the feature may not.  The vCPU's
 * thread, or its mutex held. */
enum cpu_msr cpu_msr_read(struct cpu *c, u32 index, u64 *value, bool host);
enum cpu_msr cpu_msr_write(struct cpu *c, u32 index, u64 value, bool host);

/** cpu_msr_vendor() - c->vendor was set: what is reset by it and was not changed */
void cpu_msr_vendor(struct cpu *c);

/** cpu_msr_list() - numbers for KVM_GET_MSR_INDEX_LIST; return: how many */
unsigned cpu_msr_list(u32 *out, unsigned max);

/** cpu_msr_feature_list() - numbers for KVM_GET_MSR_FEATURE_INDEX_LIST */
unsigned cpu_msr_feature_list(u32 *out, unsigned max);
/** cpu_msr_feature() - value of a feature MSR; false: no such one */
bool cpu_msr_feature(u32 index, u64 *value);

#endif
