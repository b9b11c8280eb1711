/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's run loop.
 *
 * Fast path: a block's handlers one after the other, the next block by a chain
 * pointer inside the page, else by lookup.  The attention word is looked at
 * after every instruction (one load and compare), so own code changes, requests
 * of other threads and answers to be dropped are served at once.  Anything
 * unusual (TF, shadows, debugging, an instruction to be repeated) goes one
 * instruction at a time: step.c.
 */
#include "cpu/interp.h"

#include <errno.h>
#include <stdlib.h>

#include "cpu/debug.h"
#include "cpu/exc.h"
#include "cpu/interp_int.h"

int interp_init(struct cpu *c, const struct icache_config *config)
{
	c->icache = icache_create(config);
	c->interp = calloc(1, sizeof(struct interp));
	if (!c->icache || !c->interp) {
		interp_fini(c);
		return -ENOMEM;
	}
	return 0;
}

void interp_fini(struct cpu *c)
{
	icache_destroy(c->icache);
	free(c->interp);
	c->icache = NULL;
	c->interp = NULL;
}

enum emul interp_missing(struct cpu *c, const struct insn *i)
{
	return cpu_refuse(c, insn_row_name(i->row));
}

const char *interp_error_text(const struct cpu *c)
{
	return c->refused ? c->refused : "";
}

/* --- ends of instructions ----------------------------------------------------- */

static void commit(struct cpu *c)
{
	struct interp *in = cpu_interp(c);

	if (in->redo || interp_attn(c) & ATTN_COMMIT) {
		in->redo = false;
		interp_attn_clear(c, ATTN_COMMIT);
		c->ops->commit(c);
	}
}

/* The record of answers stays: the instruction will ask again. */
static void keep_answers(struct cpu *c, bool always)
{
	if (always || interp_attn(c) & ATTN_COMMIT)
		cpu_interp(c)->redo = true;
	interp_attn_clear(c, ATTN_COMMIT);
}

static bool client_takes_db(const struct cpu *c)
{
	return c->gdb.enabled && (c->gdb.singlestep || c->gdb.hw_bp);
}

static bool debug_exit(struct cpu *c, u8 vector, u64 dr6, enum engine_exit *exit)
{
	c->debug_exit.vector = vector;
	c->debug_exit.pc = interp_pc(c);
	c->debug_exit.dr6 = dr6;
	*exit = ENGINE_DEBUG;
	return false;
}

static bool deliver_fault(struct cpu *c, enum engine_exit *exit)
{
	if (c->mmu.fault.vector == EXC_DB && client_takes_db(c))
		return debug_exit(c, EXC_DB, c->mmu.fault.dr6 | DR6_FIXED_1, exit);
	switch (exc_deliver_fault(c)) {
	case EMUL_IO:
		keep_answers(c, true);
		*exit = ENGINE_IO;
		return false;
	case EMUL_INTERCEPT:
		*exit = ENGINE_ERROR;
		return false;
	default:
		commit(c);
		return true;
	}
}

bool interp_settle(struct cpu *c, enum emul r, enum engine_exit *exit)
{
	switch (r) {
	case EMUL_CONTINUE:
	case EMUL_END:
		commit(c);
		return true;
	case EMUL_RETRY:
		keep_answers(c, false);
		if (unlikely(c->mmu.starved)) /* the owner says so */
			atomic_fetch_or(&c->attn, ATTN_EXIT);
		return true;
	case EMUL_FAULT:
		commit(c);
		return deliver_fault(c, exit);
	case EMUL_IO:
		keep_answers(c, true);
		*exit = ENGINE_IO;
		return false;
	default:
		*exit = ENGINE_ERROR;
		return false;
	}
}

bool interp_trap(struct cpu *c, enum engine_exit *exit)
{
	c->mmu.fault = (struct fault){ .vector = EXC_DB, .dr6 = (u32)c->pending_dbg };
	c->pending_dbg = 0;
	return deliver_fault(c, exit);
}

/* --- between blocks ----------------------------------------------------------- */

/* Everything that is looked at between instructions.  False: *exit. */
static noinline bool boundary_slow(struct cpu *c, u32 attn, enum engine_exit *exit)
{
	if (c->shutdown) {
		*exit = ENGINE_SHUTDOWN;
		return false;
	}
	interp_attn_clear(c, ATTN_CODE | ATTN_SHADOW | ATTN_TRAP);
	if (attn & ATTN_MEM)
		mmu_poll(&c->mmu);
	if (c->pending_dbg && !(c->shadow & SHADOW_MOVSS) && !interp_trap(c, exit))
		return false;
	if (attn & ATTN_EXIT || (attn & ATTN_EVENT && !c->shadow)) {
		*exit = ENGINE_EVENT;
		return false;
	}
	if (c->halted) {
		*exit = ENGINE_HALT;
		return false;
	}
	return true;
}

