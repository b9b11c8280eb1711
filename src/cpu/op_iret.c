/* SPDX-License-Identifier: MIT */
/* Far RET and IRET (SDM Vol. 2 of each; Vol. 3A "Returning from a Called
 * Procedure", "IRET in IA-32e Mode"). */
#include "cpu/far.h"
#include "cpu/flags.h"
#include "cpu/stack.h"
#include "cpu/sys.h"

/** struct frame - what RET far and IRET pop */
struct frame {
	u64 rip, flags, rsp;
	u16 cs, ss;
	bool outer; /* rsp and ss are there */
};

static enum emul check_return_cs(struct cpu *c, const struct frame *f, struct descriptor *cs)
{
	unsigned rpl = f->cs & 3;
	enum emul r;

	if (!(f->cs & 0xfffc))
		return cpu_gp(c, 0);
	if (rpl < c->mmu.cpl)
		return seg_raise(c, EXC_GP, f->cs, 0);
	r = seg_fetch(c, f->cs, false, EXC_GP, 0, cs);
	if (r == EMUL_CONTINUE)
		r = seg_check_code(c, f->cs, cs, rpl, false);
	if (r == EMUL_CONTINUE && !far_target_ok(c, cs, f->rip))
		return cpu_gp(c, 0);
	return r;
}

/* SS for privilege @cpl: a null one is legal in 64-bit mode below ring 3. */
static enum emul check_return_ss(struct cpu *c, const struct frame *f, bool to64,
				 struct descriptor *ss)
{
	unsigned cpl = f->cs & 3, type;
	enum emul r;

	ss->lo = 0;
	if (!(f->ss & 0xfffc)) {
		if (!to64 || cpl == 3)
			return cpu_gp(c, 0);
		return (f->ss & 3u) == cpl ? EMUL_CONTINUE : seg_raise(c, EXC_GP, f->ss, 0);
	}
	r = seg_fetch(c, f->ss, false, EXC_GP, 0, ss);
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(ss->lo);
	if ((f->ss & 3u) != cpl || desc_dpl(ss->lo) != cpl || !(ss->lo & DESC_S) ||
	    (type & SEG_T_CODE) || !(type & SEG_T_WRITE))
		return seg_raise(c, EXC_GP, f->ss, 0);
	if (!(ss->lo & DESC_P))
		return seg_raise(c, EXC_SS, f->ss, 0);
	return seg_accessed(c, ss);
}

/* Everything is checked: take the frame's CS:RIP and, if there, SS:RSP. */
static void commit_return(struct cpu *c, const struct frame *f, const struct descriptor *cs,
			  const struct descriptor *ss)
{
	unsigned cpl = f->cs & 3, old = c->mmu.cpl;

	seg_put_cs(c, f->cs, cs, cpl);
	c->rip = f->rip;
	if (f->outer) {
		if (ss->lo)
			seg_put(c, SEG_SS, f->ss, ss);
		else
			seg_put_flat_ss(c, cpl);
		stack_set(c, f->rsp);
		if (c->code_bits == 64)
			c->gpr[R_RSP] = f->rsp;
	}
	if (cpl > old)
		seg_outer(c);
}

static enum emul pop_words(struct cpu *c, unsigned n, unsigned count, u64 *v)
{
	enum emul r = EMUL_CONTINUE;

	for (unsigned k = 0; k < count && r == EMUL_CONTINUE; k++)
		r = stack_read(c, c->gpr[R_RSP] + k * n, n, &v[k]);
	return r;
}

enum emul op_ret_far(struct cpu *c, const struct insn *i)
{
	unsigned n = i->opsize, extra = i->nopnd ? (unsigned)i->imm : 0;
	struct descriptor cs, ss = { 0 };
	struct frame f = { 0 };
	u64 v[2], w[2];
	enum emul r = pop_words(c, n, 2, v);

	if (r != EMUL_CONTINUE)
		return r;
	f.rip = v[0];
	f.cs = (u16)v[1];
	if (seg_real_mode(c)) {
		r = far_check_real(c, f.rip);
		if (r != EMUL_CONTINUE)
			return r;
		stack_set(c, c->gpr[R_RSP] + 2 * n + extra);
		far_put_real(c, f.cs, f.rip);
		return EMUL_END;
	}
	r = check_return_cs(c, &f, &cs);
	if (r != EMUL_CONTINUE)
		return r;
	f.outer = (f.cs & 3) > c->mmu.cpl;
	if (f.outer) {
		for (unsigned k = 0; k < 2 && r == EMUL_CONTINUE; k++)
			r = stack_read(c, c->gpr[R_RSP] + 2 * n + extra + k * n, n, &w[k]);
		if (r != EMUL_CONTINUE)
			return r;
		f.rsp = w[0] + extra;
		f.ss = (u16)w[1];
		r = check_return_ss(c, &f, cpu_long_mode(c) && (desc_attr(cs.lo) & SEG_L), &ss);
	}
	if (r == EMUL_CONTINUE)
		r = seg_accessed(c, &cs);
	if (r != EMUL_CONTINUE)
		return r;
	if (!f.outer)
		stack_set(c, c->gpr[R_RSP] + 2 * n + extra);
	commit_return(c, &f, &cs, &ss);
	cpu_fence();
	return EMUL_END;
}

static u64 iret_mask(const struct cpu *c, unsigned opsize)
{
	u64 mask = RF_ARITH | RF_TF | RF_DF | RF_NT;

	if (opsize > 2)
		mask |= RF_RF | RF_AC | RF_ID;
	if (c->mmu.cpl <= (c->rflags & RF_IOPL) >> RF_IOPL_SHIFT)
		mask |= RF_IF;
	if (c->mmu.cpl == 0)
		mask |= RF_IOPL | (opsize > 2 ? RF_VIF | RF_VIP : 0);
	return mask;
}

