/* SPDX-License-Identifier: MIT */
/*
 * Whether x87, MMX and SSE instructions may run now: #UD, #NM, #MF.
 * Source: SDM Vol. 3A "Providing Operating System Support for SSE Extensions",
 * table "Action Taken for Combinations of OSFXSR, ... EM, MP, TS"; APM Vol. 2
 * "CR0 Register", "Enabling SSE instructions".
 */
#ifndef LOCUM_CPU_FP_CHECK_H
#define LOCUM_CPU_FP_CHECK_H

#include "cpu/fp.h"

/* CR0.NE=0 reports errors through a pin and the PIC on hardware.  As on KVM,
 * #MF is raised whatever NE says. */
static always_inline enum emul fp_check_pending(struct cpu *c)
{
	if (unlikely(cpu_fp(c)->fsw & FSW_ES))
		return cpu_raise(c, EXC_MF, 0);
	return EMUL_CONTINUE;
}

static always_inline enum emul fp_check_sse(struct cpu *c)
{
	if (unlikely((c->mmu.cr0 & CR0_EM) || !(c->mmu.cr4 & CR4_OSFXSR)))
		return cpu_ud(c);
	if (unlikely(c->mmu.cr0 & CR0_TS))
		return cpu_raise(c, EXC_NM, 0);
	return EMUL_CONTINUE;
}

/** fp_check_avx() - VEX-encoded vector instructions (SDM Vol. 2A "Exception
 * Classifications of VEX-Encoded Instructions"); CR0.EM and OSFXSR do not matter */
static always_inline enum emul fp_check_avx(struct cpu *c)
{
	if (unlikely(!(c->mmu.cr4 & CR4_OSXSAVE) ||
		     (c->xcr0 & (XFEATURE_SSE | XFEATURE_AVX)) !=
			     (XFEATURE_SSE | XFEATURE_AVX)))
		return cpu_ud(c);
	if (unlikely(c->code_bits != 64) &&
	    (!(c->mmu.cr0 & CR0_PE) || (c->rflags & RF_VM)))
		return cpu_ud(c);
	if (unlikely(c->mmu.cr0 & CR0_TS))
		return cpu_raise(c, EXC_NM, 0);
	return EMUL_CONTINUE;
}

static always_inline enum emul fp_check_mmx(struct cpu *c)
{
	if (unlikely(c->mmu.cr0 & CR0_EM))
		return cpu_ud(c);
	if (unlikely(c->mmu.cr0 & CR0_TS))
		return cpu_raise(c, EXC_NM, 0);
	return fp_check_pending(c);
}

/** fp_check_x87() - ESC instructions; @waiting: all but FNINIT, FNSTCW ... */
static always_inline enum emul fp_check_x87(struct cpu *c, bool waiting)
{
	if (unlikely(c->mmu.cr0 & (CR0_EM | CR0_TS)))
		return cpu_raise(c, EXC_NM, 0);
	return waiting ? fp_check_pending(c) : EMUL_CONTINUE;
}

#endif
