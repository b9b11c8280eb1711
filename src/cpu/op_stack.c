/* SPDX-License-Identifier: MIT */
/*
 * PUSH POP PUSHA POPA ENTER LEAVE PUSHF POPF.
 *
 * rSP is committed after the last access that can fault.
 */
#include "cpu/flags.h"
#include "cpu/op_int.h"
#include "cpu/stack.h"

static enum emul push_r8(struct cpu *c, const struct insn *i)
{
	return stack_push(c, 8, c->gpr[i->opnd[0].reg]);
}

static enum emul push_imm8(struct cpu *c, const struct insn *i)
{
	return stack_push(c, 8, i->imm);
}

static enum emul pop_r8(struct cpu *c, const struct insn *i)
{
	u64 v;
	enum emul r = stack_pop(c, 8, &v);

	if (likely(r == EMUL_CONTINUE))
		c->gpr[i->opnd[0].reg] = v; /* POP RSP: the value wins */
	return r;
}

static enum emul push_any(struct cpu *c, const struct insn *i)
{
	u64 v;
	enum emul r = opd_read(c, i, &i->opnd[0], &v);

	if (r != EMUL_CONTINUE)
		return r;
	return stack_push(c, i->opsize, v);
}

static enum emul pop_reg(struct cpu *c, const struct insn *i)
{
	u64 v;
	enum emul r = stack_pop(c, i->opsize, &v);

	if (r == EMUL_CONTINUE)
		gpr_put(c, i->opnd[0].reg, i->opsize, v);
	return r;
}

/* An address based on rSP uses rSP after the pop (SDM Vol. 2B "POP"). */
static enum emul pop_mem(struct cpu *c, const struct insn *i)
{
	u64 v, old = c->gpr[R_RSP];
	enum emul r = stack_pop(c, i->opsize, &v);

	if (r != EMUL_CONTINUE)
		return r;
	r = memop_write(c, i, i->opsize, v);
	if (r != EMUL_CONTINUE)
		c->gpr[R_RSP] = old;
	return r;
}

static enum emul stack_probe(struct cpu *c, u64 sp, unsigned n)
{
	gva_t lin;
	enum emul r = seg_linear_slow(c, SEG_SS, sp & stack_mask(c), n, true, &lin);

	if (r != EMUL_CONTINUE)
		return r;
	return mmu_probe_write(&c->mmu, lin, n, ACC_SS);
}

/* Push @count values; nothing is written unless all can be. */
static enum emul push_many(struct cpu *c, u64 sp, unsigned n, const u64 *v, unsigned count)
{
	for (unsigned k = 1; k <= count; k++) {
		enum emul r = stack_probe(c, sp - k * n, n);

		if (r != EMUL_CONTINUE)
			return r;
	}
	for (unsigned k = 1; k <= count; k++) {
		enum emul r = stack_write(c, sp - k * n, n, v[k - 1]);

		if (r != EMUL_CONTINUE)
			return r;
	}
	return EMUL_CONTINUE;
}

static enum emul pusha(struct cpu *c, const struct insn *i)
{
	u64 sp = c->gpr[R_RSP];
	enum emul r = push_many(c, sp, i->opsize, c->gpr, 8);

	if (r == EMUL_CONTINUE)
		stack_set(c, sp - 8 * i->opsize);
	return r;
}

static enum emul popa(struct cpu *c, const struct insn *i)
{
	u64 v[8], sp = c->gpr[R_RSP];
	unsigned n = i->opsize;

	for (unsigned k = 0; k < 8; k++) {
		enum emul r = stack_read(c, sp + k * n, n, &v[7 - k]);

		if (r != EMUL_CONTINUE)
			return r;
	}
	for (unsigned k = 0; k < 8; k++)
		if (k != R_RSP)
			gpr_put(c, k, n, v[k]);
	stack_set(c, sp + 8 * n);
	return EMUL_CONTINUE;
}

/*
 * Frame pointers are read and pushed one by one, as processors do: a fault in
 * the middle leaves what was pushed below rSP, and no register changed.  The
 * last check is of a write at the final rSP (SDM Vol. 2A "ENTER").
 */
