/* SPDX-License-Identifier: MIT */
/* Control registers and EFER: every check, mode transitions, what SET_SREGS takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/hostcpu.h"
#include "unit/cpu/sysmachine.h"

#define LONG_CR0 (CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG)
#define PDPT_AT	 0x6000 /* of the PAE cases; 32-byte aligned */

/* Give the vCPU a CPUID with all that is offered, less @word's @bits. */
static void offer_without(u32 leaf, unsigned reg, u32 bits)
{
	struct kvm_cpuid_entry2 e[100];
	const struct cpuid_offer offer = { .vendor = -1 };
	unsigned n = cpuid_supported(&offer, e, 100);

	assert_in_range(n, 1, 100);
	for (unsigned i = 0; i < n; i++)
		if (e[i].function == leaf && e[i].index == 0)
			*(&e[i].eax + reg) &= ~bits;
	assert_int_equal(cpuid_set(c, e, n), 0);
}

static int mov_to_cr(unsigned cr, u64 value)
{
	const u8 code[] = { 0x44, 0x0f, 0x22, (u8)(0xc0 | (cr & 7) << 3) };

	c->gpr[R_RAX] = value;
	machine_code(&m, M_CODE, code + (cr < 8), cr < 8 ? 3 : 4);
	return machine_step(v);
}

static void cr0_checks(void **state)
{
	static const struct {
		const char *name;
		u64 value;
		bool ok;
		u64 stored;
	} rows[] = {
		{ "as it is", LONG_CR0, true, LONG_CR0 },
		{ "PG without PE", CR0_PG | CR0_ET, false, 0 },
		{ "NW without CD", LONG_CR0 | CR0_NW, false, 0 },
		{ "NW with CD", LONG_CR0 | CR0_NW | CR0_CD, true, LONG_CR0 | CR0_NW | CR0_CD },
		{ "CD", LONG_CR0 | CR0_CD, true, LONG_CR0 | CR0_CD },
		{ "bit 32", LONG_CR0 | BIT64(32), false, 0 },
		{ "bit 63", LONG_CR0 | BIT64(63), false, 0 },
		{ "reserved low bits are ignored", LONG_CR0 | 0x1000ffc0, true, LONG_CR0 },
		{ "ET cannot be cleared", LONG_CR0 & ~CR0_ET, true, LONG_CR0 },
		{ "PG off in 64-bit code", CR0_PE | CR0_ET, false, 0 },
		{ "TS, EM, MP, AM", LONG_CR0 | CR0_TS | CR0_EM | CR0_MP | CR0_AM, true,
		  LONG_CR0 | CR0_TS | CR0_EM | CR0_MP | CR0_AM },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		check_fault(rows[i].name, mov_to_cr(0, rows[i].value), rows[i].ok ? M_EVENT : EXC_GP,
			    0);
		if (c->mmu.cr0 != (rows[i].ok ? rows[i].stored : LONG_CR0))
			fail_msg("%s: CR0 %#llx", rows[i].name, (unsigned long long)c->mmu.cr0);
	}
}

static void cr3_checks(void **state)
{
	static const struct {
		const char *name;
		u64 value;
		bool pcide, ok;
	} rows[] = {
		{ "same", M_PML4, false, true },
		{ "low bits are kept", M_PML4 | 0xfff, false, true },
		{ "at MAXPHYADDR", M_PML4 | BIT64(40), false, false },
		{ "bit 51", M_PML4 | BIT64(51), false, false },
		{ "bit 62", M_PML4 | BIT64(62), true, false },
		{ "bit 63 without PCIDE", M_PML4 | CR3_NOFLUSH, false, false },
		{ "bit 63 with PCIDE", M_PML4 | CR3_NOFLUSH, true, true },
		{ "PCID", M_PML4 | 0x123, true, true },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		c->mmu.maxphyaddr = 40;
		if (rows[i].pcide)
			mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_PCIDE);
		check_fault(rows[i].name, mov_to_cr(3, rows[i].value), rows[i].ok ? M_EVENT : EXC_GP,
			    0);
		if (c->mmu.cr3 != (rows[i].ok ? rows[i].value & ~CR3_NOFLUSH : M_PML4))
			fail_msg("%s: CR3 %#llx", rows[i].name, (unsigned long long)c->mmu.cr3);
	}
}

