/* SPDX-License-Identifier: MIT */
/*
 * MUL IMUL DIV IDIV.
 *
 * The host multiplies and divides with the guest's flags loaded: the undefined
 * flags are the host's.  DIV and IDIV are checked first, so that the host never
 * raises #DE for us.
 */
#include "cpu/alu.h"
#include "cpu/op_int.h"

/** struct wide - rDX:rAX before and after, full registers */
struct wide {
	u64 lo, hi;
};

/*
 * The instruction wants RAX and RDX; flags travel through RAX too.  So the
 * value of RAX waits in a register of its own while flags are loaded and saved.
 */
#define WIDE_ASM(INS, SFX, MOD)                                                \
	asm(FLAGS_LOAD "xchgq %%rax, %[lo]\n\t" INS SFX " %" MOD "[s]\n\t"     \
	    "xchgq %%rax, %[lo]" FLAGS_SAVE                                    \
	    : "+&a"(ax), [lo] "+&r"(w->lo), "+&d"(w->hi)                       \
	    : [s] "r"(s)                                                       \
	    : "cc")

#define WIDE_SIZES(INS)                                                        \
	switch (n) {                                                           \
	case 1:                                                                \
		WIDE_ASM(INS, "b", "b");                                       \
		break;                                                         \
	case 2:                                                                \
		WIDE_ASM(INS, "w", "w");                                       \
		break;                                                         \
	case 4:                                                                \
		WIDE_ASM(INS, "l", "k");                                       \
		break;                                                         \
	default:                                                               \
		WIDE_ASM(INS, "q", "q");                                       \
		break;                                                         \
	}                                                                      \
	break

static void wide_exec(unsigned op, unsigned n, struct wide *w, u64 s, u64 *f)
{
	u32 ax = flags_ax(*f);

	switch (op) {
	case OP_MUL:
		WIDE_SIZES("mul");
	case OP_IMUL:
		WIDE_SIZES("imul");
	case OP_DIV:
		WIDE_SIZES("div");
	default:
		WIDE_SIZES("idiv");
	}
	*f = flags_from_ax(ax);
}

/* Would DIV overflow?  hi:lo / s, @n bytes each. */
static bool div_overflows(unsigned n, const struct wide *w, u64 s)
{
	u64 mask = n == 8 ? ~0ull : (1ull << (8 * n)) - 1;

	if (n == 1)
		return (s & 0xff) == 0 || ((w->lo >> 8) & 0xff) >= (s & 0xff);
	return (s & mask) == 0 || (w->hi & mask) >= (s & mask);
}

static bool idiv64_overflows(const struct wide *w, s64 s)
{
	u128 n = ((u128)w->hi << 64) | w->lo;
	bool neg_n = (s64)w->hi < 0, neg_s = s < 0;
	u64 d = neg_s ? 0 - (u64)s : (u64)s;

	if (neg_n)
		n = 0 - n;
	/* |quotient| must be below 2^63, or equal if the quotient is negative. */
	if (neg_n != neg_s)
		return (n / d) > ((u128)1 << 63);
	return (n / d) >= ((u128)1 << 63);
}

static bool idiv_overflows(unsigned n, const struct wide *w, u64 s)
{
	s64 num, den, q, lim;

	den = (s64)bits_sext(s, 8 * n);
	if (den == 0)
		return true;
	switch (n) {
	case 1:
		num = (s16)w->lo;
		break;
	case 2:
		num = (s32)((u32)(u16)w->hi << 16 | (u16)w->lo);
		break;
	case 4:
		num = (s64)((w->hi << 32) | (u32)w->lo);
		if (den == -1)
			return num <= -0x80000000ll || num > 0x80000000ll;
		break;
	default:
		return idiv64_overflows(w, den);
	}
	q = num / den;
	lim = 1ll << (8 * n - 1);
	return q >= lim || q < -lim;
}

static enum emul wide_op(struct cpu *c, const struct insn *i, unsigned op, unsigned n)
{
	struct wide w = { c->gpr[R_RAX], c->gpr[R_RDX] };
	u64 s, f = c->aflags;
	enum emul r = opd_read(c, i, &i->opnd[i->nopnd - 1], &s);

	if (r != EMUL_CONTINUE)
		return r;
	if (op == OP_DIV && div_overflows(n, &w, s))
		return cpu_raise(c, EXC_DE, 0);
	if (op == OP_IDIV && idiv_overflows(n, &w, s))
		return cpu_raise(c, EXC_DE, 0);
	wide_exec(op, n, &w, s, &f);
	c->gpr[R_RAX] = w.lo;
	c->gpr[R_RDX] = w.hi;
	c->aflags = f;
	return EMUL_CONTINUE;
}

static enum emul wide_any(struct cpu *c, const struct insn *i)
{
	return wide_op(c, i, i->op, i->opnd[i->nopnd - 1].size);
}

/* IMUL r, r/m and IMUL r, r/m, imm */
#define IMUL_ASM(SFX, MOD)                                                     \
	asm(FLAGS_LOAD "imul" SFX " %" MOD "[s], %" MOD "[d]" FLAGS_SAVE       \
	    : [d] "+&r"(d), "+&a"(ax)                                          \
	    : [s] "r"(s)                                                       \
	    : "cc")

static always_inline u64 imul_exec(unsigned n, u64 d, u64 s, u64 *f)
{
	u32 ax = flags_ax(*f);

	switch (n) {
	case 2:
		IMUL_ASM("w", "w");
		break;
	case 4:
		IMUL_ASM("l", "k");
		break;
	default:
		IMUL_ASM("q", "q");
		break;
	}
	*f = flags_from_ax(ax);
	return d;
}

static always_inline enum emul imul_n(struct cpu *c, const struct insn *i, unsigned n)
{
	const struct operand *o = &i->opnd[1];
	u64 s, d = c->gpr[i->opnd[0].reg], f = c->aflags;

	if (o->kind == OPD_MEM) {
		enum emul r = memop_read(c, i, n, &s);

		if (unlikely(r != EMUL_CONTINUE))
			return r;
	} else {
		s = c->gpr[o->reg];
	}
	/* For 16 bits the upper part of d must stay: the multiplicand that
	 * gives way is d's low part. */
	if (i->nopnd == 3)
		d = n == 2 ? (d & ~0xffffull) | (i->imm & 0xffff) : i->imm;
	c->gpr[i->opnd[0].reg] = imul_exec(n, d, s, &f);
	c->aflags = f;
	return EMUL_CONTINUE;
}

static enum emul imul_2(struct cpu *c, const struct insn *i)
{
	return imul_n(c, i, 2);
}

static enum emul imul_4(struct cpu *c, const struct insn *i)
{
	return imul_n(c, i, 4);
}

static enum emul imul_8(struct cpu *c, const struct insn *i)
{
	return imul_n(c, i, 8);
}

op_fn muldiv_select(const struct insn *i)
{
	static const op_fn imul[4] = { NULL, imul_2, imul_4, imul_8 };

	if (i->op == OP_IMUL && (i->map == 1 || i->opcode == 0x69 || i->opcode == 0x6b))
		return imul[int_size_index(i->opsize)];
	return wide_any;
}
