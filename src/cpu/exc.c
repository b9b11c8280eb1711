/* SPDX-License-Identifier: MIT */
/*
 * What is delivered, and what becomes of faults during delivery: second faults,
 * double faults, shutdown.  The ways through the IDT are exc_long.c and
 * exc_legacy.c.
 */
#include "cpu/exc.h"

#include "cpu/cr.h"
#include "cpu/exc_int.h"
#include "cpu/seg.h"
#include "x86/msr.h"

enum emul exc_gate_fault(struct cpu *c, unsigned exc, const struct delivery *d)
{
	return cpu_raise(c, exc, d->vector * 8u | ERR_IDT | d->ext);
}

enum emul exc_read_table(struct cpu *c, gva_t at, void *dst, unsigned n)
{
	return mmu_read(&c->mmu, cpu_long_mode(c) ? at : at & 0xffffffff, dst, n, ACC_IMPLICIT);
}

enum emul exc_handler_cs(struct cpu *c, const struct delivery *d, u16 sel,
			 struct descriptor *cs, unsigned *cpl)
{
	bool lm = cpu_long_mode(c);
	unsigned type, dpl;
	enum emul r;

	if (!(sel & 0xfffc))
		return cpu_gp(c, d->ext);
	r = seg_fetch(c, sel, false, EXC_GP, d->ext, cs);
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(cs->lo);
	dpl = desc_dpl(cs->lo);
	if (!(cs->lo & DESC_S) || !(type & SEG_T_CODE) || dpl > c->mmu.cpl ||
	    (lm && (desc_attr(cs->lo) & (SEG_L | SEG_DB)) != SEG_L))
		return seg_raise(c, EXC_GP, sel, d->ext);
	if (!(cs->lo & DESC_P))
		return seg_raise(c, EXC_NP, sel, d->ext);
	*cpl = type & SEG_T_EXPAND ? c->mmu.cpl : dpl;
	return EMUL_CONTINUE;
}

void exc_flags_after(struct cpu *c, bool interrupt_gate)
{
	bool shadowed = c->shadow;

	c->rflags &= ~(u64)(RF_TF | RF_NT | RF_RF | RF_VM | (interrupt_gate ? RF_IF : 0));
	c->shadow = 0;
	/* What the shadow held off may be let in by a trap gate's handler. */
	if (shadowed && c->ops->event_check)
		c->ops->event_check(c);
}

static enum emul deliver_once(struct cpu *c, const struct delivery *d)
{
	if (cpu_long_mode(c))
		return exc_through_gate64(c, d);
	if (c->mmu.cr0 & CR0_PE)
		return exc_through_gate32(c, d);
	return exc_through_vector(c, d);
}

/* --- double faults ------------------------------------------------------------- */

enum class { BENIGN, CONTRIBUTORY, PAGE };

static enum class class_of(u8 vector)
{
	switch (vector) {
	case EXC_DE: case EXC_TS: case EXC_NP: case EXC_SS: case EXC_GP:
		return CONTRIBUTORY;
	case EXC_PF:
		return PAGE;
	}
	return BENIGN;
}

/* Faults push RF=1, so that an instruction breakpoint does not hit twice.  The
 * breakpoint's own #DB does not: its handler must set RF, or hits it again. */
static u64 rf_of(const struct cpu *c, u8 vector, bool trap)
{
	if (trap || vector == EXC_DF || vector == EXC_MC)
		return c->rflags & RF_RF;
	return RF_RF;
}

/* What the exception does before its handler starts. */
static void side_effects(struct cpu *c, const struct fault *f)
{
	if (f->vector == EXC_PF)
		c->cr2 = f->cr2;
	if (f->vector == EXC_DB) {
		c->dr6 = (c->dr6 & ~0xfull) | f->dr6;
		c->dr7 &= ~(u64)BIT(13);
		c->msr.debugctl &= ~(DEBUGCTL_LBR | DEBUGCTL_BTF);
	}
}

static void shutdown(struct cpu *c, const char *cause)
{
	c->shutdown = true;
	c->shutdown_cause = cause;
}

/* A fault was found while @d was being delivered: what comes next.  False:
 * triple fault. */
