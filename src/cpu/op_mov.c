/* SPDX-License-Identifier: MIT */
/*
 * MOV, MOVZX, MOVSX, MOVSXD, LEA, CMOVcc, SETcc, BSWAP, MOVBE, MOVNTI, XLAT and
 * the sign extensions of the accumulator.  No flags are written here.
 */
#include "cpu/op_int.h"

#include "cpu/flags.h"

/* clang-format off */
#define MOV(n)                                                                 \
	static enum emul mov_rr##n(struct cpu *c, const struct insn *i)        \
	{                                                                      \
		gpr_put(c, i->opnd[0].reg, n, c->gpr[i->opnd[1].reg]);         \
		return EMUL_CONTINUE;                                          \
	}                                                                      \
	static enum emul mov_ri##n(struct cpu *c, const struct insn *i)        \
	{                                                                      \
		gpr_put(c, i->opnd[0].reg, n, i->imm);                         \
		return EMUL_CONTINUE;                                          \
	}                                                                      \
	static enum emul mov_rm##n(struct cpu *c, const struct insn *i)        \
	{                                                                      \
		u64 v;                                                         \
		enum emul r = memop_read(c, i, n, &v);                           \
		if (likely(r == EMUL_CONTINUE))                                \
			gpr_put(c, i->opnd[0].reg, n, v);                      \
		return r;                                                      \
	}                                                                      \
	static enum emul mov_mr##n(struct cpu *c, const struct insn *i)        \
	{                                                                      \
		return memop_write(c, i, n, c->gpr[i->opnd[1].reg]);             \
	}                                                                      \
	static enum emul mov_mi##n(struct cpu *c, const struct insn *i)        \
	{                                                                      \
		return memop_write(c, i, n, i->imm);                             \
	}

MOV(1) MOV(2) MOV(4) MOV(8)

enum mov_form { MOV_RR, MOV_RI, MOV_RM, MOV_MR, MOV_MI, MOV_FORMS };

#define MROW(n) { mov_rr##n, mov_ri##n, mov_rm##n, mov_mr##n, mov_mi##n }
static const op_fn mov_table[4][MOV_FORMS] = { MROW(1), MROW(2), MROW(4), MROW(8) };
/* clang-format on */

static enum emul mov_general(struct cpu *c, const struct insn *i)
{
	u64 v;
	enum emul r = opd_read(c, i, &i->opnd[1], &v);

	if (r != EMUL_CONTINUE)
		return r;
	return opd_write(c, i, &i->opnd[0], v);
}

static bool is_plain(const struct operand *o)
{
	return o->kind == OPD_GPR || o->kind == OPD_GPR8H || o->kind == OPD_MEM ||
	       o->kind == OPD_IMM;
}

static op_fn mov_plain_select(const struct insn *i)
{
	const struct operand *d = &i->opnd[0], *s = &i->opnd[1];
	unsigned form;

	if (!is_plain(d) || !is_plain(s))
		return NULL; /* segment, control and debug registers: op_sys.c */
	if (d->kind == OPD_GPR8H || s->kind == OPD_GPR8H)
		return mov_general;
	if (d->kind == OPD_MEM)
		form = s->kind == OPD_IMM ? MOV_MI : MOV_MR;
	else if (s->kind == OPD_MEM)
		form = MOV_RM;
	else
		form = s->kind == OPD_IMM ? MOV_RI : MOV_RR;
	return mov_table[int_size_index(d->size)][form];
}

/* --- extensions ------------------------------------------------------------ */

/* clang-format off */
#define EXTEND(NAME, from, to, EXT)                                            \
	static enum emul NAME##_r##from##to(struct cpu *c, const struct insn *i) \
	{                                                                      \
		gpr_put(c, i->opnd[0].reg, to, EXT(c->gpr[i->opnd[1].reg], from)); \
		return EMUL_CONTINUE;                                          \
	}                                                                      \
	static enum emul NAME##_m##from##to(struct cpu *c, const struct insn *i) \
	{                                                                      \
		u64 v;                                                         \
		enum emul r = memop_read(c, i, from, &v);                        \
		if (likely(r == EMUL_CONTINUE))                                \
			gpr_put(c, i->opnd[0].reg, to, EXT(v, from));          \
		return r;                                                      \
	}

