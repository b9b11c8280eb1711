/* SPDX-License-Identifier: MIT */
/*
 * Walks of all kinds against a model: 4-level with every bit random at every
 * level, PAE, 32-bit; accessed and dirty bits; page tables in odd places.
 */
#include "fixture.h"

static unsigned seed;

/* --- 4-level, all bits at all levels ------------------------------------------------ */

#define GVA 0x8040201008ull /* index 1 at each level, offset 8 */

struct regs {
	bool wp, smep, smap, ac, nxe, gb, implicit;
	unsigned cpl, access; /* 0 read, 1 write, 2 fetch */
	unsigned maxphyaddr;
};

struct result {
	bool ok;
	u32 error;
	unsigned leaf; /* level of the entry that maps the page */
	gpa_t gpa;
};

/* SDM Vol. 3A, "4-Level Paging", "Access Rights", "Page-Fault Exceptions". */
static struct result model(const u64 e[5], const struct regs *r)
{
	bool user = r->cpl == 3 && !r->implicit, fetch = r->access == 2,
	     write = r->access == 1;
	u32 code = (write ? 2 : 0) | (user ? 4 : 0) |
		   (fetch && (r->smep || r->nxe) ? 16 : 0);
	bool all_w = true, all_u = true, any_nx = false;

	for (unsigned level = 4; level; level--) {
		u64 pte = e[level], address = pte & 0xffffffffff000ull;
		bool page = level == 1 || (level < 4 && (pte & 0x80));

		if (!(pte & 1))
			return (struct result){.error = code};
		if (address >> r->maxphyaddr || (!r->nxe && pte >> 63) ||
		    (level == 4 && (pte & 0x80)) ||
		    (level == 3 && (pte & 0x80) && !r->gb) ||
		    (page && level == 3 && (pte & 0x3fffe000)) ||
		    (page && level == 2 && (pte & 0x1fe000)))
			return (struct result){.error = code | 9};
		all_w = all_w && (pte & 2);
		all_u = all_u && (pte & 4);
		any_nx = any_nx || pte >> 63;
		if (!page)
			continue;
		bool ok = all_u || !user;

		if (fetch && (any_nx || (!user && all_u && r->smep)))
			ok = false;
		if (!fetch && !user && all_u && r->smap && (r->implicit || !r->ac))
			ok = false;
		if (write && !all_w && (user || r->wp))
			ok = false;
		if (!ok)
			return (struct result){.error = code | 1};
		u64 below = (1ull << (12 + 9 * (level - 1))) - 1;

		return (struct result){.ok = true,
				       .leaf = level,
				       .gpa = (address & ~below) | (GVA & below)};
	}
	return (struct result){0};
}

static const gpa_t tables[5] = {0, PT, PD, PDPT, PML4};

static u64 chance(unsigned in, u64 bits)
{
	return (unsigned)rand() % in ? 0 : bits;
}

static void random_entries(u64 e[5], unsigned maxphyaddr)
{
	for (unsigned level = 4; level; level--) {
		u64 address = level > 1 ? tables[level - 1]
					: DATA + 4096ull * ((unsigned)rand() % 1000);
		bool page = level < 4 && level > 1 && rand() % 4 == 0;

		if (page)
			address = level == 2 ? 0x200000ull * ((unsigned)rand() % 8) : 0;
		e[level] = address | (~chance(24, 1) & 1) | (~chance(3, 2) & 2) |
			   (~chance(3, 4) & 4) | chance(6, 1ull << 63) | chance(2, 0x20) |
			   chance(2, 0x40) | chance(4, 0x100) | chance(4, 0xe00) |
			   chance(20, 1ull << 51) | chance(20, 1ull << maxphyaddr) |
			   chance(30, 0x7ff0000000000000ull) | chance(4, 0x18);
		if (page)
			e[level] |=
				0x80 | chance(10, 1ull << (13 + (unsigned)rand() % 8));
		else if (level == 1 || level == 4)
			e[level] |= chance(20, 0x80); /* PAT; reserved */
	}
}

static struct regs random_regs(struct fixture *f)
{
	struct regs r = {
		.wp = rand() & 1,
		.smep = rand() & 1,
		.smap = rand() & 1,
		.ac = rand() & 1,
		.nxe = rand() & 3,
		.gb = rand() & 3,
		.cpl = rand() & 1 ? 3 : (unsigned)rand() % 3,
		.access = (unsigned)rand() % 3,
		.maxphyaddr = 36 + (unsigned)rand() % 15,
	};

