/* SPDX-License-Identifier: MIT */
/* A block, instruction by instruction, and the code behind it. */
#include "jit/class.h"
#include "jit/jit_int.h"

struct fix *trans_fix(struct trans *t, enum fix_kind kind)
{
	struct fix *f;

	if (t->nfix == MAX_FIXES) {
		t->failed = true;
		t->nfix--;
	}
	f = &t->fix[t->nfix++];
	*f = (struct fix){ .kind = (u8)kind, .insn = (u8)t->insn, .x87 = t->x87_last };
	return f;
}

struct block *jit_successor(const struct trans *t, s64 off)
{
	if (off == t->b->off)
		return t->b;
	return off < 0 || off >= (s64)PAGE_SIZE ? NULL
						 : icache_peek(t->b->page, (unsigned)off, 64);
}

/* --- pieces --------------------------------------------------------------------- */

static void call_stub(struct trans *t, unsigned insn, const u8 *stub)
{
	emit_mov_imm(&t->e, H_11, (u64)(uintptr_t)&t->b->code[insn]);
	emit_mov_imm(&t->e, H_CX, t->off[insn]);
	emit_link(&t->e, emit_call(&t->e), stub);
}

void trans_slow(struct trans *t)
{
	call_stub(t, t->insn, t->j->slow);
}

void trans_set_rip(struct trans *t, unsigned off)
{
	emit_mov_load(&t->e, H_11, STATE(jit.rip_page));
	emit_lea(&t->e, H_11, at_reg(H_11, (s32)off));
	emit_mov_store(&t->e, STATE(rip), H_11);
}

static void leave_from(struct trans *t, const u8 *site, unsigned off, const u8 *stub)
{
	struct emitter *e = &t->e;

	trans_set_rip(t, off);
	emit_mov_imm(e, H_11, (u64)(uintptr_t)t->b);
	emit_mov_store(e, STATE(jit.tmp[0]), H_11);
	emit_mov_imm(e, H_10, (u64)(site - t->j->arena.rw));
	emit_link(e, emit_jmp(e), stub);
}

void trans_leave_to(struct trans *t, unsigned off, const u8 *stub)
{
	u8 *site = emit_jmp(&t->e);

	emit_link(&t->e, site, t->e.at);
	leave_from(t, site, off, stub);
}

static void put_fix(struct trans *t, struct fix *f)
{
	struct emitter *e = &t->e;

	if (!f->nfrom)
		return;
	for (unsigned n = 0; n < f->nfrom; n++)
		emit_link(e, f->from[n], e->at);
	trans_x87_note(t, f->x87);
	switch ((enum fix_kind)f->kind) {
	case FIX_SLOW:
		call_stub(t, f->insn, t->j->slow);
		trans_window_again(t, f->insn + 1, false, t->at[f->insn + 1]);
		break;
	case FIX_VECTOR:
	case FIX_X87:
		call_stub(t, f->insn, f->kind == FIX_X87 ? t->j->x87 : t->j->vector);
		trans_window_again(t, f->insn, true, f->back);
		break;
	case FIX_LINK:
		leave_from(t, f->from[0], f->off, t->j->exit_link);
		break;
	case FIX_WINDOW:
		trans_window_fix(t, f);
		break;
	case FIX_GROUP:
		trans_leave_to(t, f->off, t->j->exit_plain);
		break;
	case FIX_ATTN:
		trans_set_rip(t, f->off);
		emit_link(e, emit_jmp(e), t->j->exit_lookup);
		break;
	}
}

/* From anywhere: r11, rip, tells the page; attention first. */
static void put_entry(struct trans *t)
{
	struct emitter *e = &t->e;
	u8 *ok;

	emit_lea(e, H_CX, at_reg(H_11, -(s32)t->b->off));
	emit_mov_store(e, STATE(jit.rip_page), H_CX);
	emit_mov_load32(e, H_CX, STATE(attn));
	ok = emit_jrcxz(e);
	emit_link(e, emit_jmp(e), t->j->exit_miss);
	emit_link8(e, ok);
}

