/* SPDX-License-Identifier: MIT */
/*
 * MOVS STOS LODS CMPS SCAS, alone and repeated.
 *
 * Inside a page of RAM the host's own REP instruction copies and fills, with
 * the guest's element size and direction: overlapping operands behave exactly.
 * Devices, tracked pages and elements across a page end go one by one.
 */
#include "cpu/alu.h"
#include "cpu/strop.h"

/* clang-format off */
#define HOST_ONE(INS, SFX)                                                     \
	do {                                                                   \
		if (down)                                                      \
			asm volatile("std\n\trep " INS SFX "\n\tcld"          \
				     : "+D"(d), "+S"(s), "+c"(count)           \
				     : "a"(value) : "memory", "cc");           \
		else                                                           \
			asm volatile("rep " INS SFX                            \
				     : "+D"(d), "+S"(s), "+c"(count)           \
				     : "a"(value) : "memory", "cc");           \
	} while (0)

/* One asm statement a case, so that no compiled code runs with DF set. */
#define HOST_REP(NAME, INS)                                                    \
	static void NAME(u8 *d, const u8 *s, u64 count, u64 value, unsigned n, bool down) \
	{                                                                      \
		switch (n) {                                                   \
		case 1:                                                        \
			HOST_ONE(INS, "b");                                    \
			break;                                                 \
		case 2:                                                        \
			HOST_ONE(INS, "w");                                    \
			break;                                                 \
		case 4:                                                        \
			HOST_ONE(INS, "l");                                    \
			break;                                                 \
		default:                                                       \
			HOST_ONE(INS, "q");                                    \
			break;                                                 \
		}                                                              \
	}
HOST_REP(host_movs, "movs")
HOST_REP(host_stos, "stos")
/* clang-format on */

static u8 *last_of(u8 *low, u64 count, unsigned n, bool down)
{
	return down ? low + (count - 1) * n : low;
}

static enum emul read_element(struct cpu *c, unsigned n, gva_t lin, const u8 *host,
			      u64 *v)
{
	if (host) {
		*v = host_load(host, n);
		return EMUL_CONTINUE;
	}
	*v = 0;
	return mmu_read(&c->mmu, lin, v, n, 0);
}

/* One element; the source is read first, whichever of the two would fault. */
static enum emul movs_one(struct cpu *c, const struct str *s, gva_t src_lin, u8 *src)
{
	gva_t dst_lin;
	u64 v;
	enum emul r = read_element(c, s->n, src_lin, src, &v);

	if (r == EMUL_CONTINUE)
		r = seg_linear_slow(c, SEG_ES, c->gpr[R_RDI] & s->mask, s->n, true, &dst_lin);
	if (r == EMUL_CONTINUE)
		r = mmu_write(&c->mmu, dst_lin, &v, s->n, 0);
	return r;
}

static enum emul movs_step(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			   u64 *done)
{
	u8 *src, *dst = NULL;
	gva_t src_lin, dst_lin;
	u64 k;
	enum emul r = str_chunk(c, s, i->seg, R_RSI, false, max, &src, &src_lin, &k);

	if (r == EMUL_CONTINUE && src)
		r = str_chunk(c, s, SEG_ES, R_RDI, true, k, &dst, &dst_lin, done);
	if (r != EMUL_CONTINUE)
		return r;
	/* Going down, a pointer is to the low end of its k elements. */
	if (src)
		src = last_of(src, k, s->n, s->down);
	if (dst) {
		dst = last_of(dst, *done, s->n, s->down);
		host_movs(dst, src, *done, 0, s->n, s->down);
	} else {
		*done = 1;
		r = movs_one(c, s, src_lin, src);
		if (r != EMUL_CONTINUE)
			return r;
	}
	str_advance(c, s, R_RSI, *done);
	str_advance(c, s, R_RDI, *done);
	return EMUL_CONTINUE;
}

