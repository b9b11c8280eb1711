/* SPDX-License-Identifier: MIT */
/* XCHG XADD CMPXCHG CMPXCHG8B CMPXCHG16B. */
#include "cpu/alu.h"
#include "cpu/op_int.h"

/* Describe @i's memory operand 0 of @n bytes. */
static enum emul rmw_prepare(struct cpu *c, const struct insn *i, unsigned n, rmw_fn fn,
			     u64 src, struct rmw *w)
{
	*w = (struct rmw){ .n = n, .acc = insn_acc(i), .fn = fn, .src = src };
	return mem_linear(c, i, n, true, &w->lin);
}

enum emul int_rmw(struct cpu *c, const struct insn *i, rmw_fn fn, u64 src)
{
	struct rmw w;
	enum emul r = rmw_prepare(c, i, i->opnd[0].size, fn, src, &w);

	if (r != EMUL_CONTINUE)
		return r;
	r = rmw_run(c, i, &w, false);
	if (r == EMUL_CONTINUE)
		c->aflags = w.flags;
	return r;
}

static u64 rmw_replace(const struct cpu *c, const struct insn *i, u64 old, u64 src, u64 *f)
{
	(void)c, (void)i, (void)old, (void)f;
	return src;
}

/* XCHG with memory is locked whether it says so or not. */
static enum emul xchg(struct cpu *c, const struct insn *i)
{
	const struct operand *a = &i->opnd[0], *b = &i->opnd[1];
	struct rmw w;
	u64 va, vb;
	enum emul r = opd_read(c, i, b, &vb);

	if (r != EMUL_CONTINUE)
		return r;
	if (a->kind != OPD_MEM) {
		r = opd_read(c, i, a, &va);
		opd_put(c, b, va);
		opd_put(c, a, vb);
		return r;
	}
	r = rmw_prepare(c, i, a->size, rmw_replace, vb, &w);
	if (r != EMUL_CONTINUE)
		return r;
	r = rmw_run(c, i, &w, true);
	if (r == EMUL_CONTINUE)
		opd_put(c, b, w.old);
	return r;
}

static u64 alu_sized(unsigned op, unsigned n, u64 d, u64 s, u64 *f)
{
	switch (n) {
	case 1:
		return op == ALU_ADD ? alu_exec(ALU_ADD, 1, d, s, f) :
				       alu_exec(ALU_CMP, 1, d, s, f);
	case 2:
		return op == ALU_ADD ? alu_exec(ALU_ADD, 2, d, s, f) :
				       alu_exec(ALU_CMP, 2, d, s, f);
	case 4:
		return op == ALU_ADD ? alu_exec(ALU_ADD, 4, d, s, f) :
				       alu_exec(ALU_CMP, 4, d, s, f);
	default:
		return op == ALU_ADD ? alu_exec(ALU_ADD, 8, d, s, f) :
				       alu_exec(ALU_CMP, 8, d, s, f);
	}
}

static u64 rmw_add(const struct cpu *c, const struct insn *i, u64 old, u64 src, u64 *f)
{
	(void)c;
	return alu_sized(ALU_ADD, i->opnd[0].size, old, src, f);
}

static enum emul xadd(struct cpu *c, const struct insn *i)
{
	const struct operand *a = &i->opnd[0], *b = &i->opnd[1];
	struct rmw w;
	u64 va, vb, f = c->aflags;
	enum emul r = opd_read(c, i, b, &vb);

	if (r != EMUL_CONTINUE)
		return r;
	if (a->kind != OPD_MEM) {
		r = opd_read(c, i, a, &va);
		vb = rmw_add(c, i, va, vb, &f);
		opd_put(c, b, va);
		opd_put(c, a, vb); /* last: the same register gets the sum */
		c->aflags = f;
		return r;
	}
	r = rmw_prepare(c, i, a->size, rmw_add, vb, &w);
	if (r != EMUL_CONTINUE)
		return r;
	r = rmw_run(c, i, &w, false);
	if (r != EMUL_CONTINUE)
		return r;
	opd_put(c, b, w.old);
	c->aflags = w.flags;
	return r;
}

/* --- CMPXCHG ----------------------------------------------------------------- */

/* The accumulator compared with the old value; memory is written either way. */
static u64 rmw_cmpxchg(const struct cpu *c, const struct insn *i, u64 old, u64 src, u64 *f)
{
	unsigned n = i->opnd[0].size;

	alu_sized(ALU_CMP, n, gpr_get(c, R_RAX, n), old, f);
	return *f & RF_ZF ? src : old;
}

/* On success the accumulator is not written at all: its upper half stays. */
static enum emul cmpxchg_mem(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opnd[0].size;
	struct rmw w;
	u64 src;
	enum emul r = opd_read(c, i, &i->opnd[1], &src);

	if (r != EMUL_CONTINUE)
		return r;
	r = rmw_prepare(c, i, n, rmw_cmpxchg, src, &w);
	if (r != EMUL_CONTINUE)
		return r;
	r = rmw_run(c, i, &w, false);
	if (r != EMUL_CONTINUE)
		return r;
	if (!(w.flags & RF_ZF))
		gpr_put(c, R_RAX, n, w.old);
	c->aflags = w.flags;
	return r;
}

#define CMPXCHG_ASM(SFX, MOD)                                                  \
	asm("xchgq %%rax, %[acc]\n\t"                                          \
	    "cmpxchg" SFX " %" MOD "[s], %" MOD "[d]\n\t"                      \
	    "movq %%rax, %[acc]" FLAGS_SAVE                                    \
	    : [d] "+&r"(d), [acc] "+&r"(acc), "+&a"(ax)                        \
	    : [s] "r"(s)                                                       \
	    : "cc")

