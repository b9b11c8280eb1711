/* SPDX-License-Identifier: MIT */
/*
 * Every combination of rights in two levels, of the bits that govern them and
 * of the kind of access, against a model written from the manual's rules
 * (SDM Vol. 3A "Determination of Access Rights", "Page-Fault Exceptions").
 */
#include "fixture.h"

#define GVA 0x5000ull

struct config {
	bool wp, smep, smap, ac, nxe;
	unsigned cpl;
	bool implicit;
	int access; /* 0 read, 1 write, 2 fetch */
};

/* -1: allowed; else the error code. */
static int model(u64 pde, u64 pte, const struct config *c)
{
	bool user = c->cpl == 3 && !c->implicit;
	unsigned code = (c->access == 1 ? PF_W : 0) | (user ? PF_U : 0) |
		   (c->access == 2 && (c->smep || c->nxe) ? PF_I : 0);
	u64 both = pde & pte;
	bool nx = c->nxe && ((pde | pte) & PTE_NX), u = both & PTE_U, w = both & PTE_W;

	if (!(pde & PTE_P))
		return (int)code;
	if (!c->nxe && (pde & PTE_NX))
		return (int)(code | PF_P | PF_RSVD);
	if (!(pte & PTE_P))
		return (int)code;
	if (!c->nxe && (pte & PTE_NX))
		return (int)(code | PF_P | PF_RSVD);
	bool ok = !user || u;

	if (c->access == 2)
		ok = ok && !nx && !(c->smep && !user && u);
	else
		ok = ok && !(c->smap && !user && u && (c->implicit || !c->ac));
	if (c->access == 1 && !w)
		ok = ok && !user && !c->wp;
	return ok ? -1 : (int)(code | PF_P);
}

static enum emul do_access(struct fixture *f, const struct config *c)
{
	unsigned acc = c->implicit ? ACC_IMPLICIT : 0;
	struct mmu_code code;
	u64 v = 7;

	switch (c->access) {
	case 0: return mmu_read64(&f->m, GVA, &v, acc);
	case 1: return mmu_write64(&f->m, GVA, v, acc);
	}
	return mmu_fetch(&f->m, GVA, &code);
}

static void check(struct fixture *f, u64 pde, u64 pte, const struct config *c)
{
	u64 *pd = &table(f, PD)[0], *pt = &table(f, PT)[5];
	int want = model(pde, pte, c), got = -1;
	enum emul r;

	*pd = PT | pde;
	*pt = DATA | pte;
	mmu_flush_guest(&f->m);
	/* Twice: by a walk, then by what the walk left behind. */
	for (int turn = 0; turn < 2; turn++) {
		r = do_access(f, c);
		got = r == EMUL_FAULT ? (int)f->m.fault.error : -1;
		if (got != want || (want >= 0 && (f->m.fault.vector != EXC_PF || f->m.fault.cr2 != GVA)))
			fail_msg("pde %llx pte %llx wp %d smep %d smap %d ac %d nxe %d cpl %u implicit %d "
				 "access %d turn %d: want %d got %d",
				 pde, pte, c->wp, c->smep, c->smap, c->ac, c->nxe, c->cpl,
				 c->implicit, c->access, turn, want, got);
	}
	/* Accessed and dirty: set on success, never without. */
	if (want == -1 && (!(*pt & PTE_A) || !(*pd & PTE_A) || !!(*pt & PTE_D) != (c->access == 1)))
		fail_msg("A/D: pde %llx pte %llx after access %d", *pd, *pt, c->access);
	if (want != -1 && (*pt & (PTE_A | PTE_D)))
		fail_msg("A/D set by a faulting access");
}

static u64 rights(unsigned n)
{
	return (n & 1 ? PTE_P : 0) | (n & 2 ? PTE_W : 0) | (n & 4 ? PTE_U : 0) |
	       (n & 8 ? PTE_NX : 0);
}