/* Each bit of CR4 by itself: free, bound to a CPUID feature, or reserved. */
static void cr4_bits(void **state)
{
	static const struct {
		unsigned bit;
		u32 leaf;
		u8 reg; /* 1 EBX, 2 ECX */
		u8 feature;
	} bound[] = {
		{ 11, 7, 2, 2 },  /* UMIP */
		{ 16, 7, 1, 0 },  /* FSGSBASE */
		{ 17, 1, 2, 17 }, /* PCIDE */
		{ 18, 1, 2, 26 }, /* OSXSAVE */
		{ 20, 7, 1, 7 },  /* SMEP */
		{ 21, 7, 1, 20 }, /* SMAP */
	};
	const u64 own = CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT, always = 0x7ff;

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		bool ok = always >> bit & 1;
		unsigned b;

		for (b = 0; b < ARRAY_SIZE(bound) && bound[b].bit != bit; b++)
			;
		again();
		offer_without(0, 0, 0);
		if (b < ARRAY_SIZE(bound))
			ok = bit != 18 || hostcpu()->xsave;
		/* SMEP and SMAP would fault on the user pages of the test. */
		for (u64 i = 0; i < 512; i++)
			*machine_pte(&m, i << 12) &= ~4ull;
		mmu_flush_guest(&c->mmu);
		int got = mov_to_cr(4, own ^ (BIT64(bit) & ~CR4_PAE));

		if (bit == 9 || bit == 10)
			ok = true; /* taken away here */
		if ((got == M_EVENT) != ok || (!ok && (got != EXC_GP || machine_frame(v, 0))))
			fail_msg("bit %u: %d", bit, got);
		if (b == ARRAY_SIZE(bound))
			continue;
		again();
		offer_without(bound[b].leaf, bound[b].reg, BIT(bound[b].feature));
		if (mov_to_cr(4, own | BIT64(bit)) != EXC_GP)
			fail_msg("bit %u without its feature", bit);
	}
}

static void cr4_transitions(void **state)
{
	(void)state;
	again();
	check_fault("PAE off in long mode", mov_to_cr(4, CR4_OSFXSR), EXC_GP, 0);
	again();
	mmu_set_cr3(&c->mmu, M_PML4 | 8);
	check_fault("PCIDE with a PCID", mov_to_cr(4, c->mmu.cr4 | CR4_PCIDE), EXC_GP, 0);
	again();
	legacy_mode(0);
	check_fault("PCIDE outside long mode", mov_to_cr(4, CR4_PCIDE), EXC_GP, 0);
	/* PG off with PCIDE: from compatibility mode, which may otherwise do it. */
	for (int pcide = 0; pcide < 2; pcide++) {
		again();
		if (pcide)
			mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_PCIDE);
		m_seg(c, SEG_CS, M_CS32, 0xc09b);
		cpu_update_mode(c);
		check_fault("PG off", mov_to_cr(0, CR0_PE | CR0_ET), pcide ? EXC_GP : M_EVENT, 0);
		if (!pcide) {
			assert_false(c->mmu.efer & EFER_LMA);
			assert_true(c->mmu.efer & EFER_LME);
			assert_int_equal(c->code_bits, 32);
		}
	}
}

