/* SPDX-License-Identifier: MIT */
/*
 * XSAVE, XSAVEOPT, XSAVEC, XSAVES, XRSTOR, XRSTORS.
 *
 * Components 0..2 alone exist, so that the compacted format has the layout of the
 * standard one: AVX, when it is there, follows the header in both.
 * Source: SDM Vol. 1 "Managing State Using the XSAVE Feature Set", sections
 * "Operation of XSAVE" to "Operation of XRSTORS"; APM Vol. 2 "XSAVE/XRSTOR
 * Instructions".  What they leave to the processor follows AMD's Zen 5, measured.
 */
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/fp_area.h"
#include "cpu/fp_vec.h"
#include "cpu/operand.h"

#define XSAVE_ALIGN   64
#define XMM_OFFSET    offsetof(struct fp_image, xmm)
#define MXCSR_OFFSET  offsetof(struct fp_image, mxcsr)
#define HEADER_OFFSET FP_LEGACY_SIZE
#define AVX_OFFSET    offsetof(struct fp_image, ymmh)

/* XCOMP_BV: the image is compacted. */
#define XCOMP_COMPACTED BIT64(63)

enum form { STANDARD, OPTIMISED, COMPACTED, SUPERVISOR };

static enum emul xs_begin(struct cpu *c, const struct insn *i, enum form form, bool write,
			  gva_t *lin)
{
	enum emul r;

	if (!(c->mmu.cr4 & CR4_OSXSAVE))
		return cpu_ud(c);
	if (form == SUPERVISOR && c->mmu.cpl)
		return cpu_gp(c, 0);
	if (c->mmu.cr0 & CR0_TS)
		return cpu_raise(c, EXC_NM, 0);
	r = mem_linear(c, i, 8, write, lin);
	if (r == EMUL_CONTINUE && c->vendor == VENDOR_INTEL)
		r = fp_area_check_ac(c, i, *lin);
	if (r != EMUL_CONTINUE)
		return r;
	return fp_area_linear(c, i, FP_LEGACY_SIZE + FP_HEADER_SIZE, XSAVE_ALIGN, write, lin);
}

/* The components that @form manages. */
static u64 xs_enabled(const struct cpu *c, enum form form)
{
	return c->xcr0 | (form == SUPERVISOR ? c->msr.xss : 0);
}

/* Those that the instruction is asked for: the manual's RFBM. */
static u64 xs_requested(const struct cpu *c, enum form form)
{
	return xs_enabled(c, form) & ((u64)(u32)c->gpr[R_RDX] << 32 | (u32)c->gpr[R_RAX]);
}

/* Last byte of an image that has @parts. */
static unsigned xs_last(const struct cpu *c, u64 parts)
{
	if (parts & XFEATURE_AVX)
		return (unsigned)AVX_OFFSET + fp_area_xmm_bytes(c) - 1;
	return FP_LEGACY_SIZE + FP_HEADER_SIZE - 1;
}

/* First byte of it that is stored. */
static unsigned xs_first(enum form form, u64 parts)
{
	u64 mxcsr = form >= COMPACTED ? XFEATURE_SSE : XFEATURE_SSE | XFEATURE_AVX;

	if (parts & XFEATURE_X87)
		return 0;
	return parts & mxcsr ? MXCSR_OFFSET : HEADER_OFFSET;
}

/* --- saving ----------------------------------------------------------------------- */

static enum emul xs_put(struct cpu *c, const struct insn *i, gva_t lin,
			const struct fp_image *f, size_t offset, size_t n)
{
	return mmu_write(&c->mmu, lin + offset, (const u8 *)f + offset, (unsigned)n,
			 insn_acc(i));
}

/* Write the components in @parts, MXCSR if @mxcsr, and @header bytes of the header. */
static enum emul xs_write(struct cpu *c, const struct insn *i, gva_t lin,
			  const struct fp_image *f, u64 parts, bool mxcsr, unsigned header)
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
		r = xs_put(c, i, lin, f, XMM_OFFSET, fp_area_xmm_bytes(c));
	if (r == EMUL_CONTINUE && (parts & XFEATURE_AVX))
		r = xs_put(c, i, lin, f, AVX_OFFSET, fp_area_xmm_bytes(c));
	if (r == EMUL_CONTINUE)
		r = xs_put(c, i, lin, f, HEADER_OFFSET, header);
	return r;
}

