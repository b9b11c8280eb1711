/* SPDX-License-Identifier: MIT */
/*
 * Stack windows.  Half of all memory accesses go to the stack, and within a
 * block their distances from the stack pointer are known: one check covers them
 * all.  struct cpu remembers the page of the last one that passed, so that the
 * usual check is four instructions.  It forgets it whenever C code ran, which
 * alone changes the TLB.
 *
 * Where a check fails, because the stack crosses a page end or its page has no
 * entry for writing, the block goes on in a second translation of itself that
 * has no windows.
 */
#include "jit/class.h"
#include "jit/jit_int.h"

#define GUEST_SP (jit_home[R_RSP])
#define MAX_SPAN 512 /* bytes: a wider window fails more often */

/* Does @i access [rsp + disp]?  By the operand alone. */
static bool names_stack(const struct insn *i)
{
	return i->flags & INSN_MEM && i->base == R_RSP && i->index == REG_NONE &&
	       i->adsize == 8 && i->seg < SEG_FS && i->disp > -0x10000 && i->disp < 0x10000;
}

/** struct touch - what an instruction does to the stack
 * @lo, @hi: bytes it accesses, from rsp before it; none if equal
 * @delta:  added to rsp; @breaks: rsp is not known afterwards, or C code ran */
struct touch {
	s32 lo, hi, delta;
	bool breaks;
};

static bool writes_sp(const struct insn *i)
{
	for (unsigned n = 0; n < i->nopnd; n++)
		if (i->opnd[n].kind == OPD_GPR && i->opnd[n].reg == R_RSP &&
		    i->opnd[n].access & OPD_W)
			return true;
	return false;
}

/* RSP as the destination of @i: by how much is it moved? */
static struct touch moves_sp(const struct insn *i)
{
	struct touch u = { .breaks = true };
	s64 imm = (s64)i->imm;

	if (i->opsize != 8)
		return u;
	if ((i->op == OP_ADD || i->op == OP_SUB) && i->opnd[1].kind == OPD_IMM && imm == (s32)imm &&
	    imm > -0x100000 && imm < 0x100000)
		return (struct touch){ .delta = (s32)(i->op == OP_ADD ? imm : -imm) };
	if (i->op == OP_LEA && i->base == R_RSP && i->index == REG_NONE && i->adsize == 8 &&
	    i->disp > -0x100000 && i->disp < 0x100000)
		return (struct touch){ .delta = (s32)i->disp };
	return u;
}

static struct touch touches(const struct insn *i, enum jit_class class)
{
	struct touch u = { 0 };

	switch (class) {
	case JIT_INTERP:
	case JIT_LEAVE:
		u.breaks = true;
		return u;
	case JIT_PUSH: case JIT_PUSH_MEM: case JIT_CALL: case JIT_CALL_IND:
		return (struct touch){ .lo = -8, .delta = -8 };
	case JIT_SYSTEM:
		if (i->op == OP_PUSHF)
			return (struct touch){ .lo = -8, .delta = -8 };
		u.breaks = writes_sp(i);
		return u;
	case JIT_POP:
		return (struct touch){ .hi = 8, .delta = 8, .breaks = i->opnd[0].reg == R_RSP };
	case JIT_RET:
		return (struct touch){ .hi = 8, .breaks = true };
	case JIT_COPY: case JIT_VECTOR: case JIT_SHIFT: case JIT_X87:
		if (names_stack(i)) {
			u.lo = (s32)i->disp;
			for (unsigned n = 0; n < i->nopnd; n++)
				if (i->opnd[n].kind == OPD_MEM)
					u.hi = u.lo + i->opnd[n].size;
		}
		if (writes_sp(i)) {
			struct touch m = moves_sp(i);

			u.delta = m.delta;
			u.breaks = m.breaks;
		}
		return u;
	default:
		return writes_sp(i) ? moves_sp(i) : u;
	}
}

void trans_plan_windows(struct trans *t)
{
	struct window *w = NULL;
	s32 sp = 0;

	t->nwindows = 0;
	memset(t->in_window, 0, sizeof(t->in_window));
	for (unsigned k = 0; k < t->n && !t->plain; k++) {
		const struct insn *i = &t->b->code[k].insn;
		struct touch u = touches(i, jit_class(&t->b->code[k]));
		s32 lo = sp + u.lo, hi = sp + u.hi;

		if (w && hi > lo && (MAX(hi, w->hi) - MIN(lo, w->lo) > MAX_SPAN))
			w = NULL;
		if (!w) {
			lo = u.lo;
			hi = u.hi;
			sp = 0;
		}
		if (hi > lo && hi - lo <= MAX_SPAN) {
			if (!w) {
				w = &t->window[t->nwindows++];
				*w = (struct window){ .lo = lo, .hi = hi, .first = (u8)k };
			}
			w->lo = MIN(lo, w->lo);
			w->hi = MAX(hi, w->hi);
			w->last = (u8)k;
		}
		t->in_window[k] = w ? t->nwindows : 0;
		t->sp[k] = sp;
		sp += u.delta;
		if (u.breaks)
			w = NULL;
	}
	t->sp[t->n] = sp;
	/* Up to the last access only. */
	for (unsigned k = 0; k < t->n; k++)
		if (t->in_window[k] && k > t->window[t->in_window[k] - 1].last)
			t->in_window[k] = 0;
}

