/* SPDX-License-Identifier: MIT */
/*
 * Control registers and EFER: checks and side effects.
 * Source: SDM Vol. 3A "Control Registers", Vol. 2B "MOV—Move to/from Control
 * Registers"; APM Vol. 2 "System-Control Registers".
 */
#ifndef LOCUM_CPU_CR_H
#define LOCUM_CPU_CR_H

#include "cpu/state.h"

/** cr_write0(), cr_write3(), cr_write4() - MOV to CR0, CR3, CR4
 * Return: EMUL_CONTINUE, or EMUL_FAULT with #GP(0) and nothing changed. */
enum emul cr_write0(struct cpu *c, u64 v) must_check;
enum emul cr_write3(struct cpu *c, u64 v) must_check;
enum emul cr_write4(struct cpu *c, u64 v) must_check;

/** cr_write_efer() - WRMSR EFER (@host: KVM_SET_MSRS, LMA ignored, no CPUID check)
 * Return: false: #GP. */
bool cr_write_efer(struct cpu *c, u64 v, bool host) must_check;

/** cr4_allowed() - bits that CR4 may have under the vCPU's CPUID */
u64 cr4_allowed(const struct cpu *c);
/** efer_allowed() - likewise EFER */
u64 efer_allowed(const struct cpu *c);

/** cr_valid_sregs() - would KVM_SET_SREGS accept these?  EFER with LMA as given. */
bool cr_valid_sregs(const struct cpu *c, u64 cr0, u64 cr3, u64 cr4, u64 efer, bool cs_l);

/** cr_load_sregs() - store checked registers (KVM_SET_SREGS): flushes the TLB */
void cr_load_sregs(struct cpu *c, u64 cr0, u64 cr3, u64 cr4, u64 efer);

/** cpu_update_mode() - derive code_bits from EFER.LMA and CS; after any change */
void cpu_update_mode(struct cpu *c);

/** cpu_fence() - what a serialising instruction orders: a locked operation */
static inline void cpu_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#endif
