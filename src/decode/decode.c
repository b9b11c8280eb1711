/* SPDX-License-Identifier: MIT */
/* Prefixes, opcode maps, row selection and the rules of the whole instruction. */
#include "decode/decode.h"

#include <string.h>

#include "decode/table.h"

/* Legacy prefixes in any order; a REX prefix counts only directly before the
 * opcode, so each legacy prefix forgets one seen earlier. */
static u8 prefixes(struct decoder *d)
{
	for (;;) {
		u8 b = dec_u8(d);

		if (d->bad_short || d->bad_long)
			return 0;
		switch (b) {
		case 0x66: d->opsz = true; break;
		case 0x67: d->adsz = true; break;
		case 0xf0: d->lock = true; break;
		case 0xf2: case 0xf3: d->rep = b; break;
		case 0x26: d->seg = SEG_ES; break;
		case 0x2e: d->seg = SEG_CS; break;
		case 0x36: d->seg = SEG_SS; break;
		case 0x3e: d->seg = SEG_DS; break;
		case 0x64: d->seg = SEG_FS; break;
		case 0x65: d->seg = SEG_GS; break;
		default:
			if (d->mode->bits == 64 && (b & 0xf0) == 0x40) {
				d->rex = b;
				continue;
			}
			return b;
		}
		d->rex = 0;
	}
}

/* In 64-bit mode ES, CS, SS and DS overrides are null even after FS or GS: the
 * last of FS and GS stays in force. */
static void forget_null_segment(struct decoder *d, const u8 *bytes, unsigned n)
{
	if (d->mode->bits != 64 || d->seg == 0xff || d->seg >= SEG_FS)
		return;
	d->seg = 0xff;
	for (unsigned k = 0; k < n; k++)
		if (bytes[k] == 0x64 || bytes[k] == 0x65)
			d->seg = bytes[k] == 0x64 ? SEG_FS : SEG_GS;
}

/* C4 and C5: the two VEX forms.  Outside 64-bit mode they are LES and LDS when
 * the next byte's top bits say a memory form.  Return: map, or -1. */
static int vex_prefix(struct decoder *d, u8 first)
{
	static const u8 pp[4] = { 0, 0x66, 0xf3, 0xf2 };
	u8 p0 = dec_u8(d), p1 = p0;
	int map = 1;

	d->rex = 0x40 | (~p0 >> 7 & 1) << 2;
	if (first == 0xc4) {
		p1 = dec_u8(d);
		map = p0 & 31;
		d->rex = 0x40 | (~p0 >> 5 & 7) | (p1 >> 7) << 3;
	}
	if (d->mode->bits != 64)
		d->rex &= 0x48;
	d->vex = true;
	d->vex_l = p1 & 4;
	d->vex_pp = pp[p1 & 3];
	d->vex_vvvv = ~p1 >> 3 & (d->mode->bits == 64 ? 15 : 7);
	return map >= 1 && map <= 3 ? MAP_VEX + map : -1;
}

static u8 address_size(const struct decoder *d)
{
	if (d->mode->bits == 64)
		return d->adsz ? 4 : 8;
	return (d->mode->bits == 32) != d->adsz ? 4 : 2;
}

/* #UD.  As much is fetched as for LES and LDS (seen on AMD's processors). */
static void rex_before_vex(struct decoder *d)
{
	struct insn unused = { .adsize = address_size(d) };
	u8 modrm = dec_u8(d);

	d->mod = modrm >> 6;
	d->rm = modrm & 7;
	if (d->mod != 3)
		modrm_address(d, &unused);
}

static int opcode_map(struct decoder *d, u8 *opcode)
{
	bool vex_ok = d->mode->bits == 64;

	if ((*opcode == 0xc4 || *opcode == 0xc5) && !vex_ok && !d->bad_short) {
		if (d->pos < d->avail)
			vex_ok = (d->bytes[d->pos] & 0xc0) == 0xc0;
		else
			d->bad_short = true;
	}
	if ((*opcode == 0xc4 || *opcode == 0xc5) && vex_ok) {
		int map;

		if (d->rex && d->mode->vendor == VENDOR_AMD) {
			rex_before_vex(d);
			return -1;
		}
		/* Prefixes that must not be there are #UD when all is fetched. */
		d->bad_prefix = d->opsz || d->rep || d->lock || d->rex;
		map = vex_prefix(d, *opcode);
		*opcode = dec_u8(d);
		return map;
	}
	if (*opcode != 0x0f)
		return MAP_1B;
	*opcode = dec_u8(d);
	if (*opcode != 0x38 && *opcode != 0x3a)
		return MAP_0F;
	int map = *opcode == 0x38 ? MAP_0F38 : MAP_0F3A;

	*opcode = dec_u8(d);
	return map;
}

