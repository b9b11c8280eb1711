/* SPDX-License-Identifier: MIT */
#include "jit/emit.h"

static void emit_modrm_reg(struct emitter *e, unsigned reg, unsigned rm)
{
	emit8(e, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

static void emit_modrm_mem(struct emitter *e, unsigned reg, const struct host_mem *m)
{
	unsigned r = (reg & 7) << 3;
	bool sib = m->index != H_NONE || (m->base != H_NONE && (m->base & 7) == H_SP);

	if (m->base == H_NONE) { /* absolute, or index alone: always a SIB */
		emit8(e, r | 4);
		emit8(e, (unsigned)m->scale << 6 |
				 (m->index == H_NONE ? 4u : (m->index & 7u)) << 3 | 5);
		emit32(e, (u32)m->disp);
		return;
	}
	unsigned mod = !m->disp && (m->base & 7) != H_BP	  ? 0
		       : m->disp >= -128 && m->disp <= 127 ? 1
								  : 2;

	emit8(e, mod << 6 | r | (sib ? 4 : m->base & 7));
	if (sib)
		emit8(e, (unsigned)m->scale << 6 |
				 (m->index == H_NONE ? 4u : (m->index & 7u)) << 3 |
				 (m->base & 7));
	if (mod == 1)
		emit8(e, (u8)m->disp);
	else if (mod == 2)
		emit32(e, (u32)m->disp);
}

/* R, X, B of a prefix in bits 2, 1, 0. */
static unsigned extensions(const struct host_insn *i)
{
	unsigned rxb = 0;

	if (i->modrm && i->reg >= 8)
		rxb |= 4;
	if (i->plus != H_NONE && i->plus >= 8)
		rxb |= 1;
	if (!i->modrm)
		return rxb;
	if (!i->is_mem)
		return rxb | (i->rm >= 8);
	if (i->mem.index != H_NONE && i->mem.index >= 8)
		rxb |= 2;
	if (i->mem.base != H_NONE && i->mem.base >= 8)
		rxb |= 1;
	return rxb;
}

static void emit_legacy_prefixes(struct emitter *e, const struct host_insn *i)
{
	unsigned rex = extensions(i) | (i->w ? 8 : 0);

	if (i->lock)
		emit8(e, 0xf0);
	if (i->opsz)
		emit8(e, 0x66);
	if (i->pp && !(i->pp == 0x66 && i->opsz))
		emit8(e, i->pp);
	if (rex || i->byte)
		emit8(e, 0x40 | rex);
	if (i->map)
		emit8(e, 0x0f);
	if (i->map > 1)
		emit8(e, i->map == 2 ? 0x38 : 0x3a);
}

static void emit_vex_prefix(struct emitter *e, const struct host_insn *i)
{
	static const u8 pp[] = { 0, 1, 2, 3 };
	unsigned p = i->pp == 0x66 ? pp[1] : i->pp == 0xf3 ? pp[2] : i->pp == 0xf2 ? pp[3] : 0;

	emit8(e, 0xc4);
	emit8(e, (extensions(i) ^ 7) << 5 | i->map);
	emit8(e, (i->w ? 0x80u : 0) | (~(unsigned)i->vvvv & 15) << 3 | (i->l ? 4 : 0) | p);
}

void emit_insn(struct emitter *e, const struct host_insn *i)
{
	if (i->vex)
		emit_vex_prefix(e, i);
	else
		emit_legacy_prefixes(e, i);
	emit8(e, i->plus != H_NONE ? i->opcode | (i->plus & 7) : i->opcode);
	if (i->modrm && i->is_mem)
		emit_modrm_mem(e, i->reg, &i->mem);
	else if (i->modrm)
		emit_modrm_reg(e, i->reg, i->rm);
	for (unsigned n = 0; n < i->imm_bytes; n++)
		emit8(e, (u8)(i->imm >> (8 * n)));
}

/* --- glue ------------------------------------------------------------------------ */

static void op_mem(struct emitter *e, bool w, unsigned map, unsigned opcode, unsigned reg,
		   struct host_mem m)
{
	struct host_insn i = { .w = w, .map = (u8)map, .opcode = (u8)opcode, .reg = (u8)reg,
			       .modrm = true, .is_mem = true, .mem = m, .plus = H_NONE };

	emit_insn(e, &i);
}

static void op_reg(struct emitter *e, unsigned map, unsigned opcode, unsigned reg, unsigned rm)
{
	struct host_insn i = { .w = true, .map = (u8)map, .opcode = (u8)opcode, .reg = (u8)reg,
			       .rm = (u8)rm, .modrm = true, .plus = H_NONE };

	emit_insn(e, &i);
}

void emit_mov_rr(struct emitter *e, unsigned to, unsigned from)
{
	if (to != from)
		op_reg(e, 0, 0x8b, to, from);
}

void emit_mov_load(struct emitter *e, unsigned to, struct host_mem m)
{
	op_mem(e, true, 0, 0x8b, to, m);
}

void emit_mov_load32(struct emitter *e, unsigned to, struct host_mem m)
{
	op_mem(e, false, 0, 0x8b, to, m);
}

void emit_movzx8(struct emitter *e, unsigned to, struct host_mem m)
{
	op_mem(e, false, 1, 0xb6, to, m);
}

void emit_mov_store(struct emitter *e, struct host_mem m, unsigned from)
{
	op_mem(e, true, 0, 0x89, from, m);
}

void emit_mov_imm(struct emitter *e, unsigned to, u64 v)
{
	struct host_insn i = { .plus = (u8)to, .opcode = 0xb8, .imm = v, .imm_bytes = 4 };

	if (v >> 32) {
		i.w = true;
		i.imm_bytes = 8;
	}
	emit_insn(e, &i);
}

void emit_lea(struct emitter *e, unsigned to, struct host_mem m)
{
	op_mem(e, true, 0, 0x8d, to, m);
}

void emit_lea32(struct emitter *e, unsigned to, struct host_mem m)
{
	op_mem(e, false, 0, 0x8d, to, m);
}

void emit_pext(struct emitter *e, unsigned to, unsigned from, struct host_mem mask)
{
	struct host_insn i = { .vex = true, .w = true, .pp = 0xf3, .map = 2, .opcode = 0xf5,
			       .reg = (u8)to, .vvvv = (u8)from, .modrm = true, .is_mem = true,
			       .mem = mask, .plus = H_NONE };

	emit_insn(e, &i);
}

static void bits_rr(struct emitter *e, unsigned pp, unsigned to, unsigned from, unsigned mask)
{
	struct host_insn i = { .vex = true, .w = true, .pp = (u8)pp, .map = 2, .opcode = 0xf5,
			       .reg = (u8)to, .vvvv = (u8)from, .rm = (u8)mask, .modrm = true,
			       .plus = H_NONE };

	emit_insn(e, &i);
}

void emit_pext_rr(struct emitter *e, unsigned to, unsigned from, unsigned mask)
{
	bits_rr(e, 0xf3, to, from, mask);
}

void emit_pdep_rr(struct emitter *e, unsigned to, unsigned from, unsigned mask)
{
	bits_rr(e, 0xf2, to, from, mask);
}

void emit_movsxd(struct emitter *e, unsigned to, unsigned from)
{
	op_reg(e, 0, 0x63, to, from);
}

void emit_mov_byte(struct emitter *e, unsigned to, unsigned from)
{
	struct host_insn i = { .opcode = 0x8a, .reg = (u8)to, .rm = (u8)from, .modrm = true,
			       .byte = true, .plus = H_NONE };

	emit_insn(e, &i);
}

void emit_rorx(struct emitter *e, unsigned to, unsigned from, unsigned n)
{
	struct host_insn i = { .vex = true, .w = true, .pp = 0xf2, .map = 3, .opcode = 0xf0,
			       .reg = (u8)to, .rm = (u8)from, .modrm = true, .imm = n,
			       .imm_bytes = 1, .plus = H_NONE };

	emit_insn(e, &i);
}

void emit_alu_load(struct emitter *e, unsigned opcode, unsigned to, struct host_mem m)
{
	op_mem(e, true, 0, opcode, to, m);
}

void emit_alu_rr(struct emitter *e, unsigned opcode, unsigned to, unsigned from)
{
	op_reg(e, 0, opcode, to, from);
}

void emit_shift_imm(struct emitter *e, unsigned ext, unsigned reg, unsigned n)
{
	struct host_insn i = { .w = true, .opcode = 0xc1, .reg = (u8)ext, .rm = (u8)reg,
			       .modrm = true, .imm = n, .imm_bytes = 1, .plus = H_NONE };

	emit_insn(e, &i);
}

void emit_cmp_imm(struct emitter *e, unsigned reg, u32 v)
{
	struct host_insn i = { .w = true, .opcode = 0x81, .reg = 7, .rm = (u8)reg, .modrm = true,
			       .imm = v, .imm_bytes = 4, .plus = H_NONE };

	emit_insn(e, &i);
}

void emit_cmp_mem0(struct emitter *e, struct host_mem m)
{
	struct host_insn i = { .opcode = 0x83, .reg = 7, .modrm = true, .is_mem = true, .mem = m,
			       .imm_bytes = 1, .plus = H_NONE };

	emit_insn(e, &i);
}

void emit_jmp_mem(struct emitter *e, struct host_mem m)
{
	op_mem(e, false, 0, 0xff, 4, m);
}

static u8 *distance(struct emitter *e)
{
	u8 *at = e->at;

	emit32(e, 0);
	return at;
}

u8 *emit_jmp(struct emitter *e)
{
	emit8(e, 0xe9);
	return distance(e);
}

u8 *emit_call(struct emitter *e)
{
	emit8(e, 0xe8);
	return distance(e);
}

u8 *emit_jcc(struct emitter *e, unsigned cond)
{
	emit8(e, 0x0f);
	emit8(e, 0x80 | cond);
	return distance(e);
}

u8 *emit_jrcxz(struct emitter *e)
{
	u8 *at;

	emit8(e, 0xe3);
	at = e->at;
	emit8(e, 0);
	return at;
}
