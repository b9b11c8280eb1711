/* SPDX-License-Identifier: MIT */
/*
 * Operands of an instruction: registers, effective addresses, memory.
 *
 * The 64-bit case is inline and short: no limit, a base for FS and GS alone.
 * 16- and 32-bit code, and 67-prefixed addresses, take the functions named
 * _slow.  @n is the size in bytes and a constant in the specialised handlers.
 */
#ifndef LOCUM_CPU_OPERAND_H
#define LOCUM_CPU_OPERAND_H

#include "cpu/state.h"

/**
 * seg_linear_slow() - linear address of @seg:@off in any mode
 *
 * Outside 64-bit mode checks that the segment is usable, its type against
 * @write, and the limit for @n bytes.  The result is 32 bits wide there.
 * Return: EMUL_CONTINUE, or EMUL_FAULT with #GP(0), for SS #SS(0).
 * Source: SDM Vol. 3A "Limit Checking", "Type Checking".
 */
enum emul seg_linear_slow(struct cpu *c, unsigned seg, u64 off, unsigned n, bool write,
			  gva_t *lin) must_check;

/** seg_limit_ok() - do @n bytes at offset @off lie within @s?  Expand-down too. */
bool seg_limit_ok(const struct segment *s, u32 off, unsigned n);

/** insn_ea() - effective address (offset within the segment) of @i's memory
 * operand, truncated to the address size */
static always_inline u64 insn_ea(const struct cpu *c, const struct insn *i)
{
	u64 a = (u64)i->disp;

	if (likely(i->base < R_COUNT))
		a += c->gpr[i->base];
	else if (i->base == REG_IP)
		a += c->rip + i->len;
	if (i->index != REG_NONE)
		a += c->gpr[i->index] << i->scale;
	if (unlikely(i->adsize != 8))
		a &= i->adsize == 4 ? 0xffffffffull : 0xffffull;
	return a;
}

/** insn_acc() - ACC_* of @i's memory operand */
static always_inline unsigned insn_acc(const struct insn *i)
{
	return i->flags & INSN_STACK ? ACC_SS : 0;
}

/** mem_linear_at() - linear address of offset @ea in @i's segment */
static always_inline enum emul mem_linear_at(struct cpu *c, const struct insn *i, u64 ea,
					     unsigned n, bool write, gva_t *lin)
{
	if (likely(c->code_bits == 64)) {
		if (i->seg >= SEG_FS) {
			if (unlikely(!addr_is_canonical(ea)))
				return seg_linear_slow(c, i->seg, ea, n, write, lin);
			ea += c->seg[i->seg].base;
		}
		*lin = ea;
		return EMUL_CONTINUE;
	}
	return seg_linear_slow(c, i->seg, ea, n, write, lin);
}

/** mem_linear() - linear address of @i's memory operand of @n bytes */
static always_inline enum emul mem_linear(struct cpu *c, const struct insn *i, unsigned n,
					  bool write, gva_t *lin)
{
	return mem_linear_at(c, i, insn_ea(c, i), n, write, lin);
}

/** lin_read() - @n (1, 2, 4, 8) bytes at a linear address, zero-extended */
static always_inline enum emul lin_read(struct cpu *c, gva_t lin, unsigned n, unsigned acc,
					u64 *v)
{
	enum emul r;

	switch (n) {
	case 1: {
		u8 b;

		r = mmu_read8(&c->mmu, lin, &b, acc);
		*v = b;
		return r;
	}
	case 2: {
		u16 b;

		r = mmu_read16(&c->mmu, lin, &b, acc);
		*v = b;
		return r;
	}
	case 4: {
		u32 b;

		r = mmu_read32(&c->mmu, lin, &b, acc);
		*v = b;
		return r;
	}
	default:
		return mmu_read64(&c->mmu, lin, v, acc);
	}
}

/** lin_write() - the low @n (1, 2, 4, 8) bytes of @v to a linear address */
static always_inline enum emul lin_write(struct cpu *c, gva_t lin, unsigned n, unsigned acc,
					 u64 v)
{
	switch (n) {
	case 1:
		return mmu_write8(&c->mmu, lin, (u8)v, acc);
	case 2:
		return mmu_write16(&c->mmu, lin, (u16)v, acc);
	case 4:
		return mmu_write32(&c->mmu, lin, (u32)v, acc);
	default:
		return mmu_write64(&c->mmu, lin, v, acc);
	}
}

/** memop_read() - @i's memory operand of @n bytes, zero-extended */
static always_inline enum emul memop_read(struct cpu *c, const struct insn *i, unsigned n,
					u64 *v)
{
	gva_t lin;
	enum emul r = mem_linear(c, i, n, false, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return lin_read(c, lin, n, insn_acc(i), v);
}

/** memop_write() - the low @n bytes of @v to @i's memory operand */
static always_inline enum emul memop_write(struct cpu *c, const struct insn *i, unsigned n,
					 u64 v)
{
	gva_t lin;
	enum emul r = mem_linear(c, i, n, true, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return lin_write(c, lin, n, insn_acc(i), v);
}

/** gpr_put() - write @n bytes of general register @reg as the processor does:
 * 4 bytes clear the upper half, 1 and 2 keep the rest */
static always_inline void gpr_put(struct cpu *c, unsigned reg, unsigned n, u64 v)
{
	switch (n) {
	case 1:
		*(u8 *)&c->gpr[reg] = (u8)v;
		break;
	case 2:
		*(u16 *)&c->gpr[reg] = (u16)v;
		break;
	case 4:
		c->gpr[reg] = (u32)v;
		break;
	default:
		c->gpr[reg] = v;
		break;
	}
}

/** gpr_get() - the low @n bytes of general register @reg, zero-extended */
static always_inline u64 gpr_get(const struct cpu *c, unsigned reg, unsigned n)
{
	return n == 8 ? c->gpr[reg] : c->gpr[reg] & (~0ull >> (64 - 8 * n));
}

/** gpr8() - where byte register operand @o lives (AH..BH too) */
static always_inline u8 *gpr8(struct cpu *c, const struct operand *o)
{
	return (u8 *)&c->gpr[o->reg] + (o->kind == OPD_GPR8H);
}

/**
 * opd_read() - value of operand @o (GPR, GPR8H, MEM, IMM, IMM2), zero-extended
 * to 64 bits.  Any size of 1, 2, 4, 8; for handlers that are not specialised.
 */
enum emul opd_read(struct cpu *c, const struct insn *i, const struct operand *o,
		   u64 *v) must_check;

/** opd_write() - store @v to operand @o (GPR, GPR8H or MEM) */
enum emul opd_write(struct cpu *c, const struct insn *i, const struct operand *o,
		    u64 v) must_check;

/** opd_put() - likewise for a register operand, which cannot fault */
void opd_put(struct cpu *c, const struct operand *o, u64 v);

#endif
