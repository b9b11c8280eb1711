/* SPDX-License-Identifier: MIT */
/*
 * Groups of accesses: several operands of a block with the same base and index
 * and other displacements, a struct's fields, an unrolled loop.  The first of
 * them is checked for all; the others find the distance between host and guest
 * in struct cpu.  Where the check fails, and after C code ran in between, the
 * block goes on in its plain translation, from that instruction.
 */
#include "jit/class.h"
#include "jit/jit_int.h"

#define MAX_SPAN 256 /* bytes: a wider one meets page ends more often */
#define MAX_OPEN 4

static const struct operand *memory_of(const struct insn *i)
{
	for (unsigned n = 0; n < i->nopnd; n++)
		if (i->opnd[n].kind == OPD_MEM)
			return &i->opnd[n];
	return NULL;
}

static bool can_join(const struct trans *t, unsigned k, enum jit_class class)
{
	const struct insn *i = &t->b->code[k].insn;

	if (class != JIT_COPY && class != JIT_VECTOR && class != JIT_SHIFT)
		return false;
	return i->flags & INSN_MEM && i->adsize == 8 && i->seg < SEG_FS && i->base != REG_IP &&
	       i->base != REG_NONE && !(i->base == R_RSP && t->in_window[k]) && i->disp > -0x10000 && i->disp < 0x10000;
}

/* Bytes that the operand must be aligned to. */
static u16 alignment(const struct insn *i, const struct operand *o)
{
	return insn_row(i->row)->attr & ROW_ALIGN ? o->size : 1;
}

static bool same_place(const struct insn *a, const struct insn *b)
{
	return a->base == b->base && a->index == b->index &&
	       (a->index == REG_NONE || a->scale == b->scale);
}

/* Results that are not among the operands go to rax and rdx. */
static bool writes_more(const struct insn *i)
{
	switch (i->op) {
	case OP_MUL: case OP_IMUL: case OP_CBW: case OP_CWD: case OP_CMPXCHG:
		return true;
	default:
		return false;
	}
}

static bool writes(const struct insn *i, unsigned r)
{
	for (unsigned n = 0; n < i->nopnd; n++)
		if ((i->opnd[n].kind == OPD_GPR || i->opnd[n].kind == OPD_GPR8H) &&
		    i->opnd[n].reg == r && i->opnd[n].access & OPD_W)
			return true;
	return (r == R_RAX || r == R_RDX) && writes_more(i);
}

/* After @i, is what @g is made of still the same? */
static bool stays(const struct trans *t, const struct group *g, const struct insn *i)
{
	const struct insn *first = &t->b->code[g->first].insn;

	return !writes(i, first->base) && !(first->index != REG_NONE && writes(i, first->index));
}

/* Of these classes the operands tell everything that is written. */
static bool is_plain(enum jit_class class)
{
	return class == JIT_COPY || class == JIT_VECTOR || class == JIT_SHIFT ||
	       class == JIT_LEA || class == JIT_NOP;
}

static struct group *join(struct trans *t, struct group *open[MAX_OPEN], unsigned k)
{
	const struct insn *i = &t->b->code[k].insn;
	const struct operand *o = memory_of(i);
	s32 lo = (s32)i->disp, hi = lo + o->size;
	u16 align = alignment(i, o);
	unsigned at = 0;
	struct group *g;

	for (unsigned n = 0; n < MAX_OPEN; n++) {
		g = open[n];
		if (g && same_place(&t->b->code[g->first].insn, i) &&
		    align == g->align && (lo - g->lo) % align == 0 &&
		    MAX(hi, g->hi) - MIN(lo, g->lo) <= MAX_SPAN) {
			g->lo = MIN(lo, g->lo);
			g->hi = MAX(hi, g->hi);
			g->last = (u8)k;
			g->write |= (o->access & OPD_W) != 0;
			g->slot = (u8)n;
			return g;
		}
		if (!g || (open[at] && g->last < open[at]->last))
			at = n;
	}
	g = &t->group[t->ngroups++];
	*g = (struct group){ .lo = lo, .hi = hi, .first = (u8)k, .last = (u8)k,
			     .slot = (u8)at, .align = align, .write = o->access & OPD_W };
	open[at] = g;
	return g;
}

void trans_plan_groups(struct trans *t)
{
	struct group *open[MAX_OPEN] = { NULL };

	t->ngroups = 0;
	memset(t->in_group, 0, sizeof(t->in_group));
	for (unsigned k = 0; k < t->n && !t->plain; k++) {
		enum jit_class class = jit_class(&t->b->code[k]);

		if (can_join(t, k, class))
			t->in_group[k] = (u8)(join(t, open, k) - t->group + 1);
		for (unsigned n = 0; n < MAX_OPEN; n++)
			if (open[n] && (!is_plain(class) || !stays(t, open[n], &t->b->code[k].insn)))
				open[n] = NULL;
	}
	/* Alone, an access is better checked as such. */
	for (unsigned k = 0; k < t->n; k++) {
		unsigned g = t->in_group[k];

		if (g && t->group[g - 1].first == t->group[g - 1].last)
			t->in_group[k] = 0;
	}
}

bool trans_group(struct trans *t, struct host_mem *m)
{
	const struct insn *i = trans_insn(t);
	const struct group *g = t->in_group[t->insn] ? &t->group[t->in_group[t->insn] - 1] : NULL;
	struct host_mem slot = STATE(jit_group);
	struct emitter *e = &t->e;

	if (!g)
		return false;
	slot.disp += 8 * g->slot;
	*m = (struct host_mem){ .base = H_10, .index = H_11 };
	if (g->first == t->insn) {
		struct fix *f = trans_fix(t, FIX_GROUP);

		f->off = t->off[t->insn];
		trans_ea(t);
		if (g->lo != (s32)i->disp)
			emit_lea(e, H_10, at_reg(H_10, g->lo - (s32)i->disp));
		trans_access(t, f, (unsigned)(g->hi - g->lo), g->write, g->align);
		emit_mov_store(e, slot, H_11);
		m->disp = (s32)i->disp - g->lo;
		return true;
	}
	if (i->index == REG_NONE && jit_home[i->base] != H_NONE) {
		m->base = jit_home[i->base];
		m->disp = (s32)i->disp;
	} else {
		trans_ea(t);
	}
	emit_mov_load(e, H_11, slot);
	return true;
}

bool trans_group_broken(struct trans *t, unsigned insn, bool begun)
{
	for (unsigned n = 0; n < t->ngroups; n++) {
		const struct group *g = &t->group[n];

		if (g->first != g->last && insn <= g->last &&
		    (g->first < insn || (g->first == insn && begun)))
			return true;
	}
	return false;
}
