/* SPDX-License-Identifier: MIT */
/* What the TLB keeps and at what cost: switches, growth, limits, code
 * generations, the writers mask. */
#include "fixture.h"

static void map(struct fixture *f, unsigned page, u64 frame, u64 flags)
{
	table(f, PT)[page] = (DATA + frame * 4096) | PTE_P | PTE_W | flags;
}

static void map_all(struct fixture *f, u64 flags)
{
	for (unsigned i = 0; i < 512; i++)
		map(f, i, i, flags);
}

static void touch(struct fixture *f, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		assert_int_equal(frame_at(f, i * 4096ull), i);
}

/* The tables that rd and wr point to always are those of the current class. */
static void check_current(const struct fixture *f)
{
	const struct tlb *t = &f->m.tlb;
	const struct tlb_class *c = t->space->class[t->class_id];

	assert_ptr_equal(t->class, c);
	assert_ptr_equal(t->rd, c->table[TLB_READ].entry);
	assert_ptr_equal(t->wr, c->table[TLB_WRITE].entry);
	assert_int_equal(t->rd_mask, c->table[TLB_READ].mask);
	assert_int_equal(t->wr_mask, c->table[TLB_WRITE].mask);
}

/* CPL, AC and CR3 (with NOFLUSH) switch there and back without a miss. */
static void test_switches(void **state)
{
	struct fixture f;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	mmu_set_cr4(&f.m, f.m.cr4 | CR4_PCIDE | CR4_SMAP);
	map_all(&f, PTE_U);
	for (int round = 0; round < 3; round++) {
		u64 before = f.m.tlb.stats.tlb_misses;

		for (unsigned pcid = 0; pcid < 8; pcid++) {
			mmu_set_cr3(&f.m, PML4 | pcid | CR3_NOFLUSH);
			mmu_set_cpl(&f.m, 3);
			touch(&f, 5, 50);
			check_current(&f);
			mmu_set_cpl(&f.m, 0);
			mmu_set_ac(&f.m, true);
			touch(&f, 5, 50);
			check_current(&f);
			mmu_set_ac(&f.m, false);
			/* SMAP: the pages that AC opened are closed again. */
			assert_int_equal(mmu_read64(&f.m, 0x5000, &(u64){0}, 0),
					 EMUL_FAULT);
			check_current(&f);
		}
		if (round)
			assert_int_equal(f.m.tlb.stats.tlb_misses - before,
					 8); /* the faults */
	}
	fixture_free(&f);
}

/* More spaces than are kept: the oldest goes, and nothing is wrong. */
static void test_more_spaces(void **state)
{
	(void)state;
	for (u32 spaces = 1; spaces <= 64; spaces *= 4) {
		struct fixture f;

		fixture_make(&f, (struct tlb_config){.spaces = spaces});
		mmu_set_cr4(&f.m, f.m.cr4 | CR4_PCIDE);
		map_all(&f, 0);
		for (int round = 0; round < 2; round++)
			for (unsigned pcid = 1; pcid <= spaces + 3; pcid++) {
				mmu_set_cr3(&f.m, PML4 | pcid | CR3_NOFLUSH);
				touch(&f, 5, 3);
				check_current(&f);
			}
		assert_true(f.m.tlb.stats.tlb_context_evicted >= spaces);
		fixture_free(&f);
	}
}

static void test_growth(void **state)
{
	struct fixture f;
	u64 misses;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	table(&f, PD)[0] = 0 | PTE_P | PTE_W | PTE_PS;
	for (u64 i = 1; i < 4; i++)
		table(&f, PD)[i] = i * 0x200000 | PTE_P | PTE_W | PTE_PS;
	assert_int_equal(f.m.tlb.rd_mask, TLB_FIRST_DATA - 1);
	for (int round = 0; round < 10; round++)
		for (u64 page = 0; page < 2048; page++)
			assert_int_equal(mmu_read64(&f.m, page * 4096, &(u64){0}, 0),
					 EMUL_CONTINUE);
	assert_true(f.m.tlb.rd_mask >= 2047);
	check_current(&f);
	misses = f.m.tlb.stats.tlb_misses;
	for (u64 page = 0; page < 2048; page++)
		assert_int_equal(mmu_read64(&f.m, page * 4096, &(u64){0}, 0),
				 EMUL_CONTINUE);
	assert_int_equal(f.m.tlb.stats.tlb_misses, misses);
	/* Entries lived through the growth with all their marks. */
	mmu_invlpg(&f.m, 0x200000 + 77 * 4096);
	assert_int_equal(f.m.tlb.stats.tlb_entries_dropped, 512);
	mmu_flush_guest(&f.m);
	assert_int_equal(tlb_count(&f.m.tlb), 0);
	assert_int_equal(f.m.tlb.stats.tlb_entries_dropped, 2048);
	fixture_free(&f);
}

