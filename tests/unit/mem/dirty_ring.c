/* SPDX-License-Identifier: MIT */
/* Dirty rings: limits, the list behind a full ring, what the client gives back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "mem/mem.h"

#define ENTRIES 256u
#define PAGES	2048u
#define ATTN	0x20

struct fixture {
	struct mem *mem;
	struct dirty_ring ring[2];
	struct kvm_dirty_gfn *gfn[2];
	_Atomic u32 attn[2];
	u8 *ram;
	const struct memslot *slot;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct kvm_userspace_memory_region r = { .slot = 5, .flags = KVM_MEM_LOG_DIRTY_PAGES,
						 .memory_size = PAGES * PAGE_SIZE };

	f->mem = mem_create(NULL, NULL);
	assert_int_equal(mem_set_ring_bytes(f->mem, PAGE_SIZE), 0);
	f->ram = mmap(NULL, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r.userspace_addr = (u64)(uintptr_t)f->ram;
	assert_int_equal(mem_set_region(f->mem, &r), 0);
	f->slot = mem_find(mem_slots(f->mem, 0), 0);
	for (int i = 0; i < 2; i++) {
		f->gfn[i] = calloc(ENTRIES, sizeof(*f->gfn[i]));
		assert_int_equal(dirty_ring_add(f->mem, &f->ring[i], f->gfn[i], &f->attn[i],
						ATTN),
				 0);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	dirty_ring_select(NULL);
	for (int i = 0; i < 2; i++) {
		dirty_ring_fini(&f->ring[i]);
		free(f->gfn[i]);
	}
	mem_destroy(f->mem);
	munmap(f->ram, PAGES * PAGE_SIZE);
	free(f);
	return 0;
}

static void mark(struct fixture *f, unsigned first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		mem_mark_dirty(f->slot, first + i);
}

static void limits(void **state)
{
	static const struct {
		u64 bytes;
		int result;
	} rows[] = {
		{ 0, -EINVAL },	       { 2048, -EINVAL },	{ 4097, -EINVAL },
		{ 12288, -EINVAL },    { 2u << 20, -E2BIG },	{ 1ull << 63, -E2BIG },
		{ 1u << 20, 0 },       { 1u << 20, -EINVAL },	{ 4096, -EINVAL },
	};
	struct mem *mem = mem_create(NULL, NULL);

	(void)state;
	assert_int_equal(mem_reset_rings(mem), -EINVAL);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(mem_set_ring_bytes(mem, rows[i].bytes), rows[i].result);
	assert_int_equal(mem_reset_rings(mem), 0);
	mem_destroy(mem);
}

static void named_once(void **state)
{
	struct fixture *f = *state;

	dirty_ring_select(&f->ring[1]);
	mark(f, 10, 3);
	mark(f, 10, 3);
	dirty_ring_select(NULL); /* no vCPU: the first ring */
	mark(f, 11, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(f->gfn[1][i].flags, KVM_DIRTY_GFN_F_DIRTY);
		assert_int_equal(f->gfn[1][i].slot, 5);
		assert_int_equal(f->gfn[1][i].offset, 10 + i);
	}
	assert_int_equal(f->gfn[1][3].flags, 0);
	assert_int_equal(f->gfn[0][0].offset, 13);
	assert_int_equal(f->gfn[0][1].flags, 0);
	/* Only what was marked, in order from the oldest, comes back. */
	f->gfn[1][1].flags = KVM_DIRTY_GFN_F_RESET;
	assert_int_equal(mem_reset_rings(f->mem), 0);
	f->gfn[1][0].flags = KVM_DIRTY_GFN_F_RESET;
	assert_int_equal(mem_reset_rings(f->mem), 2);
	dirty_ring_select(&f->ring[0]);
	mark(f, 10, 3);
	assert_int_equal(f->gfn[0][1].offset, 10);
	assert_int_equal(f->gfn[0][2].offset, 11);
	assert_int_equal(f->gfn[0][3].flags, 0);
}

/* Entries that a client has changed to name nothing. */
static void rubbish(void **state)
{
	static const struct kvm_dirty_gfn bad[] = {
		{ KVM_DIRTY_GFN_F_RESET, 5, PAGES }, { KVM_DIRTY_GFN_F_RESET, 5, ~0ull },
		{ KVM_DIRTY_GFN_F_RESET, 6, 0 },     { KVM_DIRTY_GFN_F_RESET, 0x10005, 0 },
		{ ~0u, ~0u, 0 },
	};
	struct fixture *f = *state;

	dirty_ring_select(&f->ring[0]);
	mark(f, 0, ARRAY_SIZE(bad));
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		f->gfn[0][i] = bad[i];
	/* And one beyond what was ever filled in. */
	f->gfn[0][ARRAY_SIZE(bad)].flags = KVM_DIRTY_GFN_F_RESET;
	assert_int_equal(mem_reset_rings(f->mem), ARRAY_SIZE(bad));
	assert_int_equal(mem_reset_rings(f->mem), 0);
	mark(f, 100, 1);
	assert_int_equal(f->gfn[0][ARRAY_SIZE(bad)].flags, KVM_DIRTY_GFN_F_DIRTY);
}

/* All of 1200 pages are named in the end, each once, in order. */
static void overflow(void **state)
{
	struct fixture *f = *state;
	unsigned next = 0, at = 0;

	dirty_ring_select(&f->ring[0]);
	mark(f, 0, ENTRIES - DIRTY_RING_RESERVED - 1);
	assert_false(dirty_ring_is_full(&f->ring[0]));
	assert_int_equal(f->attn[0], 0);
	mark(f, ENTRIES - DIRTY_RING_RESERVED - 1, 1);
	assert_true(dirty_ring_is_full(&f->ring[0]));
	assert_int_equal(f->attn[0], ATTN);
	assert_int_equal(f->attn[1], 0);
	mark(f, ENTRIES - DIRTY_RING_RESERVED, 1200 - (ENTRIES - DIRTY_RING_RESERVED));
	while (next < 1200) {
		struct kvm_dirty_gfn *e = &f->gfn[0][at++ % ENTRIES];

		if (e->flags == KVM_DIRTY_GFN_F_DIRTY) {
			assert_int_equal(e->offset, next++);
			e->flags = KVM_DIRTY_GFN_F_RESET;
			continue;
		}
		at--;
		assert_true(mem_reset_rings(f->mem) > 0);
	}
	mem_reset_rings(f->mem);
	assert_false(dirty_ring_is_full(&f->ring[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits),
		cmocka_unit_test_setup_teardown(named_once, setup, teardown),
		cmocka_unit_test_setup_teardown(rubbish, setup, teardown),
		cmocka_unit_test_setup_teardown(overflow, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