static bool prefix_fits(const struct decoder *d, const struct table_row *r)
{
	if (d->vex)
		return d->vex_pp == (const u8[]){ 0, 0, 0x66, 0xf3, 0xf2, 0 }[r->pp];
	switch ((enum row_pp)r->pp) {
	case PP_N: return true;
	case PP_0: return !d->rep && !d->opsz;
	case PP_66: return !d->rep && d->opsz;
	case PP_F3: return d->rep == 0xf3;
	case PP_F2: return d->rep == 0xf2;
	case PP_P: return !d->rep;
	}
	return false;
}

static bool row_fits(const struct decoder *d, const struct table_row *r)
{
	bool is64 = d->mode->bits == 64;

	if ((r->mode == MODE_M64 && !is64) || (r->mode == MODE_I64 && is64))
		return false;
	if ((r->attr & A_NOP90) && ((d->rex & 1) || d->rep == 0xf3))
		return false;
	if ((r->attr & A_NOTAMD) && d->mode->vendor == VENDOR_AMD)
		return false;
	if ((r->attr & (d->vex_l ? A_L0 : A_L1)) || (r->attr & (d->rex & 8 ? A_W0 : A_W1)))
		return false;
	if (!prefix_fits(d, r))
		return false;
	bool is_reg = d->mod == 3;

	return (r->mod == MOD_A || is_reg == (r->mod == MOD_R)) &&
	       (r->reg < 0 || r->reg == d->reg) && (r->rm < 0 || r->rm == d->rm);
}

/* Which opcodes have a ModRM byte: all rows of an opcode agree. */
static bool row_has_modrm(const struct table_row *r)
{
	if (r->map != MAP_1B)
		goto by_operands;
	if (r->opcode >= 0xd8 && r->opcode <= 0xdf)
		return true;
by_operands:
	if (r->mod != MOD_A || r->reg >= 0 || r->rm >= 0)
		return true;
	for (unsigned n = 0; n < 4; n++)
		switch ((enum opnd_spec)r->opnd[n].spec) {
		case K_NONE: case K_1: case K_AL: case K_AX: case K_Ap: case K_CL: case K_DX:
		case K_I2: case K_Ib: case K_Iv: case K_Iw: case K_Iz: case K_Jb: case K_Jz:
		case K_Ob: case K_Ov: case K_S0: case K_S1: case K_S2: case K_S3: case K_S4:
		case K_S5: case K_Zb: case K_Zv: case K_b: case K_eAX: case K_rAX: case K_sIb:
		case K_v: case K_z: case K_T0: case K_By: case K_Hx: case K_Hdq: case K_Lx:
			break;
		default:
			return true;
		}
	return false;
}

/* AMD's processors raise #UD for UD0 and UD1 without fetching a ModRM byte. */
static bool no_modrm_on_amd(const struct decoder *d, const struct table_row *r)
{
	return (r->pub.op == OP_UD0 || r->pub.op == OP_UD1) && d->mode->vendor == VENDOR_AMD;
}

static const struct table_row *find_row(struct decoder *d, unsigned map, u8 opcode)
{
	int first = table_first(map, opcode);

	if (first < 0)
		return NULL;
	const struct table_row *r = &decode_rows[first], *end = decode_rows + decode_row_total;

	if (no_modrm_on_amd(d, r)) {
		d->mod = 3;
	} else if (row_has_modrm(r)) {
		u8 modrm = dec_u8(d);

		d->has_modrm = true;
		d->mod = modrm >> 6;
		d->reg = modrm >> 3 & 7;
		d->rm = modrm & 7;
		if (r->attr & A_MODR)
			d->mod = 3;
	}
	for (; r < end && r->map == map && r->opcode == opcode; r++)
		if (row_fits(d, r))
			return r;
	return NULL;
}

