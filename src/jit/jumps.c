/* SPDX-License-Identifier: MIT */
/*
 * Jump caches: from a gva to its translation, one table a context.
 *
 * Compiled without vector instructions (mk/jit.mk), which may be the guest's.
 */
#include "base/pages.h"
#include "cpu/interp_int.h"
#include "jit/jit_int.h"

#define ALL_JUMPS (JUMP_TABLES * USER_JUMPS + SHARED_JUMPS)

bool jumps_init(struct jit *j)
{
	struct jump *e = pages_alloc(ALL_JUMPS * sizeof(*e));

	j->jumps = e;
	if (!e)
		return false;
	for (unsigned n = 0; n <= JUMP_TABLES; n++) {
		struct jumps *t = &j->table[n];

		t->entry = e;
		t->bits = n < JUMP_TABLES ? USER_BITS : SHARED_BITS;
		t->size = n < JUMP_TABLES ? USER_JUMPS : SHARED_JUMPS;
		e += t->size;
	}
	return true;
}

void jumps_fini(struct jit *j)
{
	if (j->jumps)
		pages_free(j->jumps, ALL_JUMPS * sizeof(*j->jumps));
}

static void clear_entry(const struct jit *j, struct jump *e)
{
	e->neg = 0;
	e->code = (u64)(uintptr_t)arena_code(&j->arena, j->exit_miss);
}

/* At first all of it: pages of zeros are not empty entries. */
static void clear_table(const struct jit *j, struct jumps *t)
{
	if (t->ntouched < JUMP_TOUCHED && t->context) {
		for (u32 n = 0; n < t->ntouched; n++)
			clear_entry(j, &t->entry[t->touched[n]]);
	} else {
		for (u32 n = 0; n < t->size; n++)
			clear_entry(j, &t->entry[n]);
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

/*
 * Supervisor code in global pages is the same in all address spaces, and one cache
 * serves them all: a new process finds the kernel's jumps known.  Where too much
 * of it is not global, each context has its own.
 */
#define MOSTLY_PRIVATE 4096

static bool is_shared(const struct cpu *c)
{
	return c->mmu.cr4 & CR4_PGE && c->mmu.tlb.class_id != CLASS_USER &&
	       c->translator->not_global < MOSTLY_PRIVATE;
}

struct jumps *jumps_select(struct cpu *c)
{
	const struct tlb *tlb = &c->mmu.tlb;
	struct jit *j = c->translator;
	u64 id = tlb->context_id + 1, gen = tlb->code_gen; /* id 0: never used */
	struct jumps *t = &j->table[id * 0x9e3779b97f4a7c15ull >> 59];

	_Static_assert(JUMP_TABLES == 32, "five bits of the hash");
	if (is_shared(c)) {
		t = &j->table[JUMP_TABLES];
		id = 1; /* spaces begin with 4 */
		gen = tlb->global_code_gen;
	}
	see_world(c, j);
	if (t->context != id || t->code_gen != gen || t->world != j->world) {
		clear_table(j, t);
		t->context = id;
		t->code_gen = gen;
		t->world = j->world;
	}
	c->jit.jumps = (u64)(uintptr_t)t->entry;
	c->jit.jump_bits = t->bits;
	return t;
}

/* What pext does in emitted code. */
static struct jump *entry_of(const struct jumps *t, gva_t pc)
{
	u64 at = t->bits == USER_BITS ? (pc & 0x3ff) | (pc >> 2 & 0xc00) : pc & SHARED_BITS;

	return &t->entry[at];
}

void jumps_remember(struct cpu *c, struct jumps *t, gva_t pc, const struct translation *n)
{
	struct jit *j = c->translator;
	struct jump *e = entry_of(t, pc);

	if (t == &j->table[JUMP_TABLES]) {
		if (!tlb_code_is_global(&c->mmu.tlb, pc)) {
			j->not_global += 16;
			return;
		}
		j->not_global -= !!j->not_global;
	}
	e->neg = -pc;
	e->code = (u64)(uintptr_t)(j->arena.rx + n->entry);
	if (t->ntouched < JUMP_TOUCHED)
		t->touched[t->ntouched++] = (u16)(e - t->entry);
}

u64 jumps_next(struct cpu *c)
{
	struct jit *j = c->translator;
	struct jumps *t;
	struct block *b;
	struct jump *e;

	if (j->nochain || c->code_bits != 64 || c->mmu.tlb.aligned)
		return 0;
	t = jumps_select(c);
	e = entry_of(t, c->rip);
	if (e->neg == -c->rip)
		return e->code;
	b = icache_find(c, c->rip);
	if (!b || !b->native)
		return 0;
	jumps_remember(c, t, c->rip, b->native);
	return (u64)(uintptr_t)(j->arena.rx + ((const struct translation *)b->native)->entry);
}