/* The host says what becomes of the upper halves. */
static enum emul cmpxchg_reg(struct cpu *c, const struct insn *i)
{
	u64 *pd = &c->gpr[i->opnd[0].reg];
	u64 d = *pd, s = c->gpr[i->opnd[1].reg], acc = c->gpr[R_RAX];
	u64 ax = 0;

	switch (i->opnd[0].size) {
	case 2:
		CMPXCHG_ASM("w", "w");
		break;
	case 4:
		CMPXCHG_ASM("l", "k");
		break;
	default:
		CMPXCHG_ASM("q", "q");
		break;
	}
	c->aflags = flags_from_ax((u32)ax);
	if (!(c->aflags & RF_ZF))
		c->gpr[R_RAX] = acc;
	*pd = d;
	return EMUL_CONTINUE;
}

static enum emul cmpxchg_reg8(struct cpu *c, const struct insn *i)
{
	u8 *d = gpr8(c, &i->opnd[0]);
	u8 src = *gpr8(c, &i->opnd[1]), old = *d;
	u64 f = c->aflags;

	*d = (u8)rmw_cmpxchg(c, i, old, src, &f);
	if (!(f & RF_ZF))
		gpr_put(c, R_RAX, 1, old);
	c->aflags = f;
	return EMUL_CONTINUE;
}

/* --- CMPXCHG8B, CMPXCHG16B ----------------------------------------------------- */

static u64 pair32(const struct cpu *c, unsigned hi, unsigned lo)
{
	return c->gpr[hi] << 32 | (u32)c->gpr[lo];
}

static u64 rmw_cmpxchg8b(const struct cpu *c, const struct insn *i, u64 old, u64 src, u64 *f)
{
	(void)i, (void)src;
	if (old == pair32(c, R_RDX, R_RAX)) {
		*f |= RF_ZF;
		return pair32(c, R_RCX, R_RBX);
	}
	*f &= ~(u64)RF_ZF;
	return old;
}

static enum emul cmpxchg8b(struct cpu *c, const struct insn *i)
{
	struct rmw w;
	enum emul r = rmw_prepare(c, i, 8, rmw_cmpxchg8b, 0, &w);

	if (r != EMUL_CONTINUE)
		return r;
	r = rmw_run(c, i, &w, false);
	if (r != EMUL_CONTINUE)
		return r;
	if (!(w.flags & RF_ZF)) {
		c->gpr[R_RAX] = (u32)w.old;
		c->gpr[R_RDX] = w.old >> 32;
	}
	c->aflags = w.flags;
	return r;
}

static bool host_cmpxchg16b(void *p, u64 *lo, u64 *hi, u64 new_lo, u64 new_hi)
{
	bool ok;

	asm volatile("lock cmpxchg16b %[m]"
		     : [m] "+m"(*(u128 *)p), "+a"(*lo), "+d"(*hi), "=@ccz"(ok)
		     : "b"(new_lo), "c"(new_hi)
		     : "memory");
	return ok;
}

static void cmpxchg16b_commit(struct cpu *c, bool equal, u64 lo, u64 hi)
{
	if (equal) {
		c->aflags |= RF_ZF;
		return;
	}
	c->aflags &= ~(u64)RF_ZF;
	c->gpr[R_RAX] = lo;
	c->gpr[R_RDX] = hi;
}

static enum emul cmpxchg16b(struct cpu *c, const struct insn *i)
{
	u64 old[2] = { c->gpr[R_RAX], c->gpr[R_RDX] };
	const u64 new[2] = { c->gpr[R_RBX], c->gpr[R_RCX] };
	gva_t lin;
	void *p;
	bool equal;
	enum emul r = mem_linear(c, i, 16, true, &lin);

	if (r != EMUL_CONTINUE)
		return r;
	if (lin & 15)
		return cpu_gp(c, 0);
	r = mmu_rmw(&c->mmu, lin, 16, insn_acc(i) | ACC_LOCKED, &p);
	if (r != EMUL_CONTINUE)
		return r;
	if (p) {
		equal = host_cmpxchg16b(p, &old[0], &old[1], new[0], new[1]);
		cmpxchg16b_commit(c, equal, old[0], old[1]);
		return EMUL_CONTINUE;
	}
	r = mmu_rmw_begin(&c->mmu, lin, 16, insn_acc(i) | ACC_LOCKED, old);
	if (r != EMUL_CONTINUE)
		return r;
	equal = old[0] == c->gpr[R_RAX] && old[1] == c->gpr[R_RDX];
	r = mmu_rmw_end(&c->mmu, equal ? new : old);
	if (r == EMUL_CONTINUE)
		cmpxchg16b_commit(c, equal, old[0], old[1]);
	return r;
}

op_fn atomic_select(const struct insn *i)
{
	switch (i->op) {
	case OP_XCHG:
		return xchg;
	case OP_XADD:
		return xadd;
	case OP_CMPXCHG:
		if (i->opnd[0].kind == OPD_MEM)
			return cmpxchg_mem;
		return i->opnd[0].size == 1 ? cmpxchg_reg8 : cmpxchg_reg;
	case OP_CMPXCHG8B:
		return cmpxchg8b;
	case OP_CMPXCHG16B:
		return cmpxchg16b;
	default:
		return NULL;
	}
}