static bool combine(struct cpu *c, struct delivery *d, bool was_exception)
{
	struct fault f = c->mmu.fault;
	enum class first = was_exception ? class_of(d->vector) : BENIGN;
	enum class second = class_of(f.vector);

	side_effects(c, &f);
	if (was_exception && d->vector == EXC_DF && second != BENIGN) {
		shutdown(c, "fault while delivering a double fault");
		return false;
	}
	bool dbl = (first == CONTRIBUTORY && second == CONTRIBUTORY) ||
		   (first == PAGE && second != BENIGN);

	d->vector = dbl ? EXC_DF : f.vector;
	d->has_error = dbl || f.has_error;
	d->error = dbl ? 0 : f.error;
	d->soft = false;
	d->ext = ERR_EXT;
	d->rip = c->rip;
	d->rf = rf_of(c, d->vector, false);
	return true;
}

static void keep_event(struct cpu *c, const struct delivery *d, enum event_kind kind)
{
	c->event.kind = (u8)kind;
	c->event.vector = d->vector;
	c->event.has_error = d->has_error;
	c->event.error = d->error;
	c->event.is_soft = d->soft;
	c->event.next_rip = d->rip;
	c->rflags |= d->rf;
}

#define MAX_RETRIES 100000

static enum emul deliver(struct cpu *c, struct delivery *d, enum event_kind kind)
{
	bool exception = kind == EVENT_EXCEPTION;
	unsigned retries = 0;

	c->event.kind = EVENT_NONE;
	for (;;) {
		enum emul r = deliver_once(c, d);

		switch (r) {
		case EMUL_RETRY:
			/* A lost race or no memory for a moment: not for ever. */
			if (++retries > MAX_RETRIES)
				return cpu_refuse(c, "exception delivery");
			continue;
		case EMUL_FAULT:
			c->stats->exceptions++;
			if (!combine(c, d, exception))
				return EMUL_CONTINUE;
			exception = true;
			kind = EVENT_EXCEPTION;
			continue;
		case EMUL_IO:
			keep_event(c, d, kind);
			return r;
		default:
			cpu_fence();
			return r;
		}
	}
}

enum emul exc_deliver_fault(struct cpu *c)
{
	const struct fault *f = &c->mmu.fault;
	bool trap = f->vector == EXC_DB && !(f->dr6 & BIT(13)) && !f->has_error;
	struct delivery d = {
		.vector = f->vector,
		.has_error = f->has_error && (c->mmu.cr0 & CR0_PE),
		.error = f->error,
		.ext = ERR_EXT,
		.rip = c->rip,
		.rf = rf_of(c, f->vector, trap),
	};

	/* A trap on HLT itself: the handler runs, the processor does not sleep. */
	c->halted = false;
	side_effects(c, f);
	c->stats->exceptions++;
	return deliver(c, &d, EVENT_EXCEPTION);
}

enum emul exc_soft_int(struct cpu *c, u8 vector, unsigned kind, unsigned insn_len)
{
	struct delivery d = {
		.vector = vector,
		.soft = kind != 0xf1,
		.ext = kind == 0xf1 ? ERR_EXT : 0,
		.rip = c->rip + insn_len,
		/* .rf: the instruction itself has cleared it */
	};

	if (c->code_bits != 64)
		d.rip &= c->code_bits == 32 ? 0xffffffff : 0xffff;
	return deliver_once(c, &d);
}

enum emul exc_interrupt(struct cpu *c, u8 vector)
{
	struct delivery d = {
		.vector = vector, .ext = ERR_EXT, .rip = c->rip, .rf = c->rflags & RF_RF
	};

	c->halted = false;
	return deliver(c, &d, EVENT_INTR);
}

enum emul exc_nmi(struct cpu *c)
{
	struct delivery d = {
		.vector = EXC_NMI, .ext = ERR_EXT, .rip = c->rip, .rf = c->rflags & RF_RF
	};

	c->halted = false;
	c->nmi_blocked = true;
	return deliver(c, &d, EVENT_NMI);
}

enum emul exc_deliver_event(struct cpu *c)
{
	struct delivery d = {
		.vector = c->event.vector,
		.has_error = c->event.has_error && (c->mmu.cr0 & CR0_PE),
		.error = c->event.error,
		.ext = ERR_EXT,
		.rip = c->event.is_soft ? c->event.next_rip : c->rip,
		.rf = c->rflags & RF_RF,
	};

	switch ((enum event_kind)c->event.kind) {
	case EVENT_NONE:
		return EMUL_CONTINUE;
	case EVENT_NMI:
		return exc_nmi(c);
	case EVENT_INTR:
		return exc_interrupt(c, c->event.vector);
	case EVENT_SOFT_INT:
		d.soft = true;
		d.ext = 0;
		return deliver(c, &d, EVENT_SOFT_INT);
	case EVENT_EXCEPTION:
		break;
	}
	c->halted = false;
	c->stats->exceptions++;
	return deliver(c, &d, EVENT_EXCEPTION);
}