static always_inline bool boundary(struct cpu *c, enum engine_exit *exit)
{
	u32 attn = interp_attn(c);

	if (likely(!attn && !c->halted && !c->shutdown && !c->pending_dbg))
		return true;
	return boundary_slow(c, attn, exit);
}

/* Outside 64-bit mode: the block must end inside the limit and must not wrap. */
static always_inline bool fits_segment(const struct cpu *c, const struct block *b)
{
	u64 last;

	if (likely(c->code_bits == 64))
		return true;
	last = c->rip + b->bytes - 1;
	return last <= c->seg[SEG_CS].limit && last <= interp_rip_mask(c);
}

/* --- blocks -------------------------------------------------------------------- */

/* Run @b.  Leaves at the first instruction that does not simply continue, or
 * when attention is wanted. */
static always_inline enum emul run_block(struct cpu *c, const struct block *b)
{
	const struct icode *e = b->code, *end = e + b->body;
	u64 rip = c->rip, mask = interp_rip_mask(c);
	enum emul r = EMUL_CONTINUE;

	for (; e != end; e++) {
		r = e->fn(c, &e->insn);
		if (unlikely(r != EMUL_CONTINUE || interp_attn(c))) {
			if (r == EMUL_CONTINUE || r == EMUL_END) {
				c->rip = (rip + e->insn.len) & mask;
				e++;
			}
			goto out;
		}
		rip = (rip + e->insn.len) & mask;
		c->rip = rip;
	}
	if (b->body != b->n) {
		r = e->fn(c, &e->insn);
		if (r == EMUL_CONTINUE || r == EMUL_END)
			e++;
	}
out:
	c->stats->instructions += (u64)(e - b->code);
	return r;
}

/* The block that follows @b at @pc in the same page, if it did so before. */
static always_inline struct block *chained(const struct cpu *c, const struct block *b, gva_t pc)
{
	unsigned off = (unsigned)(pc & ~PAGE_MASK);
	struct block *n = b->chain[0];

	if (!n || n->off != off) {
		n = b->chain[1];
		if (!n || n->off != off)
			return NULL;
	}
	return icache_current(c, n) ? n : NULL;
}

static void chain(struct cpu *c, struct block *b, struct block *n, u64 drops)
{
	if (drops != c->icache->drops || n == c->icache->scratch || n->ntail || !b->page ||
	    n->page != b->page)
		return;
	b->chain[1] = b->chain[0];
	b->chain[0] = n;
}

/*
 * From block to block.  Inside one page a chain pointer may be followed without
 * asking the TLB: whatever changes the mapping or the privilege ends this loop
 * (EMUL_END, or attention).
 */
static enum emul run_blocks(struct cpu *c)
{
	gva_t pc = interp_pc(c);
	struct block *b;
	enum emul r = icache_lookup(c, pc, &b);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	for (;;) {
		gva_t from = pc;
		struct block *n = NULL;
		u64 drops;

		if (unlikely(!fits_segment(c, b)))
			return EMUL_INTERCEPT;
		r = run_block(c, b);
		if (unlikely(r != EMUL_CONTINUE || interp_attn(c)))
			return r;
		pc = interp_pc(c);
		if (likely(!((pc ^ from) & PAGE_MASK)))
			n = chained(c, b, pc);
		if (unlikely(!n)) {
			drops = c->icache->drops;
			r = icache_lookup(c, pc, &n);
			if (unlikely(r != EMUL_CONTINUE))
				return r;
			if (!((pc ^ from) & PAGE_MASK))
				chain(c, b, n, drops);
		}
		b = n;
	}
}

enum emul interp_block(struct cpu *c, const struct block *b)
{
	return likely(fits_segment(c, b)) ? run_block(c, b) : EMUL_INTERCEPT;
}

enum engine_exit interp_loop(struct cpu *c, enum emul (*blocks)(struct cpu *c))
{
	enum engine_exit exit = ENGINE_ERROR;

	if (c->event.kind != EVENT_NONE) {
		enum emul r = exc_deliver_event(c);

		if (!interp_settle(c, r, &exit))
			return exit;
	}
	for (;;) {
		enum emul r;

		if (!boundary(c, &exit))
			return exit;
		if (unlikely(interp_wants_step(c))) {
			if (!interp_step(c, &exit))
				return exit;
			continue;
		}
		c->refused = NULL;
		r = blocks(c);
		if (r == EMUL_INTERCEPT && !c->refused) {
			/* At the end of a code segment: with its checks. */
			if (!interp_step(c, &exit))
				return exit;
			continue;
		}
		if (!interp_settle(c, r, &exit))
			return exit;
	}
}

static enum engine_exit interp_run(struct cpu *c)
{
	return interp_loop(c, run_blocks);
}

const struct engine engine_interp = { .name = "interp", .run = interp_run };
