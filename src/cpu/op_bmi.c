/* SPDX-License-Identifier: MIT */
/*
 * BMI1, BMI2 and ADX: three-operand bit manipulation.
 *
 * ANDN BEXTR BLSI BLSMSK BLSR BZHI write flags, some undefined: those are the
 * host's where it has the instruction, else they stay as they were.  PDEP and
 * PEXT are slow in C, so the host does them if it can.  The rest is exact in C.
 */
#include "cpu/alu.h"
#include "cpu/hostcpu.h"
#include "cpu/op_int.h"

/* d = INS(...): S1 and S2 name a and b in AT&T order. */
#define BMI3_ASM(INS, MOD, S1, S2)                                             \
	asm(FLAGS_LOAD INS " %" MOD "[" S1 "], %" MOD "[" S2 "], %" MOD "[d]" FLAGS_SAVE \
	    : [d] "=&r"(d), "+&a"(ax)                                          \
	    : [a] "r"(a), [b] "r"(b)                                           \
	    : "cc")

#define BMI3(INS, S1, S2)                                                        \
	do {                                                                   \
		if (n == 4)                                                    \
			BMI3_ASM(INS, "k", S1, S2);                                  \
		else                                                           \
			BMI3_ASM(INS, "q", S1, S2);                                  \
	} while (0)

#define BMI2_ASM(INS, MOD)                                                     \
	asm(FLAGS_LOAD INS " %" MOD "[b], %" MOD "[d]" FLAGS_SAVE              \
	    : [d] "=&r"(d), "+&a"(ax)                                          \
	    : [b] "r"(b)                                                       \
	    : "cc")

#define BMI2(INS)                                                              \
	do {                                                                   \
		if (n == 4)                                                    \
			BMI2_ASM(INS, "k");                                    \
		else                                                           \
			BMI2_ASM(INS, "q");                                    \
	} while (0)

/* @a: VEX.vvvv or the first source, @b: r/m; as the Intel manual orders them. */
static u64 flagged_host(unsigned op, unsigned n, u64 a, u64 b, u64 *f)
{
	u32 ax = flags_ax(*f);
	u64 d = 0;

	switch (op) {
	case OP_ANDN:
		BMI3("andn", "b", "a");
		break;
	case OP_BEXTR: /* AT&T: control, source, destination */
		BMI3("bextr", "a", "b");
		break;
	case OP_BZHI:
		BMI3("bzhi", "a", "b");
		break;
	case OP_BLSI:
		BMI2("blsi");
		break;
	case OP_BLSMSK:
		BMI2("blsmsk");
		break;
	default:
		BMI2("blsr");
		break;
	}
	*f = flags_from_ax(ax);
	return d;
}

static u64 sign_zero(unsigned n, u64 v)
{
	return (v ? 0 : RF_ZF) | (v >> (8 * n - 1) & 1 ? RF_SF : 0);
}

static u64 bextr_soft(unsigned n, u64 control, u64 v)
{
	unsigned start = control & 0xff, len = control >> 8 & 0xff;

	if (start >= 8 * n)
		return 0;
	v >>= start;
	return len >= 64 ? v : v & ((1ull << len) - 1);
}

static u64 bzhi_soft(unsigned n, u64 index, u64 v)
{
	unsigned bits = index & 0xff;

	return bits >= 8 * n ? v : v & ((1ull << bits) - 1);
}

static u64 flagged_soft(unsigned op, unsigned n, u64 a, u64 b, u64 *f)
{
	u64 mask = ~0ull >> (64 - 8 * n), keep = RF_PF | RF_AF, fl, d;

	a &= mask;
	b &= mask;
	switch (op) {
	case OP_ANDN:
		d = ~a & b;
		fl = sign_zero(n, d);
		break;
	case OP_BEXTR:
		d = bextr_soft(n, a, b);
		fl = d ? 0 : RF_ZF;
		keep |= RF_SF;
		break;
	case OP_BZHI:
		d = bzhi_soft(n, a, b);
		fl = sign_zero(n, d) | ((a & 0xff) >= 8 * n ? RF_CF : 0);
		break;
	case OP_BLSI:
		d = b & (0 - b);
		fl = sign_zero(n, d) | (b ? RF_CF : 0);
		break;
	case OP_BLSMSK:
		d = (b ^ (b - 1)) & mask;
		fl = (sign_zero(n, d) & ~(u64)RF_ZF) | (b ? 0 : RF_CF);
		break;
	default: /* BLSR */
		d = b & (b - 1);
		fl = sign_zero(n, d) | (b ? 0 : RF_CF);
		break;
	}
	*f = (*f & keep) | fl;
	return d;
}

/* Operand order in the table: ANDN d, vvvv, r/m; BEXTR and BZHI d, r/m, vvvv;
 * BLS* vvvv, r/m. */
static enum emul flagged(struct cpu *c, const struct insn *i, bool host)
{
	unsigned n = i->opsize == 8 ? 8 : 4, op = i->op;
	unsigned rm = i->nopnd == 2 || op != OP_ANDN ? 1 : 2;
	u64 a = 0, b, f = c->aflags;
	enum emul r = opd_read(c, i, &i->opnd[rm], &b);

