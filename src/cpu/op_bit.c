/* SPDX-License-Identifier: MIT */
/*
 * BT BTS BTR BTC, BSF BSR, TZCNT LZCNT POPCNT, CRC32, RDRAND RDSEED.
 *
 * On the host's instructions with the guest's flags loaded; where the host has
 * no such instruction, in C (chosen once, when the block is decoded).
 */
#include <sys/random.h>

#include "cpu/alu.h"
#include "cpu/hostcpu.h"
#include "cpu/op_int.h"

#define BIT_ASM(INS, SFX, MOD)                                                 \
	asm(FLAGS_LOAD INS SFX " %" MOD "[s], %" MOD "[d]" FLAGS_SAVE          \
	    : [d] "+&r"(d), "+&a"(ax)                                          \
	    : [s] "r"(s)                                                       \
	    : "cc")

#define BIT_SIZES(INS)                                                         \
	switch (n) {                                                           \
	case 2:                                                                \
		BIT_ASM(INS, "w", "w");                                        \
		break;                                                         \
	case 4:                                                                \
		BIT_ASM(INS, "l", "k");                                        \
		break;                                                         \
	default:                                                               \
		BIT_ASM(INS, "q", "q");                                        \
		break;                                                         \
	}                                                                      \
	break

static u64 bit_exec(unsigned op, unsigned n, u64 d, u64 s, u64 *f)
{
	u32 ax = flags_ax(*f);

	switch (op) {
	case OP_BT:
		BIT_SIZES("bt");
	case OP_BTS:
		BIT_SIZES("bts");
	case OP_BTR:
		BIT_SIZES("btr");
	default:
		BIT_SIZES("btc");
	}
	*f = flags_from_ax(ax);
	return d;
}

static u64 bit_offset(const struct cpu *c, const struct insn *i)
{
	return i->opnd[1].kind == OPD_IMM ? i->imm : c->gpr[i->opnd[1].reg];
}

static enum emul bit_reg(struct cpu *c, const struct insn *i)
{
	u64 *p = &c->gpr[i->opnd[0].reg], f = c->aflags;
	u64 v = bit_exec(i->op, i->opnd[0].size, *p, bit_offset(c, i), &f);

	if (i->op != OP_BT)
		*p = v;
	c->aflags = f;
	return EMUL_CONTINUE;
}

static u64 rmw_bit(const struct cpu *c, const struct insn *i, u64 old, u64 src, u64 *f)
{
	(void)c;
	return bit_exec(i->op, i->opnd[0].size, old, src, f);
}

/* A register's bit offset is signed and moves the address by whole operands;
 * an immediate's is taken modulo the operand size. */
static u64 bit_ea(const struct cpu *c, const struct insn *i, u64 offset)
{
	unsigned n = i->opnd[0].size;
	u64 ea = insn_ea(c, i);

	if (i->opnd[1].kind == OPD_IMM)
		return ea;
	ea += (u64)((s64)bits_sext(offset, 8 * n) >> (3 + int_size_index(n))) * n;
	if (i->adsize != 8)
		ea &= i->adsize == 4 ? 0xffffffffull : 0xffffull;
	return ea;
}

static enum emul bit_mem(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opnd[0].size;
	u64 offset = bit_offset(c, i), v, f = c->aflags;
	bool write = i->op != OP_BT;
	struct rmw w = { .n = n, .acc = insn_acc(i), .fn = rmw_bit };
	enum emul r = mem_linear_at(c, i, bit_ea(c, i, offset), n, write, &w.lin);

	if (r != EMUL_CONTINUE)
		return r;
	if (!write) {
		r = lin_read(c, w.lin, n, w.acc, &v);
		if (r != EMUL_CONTINUE)
			return r;
		bit_exec(OP_BT, n, v, offset, &f);
		c->aflags = f;
		return r;
	}
	w.src = offset;
	r = rmw_run(c, i, &w, false);
	if (r == EMUL_CONTINUE)
		c->aflags = w.flags;
	return r;
}

/* --- scans and counts -------------------------------------------------------- */

/* BSF and BSR of zero leave the register alone, upper half included, on the
 * processors that matter: the host's instruction decides. */
static u64 scan_host(unsigned op, unsigned n, u64 d, u64 s, u64 *f)
{
	u32 ax = flags_ax(*f);

	switch (op) {
	case OP_BSF:
		BIT_SIZES("bsf");
	case OP_BSR:
		BIT_SIZES("bsr");
	case OP_TZCNT:
		BIT_SIZES("tzcnt");
	case OP_LZCNT:
		BIT_SIZES("lzcnt");
	default:
		BIT_SIZES("popcnt");
	}
	*f = flags_from_ax(ax);
	return d;
}

static u64 popcnt_soft(u64 v)
{
	unsigned n = 0;

	for (; v; v &= v - 1)
		n++;
	return n;
}