static enum emul stos_step(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			   u64 *done)
{
	u8 *dst;
	gva_t lin;
	enum emul r = str_chunk(c, s, SEG_ES, R_RDI, true, max, &dst, &lin, done);

	(void)i;
	if (r != EMUL_CONTINUE)
		return r;
	if (dst) {
		host_stos(last_of(dst, *done, s->n, s->down), NULL, *done, c->gpr[R_RAX],
			  s->n, s->down);
	} else {
		r = mmu_write(&c->mmu, lin, &c->gpr[R_RAX], s->n, 0);
		if (r != EMUL_CONTINUE)
			return r;
	}
	str_advance(c, s, R_RDI, *done);
	return EMUL_CONTINUE;
}

/* Of a page of RAM only the last element matters. */
static enum emul lods_step(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			   u64 *done)
{
	u8 *src;
	gva_t lin;
	u64 v;
	enum emul r = str_chunk(c, s, i->seg, R_RSI, false, max, &src, &lin, done);

	if (r != EMUL_CONTINUE)
		return r;
	if (src && !s->down)
		src += (*done - 1) * s->n;
	r = read_element(c, s->n, lin, src, &v);
	if (r != EMUL_CONTINUE)
		return r;
	gpr_put(c, R_RAX, s->n, v);
	str_advance(c, s, R_RSI, *done);
	return EMUL_CONTINUE;
}

static u64 compare_flags(unsigned n, u64 a, u64 b, u64 f)
{
	switch (n) {
	case 1:
		alu_exec(ALU_CMP, 1, a, b, &f);
		break;
	case 2:
		alu_exec(ALU_CMP, 2, a, b, &f);
		break;
	case 4:
		alu_exec(ALU_CMP, 4, a, b, &f);
		break;
	default:
		alu_exec(ALU_CMP, 8, a, b, &f);
		break;
	}
	return f;
}

/* Does the repeat condition end the instruction after a pair a, b? */
static bool compare_stops(const struct insn *i, u64 a, u64 b)
{
	return i->flags & INSN_REPNE ? a == b : a != b;
}

/* Compare up to @max pairs; *a and *b are the last pair looked at, *done how
 * many.  A NULL pointer: that side is the constant *b (SCAS compares rAX, the
 * first operand, with memory, the second). */
static void compare_run(const struct insn *i, const struct str *s, const u8 *pa,
			const u8 *pb, u64 max, u64 *a, u64 *b, u64 *done)
{
	s64 step = s->down ? -(s64)s->n : s->n;

	for (*done = 0; *done < max;) {
		if (pa)
			*a = host_load(pa + step * (s64)*done, s->n);
		if (pb)
			*b = host_load(pb + step * (s64)*done, s->n);
		++*done;
		if (compare_stops(i, *a, *b))
			break;
	}
}

static enum emul cmps_one(struct cpu *c, const struct str *s, gva_t la, const u8 *pa, u64 *a,
			  u64 *b)
{
	gva_t lb;
	enum emul r = read_element(c, s->n, la, pa, a);

	if (r == EMUL_CONTINUE)
		r = seg_linear_slow(c, SEG_ES, c->gpr[R_RDI] & s->mask, s->n, false, &lb);
	if (r == EMUL_CONTINUE)
		r = read_element(c, s->n, lb, NULL, b);
	return r;
}

static enum emul cmps_step(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			   u64 *done)
{
	u8 *pa, *pb = NULL;
	gva_t la, lb;
	u64 ka, kb, a, b;
	enum emul r = EMUL_CONTINUE;