	r.implicit = r.access != 2 && rand() % 4 == 0;
	f->m.maxphyaddr = (u8)r.maxphyaddr;
	f->m.gbpages = r.gb;
	fixture_regs(f, CR0_PE | CR0_PG | (r.wp ? CR0_WP : 0),
		     CR4_PAE | (r.smep ? CR4_SMEP : 0) | (r.smap ? CR4_SMAP : 0),
		     EFER_LME | EFER_LMA | (r.nxe ? EFER_NXE : 0));
	mmu_set_cpl(&f->m, r.cpl);
	mmu_set_ac(&f->m, r.ac);
	return r;
}

static bool do_access(struct fixture *f, const struct regs *r, u8 **hva)
{
	unsigned acc = r->implicit ? ACC_IMPLICIT : 0;
	struct mmu_code code = {0};
	void *p = NULL;
	enum emul e;

	if (r->access == 2) {
		e = mmu_fetch(&f->m, GVA, &code);
		*hva = code.hva ? code.hva + (GVA & 4095) : NULL;
	} else {
		e = mmu_page(&f->m, GVA, 8, r->access == 1, acc, &p);
		*hva = p;
	}
	return e == EMUL_CONTINUE;
}

static void check_one(struct fixture *f, const struct regs *r, const u64 e[5])
{
	struct result want = model(e, r);
	u8 *hva, *where = want.gpa < RAM ? f->ram + want.gpa : NULL;
	bool ok = do_access(f, r, &hva);

	if (ok != want.ok || (ok && hva != where) ||
	    (!ok && (f->m.fault.error != want.error || f->m.fault.cr2 != GVA)))
		fail_msg("seed %u: %llx %llx %llx %llx, wp %d smep %d smap %d ac %d nxe "
			 "%d gb %d cpl %u "
			 "implicit %d access %u maxphy %u: want %d/%x, got %d/%x",
			 seed, e[4], e[3], e[2], e[1], r->wp, r->smep, r->smap, r->ac,
			 r->nxe, r->gb, r->cpl, r->implicit, r->access, r->maxphyaddr,
			 want.ok, want.error, ok, f->m.fault.error);
	for (unsigned level = 4; level; level--) {
		u64 now = table(f, tables[level])[1], expect = e[level];

		if (want.ok && level >= want.leaf)
			expect |= PTE_A |
				  (level == want.leaf && r->access == 1 ? PTE_D : 0);
		if (now != expect)
			fail_msg("seed %u: level %u was %llx, is %llx, should be %llx",
				 seed, level, e[level], now, expect);
	}
}

static void test_random_4level(void **state)
{
	struct fixture f;
	unsigned ok = 0;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	for (unsigned i = 0; i < 200000; i++) {
		struct regs r = random_regs(&f);
		u64 e[5];

		random_entries(e, r.maxphyaddr);
		for (unsigned level = 4; level; level--)
			table(&f, tables[level])[1] = e[level];
		mmu_flush_guest(&f.m);
		check_one(&f, &r, e);
		ok += model(e, &r).ok;
	}
	/* Neither side of the rules is left out. */
	assert_true(ok > 20000 && ok < 180000);
	printf("CASES 200000 (%u without a fault)\n", ok);
	fixture_free(&f);
}

/* --- PAE ------------------------------------------------------------------------------
 */

static void pae(struct fixture *f)
{
	u64 *pdpt = table(f, 0x7000); /* PDPT of four at 0x7020 */

	pdpt[4] = PD | PTE_P;
	pdpt[5] = 0;
	pdpt[6] = 0;
	pdpt[7] = PD | PTE_P;
	table(f, PD)[0] = PT | PTE_P | PTE_W;
	table(f, PT)[5] = (DATA + 5 * 4096) | PTE_P | PTE_W;
	mmu_set_efer(&f->m, EFER_NXE);
	mmu_set_cr4(&f->m, CR4_PAE);
	assert_true(mmu_load_pdptrs(&f->m, 0x7020));
	mmu_set_cr3(&f->m, 0x7020);
	mmu_set_cr0(&f->m, CR0_PE | CR0_PG | CR0_WP);
}

