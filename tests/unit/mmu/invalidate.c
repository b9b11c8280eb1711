/* SPDX-License-Identifier: MIT */
/*
 * Invalidation: what must go goes, what may stay stays (counters prove it).
 * Each case runs with tlb.invlpg=address and =context, and with tables of one
 * entry, of 16 and of adaptive size.
 */
#include "fixture.h"

#include "mmu/tlb_table.h"

static const struct tlb_config configs[] = {
	{ .size = 0 }, { .size = 1 }, { .size = 16 }, { .invlpg_context = true },
	{ .size = 0, .spaces = 1 }, { .size = 0, .spaces = 2 },
};

static void map(struct fixture *f, unsigned page, u64 frame, u64 flags)
{
	table(f, PT)[page] = (DATA + frame * 4096) | PTE_P | PTE_W | flags;
}

static void set_pcid(struct fixture *f, unsigned pcid, bool noflush)
{
	mmu_set_cr3(&f->m, PML4 | pcid | (noflush ? CR3_NOFLUSH : 0));
}

static void use_pcids(struct fixture *f)
{
	mmu_set_cr4(&f->m, f->m.cr4 | CR4_PCIDE);
}

/* 1. A global page loaded under one PCID, INVLPG under another. */
static void global_other_pcid(struct fixture *f)
{
	use_pcids(f);
	map(f, 5, 1, PTE_G);
	set_pcid(f, 1, false);
	assert_int_equal(frame_at(f, 0x5000), 1);
	set_pcid(f, 2, false);
	map(f, 5, 2, PTE_G);
	mmu_invlpg(&f->m, 0x5000);
	set_pcid(f, 1, true);
	assert_int_equal(frame_at(f, 0x5000), 2);
}

/* 2. INVLPG inside a large page at another fragment than the one touched. */
static void large_other_fragment(struct fixture *f)
{
	table(f, PD)[1] = 0x800000 | PTE_P | PTE_W | PTE_PS;
	assert_int_equal(frame_at(f, 0x200000 + 7 * 4096), 7);
	table(f, PD)[1] = 0xa00000 | PTE_P | PTE_W | PTE_PS;
	mmu_invlpg(&f->m, 0x200000 + 300 * 4096);
	assert_int_equal(frame_at(f, 0x200000 + 7 * 4096), 512 + 7);
}

/* 3. 2M page to 4K table and back, one INVLPG each. */
static void split_and_join(struct fixture *f)
{
	gpa_t pt = 0x5000;

	for (u64 i = 0; i < 512; i++)
		table(f, pt)[i] = (DATA + (1000 + i) * 4096) | PTE_P | PTE_W;
	table(f, PD)[1] = 0x800000 | PTE_P | PTE_W | PTE_PS;
	assert_int_equal(frame_at(f, 0x200000), 0);
	assert_int_equal(frame_at(f, 0x203000), 3);
	table(f, PD)[1] = pt | PTE_P | PTE_W;
	mmu_invlpg(&f->m, 0x201000);
	assert_int_equal(frame_at(f, 0x203000), 1003);
	table(f, PD)[1] = 0x800000 | PTE_P | PTE_W | PTE_PS;
	mmu_invlpg(&f->m, 0x203000);
	assert_int_equal(frame_at(f, 0x203000), 3);
}

/* 4. INVLPG of an address under another PDE drops the structure caches. */
static void structure_caches(struct fixture *f)
{
	gpa_t other = 0x6000;

	map(f, 5, 1, 0);
	map(f, 6, 2, 0);
	table(f, other)[5] = (DATA + 11 * 4096) | PTE_P | PTE_W;
	table(f, other)[6] = (DATA + 12 * 4096) | PTE_P | PTE_W;
	assert_int_equal(frame_at(f, 0x5000), 1);
	table(f, PD)[0] = other | PTE_P | PTE_W;
	mmu_invlpg(&f->m, 0x40000000); /* another PDE altogether */
	assert_int_equal(frame_at(f, 0x6000), 12);
}

