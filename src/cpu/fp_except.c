/* SPDX-License-Identifier: MIT */
/*
 * The host always runs with exceptions masked, so what differs for an unmasked
 * one is worked out here:
 *
 *  - Unmasked underflow needs no inexact result, and ignores FZ: a denormal
 *    result is enough.
 *  - With unmasked overflow or underflow, "inexact" is about the result with an
 *    unbounded exponent.  The instruction runs a second time on operands whose
 *    exponents were moved to where the result is normal.
 *  - Exceptions found before computing (invalid, denormal, divide by zero), if
 *    unmasked, hide those found after it.
 *
 * Source: SDM Vol. 1 "SIMD Floating-Point Exception Conditions".
 */
#include "cpu/fp_except.h"

#include <string.h>

#define FPX_PRE		 (BIT(0) | BIT(1) | BIT(2)) /* invalid, denormal, divide by zero */
#define FPX_OE		 BIT(3)
#define FPX_UE		 BIT(4)
#define FPX_PE		 BIT(5)
#define MXCSR_MASK_SHIFT 7 /* the masks are the flags, 7 bits up */

static u32 host_mxcsr(void)
{
	u32 v;

	__asm__ volatile("stmxcsr %0" : "=m"(v));
	return v;
}

static void set_host_mxcsr(u32 v)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(v) : "memory");
}

/* --- elements -------------------------------------------------------------------- */

/* A format: 4- or 8-byte elements. */
struct format {
	unsigned bytes, frac_bits;
	u64 exp_mask; /* of the shifted exponent */
};

static const struct format single = {4, 23, 0xff}, twice = {8, 52, 0x7ff};

static u64 element_get(const struct format *f, const u8 *at)
{
	u64 v = 0;

	memcpy(&v, at, f->bytes);
	return v;
}

static u64 element_exp(const struct format *f, u64 v)
{
	return v >> f->frac_bits & f->exp_mask;
}

static u64 element_frac(const struct format *f, u64 v)
{
	return v & ((1ull << f->frac_bits) - 1);
}

static u64 element_with_exp(const struct format *f, u64 v, u64 exp)
{
	return (v & ~(f->exp_mask << f->frac_bits)) | exp << f->frac_bits;
}

/* Is an element of the result denormal? */
static bool result_tiny(const struct fp_stub *s, const u8 *result)
{
	const struct format *f = s->flags & STUB_TINY4 ? &single : &twice;

	for (unsigned k = 0; k < s->result_bytes; k += f->bytes) {
		u64 v = element_get(f, result + k);

		if (!element_exp(f, v) && element_frac(f, v))
			return true;
	}
	return false;
}

/* --- the second run --------------------------------------------------------------- */

/* Give a finite number other than zero the exponent of 1.0; with DAZ a denormal
 * is zero. */
static void normalise(const struct format *f, u8 *at, bool daz)
{
	u64 v = element_get(f, at), exp = element_exp(f, v), frac = element_frac(f, v);

	if (exp == f->exp_mask || (!exp && (!frac || daz)))
		return;
	if (!exp) {
		unsigned shift = f->frac_bits - (unsigned)bits_fls64(frac);

		v = (v & ~((1ull << f->frac_bits) - 1)) |
		    (frac << shift & ((1ull << f->frac_bits) - 1));
	}
	v = element_with_exp(f, v, f->exp_mask >> 1);
	memcpy(at, &v, f->bytes);
}

/* Divide two summands by 4 if one is so large that they might overflow.  A small
 * one beside it stays as it is: the sum is inexact either way. */
static void quarter(const struct format *f, u8 *a, u8 *b)
{
	u64 va = element_get(f, a), vb = element_get(f, b);
	u64 ea = element_exp(f, va), eb = element_exp(f, vb), top = f->exp_mask;

	if (ea == top || eb == top || MAX(ea, eb) < top - 2)
		return;
	if (ea > 2)
		va = element_with_exp(f, va, ea - 2);
	if (eb > 2)
		vb = element_with_exp(f, vb, eb - 2);
	memcpy(a, &va, f->bytes);
	memcpy(b, &vb, f->bytes);
}

/*
 * Move the exponents of the operands.  Sums and differences that underflow are
 * exact: only overflow matters for them.  Products, quotients and conversions
 * do not depend on the exponents.
 */
static void move_exponents(const struct fp_stub *s, u8 *a, u8 *b, bool daz)
{
	const struct format *f = s->flags & STUB_SRC8 ? &twice : &single;

	for (unsigned k = 0; k < 16; k += f->bytes) {
		if (s->flags & STUB_SUM) {
			quarter(f, a + k, b + k);
		} else {
			normalise(f, a + k, daz);
			normalise(f, b + k, daz);
		}
	}
}

static u32 run_masked(const struct fp_stub *s, u8 *reg, u8 *rm, const u8 *body,
		      u64 *rflags, u32 mxcsr)
{
	u32 host = host_mxcsr(), raised;

	set_host_mxcsr(mxcsr);
	s->load(reg, rm, body, rflags);
	raised = host_mxcsr() & FP_FLAGS;
	set_host_mxcsr(host);
	return raised;
}

/* Is the result inexact for an unbounded exponent? */
static bool inexact_unbounded(const struct fp_stub *s, const u8 *reg, const u8 *rm,
			      const u8 *body, u32 mxcsr)
{
	u8 a[16] __attribute__((aligned(16))), b[16] __attribute__((aligned(16)));
	u64 rflags;

	memcpy(a, reg, 16);
	memcpy(b, rm, 16);
	move_exponents(s, a, b, mxcsr & MXCSR_DAZ);
	return run_masked(s, a, b, body, &rflags, mxcsr) & FPX_PE;
}

u32 fp_except_run(struct cpu *c, const struct fp_stub *s, u8 *reg, u8 *rm, const u8 *body,
		  u64 *rflags)
{
	u32 guest = cpu_fp(c)->mxcsr, masked = guest >> MXCSR_MASK_SHIFT;
	u32 in = (guest & ~FP_FLAGS) | MXCSR_MASKS, raised, unbounded;
	u8 before[16];

	if (likely((guest & MXCSR_MASKS) == MXCSR_MASKS) || !s->result_bytes)
		return run_masked(s, reg, rm, body, rflags, in);
	memcpy(before, reg, 16);
	if (!(masked & FPX_UE))
		in &= ~MXCSR_FZ;
	raised = run_masked(s, reg, rm, body, rflags, in);
	if (!(masked & FPX_UE) && result_tiny(s, reg))
		raised |= FPX_UE;
	unbounded = raised & ~masked & (FPX_OE | FPX_UE);
	/* Masked overflow or underflow of another element is inexact as it stands. */
	if (unbounded && unbounded == (raised & (FPX_OE | FPX_UE)) &&
	    !inexact_unbounded(s, before, rm, body, in))
		raised &= ~FPX_PE;
	return raised;
}

enum emul fp_except_raise(struct cpu *c, u32 raised)
{
	struct fp_image *f = cpu_fp(c);
	u32 unmasked = raised & ~(f->mxcsr >> MXCSR_MASK_SHIFT) & FP_FLAGS;

	if (unmasked & FPX_PRE)
		raised &= FPX_PRE;
	f->mxcsr |= raised;
	if (likely(!unmasked))
		return EMUL_CONTINUE;
	return c->mmu.cr4 & CR4_OSXMMEXCPT ? cpu_raise(c, EXC_XM, 0) : cpu_ud(c);
}
