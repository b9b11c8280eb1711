/* SPDX-License-Identifier: MIT */
/* Delivery in long mode (SDM Vol. 3A "Exception and Interrupt Handling in 64-bit
 * Mode"). */
#include "cpu/exc_int.h"
#include "cpu/gate_stack.h"

static enum emul fetch_gate(struct cpu *c, const struct delivery *d, u64 gate[2])
{
	unsigned type;
	enum emul r;

	if (d->vector * 16u + 15 > c->idtr.limit)
		return exc_gate_fault(c, EXC_GP, d);
	r = exc_read_table(c, c->idtr.base + d->vector * 16u, gate, 16);
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(gate[0]);
	if ((gate[0] & DESC_S) || (type != DESC_INT32 && type != DESC_TRAP32))
		return exc_gate_fault(c, EXC_GP, d);
	if (d->soft && desc_dpl(gate[0]) < c->mmu.cpl)
		return exc_gate_fault(c, EXC_GP, d);
	if (!(gate[0] & DESC_P))
		return exc_gate_fault(c, EXC_NP, d);
	return EMUL_CONTINUE;
}

static unsigned build_frame(const struct cpu *c, const struct delivery *d, u64 frame[6])
{
	unsigned n = 0;

	if (d->has_error)
		frame[n++] = d->error;
	frame[n++] = d->rip;
	frame[n++] = c->seg[SEG_CS].sel;
	frame[n++] = (cpu_rflags(c) & ~(u64)RF_RF) | d->rf;
	frame[n++] = c->gpr[R_RSP];
	frame[n++] = c->seg[SEG_SS].sel;
	return n;
}

/* The stack of a handler of privilege @cpl, aligned. */
static enum emul handler_stack(struct cpu *c, const struct delivery *d, unsigned ist,
			       unsigned cpl, u64 *rsp)
{
	enum emul r = EMUL_CONTINUE;

	*rsp = c->gpr[R_RSP];
	if (ist || cpl < c->mmu.cpl)
		r = gate_stack64(c, ist, cpl, d->ext, rsp);
	*rsp &= ~15ull;
	return r;
}

enum emul exc_through_gate64(struct cpu *c, const struct delivery *d)
{
	struct descriptor cs;
	u64 gate[2], frame[6], rsp, rip;
	unsigned cpl, n;
	u16 sel;
	enum emul r = fetch_gate(c, d, gate);

	if (r != EMUL_CONTINUE)
		return r;
	sel = (u16)(gate[0] >> 16);
	r = exc_handler_cs(c, d, sel, &cs, &cpl);
	if (r == EMUL_CONTINUE)
		r = handler_stack(c, d, gate[0] >> 32 & 7, cpl, &rsp);
	if (r != EMUL_CONTINUE)
		return r;
	rip = gate_offset(gate[0]) | gate[1] << 32;
	if (!addr_is_canonical(rip))
		return cpu_gp(c, d->ext);
	n = build_frame(c, d, frame);
	rsp -= n * 8;
	/* Pushed with the privilege of the handler: supervisor below ring 3. */
	r = gate_push64(c, rsp, frame, n, cpl < 3 ? ACC_IMPLICIT : 0, d->ext);
	if (r == EMUL_CONTINUE)
		r = seg_accessed(c, &cs);
	if (r != EMUL_CONTINUE)
		return r;
	if (cpl != c->mmu.cpl)
		seg_put_flat_ss(c, cpl);
	c->gpr[R_RSP] = rsp;
	c->rip = rip;
	seg_put_cs(c, sel, &cs, cpl);
	exc_flags_after(c, desc_type(gate[0]) == DESC_INT32);
	return EMUL_CONTINUE;
}