/* Into long mode and back, as the manual prescribes it; and what forbids it. */
static void long_mode_transitions(void **state)
{
	(void)state;
	again();
	legacy_mode(0);
	offer_without(0, 0, 0);
	c->mmu.cr0 &= ~CR0_NE;
	assert_true(cr_write_efer(c, EFER_LME | EFER_SCE, false));
	assert_false(c->mmu.efer & EFER_LMA);
	c->mmu.cr3 = M_PML4;
	check_fault("PG and LME without PAE", mov_to_cr(0, CR0_PE | CR0_ET | CR0_PG), EXC_GP, 0);
	again();
	legacy_mode(0);
	offer_without(0, 0, 0);
	assert_true(cr_write_efer(c, EFER_LME, false));
	mmu_set_cr4(&c->mmu, CR4_PAE);
	mmu_set_cr3(&c->mmu, M_PML4);
	c->seg[SEG_CS].attr |= SEG_L;
	check_fault("PG with CS.L", mov_to_cr(0, CR0_PE | CR0_ET | CR0_PG), EXC_GP, 0);
	again();
	legacy_mode(0);
	offer_without(0, 0, 0);
	assert_true(cr_write_efer(c, EFER_LME, false));
	mmu_set_cr4(&c->mmu, CR4_PAE);
	mmu_set_cr3(&c->mmu, M_PML4);
	assert_int_equal(mov_to_cr(0, CR0_PE | CR0_ET | CR0_PG), M_EVENT);
	assert_int_equal(c->mmu.efer, EFER_LME | EFER_LMA);
	assert_int_equal(c->code_bits, 32);
	/* LME is fixed while paging is on. */
	assert_false(cr_write_efer(c, 0, false));
	assert_true(cr_write_efer(c, EFER_LME | EFER_SCE, false));
	assert_int_equal(c->mmu.efer, EFER_LME | EFER_LMA | EFER_SCE);
	c->rip = M_CODE;
	assert_int_equal(STEP(0xea, 0, 0, 4, 0, M_CS0, 0), M_EVENT); /* far, to 64 bits */
	assert_int_equal(c->code_bits, 64);
}

static void efer_checks(void **state)
{
	(void)state;
	again();
	offer_without(0x80000001, 3, BIT(20));
	assert_false(cr_write_efer(c, c->mmu.efer, false)); /* has NXE */
	assert_true(cr_write_efer(c, c->mmu.efer & ~EFER_NXE, false));
	assert_false(cr_write_efer(c, c->mmu.efer | EFER_NXE, false));
	assert_true(cr_write_efer(c, c->mmu.efer | EFER_NXE, true));
	again();
	offer_without(0, 0, 0);
	for (unsigned bit = 0; bit < 64; bit++) {
		bool ok = bit == 0 || bit == 10 || bit == 11 || bit == 8 ||
			  (bit == 14 && c->vendor == VENDOR_AMD);

		if (cr_write_efer(c, EFER_LME | BIT64(bit), false) != ok)
			fail_msg("EFER bit %u", bit);
	}
	/* LMA is not written. */
	assert_true(cr_write_efer(c, EFER_LME, false));
	assert_true(c->mmu.efer & EFER_LMA);
}

/* PAE outside long mode: the four PDPTEs are loaded, and checked, by the writes
 * that the manual lists. */
static void pdptes(void **state)
{
	(void)state;
	again();
	legacy_mode(0);
	m_put64(&m, PDPT_AT, M_PD | 1);
	m_put64(&m, M_PD, 0x83);
	mmu_set_cr4(&c->mmu, CR4_PAE);
	mmu_set_cr3(&c->mmu, PDPT_AT);
	m_put64(&m, PDPT_AT + 8, 1 | BIT64(1)); /* reserved */
	check_fault("PG", mov_to_cr(0, CR0_PE | CR0_ET | CR0_PG), EXC_GP, 0);
	assert_false(c->mmu.cr0 & CR0_PG);
	c->rip = M_CODE;
	m_put64(&m, PDPT_AT + 8, BIT64(1) | BIT64(62)); /* not present: anything goes */
	assert_int_equal(mov_to_cr(0, CR0_PE | CR0_ET | CR0_PG), M_EVENT);
	assert_int_equal(c->mmu.pdptr[0], M_PD | 1);
	/* CR3: loads; with a reserved bit it changes nothing. */
	m_put64(&m, PDPT_AT + 0x20, M_PD | 1 | BIT64(63));
	c->rip = M_CODE;
	assert_int_equal(mov_to_cr(3, PDPT_AT + 0x20), EXC_GP);
	assert_int_equal(c->mmu.cr3, PDPT_AT);
	assert_int_equal(c->mmu.pdptr[0], M_PD | 1);
	/* Changed entries count from the next load on: CR4.PGE is one. */
	m_put64(&m, PDPT_AT, M_PD | 1 | BIT64(9));
	m_put64(&m, PDPT_AT + 8, M_PD | 1);
	c->rip = M_CODE;
	c->gpr[R_RSP] = M_STACK;
	assert_int_equal(mov_to_cr(4, CR4_PAE | CR4_DE), M_EVENT);
	assert_int_equal(c->mmu.pdptr[1] & 1, 0);
	c->rip = M_CODE;
	assert_int_equal(mov_to_cr(4, CR4_PAE | CR4_PGE), M_EVENT);
	assert_int_equal(c->mmu.pdptr[1], M_PD | 1);
}

