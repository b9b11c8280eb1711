/* SPDX-License-Identifier: MIT */
#include "cpu/operand.h"

static enum emul seg_fault(struct cpu *c, unsigned seg)
{
	return cpu_raise(c, seg == SEG_SS ? EXC_SS : EXC_GP, 0);
}

/* Protected mode: may the segment be read or written at all? */
static bool seg_type_ok(const struct segment *s, bool write)
{
	if (s->attr & SEG_UNUSABLE || !(s->attr & SEG_P))
		return false;
	if (s->attr & SEG_T_CODE)
		return !write && (s->attr & SEG_T_WRITE); /* readable code */
	return !write || (s->attr & SEG_T_WRITE);
}

bool seg_limit_ok(const struct segment *s, u32 off, unsigned n)
{
	u32 last = off + n - 1;

	if ((s->attr & (SEG_T_CODE | SEG_T_EXPAND)) == SEG_T_EXPAND) {
		u32 top = s->attr & SEG_DB ? 0xffffffffu : 0xffffu;

		return off > s->limit && last >= off && last <= top;
	}
	/* An access that wraps at 4 GiB passes a 4 GiB limit: it wraps. */
	if (last < off)
		return s->limit == 0xffffffffu;
	return last <= s->limit;
}

enum emul seg_linear_slow(struct cpu *c, unsigned seg, u64 off, unsigned n, bool write,
			  gva_t *lin)
{
	const struct segment *s = &c->seg[seg];

	if (c->code_bits == 64) {
		*lin = seg >= SEG_FS ? s->base + off : off;
		/* AMD's processors want the offset canonical too, not only the sum. */
		if (seg >= SEG_FS && c->vendor == VENDOR_AMD && !addr_is_canonical(off))
			return seg_fault(c, seg);
		return EMUL_CONTINUE;
	}
	if ((c->mmu.cr0 & CR0_PE) && !(c->rflags & RF_VM) && !seg_type_ok(s, write))
		return seg_fault(c, seg);
	if (!seg_limit_ok(s, (u32)off, n))
		return seg_fault(c, seg);
	*lin = (u32)(s->base + off);
	return EMUL_CONTINUE;
}

enum emul opd_read(struct cpu *c, const struct insn *i, const struct operand *o, u64 *v)
{
	switch (o->kind) {
	case OPD_GPR:
		*v = gpr_get(c, o->reg, o->size);
		return EMUL_CONTINUE;
	case OPD_GPR8H:
		*v = *gpr8(c, o);
		return EMUL_CONTINUE;
	case OPD_MEM:
		return memop_read(c, i, o->size, v);
	case OPD_IMM2:
		*v = i->imm2;
		return EMUL_CONTINUE;
	default:
		*v = i->imm;
		return EMUL_CONTINUE;
	}
}

void opd_put(struct cpu *c, const struct operand *o, u64 v)
{
	if (o->kind == OPD_GPR8H)
		*gpr8(c, o) = (u8)v;
	else
		gpr_put(c, o->reg, o->size, v);
}

enum emul opd_write(struct cpu *c, const struct insn *i, const struct operand *o, u64 v)
{
	if (o->kind == OPD_MEM)
		return memop_write(c, i, o->size, v);
	opd_put(c, o, v);
	return EMUL_CONTINUE;
}
