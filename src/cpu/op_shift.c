/* SPDX-License-Identifier: MIT */
/*
 * ROL ROR RCL RCR SHL SHR SAR, SHLD SHRD.
 *
 * The host does the operation with the guest's flags loaded, so a count of
 * zero, RCL/RCR modulo 9 and 17, and the undefined flags are the host's.  One
 * thing depends on the form: Intel's processors leave OF alone when a register is
 * rotated by an immediate above 1.
 */
#include "cpu/alu.h"
#include "cpu/hostcpu.h"
#include "cpu/op_int.h"

enum shift_form { SHIFT_RI, SHIFT_RC, SHIFT_MI, SHIFT_MC, SHIFT_FORMS };

/* clang-format off */
#define SHIFT(NAME, OP, n)                                                     \
	static u64 rmw_##NAME##n(const struct cpu *c, const struct insn *i, u64 old, \
				 u64 src, u64 *f)                              \
	{                                                                      \
		(void)c, (void)i;                                              \
		return alu_shift(OP, n, old, src, f);                          \
	}                                                                      \
	static enum emul NAME##_ri##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		u64 f = c->aflags;                                             \
		u64 *p = &c->gpr[i->opnd[0].reg];                              \
		*p = alu_shift(OP, n, *p, i->imm, &f);                         \
		c->aflags = f;                                                 \
		return EMUL_CONTINUE;                                          \
	}                                                                      \
	static enum emul NAME##_rc##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		u64 f = c->aflags;                                             \
		u64 *p = &c->gpr[i->opnd[0].reg];                              \
		*p = alu_shift(OP, n, *p, c->gpr[R_RCX], &f);                  \
		c->aflags = f;                                                 \
		return EMUL_CONTINUE;                                          \
	}                                                                      \
	static enum emul NAME##_mi##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		return rmw_plain(c, i, n, rmw_##NAME##n, i->imm);              \
	}                                                                      \
	static enum emul NAME##_mc##n(struct cpu *c, const struct insn *i)     \
	{                                                                      \
		return rmw_plain(c, i, n, rmw_##NAME##n, c->gpr[R_RCX]);       \
	}

#define SHIFT_SIZES(NAME, OP)                                                  \
	SHIFT(NAME, OP, 1) SHIFT(NAME, OP, 2) SHIFT(NAME, OP, 4) SHIFT(NAME, OP, 8)

SHIFT_SIZES(rol, SHIFT_ROL)
SHIFT_SIZES(ror, SHIFT_ROR)
SHIFT_SIZES(rcl, SHIFT_RCL)
SHIFT_SIZES(rcr, SHIFT_RCR)
SHIFT_SIZES(shl, SHIFT_SHL)
SHIFT_SIZES(shr, SHIFT_SHR)
SHIFT_SIZES(sar, SHIFT_SAR)

#define SROW(NAME, n) { NAME##_ri##n, NAME##_rc##n, NAME##_mi##n, NAME##_mc##n }
#define SROWS(NAME) { SROW(NAME, 1), SROW(NAME, 2), SROW(NAME, 4), SROW(NAME, 8) }
#define SRMWS(NAME) { rmw_##NAME##1, rmw_##NAME##2, rmw_##NAME##4, rmw_##NAME##8 }

static const op_fn shift_table[8][4][SHIFT_FORMS] = {
	[SHIFT_ROL] = SROWS(rol), [SHIFT_ROR] = SROWS(ror), [SHIFT_RCL] = SROWS(rcl),
	[SHIFT_RCR] = SROWS(rcr), [SHIFT_SHL] = SROWS(shl), [SHIFT_SHR] = SROWS(shr),
	[SHIFT_SAL] = SROWS(shl), [SHIFT_SAR] = SROWS(sar),
};

static const rmw_fn shift_rmw[8][4] = {
	[SHIFT_ROL] = SRMWS(rol), [SHIFT_ROR] = SRMWS(ror), [SHIFT_RCL] = SRMWS(rcl),
	[SHIFT_RCR] = SRMWS(rcr), [SHIFT_SHL] = SRMWS(shl), [SHIFT_SHR] = SRMWS(shr),
	[SHIFT_SAL] = SRMWS(shl), [SHIFT_SAR] = SRMWS(sar),
};
/* clang-format on */

static unsigned shift_op(const struct insn *i)
{
	switch (i->op) {
	case OP_ROL:
		return SHIFT_ROL;
	case OP_ROR:
		return SHIFT_ROR;
	case OP_RCL:
		return SHIFT_RCL;
	case OP_RCR:
		return SHIFT_RCR;
	case OP_SHL:
		return SHIFT_SHL;
	case OP_SHR:
		return SHIFT_SHR;
	default:
		return SHIFT_SAR;
	}
}

static enum emul shift_high(struct cpu *c, const struct insn *i)
{
	u8 *p = gpr8(c, &i->opnd[0]);
	u64 count = i->opnd[1].kind == OPD_IMM ? i->imm : c->gpr[R_RCX];
	u64 f = c->aflags;

	*p = (u8)shift_rmw[shift_op(i)][0](c, i, *p, count, &f);
	c->aflags = f;
	return EMUL_CONTINUE;
}

static enum emul rotate_keeping_of(struct cpu *c, const struct insn *i)
{
	const struct operand *d = &i->opnd[0];
	u64 f = c->aflags, of = f & RF_OF, v = 0;
	enum emul r = opd_read(c, i, d, &v);

	if (r != EMUL_CONTINUE)
		return r;
	opd_put(c, d, shift_rmw[shift_op(i)][int_size_index(d->size)](c, i, v, i->imm, &f));
	c->aflags = (f & ~(u64)RF_OF) | of;
	return EMUL_CONTINUE;
}

static bool keeps_of(const struct insn *i)
{
	unsigned count = (unsigned)i->imm & (i->opnd[0].size == 8 ? 63 : 31);

	return !hostcpu()->amd && count > 1 && i->opnd[1].kind == OPD_IMM &&
	       i->opnd[0].kind != OPD_MEM && (i->op == OP_ROL || i->op == OP_ROR);
}

op_fn shift_select(const struct insn *i)
{
	const struct operand *d = &i->opnd[0];
	unsigned form = d->kind == OPD_MEM ? SHIFT_MI : SHIFT_RI;

	if (keeps_of(i))
		return rotate_keeping_of;
	if (d->kind == OPD_GPR8H)
		return shift_high;
	if (i->opnd[1].kind != OPD_IMM)
		form++;
	return shift_table[shift_op(i)][int_size_index(d->size)][form];
}

/* --- SHLD, SHRD -------------------------------------------------------------- */

static u64 shiftd_any(const struct cpu *c, const struct insn *i, u64 old, u64 src, u64 *f)
{
	bool left = i->op == OP_SHLD;
	u64 count = i->opnd[2].kind == OPD_IMM ? i->imm : c->gpr[R_RCX];

	switch (i->opnd[0].size) {
	case 2:
		return alu_shiftd(left, 2, old, src, count, f);
	case 4:
		return alu_shiftd(left, 4, old, src, count, f);
	default:
		return alu_shiftd(left, 8, old, src, count, f);
	}
}

static enum emul shiftd_reg(struct cpu *c, const struct insn *i)
{
	u64 f = c->aflags;
	u64 *p = &c->gpr[i->opnd[0].reg];

	*p = shiftd_any(c, i, *p, c->gpr[i->opnd[1].reg], &f);
	c->aflags = f;
	return EMUL_CONTINUE;
}

static enum emul shiftd_mem(struct cpu *c, const struct insn *i)
{
	return int_rmw(c, i, shiftd_any, c->gpr[i->opnd[1].reg]);
}

op_fn shiftd_select(const struct insn *i)
{
	return i->opnd[0].kind == OPD_MEM ? shiftd_mem : shiftd_reg;
}
