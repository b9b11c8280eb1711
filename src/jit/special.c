/* SPDX-License-Identifier: MIT */
/* Instructions that are not copied: the stack's, LEA, division. */
#include "jit/class.h"
#include "jit/jit_int.h"

static const struct host_mem checked = { .base = H_10, .index = H_11 };

#define GUEST_SP (jit_home[R_RSP])

/* Guest register @r = host register @from, 64 bits. */
static void set_gpr(struct trans *t, unsigned r, unsigned from)
{
	if (jit_home[r] == H_NONE)
		emit_mov_store(&t->e, state_gpr(r), from);
	else
		emit_mov_rr(&t->e, jit_home[r], from);
}

void trans_lea(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct host_insn mov = { .opcode = 0x8b, .w = i->opsize == 8, .opsz = i->opsize == 2,
				 .rm = H_10, .modrm = true, .plus = H_NONE };
	unsigned r = i->opnd[0].reg;
	struct host_mem m = { .base = H_NONE, .index = H_NONE, .scale = i->scale,
			      .disp = (s32)i->disp };

	/* The plain case in one instruction. */
	if (i->opsize >= 4 && i->adsize == 8 && jit_home[r] != H_NONE && i->base != REG_IP &&
	    i->base != REG_NONE && jit_home[i->base] != H_NONE &&
	    (i->index == REG_NONE || jit_home[i->index] != H_NONE)) {
		m.base = jit_home[i->base];
		if (i->index != REG_NONE)
			m.index = jit_home[i->index];
		if (i->opsize == 8)
			emit_lea(&t->e, jit_home[r], m);
		else
			emit_lea32(&t->e, jit_home[r], m);
		return;
	}
	trans_ea_offset(t);
	if (jit_home[r] != H_NONE) {
		mov.reg = jit_home[r];
		emit_insn(&t->e, &mov);
		return;
	}
	if (i->opsize == 4)
		emit_lea32(&t->e, H_10, at_reg(H_10, 0));
	if (i->opsize == 2) {
		emit_mov_load(&t->e, H_CX, state_gpr(r));
		mov.reg = H_CX;
		emit_insn(&t->e, &mov);
		emit_mov_rr(&t->e, H_10, H_CX);
	}
	emit_mov_store(&t->e, state_gpr(r), H_10);
}

/* Eight bytes below the stack pointer, checked for writing. */
static struct host_mem below_top(struct trans *t, struct fix *slow)
{
	struct host_mem m;

	if (trans_stack(t, -8, &m))
		return m;
	emit_lea(&t->e, H_10, at_reg(GUEST_SP, -8));
	trans_access(t, slow, 8, true, 1);
	return checked;
}

void trans_push(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct host_mem top = below_top(t, trans_fix(t, FIX_SLOW));

	if (i->opnd[0].kind == OPD_IMM) {
		struct host_insn mov = { .opcode = 0xc7, .w = true, .modrm = true, .is_mem = true,
					 .mem = top, .imm = i->imm, .imm_bytes = 4,
					 .plus = H_NONE };

		emit_insn(&t->e, &mov);
	} else {
		emit_mov_store(&t->e, top, trans_reg(t, i->opnd[0].reg, H_CX));
	}
	emit_lea(&t->e, GUEST_SP, at_reg(GUEST_SP, -8));
}

void trans_push_tmp(struct trans *t, struct fix *slow)
{
	struct host_mem top;

	t->window_loaded = false; /* the caller used r11 */
	top = below_top(t, slow);
	emit_mov_load(&t->e, H_CX, STATE(jit.tmp[0]));
	emit_mov_store(&t->e, top, H_CX);
	emit_lea(&t->e, GUEST_SP, at_reg(GUEST_SP, -8));
}

void trans_push_mem(struct trans *t)
{
	struct fix *slow = trans_fix(t, FIX_SLOW);

	trans_ea(t);
	trans_access(t, slow, 8, false, 1);
	emit_mov_load(&t->e, H_CX, checked);
	emit_mov_store(&t->e, STATE(jit.tmp[0]), H_CX);
	trans_push_tmp(t, slow);
}