static void test_pae(void **state)
{
	struct fixture f;
	u64 v;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	pae(&f);
	assert_int_equal(frame_at(&f, 0x5000), 5);
	assert_int_equal(frame_at(&f, 0xc0005000), 5);
	assert_int_equal(mmu_read64(&f.m, 0x40005000, &v, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, 0);
	/* Addresses are 32 bits wide: they wrap, and none is non-canonical. */
	assert_int_equal(frame_at(&f, 0x800000c0005000ull), 5);
	/* 2M page, NX in a PDE, bits above MAXPHYADDR up to 62 reserved. */
	table(&f, PD)[1] = 0x800000 | PTE_P | PTE_PS;
	assert_int_equal(frame_at(&f, 0x200000 + 33 * 4096), 33);
	assert_int_equal(mmu_write64(&f.m, 0x200000, 1, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, PF_P | PF_W);
	table(&f, PD)[2] = PT | PTE_P | PTE_NX;
	assert_int_equal(mmu_fetch(&f.m, 0x405000, &(struct mmu_code){0}), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, PF_P | PF_I);
	table(&f, PT)[6] = DATA | PTE_P | BIT64(62);
	assert_int_equal(mmu_read64(&f.m, 0x6000, &v, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, PF_P | PF_RSVD);
	/* The registers count, not memory, until CR3 is loaded. */
	table(&f, 0x7000)[4] = 0;
	mmu_flush_guest(&f.m);
	assert_int_equal(frame_at(&f, 0x5000), 5);
	assert_true(mmu_load_pdptrs(&f.m, 0x7020));
	mmu_set_cr3(&f.m, 0x7020);
	assert_int_equal(mmu_read64(&f.m, 0x5000, &v, 0), EMUL_FAULT);
	/* Reserved bits are found when they are loaded, and nothing is loaded. */
	for (unsigned bit = 1; bit < 64; bit++) {
		bool rsvd = bit == 1 || bit == 2 || (bit >= 5 && bit <= 8) || bit >= 40;

		f.m.maxphyaddr = 40;
		table(&f, 0x7000)[5] = PTE_P | BIT64(bit);
		if (mmu_load_pdptrs(&f.m, 0x7020) == rsvd)
			fail_msg("bit %u of a PDPTE", bit);
	}
	table(&f, 0x7000)[5] = BIT64(1); /* not present: nothing is reserved */
	assert_true(mmu_load_pdptrs(&f.m, 0x7020));
	fixture_free(&f);
}

/* --- 32-bit paging, and none
 * ------------------------------------------------------------ */

static void test_narrow(void **state)
{
	struct fixture f;
	u32 *dir, *pt;
	u64 v;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	dir = (u32 *)(void *)table(&f, 0x5000);
	pt = (u32 *)(void *)table(&f, 0x6000);
	mmu_set_efer(&f.m, 0);
	mmu_set_cr4(&f.m, CR4_PSE);
	mmu_set_cr3(&f.m, 0x5000);
	mmu_set_cr0(&f.m, CR0_PE | CR0_PG | CR0_WP);
	dir[0] = 0x6000 | PTE_P | PTE_W;
	dir[1] = 0x800000 | PTE_P | PTE_W | PTE_PS;
	dir[1023] = 0x6000 | PTE_P | PTE_W | PTE_U;
	pt[7] = (DATA + 7 * 4096) | PTE_P;
	pt[8] = (DATA + 8 * 4096) | PTE_P | PTE_W;
	/* The neighbours of an entry are not touched by its A and D bits. */
	pt[9] = 0x12345670;
	assert_int_equal(frame_at(&f, 0x7000), 7);
	assert_int_equal(frame_at(&f, 0xffc07000), 7);
	assert_int_equal(mmu_write64(&f.m, 0x8010, 1, 0), EMUL_CONTINUE);
	assert_int_equal(pt[7], (DATA + 7 * 4096) | PTE_P | PTE_A);
	assert_int_equal(pt[8], (DATA + 8 * 4096) | PTE_P | PTE_W | PTE_A | PTE_D);
	assert_int_equal(pt[9], 0x12345670);
	assert_int_equal(mmu_write64(&f.m, 0x7000, 1, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, PF_P | PF_W);
	/* 4M page: all of its fragments, and one INVLPG for all. */
	assert_int_equal(frame_at(&f, 0x400000 + 1000 * 4096), 1000);
	assert_int_equal(frame_at(&f, 0x400000 + 5 * 4096), 5);
	dir[1] = 0x400000 | PTE_P | PTE_W | PTE_PS;
	mmu_invlpg(&f.m, 0x400000 + 700 * 4096);
	memcpy(f.ram + 0x400000 + 1000 * 4096, "12345678", 8);
	memcpy(f.ram + 0x400000 + 5 * 4096, "abcdefgh", 8);
	assert_int_equal(frame_at(&f, 0x400000 + 1000 * 4096), 0x3837363534333231);
	assert_int_equal(frame_at(&f, 0x400000 + 5 * 4096), 0x6867666564636261);
	/* PSE-36 (frame bits 39:32 in bits 20:13); bit 21 is reserved. */
	dir[2] = 1u << 13 | PTE_P | PTE_PS;
	gpa_t gpa;
	bool w, u;

	assert_true(mmu_translate(&f.m, 0x800123, &gpa, &w, &u));
	assert_int_equal(gpa, 0x100000123);
	assert_false(w || u);
	dir[2] = 1u << 21 | PTE_P | PTE_PS;
	assert_int_equal(mmu_read64(&f.m, 0x800000, &v, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, PF_P | PF_RSVD);
	/* A fetch cannot be told apart here. */
	assert_int_equal(mmu_fetch(&f.m, 0x9000000, &(struct mmu_code){0}), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, 0);
	/* Without CR4.PSE bit 7 of a PDE means nothing. */
	mmu_set_cr4(&f.m, 0);
	dir[1] = 0x6000 | PTE_P | PTE_W | PTE_PS;
	assert_int_equal(frame_at(&f, 0x407000), 7);
	/* Paging off: linear is physical. */
	mmu_set_cr0(&f.m, CR0_PE);
	assert_int_equal(frame_at(&f, DATA + 99 * 4096), 99);
	assert_int_equal(frame_at(&f, 0xff00000000000000ull + DATA + 98 * 4096), 98);
	fixture_free(&f);
}

/* --- large pages
 * -------------------------------------------------------------------------- */

static void test_1g(void **state)
{
	struct fixture f;

	(void)state;
	fixture_make(&f, (struct tlb_config){.size = 16});
	table(&f, PDPT)[1] = 0 | PTE_P | PTE_W | PTE_PS;
	for (u64 i = 0; i < 2000; i++)
		assert_int_equal(frame_at(&f, 0x40000000 + DATA + i * 4096), i);
	/* One walk sufficed: the second level holds the page as a whole. */
	assert_int_equal(f.m.tlb.stats.walks, 1);
	table(&f, PDPT)[1] = 0;
	mmu_invlpg(&f.m, 0x40000000 + 0x3ffff000);
	for (u64 i = 1984; i < 2000; i++)
		assert_int_equal(
			mmu_read64(&f.m, 0x40000000 + DATA + i * 4096, &(u64){0}, 0),
			EMUL_FAULT);
	fixture_free(&f);
}

/* --- caches in the guest's disfavour
 * --------------------------------------------------------- */

/* Rights grew in the tables and nobody said so: allowed, not a fault. */
static void test_growing_rights(void **state)
{
	struct fixture f;
	u64 v;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	table(&f, PD)[0] = PT | PTE_P; /* read-only above */
	table(&f, PT)[5] = DATA | PTE_P | PTE_W;
	table(&f, PT)[6] = DATA | PTE_P | PTE_W;
	assert_int_equal(mmu_read64(&f.m, 0x5000, &v, 0), EMUL_CONTINUE);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 1, 0), EMUL_FAULT);
	table(&f, PD)[0] |= PTE_W;
	assert_int_equal(mmu_write64(&f.m, 0x5000, 1, 0), EMUL_CONTINUE);
	assert_int_equal(mmu_write64(&f.m, 0x6000, 1, 0), EMUL_CONTINUE);
	/* Not present -> present needs no invalidation at any level. */
	assert_int_equal(mmu_read64(&f.m, 0x40000000, &v, 0), EMUL_FAULT);
	table(&f, PDPT)[1] = 0x5000 | PTE_P | PTE_W;
	assert_int_equal(mmu_read64(&f.m, 0x40000000, &v, 0), EMUL_FAULT);
	table(&f, 0x5000)[0] = PT | PTE_P | PTE_W;
	assert_int_equal(mmu_read64(&f.m, 0x40007000, &v, 0), EMUL_FAULT);
	table(&f, PT)[7] = (DATA + 4096) | PTE_P;
	assert_int_equal(frame_at(&f, 0x40007000), 1);
	fixture_free(&f);
}

/* A page first read, then written: D is set by the write, not by the read. */
static void test_dirty_later(void **state)
{
	struct fixture f;
	u64 *pte;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	pte = &table(&f, PT)[5];
	*pte = DATA | PTE_P | PTE_W;
	frame_at(&f, 0x5000);
	assert_int_equal(*pte & (PTE_A | PTE_D), PTE_A);
	assert_int_equal(mmu_probe_read(&f.m, 0x5000, 8, 0), EMUL_CONTINUE);
	assert_int_equal(*pte & PTE_D, 0);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 0, 0), EMUL_CONTINUE);
	assert_true(*pte & PTE_D);
	/* The guest takes D away and invalidates: the next write sets it again. */
	*pte &= ~PTE_D;
	mmu_invlpg(&f.m, 0x5000);
	frame_at(&f, 0x5000);
	assert_int_equal(*pte & PTE_D, 0);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 0, 0), EMUL_CONTINUE);
	assert_true(*pte & PTE_D);
	fixture_free(&f);
}

