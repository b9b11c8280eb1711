/* SPDX-License-Identifier: MIT */
/*
 * IN OUT INS OUTS.
 *
 * The owner answers through ops->pio.  A port read has side effects, so INS
 * makes sure that it can store before it asks.
 */
#include <string.h>

#include "cpu/debug.h"
#include "cpu/strop.h"

#define TSS_TYPE_32	 0x9  /* available; busy is 0xb */
#define TSS_IOBASE	 102  /* offset of the I/O map base in a 32/64-bit TSS */
#define IO_BUFFER_BYTES	 1024

/* May the bitmap of the TSS be read, and does it allow @size ports at @port?
 * The processor reads two bytes always (SDM Vol. 1 "I/O Permission Bit Map"). */
static enum emul check_bitmap(struct cpu *c, u16 port, unsigned size)
{
	const struct segment *tr = &c->seg[SEG_TR];
	u16 base, bits;
	u32 at;
	enum emul r;

	if ((tr->attr & (SEG_TYPE & ~2u)) != TSS_TYPE_32 || tr->limit < TSS_IOBASE + 1)
		return cpu_gp(c, 0);
	r = mmu_read(&c->mmu, tr->base + TSS_IOBASE, &base, 2, ACC_IMPLICIT);
	if (r != EMUL_CONTINUE)
		return r;
	at = base + port / 8u;
	if (at + 1 > tr->limit)
		return cpu_gp(c, 0);
	r = mmu_read(&c->mmu, tr->base + at, &bits, 2, ACC_IMPLICIT);
	if (r != EMUL_CONTINUE)
		return r;
	if (bits >> (port & 7) & ((1u << size) - 1))
		return cpu_gp(c, 0);
	return EMUL_CONTINUE;
}

static enum emul check_port(struct cpu *c, u16 port, unsigned size)
{
	unsigned iopl = (c->rflags & RF_IOPL) >> RF_IOPL_SHIFT;

	if (!(c->mmu.cr0 & CR0_PE))
		return EMUL_CONTINUE;
	if (!(c->rflags & RF_VM) && c->mmu.cpl <= iopl)
		return EMUL_CONTINUE;
	return check_bitmap(c, port, size);
}

/* I/O breakpoints trap after the access. */
static void io_done(struct cpu *c, u16 port, unsigned size)
{
	c->ops->commit(c);
	if (unlikely(c->mmu.cr4 & CR4_DE)) {
		u32 hits = debug_io_hits(c, port, size);

		if (hits) {
			c->pending_dbg |= hits;
			__atomic_fetch_or((u32 *)&c->attn, ATTN_TRAP, __ATOMIC_RELAXED);
		}
	}
}

static u16 port_of(const struct cpu *c, const struct insn *i, const struct operand *o)
{
	return o->kind == OPD_IMM ? (u16)i->imm : (u16)c->gpr[R_RDX];
}

static enum emul in(struct cpu *c, const struct insn *i)
{
	unsigned size = i->opnd[0].size, count = 1;
	u16 port = port_of(c, i, &i->opnd[1]);
	u32 v = 0;
	enum emul r = check_port(c, port, size);

	if (r != EMUL_CONTINUE)
		return r;
	r = c->ops->pio(c, port, size, &v, &count, false);
	if (r != EMUL_CONTINUE)
		return r;
	gpr_put(c, R_RAX, size, v);
	io_done(c, port, size);
	return EMUL_CONTINUE;
}

static enum emul out(struct cpu *c, const struct insn *i)
{
	unsigned size = i->opnd[1].size, count = 1;
	u16 port = port_of(c, i, &i->opnd[0]);
	u32 v = (u32)c->gpr[R_RAX];
	enum emul r = check_port(c, port, size);

	if (r != EMUL_CONTINUE)
		return r;
	r = c->ops->pio(c, port, size, &v, &count, true);
	if (r == EMUL_CONTINUE)
		io_done(c, port, size);
	return r;
}

/* How many elements to ask for at once: RAM in one page, one buffer. */
static enum emul io_chunk(struct cpu *c, const struct insn *i, const struct str *s,
			  bool write, u64 max, gva_t *lin, u64 *count)
{
	u8 *host;

	max = MIN(max, IO_BUFFER_BYTES / s->n);
	if (s->down)
		max = 1;
	return str_chunk(c, s, write ? SEG_ES : i->seg, write ? R_RDI : R_RSI, write, max,
			 &host, lin, count);
}

static enum emul ins_step(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			  u64 *done)
{
	u8 buf[IO_BUFFER_BYTES];
	u64 k;
	gva_t lin;
	unsigned count;
	enum emul r = io_chunk(c, i, s, true, max, &lin, &k);

	if (r == EMUL_CONTINUE)
		r = mmu_probe_write(&c->mmu, lin, (unsigned)k * s->n, 0);
	if (r != EMUL_CONTINUE)
		return r;
	count = (unsigned)k;
	memset(buf, 0, count * s->n);
	r = c->ops->pio(c, (u16)c->gpr[R_RDX], s->n, buf, &count, false);
	if (r != EMUL_CONTINUE)
		return r;
	count = MIN(count, (unsigned)k);
	r = mmu_write(&c->mmu, lin, buf, count * s->n, 0);
	if (r != EMUL_CONTINUE)
		return r;
	*done = count;
	str_advance(c, s, R_RDI, *done);
	return EMUL_CONTINUE;
}

static enum emul outs_step(struct cpu *c, const struct insn *i, struct str *s, u64 max,
			   u64 *done)
{
	u8 buf[IO_BUFFER_BYTES];
	u64 k;
	gva_t lin;
	unsigned count;
	enum emul r = io_chunk(c, i, s, false, max, &lin, &k);

	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin, buf, (unsigned)k * s->n, 0);
	if (r != EMUL_CONTINUE)
		return r;
	count = (unsigned)k;
	r = c->ops->pio(c, (u16)c->gpr[R_RDX], s->n, buf, &count, true);
	if (r != EMUL_CONTINUE)
		return r;
	*done = MIN(count, (unsigned)k);
	str_advance(c, s, R_RSI, *done);
	return EMUL_CONTINUE;
}

static enum emul io_string(struct cpu *c, const struct insn *i)
{
	struct str s;
	u64 done;
	enum emul r = check_port(c, (u16)c->gpr[R_RDX], i->opsize);

	if (r != EMUL_CONTINUE || !str_begin(c, i, &s))
		return r;
	do {
		bool one = !s.rep || c->rflags & RF_TF || c->gdb.singlestep;

		r = i->op == OP_INS ? ins_step(c, i, &s, one ? 1 : s.left, &done) :
				      outs_step(c, i, &s, one ? 1 : s.left, &done);
		if (r != EMUL_CONTINUE)
			return r;
		r = str_step_done(c, i, &s, done);
		io_done(c, (u16)c->gpr[R_RDX], s.n);
	} while (r == EMUL_END);
	return r;
}

op_fn io_select(const struct insn *i)
{
	switch (i->op) {
	case OP_IN:
		return in;
	case OP_OUT:
		return out;
	case OP_INS:
	case OP_OUTS:
		return io_string;
	default:
		return NULL;
	}
}
