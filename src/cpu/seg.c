/* SPDX-License-Identifier: MIT */
#include "cpu/seg.h"

#include "cpu/cr.h"

enum emul seg_fetch(struct cpu *c, u16 sel, bool wide, unsigned vector, u32 ext,
		    struct descriptor *d)
{
	const struct segment *ldt = &c->seg[SEG_LDTR];
	u64 base = c->gdtr.base;
	u32 limit = c->gdtr.limit, off = sel & 0xfff8u;
	unsigned n = wide ? 16 : 8;
	u64 word[2] = { 0, 0 };
	enum emul r;

	if (sel & 4) {
		if ((ldt->attr & SEG_UNUSABLE) || !(ldt->attr & SEG_P))
			return seg_raise(c, vector, sel, ext);
		base = ldt->base;
		limit = ldt->limit;
	}
	if (off + n - 1 > limit)
		return seg_raise(c, vector, sel, ext);
	d->at = base + off;
	if (!cpu_long_mode(c))
		d->at &= 0xffffffff;
	r = mmu_read(&c->mmu, d->at, word, n, ACC_IMPLICIT);
	d->lo = word[0];
	d->hi = word[1];
	return r;
}

enum emul seg_accessed(struct cpu *c, struct descriptor *d)
{
	enum emul r;
	void *p;
	u8 type;

	if (d->lo & BIT64(40))
		return EMUL_CONTINUE;
	r = mmu_rmw(&c->mmu, d->at + 5, 1, ACC_IMPLICIT, &p);
	if (r != EMUL_CONTINUE)
		return r;
	if (p) {
		__atomic_fetch_or((u8 *)p, 1, __ATOMIC_SEQ_CST);
	} else {
		r = mmu_rmw_begin(&c->mmu, d->at + 5, 1, ACC_IMPLICIT, &type);
		if (r != EMUL_CONTINUE)
			return r;
		type |= 1;
		r = mmu_rmw_end(&c->mmu, &type);
		if (r != EMUL_CONTINUE)
			return r;
	}
	d->lo |= BIT64(40);
	return EMUL_CONTINUE;
}

void seg_put(struct cpu *c, unsigned seg, u16 sel, const struct descriptor *d)
{
	struct segment *s = &c->seg[seg];

	s->sel = sel;
	s->base = desc_base(d->lo);
	s->limit = desc_limit(d->lo);
	s->attr = desc_attr(d->lo);
	if (seg >= SEG_LDTR && cpu_long_mode(c))
		s->base |= d->hi << 32;
}

void seg_put_null(struct cpu *c, unsigned seg, u16 sel)
{
	struct segment *s = &c->seg[seg];

	s->sel = sel;
	s->attr = SEG_UNUSABLE;
	/* A null selector clears the base too, as CPUID 80000021:EAX[6] says. */
	s->base = 0;
	s->limit = 0;
}

void seg_put_real(struct cpu *c, unsigned seg, u16 sel)
{
	c->seg[seg].sel = sel;
	c->seg[seg].base = (u64)sel << 4;
	if (seg == SEG_CS)
		c->seg[seg].attr = (c->seg[seg].attr & ~(u32)(SEG_TYPE | SEG_DPL | SEG_UNUSABLE)) |
				   0x3 | SEG_S | SEG_P;
}

void seg_put_flat_ss(struct cpu *c, unsigned cpl)
{
	struct segment *s = &c->seg[SEG_SS];

	s->sel = (u16)cpl;
	s->base = 0;
	s->limit = 0xffffffff;
	s->attr = SEG_UNUSABLE | cpl << SEG_DPL_SHIFT;
}

static enum emul load_ss(struct cpu *c, u16 sel, struct descriptor *d)
{
	unsigned cpl = c->mmu.cpl, type = desc_type(d->lo);
	enum emul r;

	if (!(sel & 0xfffc)) {
		if (c->code_bits != 64 || cpl == 3 || (sel & 3) != cpl)
			return cpu_gp(c, 0);
		seg_put_flat_ss(c, cpl);
		return EMUL_CONTINUE;
	}
	r = seg_fetch(c, sel, false, EXC_GP, 0, d);
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(d->lo);
	if ((sel & 3) != cpl || desc_dpl(d->lo) != cpl || !(d->lo & DESC_S) ||
	    (type & SEG_T_CODE) || !(type & SEG_T_WRITE))
		return seg_raise(c, EXC_GP, sel, 0);
	if (!(d->lo & DESC_P))
		return seg_raise(c, EXC_SS, sel, 0);
	r = seg_accessed(c, d);
	if (r == EMUL_CONTINUE)
		seg_put(c, SEG_SS, sel, d);
	return r;
}

static enum emul load_data(struct cpu *c, unsigned seg, u16 sel, struct descriptor *d)
{
	unsigned type;
	enum emul r;

	if (!(sel & 0xfffc)) {
		seg_put_null(c, seg, sel);
		return EMUL_CONTINUE;
	}
	r = seg_fetch(c, sel, false, EXC_GP, 0, d);
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(d->lo);
	if (!(d->lo & DESC_S) || ((type & SEG_T_CODE) && !(type & SEG_T_WRITE)))
		return seg_raise(c, EXC_GP, sel, 0);
	/* Conforming code may be read from anywhere. */
	if ((type & (SEG_T_CODE | SEG_T_EXPAND)) != (SEG_T_CODE | SEG_T_EXPAND) &&
	    MAX(sel & 3u, (unsigned)c->mmu.cpl) > desc_dpl(d->lo))
		return seg_raise(c, EXC_GP, sel, 0);
	if (!(d->lo & DESC_P))
		return seg_raise(c, EXC_NP, sel, 0);
	r = seg_accessed(c, d);
	if (r == EMUL_CONTINUE)
		seg_put(c, seg, sel, d);
	return r;
}

