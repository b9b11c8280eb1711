/* SPDX-License-Identifier: MIT */
/*
 * One instruction, with everything that is looked at around it: instruction
 * breakpoints, RF, the interrupt shadow, single-step and data traps, the
 * client's debugger, code segment limits.
 */
#include "cpu/debug.h"
#include "cpu/interp.h"
#include "cpu/interp_int.h"
#include "x86/msr.h"

/** struct step - what must be remembered over the instruction */
struct step {
	gva_t pc;
	u64 flags; /* RFLAGS before */
	u64 rcx;
	u16 op;	   /* enum insn_op, of what was executed */
	bool string;
	bool jumped; /* a branch that was taken */
	bool debugged; /* the client's breakpoint: nothing was executed */
};

/* Instruction breakpoints are faults: RF is pushed, and skips them once. */
static bool breakpoint(struct cpu *c, const struct step *s, u32 *hits)
{
	if (s->flags & RF_RF || !(c->dr7 & 0xff || c->gdb.hw_bp))
		return false;
	/* Intel's are held off, and lost, in the shadow of MOV SS; AMD's hit. */
	if (c->shadow & SHADOW_MOVSS && c->vendor == VENDOR_INTEL && !debug_client_owns(c))
		return false;
	*hits = debug_insn_hits(c, s->pc);
	return *hits;
}

static enum emul execute(struct cpu *c, struct step *s)
{
	u32 limit = c->seg[SEG_CS].limit;
	bool flat = c->code_bits == 64;
	const struct icode *e;
	struct block *b;
	enum emul r;

	if (!flat && c->rip > limit)
		return cpu_gp(c, 0);
	r = icache_lookup(c, s->pc, &b);
	if (r != EMUL_CONTINUE)
		return r;
	e = &b->code[0];
	if (!flat && c->rip + e->insn.len - 1 > limit)
		return cpu_gp(c, 0);
	s->op = e->insn.op;
	s->string = e->insn.flags & (INSN_REP | INSN_REPNE);
	if (s->op == OP_INT3 && c->gdb.enabled && c->gdb.sw_bp) {
		s->debugged = true;
		return EMUL_CONTINUE;
	}
	r = e->fn(c, &e->insn);
	if (r != EMUL_CONTINUE && r != EMUL_END)
		return r;
	if (!(e->insn.flags & INSN_BRANCH))
		c->rip = (c->rip + e->insn.len) & interp_rip_mask(c);
	else
		s->jumped = interp_pc(c) != s->pc + e->insn.len;
	c->stats->instructions++;
	return r;
}

/* The shadow that was in force is over, unless the instruction began one. */
static void expire_shadow(struct cpu *c)
{
	if (interp_attn(c) & ATTN_SHADOW) {
		interp_attn_clear(c, ATTN_SHADOW);
		return;
	}
	if (c->shadow) {
		c->shadow = 0;
		c->ops->event_check(c);
	}
}

/* Does TF trap after this instruction?  Its value before counts, but the entries
 * into a handler that cleared it take it back. */
static bool single_steps(const struct cpu *c, const struct step *s)
{
	if (!(s->flags & RF_TF) || (c->msr.debugctl & DEBUGCTL_BTF && !s->jumped))
		return false;
	switch (s->op) {
	case OP_INT:
	case OP_INT1:
	case OP_INT3:
	case OP_INTO:
	case OP_SYSCALL:
	case OP_SYSENTER:
		return c->rflags & RF_TF;
	default:
		return true;
	}
}

static bool after(struct cpu *c, const struct step *s, bool completed, enum engine_exit *exit)
{
	if (completed) {
		expire_shadow(c);
		if (s->flags & RF_RF && s->op != OP_IRET)
			c->rflags &= ~(u64)RF_RF;
	}
	if (c->mmu.watch_hits)
		c->pending_dbg |= debug_data_hits(c);
	if (single_steps(c, s))
		c->pending_dbg |= DR6_BS;
	if (c->gdb.enabled && c->gdb.singlestep)
		c->pending_dbg |= DR6_BS;
	if (c->shadow & SHADOW_MOVSS) {
		/* The trap of the data breakpoint waits; single-step does not. */
		c->pending_dbg &= ~DR6_BS;
		return true;
	}
	return c->pending_dbg ? interp_trap(c, exit) : true;
}

bool interp_step(struct cpu *c, enum engine_exit *exit)
{
	struct step s = {
		.pc = interp_pc(c), .flags = c->rflags, .rcx = c->gpr[R_RCX]
	};
	bool done, iterated;
	enum emul r;
	u32 hits;

	c->refused = NULL;
	if (breakpoint(c, &s, &hits)) {
		/* RF is pushed clear: the handler sets it, or it hits again. */
		c->pending_dbg |= hits;
		return interp_trap(c, exit);
	}
	interp_attn_clear(c, ATTN_SHADOW);
	r = execute(c, &s);
	if (s.debugged) {
		c->debug_exit.vector = EXC_BP;
		c->debug_exit.pc = s.pc;
		c->debug_exit.dr6 = 0;
		*exit = ENGINE_DEBUG;
		return false;
	}
	done = r == EMUL_CONTINUE || r == EMUL_END;
	iterated = r == EMUL_RETRY && s.string && c->gpr[R_RCX] != s.rcx;
	if (!interp_settle(c, r, exit))
		return false;
	return done || iterated ? after(c, &s, done, exit) : true;
}