void trans_pop(struct trans *t)
{
	unsigned r = trans_insn(t)->opnd[0].reg;
	struct host_mem top;

	if (!trans_stack(t, 0, &top)) {
		emit_mov_rr(&t->e, H_10, GUEST_SP);
		trans_access(t, trans_fix(t, FIX_SLOW), 8, false, 1);
		top = checked;
	}
	if (jit_home[r] != H_NONE && r != R_RSP) {
		emit_mov_load(&t->e, jit_home[r], top);
		emit_lea(&t->e, GUEST_SP, at_reg(GUEST_SP, 8));
		return;
	}
	emit_mov_load(&t->e, H_CX, top);
	emit_lea(&t->e, GUEST_SP, at_reg(GUEST_SP, 8));
	set_gpr(t, r, H_CX); /* of RSP: replaces it */
}

void trans_leave(struct trans *t)
{
	emit_mov_rr(&t->e, H_10, jit_home[R_RBP]);
	trans_access(t, trans_fix(t, FIX_SLOW), 8, false, 1);
	emit_lea(&t->e, GUEST_SP, at_reg(jit_home[R_RBP], 8));
	emit_mov_load(&t->e, jit_home[R_RBP], checked);
}

/* --- division ---------------------------------------------------------------------- */

/* rcx is 0: go on; else to @slow. */
static void unless_zero(struct trans *t, struct fix *slow)
{
	u8 *ok = emit_jrcxz(&t->e);

	trans_fix_from(slow, emit_jmp(&t->e));
	emit_link8(&t->e, ok);
}

/* rcx is 0: to @slow. */
static void if_zero(struct trans *t, struct fix *slow)
{
	u8 *zero = emit_jrcxz(&t->e), *over;

	emit8(&t->e, 0xeb); /* jmp, short */
	over = t->e.at;
	emit8(&t->e, 0);
	emit_link8(&t->e, zero);
	trans_fix_from(slow, emit_jmp(&t->e));
	emit_link8(&t->e, over);
}

/* rcx = @from, as wide as the operation */
static void to_cx(struct trans *t, unsigned from, s32 add)
{
	if (trans_insn(t)->opsize == 8)
		emit_lea(&t->e, H_CX, at_reg(from, add));
	else
		emit_lea32(&t->e, H_CX, at_reg(from, add));
}

/* rcx = rdx - the sign of rax, which is 0 if the quotient fits */
static void sign_difference(struct trans *t)
{
	bool wide = trans_insn(t)->opsize == 8;
	struct host_insn sarx = { .vex = true, .w = wide, .pp = 0xf3, .map = 2, .opcode = 0xf7,
				  .reg = H_CX, .rm = H_AX, .vvvv = H_10, .modrm = true,
				  .plus = H_NONE };
	struct host_insn not = { .opcode = 0xf7, .w = true, .reg = 2, .rm = H_CX, .modrm = true,
				 .plus = H_NONE };
	struct host_mem sum = { .base = H_CX, .index = H_DX, .disp = 1 };

	emit_mov_imm(&t->e, H_10, wide ? 63 : 31);
	emit_insn(&t->e, &sarx);
	emit_insn(&t->e, &not);
	if (wide)
		emit_lea(&t->e, H_CX, sum);
	else
		emit_lea32(&t->e, H_CX, sum);
}

/* The plain dividend, of one word; what might raise #DE goes to the interpreter.
 * Flags stay as they are up to the division. */
void trans_div(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct emitter *e = &t->e;
	struct fix *slow = trans_fix(t, FIX_SLOW);
	unsigned d = H_11;
	struct host_insn div = { .opcode = 0xf7, .w = i->opsize == 8,
				 .reg = i->op == OP_DIV ? 6 : 7, .modrm = true, .plus = H_NONE };

	if (i->flags & INSN_MEM) {
		trans_ea(t);
		trans_access(t, slow, i->opsize, false, 1);
		if (i->opsize == 8)
			emit_mov_load(e, H_11, checked);
		else
			emit_mov_load32(e, H_11, checked);
	} else {
		d = trans_reg(t, i->opnd[0].reg, H_11);
	}
	if (i->op == OP_DIV) {
		to_cx(t, H_DX, 0);
		unless_zero(t, slow);
	} else {
		sign_difference(t);
		unless_zero(t, slow);
		to_cx(t, d, 1);
		if_zero(t, slow); /* by -1 */
	}
	to_cx(t, d, 0);
	if_zero(t, slow);
	div.rm = (u8)d;
	emit_insn(e, &div);
}
