/* SPDX-License-Identifier: MIT */
/* Far JMP and CALL, software interrupts (SDM Vol. 2 of each; Vol. 3A "Privilege
 * Checking When Transferring Program Control Between Code Segments"). */
#include "cpu/callgate.h"
#include "cpu/debug.h"
#include "cpu/exc.h"
#include "cpu/far.h"
#include "cpu/stack.h"
#include "cpu/sys.h"

/* Selector and offset of a far operand: in the instruction or in memory. */
static enum emul far_operand(struct cpu *c, const struct insn *i, u16 *sel, u64 *off)
{
	unsigned n = i->opsize;
	u64 v[2];
	gva_t at;
	enum emul r;

	if (!(i->flags & INSN_MEM)) {
		*sel = i->imm2;
		*off = i->imm;
		return EMUL_CONTINUE;
	}
	r = mem_linear(c, i, n + 2, false, &at);
	if (r == EMUL_CONTINUE)
		r = lin_read(c, at, n, insn_acc(i), &v[0]);
	if (r == EMUL_CONTINUE)
		r = lin_read(c, at + n, 2, insn_acc(i), &v[1]);
	if (r == EMUL_CONTINUE) {
		*off = v[0];
		*sel = (u16)v[1];
	}
	return r;
}

/* The descriptor that a far JMP or CALL names; seg_check_code() is to follow if
 * it is no call gate. */
static enum emul far_descriptor(struct cpu *c, u16 sel, struct descriptor *d, bool *gate)
{
	unsigned type;
	enum emul r;

	*gate = false;
	if (!(sel & 0xfffc))
		return cpu_gp(c, 0);
	r = seg_fetch(c, sel, false, EXC_GP, 0, d);
	if (r != EMUL_CONTINUE || (d->lo & DESC_S))
		return r;
	type = desc_type(d->lo);
	*gate = type == DESC_CALL32 || (type == DESC_CALL16 && !cpu_long_mode(c));
	if (*gate)
		return EMUL_CONTINUE;
	if (cpu_long_mode(c) ||
	    (type != DESC_TASK_GATE && type != DESC_TSS16 && type != DESC_TSS32) ||
	    MAX(sel & 3u, (unsigned)c->mmu.cpl) > desc_dpl(d->lo))
		return seg_raise(c, EXC_GP, sel, 0);
	return d->lo & DESC_P ? cpu_refuse(c, "task switch") : seg_raise(c, EXC_NP, sel, 0);
}

/* A far JMP's or CALL's code segment, without a gate: all its checks. */
static enum emul far_target(struct cpu *c, u16 sel, u64 off, const struct descriptor *cs)
{
	enum emul r = seg_check_code(c, sel, cs, c->mmu.cpl, true);

	if (r == EMUL_CONTINUE && !far_target_ok(c, cs, off))
		return cpu_gp(c, 0);
	return r;
}

static enum emul far_push(struct cpu *c, unsigned n, u64 ret)
{
	u64 sp = c->gpr[R_RSP];
	enum emul r = stack_write(c, sp - n, n, c->seg[SEG_CS].sel);

	return r == EMUL_CONTINUE ? stack_write(c, sp - 2 * n, n, ret) : r;
}

static enum emul far_real(struct cpu *c, const struct insn *i, u16 sel, u64 off, bool call)
{
	enum emul r = far_check_real(c, off);

	if (r == EMUL_CONTINUE && call)
		r = far_push(c, i->opsize, c->rip + i->len);
	if (r != EMUL_CONTINUE)
		return r;
	if (call)
		stack_set(c, c->gpr[R_RSP] - 2 * i->opsize);
	far_put_real(c, sel, off);
	return EMUL_END;
}

static enum emul far_transfer(struct cpu *c, const struct insn *i, bool call)
{
	struct descriptor cs = { 0 };
	bool gate;
	u16 sel;
	u64 off;
	enum emul r = far_operand(c, i, &sel, &off);

	if (r != EMUL_CONTINUE)
		return r;
	if (seg_real_mode(c))
		return far_real(c, i, sel, off, call);
	r = far_descriptor(c, sel, &cs, &gate);
	if (r == EMUL_CONTINUE && gate)
		return callgate_enter(c, sel, &cs, call, i->len);
	if (r == EMUL_CONTINUE)
		r = far_target(c, sel, off, &cs);
	if (r == EMUL_CONTINUE)
		r = seg_accessed(c, &cs);
	if (r == EMUL_CONTINUE && call)
		r = far_push(c, i->opsize, c->rip + i->len);
	if (r != EMUL_CONTINUE)
		return r;
	if (call)
		stack_set(c, c->gpr[R_RSP] - 2 * i->opsize);
	seg_put_cs(c, sel, &cs, c->mmu.cpl);
	c->rip = off;
	cpu_fence();
	return EMUL_END;
}

enum emul op_jmp_far(struct cpu *c, const struct insn *i)
{
	return far_transfer(c, i, false);
}

enum emul op_call_far(struct cpu *c, const struct insn *i)
{
	return far_transfer(c, i, true);
}

/* --- software interrupts -------------------------------------------------------- */

enum emul op_int(struct cpu *c, const struct insn *i)
{
	bool bp = i->op == OP_INT3;
	enum emul r;

	if (!bp && (c->rflags & RF_VM))
		return cpu_refuse(c, "INT n in virtual-8086 mode");
	r = exc_soft_int(c, bp ? EXC_BP : (u8)i->imm, bp ? 0xcc : 0xcd, i->len);
	return r == EMUL_CONTINUE ? EMUL_END : r;
}

enum emul op_int1(struct cpu *c, const struct insn *i)
{
	enum emul r = exc_soft_int(c, EXC_DB, 0xf1, i->len);

	if (r != EMUL_CONTINUE)
		return r;
	/* A data breakpoint that MOV SS held back is reported by the same #DB. */
	c->dr6 = (c->dr6 & ~(c->pending_dbg ? DR6_B : 0)) | c->pending_dbg;
	c->pending_dbg = 0;
	return EMUL_END;
}

enum emul op_into(struct cpu *c, const struct insn *i)
{
	enum emul r;

	if (!(c->aflags & RF_OF)) {
		c->rip += i->len;
		return EMUL_CONTINUE;
	}
	r = exc_soft_int(c, EXC_OF, 0xce, i->len);
	return r == EMUL_CONTINUE ? EMUL_END : r;
}