static u8 operand_size(const struct decoder *d, const struct table_row *r)
{
	bool opsz = d->vex ? false : d->opsz;

	/* 66 as a mandatory prefix does not change the size. */
	if (r->pp == PP_66 || (r->pp == PP_0 && r->map != MAP_1B))
		opsz = false;
	if (d->mode->bits == 64) {
		if (r->attr & A_F64)
			return opsz && !(d->rex & 8) && d->mode->vendor == VENDOR_AMD ? 2 : 8;
		if (d->rex & 8)
			return 8;
		if (r->attr & A_D64)
			return opsz ? 2 : 8;
		return opsz ? 2 : 4;
	}
	return (d->mode->bits == 32) != opsz ? 4 : 2;
}

static bool lock_is_legal(const struct decoder *d, const struct insn *i,
			  const struct table_row *r)
{
	if ((r->attr & A_CRLOCK) && d->mode->vendor == VENDOR_AMD)
		return true;
	return (r->attr & A_LOCK) && i->opnd[0].kind == OPD_MEM;
}

static void string_operands(const struct decoder *d, struct insn *i,
			    const struct table_row *r)
{
	u8 spec = r->opnd[0].spec;

	i->nopnd = 0;
	memset(i->opnd, 0, sizeof(i->opnd));
	if (spec == K_b)
		i->opsize = 1;
	else if (spec == K_z && i->opsize == 8)
		i->opsize = 4;
	i->seg = SEG_DS;
	if (d->seg != 0xff) {
		i->seg = d->seg;
		i->flags |= INSN_SEGOVR;
	}
	if (d->rep == 0xf3)
		i->flags |= INSN_REP;
	if (d->rep == 0xf2)
		i->flags |= INSN_REPNE;
}

/* What single rows ask for beyond the columns. */
static void special_rows(struct decoder *d, struct insn *i, const struct table_row *r)
{
	/* F3 before XCHG with R8: ignored by AMD's processors, PAUSE on Intel's. */
	if ((r->attr & A_XCHG90) && d->rep == 0xf3 &&
	    (!(d->rex & 1) || d->mode->vendor == VENDOR_INTEL)) {
		i->op = OP_PAUSE;
		i->nopnd = 0;
		memset(i->opnd, 0, sizeof(i->opnd));
	}
	/* AMD's processors let a repeat prefix choose the condition (measured). */
	if ((i->op == OP_LOOPE || i->op == OP_LOOPNE) && d->rep && d->mode->vendor == VENDOR_AMD)
		i->op = d->rep == 0xf3 ? OP_LOOPE : OP_LOOPNE;
	/* With 66, Intel's processors read as many bytes as they write. */
	if (i->op == OP_MOVSXD && i->opsize == 2 && d->mode->vendor == VENDOR_INTEL)
		i->opnd[1].size = 2;
	if ((r->attr & A_CX16) && i->opsize == 8)
		i->op = OP_CMPXCHG16B;
	if (r->attr & A_XLAT) {
		i->flags |= INSN_MEM;
		i->base = R_RBX;
		i->index = R_RAX; /* AL, zero-extended: the handler knows */
	}
	if (r->attr & A_MASKMOV) {
		i->flags |= INSN_MEM;
		i->base = R_RDI;
	}
	if (r->attr & (A_XLAT | A_MASKMOV)) {
		i->seg = SEG_DS;
		if (d->seg != 0xff) {
			i->seg = d->seg;
			i->flags |= INSN_SEGOVR;
		}
	}
	if ((r->attr & A_FARP) && i->opsize == 8 && d->mode->vendor == VENDOR_AMD) {
		i->opsize = 4;
		i->opnd[i->nopnd - 1].size = 6;
	}
}

static void init_insn(struct insn *i, const struct decoder *d, const struct table_row *r,
		      unsigned map, u8 opcode)
{
	i->op = r->pub.op;
	i->row = (u16)(r - decode_rows);
	i->opsize = operand_size(d, r);
	i->adsize = address_size(d);
	i->map = map & 3;
	i->opcode = opcode;
	i->modrm = (u8)(d->mod << 6 | d->reg << 3 | d->rm);
	i->rex = d->rex & 15;
	/* Outside 64-bit mode W counts only where it selects the instruction. */
	if (d->mode->bits != 64 && !(r->attr & (A_W0 | A_W1)))
		i->rex &= 7;
	i->seg = SEG_DS;
	i->base = i->index = REG_NONE;
	i->vl = d->vex ? (d->vex_l ? 32 : 16) : 0;
	i->vvvv = d->vex ? d->vex_vvvv : 0;
	i->pp = d->vex		? d->vex_pp :
		r->pp == PP_66	? 0x66 :
		r->pp == PP_F3	? 0xf3 :
		r->pp == PP_F2	? 0xf2 :
				  0;
	i->flags = (u16)((d->rex && !d->vex ? INSN_REX : 0) | (d->vex ? INSN_VEX : 0) |
			 (d->has_modrm ? INSN_MODRM : 0) | (d->lock ? INSN_LOCK : 0) |
			 (r->attr & A_BR ? INSN_BRANCH : 0) |
			 (r->attr & A_ENDS ? INSN_ENDS : 0));
	if (r->pub.op == OP_JCC || r->pub.op == OP_SETCC || r->pub.op == OP_CMOVCC)
		i->cond = opcode & 15;
}

