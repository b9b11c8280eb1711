/* SPDX-License-Identifier: MIT */
/*
 * FXSAVE, XSAVE and their kin, MXCSR, XCR0.
 *
 * The images are composed in a buffer and written in the ranges that the
 * instruction writes; the whole operand is probed first, in the order in which
 * processors report its pages.
 * Source: SDM Vol. 1 "Managing State Using the XSAVE Feature Set"; APM Vol. 2
 * "XSAVE/XRSTOR Instructions", and Vol. 5 FXSAVE for what AMD leaves out.
 */
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/fp_check.h"
#include "cpu/fp_image.h"
#include "cpu/fp_vec.h"
#include "cpu/operand.h"

#define XSAVE_ALIGN   64
#define FXSAVE_ALIGN  16
#define XSAVE_BYTES   (FP_LEGACY_SIZE + FP_HEADER_SIZE)
#define XMM_OFFSET    offsetof(struct fp_image, xmm)
#define MXCSR_OFFSET  offsetof(struct fp_image, mxcsr)
#define HEADER_OFFSET FP_LEGACY_SIZE

static unsigned xmm_bytes(const struct cpu *c)
{
	return c->code_bits == 64 ? 16 * 16 : 8 * 16;
}

/* Address of @i's image; checks alignment. */
static enum emul image_linear(struct cpu *c, const struct insn *i, unsigned n,
			      unsigned align, bool write, gva_t *lin)
{
	enum emul r = mem_linear(c, i, n, write, lin);

	if (r != EMUL_CONTINUE)
		return r;
	return *lin & (align - 1) ? cpu_gp(c, 0) : EMUL_CONTINUE;
}

/* Can byte @off of the image be accessed?  Its address is formed from the operand's
 * effective address, so that it wraps in the address size. */
static enum emul image_probe(struct cpu *c, const struct insn *i, unsigned off,
			     bool write)
{
	u64 ea = insn_ea(c, i) + off;
	gva_t at;
	enum emul r;

	if (i->adsize != 8)
		ea &= i->adsize == 4 ? 0xffffffffull : 0xffffull;
	r = mem_linear_at(c, i, ea, 1, write, &at);
	if (r != EMUL_CONTINUE)
		return r;
	return write ? mmu_probe_write(&c->mmu, at, 1, insn_acc(i))
		     : mmu_probe_read(&c->mmu, at, 1, insn_acc(i));
}

/* The x87 part as the vendor's FXSAVE shows it: AMD hides the pointers while
 * no exception is pending.  @wide: REX.W, 64-bit pointers. */
static void image_compose(struct cpu *c, bool wide, struct fp_image *out)
{
	*out = *cpu_fp(c);
	out->mxcsr_mask = fp_mxcsr_mask(c);
	if (c->vendor == VENDOR_AMD && !(out->fsw & FSW_ES)) {
		out->fip = out->fdp = out->fop = 0;
	} else if (!wide) {
		out->fip = (u32)out->fip | (u64)out->fcs << 32;
		out->fdp = (u32)out->fdp | (u64)out->fds << 32;
	}
}

/* Load the x87 part of @in; @wide as above. */
static void image_load_x87(struct fp_image *f, const struct fp_image *in, bool wide)
{
	f->fcw = in->fcw;
	f->fsw = in->fsw;
	f->ftw = in->ftw;
	f->fop = in->fop;
	f->fip = wide ? fp_image_pointer(in->fip) : (u32)in->fip;
	f->fdp = wide ? fp_image_pointer(in->fdp) : (u32)in->fdp;
	f->fcs = wide ? 0 : (u16)(in->fip >> 32);
	f->fds = wide ? 0 : (u16)(in->fdp >> 32);
	memcpy(f->st, in->st, sizeof(f->st));
	fp_image_normalise_x87(f);
}

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
	/* Unlike the vector moves: a non-canonical address before alignment. */
	if (r == EMUL_CONTINUE && cpu_long_mode(c) &&
	    !(addr_is_canonical(*lin) && addr_is_canonical(*lin + 7)))
		return cpu_raise(c, i->flags & INSN_STACK ? EXC_SS : EXC_GP, 0);
	if (r == EMUL_CONTINUE)
		r = image_linear(c, i, FP_LEGACY_SIZE, FXSAVE_ALIGN, write, lin);
	if (r == EMUL_CONTINUE)
		r = image_probe(c, i, FP_LEGACY_SIZE - 1, write);
	if (r == EMUL_CONTINUE)
		r = image_probe(c, i, 0, write);
	return r;
}

static enum emul op_fxsave(struct cpu *c, const struct insn *i)
{
	struct fp_image f;
	gva_t lin;
	enum emul r = fx_begin(c, i, true, &lin);

