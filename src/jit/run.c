/* SPDX-License-Identifier: MIT */
/* The dispatcher: blocks are looked up, translated, linked and entered. */
#include "jit/jit.h"

#include <errno.h>
#include <stdlib.h>

#include "cpu/hostcpu.h"
#include "cpu/interp.h"
#include "cpu/interp_int.h"
#include "jit/jit_int.h"

#define ARENA_BYTES (64ul << 20)
#define MAX_HEADS   (1u << 19)
#define HOT	    2

bool jit_supported(void)
{
	const struct hostcpu *h = hostcpu();

	return h->bmi1 && h->bmi2 && h->popcnt && h->lzcnt && h->movbe && h->xsave && h->avx;
}

int jit_init(struct cpu *c, bool exact, bool count)
{
	struct jit *j;
	int r;

	if (!jit_supported())
		return -ENOSYS;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->hot = HOT;
	j->exact = exact;
	j->count = count;
	j->max_heads = MAX_HEADS;
	j->heads = calloc(MAX_HEADS, sizeof(*j->heads));
	r = j->heads && jumps_init(j) ? arena_create(&j->arena, ARENA_BYTES) : -ENOMEM;
	if (r) {
		free(j->heads);
		jumps_fini(j);
		free(j);
		return r;
	}
	jit_stubs(j);
	c->translator = j;
	c->jit.page_bits = PAGE_MASK;
	c->jit.sse_off = c->jit.avx_off = c->jit.x87_off = 1;
	return 0;
}

void jit_fini(struct cpu *c)
{
	struct jit *j = c->translator;

	if (!j)
		return;
	arena_destroy(&j->arena);
	free(j->heads);
	jumps_fini(j);
	free(j);
	c->translator = NULL;
}

void jit_flush(struct cpu *c)
{
	struct jit *j = c->translator;

	icache_flush(c->icache);
	j->nheads = 0;
	j->arena.used = (size_t)(j->stubs_end - j->arena.rw);
}

/* --- the loop --------------------------------------------------------------------- */

static bool wants_attention(const struct cpu *c)
{
	return interp_attn(c);
}

static bool translatable(const struct cpu *c, const struct block *b)
{
	return b->bits == 64 && b->page && !b->ntail &&
	       !(c->rflags & RF_AC && c->mmu.cpl == 3 && c->mmu.cr0 & CR0_AM);
}

/* b->native, made if it is time.  NULL: the interpreter runs the block. */
static struct translation *native_of(struct cpu *c, struct block *b)
{
	if (b->native)
		return b->native;
	if (b->runs == UINT8_MAX || ++b->runs < c->translator->hot)
		return NULL;
	if (jit_translate(c, b, false))
		return b->native;
	b->runs = UINT8_MAX; /* not again */
	return NULL;
}

static void link_blocks(struct cpu *c, struct jit *j, u64 at, const struct block *to)
{
	const struct block *from = (const struct block *)(uintptr_t)c->jit.tmp[0];
	struct emitter e = { NULL, j->arena.rw + j->arena.bytes };

	if (from->page == to->page && to->native)
		emit_link(&e, j->arena.rw + at,
			  j->arena.rw + ((const struct translation *)to->native)->inner);
}

/* A host fault in the code of an instruction: c->rip is made its address. */
static void recover(struct cpu *c, struct jit *j, u64 pc)
{
	u32 at = (u32)(pc - (u64)(uintptr_t)j->arena.rx), low = 0, high = j->nheads;
	const struct translation *n;
	unsigned off, k;

	while (high - low > 1) {
		u32 mid = (low + high) / 2;

		if (j->heads[mid] <= at)
			low = mid;
		else
			high = mid;
	}
	n = (const struct translation *)(const void *)(j->arena.rw + j->heads[low]);
	off = n->block->off;
	for (k = 0; k + 1 < n->n && n->insn[k + 1] <= at; k++)
		off += n->block->code[k].insn.len;
	c->rip = c->jit.rip_page + off;
	jit_x87_recover(c, n->block, k);
}

/* Before translated code runs out of room all of it goes. */
static bool is_full(const struct jit *j)
{
	return j->nheads == j->max_heads || j->arena.used + (256u << 10) > j->arena.bytes;
}

/* A window or a group did not fit: the jump at @at leads to the same instruction,
 * at c->rip, of the block's plain translation from now on.  Return: offset of
 * its code; 0: there is no such translation. */