/* TZCNT, LZCNT, POPCNT in C; the undefined flags stay. */
static u64 scan_soft(unsigned op, unsigned n, u64 d, u64 s, u64 *f)
{
	unsigned bits = 8 * n;
	u64 v = s & (~0ull >> (64 - bits)), r;

	if (op == OP_POPCNT) {
		*f = v ? 0 : RF_ZF;
		r = popcnt_soft(v);
	} else {
		if (!v)
			r = bits;
		else if (op == OP_TZCNT)
			r = (u64)__builtin_ctzll(v);
		else
			r = (u64)__builtin_clzll(v) - (64 - bits);
		*f &= ~(u64)(RF_CF | RF_ZF);
		*f |= (v ? 0 : RF_CF) | (r ? 0 : RF_ZF);
	}
	return n == 2 ? (d & ~0xffffull) | r : r;
}

static always_inline enum emul scan(struct cpu *c, const struct insn *i, bool host)
{
	unsigned n = i->opsize;
	u64 s, f = c->aflags, *p = &c->gpr[i->opnd[0].reg];
	enum emul r = opd_read(c, i, &i->opnd[1], &s);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	*p = host ? scan_host(i->op, n, *p, s, &f) : scan_soft(i->op, n, *p, s, &f);
	c->aflags = f;
	return EMUL_CONTINUE;
}

static enum emul scan_by_host(struct cpu *c, const struct insn *i)
{
	return scan(c, i, true);
}

static enum emul scan_by_c(struct cpu *c, const struct insn *i)
{
	return scan(c, i, false);
}

static op_fn scan_select(const struct insn *i)
{
	const struct hostcpu *h = hostcpu();
	bool has = i->op == OP_TZCNT  ? h->bmi1 :
		   i->op == OP_LZCNT  ? h->lzcnt :
		   i->op == OP_POPCNT ? h->popcnt :
					true;

	return has ? scan_by_host : scan_by_c;
}

/* --- CRC32 ------------------------------------------------------------------- */

static u32 crc32c_soft(u32 crc, u64 v, unsigned n)
{
	for (unsigned k = 0; k < n; k++) {
		crc ^= (u8)(v >> (8 * k));
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return crc;
}

static u64 crc32c_host(u64 crc, u64 v, unsigned n)
{
	switch (n) {
	case 1:
		asm("crc32b %b1, %k0" : "+r"(crc) : "r"(v));
		break;
	case 2:
		asm("crc32w %w1, %k0" : "+r"(crc) : "r"(v));
		break;
	case 4:
		asm("crc32l %k1, %k0" : "+r"(crc) : "r"(v));
		break;
	default:
		asm("crc32q %1, %0" : "+r"(crc) : "r"(v));
		break;
	}
	return (u32)crc;
}

static enum emul crc32_op(struct cpu *c, const struct insn *i, bool host)
{
	u64 v, *p = &c->gpr[i->opnd[0].reg];
	unsigned n = i->opnd[1].size;
	enum emul r = opd_read(c, i, &i->opnd[1], &v);

	if (r == EMUL_CONTINUE)
		*p = host ? crc32c_host(*p, v, n) : crc32c_soft((u32)*p, v, n);
	return r;
}

static enum emul crc32_by_host(struct cpu *c, const struct insn *i)
{
	return crc32_op(c, i, true);
}

static enum emul crc32_by_c(struct cpu *c, const struct insn *i)
{
	return crc32_op(c, i, false);
}

/* --- random numbers ------------------------------------------------------------ */

static bool host_rdrand(u64 *v)
{
	bool ok;

	asm volatile("rdrand %0" : "=r"(*v), "=@ccc"(ok));
	return ok;
}

static bool host_rdseed(u64 *v)
{
	bool ok;

	asm volatile("rdseed %0" : "=r"(*v), "=@ccc"(ok));
	return ok;
}

/* A failure is architectural: CF=0 and the register zeroed. */
static enum emul rdrand_op(struct cpu *c, const struct insn *i)
{
	const struct hostcpu *h = hostcpu();
	u64 v = 0;
	bool ok;

	if (i->op == OP_RDSEED && h->rdseed)
		ok = host_rdseed(&v);
	else if (i->op == OP_RDRAND && h->rdrand)
		ok = host_rdrand(&v);
	else
		ok = getrandom(&v, sizeof(v), GRND_NONBLOCK) == (ssize_t)sizeof(v);
	gpr_put(c, i->opnd[0].reg, i->opsize, ok ? v : 0);
	c->aflags = ok ? RF_CF : 0;
	return EMUL_CONTINUE;
}

op_fn bit_select(const struct insn *i)
{
	switch (i->op) {
	case OP_BT:
	case OP_BTS:
	case OP_BTR:
	case OP_BTC:
		return i->opnd[0].kind == OPD_MEM ? bit_mem : bit_reg;
	case OP_BSF:
	case OP_BSR:
	case OP_TZCNT:
	case OP_LZCNT:
	case OP_POPCNT:
		return scan_select(i);
	case OP_CRC32:
		return hostcpu()->sse42 ? crc32_by_host : crc32_by_c;
	case OP_RDRAND:
	case OP_RDSEED:
		return rdrand_op;
	default:
		return NULL;
	}
}
