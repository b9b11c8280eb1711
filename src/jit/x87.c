/* SPDX-License-Identifier: MIT */
/*
 * x87 instructions, copied; and the registers of MMX, SSE and AVX.
 *
 * All x87 exceptions are masked while the guest's registers are the host's, so
 * that nothing can be pending; FLDCW of anything else is the interpreter's.
 *
 * FIP, FDP and FOP are noted in the image, since what the host keeps of them
 * differs by maker, and its FIP is not the guest's.  FDP is noted by each
 * instruction with a memory operand; FIP and FOP once, for the last instruction
 * before the block is left or the interpreter is called.
 */
#include "cpu/fp_x87.h"
#include "jit/class.h"
#include "jit/jit_int.h"

static const struct host_mem checked = { .base = H_10, .index = H_11 };

#define IMAGE(field)                                                             \
	((struct host_mem){ .base = H_BP, .index = H_NONE,                       \
			    .disp = (s32)(offsetof(struct cpu, fpu) +            \
					  offsetof(struct fp_image, field)) -    \
				    STATE_BIAS })

/* --- registers -------------------------------------------------------------------- */

/* @off is 0, or the interpreter is asked for them. */
static void require(struct trans *t, enum fix_kind kind, struct host_mem off)
{
	struct fix *f = trans_fix(t, kind);
	u8 *on;

	t->window_loaded = false; /* r11 is lost there */
	f->back = t->e.at;
	emit_movzx8(&t->e, H_CX, off);
	on = emit_jrcxz(&t->e);
	trans_fix_from(f, emit_jmp(&t->e));
	emit_link8(&t->e, on);
}

void trans_vector(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	unsigned attr = insn_row(i->row)->attr;
	u8 vector = i->flags & INSN_VEX ? 2 : attr & (ROW_SSE | ROW_AVX) ? 1 : 0;

	if (t->vector < vector) {
		require(t, FIX_VECTOR, vector == 2 ? STATE(jit.avx_off) : STATE(jit.sse_off));
		t->vector = vector;
	}
	if (!t->x87 && attr & (ROW_X87 | ROW_MMX | ROW_MMXU)) {
		require(t, FIX_X87, STATE(jit.x87_off));
		t->x87 = true;
	}
}

/* --- the last instruction and operand ------------------------------------------------- */

static void store16(struct emitter *e, struct host_mem m, unsigned from)
{
	struct host_insn i = { .opsz = true, .opcode = 0x89, .reg = (u8)from, .modrm = true,
			       .is_mem = true, .mem = m, .plus = H_NONE };

	emit_insn(e, &i);
}

static void load16(struct emitter *e, unsigned to, struct host_mem m)
{
	struct host_insn i = { .map = 1, .opcode = 0xb7, .reg = (u8)to, .modrm = true,
			       .is_mem = true, .mem = m, .plus = H_NONE };

	emit_insn(e, &i);
}

/* Only AMD's processors keep selectors; the others' are zero (fpregs.c). */
static void note_selector(struct trans *t, unsigned seg, struct host_mem to)
{
	struct host_mem sel = STATE(seg);

	if (t->c->vendor != VENDOR_AMD)
		return;
	sel.disp += (s32)(seg * sizeof(struct segment) + offsetof(struct segment, sel));
	load16(&t->e, H_CX, sel);
	store16(&t->e, to, H_CX);
}

void trans_x87_note(struct trans *t, unsigned last)
{
	struct emitter *e = &t->e;

	if (!last)
		return;
	emit_mov_load(e, H_CX, STATE(jit.rip_page));
	emit_lea(e, H_CX, at_reg(H_CX, t->off[last - 1]));
	emit_mov_store(e, IMAGE(fip), H_CX);
	if (x87_notes(t->c, false)) {
		emit_mov_imm(e, H_CX, x87_fop(&t->b->code[last - 1].insn));
		store16(e, IMAGE(fop), H_CX);
	}
	note_selector(t, SEG_CS, IMAGE(fcs));
}