/* tlb.size is what it says, also where a table has more slots than that. */
static void test_sizes(void **state)
{
	(void)state;
	for (u32 size = 1; size <= 4096; size *= 2) {
		struct fixture f;
		u64 misses;

		fixture_make(&f, (struct tlb_config){.size = size});
		map_all(&f, 0);
		touch(&f, 0, 512);
		assert_int_equal(tlb_count(&f.m.tlb), MIN(size, 512u));
		misses = f.m.tlb.stats.tlb_misses;
		touch(&f, 512 - MIN(size, 512u), MIN(size, 512u));
		assert_int_equal(f.m.tlb.stats.tlb_misses, misses);
		/* An access that begins in one page and ends in the next, which lies
		 * elsewhere: half from each, whatever entry is there. */
		for (unsigned i = 0; i < 512; i++) {
			map(&f, i, i * 7 % 512, 0);
			table(&f, DATA + i * 4096ull)[511] = (u64)i << 32;
		}
		mmu_flush_guest(&f.m);
		for (unsigned i = 1; i < 500; i++) {
			u64 v, want = (u64)(i * 7 % 512) << 32 | (i - 1) * 7 % 512;

			assert_int_equal(frame_at(&f, i * 4096), i * 7 % 512);
			assert_int_equal(mmu_read64(&f.m, i * 4096 - 4, &v, 0),
					 EMUL_CONTINUE);
			assert_int_equal(v, want);
		}
		fixture_free(&f);
	}
}

static void test_memory_limit(void **state)
{
	size_t limit = 256 << 10;
	struct fixture f;

	(void)state;
	fixture_make(&f,
		     (struct tlb_config){.size = 1024, .spaces = 32, .max_bytes = limit});
	mmu_set_cr4(&f.m, f.m.cr4 | CR4_PCIDE);
	map_all(&f, 0);
	for (int i = 0; i < 200; i++) {
		mmu_set_cr3(&f.m, PML4 | ((unsigned)i * 7 % 40) | CR3_NOFLUSH);
		touch(&f, 5, 20);
		check_current(&f);
		/* Three classes stay in any case. */
		assert_true(f.m.tlb.bytes <= limit || f.m.tlb.classes <= CLASS_COUNT);
	}
	assert_true(f.m.tlb.stats.tlb_context_evicted > 0);
	fixture_free(&f);
}

/* The cost of a flush follows what was used, and only that goes. */
static void test_dropped_counts(void **state)
{
	struct fixture f;
	u64 dropped;

	(void)state;
	fixture_make(&f, (struct tlb_config){.size = 4096});
	map_all(&f, 0);
	map(&f, 100, 100, PTE_G);
	touch(&f, 90, 20);
	dropped = f.m.tlb.stats.tlb_entries_dropped;
	mmu_set_cr3(&f.m, PML4);
	assert_int_equal(f.m.tlb.stats.tlb_entries_dropped - dropped, 19);
	assert_int_equal(tlb_count(&f.m.tlb), 1);
	mmu_set_cr3(&f.m, PML4);
	assert_int_equal(tlb_count(&f.m.tlb), 1);
	mmu_set_cr4(&f.m, f.m.cr4 & ~CR4_PGE);
	assert_int_equal(tlb_count(&f.m.tlb), 0);
	fixture_free(&f);
}

/* --- registers that decide what an entry may do ------------------------------------- */

struct verdict {
	const char *name;
	u64 pte;
	int cpl, access;    /* 0 read, 1 write, 2 fetch */
	u64 cr0, cr4, efer; /* bits off at first, then on */
	bool first, then;   /* allowed? */
};

static bool allowed(struct fixture *f, int access)
{
	u64 v = 0;

	if (access == 2)
		return mmu_fetch(&f->m, 0x5000, &(struct mmu_code){0}) == EMUL_CONTINUE;
	return (access ? mmu_write64(&f->m, 0x5000, v, 0)
		       : mmu_read64(&f->m, 0x5000, &v, 0)) == EMUL_CONTINUE;
}