/* --- tables in odd places
 * ---------------------------------------------------------------------- */

static int add_slot(struct fixture *f, u32 slot, u32 flags, u64 gpa, u64 size, void *hva)
{
	struct kvm_userspace_memory_region r = {slot, flags, gpa, size,
						(u64)(uintptr_t)hva};
	int err;

	mmu_exit_guest(&f->m);
	err = mem_set_region(f->mem, &r);
	mmu_enter_guest(&f->m);
	return err;
}

static void test_table_outside_ram(void **state)
{
	struct fixture f;
	u64 v;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	table(&f, PD)[1] = 0xe0000000 | PTE_P | PTE_W;
	assert_int_equal(mmu_read64(&f.m, 0x200000, &v, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.error, PF_P | PF_RSVD);
	mmu_set_cr3(&f.m, 0xe0000000);
	assert_int_equal(mmu_read64(&f.m, 0, &v, 0), EMUL_FAULT);
	fixture_free(&f);
}

/* A page table in a read-only slot is used and not written. */
static void test_table_in_rom(void **state)
{
	struct fixture f;
	u64 *rom = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	rom[5] = (DATA + 3 * 4096) | PTE_P | PTE_W;
	mprotect(rom, 4096, PROT_READ);
	assert_int_equal(add_slot(&f, 3, KVM_MEM_READONLY, 0xf0000000, 4096, rom), 0);
	table(&f, PD)[0] = 0xf0000000 | PTE_P | PTE_W;
	assert_int_equal(frame_at(&f, 0x5000), 3);
	assert_int_equal(mmu_write64(&f.m, 0x5000, 3, 0), EMUL_CONTINUE);
	assert_int_equal(rom[5], (DATA + 3 * 4096) | PTE_P | PTE_W);
	fixture_free(&f);
	munmap(rom, 4096);
}

/* Tables that map themselves, as old kernels have them. */
static void test_self_map(void **state)
{
	struct fixture f;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	table(&f, PML4)[511] = PML4 | PTE_P | PTE_W;
	table(&f, PT)[5] = (DATA + 5 * 4096) | PTE_P | PTE_W;
	/* The PTE of 0x5000 by its own address; then through it. */
	u64 at = 0xffffff8000000000ull + 5 * 8, v;

	assert_int_equal(mmu_read64(&f.m, at, &v, 0), EMUL_CONTINUE);
	assert_int_equal(v, (DATA + 5 * 4096) | PTE_P | PTE_W);
	assert_int_equal(mmu_write64(&f.m, at, (DATA + 6 * 4096) | PTE_P | PTE_W, 0),
			 EMUL_CONTINUE);
	assert_int_equal(frame_at(&f, 0x5000), 6);
	assert_int_equal(table(&f, PT)[5], (DATA + 6 * 4096) | PTE_P | PTE_W | PTE_A);
	fixture_free(&f);
}

static void test_translate(void **state)
{
	struct fixture f;
	gpa_t gpa;
	bool w, u;

	(void)state;
	fixture_make(&f, (struct tlb_config){0});
	table(&f, PT)[5] = (DATA + 5 * 4096) | PTE_P | PTE_U;
	assert_true(mmu_translate(&f.m, 0x5123, &gpa, &w, &u));
	assert_int_equal(gpa, DATA + 0x5123);
	assert_false(w);
	assert_true(u);
	assert_int_equal(table(&f, PT)[5] & PTE_A, 0);
	assert_false(mmu_translate(&f.m, 0x6123, &gpa, &w, &u));
	assert_false(mmu_translate(&f.m, 1ull << 50, &gpa, &w, &u));
	/* It reads memory, whatever the caches hold; the vCPU may be outside. */
	frame_at(&f, 0x5000);
	mmu_exit_guest(&f.m);
	table(&f, PT)[5] = (DATA + 6 * 4096) | PTE_P | PTE_W;
	assert_true(mmu_translate(&f.m, 0x5123, &gpa, &w, &u));
	assert_int_equal(gpa, DATA + 0x6123);
	mmu_enter_guest(&f.m);
	fixture_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_4level),
		cmocka_unit_test(test_pae),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_1g),
		cmocka_unit_test(test_growing_rights),
		cmocka_unit_test(test_dirty_later),
		cmocka_unit_test(test_table_outside_ram),
		cmocka_unit_test(test_table_in_rom),
		cmocka_unit_test(test_self_map),
		cmocka_unit_test(test_translate),
	};

	seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : (unsigned)getpid();
	printf("SEED %u\n", seed);
	srand(seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
