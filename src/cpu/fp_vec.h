/* SPDX-License-Identifier: MIT */
/* The handler families behind fp_select(). */
#ifndef LOCUM_CPU_FP_VEC_H
#define LOCUM_CPU_FP_VEC_H

#include "cpu/fp.h"
#include "cpu/fp_check.h"
#include "cpu/fp_stub.h"
#include "cpu/handlers.h"

BUILD_BUG_ON(STUB_HIGH != offsetof(struct fp_image, ymmh) - offsetof(struct fp_image, xmm));

/* Each returns NULL for what is not its own, as fp_select() does. */
op_fn vec_select(const struct insn *i); /* MMX, SSE, AVX with a stub (fp_vec.c) */
op_fn avx_select(const struct insn *i); /* VEX moves, VZEROUPPER (fp_avx.c) */
op_fn masked_select(const struct insn *i); /* VMASKMOV, gathers (fp_masked.c) */
op_fn move_select(
	const struct insn *i);		/* plain moves, masked moves, hints (fp_move.c) */
op_fn x87_select(const struct insn *i); /* D8..DF, FWAIT (fp_x87.c, fp_env.c) */
op_fn state_select(const struct insn *i); /* FXSAVE, MXCSR, XCR0 (fp_state.c) */
op_fn xsave_select(const struct insn *i); /* XSAVE and its kin (fp_xsave.c) */

/* --- shared by the families --------------------------------------------------- */

/** vec_check_vex() - may a vector instruction run, by its encoding? */
static always_inline enum emul vec_check_vex(struct cpu *c, const struct insn *i)
{
	return i->vl ? fp_check_avx(c) : fp_check_sse(c);
}

/** vec_get(), vec_put() - the low @n (16 or 32) bytes of vector register @reg;
 * vec_put() zeroes the rest of it, as VEX does */
static always_inline void vec_get(struct cpu *c, unsigned reg, u8 *to, unsigned n)
{
	struct fp_image *f = cpu_fp(c);

	memcpy(to, f->xmm[reg], 16);
	if (n == 32)
		memcpy(to + 16, f->ymmh[reg], 16);
}

static always_inline void vec_put(struct cpu *c, unsigned reg, const u8 *from, unsigned n)
{
	struct fp_image *f = cpu_fp(c);

	memcpy(f->xmm[reg], from, 16);
	if (n == 32)
		memcpy(f->ymmh[reg], from + 16, 16);
	else
		memset(f->ymmh[reg], 0, 16);
}

#endif
