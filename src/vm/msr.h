/* SPDX-License-Identifier: MIT */
/*
 * MSRs that need more than the processor: TSC, APIC, KVM's own; and the
 * client's view of all MSRs (KVM_GET_MSRS, KVM_SET_MSRS, the lists).
 */
#ifndef LOCUM_VM_MSR_H
#define LOCUM_VM_MSR_H

#include "vm/vcpu.h"

#define MSR_LIST_MAX 256

/** enum msr_result - @MSR_UNKNOWN: no such MSR; @MSR_INVALID: refused value */
enum msr_result { MSR_OK, MSR_UNKNOWN, MSR_INVALID };

/** msr_is_ours() - @index is handled here although the processor has it too:
 * its writes move time or interrupts */
bool msr_is_ours(u32 index);

/** msr_read_ours(), msr_write_ours() - by the guest, or by the client (@host)
 * MSR_UNKNOWN for everything that is the processor's alone. */
enum msr_result msr_read_ours(struct vcpu *v, u32 index, u64 *value, bool host);
enum msr_result msr_write_ours(struct vcpu *v, u32 index, u64 value, bool host);

/** msr_get(), msr_set() - any MSR, by the client.  Return: false: refused. */
bool msr_get(struct vcpu *v, u32 index, u64 *value);
bool msr_set(struct vcpu *v, u32 index, u64 value);

/** msr_list() - KVM_GET_MSR_INDEX_LIST
 * @out: room for @max indices.  Return: how many were stored. */
unsigned msr_list(u32 *out, unsigned max);

/** msr_feature_list() - KVM_GET_MSR_FEATURE_INDEX_LIST, likewise */
unsigned msr_feature_list(u32 *out, unsigned max);

/** msr_feature_get() - value of a feature MSR.  Return: false: no such one. */
bool msr_feature_get(u32 index, u64 *value);

#endif