enum emul seg_load(struct cpu *c, unsigned seg, u16 sel)
{
	struct descriptor d = { 0 };

	if (seg_real_mode(c)) {
		seg_put_real(c, seg, sel);
		return EMUL_CONTINUE;
	}
	return seg == SEG_SS ? load_ss(c, sel, &d) : load_data(c, seg, sel, &d);
}

enum emul seg_load_ldt(struct cpu *c, u16 sel)
{
	struct descriptor d;
	enum emul r;

	if (!(sel & 0xfffc)) {
		seg_put_null(c, SEG_LDTR, sel);
		return EMUL_CONTINUE;
	}
	if (sel & 4)
		return seg_raise(c, EXC_GP, sel, 0);
	r = seg_fetch(c, sel, cpu_long_mode(c), EXC_GP, 0, &d);
	if (r != EMUL_CONTINUE)
		return r;
	if ((d.lo & DESC_S) || desc_type(d.lo) != DESC_LDT)
		return seg_raise(c, EXC_GP, sel, 0);
	if (!(d.lo & DESC_P))
		return seg_raise(c, EXC_NP, sel, 0);
	if (cpu_long_mode(c) && !addr_is_canonical(desc_base(d.lo) | d.hi << 32))
		return seg_raise(c, EXC_GP, sel, 0);
	seg_put(c, SEG_LDTR, sel, &d);
	return EMUL_CONTINUE;
}

/* Make the TSS descriptor busy in memory, by a locked access. */
static enum emul set_busy(struct cpu *c, struct descriptor *d)
{
	u8 type;
	enum emul r = mmu_rmw_begin(&c->mmu, d->at + 5, 1, ACC_IMPLICIT, &type);

	if (r != EMUL_CONTINUE)
		return r;
	type |= 2;
	r = mmu_rmw_end(&c->mmu, &type);
	d->lo |= BIT64(41);
	return r;
}

enum emul seg_load_tr(struct cpu *c, u16 sel)
{
	bool lm = cpu_long_mode(c);
	struct descriptor d;
	enum emul r;

	if (!(sel & 0xfffc))
		return cpu_gp(c, 0);
	if (sel & 4)
		return seg_raise(c, EXC_GP, sel, 0);
	r = seg_fetch(c, sel, lm, EXC_GP, 0, &d);
	if (r != EMUL_CONTINUE)
		return r;
	if ((d.lo & DESC_S) ||
	    (desc_type(d.lo) != DESC_TSS32 && (lm || desc_type(d.lo) != DESC_TSS16)))
		return seg_raise(c, EXC_GP, sel, 0);
	if (!(d.lo & DESC_P))
		return seg_raise(c, EXC_NP, sel, 0);
	if (lm && !addr_is_canonical(desc_base(d.lo) | d.hi << 32))
		return seg_raise(c, EXC_GP, sel, 0);
	r = set_busy(c, &d);
	if (r == EMUL_CONTINUE)
		seg_put(c, SEG_TR, sel, &d);
	return r;
}

enum emul seg_check_code(struct cpu *c, u16 sel, const struct descriptor *d, unsigned cpl,
			 bool rpl_checks)
{
	unsigned type = desc_type(d->lo), dpl = desc_dpl(d->lo);

	if (!(d->lo & DESC_S) || !(type & SEG_T_CODE))
		return seg_raise(c, EXC_GP, sel, 0);
	if (cpu_long_mode(c) && (desc_attr(d->lo) & (SEG_L | SEG_DB)) == (SEG_L | SEG_DB))
		return seg_raise(c, EXC_GP, sel, 0);
	if (type & SEG_T_EXPAND ? dpl > cpl : dpl != cpl || (rpl_checks && (sel & 3u) > cpl))
		return seg_raise(c, EXC_GP, sel, 0);
	if (!(d->lo & DESC_P))
		return seg_raise(c, EXC_NP, sel, 0);
	return EMUL_CONTINUE;
}

void seg_put_cs(struct cpu *c, u16 sel, const struct descriptor *d, unsigned cpl)
{
	seg_put(c, SEG_CS, (u16)((sel & 0xfffc) | cpl), d);
	mmu_set_cpl(&c->mmu, cpl);
	cpu_update_mode(c);
}

void seg_outer(struct cpu *c)
{
	static const u8 data[] = { SEG_ES, SEG_DS, SEG_FS, SEG_GS };

	for (unsigned i = 0; i < ARRAY_SIZE(data); i++) {
		const struct segment *s = &c->seg[data[i]];
		unsigned type = s->attr & SEG_TYPE;
		bool conforming = (type & (SEG_T_CODE | SEG_T_EXPAND)) ==
				  (SEG_T_CODE | SEG_T_EXPAND);

		if (!(s->attr & SEG_UNUSABLE) && !conforming &&
		    (s->attr & SEG_DPL) >> SEG_DPL_SHIFT < c->mmu.cpl) {
			/* Made unusable, not loaded: the base of FS and GS stays. */
			c->seg[data[i]].sel = 0;
			c->seg[data[i]].attr = SEG_UNUSABLE;
		}
	}
}
