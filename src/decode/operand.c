/* SPDX-License-Identifier: MIT */
/* Operand kinds of insns.def -> struct operand, and immediates. */
#include "decode/table.h"

static void set(struct operand *o, unsigned kind, unsigned reg, unsigned size)
{
	o->kind = (u8)kind;
	o->reg = (u8)reg;
	o->size = (u16)size;
}

static unsigned reg_field(const struct decoder *d)
{
	return d->reg | (d->rex & 4) << 1;
}

static unsigned rm_field(const struct decoder *d)
{
	return d->rm | (d->rex & 1) << 3;
}

/* A byte register: 4..7 are AH..BH unless a REX prefix is there. */
static void set_gpr(const struct decoder *d, struct operand *o, unsigned reg, unsigned size)
{
	if (size == 1 && reg >= 4 && reg < 8 && !d->rex && !d->vex)
		set(o, OPD_GPR8H, reg - 4, 1);
	else
		set(o, OPD_GPR, reg, size);
}

static void set_rm(const struct decoder *d, struct operand *o, unsigned kind, unsigned size)
{
	if (d->mod != 3)
		set(o, OPD_MEM, 0, size);
	else if (kind == OPD_GPR)
		set_gpr(d, o, rm_field(d), size);
	else
		set(o, kind, kind == OPD_XMM ? rm_field(d) : d->rm, kind == OPD_MM ? 8 : size);
}

static void immediate(struct decoder *d, struct insn *i, struct operand *o, unsigned bytes,
		      unsigned size, bool sign)
{
	u64 v = dec_imm(d, bytes);

	i->imm = sign ? bits_sext(v, bytes * 8) : v;
	if (size < 8)
		i->imm &= GENMASK64(size * 8 - 1, 0);
	i->immsize += (u8)bytes;
	set(o, OPD_IMM, 0, size);
}

static void branch(struct decoder *d, struct insn *i, struct operand *o, unsigned bytes)
{
	i->imm = bits_sext(dec_imm(d, bytes), bytes * 8);
	i->immsize = (u8)bytes;
	set(o, OPD_REL, 0, i->opsize);
}

static void moffs(struct decoder *d, struct insn *i, struct operand *o, unsigned size)
{
	i->disp = (s64)dec_imm(d, i->adsize);
	i->flags |= INSN_MEM;
	i->base = i->index = REG_NONE;
	i->seg = SEG_DS;
	if (d->seg != 0xff && (d->mode->bits != 64 || d->seg >= SEG_FS)) {
		i->seg = d->seg;
		i->flags |= INSN_SEGOVR;
	}
	if (i->seg == SEG_SS)
		i->flags |= INSN_STACK;
	set(o, OPD_MEM, 0, size);
}

static bool control_reg(const struct decoder *d, struct operand *o)
{
	/* LOCK stands for REX.R; both together name no register. */
	unsigned n = reg_field(d) + (d->lock ? 8 : 0);

	set(o, OPD_CR, n, d->mode->bits == 64 ? 8 : 4);
	return n == 0 || n == 2 || n == 3 || n == 4 || n == 8;
}

/* The register in the top half of an immediate byte. */
static void is4_register(struct decoder *d, struct insn *i, struct operand *o)
{
	u8 b = (u8)dec_imm(d, 1);

	i->immsize++;
	set(o, OPD_XMM, d->mode->bits == 64 ? b >> 4 : b >> 4 & 7, i->vl);
}