static u32 plain_of(struct cpu *c, struct jit *j, u64 at)
{
	struct block *b = (struct block *)(uintptr_t)c->jit.tmp[0];
	struct translation *n = b->native, *plain;
	struct emitter e = { NULL, j->arena.rw + j->arena.bytes };
	u64 off = c->rip - c->jit.rip_page - b->off;
	unsigned k = 0;

	plain = n->plain ? (struct translation *)(void *)(j->arena.rw + n->plain)
			 : jit_translate(c, b, true);
	if (!plain)
		return 0;
	for (; off && k < plain->n; k++)
		off -= b->code[k].insn.len;
	emit_link(&e, j->arena.rw + at, j->arena.rw + plain->insn[k]);
	return plain->insn[k];
}

/* Run @n, at c->rip, and what follows. */
static u64 enter(struct cpu *c, struct jit *j, const struct translation *n)
{
	u64 x = j->enter(c, j->arena.rx + n->entry);

	while ((x & 0xff) == JIT_PLAIN) {
		bool vector = !c->jit.sse_off, x87 = !c->jit.x87_off;
		u32 plain;

		jit_vector_save(c);
		plain = plain_of(c, j, x >> 32);
		if (!plain)
			break;
		x = jit_enter_with(c, j->arena.rx + plain, vector, x87);
	}
	jit_vector_save(c);
	return x;
}

static enum emul jit_blocks(struct cpu *c)
{
	struct jit *j = c->translator;
	u64 link = 0, drops = 0, x;

	for (;;) {
		struct translation *n = NULL;
		struct block *b;
		enum emul r;

		if (unlikely(is_full(j)))
			jit_flush(c);
		r = icache_lookup(c, c->code_bits == 64 ? c->rip : (u32)(c->seg[SEG_CS].base + c->rip),
				  &b);
		if (r != EMUL_CONTINUE)
			return r;
		if (translatable(c, b) && !j->full)
			n = native_of(c, b);
		j->full = false;
		if (!n) {
			r = interp_block(c, b);
			if (r != EMUL_CONTINUE || wants_attention(c))
				return r;
			link = 0;
			continue;
		}
		if (link && drops == c->icache->drops)
			link_blocks(c, j, link, b);
		jumps_remember(c, jumps_select(c), c->rip, n);
		x = enter(c, j, n);
		link = 0;
		switch ((enum jit_exit)(x & 0xff)) {
		case JIT_FAULT:
			recover(c, j, j->fault_pc);
			return EMUL_INTERCEPT;
		case JIT_OUTCOME:
			if ((enum emul)(x >> 8 & 0xff) != EMUL_CONTINUE)
				return (enum emul)(x >> 8 & 0xff);
			break;
		case JIT_LINK:
			link = x >> 32;
			drops = c->icache->drops;
			break;
		case JIT_PLAIN:
			j->full = true; /* the interpreter runs it this once */
			break;
		case JIT_LOOKUP:
			break;
		}
		if (wants_attention(c))
			return EMUL_CONTINUE;
	}
}

bool jit_step(struct cpu *c, unsigned limit, enum engine_exit *exit)
{
	struct jit *j = c->translator;
	struct block *b;
	enum emul r;
	u64 x;

	/* Translated code would return at once if attention is wanted. */
	if (interp_wants_step(c) || wants_attention(c))
		return interp_step(c, exit);
	if (is_full(j))
		jit_flush(c);
	j->limit = limit;
	j->nochain = true;
	r = icache_lookup(c, c->rip, &b);
	if (r != EMUL_CONTINUE)
		return interp_settle(c, r, exit);
	if (!translatable(c, b) || !jit_translate(c, b, false))
		return interp_step(c, exit);
	jumps_select(c);
	jit_see_mode(c);
	x = enter(c, j, b->native);
	if ((x & 0xff) == JIT_PLAIN)
		return interp_step(c, exit);
	if ((x & 0xff) == JIT_FAULT) {
		recover(c, j, j->fault_pc);
		return interp_step(c, exit);
	}
	r = (x & 0xff) == JIT_OUTCOME ? (enum emul)(x >> 8 & 0xff) : EMUL_CONTINUE;
	return interp_settle(c, r, exit);
}

static enum engine_exit jit_run(struct cpu *c)
{
	enum engine_exit exit;

	jit_see_mode(c);
	exit = interp_loop(c, jit_blocks);
	c->stats->instructions += c->jit.blocks_n;
	c->jit.blocks_n = 0;
	return exit;
}

u64 jit_fault(struct cpu *c, u64 pc)
{
	struct jit *j = c->translator;

	if (!j || pc - (u64)(uintptr_t)j->arena.rx >= j->arena.bytes)
		return 0;
	j->fault_pc = pc;
	return (u64)(uintptr_t)arena_code(&j->arena, j->exit_fault);
}

const struct engine engine_jit = { .name = "jit", .run = jit_run };
