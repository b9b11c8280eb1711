/* SPDX-License-Identifier: MIT */
/*
 * Which arithmetic flags may still be read.
 *
 * Flags count as read by an instruction that the interpreter runs, whatever it
 * is: it may end the block, and then they are what everybody sees.
 */
#include "jit/class.h"
#include "jit/jit_int.h"

/* Flags that @i certainly replaces, undefined ones included: those are what
 * the host leaves, here and in the interpreter. */
static unsigned replaces(const struct insn *i)
{
	const struct insn_row *row = insn_row(i->row);
	unsigned all = row->flags_written | row->flags_undef;

	switch (i->op) {
	case OP_SHL: case OP_SHR: case OP_SAR: case OP_ROL: case OP_ROR: case OP_RCL:
	case OP_RCR: case OP_SHLD: case OP_SHRD:
		/* A count of zero changes nothing. */
		if (!(i->flags & INSN_MODRM) || i->opnd[i->nopnd - 1].kind != OPD_IMM)
			return 0;
		return i->imm & (i->opsize == 8 ? 63 : 31) ? all : 0;
	default:
		return all;
	}
}

static unsigned before(const struct icode *e, unsigned after)
{
	if (!jit_class(e))
		return RF_ARITH;
	return ((after & ~replaces(&e->insn)) | jit_flags_read(&e->insn)) & RF_ARITH;
}

unsigned jit_live_in(struct block *b)
{
	unsigned live = RF_ARITH;

	if (b->live_known)
		return b->live;
	for (unsigned k = b->n; k-- > 0;)
		live = before(&b->code[k], live);
	b->live = (u16)live;
	b->live_known = true;
	return live;
}

static unsigned live_at(const struct trans *t, s64 off)
{
	struct block *b = jit_successor(t, off);

	return b ? jit_live_in(b) : RF_ARITH;
}

/* At the end of the block. */
static unsigned live_out(const struct trans *t)
{
	const struct block *b = t->b;
	const struct insn *last = &b->code[b->n - 1].insn;
	s64 next = t->off[t->n];

	if (t->n <= b->body)
		return t->n < b->n ? RF_ARITH : live_at(t, next);
	switch (jit_class(&b->code[b->n - 1])) {
	case JIT_JCC:
		return live_at(t, next) | live_at(t, next + (s64)last->imm);
	case JIT_JMP:
	case JIT_CALL:
		return live_at(t, next + (s64)last->imm);
	default:
		return RF_ARITH;
	}
}

void jit_liveness(struct trans *t)
{
	const struct block *b = t->b;
	unsigned live = live_out(t);

	t->live[t->n] = (u16)live;
	for (unsigned k = t->n; k-- > 0;) {
		live = before(&b->code[k], live);
		t->live[k] = (u16)live;
	}
}
