/* SPDX-License-Identifier: MIT */
/*
 * Call gates of all three widths.  A gate decides the target and, for CALL, the
 * privilege, the stack and the size of what is pushed; the offset in the
 * instruction counts for nothing.
 * Source: SDM Vol. 3A "Accessing a Code Segment Through a Call Gate", "IA-32e
 * Mode Call Gates"; Vol. 2A "CALL".
 */
#include "cpu/callgate.h"

#include "cpu/cr.h"
#include "cpu/gate_stack.h"
#include "cpu/operand.h"

/** struct gate_target - the code segment behind a gate, checked
 * @size: bytes a word on the stack; @params: words copied to an inner stack */
struct gate_target {
	struct descriptor cs;
	u64 rip;
	u16 sel;
	u8 size, params;
	unsigned cpl;
	bool inner;
};

static enum emul check_gate(struct cpu *c, u16 sel, const struct descriptor *gate)
{
	if (MAX(sel & 3u, (unsigned)c->mmu.cpl) > desc_dpl(gate->lo))
		return seg_raise(c, EXC_GP, sel, 0);
	return gate->lo & DESC_P ? EMUL_CONTINUE : seg_raise(c, EXC_NP, sel, 0);
}

/* Where the gate leads; in long mode its upper half has the rest. */
static enum emul read_gate(struct cpu *c, u16 sel, const struct descriptor *gate,
			   struct gate_target *t)
{
	struct descriptor wide;
	enum emul r;

	t->sel = (u16)(gate->lo >> 16);
	t->rip = gate_offset(gate->lo);
	if (!cpu_long_mode(c)) {
		bool narrow = desc_type(gate->lo) == DESC_CALL16;

		t->size = narrow ? 2 : 4;
		t->params = gate->lo >> 32 & 31;
		t->rip &= narrow ? 0xffff : 0xffffffff;
		return EMUL_CONTINUE;
	}
	r = seg_fetch(c, sel, true, EXC_GP, 0, &wide);
	if (r != EMUL_CONTINUE)
		return r;
	/* The type field of the upper half must be that of no descriptor. */
	if (wide.hi >> 40 & 0x1f)
		return seg_raise(c, EXC_GP, sel, 0);
	t->size = 8;
	t->rip |= wide.hi << 32;
	return EMUL_CONTINUE;
}

static enum emul check_target(struct cpu *c, bool call, struct gate_target *t)
{
	bool lm = cpu_long_mode(c), conforming;
	unsigned type, dpl;
	enum emul r;

	if (!(t->sel & 0xfffc))
		return cpu_gp(c, 0);
	r = seg_fetch(c, t->sel, false, EXC_GP, 0, &t->cs);
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(t->cs.lo);
	dpl = desc_dpl(t->cs.lo);
	conforming = type & SEG_T_EXPAND;
	if (!(t->cs.lo & DESC_S) || !(type & SEG_T_CODE) || dpl > c->mmu.cpl ||
	    (!call && !conforming && dpl != c->mmu.cpl) ||
	    (lm && (desc_attr(t->cs.lo) & (SEG_L | SEG_DB)) != SEG_L))
		return seg_raise(c, EXC_GP, t->sel, 0);
	if (!(t->cs.lo & DESC_P))
		return seg_raise(c, EXC_NP, t->sel, 0);
	t->cpl = conforming ? c->mmu.cpl : dpl;
	t->inner = t->cpl < c->mmu.cpl;
	return EMUL_CONTINUE;
}

static enum emul check_rip(struct cpu *c, const struct gate_target *t)
{
	bool ok = cpu_long_mode(c) ? addr_is_canonical(t->rip) : t->rip <= desc_limit(t->cs.lo);

	return ok ? EMUL_CONTINUE : cpu_gp(c, 0);
}

/* The return address on a 64-bit stack, the inner one if there is one. */
static enum emul push64(struct cpu *c, const struct gate_target *t, u64 ret)
{
	u64 frame[4] = { ret, c->seg[SEG_CS].sel, c->gpr[R_RSP], c->seg[SEG_SS].sel };
	u64 rsp = c->gpr[R_RSP];
	unsigned n = t->inner ? 4 : 2;
	enum emul r = EMUL_CONTINUE;