static void unblock_nmi(struct cpu *c)
{
	bool was_blocked = c->nmi_blocked;

	c->nmi_blocked = false;
	if (was_blocked && c->ops->event_check)
		c->ops->event_check(c);
}

static void iret_flags(struct cpu *c, u64 flags, u64 mask)
{
	/* RF is the frame's, or, from 16 bits, clear. */
	cpu_set_rflags(c, (cpu_rflags(c) & ~mask & ~(u64)(RF_VM | RF_RF)) | (flags & mask));
	unblock_nmi(c);
}

static enum emul iret_real(struct cpu *c, const struct insn *i)
{
	u64 v[3], mask = RF_ARITH | RF_TF | RF_DF | RF_NT | RF_IF | RF_IOPL;
	enum emul r;

	if (c->rflags & RF_VM)
		return cpu_refuse(c, "IRET in virtual-8086 mode");
	r = pop_words(c, i->opsize, 3, v);
	if (r == EMUL_CONTINUE)
		r = far_check_real(c, v[0]);
	if (r != EMUL_CONTINUE)
		return r;
	if (i->opsize == 4)
		mask |= RF_AC | RF_ID | RF_RF;
	stack_set(c, c->gpr[R_RSP] + 3 * i->opsize);
	far_put_real(c, (u16)v[1], v[0]);
	iret_flags(c, v[2], mask);
	cpu_fence();
	return EMUL_END;
}

/* IRET with NT set outside long mode: what a return to the task that the TSS
 * links to checks before it switches. */
static enum emul iret_task(struct cpu *c)
{
	const struct segment *tr = &c->seg[SEG_TR];
	struct descriptor tss;
	u16 link;
	enum emul r;

	if (tr->limit < 1)
		return cpu_raise(c, EXC_TS, tr->sel & 0xfffcu);
	r = mmu_read(&c->mmu, (u32)tr->base, &link, 2, ACC_IMPLICIT);
	if (r != EMUL_CONTINUE)
		return r;
	if (!(link & 0xfffc) || (link & 4))
		return seg_raise(c, EXC_TS, link, 0);
	r = seg_fetch(c, link, false, EXC_TS, 0, &tss);
	if (r != EMUL_CONTINUE)
		return r;
	if ((tss.lo & DESC_S) ||
	    (desc_type(tss.lo) != DESC_TSS32_BUSY && desc_type(tss.lo) != DESC_TSS16_BUSY))
		return seg_raise(c, EXC_TS, link, 0);
	return tss.lo & DESC_P ? cpu_refuse(c, "task return") : seg_raise(c, EXC_NP, link, 0);
}

/* Words @end - 1 down to @from of the frame: in this order, which shows in the
 * address that a fault names, Flags, CS, RIP are read; then SS, RSP. */
static enum emul iret_read(struct cpu *c, unsigned n, unsigned from, unsigned end, u64 v[5])
{
	enum emul r = EMUL_CONTINUE;

	for (unsigned k = end; k-- > from && r == EMUL_CONTINUE;)
		r = stack_read(c, c->gpr[R_RSP] + k * n, n, &v[k]);
	return r;
}

static enum emul iret_protected(struct cpu *c, unsigned n)
{
	bool from64 = c->code_bits == 64, read_all = from64 && c->vendor == VENDOR_AMD;
	struct descriptor cs, ss = { 0 };
	struct frame f = { 0 };
	u64 v[5], mask;
	enum emul r;

	if (c->rflags & RF_NT)
		return cpu_long_mode(c) ? cpu_gp(c, 0) : iret_task(c);
	r = iret_read(c, n, 0, 3, v);
	/* In 64-bit mode SS and RSP always come along, on AMD's before any check. */
	if (r == EMUL_CONTINUE && read_all)
		r = iret_read(c, n, 3, 5, v);
	if (r != EMUL_CONTINUE)
		return r;
	f.rip = v[0];
	f.cs = (u16)v[1];
	f.flags = v[2];
	if ((f.flags & RF_VM) && n > 2 && c->mmu.cpl == 0 && !cpu_long_mode(c))
		return cpu_refuse(c, "virtual-8086 mode");
	r = check_return_cs(c, &f, &cs);
	if (r != EMUL_CONTINUE)
		return r;
	f.outer = from64 || (f.cs & 3) > c->mmu.cpl;
	if (f.outer) {
		if (from64 && !read_all)
			r = iret_read(c, n, 3, 5, v);
		for (unsigned k = 3; k < 5 && r == EMUL_CONTINUE && !from64; k++)
			r = stack_read(c, c->gpr[R_RSP] + k * n, n, &v[k]);
		if (r != EMUL_CONTINUE)
			return r;
		f.rsp = v[3];
		f.ss = (u16)v[4];
		r = check_return_ss(c, &f, cpu_long_mode(c) && (desc_attr(cs.lo) & SEG_L), &ss);
	}
	if (r == EMUL_CONTINUE)
		r = seg_accessed(c, &cs);
	if (r != EMUL_CONTINUE)
		return r;
	mask = iret_mask(c, n); /* by the privilege before the return */
	if (!f.outer)
		stack_set(c, c->gpr[R_RSP] + 3 * n);
	commit_return(c, &f, &cs, &ss);
	iret_flags(c, f.flags, mask);
	cpu_fence();
	return EMUL_END;
}

enum emul op_iret(struct cpu *c, const struct insn *i)
{
	enum emul r = seg_real_mode(c) ? iret_real(c, i) : iret_protected(c, i->opsize);

	/* Intel's unblocks NMIs even if it faults. */
	if (r == EMUL_FAULT && c->vendor == VENDOR_INTEL)
		unblock_nmi(c);
	return r;
}