static void test_permissions(void **state)
{
	struct fixture f;
	unsigned long cases = 0;

	(void)state;
	fixture_make(&f, (struct tlb_config){ 0 });
	for (unsigned bits = 0; bits < 128; bits++) {
		struct config c = { .wp = bits & 1, .smep = bits & 2, .smap = bits & 4, .ac = bits & 8,
				    .nxe = bits & 16, .cpl = bits & 32 ? 3 : 0, .implicit = bits & 64 };

		fixture_regs(&f, CR0_PE | CR0_PG | (c.wp ? CR0_WP : 0),
			     CR4_PAE | (c.smep ? CR4_SMEP : 0) | (c.smap ? CR4_SMAP : 0),
			     EFER_LME | EFER_LMA | (c.nxe ? EFER_NXE : 0));
		mmu_set_cpl(&f.m, c.cpl);
		mmu_set_ac(&f.m, c.ac);
		for (unsigned k = 0; k < 256; k++)
			for (c.access = 0; c.access < 3; c.access++) {
				if (c.implicit && c.access == 2)
					continue;
				check(&f, rights(k & 15), rights(k >> 4), &c);
				cases++;
			}
	}
	printf("CASES %lu\n", cases);
	fixture_free(&f);
}

/* --- reserved bits --------------------------------------------------------------- */

static void test_reserved(void **state)
{
	static const struct {
		const char *name;
		gpa_t at;
		u64 bits;
		bool rsvd;
	} rows[] = {
		{ "bit 51 in a PTE", PT, BIT64(51), true },
		{ "bit 40 in a PTE, MAXPHYADDR 40", PT, BIT64(40), true },
		{ "bit 39 in a PTE, MAXPHYADDR 40", PT, BIT64(39), false },
		{ "bit 52 in a PTE", PT, BIT64(52), false },
		{ "bit 40 in a PDE", PD, BIT64(40), true },
		{ "bit 40 in a PDPTE", PDPT, BIT64(40), true },
		{ "bit 40 in a PML4E", PML4, BIT64(40), true },
		{ "PS in a PML4E", PML4, PTE_PS, true },
		{ "2M page with bit 13", PD, PTE_PS | BIT64(13), true },
		{ "2M page with bit 12 (PAT)", PD, PTE_PS | BIT64(12), false },
		{ "1G page with bit 29", PDPT, PTE_PS | BIT64(29), true },
	};
	struct fixture f;

	(void)state;
	fixture_make(&f, (struct tlb_config){ 0 });
	f.m.maxphyaddr = 40;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned index = rows[i].at == PT ? 5 : 0;
		u64 *e = &table(&f, rows[i].at)[index], old = *e, v;

		table(&f, PT)[5] = DATA | PTE_P | PTE_W;
		if (rows[i].bits & PTE_PS && rows[i].at != PML4)
			*e = PTE_P | PTE_W | rows[i].bits;
		else
			*e |= rows[i].bits;
		mmu_flush_guest(&f.m);
		bool fault = mmu_read64(&f.m, GVA, &v, 0) == EMUL_FAULT && (f.m.fault.error & PF_RSVD);

		if (fault != rows[i].rsvd)
			fail_msg("%s: reserved fault %d", rows[i].name, fault);
		*e = old;
	}
	fixture_free(&f);
}

static void test_addresses(void **state)
{
	struct fixture f;
	u64 v;

	(void)state;
	fixture_make(&f, (struct tlb_config){ 0 });
	table(&f, PT)[5] = DATA | PTE_P | PTE_W;
	assert_int_equal(mmu_read64(&f.m, 1ull << 47, &v, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.vector, EXC_GP);
	assert_int_equal(mmu_read64(&f.m, 1ull << 47, &v, ACC_SS), EMUL_FAULT);
	assert_int_equal(f.m.fault.vector, EXC_SS);
	/* No table entry may match a non-canonical address by accident. */
	for (int s = 0; s < 64; s++)
		(void)!mmu_read64(&f.m, 0x8000000000000000ull + ((u64)s << 12), &v, 0);
	/* A write that crosses into a page that is not there writes nothing. */
	u64 before = table(&f, DATA)[511];

	assert_int_equal(mmu_write64(&f.m, GVA + 4092, ~0ull, 0), EMUL_FAULT);
	assert_int_equal(f.m.fault.cr2, GVA + 4096);
	assert_int_equal(table(&f, DATA)[511], before);
	fixture_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_permissions),
		cmocka_unit_test(test_reserved),
		cmocka_unit_test(test_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
