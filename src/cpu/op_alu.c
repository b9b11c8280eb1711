/* SPDX-License-Identifier: MIT */
/*
 * ADD OR ADC SBB AND SUB XOR CMP TEST, INC DEC NEG NOT.
 *
 * One handler for each operation, size and form of operands; the loops of a
 * guest spend their time here.  LOCK and AH..BH take the general form.
 */
#include "cpu/alu.h"
#include "cpu/op_int.h"
#include "cpu/rmw.h"

enum alu_form { ALU_RR, ALU_RI, ALU_RM, ALU_MR, ALU_MI, ALU_FORMS };

static always_inline bool alu_writes(unsigned op)
{
	return op != ALU_CMP && op != ALU_TEST;
}

static always_inline enum emul alu_reg(struct cpu *c, const struct insn *i, unsigned op,
				       unsigned n, u64 src)
{
	u64 f = c->aflags;
	u64 v = alu_exec(op, n, c->gpr[i->opnd[0].reg], src, &f);

	if (alu_writes(op))
		c->gpr[i->opnd[0].reg] = v;
	c->aflags = f;
	return EMUL_CONTINUE;
}

static always_inline enum emul alu_rr(struct cpu *c, const struct insn *i, unsigned op,
				      unsigned n)
{
	return alu_reg(c, i, op, n, c->gpr[i->opnd[1].reg]);
}

static always_inline enum emul alu_ri(struct cpu *c, const struct insn *i, unsigned op,
				      unsigned n)
{
	return alu_reg(c, i, op, n, i->imm);
}

static always_inline enum emul alu_rm(struct cpu *c, const struct insn *i, unsigned op,
				      unsigned n)
{
	u64 src;
	enum emul r = memop_read(c, i, n, &src);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return alu_reg(c, i, op, n, src);
}

/* CMP and TEST of memory: read only. */
static always_inline enum emul alu_mem_compare(struct cpu *c, const struct insn *i,
					       unsigned op, unsigned n, u64 src)
{
	u64 old, f = c->aflags;
	enum emul r = memop_read(c, i, n, &old);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	alu_exec(op, n, old, src, &f);
	c->aflags = f;
	return EMUL_CONTINUE;
}

/* clang-format off */
#define RMW_ONE(NAME, OP, n)                                                   \
	static u64 rmw_##NAME##n(const struct cpu *c, const struct insn *i, u64 old, \
				 u64 src, u64 *f)                              \
	{                                                                      \
		(void)c, (void)i;                                              \
		return alu_exec(OP, n, old, src, f);                           \
	}

#define HANDLERS(NAME, OP, n)                                                  \
	RMW_ONE(NAME, OP, n)                                                   \
	static enum emul NAME##_rr##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		return alu_rr(c, i, OP, n);                                    \
	}                                                                      \
	static enum emul NAME##_ri##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		return alu_ri(c, i, OP, n);                                    \
	}                                                                      \
	static enum emul NAME##_rm##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		return alu_rm(c, i, OP, n);                                    \
	}                                                                      \
	static enum emul NAME##_mr##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		u64 src = c->gpr[i->opnd[1].reg];                              \
		if (!alu_writes(OP))                                           \
			return alu_mem_compare(c, i, OP, n, src);              \
		return rmw_plain(c, i, n, rmw_##NAME##n, src);                 \
	}                                                                      \
	static enum emul NAME##_mi##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		if (!alu_writes(OP))                                           \
			return alu_mem_compare(c, i, OP, n, i->imm);           \
		return rmw_plain(c, i, n, rmw_##NAME##n, i->imm);              \
	}

#define ALL_SIZES(NAME, OP)                                                    \
	HANDLERS(NAME, OP, 1) HANDLERS(NAME, OP, 2)                            \
	HANDLERS(NAME, OP, 4) HANDLERS(NAME, OP, 8)

ALL_SIZES(add, ALU_ADD)
ALL_SIZES(or, ALU_OR)
ALL_SIZES(adc, ALU_ADC)
ALL_SIZES(sbb, ALU_SBB)
ALL_SIZES(and, ALU_AND)
ALL_SIZES(sub, ALU_SUB)
ALL_SIZES(xor, ALU_XOR)
ALL_SIZES(cmp, ALU_CMP)
ALL_SIZES(test, ALU_TEST)

#define ROW(NAME, n) { NAME##_rr##n, NAME##_ri##n, NAME##_rm##n, NAME##_mr##n, NAME##_mi##n }
#define ROWS(NAME) { ROW(NAME, 1), ROW(NAME, 2), ROW(NAME, 4), ROW(NAME, 8) }
#define RMWS(NAME) { rmw_##NAME##1, rmw_##NAME##2, rmw_##NAME##4, rmw_##NAME##8 }

static const op_fn alu_table[ALU_OPS][4][ALU_FORMS] = {
	[ALU_ADD] = ROWS(add), [ALU_OR] = ROWS(or), [ALU_ADC] = ROWS(adc),
	[ALU_SBB] = ROWS(sbb), [ALU_AND] = ROWS(and), [ALU_SUB] = ROWS(sub),
	[ALU_XOR] = ROWS(xor), [ALU_CMP] = ROWS(cmp), [ALU_TEST] = ROWS(test),
};

static const rmw_fn alu_rmw[ALU_OPS][4] = {
	[ALU_ADD] = RMWS(add), [ALU_OR] = RMWS(or), [ALU_ADC] = RMWS(adc),
	[ALU_SBB] = RMWS(sbb), [ALU_AND] = RMWS(and), [ALU_SUB] = RMWS(sub),
	[ALU_XOR] = RMWS(xor), [ALU_CMP] = RMWS(cmp), [ALU_TEST] = RMWS(test),
};
/* clang-format on */

