/* SPDX-License-Identifier: MIT */
/* Instructions on segment registers and descriptor-table registers. */
#include "cpu/cr.h"
#include "cpu/flags.h"
#include "cpu/seg.h"
#include "cpu/stack.h"
#include "cpu/sys.h"

/* A load of SS holds interrupts off for one instruction. */
static enum emul loaded(struct cpu *c, unsigned seg)
{
	if (seg == SEG_SS && !c->shadow)
		cpu_set_shadow(c, SHADOW_MOVSS);
	return EMUL_END;
}

enum emul op_mov_sreg(struct cpu *c, const struct insn *i)
{
	const struct operand *dst = &i->opnd[0], *src = &i->opnd[1];
	u64 v;
	enum emul r;

	if (dst->kind != OPD_SEG)
		return opd_write(c, i, dst, c->seg[src->reg].sel);
	r = opd_read(c, i, src, &v);
	if (r == EMUL_CONTINUE)
		r = seg_load(c, dst->reg, (u16)v);
	return r == EMUL_CONTINUE ? loaded(c, dst->reg) : r;
}

enum emul op_push_sreg(struct cpu *c, const struct insn *i)
{
	return stack_push(c, i->opsize, c->seg[i->opnd[0].reg].sel);
}

enum emul op_pop_sreg(struct cpu *c, const struct insn *i)
{
	unsigned seg = i->opnd[0].reg;
	u64 v, sp = c->gpr[R_RSP];
	enum emul r = stack_pop(c, i->opsize, &v);

	if (r != EMUL_CONTINUE)
		return r;
	/* POP SS moves rSP by the width that the old SS has. */
	r = seg_load(c, seg, (u16)v);
	if (r != EMUL_CONTINUE) {
		c->gpr[R_RSP] = sp;
		return r;
	}
	return loaded(c, seg);
}

enum emul op_load_far_pointer(struct cpu *c, const struct insn *i)
{
	static const struct {
		u16 op;
		u8 seg;
	} map[] = { { OP_LES, SEG_ES }, { OP_LDS, SEG_DS }, { OP_LSS, SEG_SS },
		    { OP_LFS, SEG_FS }, { OP_LGS, SEG_GS } };
	unsigned n = i->opsize, seg = SEG_ES;
	u64 off, sel;
	gva_t at;
	enum emul r;

	for (unsigned k = 0; k < ARRAY_SIZE(map); k++)
		if (map[k].op == i->op)
			seg = map[k].seg;
	r = mem_linear(c, i, n + 2, false, &at);
	if (r == EMUL_CONTINUE)
		r = lin_read(c, at, n, insn_acc(i), &off);
	if (r == EMUL_CONTINUE)
		r = lin_read(c, at + n, 2, insn_acc(i), &sel);
	if (r == EMUL_CONTINUE)
		r = seg_load(c, seg, (u16)sel);
	if (r != EMUL_CONTINUE)
		return r;
	gpr_put(c, i->opnd[0].reg, n, off);
	return EMUL_END;
}

/* --- LAR, LSL, VERR, VERW: ask without faulting -------------------------------- */

static bool system_type_visible(const struct cpu *c, unsigned type, bool lsl)
{
	bool lm = cpu_long_mode(c);

	switch (type) {
	case DESC_TSS16: case DESC_TSS16_BUSY:
		return !lm;
	case DESC_CALL16: case DESC_TASK_GATE:
		return !lm && !lsl;
	case DESC_CALL32:
		return !lsl;
	case DESC_LDT: case DESC_TSS32: case DESC_TSS32_BUSY:
		return true;
	}
	return false;
}

/* EMUL_CONTINUE with *@ok; page faults of the descriptor read are real. */
static enum emul examine(struct cpu *c, u16 sel, bool lsl, struct descriptor *d, bool *ok)
{
	enum emul r;
	unsigned type;

	*ok = false;
	if (!(sel & 0xfffc))
		return EMUL_CONTINUE;
	r = seg_fetch(c, sel, false, EXC_GP, 0, d);
	if (r == EMUL_FAULT && c->mmu.fault.vector == EXC_GP)
		return EMUL_CONTINUE;
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(d->lo);
	if (!(d->lo & DESC_S) && !system_type_visible(c, type, lsl))
		return EMUL_CONTINUE;
	bool conforming = (d->lo & DESC_S) && (type & (SEG_T_CODE | SEG_T_EXPAND)) ==
						      (SEG_T_CODE | SEG_T_EXPAND);

	*ok = conforming || MAX(sel & 3u, (unsigned)c->mmu.cpl) <= desc_dpl(d->lo);
	return EMUL_CONTINUE;
}

static void set_zf(struct cpu *c, bool on)
{
	c->aflags = (c->aflags & ~(u64)RF_ZF) | (on ? RF_ZF : 0);
}

enum emul op_lar(struct cpu *c, const struct insn *i)
{
	bool lsl = i->op == OP_LSL, ok;
	struct descriptor d;
	u64 sel, v;
	enum emul r;

	if (seg_real_mode(c))
		return cpu_ud(c);
	r = opd_read(c, i, &i->opnd[1], &sel);
	if (r == EMUL_CONTINUE)
		r = examine(c, (u16)sel, lsl, &d, &ok);
	if (r != EMUL_CONTINUE)
		return r;
	set_zf(c, ok);
	if (ok) {
		v = lsl ? desc_limit(d.lo) : d.lo >> 32 & 0x00ffff00;
		gpr_put(c, i->opnd[0].reg, i->opsize, v);
	}
	return EMUL_CONTINUE;
}

enum emul op_verr(struct cpu *c, const struct insn *i)
{
	struct descriptor d = { 0 };
	bool ok;
	u64 sel;
	enum emul r;

	if (seg_real_mode(c))
		return cpu_ud(c);
	r = opd_read(c, i, &i->opnd[0], &sel);
	if (r == EMUL_CONTINUE)
		r = examine(c, (u16)sel, true, &d, &ok);
	if (r != EMUL_CONTINUE)
		return r;
	unsigned type = desc_type(d.lo);

	ok = ok && (d.lo & DESC_S);
	if (i->op == OP_VERW)
		ok = ok && !(type & SEG_T_CODE) && (type & SEG_T_WRITE);
	else
		ok = ok && (!(type & SEG_T_CODE) || (type & SEG_T_WRITE));
	set_zf(c, ok);
	return EMUL_CONTINUE;
}

/* --- LDTR, TR -------------------------------------------------------------------- */

enum emul op_sldt(struct cpu *c, const struct insn *i)
{
	if (seg_real_mode(c))
		return cpu_ud(c);
	if ((c->mmu.cr4 & CR4_UMIP) && c->mmu.cpl)
		return cpu_gp(c, 0);
	return opd_write(c, i, &i->opnd[0], c->seg[i->op == OP_SLDT ? SEG_LDTR : SEG_TR].sel);
}

static enum emul load_system(struct cpu *c, const struct insn *i,
			     enum emul (*load)(struct cpu *c, u16 sel))
{
	u64 sel;
	enum emul r;

	if (seg_real_mode(c))
		return cpu_ud(c);
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	r = opd_read(c, i, &i->opnd[0], &sel);
	if (r == EMUL_CONTINUE)
		r = load(c, (u16)sel);
	cpu_fence();
	return r == EMUL_CONTINUE ? EMUL_END : r;
}

enum emul op_lldt(struct cpu *c, const struct insn *i)
{
	return load_system(c, i, seg_load_ldt);
}

enum emul op_ltr(struct cpu *c, const struct insn *i)
{
	return load_system(c, i, seg_load_tr);
}