	if (t->inner)
		r = gate_stack64(c, 0, t->cpl, 0, &rsp);
	if (r == EMUL_CONTINUE)
		r = check_rip(c, t);
	rsp -= n * 8;
	if (r == EMUL_CONTINUE)
		r = gate_push64(c, rsp, frame, n, t->inner ? ACC_IMPLICIT : 0, 0);
	if (r != EMUL_CONTINUE)
		return r;
	if (t->inner)
		seg_put_flat_ss(c, t->cpl);
	c->gpr[R_RSP] = rsp;
	return r;
}

/* Parameters of the caller, from its stack. */
static enum emul read_params(struct cpu *c, const struct gate_target *t, u32 *words)
{
	const struct segment *ss = &c->seg[SEG_SS];
	u32 mask = ss->attr & SEG_DB ? 0xffffffff : 0xffff;

	for (unsigned k = 0; k < t->params; k++) {
		u32 off = (u32)(c->gpr[R_RSP] + k * t->size) & mask;
		enum emul r;

		if (!seg_limit_ok(ss, off, t->size))
			return cpu_raise(c, EXC_SS, 0);
		words[k] = 0;
		r = mmu_read(&c->mmu, (u32)(ss->base + off), &words[k], t->size, ACC_SS);
		if (r != EMUL_CONTINUE)
			return r;
	}
	return EMUL_CONTINUE;
}

/* CS:EIP, and towards more privilege the parameters and the old SS:ESP. */
static enum emul push_legacy(struct cpu *c, struct gate_target *t, u64 ret)
{
	u32 frame[2 + 31 + 2] = { (u32)ret, c->seg[SEG_CS].sel };
	struct legacy_push p = {
		.seg = &c->seg[SEG_SS], .sp = (u32)c->gpr[R_RSP], .size = t->size
	};
	struct inner_stack in;
	unsigned n = 2;
	enum emul r = EMUL_CONTINUE;

	if (t->inner) {
		r = gate_stack32(c, t->cpl, 0, &in);
		if (r == EMUL_CONTINUE)
			r = read_params(c, t, frame + 2);
		if (r != EMUL_CONTINUE)
			return r;
		n += t->params;
		frame[n++] = (u32)c->gpr[R_RSP];
		frame[n++] = c->seg[SEG_SS].sel;
		p.seg = &in.seg;
		p.sp = in.esp;
		p.sel = in.sel;
		p.acc = ACC_IMPLICIT;
	}
	r = check_rip(c, t);
	if (r == EMUL_CONTINUE)
		r = gate_push(c, &p, frame, n);
	if (r == EMUL_CONTINUE && t->inner)
		r = seg_accessed(c, &in.ss);
	if (r != EMUL_CONTINUE)
		return r;
	c->gpr[R_RSP] = gate_sp(c, p.seg, p.sp, n * p.size);
	if (t->inner)
		seg_put(c, SEG_SS, in.sel, &in.ss);
	return r;
}

enum emul callgate_enter(struct cpu *c, u16 sel, const struct descriptor *gate, bool call,
			 unsigned len)
{
	struct gate_target t = { 0 };
	enum emul r = check_gate(c, sel, gate);

	if (r == EMUL_CONTINUE)
		r = read_gate(c, sel, gate, &t);
	if (r == EMUL_CONTINUE)
		r = check_target(c, call, &t);
	if (r == EMUL_CONTINUE && !call)
		r = check_rip(c, &t);
	if (r == EMUL_CONTINUE)
		r = seg_accessed(c, &t.cs);
	if (r == EMUL_CONTINUE && call)
		r = cpu_long_mode(c) ? push64(c, &t, c->rip + len) :
				       push_legacy(c, &t, c->rip + len);
	if (r != EMUL_CONTINUE)
		return r;
	c->rip = t.rip;
	seg_put_cs(c, t.sel, &t.cs, t.cpl);
	cpu_fence();
	return EMUL_END;
}
