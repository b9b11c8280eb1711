/* SPDX-License-Identifier: MIT */
/*
 * FXSAVE, FXRSTOR, MXCSR, XCR0.
 * Source: SDM Vol. 1 "Managing State Using the XSAVE Feature Set"; APM Vol. 5
 * FXSAVE for what AMD leaves out.
 */
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/fp_area.h"
#include "cpu/fp_check.h"
#include "cpu/fp_vec.h"
#include "cpu/operand.h"

#define FXSAVE_ALIGN 16

/* --- FXSAVE, FXRSTOR ----------------------------------------------------------- */

/* AMD's fast form at CPL 0 leaves the XMM registers out. */
static bool fx_has_xmm(const struct cpu *c)
{
	bool fast = (c->mmu.efer & EFER_FFXSR) && c->mmu.cpl == 0 && c->code_bits == 64;

	return (c->mmu.cr4 & CR4_OSFXSR) && !fast;
}

static enum emul fx_begin(struct cpu *c, const struct insn *i, bool write, gva_t *lin)
{
	enum emul r = fp_check_x87(c, false);

	if (r == EMUL_CONTINUE)
		r = mem_linear(c, i, FP_LEGACY_SIZE, write, lin);
	if (r == EMUL_CONTINUE)
		r = fp_area_check_ac(c, i, *lin);
	if (r == EMUL_CONTINUE)
		r = fp_area_linear(c, i, FP_LEGACY_SIZE, FXSAVE_ALIGN, write, lin);
	if (r == EMUL_CONTINUE)
		r = fp_area_probe(c, i, FP_LEGACY_SIZE - 1, write);
	if (r == EMUL_CONTINUE)
		r = fp_area_probe(c, i, 0, write);
	return r;
}

static enum emul op_fxsave(struct cpu *c, const struct insn *i)
{
	struct fp_image f;
	gva_t lin;
	enum emul r = fx_begin(c, i, true, &lin);

	if (r != EMUL_CONTINUE)
		return r;
	fp_area_compose(c, i->rex & 8, &f);
	return mmu_write(&c->mmu, lin, &f,
			 (unsigned)offsetof(struct fp_image, xmm) +
				 (fx_has_xmm(c) ? fp_area_xmm_bytes(c) : 0),
			 insn_acc(i));
}

static enum emul op_fxrstor(struct cpu *c, const struct insn *i)
{
	struct fp_image in, *f = cpu_fp(c);
	gva_t lin;
	enum emul r = fx_begin(c, i, false, &lin);

	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin, &in, FP_LEGACY_SIZE, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	if (c->mmu.cr4 & CR4_OSFXSR) {
		if (in.mxcsr & ~fp_mxcsr_mask(c))
			return cpu_gp(c, 0);
		f->mxcsr = in.mxcsr;
	}
	if (fx_has_xmm(c))
		memcpy(f->xmm, in.xmm, fp_area_xmm_bytes(c));
	fp_area_load_x87(f, &in, i->rex & 8);
	return EMUL_CONTINUE;
}

/* --- registers -------------------------------------------------------------------- */

/* ECX=1, where offered: the components in use. */
static enum emul op_xgetbv(struct cpu *c, const struct insn *i)
{
	u32 index = (u32)c->gpr[R_RCX];
	u64 v = c->xcr0;

	(void)i;
	if (!(c->mmu.cr4 & CR4_OSXSAVE))
		return cpu_ud(c);
	if (index == 1 && cpuid_has(c->cpuid, CPUID_XGETBV1))
		v &= fp_in_use_compact(cpu_fp(c));
	else if (index != 0)
		return cpu_gp(c, 0);
	c->gpr[R_RAX] = (u32)v;
	c->gpr[R_RDX] = v >> 32;
	return EMUL_CONTINUE;
}

static enum emul op_xsetbv(struct cpu *c, const struct insn *i)
{
	u64 v = (u64)(u32)c->gpr[R_RDX] << 32 | (u32)c->gpr[R_RAX];

	(void)i;
	if (!(c->mmu.cr4 & CR4_OSXSAVE))
		return cpu_ud(c);
	if (c->mmu.cpl != 0 || (u32)c->gpr[R_RCX] != 0 || !cpuid_xcr0_ok(c->cpuid, v))
		return cpu_gp(c, 0);
	c->xcr0 = v;
	return EMUL_END;
}

static enum emul op_ldmxcsr(struct cpu *c, const struct insn *i)
{
	enum emul r = vec_check_vex(c, i);
	u64 v;

	if (r == EMUL_CONTINUE)
		r = memop_read(c, i, 4, &v);
	if (r != EMUL_CONTINUE)
		return r;
	if (v & ~(u64)fp_mxcsr_mask(c))
		return cpu_gp(c, 0);
	cpu_fp(c)->mxcsr = (u32)v;
	return EMUL_CONTINUE;
}

static enum emul op_stmxcsr(struct cpu *c, const struct insn *i)
{
	enum emul r = vec_check_vex(c, i);

	return r == EMUL_CONTINUE ? memop_write(c, i, 4, cpu_fp(c)->mxcsr) : r;
}

op_fn state_select(const struct insn *i)
{
	switch (i->op) {
	case OP_FXSAVE:
		return op_fxsave;
	case OP_FXRSTOR:
		return op_fxrstor;
	case OP_XGETBV:
		return op_xgetbv;
	case OP_XSETBV:
		return op_xsetbv;
	case OP_LDMXCSR:
	case OP_VLDMXCSR:
		return op_ldmxcsr;
	case OP_STMXCSR:
	case OP_VSTMXCSR:
		return op_stmxcsr;
	default:
		return NULL;
	}
}