static void set_bits(struct fixture *f, const struct verdict *r, bool on)
{
	mmu_set_efer(&f->m, (f->m.efer & ~r->efer) | (on ? r->efer : 0));
	mmu_set_cr0(&f->m, (f->m.cr0 & ~r->cr0) | (on ? r->cr0 : 0));
	mmu_set_cr4(&f->m, (f->m.cr4 & ~r->cr4) | (on ? r->cr4 : 0));
}

/* Toggled without any other flush, in the current space and in one that is not
 * current meanwhile. */
static void test_verdicts(void **state)
{
	static const struct verdict rows[] = {
		{"CR0.WP", 0, 0, 1, CR0_WP, 0, 0, true, false},
		{"CR4.SMEP", PTE_U, 0, 2, 0, CR4_SMEP, 0, true, false},
		{"CR4.SMAP", PTE_U, 0, 0, 0, CR4_SMAP, 0, true, false},
		{"CR4.SMAP, write", PTE_U | PTE_W, 0, 1, 0, CR4_SMAP, 0, true, false},
		{"EFER.NXE", PTE_NX | PTE_U, 3, 2, 0, 0, EFER_NXE, false, false},
		{"EFER.NXE, read", PTE_NX | PTE_U, 3, 0, 0, 0, EFER_NXE, false, true},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
			const struct verdict *r = &rows[i];
			struct fixture f;

			fixture_make(&f, (struct tlb_config){0});
			mmu_set_cr4(&f.m, CR4_PAE | CR4_PCIDE);
			table(&f, PT)[5] = DATA | PTE_P | r->pte;
			mmu_set_cpl(&f.m, (unsigned)r->cpl);
			for (int turn = 0; turn < 6; turn++) {
				bool on = turn & 1, want = on ? r->then : r->first;

				if (elsewhere)
					mmu_set_cr3(&f.m, PML4 | 1 | CR3_NOFLUSH);
				set_bits(&f, r, on);
				mmu_set_cr3(&f.m, PML4 | CR3_NOFLUSH);
				for (int k = 0; k < 2; k++)
					if (allowed(&f, r->access) != want)
						fail_msg("%s, turn %d: want %d", r->name,
							 turn, want);
			}
			fixture_free(&f);
		}
}

/* --- code generations ------------------------------------------------------------ */

static u64 fetch(struct fixture *f, gva_t gva)
{
	struct mmu_code code;

	assert_int_equal(mmu_fetch(&f->m, gva, &code), EMUL_CONTINUE);
	return (u64)(code.hva - f->ram - DATA) / 4096;
}

static void test_code_gen(void **state)
{
	struct fixture f;
	struct tlb *t = &f.m.tlb;
	u64 gen, id;

	(void)state;
	/* A code table of one entry: what was fetched before 9 is in it no more. */
	fixture_make(&f, (struct tlb_config){.size = 1});
	mmu_set_cr4(&f.m, f.m.cr4 | CR4_PCIDE);
	map_all(&f, 0);
	map(&f, 7, 7, PTE_G);
	mmu_set_cr3(&f.m, PML4 | 1);
	assert_int_equal(fetch(&f, 0x5000), 5);
	assert_int_equal(fetch(&f, 0x7000), 7);
	assert_int_equal(fetch(&f, 0x9000), 9);
	gen = t->code_gen;
	id = t->context_id;
	/* A data page goes: code derived from code pages stays. */
	for (unsigned i = 20; i < 60; i++) {
		frame_at(&f, i * 4096);
		mmu_invlpg(&f.m, i * 4096);
	}
	assert_int_equal(t->code_gen, gen);
	/* Another PCID's code goes, by INVPCID. */
	mmu_invpcid(&f.m, 0, 2, 0x5000);
	mmu_invpcid(&f.m, 1, 2, 0);
	assert_int_equal(t->code_gen, gen);
	mmu_invpcid(&f.m, 0, 1, 0x5000);
	assert_int_not_equal(t->code_gen, gen);
	gen = t->code_gen;
	/* There and back. */
	mmu_set_cr3(&f.m, PML4 | 2 | CR3_NOFLUSH);
	assert_true(t->context_id != id && t->code_gen != gen);
	mmu_set_cr3(&f.m, PML4 | 1 | CR3_NOFLUSH);
	assert_true(t->context_id == id && t->code_gen == gen);
	mmu_set_cpl(&f.m, 3);
	assert_int_not_equal(t->context_id, id);
	mmu_set_cpl(&f.m, 0);
	assert_int_equal(t->context_id, id);
	/* A global code page invalidated from another PCID. */
	assert_int_equal(fetch(&f, 0x7000), 7);
	assert_int_equal(fetch(&f, 0x9000), 9);
	gen = t->code_gen;
	mmu_set_cr3(&f.m, PML4 | 2 | CR3_NOFLUSH);
	mmu_invlpg(&f.m, 0x7000);
	mmu_set_cr3(&f.m, PML4 | 1 | CR3_NOFLUSH);
	assert_true(t->context_id == id && t->code_gen != gen);
	/* Flushes of the whole. */
	gen = t->code_gen;
	mmu_set_cr3(&f.m, PML4 | 1);
	assert_int_not_equal(t->code_gen, gen);
	gen = t->code_gen;
	mmu_flush_guest(&f.m);
	assert_int_not_equal(t->code_gen, gen);
	fixture_free(&f);
}

