/* SPDX-License-Identifier: MIT */
/* Memory operands: ModRM, SIB and displacement (SDM Vol. 2A "Addressing-Mode
 * Encoding of ModR/M and SIB Bytes"). */
#include "decode/table.h"

u8 dec_u8(struct decoder *d)
{
	if (d->pos >= INSN_MAX_LEN) {
		d->bad_long = true;
		return 0;
	}
	if (d->pos >= d->avail) {
		d->bad_short = true;
		return 0;
	}
	return d->bytes[d->pos++];
}

u64 dec_imm(struct decoder *d, unsigned n)
{
	u64 v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (u64)dec_u8(d) << (8 * i);
	return v;
}

static void set_segment(const struct decoder *d, struct insn *i, bool stack)
{
	bool seg64 = d->mode->bits == 64 && d->seg != SEG_FS && d->seg != SEG_GS;

	i->seg = stack ? SEG_SS : SEG_DS;
	if (d->seg != 0xff && !seg64) {
		i->seg = d->seg;
		i->flags |= INSN_SEGOVR;
	}
	/* 64-bit: SS and DS are both flat; only the kind of fault differs, and an
	 * FS or GS override takes that of a data segment. */
	if (i->seg == SEG_SS)
		i->flags |= INSN_STACK;
}

static void address16(struct decoder *d, struct insn *i)
{
	static const u8 base[8] = { R_RBX, R_RBX, R_RBP, R_RBP, R_RSI, R_RDI, R_RBP, R_RBX };
	static const u8 index[8] = { R_RSI, R_RDI, R_RSI, R_RDI,
				     REG_NONE, REG_NONE, REG_NONE, REG_NONE };

	i->base = base[d->rm];
	i->index = index[d->rm];
	if (d->mod == 0 && d->rm == 6) {
		i->base = REG_NONE;
		i->disp = (s16)dec_imm(d, 2);
	} else if (d->mod == 1) {
		i->disp = (s8)dec_imm(d, 1);
	} else if (d->mod == 2) {
		i->disp = (s16)dec_imm(d, 2);
	}
	set_segment(d, i, i->base == R_RBP);
}

static void address_sib(struct decoder *d, struct insn *i)
{
	u8 sib = dec_u8(d), index = (sib >> 3 & 7) | (d->rex & 2) << 2;

	i->scale = sib >> 6;
	i->index = index == R_RSP && !d->vsib ? REG_NONE : index;
	i->base = (sib & 7) | (d->rex & 1) << 3;
	if ((sib & 7) == R_RBP && d->mod == 0) {
		i->base = REG_NONE;
		i->disp = (s32)dec_imm(d, 4);
	}
}

void modrm_address(struct decoder *d, struct insn *i)
{
	i->flags |= INSN_MEM;
	if (i->adsize == 2) {
		address16(d, i);
		return;
	}
	if (d->rm == 4) {
		address_sib(d, i);
	} else if (d->mod == 0 && d->rm == 5) {
		i->disp = (s32)dec_imm(d, 4);
		i->base = d->mode->bits == 64 ? REG_IP : REG_NONE;
	} else {
		i->base = d->rm | (d->rex & 1) << 3;
	}
	if (d->mod == 1)
		i->disp = (s8)dec_imm(d, 1);
	else if (d->mod == 2)
		i->disp = (s32)dec_imm(d, 4);
	set_segment(d, i, i->base == R_RSP || i->base == R_RBP);
}