static unsigned alu_op(const struct insn *i)
{
	switch (i->op) {
	case OP_ADD:
		return ALU_ADD;
	case OP_OR:
		return ALU_OR;
	case OP_ADC:
		return ALU_ADC;
	case OP_SBB:
		return ALU_SBB;
	case OP_AND:
		return ALU_AND;
	case OP_SUB:
		return ALU_SUB;
	case OP_XOR:
		return ALU_XOR;
	case OP_CMP:
		return ALU_CMP;
	default:
		return ALU_TEST;
	}
}

/* AH..BH, and LOCK: any operands, the operation looked up. */
static enum emul alu_general(struct cpu *c, const struct insn *i)
{
	unsigned op = alu_op(i), n = i->opnd[0].size;
	rmw_fn fn = alu_rmw[op][int_size_index(n)];
	u64 d, s, f = c->aflags;
	enum emul r = opd_read(c, i, &i->opnd[1], &s);

	if (r != EMUL_CONTINUE)
		return r;
	if (i->opnd[0].kind == OPD_MEM && alu_writes(op))
		return int_rmw(c, i, fn, s);
	r = opd_read(c, i, &i->opnd[0], &d);
	if (r != EMUL_CONTINUE)
		return r;
	d = fn(c, i, d, s, &f);
	if (alu_writes(op))
		opd_put(c, &i->opnd[0], d);
	c->aflags = f;
	return EMUL_CONTINUE;
}

op_fn alu_select(const struct insn *i)
{
	const struct operand *d = &i->opnd[0], *s = &i->opnd[1];
	unsigned form;

	if (i->flags & INSN_LOCK || d->kind == OPD_GPR8H || s->kind == OPD_GPR8H)
		return alu_general;
	if (d->kind == OPD_MEM)
		form = s->kind == OPD_IMM ? ALU_MI : ALU_MR;
	else if (s->kind == OPD_MEM)
		form = ALU_RM;
	else
		form = s->kind == OPD_IMM ? ALU_RI : ALU_RR;
	return alu_table[alu_op(i)][int_size_index(d->size)][form];
}

/* --- one operand ----------------------------------------------------------- */

/* clang-format off */
#define UNARY(NAME, OP, n)                                                     \
	static u64 rmw_##NAME##n(const struct cpu *c, const struct insn *i, u64 old, \
				 u64 src, u64 *f)                              \
	{                                                                      \
		(void)c, (void)i, (void)src;                                   \
		return alu_unary(OP, n, old, f);                               \
	}                                                                      \
	static enum emul NAME##_r##n(struct cpu *c, const struct insn *i)      \
	{                                                                      \
		u64 f = c->aflags;                                             \
		u64 *p = &c->gpr[i->opnd[0].reg];                              \
		*p = alu_unary(OP, n, *p, &f);                                 \
		c->aflags = f;                                                 \
		return EMUL_CONTINUE;                                          \
	}                                                                      \
	static enum emul NAME##_m##n(struct cpu *c, const struct insn *i)      \
	{                                                                      \
		return rmw_plain(c, i, n, rmw_##NAME##n, 0);                   \
	}

#define UNARY_SIZES(NAME, OP)                                                  \
	UNARY(NAME, OP, 1) UNARY(NAME, OP, 2) UNARY(NAME, OP, 4) UNARY(NAME, OP, 8)

UNARY_SIZES(inc, UNARY_INC)
UNARY_SIZES(dec, UNARY_DEC)
UNARY_SIZES(neg, UNARY_NEG)
UNARY_SIZES(not, UNARY_NOT)

#define UROW(NAME, n) { NAME##_r##n, NAME##_m##n }
#define UROWS(NAME) { UROW(NAME, 1), UROW(NAME, 2), UROW(NAME, 4), UROW(NAME, 8) }

static const op_fn unary_table[4][4][2] = {
	[UNARY_INC] = UROWS(inc), [UNARY_DEC] = UROWS(dec),
	[UNARY_NEG] = UROWS(neg), [UNARY_NOT] = UROWS(not),
};

static const rmw_fn unary_rmw[4][4] = {
	[UNARY_INC] = RMWS(inc), [UNARY_DEC] = RMWS(dec),
	[UNARY_NEG] = RMWS(neg), [UNARY_NOT] = RMWS(not),
};
/* clang-format on */

static unsigned unary_op(const struct insn *i)
{
	switch (i->op) {
	case OP_INC:
		return UNARY_INC;
	case OP_DEC:
		return UNARY_DEC;
	case OP_NEG:
		return UNARY_NEG;
	default:
		return UNARY_NOT;
	}
}

static enum emul unary_general(struct cpu *c, const struct insn *i)
{
	rmw_fn fn = unary_rmw[unary_op(i)][int_size_index(i->opnd[0].size)];
	u64 f = c->aflags;

	if (i->opnd[0].kind == OPD_MEM)
		return int_rmw(c, i, fn, 0);
	opd_put(c, &i->opnd[0], fn(c, i, *gpr8(c, &i->opnd[0]), 0, &f));
	c->aflags = f;
	return EMUL_CONTINUE;
}

op_fn unary_select(const struct insn *i)
{
	const struct operand *d = &i->opnd[0];

	if (i->flags & INSN_LOCK || d->kind == OPD_GPR8H)
		return unary_general;
	return unary_table[unary_op(i)][int_size_index(d->size)][d->kind == OPD_MEM];
}