static const struct window *window_of(const struct trans *t)
{
	return t->in_window[t->insn] ? &t->window[t->in_window[t->insn] - 1] : NULL;
}

/* r10 and r11: first and last byte of @w, where rsp is @sp from its origin. */
static void put_bounds(struct trans *t, const struct window *w, s32 sp)
{
	emit_lea(&t->e, H_10, at_reg(GUEST_SP, w->lo - sp));
	emit_lea(&t->e, H_11, at_reg(GUEST_SP, w->hi - 1 - sp));
}

void trans_window(struct trans *t)
{
	const struct window *w = window_of(t);
	struct emitter *e = &t->e;
	struct fix *f;
	u8 *ok;

	/* r11 still holds the distance if nothing but window accesses came since: no
	 * way back from a fix leads here, that of the instruction before included,
	 * which may access other memory as well. */
	if (t->window_used + 1 != t->insn || t->window_fixes != t->nfix)
		t->window_loaded = false;
	t->insn_fixes = t->nfix;
	if (!w || w->first != t->insn)
		return;
	t->window_loaded = false;
	f = trans_fix(t, FIX_WINDOW);
	f->off = t->off[t->insn];
	if (trans_flags_dead(t)) {
		emit_lea(e, H_CX, at_reg(GUEST_SP, w->lo - t->sp[t->insn]));
		emit_alu_load(e, ALU_ADD, H_CX, STATE(jit.stack_neg));
		emit_cmp_imm(e, H_CX, PAGE_SIZE - (u32)(w->hi - w->lo));
		trans_fix_from(f, emit_jcc(e, COND_A));
	} else {
		emit_mov_load(e, H_11, STATE(jit.stack_neg));
		emit_lea(e, H_10, at_reg(GUEST_SP, w->lo - t->sp[t->insn]));
		emit_lea(e, H_10, (struct host_mem){ .base = H_10, .index = H_11 });
		emit_pext(e, H_CX, H_10, STATE(jit.page_bits));
		ok = emit_jrcxz(e);
		trans_fix_from(f, emit_jmp(e));
		emit_link8(e, ok);
		emit_lea(e, H_10, at_reg(H_10, w->hi - w->lo - 1));
		emit_pext(e, H_CX, H_10, STATE(jit.page_bits));
		ok = emit_jrcxz(e);
		trans_fix_from(f, emit_jmp(e));
		emit_link8(e, ok);
	}
	f->back = e->at;
	t->insn_fixes = t->nfix;
}

/* Look for the window's page in the TLB; rcx is 0 if it is all there. */
static void put_find(struct trans *t, const struct window *w, s32 sp)
{
	put_bounds(t, w, sp);
	emit_link(&t->e, emit_call(&t->e), t->j->find_stack);
}

void trans_window_fix(struct trans *t, const struct fix *f)
{
	const struct window *w = &t->window[t->in_window[f->insn] - 1];
	struct emitter *e = &t->e;
	u8 *ok;

	put_find(t, w, t->sp[f->insn]);
	ok = emit_jrcxz(e);
	trans_leave_to(t, f->off, t->j->exit_plain);
	emit_link8(e, ok);
	emit_link(e, emit_jmp(e), f->back);
}

void trans_window_again(struct trans *t, unsigned insn, bool begun, u8 *back)
{
	const struct window *w = t->in_window[insn] ? &t->window[t->in_window[insn] - 1] : NULL;
	struct emitter *e = &t->e;
	u8 *ok;

	if (trans_group_broken(t, insn, begun)) {
		trans_leave_to(t, t->off[insn], t->j->exit_plain);
		return;
	}
	/* Before its first access the check is still to come. */
	if (!w || (insn == w->first && !begun)) {
		emit_link(e, emit_jmp(e), back);
		return;
	}
	put_find(t, w, t->sp[insn]);
	ok = emit_jrcxz(e);
	trans_set_rip(t, t->off[insn]);
	emit_link(e, emit_jmp(e), t->j->exit_lookup);
	emit_link8(e, ok);
	emit_link(e, emit_jmp(e), back);
}

bool trans_stack(struct trans *t, s32 disp, struct host_mem *m)
{
	if (!window_of(t))
		return false;
	/* The distance between host and guest. */
	if (!t->window_loaded)
		emit_mov_load(&t->e, H_11, STATE(jit.stack_add));
	t->window_loaded = true;
	t->window_used = t->insn;
	t->window_fixes = t->insn_fixes;
	*m = (struct host_mem){ .base = GUEST_SP, .index = H_11, .disp = disp };
	return true;
}

bool trans_names_stack(const struct trans *t)
{
	return window_of(t) && names_stack(trans_insn(t));
}