	if (r != EMUL_CONTINUE)
		return r;
	if (i->nopnd == 3)
		a = gpr_get(c, i->opnd[3 - rm].reg, n);
	c->gpr[i->opnd[0].reg] = host ? flagged_host(op, n, a, b, &f) :
					flagged_soft(op, n, a, b, &f);
	c->aflags = f;
	return EMUL_CONTINUE;
}

static enum emul flagged_by_host(struct cpu *c, const struct insn *i)
{
	return flagged(c, i, true);
}

static enum emul flagged_by_c(struct cpu *c, const struct insn *i)
{
	return flagged(c, i, false);
}

/* --- shifts without flags, RORX, MULX ------------------------------------------ */

static u64 shiftx(unsigned op, unsigned n, u64 v, u64 count)
{
	count &= n == 8 ? 63 : 31;
	switch (op) {
	case OP_SHLX:
		v <<= count;
		break;
	case OP_SHRX:
		v >>= count;
		break;
	case OP_SARX:
		v = (u64)((s64)bits_sext(v, 8 * n) >> count);
		break;
	default: /* RORX */
		if (count)
			v = v >> count | v << (8 * n - count);
		break;
	}
	return n == 8 ? v : (u32)v;
}

static enum emul shiftx_op(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize == 8 ? 8 : 4;
	u64 v, count;
	enum emul r = opd_read(c, i, &i->opnd[1], &v);

	if (r != EMUL_CONTINUE)
		return r;
	count = i->opnd[2].kind == OPD_IMM ? i->imm : c->gpr[i->opnd[2].reg];
	c->gpr[i->opnd[0].reg] = shiftx(i->op, n, v, count);
	return EMUL_CONTINUE;
}

/* The low half first: with one register for both halves the high one stays. */
static enum emul mulx(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize == 8 ? 8 : 4;
	u64 v;
	u128 p;
	enum emul r = opd_read(c, i, &i->opnd[2], &v);

	if (r != EMUL_CONTINUE)
		return r;
	p = (u128)gpr_get(c, R_RDX, n) * v;
	gpr_put(c, i->opnd[1].reg, n, (u64)p);
	gpr_put(c, i->opnd[0].reg, n, (u64)(p >> (8 * n)));
	return EMUL_CONTINUE;
}

/* --- PDEP, PEXT ------------------------------------------------------------------ */

static u64 pdep_soft(u64 v, u64 mask)
{
	u64 d = 0;

	for (; mask; mask &= mask - 1, v >>= 1)
		if (v & 1)
			d |= mask & (0 - mask);
	return d;
}

static u64 pext_soft(u64 v, u64 mask)
{
	u64 d = 0, bit = 1;

	for (; mask; mask &= mask - 1, bit <<= 1)
		if (v & mask & (0 - mask))
			d |= bit;
	return d;
}

static enum emul deposit(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize == 8 ? 8 : 4;
	u64 mask, v = gpr_get(c, i->opnd[1].reg, n), d;
	enum emul r = opd_read(c, i, &i->opnd[2], &mask);

	if (r != EMUL_CONTINUE)
		return r;
	if (!hostcpu()->bmi2)
		d = i->op == OP_PDEP ? pdep_soft(v, mask) : pext_soft(v, mask);
	else if (i->op == OP_PDEP)
		asm("pdep %2, %1, %0" : "=r"(d) : "r"(v), "r"(mask));
	else
		asm("pext %2, %1, %0" : "=r"(d) : "r"(v), "r"(mask));
	c->gpr[i->opnd[0].reg] = d;
	return EMUL_CONTINUE;
}

/* --- ADCX, ADOX: one flag in, the same out, the others untouched ------------------- */

static enum emul adx(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize == 8 ? 8 : 4;
	u64 flag = i->op == OP_ADCX ? RF_CF : RF_OF;
	u64 v, d = gpr_get(c, i->opnd[0].reg, n);
	u128 sum;
	enum emul r = opd_read(c, i, &i->opnd[1], &v);

	if (r != EMUL_CONTINUE)
		return r;
	sum = (u128)d + v + (c->aflags & flag ? 1 : 0);
	gpr_put(c, i->opnd[0].reg, n, (u64)sum);
	c->aflags = (c->aflags & ~flag) | ((u64)(sum >> (8 * n)) & 1 ? flag : 0);
	return EMUL_CONTINUE;
}

static op_fn flagged_select(const struct insn *i)
{
	bool has = i->op == OP_BZHI ? hostcpu()->bmi2 : hostcpu()->bmi1;

	return has ? flagged_by_host : flagged_by_c;
}

op_fn bmi_select(const struct insn *i)
{
	switch (i->op) {
	case OP_ANDN:
	case OP_BEXTR:
	case OP_BLSI:
	case OP_BLSMSK:
	case OP_BLSR:
	case OP_BZHI:
		return flagged_select(i);
	case OP_SHLX:
	case OP_SHRX:
	case OP_SARX:
	case OP_RORX:
		return shiftx_op;
	case OP_MULX:
		return mulx;
	case OP_PDEP:
	case OP_PEXT:
		return deposit;
	case OP_ADCX:
	case OP_ADOX:
		return adx;
	default:
		return NULL;
	}
}
