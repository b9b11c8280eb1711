/* SPDX-License-Identifier: MIT */
#include "cpu/gate_stack.h"

#include "cpu/operand.h"

static enum emul tss_fault(struct cpu *c, u32 ext)
{
	return cpu_raise(c, EXC_TS, (c->seg[SEG_TR].sel & 0xfffcu) | ext);
}

enum emul gate_stack64(struct cpu *c, unsigned ist, unsigned cpl, u32 ext, u64 *rsp)
{
	const struct segment *tr = &c->seg[SEG_TR];
	u32 off = ist ? TSS64_IST1 + (ist - 1) * 8 : TSS64_RSP0 + cpl * 8;
	enum emul r;

	if (off + 7 > tr->limit || (tr->attr & SEG_UNUSABLE))
		return tss_fault(c, ext);
	r = mmu_read(&c->mmu, tr->base + off, rsp, 8, ACC_IMPLICIT);
	if (r != EMUL_CONTINUE)
		return r;
	return addr_is_canonical(*rsp) ? EMUL_CONTINUE : cpu_raise(c, EXC_SS, ext);
}

static enum emul check_inner_ss(struct cpu *c, unsigned cpl, u32 ext, struct inner_stack *s)
{
	unsigned type;
	enum emul r;

	if (!(s->sel & 0xfffc))
		return cpu_raise(c, EXC_TS, ext);
	r = seg_fetch(c, s->sel, false, EXC_TS, ext, &s->ss);
	if (r != EMUL_CONTINUE)
		return r;
	type = desc_type(s->ss.lo);
	if ((s->sel & 3u) != cpl || desc_dpl(s->ss.lo) != cpl || !(s->ss.lo & DESC_S) ||
	    (type & SEG_T_CODE) || !(type & SEG_T_WRITE))
		return seg_raise(c, EXC_TS, s->sel, ext);
	if (!(s->ss.lo & DESC_P))
		return seg_raise(c, EXC_SS, s->sel, ext);
	s->seg = (struct segment){ .base = desc_base(s->ss.lo),
				   .limit = desc_limit(s->ss.lo),
				   .attr = desc_attr(s->ss.lo),
				   .sel = s->sel };
	return EMUL_CONTINUE;
}

enum emul gate_stack32(struct cpu *c, unsigned cpl, u32 ext, struct inner_stack *s)
{
	const struct segment *tr = &c->seg[SEG_TR];
	u32 off = TSS32_ESP0 + cpl * 8, word[2] = { 0, 0 };
	enum emul r;

	if ((tr->attr & SEG_UNUSABLE) || (tr->attr & SEG_TYPE) < DESC_TSS32)
		return cpu_refuse(c, "16-bit TSS");
	if (off + 5 > tr->limit)
		return tss_fault(c, ext);
	r = mmu_read(&c->mmu, (u32)(tr->base + off), word, 6, ACC_IMPLICIT);
	if (r != EMUL_CONTINUE)
		return r;
	s->esp = word[0];
	s->sel = (u16)word[1];
	return check_inner_ss(c, cpl, ext, s);
}

enum emul gate_push64(struct cpu *c, u64 rsp, const u64 *frame, unsigned n, unsigned acc,
		      u32 ext)
{
	enum emul r = mmu_write(&c->mmu, rsp, frame, n * 8, ACC_SS | acc);

	if (r != EMUL_FAULT)
		return r;
	for (unsigned k = n; k-- > 0 && c->mmu.fault.vector == EXC_PF;) {
		r = mmu_probe_write(&c->mmu, rsp + k * 8, 8, ACC_SS | acc);
		if (r != EMUL_CONTINUE)
			break;
	}
	if (c->mmu.fault.vector == EXC_SS)
		c->mmu.fault.error = ext;
	/* It faulted a moment ago: if another vCPU repaired it, run again. */
	return r == EMUL_CONTINUE ? EMUL_RETRY : r;
}

/* Word @k of @n on the stack: its linear address. */
static gva_t push_at(const struct legacy_push *p, unsigned k, unsigned n)
{
	u32 mask = p->seg->attr & SEG_DB ? 0xffffffff : 0xffff;

	return (u32)(p->seg->base + ((p->sp - (n - k) * p->size) & mask));
}

static enum emul check_room(struct cpu *c, const struct legacy_push *p, unsigned n)
{
	u32 mask = p->seg->attr & SEG_DB ? 0xffffffff : 0xffff;

	for (unsigned k = n; k-- > 0;) {
		u32 off = (p->sp - (n - k) * p->size) & mask;
		enum emul r;

		if (!seg_limit_ok(p->seg, off, p->size))
			return seg_raise(c, EXC_SS, p->sel, p->ext);
		r = mmu_probe_write(&c->mmu, push_at(p, k, n), p->size, ACC_SS | p->acc);
		if (r != EMUL_CONTINUE)
			return r;
	}
	return EMUL_CONTINUE;
}

enum emul gate_push(struct cpu *c, const struct legacy_push *p, const u32 *words, unsigned n)
{
	enum emul r = check_room(c, p, n);

	for (unsigned k = n; k-- > 0 && r == EMUL_CONTINUE;)
		r = mmu_write(&c->mmu, push_at(p, k, n), &words[k], p->size, ACC_SS | p->acc);
	return r;
}