static void cr8_and_others(void **state)
{
	static const u8 undefined[] = { 1, 5, 6, 7, 9, 15 };

	(void)state;
	again();
	assert_int_equal(mov_to_cr(8, 15), M_EVENT);
	assert_int_equal(c->cr8, 15);
	c->rip = M_CODE;
	check_fault("CR8 above 15", mov_to_cr(8, 16), EXC_GP, 0);
	assert_int_equal(c->cr8, 15);
	for (unsigned i = 0; i < ARRAY_SIZE(undefined); i++) {
		const u8 code[] = { 0x44, 0x0f, 0x22, (u8)(0xc0 | (undefined[i] & 7) << 3) };

		again();
		machine_code(&m, M_CODE, code + (undefined[i] < 8), 4 - (undefined[i] < 8));
		if (machine_step(v) != EXC_UD)
			fail_msg("CR%u: no #UD", undefined[i]);
	}
	/* CR2 has no reserved bits. */
	again();
	assert_int_equal(mov_to_cr(2, ~0ull), M_EVENT);
	assert_int_equal(c->cr2, ~0ull);
	c->rip = M_CODE;
	assert_int_equal(STEP(0x0f, 0x20, 0xd1), M_EVENT);
	assert_int_equal(c->gpr[R_RCX], ~0ull);
}

static void lmsw_and_smsw(void **state)
{
	(void)state;
	again();
	c->gpr[R_RAX] = 0xfffe; /* PE cannot be cleared; MP, EM, TS are taken */
	assert_int_equal(STEP(0x0f, 0x01, 0xf0), M_EVENT);
	assert_int_equal(c->mmu.cr0, LONG_CR0 | CR0_MP | CR0_EM | CR0_TS);
	c->rip = M_CODE;
	assert_int_equal(STEP(0x0f, 0x06), M_EVENT); /* CLTS */
	assert_int_equal(c->mmu.cr0, LONG_CR0 | CR0_MP | CR0_EM);
	/* SMSW: 64, 32, 16 bits to a register; memory always 16. */
	c->rip = M_CODE;
	assert_int_equal(STEP(0x48, 0x0f, 0x01, 0xe0), M_EVENT);
	assert_int_equal(c->gpr[R_RAX], c->mmu.cr0);
	c->rip = M_CODE;
	c->gpr[R_RAX] = ~0ull;
	assert_int_equal(STEP(0x66, 0x0f, 0x01, 0xe0), M_EVENT);
	assert_int_equal(c->gpr[R_RAX], (~0ull & ~0xffffull) | (c->mmu.cr0 & 0xffff));
	c->rip = M_CODE;
	c->gpr[R_RBX] = M_DATA;
	m_put64(&m, M_DATA, ~0ull);
	assert_int_equal(STEP(0x0f, 0x01, 0x23), M_EVENT);
	assert_int_equal(m_get64(&m, M_DATA), (~0ull & ~0xffffull) | (c->mmu.cr0 & 0xffff));
}

