/* SPDX-License-Identifier: MIT */
/* Effective addresses, and the check that an access hits the TLB. */
#include "jit/jit_int.h"

static struct host_mem state_base(unsigned seg)
{
	struct host_mem m = STATE(seg);

	m.disp += (s32)(seg * sizeof(struct segment) + offsetof(struct segment, base));
	return m;
}

unsigned trans_reg(struct trans *t, unsigned r, unsigned scratch)
{
	if (jit_home[r] != H_NONE)
		return jit_home[r];
	emit_mov_load(&t->e, scratch, state_gpr(r));
	return scratch;
}

/* A displacement that is relative to the next instruction or absolute. */
static void ea_constant(struct trans *t, const struct insn *i)
{
	s64 d = i->disp, sum = d + t->off[t->insn + 1];

	if (i->base == REG_IP) {
		emit_mov_load(&t->e, H_10, STATE(jit.rip_page));
		/* Linux reaches per-CPU data by distances of nearly 2 GiB. */
		if (sum != (s32)sum) {
			emit_lea(&t->e, H_10, at_reg(H_10, (s32)d));
			sum -= d;
		}
		emit_lea(&t->e, H_10, at_reg(H_10, (s32)sum));
	} else {
		emit_mov_imm(&t->e, H_10, (u64)d);
	}
}

void trans_ea_offset(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct host_mem m = { .base = H_NONE, .index = H_NONE, .scale = i->scale,
			      .disp = (s32)i->disp };

	if (i->base != REG_NONE && i->base != REG_IP)
		m.base = (u8)trans_reg(t, i->base, H_10);
	if (i->index != REG_NONE)
		m.index = (u8)trans_reg(t, i->index, H_11);
	if (m.base == H_NONE && m.index == H_NONE)
		ea_constant(t, i);
	else if (i->adsize == 4)
		emit_lea32(&t->e, H_10, m);
	else
		emit_lea(&t->e, H_10, m);
	if (i->adsize == 4 && m.base == H_NONE && m.index == H_NONE)
		emit_lea32(&t->e, H_10, at_reg(H_10, 0));
}

void trans_ea(struct trans *t)
{
	const struct insn *i = trans_insn(t);

	trans_ea_offset(t);
	if (i->seg >= SEG_FS) {
		emit_mov_load(&t->e, H_11, state_base(i->seg));
		emit_lea(&t->e, H_10, (struct host_mem){ .base = H_10, .index = H_11 });
	}
}

/* r10 & (align - 1) must be 0. */
static void check_alignment(struct trans *t, struct fix *slow, unsigned align)
{
	struct emitter *e = &t->e;
	u8 *ok;

	emit_mov_imm(e, H_CX, align - 1);
	/* pext rcx, r10, rcx */
	struct host_insn pext = { .vex = true, .w = true, .pp = 0xf3, .map = 2, .opcode = 0xf5,
				  .reg = H_CX, .vvvv = H_10, .rm = H_CX, .modrm = true,
				  .plus = H_NONE };

	emit_insn(e, &pext);
	ok = emit_jrcxz(e);
	trans_fix_from(slow, emit_jmp(e));
	emit_link8(e, ok);
}

/* Flags may change: 10 instructions with the access, 1.8-1.95 cycles a load. */
static void access_short(struct trans *t, struct fix *slow, unsigned n, bool write)
{
	struct emitter *e = &t->e;

	emit_rorx(e, H_CX, H_10, 8);
	emit_alu_load(e, ALU_AND, H_CX, write ? STATE(mmu.tlb.wr_span) : STATE(mmu.tlb.rd_span));
	emit_alu_load(e, ALU_ADD, H_CX, write ? STATE(mmu.tlb.wr) : STATE(mmu.tlb.rd));
	emit_lea(e, H_11, at_reg(H_10, (s32)n - 1));
	emit_alu_load(e, ALU_ADD, H_11, at_reg(H_CX, 0));
	emit_shift_imm(e, SHIFT_SHR, H_11, PAGE_SHIFT);
	trans_fix_from(slow, emit_jcc(e, COND_NE));
	emit_mov_load(e, H_11, at_reg(H_CX, offsetof(struct tlb_entry, addend)));
}

/* Flags are live: 2.4 cycles a load. */
static void access_quiet(struct trans *t, struct fix *slow, unsigned n, bool write)
{
	struct emitter *e = &t->e;
	u8 *hit;

	emit_pext(e, H_11, H_10, write ? STATE(mmu.tlb.wr_bits) : STATE(mmu.tlb.rd_bits));
	emit_lea(e, H_11, (struct host_mem){ .base = H_11, .index = H_11 });
	emit_mov_load(e, H_CX, write ? STATE(mmu.tlb.wr) : STATE(mmu.tlb.rd));
	emit_lea(e, H_11, (struct host_mem){ .base = H_CX, .index = H_11, .scale = 3 });
	emit_mov_load(e, H_CX, at_reg(H_11, 0));
	emit_lea(e, H_CX, (struct host_mem){ .base = H_CX, .index = H_10, .disp = (s32)n - 1 });
	emit_pext(e, H_CX, H_CX, STATE(jit.page_bits));
	hit = emit_jrcxz(e);
	trans_fix_from(slow, emit_jmp(e));
	emit_link8(e, hit);
	emit_mov_load(e, H_11, at_reg(H_11, offsetof(struct tlb_entry, addend)));
}

void trans_access(struct trans *t, struct fix *slow, unsigned n, bool write, unsigned align)
{
	if (align > 1)
		check_alignment(t, slow, align);
	if (trans_flags_dead(t))
		access_short(t, slow, n, write);
	else
		access_quiet(t, slow, n, write);
}
