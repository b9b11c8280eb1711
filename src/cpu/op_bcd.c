/* SPDX-License-Identifier: MIT */
/*
 * Instructions that 64-bit mode does not have: decimal adjustment, BOUND, SALC.
 * In C, as the manual's pseudo code has them; undefined flags: OF stays, for
 * AAA and AAS ZF, SF and PF follow AL, as processors do.
 */
#include "cpu/op_int.h"

static u64 szp(u8 v)
{
	return (v ? 0 : RF_ZF) | (v & 0x80 ? RF_SF : 0) |
	       (__builtin_popcount(v) & 1 ? 0 : RF_PF);
}

static enum emul daa(struct cpu *c, const struct insn *i)
{
	bool sub = i->op == OP_DAS, cf = c->aflags & RF_CF;
	u8 al = (u8)c->gpr[R_RAX], old = al;
	u64 f = c->aflags & RF_OF;

	if ((al & 15) > 9 || c->aflags & RF_AF) {
		u8 before = al;

		al = (u8)(sub ? al - 6 : al + 6);
		if (cf || (sub ? before < 6 : before > 0xf9))
			f |= RF_CF;
		f |= RF_AF;
	}
	if (old > 0x99 || cf) {
		al = (u8)(sub ? al - 0x60 : al + 0x60);
		f |= RF_CF;
	} else if (!sub) {
		f &= ~(u64)RF_CF;
	}
	gpr_put(c, R_RAX, 1, al);
	c->aflags = f | szp(al);
	return EMUL_CONTINUE;
}

static enum emul aaa(struct cpu *c, const struct insn *i)
{
	u16 ax = (u16)c->gpr[R_RAX];
	u64 f = c->aflags & RF_OF;

	if ((ax & 15) > 9 || c->aflags & RF_AF) {
		ax = (u16)(i->op == OP_AAA ? ax + 0x106 : ax - 0x106);
		f |= RF_AF | RF_CF;
	}
	ax &= 0xff0f;
	gpr_put(c, R_RAX, 2, ax);
	c->aflags = f | szp((u8)ax);
	return EMUL_CONTINUE;
}

static enum emul aam(struct cpu *c, const struct insn *i)
{
	u8 al = (u8)c->gpr[R_RAX], base = (u8)i->imm;

	if (!base)
		return cpu_raise(c, EXC_DE, 0);
	gpr_put(c, R_RAX, 2, (u64)(al / base) << 8 | (al % base));
	c->aflags = szp(al % base);
	return EMUL_CONTINUE;
}

static enum emul aad(struct cpu *c, const struct insn *i)
{
	u16 ax = (u16)c->gpr[R_RAX];
	u8 al = (u8)((ax & 0xff) + (ax >> 8) * (u8)i->imm);

	gpr_put(c, R_RAX, 2, al);
	c->aflags = szp(al);
	return EMUL_CONTINUE;
}

static enum emul salc(struct cpu *c, const struct insn *i)
{
	(void)i;
	gpr_put(c, R_RAX, 1, c->aflags & RF_CF ? 0xff : 0);
	return EMUL_CONTINUE;
}

static enum emul bound(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize;
	u64 low, high, ea = insn_ea(c, i);
	s64 v = (s64)bits_sext(c->gpr[i->opnd[0].reg], 8 * n);
	gva_t lin;
	enum emul r = mem_linear_at(c, i, ea, 2 * n, false, &lin);

	if (r == EMUL_CONTINUE)
		r = lin_read(c, lin, n, insn_acc(i), &low);
	if (r == EMUL_CONTINUE)
		r = lin_read(c, lin + n, n, insn_acc(i), &high);
	if (r != EMUL_CONTINUE)
		return r;
	if (v < (s64)bits_sext(low, 8 * n) || v > (s64)bits_sext(high, 8 * n))
		return cpu_raise(c, EXC_BR, 0);
	return EMUL_CONTINUE;
}

op_fn bcd_select(const struct insn *i)
{
	switch (i->op) {
	case OP_DAA:
	case OP_DAS:
		return daa;
	case OP_AAA:
	case OP_AAS:
		return aaa;
	case OP_AAM:
		return aam;
	case OP_AAD:
		return aad;
	case OP_SALC:
		return salc;
	case OP_BOUND:
		return bound;
	default:
		return NULL;
	}
}
