/* SPDX-License-Identifier: MIT */
/*
 * From block to block.  Inside a page, blocks are linked by direct jumps: what
 * invalidates one of them invalidates all of the page.  Everywhere else the
 * context's jump cache is asked.  Every backward jump and every entry from
 * elsewhere looks at the attention word.
 */
#include "jit/class.h"
#include "jit/jit_int.h"

static const struct host_mem checked = { .base = H_10, .index = H_11 };

#define GUEST_SP (jit_home[R_RSP])

/* Leave before going to @off if attention is wanted. */
static void poll(struct trans *t, s64 off)
{
	struct fix *f = trans_fix(t, FIX_ATTN);
	u8 *ok;

	f->off = (u16)off;
	emit_mov_load32(&t->e, H_CX, STATE(attn));
	ok = emit_jrcxz(&t->e);
	trans_fix_from(f, emit_jmp(&t->e));
	emit_link8(&t->e, ok);
}

/* Link the jump with its distance at @at to the block at @off of this page. */
static void link_jump(struct trans *t, u8 *at, s64 off)
{
	struct block *b = jit_successor(t, off);

	if (t->j->nochain) {
		struct fix *f = trans_fix(t, FIX_ATTN);

		f->off = (u16)off;
		trans_fix_from(f, at);
	} else if (b == t->b) {
		emit_link(&t->e, at, t->inner);
	} else if (b && b->native) {
		emit_link(&t->e, at, t->j->arena.rw + ((struct translation *)b->native)->inner);
	} else {
		struct fix *f = trans_fix(t, FIX_LINK);

		f->off = (u16)off;
		trans_fix_from(f, at);
	}
}

/* Flags that the code at @off of this page may read. */
static unsigned live_in(const struct trans *t, s64 off)
{
	struct block *b = jit_successor(t, off);

	return b && !t->j->exact ? jit_live_in(b) : RF_ARITH;
}

/* The same where flags are dead at @off: the test is the jump. */
static void poll_and_jump(struct trans *t, s64 off)
{
	struct fix *f = trans_fix(t, FIX_ATTN);

	f->off = (u16)off;
	emit_cmp_mem0(&t->e, STATE(attn));
	link_jump(t, emit_jcc(&t->e, COND_E), off);
	trans_fix_from(f, emit_jmp(&t->e));
}

/* The cached translation of the code at r11: r10 points to its entry, and the
 * jump at the returned place is taken if there is none. */
static u8 *ask_cache(struct trans *t)
{
	struct emitter *e = &t->e;
	u8 *hit, *miss;

	emit_pext(e, H_CX, H_11, STATE(jit.jump_bits));
	emit_mov_load(e, H_10, STATE(jit.jumps));
	emit_lea(e, H_CX, (struct host_mem){ .base = H_CX, .index = H_CX });
	emit_lea(e, H_10, (struct host_mem){ .base = H_10, .index = H_CX, .scale = 3 });
	emit_mov_load(e, H_CX, at_reg(H_10, offsetof(struct jump, neg)));
	emit_lea(e, H_CX, (struct host_mem){ .base = H_CX, .index = H_11 });
	hit = emit_jrcxz(e);
	miss = emit_jmp(e);
	emit_link8(e, hit);
	/* In tests every jump is a miss. */
	if (t->j->nochain)
		*hit = 0;
	return miss;
}

static void jump_to_entry(struct trans *t)
{
	emit_jmp_mem(&t->e, at_reg(H_10, offsetof(struct jump, code)));
}

void trans_goto(struct trans *t, s64 off)
{
	if (off >= 0 && off < (s64)PAGE_SIZE) {
		bool back = off <= t->off[t->insn];

		if (back && !live_in(t, off)) {
			poll_and_jump(t, off);
			return;
		}
		if (back)
			poll(t, off);
		link_jump(t, emit_jmp(&t->e), off);
		return;
	}
	emit_mov_load(&t->e, H_11, STATE(jit.rip_page));
	emit_lea(&t->e, H_11, at_reg(H_11, (s32)off));
	emit_link(&t->e, ask_cache(t), t->j->exit_miss);
	jump_to_entry(t);
}

static s64 target(const struct trans *t)
{
	return (s64)t->off[t->insn + 1] + (s64)trans_insn(t)->imm;
}