	/* Intel's processors read the second operand first: it shows if both fault. */
	if (c->vendor == VENDOR_INTEL) {
		r = str_chunk(c, s, SEG_ES, R_RDI, false, max, &pb, &lb, &kb);
		if (r == EMUL_CONTINUE && !pb)
			r = mmu_probe_read(&c->mmu, lb, s->n, 0);
		pb = NULL;
	}
	if (r == EMUL_CONTINUE)
		r = str_chunk(c, s, i->seg, R_RSI, false, max, &pa, &la, &ka);
	if (r == EMUL_CONTINUE && pa)
		r = str_chunk(c, s, SEG_ES, R_RDI, false, ka, &pb, &lb, &kb);
	if (r != EMUL_CONTINUE)
		return r;
	if (pa)
		pa = last_of(pa, ka, s->n, s->down);
	if (pb) {
		pb = last_of(pb, kb, s->n, s->down);
		compare_run(i, s, pa, pb, kb, &a, &b, done);
	} else {
		*done = 1;
		r = cmps_one(c, s, la, pa, &a, &b);
		if (r != EMUL_CONTINUE)
			return r;
	}
	c->aflags = compare_flags(s->n, a, b, c->aflags);
	str_advance(c, s, R_RSI, *done);
	str_advance(c, s, R_RDI, *done);
	return EMUL_CONTINUE;
}

static enum emul scas_step(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			   u64 *done)
{
	u8 *pb;
	gva_t lb;
	u64 k, a = gpr_get(c, R_RAX, s->n), b;
	enum emul r = str_chunk(c, s, SEG_ES, R_RDI, false, max, &pb, &lb, &k);

	if (r != EMUL_CONTINUE)
		return r;
	if (pb) {
		compare_run(i, s, NULL, last_of(pb, k, s->n, s->down), k, &a, &b, done);
	} else {
		r = read_element(c, s->n, lb, NULL, &b);
		if (r != EMUL_CONTINUE)
			return r;
		*done = 1;
	}
	c->aflags = compare_flags(s->n, a, b, c->aflags);
	str_advance(c, s, R_RDI, *done);
	return EMUL_CONTINUE;
}

typedef enum emul (*step_fn)(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			     u64 *done);

/* An iteration faults.  On Intel's processors the flags of earlier ones are lost. */
static noinline void iteration_faults(struct cpu *c, const struct insn *i,
				      const struct str *s, u64 flags)
{
	str_none_done(c, i, s);
	if (c->vendor == VENDOR_INTEL)
		c->aflags = flags;
}

/* Run @step until the count is used up, attention is wanted, or (@compare) the
 * repeat condition fails. */
static always_inline enum emul repeat(struct cpu *c, const struct insn *i, step_fn step,
				      bool compare)
{
	struct str s;
	enum emul r;
	u64 flags;

	if (!str_begin(c, i, &s))
		return EMUL_CONTINUE;
	flags = c->aflags;
	do {
		bool one = !s.rep || c->rflags & RF_TF || c->gdb.singlestep;
		u64 done;

		r = step(c, i, &s, one ? 1 : s.left, &done);
		if (unlikely(r == EMUL_FAULT))
			iteration_faults(c, i, &s, flags);
		if (r != EMUL_CONTINUE)
			return r;
		r = str_step_done(c, i, &s, done);
		if (compare && s.rep &&
		    !(c->aflags & RF_ZF) == !(i->flags & INSN_REPNE))
			return EMUL_CONTINUE;
	} while (r == EMUL_END);
	return r;
}

static enum emul movs(struct cpu *c, const struct insn *i)
{
	return repeat(c, i, movs_step, false);
}

static enum emul stos(struct cpu *c, const struct insn *i)
{
	return repeat(c, i, stos_step, false);
}

static enum emul lods(struct cpu *c, const struct insn *i)
{
	return repeat(c, i, lods_step, false);
}

static enum emul cmps(struct cpu *c, const struct insn *i)
{
	return repeat(c, i, cmps_step, true);
}

static enum emul scas(struct cpu *c, const struct insn *i)
{
	return repeat(c, i, scas_step, true);
}

op_fn string_select(const struct insn *i)
{
	switch (i->op) {
	case OP_MOVS:
		return movs;
	case OP_STOS:
		return stos;
	case OP_LODS:
		return lods;
	case OP_CMPS:
		return cmps;
	case OP_SCAS:
		return scas;
	default:
		return NULL;
	}
}