static enum emul save_begin(struct cpu *c, const struct insn *i, enum form form, u64 parts,
			    gva_t *lin)
{
	enum emul r = xs_begin(c, i, form, true, lin);

	/* Each maker's order, as measured: it shows in the address that a fault names. */
	if (r == EMUL_CONTINUE && c->vendor == VENDOR_INTEL) {
		r = fp_area_probe(c, i, xs_last(c, parts), true);
		return r == EMUL_CONTINUE ? fp_area_probe(c, i, xs_first(form, parts), true) : r;
	}
	if (r == EMUL_CONTINUE)
		r = fp_area_probe(c, i, 0, true);
	if (r == EMUL_CONTINUE)
		r = fp_area_probe(c, i, xs_last(c, parts), true);
	return r;
}

static enum emul save_standard(struct cpu *c, const struct insn *i, enum form form)
{
	u64 asked = xs_requested(c, form), used = fp_image_in_use(cpu_fp(c)), old;
	u64 parts = form == OPTIMISED ? asked & used : asked;
	struct fp_image f;
	gva_t lin;
	enum emul r = save_begin(c, i, form, asked, &lin);

	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin + HEADER_OFFSET, &old, 8, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	fp_area_compose(c, i->rex & 8, &f);
	f.xstate_bv = (old & ~asked) | (used & asked);
	return xs_write(c, i, lin, &f, parts, asked & (XFEATURE_SSE | XFEATURE_AVX), 8);
}

static enum emul save_compacted(struct cpu *c, const struct insn *i, enum form form)
{
	u64 asked = xs_requested(c, form), parts = asked & fp_in_use_compact(cpu_fp(c));
	struct fp_image f;
	gva_t lin;
	enum emul r = save_begin(c, i, form, asked, &lin);

	if (r != EMUL_CONTINUE)
		return r;
	fp_area_compose(c, i->rex & 8, &f);
	f.xstate_bv = parts;
	f.xcomp_bv = asked | XCOMP_COMPACTED;
	return xs_write(c, i, lin, &f, parts, parts & XFEATURE_SSE, 16);
}

static enum emul op_xsave(struct cpu *c, const struct insn *i)
{
	return save_standard(c, i, STANDARD);
}

static enum emul op_xsaveopt(struct cpu *c, const struct insn *i)
{
	return save_standard(c, i, OPTIMISED);
}

static enum emul op_xsavec(struct cpu *c, const struct insn *i)
{
	return save_compacted(c, i, COMPACTED);
}

static enum emul op_xsaves(struct cpu *c, const struct insn *i)
{
	return save_compacted(c, i, SUPERVISOR);
}

/* --- restoring -------------------------------------------------------------------- */

/* Is the header one that XRSTOR takes, or XRSTORS? */
static bool header_ok(const struct cpu *c, const struct fp_image *in, enum form form)
{
	u64 enabled = xs_enabled(c, form), has = in->xcomp_bv & ~XCOMP_COMPACTED;

	if (!(in->xcomp_bv & XCOMP_COMPACTED))
		return form != SUPERVISOR && !in->xcomp_bv && !in->reserved2[0] &&
		       !(in->xstate_bv & ~enabled);
	if (form != SUPERVISOR && !cpuid_has(c->cpuid, CPUID_XSAVEC))
		return false;
	for (unsigned n = 0; n < ARRAY_SIZE(in->reserved2); n++)
		if (in->reserved2[n])
			return false;
	return !(has & ~enabled) && !(in->xstate_bv & ~has);
}

/* What becomes of MXCSR: a standard image always has it, a compacted one as part
 * of SSE, and its absence is the initial value.  False: unchanged. */
static bool new_mxcsr(const struct fp_image *in, u64 asked, u32 *mxcsr)
{
	*mxcsr = in->mxcsr;
	if (!(in->xcomp_bv & XCOMP_COMPACTED))
		return asked & (XFEATURE_SSE | XFEATURE_AVX);
	if (!(in->xstate_bv & XFEATURE_SSE))
		*mxcsr = MXCSR_INIT;
	return asked & XFEATURE_SSE;
}

