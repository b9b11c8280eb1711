/* SPDX-License-Identifier: MIT */
/*
 * An instruction copied: registers renamed, memory replaced by r10 + r11.
 */
#include "jit/class.h"
#include "jit/jit_int.h"

static const struct host_mem checked = { .base = H_10, .index = H_11 };

/** struct place - a general register of the instruction while it is copied
 * @host: register that stands for it; @high: bits 15:8 of it */
struct place {
	u8 r, host;
	bool load, store, high;
};

struct copy {
	struct trans *t;
	struct host_insn h;
	struct host_mem mem; /* where the memory operand is */
	struct place place[4];
	unsigned nplaces;
	u8 free[3]; /* scratch registers not used yet */
	unsigned nfree;
};

static bool is_vector(const struct insn *i)
{
	return insn_row(i->row)->attr & (ROW_SSE | ROW_AVX | ROW_MMX);
}

/* Does the old value show in what is left?  Parts of a register stay, and some
 * instructions do not write at all. */
static bool needs_old(const struct insn *i, const struct operand *o)
{
	if (o->access & OPD_R || o->size < 4)
		return true;
	return i->op == OP_BSF || i->op == OP_BSR || i->op == OP_CMOVCC || i->op == OP_CMPXCHG;
}

/* A host register for guest register @r as operand @o. */
static unsigned place_gpr(struct copy *k, const struct insn *i, const struct operand *o)
{
	bool high = o->kind == OPD_GPR8H;
	unsigned r = o->reg;
	struct place *p;

	if (jit_home[r] != H_NONE && !high)
		return jit_home[r];
	for (unsigned n = 0; n < k->nplaces; n++)
		if (k->place[n].r == r && k->place[n].high == high) {
			p = &k->place[n];
			p->load |= needs_old(i, o);
			p->store |= (o->access & OPD_W) != 0;
			return p->host;
		}
	p = &k->place[k->nplaces++];
	p->r = (u8)r;
	p->high = high;
	p->host = k->free[--k->nfree];
	p->load = needs_old(i, o) || !(o->access & OPD_W);
	p->store = o->access & OPD_W;
	return p->host;
}

/* A register of struct cpu can be the memory operand itself, unless a 32-bit
 * result must clear the upper half. */
static bool can_stay(const struct insn *i, unsigned n)
{
	const struct operand *o = &i->opnd[n];
	if (jit_home[o->reg] != H_NONE || i->flags & INSN_VEX || is_vector(i))
		return false;
	if (i->op == OP_BT || i->op == OP_BTS || i->op == OP_BTR || i->op == OP_BTC ||
	    i->op == OP_XCHG || i->op == OP_XADD || i->op == OP_CMPXCHG)
		return false;
	/* OF of a rotation by more than one, undefined, is not the same in memory on
	 * Intel's processors. */
	switch (i->op) {
	case OP_SHL: case OP_SHR: case OP_SAR: case OP_ROL: case OP_ROR: case OP_RCL: case OP_RCR:
	case OP_SHLD: case OP_SHRD:
		return false;
	default:
		break;
	}
	/* Named twice: the other one might be loaded before this is written. */
	for (unsigned m = 0; m < i->nopnd; m++)
		if (m != n && i->opnd[m].kind == OPD_GPR && i->opnd[m].reg == o->reg)
			return false;
	return !(o->access & OPD_W) || o->size != 4;
}

static void put_operand(struct copy *k, const struct insn *i, unsigned n)
{
	const struct operand *o = &i->opnd[n];
	enum jit_role role = jit_role(i, n);
	unsigned host = 0;

	if (o->kind == OPD_MEM) {
		k->h.is_mem = true;
		k->h.mem = k->mem;
		return;
	}
	if (role == ROLE_NONE || role == ROLE_FIXED)
		return;
	if (o->kind == OPD_GPR && role == ROLE_RM && can_stay(i, n)) {
		k->h.is_mem = true;
		k->h.mem = state_gpr(o->reg);
		return;
	}
	host = o->kind == OPD_GPR || o->kind == OPD_GPR8H ? place_gpr(k, i, o) : o->reg;
	switch (role) {
	case ROLE_REG: k->h.reg = (u8)host; break;
	case ROLE_RM: k->h.rm = (u8)host; break;
	case ROLE_VVVV: k->h.vvvv = (u8)host; break;
	default:
		k->h.plus = (u8)host;
		k->h.opcode &= 0xf8;
		break;
	}
}

