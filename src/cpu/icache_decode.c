/* SPDX-License-Identifier: MIT */
/*
 * Bytes -> a block: fetch, decode, and the choice of each handler.
 *
 * Bytes come from the page's saved copy, so what is compared later is what was
 * decoded.  Everything that would make an instruction undefined on this vCPU
 * (CPUID, privilege) is decided here or in a handler chosen here.
 */
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/hostcpu.h"
#include "cpu/icache.h"
#include "cpu/interp_int.h"

/* --- handlers for what cannot be executed as such -------------------------------- */

static enum emul op_undefined(struct cpu *c, const struct insn *i)
{
	(void)i;
	return cpu_ud(c);
}

static enum emul op_too_long(struct cpu *c, const struct insn *i)
{
	(void)i;
	return cpu_gp(c, 0);
}

/* Privileged: the privilege is known at execution only. */
static enum emul op_privileged(struct cpu *c, const struct insn *i)
{
	op_fn fn;

	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	fn = op_select(i);
	return fn ? fn(c, i) : interp_missing(c, i);
}

/* A client that sets no CPUID at all gets everything we can execute, as it
 * would on a real processor. */
static bool has_feature(const struct cpu *c, unsigned feature)
{
	return !c->cpuid || !c->cpuid->n || cpuid_has_feature(c->cpuid, feature);
}

/* What runs on the host's own instructions needs them, whatever the client's table
 * says.  CRC32 came with SSE4.2 but is computed where the host lacks it. */
static bool is_offered(const struct cpu *c, const struct insn *i,
		       const struct insn_row *row)
{
	unsigned feature = i->op == OP_CMPXCHG16B ? FEAT_CX16 : row->feature;

	if ((row->attr & ROW_AVX) && !(has_feature(c, FEAT_AVX) && hostcpu_runs(FEAT_AVX)))
		return false;
	return has_feature(c, feature) && (hostcpu_runs(feature) || i->op == OP_CRC32);
}

/* VEX-encoded instructions on general registers: not in real and virtual-8086 mode. */
static enum emul op_vex_integer(struct cpu *c, const struct insn *i)
{
	op_fn fn;

	if (!(c->mmu.cr0 & CR0_PE) || (c->rflags & RF_VM))
		return cpu_ud(c);
	fn = op_select(i);
	return fn ? fn(c, i) : interp_missing(c, i);
}

/* Without LZCNT and TZCNT their bytes are BSR and BSF with a prefix that means
 * nothing. */
static void reinterpret(const struct cpu *c, struct insn *i)
{
	if (!c->cpuid || !c->cpuid->n)
		return;
	if (i->op == OP_LZCNT && !cpuid_has(c->cpuid, CPUID_LZCNT))
		i->op = OP_BSR;
	else if (i->op == OP_TZCNT && !cpuid_has(c->cpuid, CPUID_BMI1))
		i->op = OP_BSF;
}

/* Handlers of instructions that are common in kernels look at CPL first themselves. */
static bool checks_cpl(const struct insn *i)
{
	switch (i->op) {
	case OP_CLTS: case OP_HLT: case OP_INVLPG: case OP_INVPCID: case OP_MOV_CR:
	case OP_RDMSR: case OP_SWAPGS: case OP_SYSRET: case OP_WRMSR:
		return true;
	default:
		return false;
	}
}

static op_fn choose(const struct cpu *c, struct insn *i)
{
	const struct insn_row *row = insn_row(i->row);
	op_fn fn;

	reinterpret(c, i);
	if (!is_offered(c, i, row))
		return op_undefined;
	if ((i->flags & INSN_VEX) && !(row->attr & ROW_AVX) && c->code_bits != 64)
		return op_vex_integer;
	if (row->attr & ROW_PRIV && !checks_cpl(i))
		return op_privileged;
	fn = op_select(i);
	return fn ? fn : interp_missing;
}

static bool ends_block(const struct insn *i)
{
	return i->flags & (INSN_BRANCH | INSN_ENDS);
}

/* Fill @e from the outcome of decode().  Return: true if the block ends here. */
static bool finish_insn(struct cpu *c, struct icode *e, enum decode_status status)
{
	if (status == DECODE_OK) {
		e->fn = choose(c, &e->insn);
		return ends_block(&e->insn) || e->fn == op_undefined;
	}
	/* A fault whatever the state: nothing of the insn is used but its address. */
	memset(&e->insn, 0, sizeof(e->insn));
	e->insn.len = 1;
	e->insn.flags = INSN_ENDS;
	e->fn = status == DECODE_TOOLONG ? op_too_long : op_undefined;
	return true;
}

static void finish_block(struct cpu *c, struct block *b, unsigned n, unsigned bytes)
{
	bool branch = b->code[n - 1].insn.flags & INSN_BRANCH;

	b->n = (u8)n;
	b->body = (u8)(branch ? n - 1 : n);
	b->bytes = (u16)bytes;
	b->bits = c->code_bits;
	b->chain[0] = b->chain[1] = NULL;
	b->native = NULL;
	b->live_known = false;
	b->runs = 0;
	c->stats->blocks_decoded++;
}

static struct decode_mode mode_of(const struct cpu *c)
{
	return (struct decode_mode){ .bits = c->code_bits, .vendor = c->vendor };
}