static enum emul enter(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize, level = i->imm2 & 31;
	u64 v = c->gpr[R_RBP], bp = v, sp = c->gpr[R_RSP] - n, frame = sp;
	enum emul r = stack_write(c, sp, n, v);

	for (unsigned k = 1; k < level && r == EMUL_CONTINUE; k++) {
		bp -= n;
		sp -= n;
		r = stack_read(c, bp, n, &v);
		if (r == EMUL_CONTINUE)
			r = stack_write(c, sp, n, v);
	}
	if (level && r == EMUL_CONTINUE) {
		sp -= n;
		r = stack_write(c, sp, n, frame);
	}
	sp -= i->imm;
	if (r == EMUL_CONTINUE)
		r = stack_probe(c, sp, n);
	if (r != EMUL_CONTINUE)
		return r;
	gpr_put(c, R_RBP, n, frame);
	stack_set(c, sp);
	return EMUL_CONTINUE;
}

static enum emul leave(struct cpu *c, const struct insn *i)
{
	u64 v, bp = c->gpr[R_RBP];
	enum emul r = stack_read(c, bp, i->opsize, &v);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	stack_set(c, bp + i->opsize);
	gpr_put(c, R_RBP, i->opsize, v);
	return EMUL_CONTINUE;
}

static unsigned iopl(const struct cpu *c)
{
	return (c->rflags & RF_IOPL) >> RF_IOPL_SHIFT;
}

static enum emul pushf(struct cpu *c, const struct insn *i)
{
	if ((c->rflags & RF_VM) && iopl(c) < 3)
		return cpu_gp(c, 0);
	return stack_push(c, i->opsize, cpu_rflags(c) & ~(u64)(RF_VM | RF_RF));
}

/* SDM Vol. 2B "POPF", table of effects: what the popped value may change. */
static u64 popf_mask(const struct cpu *c, unsigned n)
{
	u64 mask = RF_ARITH | RF_TF | RF_DF | RF_NT | RF_AC | RF_ID;

	if (!(c->mmu.cr0 & CR0_PE) || c->mmu.cpl == 0)
		mask |= RF_IF | RF_IOPL;
	else if (c->mmu.cpl <= iopl(c))
		mask |= RF_IF;
	return n == 2 ? mask & 0xffff : mask;
}

static enum emul popf(struct cpu *c, const struct insn *i)
{
	u64 v, mask = popf_mask(c, i->opsize);
	enum emul r;

	if ((c->rflags & RF_VM) && iopl(c) < 3)
		return cpu_gp(c, 0);
	r = stack_pop(c, i->opsize, &v);
	if (r != EMUL_CONTINUE)
		return r;
	cpu_set_rflags(c, (cpu_rflags(c) & ~mask & ~(u64)RF_RF) | (v & mask));
	return EMUL_END;
}

static op_fn push_select(const struct insn *i)
{
	const struct operand *o = &i->opnd[0];

	if (o->kind == OPD_SEG)
		return NULL;
	if (i->opsize == 8 && o->kind == OPD_GPR)
		return push_r8;
	if (i->opsize == 8 && o->kind == OPD_IMM)
		return push_imm8;
	return push_any;
}

static op_fn pop_select(const struct insn *i)
{
	const struct operand *o = &i->opnd[0];

	if (o->kind == OPD_SEG)
		return NULL;
	if (o->kind == OPD_MEM)
		return pop_mem;
	return i->opsize == 8 ? pop_r8 : pop_reg;
}

op_fn stack_select(const struct insn *i)
{
	switch (i->op) {
	case OP_PUSH:
		return push_select(i);
	case OP_POP:
		return pop_select(i);
	case OP_PUSHA:
		return pusha;
	case OP_POPA:
		return popa;
	case OP_ENTER:
		return enter;
	case OP_LEAVE:
		return leave;
	case OP_PUSHF:
		return pushf;
	case OP_POPF:
		return popf;
	default:
		return NULL;
	}
}