static void real_to_protected(void **state)
{
	(void)state;
	real_mode();
	c->seg[SEG_DS].base = 0x12340;
	machine_code(&m, M_CODE, "\x0f\x22\xc0", 3);
	c->gpr[R_RAX] = CR0_PE | CR0_ET;
	assert_int_equal(machine_step(v), M_EVENT);
	/* Hidden parts stay; the code is 16 bits until the far jump. */
	assert_int_equal(c->code_bits, 16);
	assert_int_equal(c->seg[SEG_CS].base, M_CODE);
	assert_int_equal(c->seg[SEG_DS].base, 0x12340);
	assert_int_equal(c->rip, 3);
	assert_int_equal(c->mmu.cpl, 0);
	c->gdtr = (struct desc_table){ .base = M_GDT, .limit = S_GDT_LIMIT };
	machine_code(&m, M_CODE + 3, "\x66\xea\x00\x00\x04\x00\x18\x00", 8);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->code_bits, 32);
	assert_int_equal(c->rip, M_DATA);
	/* And back: 16 bits at once, base as it was. */
	machine_code(&m, M_DATA, "\x0f\x22\xc0", 3);
	c->gpr[R_RAX] = CR0_ET;
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->code_bits, 16);
}

/* --- KVM_SET_SREGS ---------------------------------------------------------------------- */

static void set_sregs(void **state)
{
	static const struct {
		const char *name;
		u64 cr0, cr3, cr4, efer;
		bool l, ok;
	} rows[] = {
		{ "long mode", LONG_CR0, M_PML4, CR4_PAE, EFER_LME | EFER_LMA, true, true },
		{ "compatibility mode", LONG_CR0, M_PML4, CR4_PAE, EFER_LME | EFER_LMA, false, true },
		{ "real mode", CR0_ET, 0, 0, 0, false, true },
		{ "reset", 0x60000010, 0, 0, 0, false, true },
		{ "LME, PG, no PAE", LONG_CR0, M_PML4, 0, EFER_LME | EFER_LMA, true, false },
		{ "LME, PG, no LMA", LONG_CR0, M_PML4, CR4_PAE, EFER_LME, true, false },
		{ "LMA, no PG", CR0_PE | CR0_ET, 0, CR4_PAE, EFER_LME | EFER_LMA, false, false },
		{ "CS.L without LMA", CR0_PE | CR0_ET, 0, 0, 0, true, false },
		{ "CR3 beyond MAXPHYADDR", LONG_CR0, BIT64(40), CR4_PAE, EFER_LME | EFER_LMA, true,
		  false },
		{ "CR0 bit 32", LONG_CR0 | BIT64(32), M_PML4, CR4_PAE, EFER_LME | EFER_LMA, true,
		  false },
		{ "PG without PE", CR0_PG, 0, 0, 0, false, false },
		{ "NW without CD", CR0_NW, 0, 0, 0, false, false },
		{ "CR4 reserved", LONG_CR0, M_PML4, CR4_PAE | BIT64(25), EFER_LME | EFER_LMA, true,
		  false },
		{ "CR4.VMXE", LONG_CR0, M_PML4, CR4_PAE | CR4_VMXE, EFER_LME | EFER_LMA, true,
		  false },
		{ "LME without paging", CR0_PE | CR0_ET, 0, 0, EFER_LME, false, true },
	};

	(void)state;
	again();
	c->mmu.maxphyaddr = 40;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (cr_valid_sregs(c, rows[i].cr0, rows[i].cr3, rows[i].cr4, rows[i].efer,
				   rows[i].l) != rows[i].ok)
			fail_msg("%s", rows[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(cr0_checks),	  CASE(cr3_checks),    CASE(cr4_bits),
		CASE(cr4_transitions),	  CASE(long_mode_transitions),
		CASE(efer_checks),	  CASE(pdptes),	       CASE(cr8_and_others),
		CASE(lmsw_and_smsw),	  CASE(real_to_protected),
		CASE(set_sregs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