/* --- an instruction that is not kept, or that crosses the page end --------------- */

/*
 * Decode the instruction at @pc from fresh bytes.  The next page is touched
 * only if the instruction reaches into it; its fault is reported then, at its
 * first byte.  @first: bytes of it in the first page.
 */
static enum emul decode_single(struct cpu *c, gva_t pc, struct icode *e, u8 *bytes,
			       unsigned *first)
{
	struct decode_mode mode = mode_of(c);
	unsigned in_page = (unsigned)(PAGE_SIZE - (pc & ~PAGE_MASK));
	unsigned n = MIN(in_page, (unsigned)INSN_MAX_LEN);
	enum decode_status status;
	enum emul r = mmu_fetch_bytes(&c->mmu, pc, bytes, n);

	if (r != EMUL_CONTINUE)
		return r;
	*first = n;
	status = decode(bytes, n, &mode, &e->insn);
	if (status == DECODE_SHORT && n < INSN_MAX_LEN) {
		gva_t second = pc + n;

		if (c->code_bits != 64)
			second = (u32)second;
		r = mmu_fetch_bytes(&c->mmu, second, bytes + n, INSN_MAX_LEN - n);
		if (r != EMUL_CONTINUE)
			return r;
		status = decode(bytes, INSN_MAX_LEN, &mode, &e->insn);
	}
	if (status == DECODE_SHORT)
		status = DECODE_TOOLONG;
	finish_insn(c, e, status);
	return EMUL_CONTINUE;
}

static enum emul decode_scratch(struct cpu *c, gva_t pc, struct block **out)
{
	struct block *b = c->icache->scratch;
	u8 bytes[INSN_MAX_LEN];
	unsigned first;
	enum emul r = decode_single(c, pc, &b->code[0], bytes, &first);

	if (r != EMUL_CONTINUE)
		return r;
	b->page = NULL;
	b->bp = NULL;
	b->off = (u16)(pc & ~PAGE_MASK);
	b->ntail = 0;
	finish_block(c, b, 1, b->code[0].insn.len);
	*out = b;
	return EMUL_CONTINUE;
}

/* The first page's bytes are watched like any code; the second's are kept in
 * the block and compared at each execution. */
static enum emul decode_crossing(struct cpu *c, struct cpage *p, gva_t pc, struct block **out)
{
	struct icode e;
	u8 bytes[INSN_MAX_LEN];
	unsigned off = (unsigned)(pc & ~PAGE_MASK), first;
	struct block *b;
	enum emul r = decode_single(c, pc, &e, bytes, &first);

	if (r != EMUL_CONTINUE)
		return r;
	if (e.insn.len <= first || memcmp(bytes, p->copy + off, first))
		return EMUL_RETRY; /* it changed under our hands, or is a fault */
	b = icache_alloc(c->icache, p, 1);
	if (!b)
		return EMUL_RETRY;
	b->page = p;
	b->bp = p->bp;
	b->off = (u16)off;
	b->code[0] = e;
	b->ntail = (u8)(e.insn.len - first);
	memcpy(b->tail, bytes + first, b->ntail);
	finish_block(c, b, 1, e.insn.len);
	*out = b;
	return EMUL_CONTINUE;
}

/* --- a block -------------------------------------------------------------------- */

/* Decode from the copy until the block ends.  Return: how many instructions;
 * 0: the first one reaches beyond the page; *retry: the page changed. */
static unsigned decode_run(struct cpu *c, struct cpage *p, const struct mmu_code *code,
			   unsigned off, struct icode *e, unsigned *bytes, bool *retry)
{
	struct decode_mode mode = mode_of(c);
	unsigned n = 0, at = off;

	*retry = false;
	while (n < ICACHE_BLOCK_MAX && at < PAGE_SIZE) {
		unsigned avail = MIN((unsigned)PAGE_SIZE - at, (unsigned)INSN_MAX_LEN);
		enum decode_status status;
		bool end;

		if (!icache_line(c, p, code, at, avail)) {
			*retry = true;
			return 0;
		}
		status = decode(p->copy + at, avail, &mode, &e[n].insn);
		if (status == DECODE_SHORT)
			break;
		end = finish_insn(c, &e[n], status);
		at += e[n].insn.len;
		n++;
		if (end)
			break;
	}
	*bytes = at - off;
	return n;
}

enum emul icache_decode(struct cpu *c, struct cpage *p, const struct mmu_code *code,
			gva_t pc, struct block **out)
{
	struct icode *e;
	unsigned off = (unsigned)(pc & ~PAGE_MASK), n, bytes = 0;
	struct block *b;
	bool retry;

	if (!p)
		return decode_scratch(c, pc, out);
	e = c->icache->scratch->code;
	n = decode_run(c, p, code, off, e, &bytes, &retry);
	if (retry)
		return EMUL_RETRY;
	if (!n)
		return decode_crossing(c, p, pc, out);
	b = icache_alloc(c->icache, p, n);
	if (!b)
		return EMUL_RETRY;
	b->page = p;
	b->bp = p->bp;
	b->off = (u16)off;
	b->ntail = 0;
	memcpy(b->code, e, n * sizeof(*e));
	finish_block(c, b, n, bytes);
	*out = b;
	return EMUL_CONTINUE;
}