/* 5. A non-canonical INVLPG does nothing. */
static void non_canonical(struct fixture *f)
{
	map(f, 5, 1, 0);
	assert_int_equal(frame_at(f, 0x5000), 1);
	u64 dropped = f->m.tlb.stats.tlb_entries_dropped;

	mmu_invlpg(&f->m, 0x8000000000005000ull);
	assert_int_equal(f->m.tlb.stats.tlb_entries_dropped, dropped);
}

/* 6. A code page is remapped, then executed. */
static void code_page(struct fixture *f)
{
	struct mmu_code code;
	u64 gen;

	map(f, 5, 1, 0);
	assert_int_equal(mmu_fetch(&f->m, 0x5000, &code), EMUL_CONTINUE);
	assert_ptr_equal(code.hva, f->ram + DATA + 4096);
	map(f, 5, 2, 0);
	gen = f->m.tlb.code_gen;
	mmu_invlpg(&f->m, 0x5000);
	assert_true(f->m.tlb.code_gen != gen);
	assert_int_equal(mmu_fetch(&f->m, 0x5000, &code), EMUL_CONTINUE);
	assert_ptr_equal(code.hva, f->ram + DATA + 2 * 4096);
}

/* 8. INVPCID type 1 of an inactive PCID, then a CR3 load without a flush. */
static void inactive_pcid(struct fixture *f)
{
	use_pcids(f);
	map(f, 5, 1, 0);
	set_pcid(f, 1, false);
	assert_int_equal(frame_at(f, 0x5000), 1);
	set_pcid(f, 2, false);
	map(f, 5, 2, 0);
	mmu_invpcid(&f->m, 1, 1, 0);
	set_pcid(f, 1, true);
	assert_int_equal(frame_at(f, 0x5000), 2);
}

/* MOV CR3 keeps globals and drops the rest; CR4.PGE drops all. */
static void cr3_and_pge(struct fixture *f)
{
	map(f, 5, 1, PTE_G);
	map(f, 6, 1, 0);
	assert_int_equal(frame_at(f, 0x5000) + frame_at(f, 0x6000), 2);
	map(f, 6, 2, 0);
	mmu_set_cr3(&f->m, PML4);
	assert_int_equal(frame_at(f, 0x6000), 2);
	map(f, 5, 2, PTE_G);
	mmu_set_cr4(&f->m, f->m.cr4 ^ CR4_PGE);
	assert_int_equal(frame_at(f, 0x5000), 2);
}

static void test_pitfalls(void **state)
{
	static void (*const cases[])(struct fixture *f) = {
		global_other_pcid, large_other_fragment, split_and_join, structure_caches,
		non_canonical,	   code_page,		 inactive_pcid,	 cr3_and_pge,
	};

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(configs); k++)
		for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
			struct fixture f;

			fixture_make(&f, configs[k]);
			cases[i](&f);
			assert_int_equal(f.m.tlb.stats.tlb_flush_fallback, 0);
			fixture_free(&f);
		}
}

/* INVLPG of one address leaves the others: no walk is needed for them.  The
 * baseline drops everything, which the same counters show. */
static void test_locality(void **state)
{
	(void)state;
	for (int context = 0; context < 2; context++) {
		struct fixture f;
		u64 walks, dropped;

		fixture_make(&f, (struct tlb_config){ .invlpg_context = context });
		for (unsigned i = 5; i < 105; i++) {
			map(&f, i, i, i & 1 ? PTE_G : 0);
			assert_int_equal(frame_at(&f, i * 4096), i);
		}
		dropped = f.m.tlb.stats.tlb_entries_dropped;
		mmu_invlpg(&f.m, 50 * 4096);
		walks = f.m.tlb.stats.walks;
		for (unsigned i = 5; i < 105; i++)
			assert_int_equal(frame_at(&f, i * 4096), i);
		assert_int_equal(f.m.tlb.stats.walks - walks, context ? 100 : 1);
		assert_int_equal(f.m.tlb.stats.tlb_entries_dropped - dropped, context ? 100 : 1);
		fixture_free(&f);
	}
}