/* Load the parts of @in that are asked for; the absent ones become initial. */
static void load_parts(struct cpu *c, const struct fp_image *in, u64 asked, bool wide)
{
	struct fp_image *f = cpu_fp(c);
	unsigned n = fp_area_xmm_bytes(c);
	u64 loaded = asked & in->xstate_bv;

	if (loaded & XFEATURE_X87)
		fp_area_load_x87(f, in, wide);
	else if (asked & XFEATURE_X87)
		fp_image_init_x87(f);
	if (loaded & XFEATURE_SSE)
		memcpy(f->xmm, in->xmm, n);
	else if (asked & XFEATURE_SSE)
		memset(f->xmm, 0, n);
	if (loaded & XFEATURE_AVX)
		memcpy(f->ymmh, in->ymmh, n);
	else if (asked & XFEATURE_AVX)
		memset(f->ymmh, 0, n);
}

/* Read all of the image but AVX: in each maker's order, as measured. */
static enum emul restore_read_amd(struct cpu *c, const struct insn *i, u64 asked, gva_t lin,
				  struct fp_image *in)
{
	enum emul r = fp_area_probe(c, i, 0, false);

	if (r == EMUL_CONTINUE)
		r = fp_area_probe(c, i, HEADER_OFFSET, false);
	if (r == EMUL_CONTINUE)
		r = fp_area_probe(c, i, xs_last(c, asked), false);
	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin, in, FP_LEGACY_SIZE + FP_HEADER_SIZE, insn_acc(i));
	return r;
}

/* Intel's read the header, XCOMP_BV first, then only what is loaded. */
static enum emul restore_read_intel(struct cpu *c, const struct insn *i, u64 asked,
				    gva_t lin, struct fp_image *in)
{
	enum emul r = fp_area_probe(c, i, HEADER_OFFSET + 8, false);
	bool standard;
	unsigned first;

	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin + HEADER_OFFSET, &in->xstate_bv, FP_HEADER_SIZE,
			     insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	standard = !(in->xcomp_bv & XCOMP_COMPACTED);
	first = xs_first(standard ? STANDARD : COMPACTED, asked & in->xstate_bv);
	if (standard && asked & (XFEATURE_SSE | XFEATURE_AVX))
		first = MIN(first, (unsigned)MXCSR_OFFSET);
	r = fp_area_probe(c, i, first, false);
	if (r == EMUL_CONTINUE)
		r = fp_area_probe(c, i, xs_last(c, asked), false);
	if (r == EMUL_CONTINUE && first < HEADER_OFFSET)
		r = mmu_read(&c->mmu, lin + first, (u8 *)in + first, HEADER_OFFSET - first,
			     insn_acc(i));
	return r;
}

static enum emul restore(struct cpu *c, const struct insn *i, enum form form)
{
	u64 asked = xs_requested(c, form);
	struct fp_image in;
	u32 mxcsr;
	bool set;
	gva_t lin;
	enum emul r = xs_begin(c, i, form, false, &lin);

	if (r == EMUL_CONTINUE)
		r = c->vendor == VENDOR_INTEL ? restore_read_intel(c, i, asked, lin, &in)
					      : restore_read_amd(c, i, asked, lin, &in);
	if (r != EMUL_CONTINUE)
		return r;
	set = new_mxcsr(&in, asked, &mxcsr);
	if (!header_ok(c, &in, form) || (set && (mxcsr & ~fp_mxcsr_mask(c))))
		return cpu_gp(c, 0);
	if (asked & in.xstate_bv & XFEATURE_AVX)
		r = mmu_read(&c->mmu, lin + AVX_OFFSET, in.ymmh, fp_area_xmm_bytes(c),
			     insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	load_parts(c, &in, asked, i->rex & 8);
	if (set)
		cpu_fp(c)->mxcsr = mxcsr;
	return EMUL_CONTINUE;
}

static enum emul op_xrstor(struct cpu *c, const struct insn *i)
{
	return restore(c, i, STANDARD);
}

static enum emul op_xrstors(struct cpu *c, const struct insn *i)
{
	return restore(c, i, SUPERVISOR);
}

op_fn xsave_select(const struct insn *i)
{
	switch (i->op) {
	case OP_XSAVE:
		return op_xsave;
	case OP_XSAVEOPT:
		return op_xsaveopt;
	case OP_XSAVEC:
		return op_xsavec;
	case OP_XSAVES:
		return op_xsaves;
	case OP_XRSTOR:
		return op_xrstor;
	case OP_XRSTORS:
		return op_xrstors;
	default:
		return NULL;
	}
}
