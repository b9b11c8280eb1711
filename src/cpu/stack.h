/* SPDX-License-Identifier: MIT */
/*
 * The stack in every mode: width by CS.L and SS.B, limits outside 64-bit mode.
 *
 * None of these changes rSP but stack_set(): an instruction computes, checks
 * and writes memory first, and commits rSP last.
 */
#ifndef LOCUM_CPU_STACK_H
#define LOCUM_CPU_STACK_H

#include "cpu/operand.h"

/** stack_mask() - the bits of rSP that address the stack */
static always_inline u64 stack_mask(const struct cpu *c)
{
	if (likely(c->code_bits == 64))
		return ~0ull;
	return c->seg[SEG_SS].attr & SEG_DB ? 0xffffffffull : 0xffffull;
}

/** stack_set() - rSP = @v in the stack's width; the rest of the register stays
 * for 16 bits, is cleared for 32 */
static always_inline void stack_set(struct cpu *c, u64 v)
{
	u64 mask = stack_mask(c);

	if (mask == 0xffff)
		c->gpr[R_RSP] = (c->gpr[R_RSP] & ~mask) | (v & mask);
	else
		c->gpr[R_RSP] = v & mask;
}

/** stack_read() - @n bytes at SS:@sp (masked to the stack's width) */
static always_inline enum emul stack_read(struct cpu *c, u64 sp, unsigned n, u64 *v)
{
	gva_t lin = sp;

	if (unlikely(c->code_bits != 64)) {
		enum emul r = seg_linear_slow(c, SEG_SS, sp & stack_mask(c), n, false, &lin);

		if (r != EMUL_CONTINUE)
			return r;
	}
	return lin_read(c, lin, n, ACC_SS, v);
}

/** stack_write() - likewise */
static always_inline enum emul stack_write(struct cpu *c, u64 sp, unsigned n, u64 v)
{
	gva_t lin = sp;

	if (unlikely(c->code_bits != 64)) {
		enum emul r = seg_linear_slow(c, SEG_SS, sp & stack_mask(c), n, true, &lin);

		if (r != EMUL_CONTINUE)
			return r;
	}
	return lin_write(c, lin, n, ACC_SS, v);
}

/** stack_push() - write @v below rSP, then move rSP */
static always_inline enum emul stack_push(struct cpu *c, unsigned n, u64 v)
{
	u64 sp = c->gpr[R_RSP] - n;
	enum emul r = stack_write(c, sp, n, v);

	if (likely(r == EMUL_CONTINUE))
		stack_set(c, sp);
	return r;
}

/** stack_pop() - read *@v at rSP, then move rSP */
static always_inline enum emul stack_pop(struct cpu *c, unsigned n, u64 *v)
{
	u64 sp = c->gpr[R_RSP];
	enum emul r = stack_read(c, sp, n, v);

	if (likely(r == EMUL_CONTINUE))
		stack_set(c, sp + n);
	return r;
}

#endif