/* Byte forms say so by their first operand. */
static void byte_size(struct insn *i, const struct table_row *r)
{
	switch ((enum opnd_spec)r->opnd[0].spec) {
	case K_Eb: case K_Gb: case K_AL: case K_Ob: case K_Zb: case K_Mb:
		i->opsize = 1;
		break;
	case K_Ib: case K_DX:
		if (r->opnd[1].spec == K_AL) /* OUT */
			i->opsize = 1;
		break;
	case K_eAX:
		if (i->opsize == 8)
			i->opsize = 4;
		break;
	default:
		break;
	}
	if (r->opnd[1].spec == K_eAX && i->opsize == 8)
		i->opsize = 4;
}

/* A gather's destination, index and mask are three registers. */
static bool vsib_rules(const struct insn *i)
{
	u8 dst = i->opnd[0].reg, mask = i->opnd[2].reg;

	return dst != mask && dst != i->index && mask != i->index;
}

static bool vex_rules(const struct decoder *d, const struct insn *i,
		      const struct table_row *r)
{
	bool uses_vvvv = false;

	for (unsigned n = 0; n < 4; n++)
		uses_vvvv |= r->opnd[n].spec == K_By || r->opnd[n].spec == K_Hx ||
			     r->opnd[n].spec == K_Hdq;
	if (d->vex_l && !(r->attr & A_AVX))
		return false;
	if (d->vsib && !vsib_rules(i))
		return false;
	return uses_vvvv || d->vex_vvvv == 0;
}

static bool fill(struct decoder *d, struct insn *i, const struct table_row *r)
{
	/* VEX.vvvv was stored complemented: 15 encodes register 0's absence. */
	d->vsib = r->attr & A_VSIB;
	if (d->vsib && (d->rm != 4 || i->adsize == 2))
		return false;
	if (d->has_modrm && d->mod != 3)
		modrm_address(d, i);
	for (unsigned n = 0; n < 4 && r->opnd[n].spec != K_NONE; n++) {
		if (!operand_fill(d, i, r, n))
			return false;
		i->nopnd++;
	}
	byte_size(i, r);
	if (r->attr & A_STRING)
		string_operands(d, i, r);
	special_rows(d, i, r);
	if (d->vex && (d->bad_prefix || !vex_rules(d, i, r)))
		return false;
	if (d->lock && !d->vex && !lock_is_legal(d, i, r))
		return false;
	return true;
}

static enum decode_status ended(const struct decoder *d, struct insn *i,
				enum decode_status status)
{
	i->len = (u8)d->pos;
	if (d->bad_long)
		return DECODE_TOOLONG;
	if (d->bad_short)
		return DECODE_SHORT;
	return status;
}

enum decode_status decode(const u8 *bytes, unsigned avail, const struct decode_mode *mode,
			  struct insn *insn)
{
	struct decoder d = { .bytes = bytes, .avail = avail, .mode = mode, .seg = 0xff };
	u8 opcode = prefixes(&d);

	memset(insn, 0, sizeof(*insn));
	if (d.bad_short || d.bad_long)
		return ended(&d, insn, DECODE_UD);
	forget_null_segment(&d, bytes, d.pos - 1);
	int map = opcode_map(&d, &opcode);

	if (map < 0 || d.bad_short || d.bad_long)
		return ended(&d, insn, DECODE_UD);
	const struct table_row *r = find_row(&d, (unsigned)map, opcode);

	if (!r || d.bad_short || d.bad_long)
		return ended(&d, insn, DECODE_UD);
	init_insn(insn, &d, r, (unsigned)map, opcode);
	bool ok = fill(&d, insn, r);

	return ended(&d, insn, ok ? DECODE_OK : DECODE_UD);
}