/* What goes in a program does not disturb the code there, nor is it sought among the
 * large pages of the kernel. */
static void test_filters(void **state)
{
	struct mmu_code code;
	struct fixture f;
	unsigned changed = 0, sought = 0;

	(void)state;
	fixture_make(&f, (struct tlb_config){ .size = 0 });
	table(&f, PD)[1] = 0x7000 | PTE_P | PTE_W | PTE_U;
	for (u64 i = 0; i < 512; i++) { /* one large page all over the upper half */
		table(&f, PML4)[256 + i / 2] = 0x5000 | PTE_P | PTE_W;
		table(&f, 0x5000)[i] = 0x6000 | PTE_P | PTE_W;
		table(&f, 0x6000)[i] = 0x800000 | PTE_P | PTE_W | PTE_PS;
		table(&f, 0x7000)[i] = (DATA + i * 4096) | PTE_P | PTE_W;
	}
	srand(1);
	for (unsigned i = 0; i < 1000; i++) {
		gva_t kernel = 0xffff800000000000 | (u64)rand() << 16 | ((u64)rand() & 0xfff0);

		frame_at(&f, kernel);
		assert_true(*tlb_large(&f.m.tlb.class->table[TLB_READ], kernel, TLB_2M));
		assert_int_equal(mmu_fetch(&f.m, kernel, &code), EMUL_CONTINUE);
	}
	for (unsigned i = 0; i < 400; i++) {
		map(&f, i, i, 0);
		assert_int_equal(mmu_fetch(&f.m, i * 4096, &code), EMUL_CONTINUE);
	}
	for (unsigned i = 0; i < 512; i++) {
		gva_t gva = (1 << 21) + i * 4096;
		u64 gen = f.m.tlb.code_gen;

		frame_at(&f, gva);
		sought += *tlb_large(&f.m.tlb.class->table[TLB_READ], gva, TLB_2M);
		mmu_invlpg(&f.m, gva);
		changed += f.m.tlb.code_gen != gen;
	}
	printf("of 512: taken for code %u, sought among large pages %u\n", changed, sought);
	assert_true(changed < 10);
	assert_int_equal(sought, 0);
	fixture_free(&f);
}

/* A page of code that is written to stays out of the writers' mask, also where other
 * pages have write entries in its bucket: each new block would revoke entries that
 * are not there, all tables searched. */
static void test_writers(void **state)
{
	struct mmu_code code;
	struct fixture f;
	unsigned announced = 0;

	(void)state;
	fixture_make(&f, (struct tlb_config){ .size = 4096 });
	for (u64 i = 1; i < 8; i++)
		table(&f, PD)[i] = i << 21 | PTE_P | PTE_W | PTE_PS;
	for (u64 gva = 2 << 20; gva < RAM; gva += 4096)
		assert_int_equal(mmu_write64(&f.m, gva, 0, 0), EMUL_CONTINUE);
	for (u64 i = 5; i < 128; i++) {
		table(&f, PT)[i] = (0x100000 + i * 4096) | PTE_P | PTE_W;
		assert_int_equal(mmu_fetch(&f.m, i * 4096, &code), EMUL_CONTINUE);
		assert_true(mmu_track_page(&f.m, &code, BP_CODE));
		assert_int_equal(mmu_write64(&f.m, i * 4096, i, 0), EMUL_CONTINUE);
		announced += (code.bp->writers & f.m.tlb.writer) != 0;
	}
	assert_int_equal(announced, 0);
	fixture_free(&f);
}

/* --- random operations against a model ----------------------------------------- */

#define PAGES 6 /* 0..3 4K (3 global), 4 2M, 5 2M global */
#define PCIDS 4

struct model {
	u64 frame[PAGES];
	u32 allowed[PCIDS][PAGES]; /* frames (mod 16) that may still be seen */
};