void jit_x87_recover(struct cpu *c, const struct block *b, unsigned n)
{
	struct fp_image *f = cpu_fp(c);
	unsigned off = b->off;
	enum jit_class class;

	while (n-- > 0) {
		const struct insn *i = &b->code[n].insn;

		class = jit_class(&b->code[n]);
		if (class == JIT_INTERP) /* everything before it is noted */
			return;
		if (class != JIT_X87 || i->op == OP_FWAIT || x87_is_control(i))
			continue;
		for (unsigned k = 0; k < n; k++)
			off += b->code[k].insn.len;
		f->fip = c->jit.rip_page + off;
		if (x87_notes(c, false))
			f->fop = x87_fop(i);
		f->fcs = x87_selector(c, SEG_CS);
		return;
	}
}

/* --- instructions ------------------------------------------------------------------- */

/* The memory operand checked.  FDP is the effective address: in r10 or, with a
 * segment's base, in jit.tmp[0]. */
static struct host_mem check_memory(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	const struct operand *o = &i->opnd[0];
	struct host_mem m;
	struct fix *slow;

	if (trans_names_stack(t) && trans_stack(t, (s32)i->disp, &m)) {
		emit_lea(&t->e, H_10, at_reg(m.base, m.disp));
		return m;
	}
	slow = trans_fix(t, FIX_SLOW);
	trans_ea_offset(t);
	if (i->seg >= SEG_FS) {
		emit_mov_store(&t->e, STATE(jit.tmp[0]), H_10);
		trans_ea(t);
	}
	trans_access(t, slow, o->size, o->access & OPD_W, 1);
	return checked;
}

/* After the instruction, which may fault. */
static void note_operand(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	unsigned from = H_10;

	if (!x87_notes(t->c, true))
		return;
	if (i->seg >= SEG_FS) {
		emit_mov_load(&t->e, H_CX, STATE(jit.tmp[0]));
		from = H_CX;
	}
	emit_mov_store(&t->e, IMAGE(fdp), from);
	note_selector(t, i->seg, IMAGE(fds));
}

/* The word at @m, from a copy that no other processor changes after the check. */
static void load_control(struct trans *t, struct host_mem m)
{
	struct emitter *e = &t->e;
	struct fix *slow = trans_fix(t, FIX_SLOW);
	struct host_insn not = { .opcode = 0xf7, .w = true, .reg = 2, .rm = H_CX, .modrm = true,
				 .plus = H_NONE };
	struct host_insn fldcw = { .opcode = 0xd9, .reg = 5, .modrm = true, .is_mem = true,
				   .mem = STATE(jit.tmp[0]), .plus = H_NONE };
	u8 *ok;

	load16(e, H_CX, m);
	emit_mov_store(e, STATE(jit.tmp[0]), H_CX);
	emit_insn(e, &not);
	emit_mov_imm(e, H_10, FP_FLAGS);
	emit_pext_rr(e, H_CX, H_CX, H_10);
	ok = emit_jrcxz(e);
	trans_fix_from(slow, emit_jmp(e));
	emit_link8(e, ok);
	emit_insn(e, &fldcw);
}

static void copy_memory(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct host_insn h = { .opcode = i->opcode, .reg = (i->modrm >> 3) & 7, .modrm = true,
			       .is_mem = true, .plus = H_NONE };

	h.mem = check_memory(t);
	if (i->op == OP_FLDCW) {
		load_control(t, h.mem);
		return;
	}
	emit_insn(&t->e, &h);
	if (!x87_is_control(i))
		note_operand(t);
}

void trans_x87(struct trans *t)
{
	const struct insn *i = trans_insn(t);

	trans_vector(t);
	if (i->op == OP_FWAIT) /* nothing is pending */
		return;
	if (i->flags & INSN_MEM) {
		copy_memory(t);
	} else {
		emit8(&t->e, i->opcode);
		emit8(&t->e, i->modrm);
	}
	if (!x87_is_control(i))
		t->x87_last = (u8)(t->insn + 1);
}