/* --- write tracking -------------------------------------------------------------- */

static struct bpage *bpage_at(struct fixture *f, gpa_t gpa)
{
	return mem_bpage(f->mem, mem_slots(f->mem, 0)->slot[0], gpa >> 12);
}

static struct bpage *frame_page(struct fixture *f, unsigned frame)
{
	return bpage_at(f, DATA + frame * 4096ull);
}

static bool has_bit(struct fixture *f, struct bpage *bp)
{
	return bp->writers & f->m.tlb.writer;
}

/* The bit stands while there is an entry, at whatever address and in whatever
 * space, and goes with the last. */
static void test_writers_bit(void **state)
{
	struct fixture f;
	struct bpage *bp;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	mmu_set_cr4(&f.m, f.m.cr4 | CR4_PCIDE);
	map_all(&f, 0);
	map(&f, 300, 5, 0);
	bp = frame_page(&f, 5);
	frame_at(&f, 0x5000);
	assert_false(has_bit(&f, bp));
	assert_int_equal(mmu_write64(&f.m, 0x5000, 5, 0), EMUL_CONTINUE);
	assert_true(has_bit(&f, bp));
	assert_int_equal(mmu_write64(&f.m, 300 * 4096, 5, 0), EMUL_CONTINUE);
	mmu_invlpg(&f.m, 0x5000);
	assert_true(has_bit(&f, bp));
	mmu_set_cr3(&f.m, PML4 | 3 | CR3_NOFLUSH);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 5, 0), EMUL_CONTINUE);
	mmu_invpcid(&f.m, 1, 0, 0);
	assert_true(has_bit(&f, bp));
	mmu_invpcid(&f.m, 1, 3, 0);
	assert_false(has_bit(&f, bp));
	/* Pushed out by another page in the same slot. */
	assert_int_equal(mmu_write64(&f.m, 0x5000, 5, 0), EMUL_CONTINUE);
	assert_true(has_bit(&f, bp));
	assert_int_equal(mmu_write64(&f.m, 0x5000 + 256 * 4096, 261, 0), EMUL_CONTINUE);
	assert_false(has_bit(&f, bp));
	assert_true(has_bit(&f, frame_page(&f, 261)));
	/* The same page entered twice into one slot keeps it. */
	map(&f, 5, 5, 0);
	assert_int_equal(mmu_write64(&f.m, 300 * 4096, 5, 0), EMUL_CONTINUE);
	map(&f, 300, 5, 0);
	mmu_invlpg(&f.m, 300 * 4096);
	assert_int_equal(mmu_write64(&f.m, 300 * 4096, 5, 0), EMUL_CONTINUE);
	assert_true(has_bit(&f, bp));
	fixture_free(&f);
}

static unsigned reports, report_off, report_n;
static struct bpage *report_bp;
static u64 report_seen;
static struct fixture *report_fixture;

static void code_write(void *opaque, struct bpage *bp, unsigned off, unsigned n)
{
	assert_ptr_equal(opaque, &reports);
	reports++;
	report_bp = bp;
	report_off = off;
	report_n = n;
	report_seen = table(report_fixture, DATA + 5 * 4096)[off / 8];
}

/* Setting a flag revokes our own entries for the page, all of them and no
 * other; stores are reported from then on, after they are visible. */