static bool is_global(unsigned page)
{
	return page == 3 || page == 5;
}

static gva_t page_gva(unsigned page, unsigned fragment)
{
	return page < 4 ? 0x10000 + page * 0x1000ull :
			  0x400000 + (page - 4) * 0x200000ull + fragment * 4096ull;
}

static void remap(struct fixture *f, struct model *m, unsigned page, unsigned frame)
{
	u64 flags = PTE_P | PTE_W | (is_global(page) ? PTE_G : 0);

	m->frame[page] = frame;
	/* Large pages: frame n starts at 8M or 10M, told apart by their first word. */
	if (page < 4)
		table(f, PT)[16 + page] = (DATA + frame * 4096) | flags;
	else
		table(f, PD)[2 + page - 4] = (0x800000 + (frame & 1) * 0x200000ull) | PTE_PS | flags;
	for (unsigned p = 0; p < PCIDS; p++)
		m->allowed[p][page] |= BIT(frame);
}

static void settle(struct model *m, unsigned pcid, unsigned page)
{
	m->allowed[pcid][page] = BIT(m->frame[page]);
}

static void settle_all(struct model *m, int pcid, bool globals)
{
	for (unsigned p = 0; p < PCIDS; p++)
		for (unsigned g = 0; g < PAGES; g++)
			if ((pcid < 0 || (unsigned)pcid == p) && (globals || !is_global(g)))
				settle(m, p, g);
}

static void random_step(struct fixture *f, struct model *m, unsigned *pcid)
{
	unsigned page = (unsigned)rand() % PAGES, fragment = (unsigned)rand() % 512;
	unsigned other = (unsigned)rand() % PCIDS;
	bool noflush;
	u64 v;

	switch (rand() % 12) {
	case 0:
	case 1:
		remap(f, m, page, (unsigned)rand() % (page < 4 ? 16 : 2));
		break;
	case 2:
		mmu_invlpg(&f->m, page_gva(page, fragment));
		settle(m, *pcid, page);
		for (unsigned p = 0; p < PCIDS && is_global(page); p++)
			settle(m, p, page);
		break;
	case 3:
		mmu_invpcid(&f->m, 0, other, page_gva(page, fragment));
		if (!is_global(page))
			settle(m, other, page);
		break;
	case 4:
		mmu_invpcid(&f->m, 1, other, 0);
		settle_all(m, (int)other, false);
		break;
	case 5:
		if (rand() % 4 == 0) {
			mmu_invpcid(&f->m, 2 + (other & 1), 0, 0);
			settle_all(m, -1, !(other & 1));
		}
		break;
	case 6:
		noflush = rand() & 1;
		*pcid = other;
		set_pcid(f, other, noflush);
		if (!noflush)
			settle_all(m, (int)other, false);
		break;
	default:
		v = frame_at(f, page_gva(page, fragment));
		if (page < 4)
			assert_true(m->allowed[*pcid][page] & BIT(v));
		else
			assert_true(m->allowed[*pcid][page] & BIT(v / 512) && v % 512 == fragment);
	}
}

static void test_random(void **state)
{
	unsigned seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : (unsigned)getpid();

	(void)state;
	printf("SEED %u\n", seed);
	srand(seed);
	for (unsigned k = 0; k < ARRAY_SIZE(configs); k++) {
		struct fixture f;
		struct model m = { 0 };
		unsigned pcid = 0;

		fixture_make(&f, configs[k]);
		use_pcids(&f);
		for (unsigned page = 0; page < PAGES; page++)
			remap(&f, &m, page, 0);
		settle_all(&m, -1, true);
		for (unsigned long i = 0; i < 200000; i++)
			random_step(&f, &m, &pcid);
		assert_int_equal(f.m.tlb.stats.tlb_flush_fallback, 0);
		fixture_free(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pitfalls),
		cmocka_unit_test(test_locality),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_writers),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