static void encode(struct copy *k, const struct insn *i)
{
	struct host_insn *h = &k->h;

	*h = (struct host_insn){
		.pp = i->pp,
		.opsz = i->opsize == 2 && !is_vector(i) && !(i->flags & INSN_VEX),
		.lock = i->flags & INSN_LOCK,
		.w = i->rex & 8,
		.vex = i->flags & INSN_VEX,
		.l = i->vl == 32,
		.map = i->map,
		.opcode = i->opcode,
		.modrm = i->flags & INSN_MODRM,
		.reg = (i->modrm >> 3) & 7,
		.rm = i->modrm & 7,
		.plus = H_NONE,
		.imm = i->imm,
		.imm_bytes = i->immsize,
	};
	/* Without the feature these bytes are BSF and BSR. */
	if (i->op == OP_BSF || i->op == OP_BSR)
		h->pp = 0;
	for (unsigned n = 0; n < i->nopnd; n++)
		if ((i->opnd[n].kind == OPD_GPR || i->opnd[n].kind == OPD_GPR8H) &&
		    i->opnd[n].size == 1)
			h->byte = true;
}

static const struct operand *memory_operand(const struct insn *i)
{
	for (unsigned n = 0; n < i->nopnd; n++)
		if (i->opnd[n].kind == OPD_MEM)
			return &i->opnd[n];
	return NULL;
}

static struct host_mem check_memory(struct trans *t, const struct insn *i, const struct operand *o)
{
	bool write = o->access & OPD_W;
	unsigned align = insn_row(i->row)->attr & ROW_ALIGN ? o->size : 1;
	struct host_mem m;

	if (trans_names_stack(t) && align == 1 && trans_stack(t, (s32)i->disp, &m))
		return m;
	if (trans_group(t, &m))
		return m;
	trans_ea(t);
	trans_access(t, trans_fix(t, FIX_SLOW), o->size, write, align);
	return checked;
}

static void load_places(const struct copy *k)
{
	struct emitter *e = &k->t->e;

	for (unsigned n = 0; n < k->nplaces; n++) {
		const struct place *p = &k->place[n];

		if (p->high)
			emit_rorx(e, p->host, jit_home[p->r], 8);
		else if (p->load)
			emit_mov_load(e, p->host, state_gpr(p->r));
	}
}

static void store_places(const struct copy *k)
{
	struct emitter *e = &k->t->e;

	for (unsigned n = 0; n < k->nplaces; n++) {
		const struct place *p = &k->place[n];
		unsigned home = jit_home[p->r];

		if (!p->store)
			continue;
		if (!p->high) {
			emit_mov_store(e, state_gpr(p->r), p->host);
			continue;
		}
		emit_rorx(e, home, home, 8);
		emit_mov_byte(e, home, p->host);
		emit_rorx(e, home, home, 56);
	}
}

void trans_copy(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	const struct operand *mem = memory_operand(i);
	struct copy k = { .t = t, .free = { H_11, H_10, H_CX }, .nfree = 3 };

	if (is_vector(i))
		trans_vector(t);
	if (mem) {
		k.mem = check_memory(t, i, mem);
		k.free[0] = H_CX;
		k.nfree = 1;
	}
	encode(&k, i);
	for (unsigned n = 0; n < i->nopnd; n++)
		put_operand(&k, i, n);
	load_places(&k);
	emit_insn(&t->e, &k.h);
	store_places(&k);
}

/* --- shifts by CL: the host's rcx is scratch, the guest's is elsewhere ------------ */

void trans_shift(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	const struct operand *mem = memory_operand(i);
	struct copy k = { .t = t, .free = { H_11, H_10 }, .nfree = 2 };

	if (mem)
		k.mem = check_memory(t, i, mem);
	encode(&k, i);
	for (unsigned n = 0; n + 1 < i->nopnd; n++)
		put_operand(&k, i, n);
	load_places(&k);
	emit_mov_rr(&t->e, H_CX, jit_home[R_RCX]);
	emit_insn(&t->e, &k.h);
	store_places(&k);
}