static void branch_jcc(struct trans *t)
{
	unsigned cond = trans_insn(t)->cond;
	s64 to = target(t), next = t->off[t->insn + 1];

	if (to >= 0 && to < (s64)PAGE_SIZE && to > t->off[t->insn]) {
		link_jump(t, emit_jcc(&t->e, cond), to);
	} else {
		u8 *over = emit_jcc(&t->e, cond ^ 1);

		trans_goto(t, to);
		emit_link(&t->e, over, t->e.at);
	}
	trans_goto(t, next);
}

/* r10 + r11 is where the return address goes, which has been checked. */
static void push_return(struct trans *t, struct host_mem at)
{
	emit_mov_load(&t->e, H_CX, STATE(jit.rip_page));
	emit_lea(&t->e, H_CX, at_reg(H_CX, t->off[t->insn + 1]));
	emit_mov_store(&t->e, at, H_CX);
	emit_lea(&t->e, GUEST_SP, at_reg(GUEST_SP, -8));
}

static void branch_call(struct trans *t)
{
	struct host_mem top;

	if (!trans_stack(t, -8, &top)) {
		emit_lea(&t->e, H_10, at_reg(GUEST_SP, -8));
		trans_access(t, trans_fix(t, FIX_SLOW), 8, true, 1);
		top = checked;
	}
	push_return(t, top);
	trans_goto(t, target(t));
}

/* The target of an indirect branch into r11. */
static void load_target(struct trans *t, struct fix *slow)
{
	const struct insn *i = trans_insn(t);

	if (i->flags & INSN_MEM) {
		trans_ea(t);
		trans_access(t, slow, 8, false, 1);
		emit_mov_load(&t->e, H_11, checked);
	} else {
		emit_mov_rr(&t->e, H_11, trans_reg(t, i->opnd[0].reg, H_11));
	}
}

/* Nothing is changed before the target is known to be there: a target that is
 * not canonical is the interpreter's. */
static void branch_jmp_indirect(struct trans *t)
{
	struct fix *slow = trans_fix(t, FIX_SLOW);

	load_target(t, slow);
	trans_fix_from(slow, ask_cache(t));
	jump_to_entry(t);
}

static void branch_call_indirect(struct trans *t)
{
	struct fix *slow = trans_fix(t, FIX_SLOW);
	struct host_mem top;

	load_target(t, slow);
	emit_mov_store(&t->e, STATE(jit.tmp[0]), H_11);
	t->window_loaded = false;
	if (trans_stack(t, -8, &top)) {
		emit_mov_load(&t->e, H_11, STATE(jit.tmp[0]));
		trans_fix_from(slow, ask_cache(t));
		emit_mov_load(&t->e, H_11, STATE(jit.stack_add));
	} else {
		emit_lea(&t->e, H_10, at_reg(GUEST_SP, -8));
		trans_access(t, slow, 8, true, 1);
		emit_lea(&t->e, H_10, checked);
		emit_mov_store(&t->e, STATE(jit.tmp[2]), H_10);
		emit_mov_load(&t->e, H_11, STATE(jit.tmp[0]));
		trans_fix_from(slow, ask_cache(t));
		emit_mov_load(&t->e, H_11, STATE(jit.tmp[2]));
		top = at_reg(H_11, 0);
	}
	push_return(t, top);
	emit_mov_load(&t->e, H_11, STATE(jit.tmp[0]));
	jump_to_entry(t);
}

static void branch_ret(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct fix *slow = trans_fix(t, FIX_SLOW);
	struct host_mem top;

	if (!trans_stack(t, 0, &top)) {
		emit_mov_rr(&t->e, H_10, GUEST_SP);
		trans_access(t, slow, 8, false, 1);
		top = checked;
	}
	emit_mov_load(&t->e, H_11, top);
	trans_fix_from(slow, ask_cache(t));
	emit_lea(&t->e, GUEST_SP, at_reg(GUEST_SP, 8 + (s32)(i->nopnd ? (u16)i->imm : 0)));
	jump_to_entry(t);
}

void trans_branch(struct trans *t, unsigned class)
{
	switch ((enum jit_class)class) {
	case JIT_JCC: branch_jcc(t); break;
	case JIT_JMP: trans_goto(t, target(t)); break;
	case JIT_JMP_IND: branch_jmp_indirect(t); break;
	case JIT_CALL: branch_call(t); break;
	case JIT_CALL_IND: branch_call_indirect(t); break;
	case JIT_RET: branch_ret(t); break;
	default: trans_slow(t); break;
	}
}
