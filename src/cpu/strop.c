/* SPDX-License-Identifier: MIT */
#include "cpu/strop.h"

#include <stdatomic.h>

void str_none_done(struct cpu *c, const struct insn *i, const struct str *s)
{
	if (c->vendor != VENDOR_INTEL || !s->rep || s->mask != 0xffffffff)
		return;
	c->gpr[R_RCX] = (u32)c->gpr[R_RCX];
	if (i->op == OP_MOVS)
		c->gpr[R_RSI] = (u32)c->gpr[R_RSI];
	if (i->op == OP_MOVS || i->op == OP_STOS)
		c->gpr[R_RDI] = (u32)c->gpr[R_RDI];
}

bool str_begin(struct cpu *c, const struct insn *i, struct str *s)
{
	s->n = i->opsize;
	s->mask = i->adsize == 8 ? ~0ull : i->adsize == 4 ? 0xffffffffull : 0xffffull;
	s->rep = i->flags & (INSN_REP | INSN_REPNE);
	s->down = c->rflags & RF_DF;
	s->left = s->rep ? c->gpr[R_RCX] & s->mask : 1;
	if (!s->left)
		str_none_done(c, i, s);
	return s->left != 0;
}

static void put_masked(struct cpu *c, const struct str *s, unsigned reg, u64 v)
{
	if (s->mask == 0xffff)
		c->gpr[reg] = (c->gpr[reg] & ~s->mask) | (v & s->mask);
	else
		c->gpr[reg] = v & s->mask;
}

void str_advance(struct cpu *c, const struct str *s, unsigned reg, u64 count)
{
	u64 bytes = count * s->n;

	put_masked(c, s, reg, s->down ? c->gpr[reg] - bytes : c->gpr[reg] + bytes);
}

enum emul str_step_done(struct cpu *c, const struct insn *i, struct str *s, u64 count)
{
	u32 attn;

	(void)i;
	s->left -= count;
	if (!s->rep)
		return EMUL_CONTINUE;
	put_masked(c, s, R_RCX, s->left);
	attn = atomic_load_explicit(&c->attn, memory_order_relaxed);
	if (attn & ATTN_COMMIT) {
		atomic_fetch_and_explicit(&c->attn, ~ATTN_COMMIT, memory_order_relaxed);
		c->ops->commit(c);
	}
	if (!s->left)
		return EMUL_CONTINUE;
	if (attn & ~ATTN_COMMIT || c->rflags & RF_TF || c->gdb.singlestep)
		return EMUL_RETRY;
	return EMUL_END;
}

/* Elements from @off on that stay inside the page and do not wrap. */
static u64 room(const struct str *s, u64 off, gva_t lin)
{
	u64 in_page = lin & ~PAGE_MASK, bytes;

	if (s->down) {
		if (in_page + s->n > PAGE_SIZE)
			return 0;
		bytes = MIN(in_page, off);
		return bytes / s->n + 1;
	}
	bytes = PAGE_SIZE - in_page;
	if (s->mask - off < bytes - 1)
		bytes = s->mask - off + 1;
	return bytes / s->n;
}

enum emul str_chunk(struct cpu *c, const struct str *s, unsigned seg, unsigned reg,
		    bool write, u64 max, u8 **host, gva_t *lin, u64 *count)
{
	u64 off = c->gpr[reg] & s->mask, k, span;
	gva_t other;
	void *p = NULL;
	enum emul r = seg_linear_slow(c, seg, off, s->n, write, lin);

	*host = NULL;
	*count = 1;
	if (r != EMUL_CONTINUE)
		return r;
	k = MIN(room(s, off, *lin), max);
	if (!k)
		return EMUL_CONTINUE;
	span = (k - 1) * s->n;
	if (k > 1 && c->code_bits != 64) {
		/* The far end must pass the limit too; else one at a time. */
		struct fault keep = c->mmu.fault;

		r = seg_linear_slow(c, seg, s->down ? off - span : off + span, s->n, write,
				    &other);
		if (r != EMUL_CONTINUE) {
			c->mmu.fault = keep;
			k = 1;
			span = 0;
		}
	}
	other = s->down ? *lin - span : *lin;
	r = mmu_page(&c->mmu, other, (unsigned)(k * s->n), write, 0, &p);
	/* Going down, the fault names the current element: let it find out. */
	if (r != EMUL_CONTINUE)
		return r == EMUL_FAULT && s->down ? EMUL_CONTINUE : r;
	if (p) {
		*host = p;
		*count = k;
	}
	return EMUL_CONTINUE;
}