bool operand_fill(struct decoder *d, struct insn *i, const struct table_row *row, unsigned n)
{
	struct operand *o = &i->opnd[n];
	unsigned v = i->opsize, y = i->opsize == 8 ? 8 : 4, m = d->mode->bits == 64 ? 8 : 4;
	unsigned z = v == 2 ? 2 : 4, x = i->vl ? i->vl : 16;

	o->access = row->opnd[n].access;
	switch ((enum opnd_spec)row->opnd[n].spec) {
	case K_NONE: return true;
	case K_1: i->imm = 1; set(o, OPD_IMM, 0, 1); return true;
	case K_AL: set(o, OPD_GPR, R_RAX, 1); return true;
	case K_AX: set(o, OPD_GPR, R_RAX, 2); return true;
	case K_CL: set(o, OPD_GPR, R_RCX, 1); return true;
	case K_DX: set(o, OPD_GPR, R_RDX, 2); return true;
	case K_rAX: set(o, OPD_GPR, R_RAX, v); return true;
	case K_eAX: set(o, OPD_GPR, R_RAX, v == 2 ? 2 : 4); return true;
	case K_Ap:
		i->imm = dec_imm(d, v == 2 ? 2 : 4);
		i->imm2 = (u16)dec_imm(d, 2);
		i->immsize = (u8)((v == 2 ? 2 : 4) + 2);
		set(o, OPD_FAR, 0, v == 2 ? 2 : 4);
		return true;
	case K_By: set(o, OPD_GPR, d->vex_vvvv, y); return true;
	case K_Cd: return control_reg(d, o);
	case K_Dd: set(o, OPD_DR, reg_field(d), m); return reg_field(d) < 8;
	case K_Eb: set_rm(d, o, OPD_GPR, 1); return true;
	case K_Ed: set_rm(d, o, OPD_GPR, 4); return true;
	case K_Edb: set_rm(d, o, OPD_GPR, d->mod == 3 ? 4 : 1); return true;
	case K_Edw: set_rm(d, o, OPD_GPR, d->mod == 3 ? 4 : 2); return true;
	case K_Er: set_rm(d, o, OPD_GPR, v); return true;
	case K_Ev: set_rm(d, o, OPD_GPR, v); return true;
	case K_Ew: set_rm(d, o, OPD_GPR, 2); return true;
	case K_Ey: set_rm(d, o, OPD_GPR, y); return true;
	case K_Gb: set_gpr(d, o, reg_field(d), 1); return true;
	case K_Gm: set(o, OPD_GPR, reg_field(d), m); return true;
	case K_Gs: set(o, OPD_GPR, reg_field(d), y); return true;
	case K_Gv: set(o, OPD_GPR, reg_field(d), v); return true;
	case K_Gw: set(o, OPD_GPR, reg_field(d), 2); return true;
	case K_Gy: set(o, OPD_GPR, reg_field(d), y); return true;
	case K_Gz: set(o, OPD_GPR, reg_field(d), z); return true;
	case K_Hdq: set(o, OPD_XMM, d->vex_vvvv, 16); return true;
	case K_Hx: set(o, OPD_XMM, d->vex_vvvv, x); return true;
	case K_Lx: is4_register(d, i, o); return true;
	case K_Mx: set(o, OPD_MEM, 0, x); return true;
	case K_I2: i->imm2 = (u16)dec_imm(d, 1); i->immsize++; set(o, OPD_IMM2, 0, 1); return true;
	case K_Ib: immediate(d, i, o, 1, 1, false); return true;
	case K_sIb: immediate(d, i, o, 1, v, true); return true;
	case K_Iw: immediate(d, i, o, 2, 2, false); return true;
	case K_Iz: immediate(d, i, o, z, v, true); return true;
	case K_Iv: immediate(d, i, o, v, v, false); return true;
	case K_Jb: branch(d, i, o, 1); return true;
	case K_Jz: branch(d, i, o, z); return true;
	case K_M: set(o, OPD_MEM, 0, 0); return d->mod != 3;
	case K_Ma: set(o, OPD_MEM, 0, v * 2); return true;
	case K_Mb: set(o, OPD_MEM, 0, 1); return true;
	case K_Mw: set(o, OPD_MEM, 0, 2); return true;
	case K_Md: set(o, OPD_MEM, 0, 4); return true;
	case K_Mq: set(o, OPD_MEM, 0, 8); return true;
	case K_Mdq: set(o, OPD_MEM, 0, 16); return true;
	case K_Mp: set(o, OPD_MEM, 0, v + 2); return true;
	case K_Mq8: set(o, OPD_MEM, 0, v == 8 ? 16 : 8); return true;
	case K_Ms: set(o, OPD_MEM, 0, m + 2); return true;
	case K_Mt: set(o, OPD_MEM, 0, 10); return true;
	case K_Mv: set(o, OPD_MEM, 0, v); return true;
	case K_My: set(o, OPD_MEM, 0, y); return true;
	case K_Ob: moffs(d, i, o, 1); return true;
	case K_Ov: moffs(d, i, o, v); return true;
	case K_Pq: set(o, OPD_MM, d->reg, 8); return true;
	case K_Py: set(o, OPD_MM, d->reg, y); return true;
	case K_Qd: set_rm(d, o, OPD_MM, 4); return true;
	case K_Qq: set_rm(d, o, OPD_MM, 8); return true;
	case K_Rm: set(o, OPD_GPR, rm_field(d), m); return true;
	case K_Rv: set(o, OPD_GPR, rm_field(d), v); return true;
	case K_Ry: set(o, OPD_GPR, rm_field(d), y); return true;
	case K_S0: case K_S1: case K_S2: case K_S3: case K_S4: case K_S5:
		set(o, OPD_SEG, row->opnd[n].spec - K_S0, v);
		return true;
	case K_Sw:
		set(o, OPD_SEG, d->reg, 2);
		return d->reg < 6 && !(d->reg == SEG_CS && (o->access & OPD_W));
	case K_T0: set(o, OPD_ST, 0, 10); return true;
	case K_Ti: set(o, OPD_ST, d->rm, 10); return true;
	case K_Vd: set(o, OPD_XMM, reg_field(d), 4); return true;
	case K_Vq: set(o, OPD_XMM, reg_field(d), 8); return true;
	case K_Vdq: set(o, OPD_XMM, reg_field(d), 16); return true;
	case K_Vx: set(o, OPD_XMM, reg_field(d), x); return true;
	case K_Vy: set(o, OPD_XMM, reg_field(d), y); return true;
	case K_Wd: set_rm(d, o, OPD_XMM, 4); return true;
	case K_Wq: set_rm(d, o, OPD_XMM, 8); return true;
	case K_Wb: set_rm(d, o, OPD_XMM, 1); return true;
	case K_Ww: set_rm(d, o, OPD_XMM, 2); return true;
	case K_Wdq: set_rm(d, o, OPD_XMM, 16); return true;
	case K_We: set_rm(d, o, OPD_XMM, x / 8); return true;
	case K_Wf: set_rm(d, o, OPD_XMM, x / 4); return true;
	case K_Wh: set_rm(d, o, OPD_XMM, x / 2); return true;
	case K_Wx: set_rm(d, o, OPD_XMM, x); return true;
	case K_Zb: set_gpr(d, o, (i->opcode & 7) | (d->rex & 1) << 3, 1); return true;
	case K_Zv: set(o, OPD_GPR, (i->opcode & 7) | (d->rex & 1) << 3, v); return true;
	case K_b: case K_v: case K_z: return true; /* implied operands: size only */
	}
	return false;
}