#define ZX(v, n) ((v) & (~0ull >> (64 - 8 * (n))))
#define SX(v, n) bits_sext(v, 8 * (n))

EXTEND(movzx, 1, 2, ZX) EXTEND(movzx, 1, 4, ZX) EXTEND(movzx, 1, 8, ZX)
EXTEND(movzx, 2, 2, ZX) EXTEND(movzx, 2, 4, ZX) EXTEND(movzx, 2, 8, ZX)
EXTEND(movsx, 1, 2, SX) EXTEND(movsx, 1, 4, SX) EXTEND(movsx, 1, 8, SX)
EXTEND(movsx, 2, 2, SX) EXTEND(movsx, 2, 4, SX) EXTEND(movsx, 2, 8, SX)
EXTEND(movsx, 4, 2, SX) EXTEND(movsx, 4, 4, SX) EXTEND(movsx, 4, 8, SX)

#define XROW(NAME, from, to) { NAME##_r##from##to, NAME##_m##from##to }
#define XROWS(NAME, from) { XROW(NAME, from, 2), XROW(NAME, from, 4), XROW(NAME, from, 8) }
static const op_fn movzx_table[2][3][2] = { XROWS(movzx, 1), XROWS(movzx, 2) };
static const op_fn movsx_table[3][3][2] = {
	XROWS(movsx, 1), XROWS(movsx, 2), XROWS(movsx, 4)
};
/* clang-format on */

static enum emul extend_high(struct cpu *c, const struct insn *i)
{
	u8 v = *gpr8(c, &i->opnd[1]);

	gpr_put(c, i->opnd[0].reg, i->opnd[0].size,
		i->op == OP_MOVZX ? v : (u64)(s64)(s8)v);
	return EMUL_CONTINUE;
}

static op_fn extend_select(const struct insn *i)
{
	const struct operand *s = &i->opnd[1];
	unsigned from, to = int_size_index(i->opnd[0].size) - 1;

	if (s->kind == OPD_GPR8H)
		return extend_high;
	/* MOVSXD r16, r/m16 copies 16 bits; its source has size 2. */
	from = int_size_index(s->size);
	if (i->op == OP_MOVZX)
		return movzx_table[from][to][s->kind == OPD_MEM];
	return movsx_table[from][to][s->kind == OPD_MEM];
}

/* --- LEA, CMOVcc, SETcc ------------------------------------------------------ */

static enum emul lea_2(struct cpu *c, const struct insn *i)
{
	gpr_put(c, i->opnd[0].reg, 2, insn_ea(c, i));
	return EMUL_CONTINUE;
}

static enum emul lea_4(struct cpu *c, const struct insn *i)
{
	gpr_put(c, i->opnd[0].reg, 4, insn_ea(c, i));
	return EMUL_CONTINUE;
}

static enum emul lea_8(struct cpu *c, const struct insn *i)
{
	gpr_put(c, i->opnd[0].reg, 8, insn_ea(c, i));
	return EMUL_CONTINUE;
}

/* A false condition still reads memory (and may fault), and still clears the
 * upper half of a 32-bit destination. */
static always_inline enum emul cmov(struct cpu *c, const struct insn *i, unsigned n, bool mem)
{
	u64 v;

	if (mem) {
		enum emul r = memop_read(c, i, n, &v);

		if (unlikely(r != EMUL_CONTINUE))
			return r;
	} else {
		v = c->gpr[i->opnd[1].reg];
	}
	if (!flags_cond(c->aflags, i->cond))
		v = c->gpr[i->opnd[0].reg];
	gpr_put(c, i->opnd[0].reg, n, v);
	return EMUL_CONTINUE;
}

static enum emul cmov_2(struct cpu *c, const struct insn *i)
{
	return cmov(c, i, 2, i->opnd[1].kind == OPD_MEM);
}

static enum emul cmov_r4(struct cpu *c, const struct insn *i)
{
	return cmov(c, i, 4, false);
}

