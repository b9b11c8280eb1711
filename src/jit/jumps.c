/* SPDX-License-Identifier: MIT */
/*
 * Jump caches: from a gva to its translation, one table a context.
 *
 * Compiled without vector instructions (mk/jit.mk), which may be the guest's.
 */
#include "cpu/interp_int.h"
#include "jit/jit_int.h"

static void clear_entry(const struct jit *j, struct jumps *t, u32 n)
{
	t->neg[n] = 0;
	t->code[n] = (u64)(uintptr_t)arena_code(&j->arena, j->exit_miss);
}

static void clear_table(const struct jit *j, struct jumps *t)
{
	if (t->ntouched < JUMP_TOUCHED && t->context) {
		for (u32 n = 0; n < t->ntouched; n++)
			clear_entry(j, t, t->touched[n]);
	} else {
		for (u32 n = 0; n < JUMPS; n++)
			clear_entry(j, t, n);
	}
	t->ntouched = 0;
}

/* Whatever may have made translations invalid since the last look. */
static void see_world(struct cpu *c, struct jit *j)
{
	struct mem *mem = c->mmu.mem;
	u64 epoch = __atomic_load_n((u64 *)(void *)&mem->epoch, __ATOMIC_RELAXED);
	u32 changes = __atomic_load_n((u32 *)(void *)&mem->code_changes, __ATOMIC_RELAXED);

	if (j->epoch == epoch && j->changes == changes && j->drops == c->icache->drops)
		return;
	j->epoch = epoch;
	j->changes = changes;
	j->drops = c->icache->drops;
	j->world++;
}

struct jumps *jumps_select(struct cpu *c)
{
	const struct tlb *tlb = &c->mmu.tlb;
	struct jit *j = c->translator;
	u64 id = tlb->context_id + 1; /* 0: never used */
	struct jumps *t = &j->tables[id * 0x9e3779b97f4a7c15ull >> 59];

	_Static_assert(JUMP_TABLES == 32, "five bits of the hash");
	see_world(c, j);
	if (t->context != id || t->code_gen != tlb->code_gen || t->world != j->world) {
		clear_table(j, t);
		t->context = id;
		t->code_gen = tlb->code_gen;
		t->world = j->world;
	}
	c->jit.jumps = (u64)(uintptr_t)t->neg;
	return t;
}

static u32 index_of(gva_t pc)
{
	return (u32)((pc & 0xff) | (pc >> 4 & 0x700)); /* pext by JUMP_BITS */
}

void jumps_remember(struct jit *j, struct jumps *t, gva_t pc, const struct translation *n)
{
	u32 at = index_of(pc);

	t->neg[at] = -pc;
	t->code[at] = (u64)(uintptr_t)(j->arena.rx + n->entry);
	if (t->ntouched < JUMP_TOUCHED)
		t->touched[t->ntouched++] = (u16)at;
}

u64 jumps_next(struct cpu *c)
{
	struct jit *j = c->translator;
	struct jumps *t;
	struct block *b;
	u32 at;

	if (j->nochain || c->code_bits != 64 || c->mmu.tlb.aligned)
		return 0;
	t = jumps_select(c);
	at = index_of(c->rip);
	if (t->neg[at] == -c->rip)
		return t->code[at];
	b = icache_find(c, c->rip);
	if (!b || !b->native)
		return 0;
	jumps_remember(j, t, c->rip, b->native);
	return t->code[at];
}
