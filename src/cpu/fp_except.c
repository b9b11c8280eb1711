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

/* A format: 2-, 4- or 8-byte elements. */
struct format {
	unsigned bytes, frac_bits;
	u64 exp_mask; /* of the shifted exponent */
};

static const struct format half = {2, 10, 0x1f}, single = {4, 23, 0xff},
			   twice = {8, 52, 0x7ff};

/* Element at byte @k of an operand; a register is stored in two halves. */
static u8 *element_at(u8 *p, bool is_reg, unsigned k)
{
	return p + k + (is_reg && k >= 16 ? STUB_HIGH - 16 : 0);
}

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
static bool result_tiny(const struct fp_stub *s, const struct fp_args *a)
{
	const struct format *f = s->flags & STUB_TINY4   ? &single
				 : s->flags & STUB_TINY8 ? &twice
							 : &half;
	bool to_rm = s->flags & STUB_WRM;
	u8 *result = to_rm ? a->rm : a->reg;

	for (unsigned k = 0; k < s->result_bytes; k += f->bytes) {
		u64 v = element_get(
			f, element_at(result, !to_rm || s->rm_kind != STUB_MEM, k));

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

/* A finite number other than zero as exponent and normal fraction.  Return: false
 * for zero (a denormal is zero with DAZ), infinity and NaN. */
static bool split(const struct format *f, u64 v, bool daz, s64 *exp, u64 *unit)
{
	u8 b[8] = {0};

	if (element_exp(f, v) == f->exp_mask ||
	    (!element_exp(f, v) && (!element_frac(f, v) || daz)))
		return false;
	*exp = (s64)element_exp(f, v);
	if (!*exp)
		*exp = (s64)bits_fls64(element_frac(f, v)) - f->frac_bits + 1;
	memcpy(b, &v, f->bytes);
	normalise(f, b, daz);
	*unit = element_get(f, b);
	return true;
}

static void put_exp(const struct format *f, u8 *at, u64 unit, s64 exp)
{
	u64 v = element_with_exp(f, unit, (u64)exp);

	memcpy(at, &v, f->bytes);
}

/*
 * @x * @y + @z: scale product and addend so that the larger one is near 1.  The
 * smaller one stays at its distance, or, where it only makes the result inexact,
 * at one as large as is needed for that.
 */
static void scale_fma(const struct format *f, u8 *x, u8 *y, u8 *z, bool daz)
{
	s64 bias = (s64)(f->exp_mask >> 1), far = 3 * f->frac_bits + 6, ex, ey, ez, p, top;
	u64 ux, uy, uz;

	if (!split(f, element_get(f, x), daz, &ex, &ux) ||
	    !split(f, element_get(f, y), daz, &ey, &uy))
		return;
	put_exp(f, x, ux, bias);
	if (!split(f, element_get(f, z), daz, &ez, &uz)) {
		put_exp(f, y, uy, bias);
		return;
	}
	p = ex + ey - bias;
	top = MAX(p, ez);
	put_exp(f, y, uy, bias - MIN(top - p, far));
	put_exp(f, z, uz, bias - MIN(top - ez, far));
}

/* Copies of the operands, stored as the loaders want them. */
struct copies {
	u8 regs[STUB_HIGH + 3 * 16]; /* low halves first */
	u8 mem[32];
	struct fp_args args;
};

static void copies_take(struct copies *k, const struct fp_stub *s, const struct fp_args *a)
{
	u8 *const from[3] = {a->reg, s->rm_kind == STUB_MEM ? NULL : a->rm, a->vvvv};

	k->args = *a;
	for (unsigned n = 0; n < 3; n++) {
		if (!from[n])
			continue;
		memcpy(k->regs + 16 * n, from[n], 16);
		if (s->flags & STUB_AVX)
			memcpy(k->regs + 16 * n + STUB_HIGH, from[n] + STUB_HIGH, 16);
	}
	if (s->rm_kind == STUB_MEM)
		memcpy(k->mem, a->rm, 32);
	k->args.reg = k->regs;
	k->args.rm = s->rm_kind == STUB_MEM ? k->mem : k->regs + 16;
	k->args.vvvv = k->regs + 32;
}

/* Which of VEX.vvvv, reg and r/m are factors and addend: 132, 213, 231. */
static void fma_roles(const struct insn *i, u8 *reg, u8 *rm, u8 *vvvv, u8 *role[3])
{
	role[0] = i->opcode < 0xa0 ? reg : vvvv;
	role[1] = i->opcode < 0xa0 ? rm : i->opcode < 0xb0 ? reg : rm;
	role[2] = i->opcode < 0xa0 ? vvvv : i->opcode < 0xb0 ? rm : reg;
}

/*
 * Move the exponents of the operands.  Sums and differences that underflow are
 * exact: only overflow matters for them.  Products, quotients and conversions
 * do not depend on the exponents.
 */
static void move_exponents(const struct fp_stub *s, const struct insn *i,
			   const struct fp_args *a, bool daz)
{
	const struct format *f = s->flags & STUB_SRC8 ? &twice : &single;
	bool avx = s->flags & STUB_AVX, mem = s->rm_kind == STUB_MEM;

	for (unsigned k = 0; k < (avx ? 32 : 16); k += f->bytes) {
		u8 *reg = element_at(a->reg, true, k), *rm = element_at(a->rm, !mem, k);
		u8 *vvvv = element_at(a->vvvv, true, k), *one = avx ? vvvv : reg, *role[3];

		if (s->flags & STUB_FMA) {
			fma_roles(i, reg, rm, vvvv, role);
			scale_fma(f, role[0], role[1], role[2], daz);
		} else if (s->flags & STUB_HSUM) {
			if (k & f->bytes)
				continue;
			quarter(f, one, one + f->bytes);
			quarter(f, rm, rm + f->bytes);
		} else if (s->flags & STUB_SUM) {
			quarter(f, one, rm);
		} else {
			normalise(f, reg, daz);
			normalise(f, rm, daz);
			normalise(f, vvvv, daz);
		}
	}
}

static u32 run_masked(const struct fp_stub *s, struct fp_args *a, u32 mxcsr)
{
	u32 host = host_mxcsr(), raised;

	set_host_mxcsr(mxcsr);
	s->load(a->reg, a->rm, a->body, &a->rflags, a->vvvv, a->extra);
	raised = host_mxcsr() & FP_FLAGS;
	set_host_mxcsr(host);
	return raised;
}

static u32 run_unmasked(const struct fp_stub *s, const struct insn *i, struct fp_args *a,
			u32 masked, u32 in)
{
	struct copies before;
	u32 raised, unbounded;

	copies_take(&before, s, a);
	if (!(masked & FPX_UE))
		in &= ~MXCSR_FZ;
	raised = run_masked(s, a, in);
	if (!(masked & FPX_UE) && result_tiny(s, a))
		raised |= FPX_UE;
	unbounded = raised & ~masked & (FPX_OE | FPX_UE);
	/* Masked overflow or underflow of another element is inexact as it stands. */
	if (!unbounded || unbounded != (raised & (FPX_OE | FPX_UE)))
		return raised;
	move_exponents(s, i, &before.args, in & MXCSR_DAZ);
	if (!(run_masked(s, &before.args, in) & FPX_PE))
		raised &= ~FPX_PE;
	return raised;
}

u32 fp_except_step(const struct fp_stub *s, const struct insn *i, struct fp_args *a,
		   u32 masked, u32 in)
{
	u32 raised = s->result_bytes ? run_unmasked(s, i, a, masked, in) :
				       run_masked(s, a, in);

	return raised & ~masked & FPX_PRE ? raised & FPX_PRE : raised;
}

u32 fp_except_run(struct cpu *c, const struct insn *i, const struct fp_stub *s,
		  struct fp_args *a)
{
	u32 guest = cpu_fp(c)->mxcsr, in = (guest & ~FP_FLAGS) | MXCSR_MASKS;

	if (likely((guest & MXCSR_MASKS) == MXCSR_MASKS))
		return run_masked(s, a, in);
	if (s->flags & STUB_DOT) {
		u32 raised;

		return fp_dot_ends(s, i, a, guest >> MXCSR_MASK_SHIFT, in, &raised)
			       ? raised
			       : run_masked(s, a, in);
	}
	return fp_except_step(s, i, a, guest >> MXCSR_MASK_SHIFT, in);
}

bool fp_except_stops(struct cpu *c, u32 raised)
{
	return raised & ~(cpu_fp(c)->mxcsr >> MXCSR_MASK_SHIFT) & FP_FLAGS;
}

enum emul fp_except_raise(struct cpu *c, u32 raised)
{
	struct fp_image *f = cpu_fp(c);
	u32 unmasked = raised & ~(f->mxcsr >> MXCSR_MASK_SHIFT) & FP_FLAGS;

	f->mxcsr |= raised;
	if (likely(!unmasked))
		return EMUL_CONTINUE;
	return c->mmu.cr4 & CR4_OSXMMEXCPT ? cpu_raise(c, EXC_XM, 0) : cpu_ud(c);
}