static enum emul cmov_m4(struct cpu *c, const struct insn *i)
{
	return cmov(c, i, 4, true);
}

static enum emul cmov_r8(struct cpu *c, const struct insn *i)
{
	return cmov(c, i, 8, false);
}

static enum emul cmov_m8(struct cpu *c, const struct insn *i)
{
	return cmov(c, i, 8, true);
}

static enum emul setcc_reg(struct cpu *c, const struct insn *i)
{
	*gpr8(c, &i->opnd[0]) = flags_cond(c->aflags, i->cond);
	return EMUL_CONTINUE;
}

static enum emul setcc_mem(struct cpu *c, const struct insn *i)
{
	return memop_write(c, i, 1, flags_cond(c->aflags, i->cond));
}

static op_fn cmov_select(const struct insn *i)
{
	bool mem = i->opnd[1].kind == OPD_MEM;

	if (i->opsize == 2)
		return cmov_2;
	if (i->opsize == 4)
		return mem ? cmov_m4 : cmov_r4;
	return mem ? cmov_m8 : cmov_r8;
}

/* --- the rest ---------------------------------------------------------------- */

static u64 swap_bytes(u64 v, unsigned n)
{
	return __builtin_bswap64(v) >> (64 - 8 * n);
}

/* BSWAP r16 is undefined in the manuals; processors clear the low word. */
static enum emul bswap(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opnd[0].size;
	u64 v = n == 2 ? 0 : swap_bytes(c->gpr[i->opnd[0].reg], n);

	gpr_put(c, i->opnd[0].reg, n, v);
	return EMUL_CONTINUE;
}

static enum emul movbe(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize;
	u64 v;
	enum emul r;

	if (i->opnd[0].kind == OPD_MEM)
		return memop_write(c, i, n, swap_bytes(c->gpr[i->opnd[1].reg], n));
	r = memop_read(c, i, n, &v);
	if (r == EMUL_CONTINUE)
		gpr_put(c, i->opnd[0].reg, n, swap_bytes(v, n));
	return r;
}

/* CBW CWDE CDQE: low half of the accumulator into all of it. */
static enum emul extend_acc(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize;

	gpr_put(c, R_RAX, n, bits_sext(c->gpr[R_RAX], 4 * n));
	return EMUL_CONTINUE;
}

/* CWD CDQ CQO: sign of the accumulator into rDX. */
static enum emul sign_acc(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize;

	gpr_put(c, R_RDX, n, bits_sext(c->gpr[R_RAX], 8 * n) >> 63 ? ~0ull : 0);
	return EMUL_CONTINUE;
}

static enum emul xlat(struct cpu *c, const struct insn *i)
{
	u64 v, ea = c->gpr[R_RBX] + (u8)c->gpr[R_RAX];
	gva_t lin;
	enum emul r;

	if (i->adsize != 8)
		ea &= i->adsize == 4 ? 0xffffffffull : 0xffffull;
	r = mem_linear_at(c, i, ea, 1, false, &lin);
	if (r != EMUL_CONTINUE)
		return r;
	r = lin_read(c, lin, 1, 0, &v);
	if (r == EMUL_CONTINUE)
		gpr_put(c, R_RAX, 1, v);
	return r;
}

op_fn mov_select(const struct insn *i)
{
	static const op_fn lea[4] = { NULL, lea_2, lea_4, lea_8 };

	switch (i->op) {
	case OP_MOV:
	case OP_MOVNTI:
		return mov_plain_select(i);
	case OP_MOVZX:
	case OP_MOVSX:
	case OP_MOVSXD:
		return extend_select(i);
	case OP_LEA:
		return lea[int_size_index(i->opsize)];
	case OP_CMOVCC:
		return cmov_select(i);
	case OP_SETCC:
		return i->opnd[0].kind == OPD_MEM ? setcc_mem : setcc_reg;
	case OP_BSWAP:
		return bswap;
	case OP_MOVBE:
		return movbe;
	case OP_CBW:
		return extend_acc;
	case OP_CWD:
		return sign_acc;
	case OP_XLAT:
		return xlat;
	default:
		return NULL;
	}
}
