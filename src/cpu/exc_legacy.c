/* SPDX-License-Identifier: MIT */
/* Delivery in protected and real mode (SDM Vol. 3A "Exception- or
 * Interrupt-Handler Procedures", "Real-Address Mode"). */
#include "cpu/exc_int.h"
#include "cpu/gate_stack.h"

/* --- protected mode ---------------------------------------------------------- */

static enum emul fetch_gate(struct cpu *c, const struct delivery *d, u64 *gate)
{
	unsigned type;
	enum emul r;

	if (d->vector * 8u + 7 > c->idtr.limit)
		return exc_gate_fault(c, EXC_GP, d);
	r = exc_read_table(c, c->idtr.base + d->vector * 8u, gate, 8);
	if (r != EMUL_CONTINUE)
		return r;
	type = *gate & DESC_S ? 0 : desc_type(*gate);
	if (type < DESC_TASK_GATE || (type > DESC_TRAP16 && type < DESC_INT32))
		return exc_gate_fault(c, EXC_GP, d);
	if (d->soft && desc_dpl(*gate) < c->mmu.cpl)
		return exc_gate_fault(c, EXC_GP, d);
	if (!(*gate & DESC_P))
		return exc_gate_fault(c, EXC_NP, d);
	return type == DESC_TASK_GATE ? cpu_refuse(c, "task gate") : EMUL_CONTINUE;
}

static unsigned build_frame(const struct cpu *c, const struct delivery *d, bool switches,
			    u32 frame[6])
{
	unsigned n = 0;

	if (d->has_error)
		frame[n++] = d->error;
	frame[n++] = (u32)d->rip;
	frame[n++] = c->seg[SEG_CS].sel;
	frame[n++] = (u32)((cpu_rflags(c) & ~(u64)RF_RF) | d->rf);
	if (switches) {
		frame[n++] = (u32)c->gpr[R_RSP];
		frame[n++] = c->seg[SEG_SS].sel;
	}
	return n;
}

/** struct handler - where an interrupt or trap gate leads */
struct handler {
	struct descriptor cs;
	struct inner_stack in;
	u16 sel;
	u32 rip;
	unsigned cpl;
	bool switches, wide;
};

static enum emul find_handler(struct cpu *c, const struct delivery *d, u64 gate,
			      struct handler *h)
{
	enum emul r;

	h->sel = (u16)(gate >> 16);
	h->wide = desc_type(gate) & 8;
	h->rip = gate_offset(gate) & (h->wide ? 0xffffffff : 0xffff);
	r = exc_handler_cs(c, d, h->sel, &h->cs, &h->cpl);
	if (r != EMUL_CONTINUE)
		return r;
	h->switches = h->cpl < c->mmu.cpl;
	if (h->switches)
		r = gate_stack32(c, h->cpl, d->ext, &h->in);
	if (r == EMUL_CONTINUE && h->rip > desc_limit(h->cs.lo))
		return cpu_gp(c, d->ext);
	return r;
}

enum emul exc_through_gate32(struct cpu *c, const struct delivery *d)
{
	struct handler h = { 0 };
	struct legacy_push p = { .ext = d->ext };
	u32 frame[6];
	u64 gate;
	unsigned n;
	enum emul r;

	if (c->rflags & RF_VM)
		return cpu_refuse(c, "interrupt in virtual-8086 mode");
	r = fetch_gate(c, d, &gate);
	if (r == EMUL_CONTINUE)
		r = find_handler(c, d, gate, &h);
	if (r != EMUL_CONTINUE)
		return r;
	n = build_frame(c, d, h.switches, frame);
	p.seg = h.switches ? &h.in.seg : &c->seg[SEG_SS];
	p.sp = h.switches ? h.in.esp : (u32)c->gpr[R_RSP];
	p.sel = h.switches ? h.in.sel : 0;
	p.size = h.wide ? 4 : 2;
	p.acc = h.cpl < 3 ? ACC_IMPLICIT : 0;
	r = gate_push(c, &p, frame, n);
	if (r == EMUL_CONTINUE)
		r = seg_accessed(c, &h.cs);
	if (r == EMUL_CONTINUE && h.switches)
		r = seg_accessed(c, &h.in.ss);
	if (r != EMUL_CONTINUE)
		return r;
	c->gpr[R_RSP] = gate_sp(c, p.seg, p.sp, n * p.size);
	if (h.switches)
		seg_put(c, SEG_SS, h.in.sel, &h.in.ss);
	c->rip = h.rip;
	seg_put_cs(c, h.sel, &h.cs, h.cpl);
	exc_flags_after(c, !(desc_type(gate) & 1));
	return EMUL_CONTINUE;
}

/* --- real mode ----------------------------------------------------------------- */

enum emul exc_through_vector(struct cpu *c, const struct delivery *d)
{
	const struct legacy_push p = {
		.seg = &c->seg[SEG_SS], .sp = (u32)c->gpr[R_RSP], .size = 2, .ext = d->ext
	};
	u32 frame[3] = { (u16)d->rip, c->seg[SEG_CS].sel, (u16)cpu_rflags(c) };
	u16 vec[2];
	enum emul r;

	if (d->vector * 4u + 3 > c->idtr.limit)
		return exc_gate_fault(c, EXC_GP, d);
	r = exc_read_table(c, c->idtr.base + d->vector * 4u, vec, 4);
	if (r == EMUL_CONTINUE)
		r = gate_push(c, &p, frame, 3);
	if (r != EMUL_CONTINUE)
		return r;
	c->gpr[R_RSP] = gate_sp(c, p.seg, p.sp, 6);
	seg_put_real(c, SEG_CS, vec[1]);
	c->rip = vec[0];
	c->rflags &= ~(u64)RF_AC;
	mmu_set_ac(&c->mmu, false);
	exc_flags_after(c, true);
	return EMUL_CONTINUE;
}