	if (r != EMUL_CONTINUE)
		return r;
	image_compose(c, i->rex & 8, &f);
	return mmu_write(&c->mmu, lin, &f,
			 (unsigned)XMM_OFFSET + (fx_has_xmm(c) ? xmm_bytes(c) : 0),
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
		memcpy(f->xmm, in.xmm, xmm_bytes(c));
	image_load_x87(f, &in, i->rex & 8);
	return EMUL_CONTINUE;
}

/* --- XSAVE, XRSTOR --------------------------------------------------------------- */

static enum emul xs_begin(struct cpu *c, const struct insn *i, bool write, gva_t *lin)
{
	if (!(c->mmu.cr4 & CR4_OSXSAVE))
		return cpu_ud(c);
	if (c->mmu.cr0 & CR0_TS)
		return cpu_raise(c, EXC_NM, 0);
	return image_linear(c, i, XSAVE_BYTES, XSAVE_ALIGN, write, lin);
}

/* The components that the instruction is asked for. */
static u64 xs_requested(const struct cpu *c)
{
	return c->xcr0 & ((u64)(u32)c->gpr[R_RDX] << 32 | (u32)c->gpr[R_RAX]);
}

static enum emul xs_put(struct cpu *c, const struct insn *i, gva_t lin,
			const struct fp_image *f, size_t offset, size_t n)
{
	return mmu_write(&c->mmu, lin + offset, (const u8 *)f + offset, (unsigned)n,
			 insn_acc(i));
}

/* Write the components in @parts, MXCSR if @mxcsr, and the header's XSTATE_BV. */
static enum emul xs_write(struct cpu *c, const struct insn *i, gva_t lin,
			  const struct fp_image *f, u64 parts, bool mxcsr)
{
	enum emul r = EMUL_CONTINUE;

	if (parts & XFEATURE_X87) {
		r = xs_put(c, i, lin, f, 0, MXCSR_OFFSET);
		if (r == EMUL_CONTINUE)
			r = xs_put(c, i, lin, f, offsetof(struct fp_image, st),
				   sizeof(f->st));
	}
	if (r == EMUL_CONTINUE && mxcsr)
		r = xs_put(c, i, lin, f, MXCSR_OFFSET, 8);
	if (r == EMUL_CONTINUE && (parts & XFEATURE_SSE))
		r = xs_put(c, i, lin, f, XMM_OFFSET, xmm_bytes(c));
	if (r == EMUL_CONTINUE)
		r = xs_put(c, i, lin, f, HEADER_OFFSET, 8);
	return r;
}

static enum emul xs_save(struct cpu *c, const struct insn *i, bool opt)
{
	u64 asked = xs_requested(c), used = fp_image_in_use(cpu_fp(c)), old;
	struct fp_image f;
	gva_t lin;
	enum emul r = xs_begin(c, i, true, &lin);

	if (r == EMUL_CONTINUE)
		r = image_probe(c, i, 0, true);
	if (r == EMUL_CONTINUE)
		r = image_probe(c, i, XSAVE_BYTES - 1, true);
	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin + HEADER_OFFSET, &old, 8, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	image_compose(c, i->rex & 8, &f);
	f.xstate_bv = (old & ~asked) | (used & asked);
	return xs_write(c, i, lin, &f, opt ? asked & used : asked,
			asked & (XFEATURE_SSE | XFEATURE_AVX));
}

static enum emul op_xsave(struct cpu *c, const struct insn *i)
{
	return xs_save(c, i, false);
}

static enum emul op_xsaveopt(struct cpu *c, const struct insn *i)
{
	return xs_save(c, i, true);
}

/* Is the header one that XRSTOR takes?  Compacted images need XSAVEC, which is
 * not offered. */
static bool xs_header_ok(const struct cpu *c, const struct fp_image *in)
{
	return !in->xcomp_bv && !in->reserved2[0] && !(in->xstate_bv & ~c->xcr0);
}

static enum emul op_xrstor(struct cpu *c, const struct insn *i)
{
	u64 asked = xs_requested(c);
	bool mxcsr = asked & (XFEATURE_SSE | XFEATURE_AVX);
	struct fp_image in, *f = cpu_fp(c);
	gva_t lin;
	enum emul r = xs_begin(c, i, false, &lin);

	if (r == EMUL_CONTINUE)
		r = image_probe(c, i, 0, false);
	if (r == EMUL_CONTINUE)
		r = image_probe(c, i, HEADER_OFFSET, false);
	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin, &in, XSAVE_BYTES, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	if (!xs_header_ok(c, &in) || (mxcsr && (in.mxcsr & ~fp_mxcsr_mask(c))))
		return cpu_gp(c, 0);
	if (asked & in.xstate_bv & XFEATURE_X87)
		image_load_x87(f, &in, i->rex & 8);
	else if (asked & XFEATURE_X87)
		fp_image_init_x87(f);
	if (asked & in.xstate_bv & XFEATURE_SSE)
		memcpy(f->xmm, in.xmm, xmm_bytes(c));
	else if (asked & XFEATURE_SSE)
		memset(f->xmm, 0, xmm_bytes(c));
	if (mxcsr)
		f->mxcsr = in.mxcsr;
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
		v &= fp_image_in_use(cpu_fp(c));
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
	if (c->mmu.cpl != 0 || (u32)c->gpr[R_RCX] != 0)
		return cpu_gp(c, 0);
	if (!(v & XFEATURE_X87) || (v & ~(u64)c->cpuid->xcr0))
		return cpu_gp(c, 0);
	c->xcr0 = v;
	return EMUL_END;
}

static enum emul op_ldmxcsr(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_sse(c);
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
	enum emul r = fp_check_sse(c);

	return r == EMUL_CONTINUE ? memop_write(c, i, 4, cpu_fp(c)->mxcsr) : r;
}

op_fn state_select(const struct insn *i)
{
	switch (i->op) {
	case OP_FXSAVE:
		return op_fxsave;
	case OP_FXRSTOR:
		return op_fxrstor;
	case OP_XSAVE:
		return op_xsave;
	case OP_XSAVEOPT:
		return op_xsaveopt;
	case OP_XRSTOR:
		return op_xrstor;
	case OP_XGETBV:
		return op_xgetbv;
	case OP_XSETBV:
		return op_xsetbv;
	case OP_LDMXCSR:
		return op_ldmxcsr;
	case OP_STMXCSR:
		return op_stmxcsr;
	default:
		return NULL;
	}
}
