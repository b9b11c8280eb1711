/* SPDX-License-Identifier: MIT */
/*
 * Dot products with unmasked exceptions.
 *
 * DPPS and DPPD multiply, add neighbours, and (DPPS) add once more; each step
 * rounds, and the first that raises an unmasked exception is the last.  The steps
 * are those of MULPS and ADDPS, MULPD and ADDPD.
 */
#include <string.h>

#include "cpu/fp_except.h"

/* One 128-bit lane's step of DPPS or DPPD: multiply or add, as MULPS and ADDPS do.
 * Return: what is raised. */
static u32 dot_step(unsigned opcode, bool two, u8 *a, const u8 *b, u32 masked, u32 in)
{
	static const struct decode_mode mode = {.bits = 64};
	/* op xmm1, xmm2 */
	const u8 bytes[4] = {two ? 0x66 : 0x3e, 0x0f, (u8)opcode, 0xd1};
	u8 other[16];
	struct insn i;

	if (BUG_CHECK(decode(bytes, sizeof(bytes), &mode, &i) != DECODE_OK))
		return 0;
	const struct fp_stub *s = &fp_stubs[fp_stub_index[i.row * 8]];
	struct fp_args args = {
		.reg = a, .rm = other, .vvvv = other, .extra = other, .body = s->body};

	memcpy(other, b, 16);
	return fp_except_step(s, &i, &args, masked, in);
}

/* Both lanes take a step together. */
struct dot {
	u8 a[2][16], b[2][16];
	unsigned lanes;
	bool two; /* 8-byte elements */
	u32 masked, in, raised;
};

static bool dot_stage(struct dot *d, unsigned opcode)
{
	u32 raised = 0;

	for (unsigned n = 0; n < d->lanes; n++)
		raised |= dot_step(opcode, d->two, d->a[n], d->b[n], d->masked, d->in);
	if (raised & ~d->masked & FPX_PRE)
		raised &= FPX_PRE;
	d->raised |= raised;
	return raised & ~d->masked & FP_FLAGS;
}

/* Keep the elements of @v that are in @elements, zero the rest. */
static void dot_select(const struct dot *d, u8 *v, unsigned elements)
{
	unsigned size = d->two ? 8 : 4;

	for (unsigned k = 0; k < 16 / size; k++)
		if (!(elements >> k & 1))
			memset(v + k * size, 0, size);
}

bool fp_dot_ends(const struct fp_stub *s, const struct insn *i, const struct fp_args *a,
		 u32 masked, u32 in, u32 *raised)
{
	bool avx = s->flags & STUB_AVX, mem = s->rm_kind == STUB_MEM;
	const u8 *first = avx ? a->vvvv : a->reg;
	struct dot d = {.lanes = i->vl == 32 ? 2 : 1,
			.two = s->flags & STUB_TINY8,
			.masked = masked,
			.in = in};
	bool ends;

	for (unsigned n = 0; n < d.lanes; n++) {
		memcpy(d.a[n], first + n * STUB_HIGH, 16);
		memcpy(d.b[n], a->rm + n * (mem ? 16 : STUB_HIGH), 16);
		dot_select(&d, d.a[n], (unsigned)i->imm >> 4);
		dot_select(&d, d.b[n], (unsigned)i->imm >> 4);
	}
	ends = dot_stage(&d, 0x59);
	for (unsigned size = d.two ? 8 : 4; !ends && size < 16; size *= 2) {
		/* Neighbours: 0+1 and 2+3, then 0+2. */
		for (unsigned n = 0; n < d.lanes; n++) {
			memset(d.b[n], 0, 16);
			memcpy(d.b[n], d.a[n] + size, 16 - size);
			dot_select(&d, d.a[n], size == 4 ? 5 : 1);
			dot_select(&d, d.b[n], size == 4 ? 5 : 1);
		}
		ends = dot_stage(&d, 0x58);
	}
	*raised = d.raised;
	return ends;
}