static void put_count(struct trans *t)
{
	struct emitter *e = &t->e;

	if (!t->j->count)
		return;
	emit_mov_load(e, H_CX, STATE(jit.blocks_n));
	emit_lea(e, H_CX, at_reg(H_CX, (s32)t->n));
	emit_mov_store(e, STATE(jit.blocks_n), H_CX);
	emit_mov_imm(e, H_CX, (u64)(uintptr_t)t->b);
	emit_mov_store(e, STATE(jit.tmp[1]), H_CX);
}

static void put_insn(struct trans *t)
{
	enum jit_class class = jit_class(&t->b->code[t->insn]);

	switch (class) {
	case JIT_COPY:
	case JIT_VECTOR: trans_copy(t); break;
	case JIT_X87: trans_x87(t); break;
	case JIT_SHIFT: trans_shift(t); break;
	case JIT_DIV: trans_div(t); break;
	case JIT_LEA: trans_lea(t); break;
	case JIT_PUSH: trans_push(t); break;
	case JIT_POP: trans_pop(t); break;
	case JIT_LEAVE: trans_leave(t); break;
	case JIT_PUSH_MEM: trans_push_mem(t); break;
	case JIT_SYSTEM:
		trans_x87_settle(t);
		trans_system(t);
		break;
	case JIT_NOP: break;
	case JIT_INTERP:
		trans_x87_settle(t);
		trans_slow(t);
		break;
	default:
		trans_x87_settle(t);
		trans_branch(t, class);
		break;
	}
}

static void offsets(struct trans *t)
{
	unsigned off = t->b->off;

	for (unsigned k = 0; k < t->n; k++) {
		t->off[k] = (u16)off;
		off += t->b->code[k].insn.len;
	}
	t->off[t->n] = (u16)off;
}

/* --- the whole -------------------------------------------------------------------- */

static void put_block(struct trans *t)
{
	struct block *b = t->b;

	t->entry = t->e.at;
	put_entry(t);
	t->inner = t->e.at;
	put_count(t);
	for (t->insn = 0; t->insn < t->n; t->insn++) {
		t->at[t->insn] = t->e.at;
		trans_window(t);
		put_insn(t);
	}
	t->at[t->n] = t->e.at;
	t->insn = t->n - 1;
	trans_x87_settle(t);
	if (t->n <= b->body)
		trans_goto(t, t->off[t->n]);
	for (unsigned n = 0; n < t->nfix; n++)
		put_fix(t, &t->fix[n]);
}

struct translation *jit_translate(struct cpu *c, struct block *b, bool plain)
{
	struct jit *j = c->translator;
	struct arena *a = &j->arena;
	struct trans *t = &j->trans;
	struct translation *n = (struct translation *)(void *)(a->rw + ALIGN_UP(a->used, (size_t)16));
	u8 *code = (u8 *)&n->insn[b->n + 1];

	if (j->nheads == j->max_heads || code + 64 > a->rw + a->bytes)
		return NULL;
	t->c = c;
	t->j = j;
	t->b = b;
	t->n = j->limit && j->limit < b->n ? j->limit : b->n;
	t->e = (struct emitter){ code, a->rw + a->bytes };
	t->nfix = 0;
	t->failed = false;
	t->vector = 0;
	t->x87 = false;
	t->x87_last = 0;
	t->plain = plain;
	t->window_loaded = false;
	offsets(t);
	jit_liveness(t);
	trans_plan_windows(t);
	trans_plan_groups(t);
	put_block(t);
	if (t->failed || emit_full(&t->e))
		return NULL;
	n->block = b;
	n->entry = (u32)(t->entry - a->rw);
	n->inner = (u32)(t->inner - a->rw);
	n->ends = (u32)(t->e.at - a->rw);
	n->n = t->n;
	for (unsigned k = 0; k <= t->n; k++)
		n->insn[k] = (u32)(t->at[k] - a->rw);
	a->used = n->ends;
	j->heads[j->nheads++] = (u32)((u8 *)n - a->rw);
	n->plain = 0;
	if (plain)
		((struct translation *)b->native)->plain = (u32)((u8 *)n - a->rw);
	else
		b->native = n;
	c->stats->blocks_translated++;
	return n;
}