static void test_tracked_page(void **state)
{
	static const struct mem_ops ops = {.code_write = code_write};
	struct fixture f;
	struct mmu_code code;
	void *hva;
	u64 old;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	report_fixture = &f;
	f.mem->ops = &ops;
	f.mem->opaque = &reports;
	map_all(&f, 0);
	map(&f, 300, 5, 0);
	for (unsigned i = 4; i < 8; i++)
		assert_int_equal(mmu_write64(&f.m, i * 4096, i, 0), EMUL_CONTINUE);
	assert_int_equal(mmu_write64(&f.m, 300 * 4096, 5, 0), EMUL_CONTINUE);
	assert_int_equal(mmu_fetch(&f.m, 0x5000, &code), EMUL_CONTINUE);
	u64 dropped = f.m.tlb.stats.tlb_entries_dropped,
	    misses = f.m.tlb.stats.tlb_misses;

	assert_true(mmu_track_page(&f.m, &code, BP_CODE));
	assert_int_equal(f.m.tlb.stats.tlb_entries_dropped - dropped, 2);
	assert_int_equal(code.bp->writers, 0);
	assert_int_equal(mmu_write64(&f.m, 0x4000, 4, 0), EMUL_CONTINUE);
	assert_int_equal(f.m.tlb.stats.tlb_misses, misses);
	reports = 0;
	for (int i = 1; i <= 3; i++) {
		f.attn = 0;
		assert_int_equal(
			mmu_write64(&f.m, (i & 1 ? 5 : 300) * 4096 + 64, 0x1000u + i, 0),
			EMUL_CONTINUE);
		assert_int_equal(reports, i);
		assert_ptr_equal(report_bp, code.bp);
		assert_int_equal(report_off, 64);
		assert_int_equal(report_n, 8);
		assert_int_equal(report_seen, 0x1000 + i);
		assert_true(f.attn & ATTN_CODE);
		assert_int_equal(code.bp->writers, 0);
	}
	/* No pointer for it; the halves report. */
	assert_int_equal(mmu_rmw(&f.m, 0x5000, 8, 0, &hva), EMUL_CONTINUE);
	assert_null(hva);
	assert_int_equal(mmu_page(&f.m, 0x5000, 64, true, 0, &hva), EMUL_CONTINUE);
	assert_null(hva);
	assert_int_equal(mmu_page(&f.m, 0x5000, 64, false, 0, &hva), EMUL_CONTINUE);
	assert_non_null(hva);
	assert_int_equal(mmu_rmw_begin(&f.m, 0x5008, 8, 0, &old), EMUL_CONTINUE);
	assert_int_equal(mmu_rmw_end(&f.m, &old), EMUL_CONTINUE);
	assert_int_equal(reports, 4);
	/* A store that crosses out of it and into it reports its part. */
	assert_int_equal(mmu_write64(&f.m, 0x5ffd, 0, 0), EMUL_CONTINUE);
	assert_int_equal(reports, 5);
	assert_true(report_off == 4093 && report_n == 3);
	assert_int_equal(mmu_write64(&f.m, 0x4ffd, 0, 0), EMUL_CONTINUE);
	assert_true(reports == 6 && report_off == 0 && report_n == 5);
	/* From outside, too. */
	assert_int_equal(mem_write(f.mem, DATA + 5 * 4096 + 100, &old, 2), 0);
	assert_true(reports == 7 && report_off == 100 && report_n == 2);
	/* The flag goes: direct again after one slow store. */
	__atomic_fetch_and((u32 *)(void *)&code.bp->flags, ~(u32)BP_CODE,
			   __ATOMIC_SEQ_CST);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 0, 0), EMUL_CONTINUE);
	misses = f.m.tlb.stats.tlb_misses;
	assert_int_equal(mmu_write64(&f.m, 0x5000, 0, 0), EMUL_CONTINUE);
	assert_int_equal(f.m.tlb.stats.tlb_misses, misses);
	assert_int_equal(reports, 7);
	fixture_free(&f);
}

/* A page table that is watched: A and D bits of our own walks are reported. */
static void test_tracked_table(void **state)
{
	static const struct mem_ops ops = {.code_write = code_write};
	struct fixture f;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	report_fixture = &f;
	f.mem->ops = &ops;
	f.mem->opaque = &reports;
	map_all(&f, 0);
	mem_flag_page(f.mem, bpage_at(&f, PT), BP_CODE, NULL, NULL, NULL);
	reports = 0;
	frame_at(&f, 0x5000);
	assert_true(reports == 1 && report_off == 5 * 8 && report_n == 8);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 5, 0), EMUL_CONTINUE);
	assert_int_equal(reports, 2);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 5, 0), EMUL_CONTINUE);
	assert_int_equal(reports, 2);
	fixture_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_switches),
		cmocka_unit_test(test_more_spaces),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_dropped_counts),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_code_gen),
		cmocka_unit_test(test_writers_bit),
		cmocka_unit_test(test_tracked_page),
		cmocka_unit_test(test_tracked_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
