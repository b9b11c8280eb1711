/* SPDX-License-Identifier: MIT */
/* MSRs: a sweep over all numbers and bits against a list of its own, values that
 * are refused, what the client may do and a guest may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/hostcpu.h"
#include "cpu/msr.h"
#include "unit/cpu/sysmachine.h"

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

/* --- the sweep ------------------------------------------------------------------------- */

/* For every MSR that a guest can reach: its value after reset, and what becomes of
 * a write of each single bit: kept, ignored or #GP. */
struct want {
	u32 from, to; /* numbers */
	u64 reset;
	u64 keeps;    /* single bits that read back */
	u64 ignores;  /* written without effect; all others: #GP */
};

#define ALL   (~0ull)
#define CANON 0x00007fffffffffffull /* single bits that are canonical by themselves */

static const struct want wants[] = {
	{ 0x17, 0x17, 0, 0, ALL },
	{ 0x2a, 0x2a, 0, 0, ALL },
	{ 0x34, 0x34, 0, 0, 0 },
	{ 0x48, 0x48, 0, 0x407, 0 },
	{ 0x79, 0x79, 0, 0, ALL },
	{ 0xcd, 0xcd, 3, 0, 0 },
	{ 0xce, 0xce, 0x80000000, 0, 0 },
	{ 0xfe, 0xfe, 0x508, 0, 0 },
	{ 0x11e, 0x11e, 0xbe702111, 0, 0 },
	{ 0x140, 0x140, 0, 1, 0 },
	{ 0x174, 0x174, 0, 0xffffffff, 0 },
	{ 0x175, 0x176, 0, CANON, 0 },
	{ 0x179, 0x179, 10, 0, 0 },
	{ 0x17a, 0x17a, 0, ALL, 0 },
	{ 0x198, 0x198, 0x100000000400, 0, 0 },
	{ 0x199, 0x199, 0, 0, 0 },
	{ 0x1a0, 0x1a0, 1, ALL, 0 },
	{ 0x1d9, 0x1d9, 0, 3, 0 },
	{ 0x1db, 0x1de, 0, 0, 0 },
	{ 0x1fc, 0x1fc, 0, ALL, 0 },
	{ 0x277, 0x277, 0x0007040600070406, 0x0505050505050505, 0 }, /* types 1 and 4 */
	{ 0x2ff, 0x2ff, 0, 0xc00 | 1 | 4, 0 },
	{ 0x606, 0x606, 0, 0, 0 },
	{ 0x611, 0x611, 0, 0, 0 },
	{ 0x619, 0x619, 0, 0, 0 },
	{ 0x639, 0x639, 0, 0, 0 },
	{ 0x641, 0x641, 0, 0, 0 },
	{ 0xc0000081, 0xc0000081, 0, ALL, 0 },
	{ 0xc0000082, 0xc0000083, 0, CANON, 0 },
	{ 0xc0000084, 0xc0000084, 0, 0xffffffff, 0 },
	{ 0xc0000100, 0xc0000102, 0, CANON, 0 },
	{ 0xc0000103, 0xc0000103, 0, 0xffffffff, 0 },
	{ 0xc0010000, 0xc0010007, 0, 0, ALL },
	{ 0xc0010010, 0xc0010010, 0, 0, ALL },
	{ 0xc0010015, 0xc0010015, 0x1000000, 0, ALL }, /* TscFreqSel */
	{ 0xc001001a, 0xc001001a, 0, 0, ALL },
	{ 0xc001001d, 0xc001001d, 0, 0, ALL },
	{ 0xc001001f, 0xc0010020, 0, 0, ALL },
	{ 0xc0010055, 0xc0010055, 0, 0, ALL },
	{ 0xc0010058, 0xc0010058, 0, 0, ALL },
	{ 0xc0010112, 0xc0010113, 0, 0, ALL },
	{ 0xc0010117, 0xc0010117, 0, 0, ALL },
	{ 0xc001011f, 0xc001011f, 0, 0, ALL },
	{ 0xc0011020, 0xc0011023, 0, 0, ALL },
	{ 0xc0011029, 0xc0011029, 2, 0, ALL },
	{ 0xc001102a, 0xc001102a, 0, 0, ALL },
	{ 0xc001102c, 0xc001102c, 0, 0, ALL },
};

/* Not in the table: their reset value or their rules depend on the host, on other
 * state or on the value as a whole. */
static bool elsewhere(u32 index)
{
	return index == 0x8b || index == 0x10a || index == MSR_XSS || index == MSR_EFER || index == MSR_PRED_CMD ||
	       (index >= 0x200 && index <= 0x26f) || (index >= 0x400 && index < 0x400 + 40);
}

static const struct want *want_of(u32 index)
{
	for (unsigned i = 0; i < ARRAY_SIZE(wants); i++)
		if (index >= wants[i].from && index <= wants[i].to)
			return &wants[i];
	return NULL;
}

static void check_bits(u32 index, const struct want *w)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		u64 value = BIT64(bit), before, after;
		enum cpu_msr r;

		assert_int_equal(cpu_msr_read(c, index, &before, false), CPU_MSR_OK);
		r = cpu_msr_write(c, index, value, false);
		assert_int_equal(cpu_msr_read(c, index, &after, false), CPU_MSR_OK);
		bool keep = w->keeps & value, ignore = w->ignores & value;

		if (r != (keep || ignore ? CPU_MSR_OK : CPU_MSR_INVALID))
			fail_msg("WRMSR %#x, bit %u: %d", index, bit, r);
		if (after != (keep ? value : before))
			fail_msg("WRMSR %#x, bit %u: reads %#llx", index, bit,
				 (unsigned long long)after);
	}
}

static void every_number(void **state)
{
	static const u32 ranges[][2] = {
		{ 0, 0x2000 }, { 0x40000000, 0x40000200 }, { 0x4b564d00, 0x4b564d10 },
		{ 0xc0000000, 0xc0000200 }, { 0xc0010000, 0xc0012000 }, { 0xfffffff0, 0xffffffff },
	};

	(void)state;
	again();
	offer_without(0, 0, 0);
	for (unsigned k = 0; k < ARRAY_SIZE(ranges); k++)
		for (u64 index = ranges[k][0]; index <= ranges[k][1]; index++) {
			const struct want *w = want_of((u32)index);
			u64 value;
			enum cpu_msr r = cpu_msr_read(c, (u32)index, &value, false);

			if (elsewhere((u32)index))
				continue;
			if (!w) {
				/* MCG_CTL too: MCG_CAP says that it is not there. */
				if (r != CPU_MSR_UNKNOWN ||
				    cpu_msr_write(c, (u32)index, 0, false) != CPU_MSR_UNKNOWN)
					fail_msg("MSR %#llx is there", (unsigned long long)index);
				continue;
			}
			if (r != CPU_MSR_OK || value != w->reset)
				fail_msg("MSR %#llx: %d, %#llx after reset", (unsigned long long)index,
					 r, (unsigned long long)value);
			check_bits((u32)index, w);
		}
}

/* --- values ----------------------------------------------------------------------------- */

static void memory_types(void **state)
{
	(void)state;
	again();
	/* PAT: 0, 1, 4, 5, 6, 7 in each of its eight bytes. */
	for (unsigned slot = 0; slot < 8; slot++)
		for (u64 type = 0; type < 256; type++) {
			u64 rest = 0x0606060606060606ull & ~(0xffull << 8 * slot);
			bool ok = type < 2 || (type >= 4 && type < 8);

			if ((cpu_msr_write(c, MSR_PAT, rest | type << 8 * slot, false) ==
			     CPU_MSR_OK) != ok)
				fail_msg("PAT %u: type %llu", slot, (unsigned long long)type);
		}
	/* Fixed ranges and the default type: not 7. */
	for (u64 type = 0; type < 256; type++) {
		bool ok = type < 2 || (type >= 4 && type < 7);

		if ((cpu_msr_write(c, 0x268, type << 24, false) == CPU_MSR_OK) != ok ||
		    (cpu_msr_write(c, 0x2ff, 0xc00 | type, false) == CPU_MSR_OK) != ok ||
		    (cpu_msr_write(c, 0x20e, type, false) == CPU_MSR_OK) != ok)
			fail_msg("MTRR type %llu", (unsigned long long)type);
	}
}

static void variable_ranges(void **state)
{
	static const struct {
		const char *name;
		u32 index;
		u64 value;
		bool ok;
	} rows[] = {
		{ "base", 0x200, 0xfffffff000 | 6, true },
		{ "base: reserved bits 11:8", 0x200, 0x100 | 6, false },
		{ "base beyond MAXPHYADDR", 0x200, BIT64(40) | 6, false },
		{ "mask", 0x201, 0xfffffff800, true },
		{ "mask: reserved bit 10", 0x201, 0x400, false },
		{ "mask beyond MAXPHYADDR", 0x20f, BIT64(40), false },
	};
	u64 value;

	(void)state;
	again();
	c->mmu.maxphyaddr = 40;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if ((cpu_msr_write(c, rows[i].index, rows[i].value, false) == CPU_MSR_OK) !=
		    rows[i].ok)
			fail_msg("%s", rows[i].name);
	/* Eight pairs, no more; the 11 fixed ones, none between them. */
	assert_int_equal(cpu_msr_read(c, 0x210, &value, false), CPU_MSR_UNKNOWN);
	for (u32 index = 0x250; index < 0x270; index++) {
		bool there = index == 0x250 || index == 0x258 || index == 0x259 || index >= 0x268;

		assert_int_equal(cpu_msr_read(c, index, &value, false),
				 there ? CPU_MSR_OK : CPU_MSR_UNKNOWN);
	}
}

static void machine_check(void **state)
{
	u64 value;

	(void)state;
	again();
	for (u32 bank = 0; bank < 10; bank++) {
		u32 ctl = MSR_MC0_CTL + 4 * bank;

		assert_int_equal(cpu_msr_write(c, ctl, ~0ull, false), CPU_MSR_OK);
		assert_int_equal(cpu_msr_write(c, ctl, ~0ull & ~BIT64(10), false), CPU_MSR_OK);
		assert_int_equal(cpu_msr_write(c, ctl, ~1ull, false), CPU_MSR_OK);
		assert_int_equal(cpu_msr_write(c, ctl, 2, false), CPU_MSR_INVALID);
		/* STATUS: a guest clears, the client sets. */
		assert_int_equal(cpu_msr_write(c, ctl + 1, BIT64(63), false), CPU_MSR_INVALID);
		assert_int_equal(cpu_msr_write(c, ctl + 1, BIT64(63), true), CPU_MSR_OK);
		assert_int_equal(cpu_msr_read(c, ctl + 1, &value, false), CPU_MSR_OK);
		assert_int_equal(value, BIT64(63));
		assert_int_equal(cpu_msr_write(c, ctl + 1, 0, false), CPU_MSR_OK);
		assert_int_equal(cpu_msr_write(c, ctl + 2, 0x1234567, false), CPU_MSR_OK);
	}
	assert_int_equal(cpu_msr_read(c, MSR_MC0_CTL + 40, &value, false), CPU_MSR_UNKNOWN);
	/* MCG_CTL exists with bit 8 of MCG_CAP, and takes all or nothing. */
	assert_int_equal(cpu_msr_read(c, MSR_MCG_CTL, &value, false), CPU_MSR_UNKNOWN);
	c->msr.mcg_cap |= BIT(8);
	assert_int_equal(cpu_msr_write(c, MSR_MCG_CTL, ~0ull, false), CPU_MSR_OK);
	assert_int_equal(cpu_msr_write(c, MSR_MCG_CTL, 1, false), CPU_MSR_INVALID);
}

/* --- CPUID decides -------------------------------------------------------------------------- */

static void bound_to_cpuid(void **state)
{
	u64 value;

	(void)state;
	/* XSS: with XSAVES, and no bit of it. */
	again();
	offer_without(0xd, 0, 0); /* all */
	if (hostcpu()->xsaves) {
		assert_int_equal(cpu_msr_read(c, MSR_XSS, &value, false), CPU_MSR_OK);
		assert_int_equal(cpu_msr_write(c, MSR_XSS, 0, false), CPU_MSR_OK);
		for (unsigned bit = 0; bit < 64; bit++)
			for (int host = 0; host < 2; host++)
				assert_int_equal(cpu_msr_write(c, MSR_XSS, BIT64(bit), host),
						 CPU_MSR_INVALID);
	}
	c->cpuid->word[CW_D1_EAX] = 0;
	assert_int_equal(cpu_msr_read(c, MSR_XSS, &value, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_XSS, 0, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_XSS, 0, true), CPU_MSR_OK);
	/* TSC_AUX: RDTSCP or RDPID. */
	again();
	offer_without(0x80000001, 3, BIT(27));
	assert_int_equal(cpu_msr_read(c, MSR_TSC_AUX, &value, false), CPU_MSR_OK);
	c->cpuid->word[CW_7_ECX] &= ~BIT(22);
	assert_int_equal(cpu_msr_read(c, MSR_TSC_AUX, &value, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_TSC_AUX, 1, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_TSC_AUX, 1, true), CPU_MSR_OK);
	/* ARCH_CAPABILITIES: read-only for a guest. */
	again();
	offer_without(7, 3, BIT(29));
	assert_int_equal(cpu_msr_read(c, 0x10a, &value, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_read(c, 0x10a, &value, true), CPU_MSR_OK);
	again();
	offer_without(0, 0, 0);
	assert_int_equal(cpu_msr_read(c, 0x10a, &value, false), CPU_MSR_OK);
	assert_true(value & 1); /* RDCL_NO: Linux needs no page-table isolation */
	assert_int_equal(cpu_msr_write(c, 0x10a, 0, false), CPU_MSR_INVALID);
	/* SPEC_CTRL and PRED_CMD; without them the client may still restore. */
	again();
	offer_without(7, 3, BIT(26));
	assert_int_equal(cpu_msr_read(c, MSR_SPEC_CTRL, &value, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_SPEC_CTRL, 0, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_PRED_CMD, 1, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_SPEC_CTRL, 1, true), CPU_MSR_OK);
	again();
	offer_without(0, 0, 0);
	/* PRED_CMD is write-only, and has one bit. */
	assert_int_equal(cpu_msr_read(c, MSR_PRED_CMD, &value, false), CPU_MSR_UNKNOWN);
	assert_int_equal(cpu_msr_write(c, MSR_PRED_CMD, 1, false), CPU_MSR_OK);
	assert_int_equal(cpu_msr_write(c, MSR_PRED_CMD, 2, false), CPU_MSR_INVALID);
	/* CPUID faulting needs PLATFORM_INFO's bit. */
	assert_int_equal(cpu_msr_write(c, MSR_MISC_FEATURES, 1, false), CPU_MSR_OK);
	assert_int_equal(cpu_msr_write(c, MSR_MISC_FEATURES, 0, false), CPU_MSR_OK);
	c->msr.platform_info = 0;
	assert_int_equal(cpu_msr_write(c, MSR_MISC_FEATURES, 1, false), CPU_MSR_INVALID);
	assert_int_equal(cpu_msr_write(c, MSR_MISC_FEATURES, 0, false), CPU_MSR_OK);
}

/* Linux asks for the microcode revision by writing 0, CPUID, RDMSR. */
static void microcode_revision(void **state)
{
	u64 value;

	(void)state;
	again();
	assert_int_equal(cpu_msr_write(c, 0x8b, 0, false), CPU_MSR_OK);
	assert_int_equal(cpu_msr_read(c, 0x8b, &value, false), CPU_MSR_OK);
	assert_int_equal(value, hostcpu()->amd ? 0x01000065 : 0x100000000ull);
	assert_int_equal(cpu_msr_write(c, 0x8b, 7, true), CPU_MSR_OK);
	assert_int_equal(cpu_msr_read(c, 0x8b, &value, false), CPU_MSR_OK);
	assert_int_equal(value, 7);
}

/* --- instructions ------------------------------------------------------------------------------ */

static void rdmsr_and_wrmsr(void **state)
{
	(void)state;
	again();
	c->gpr[R_RCX] = 0xabcdef00c0000082ull; /* the low half counts */
	c->gpr[R_RAX] = 0xffffffff81000000ull;
	c->gpr[R_RDX] = 0x12345678ffffffffull;
	assert_int_equal(STEP(0x0f, 0x30), M_EVENT);
	assert_int_equal(c->msr.lstar, 0xffffffff81000000ull);
	c->rip = M_CODE;
	c->gpr[R_RAX] = c->gpr[R_RDX] = ~0ull;
	assert_int_equal(STEP(0x0f, 0x32), M_EVENT);
	assert_int_equal(c->gpr[R_RAX], 0x81000000);
	assert_int_equal(c->gpr[R_RDX], 0xffffffff);
	c->rip = M_CODE;
	c->gpr[R_RCX] = 0xdeadbeef;
	check_fault("unknown MSR", RUN(0x0f, 0x32), EXC_GP, 0);
	again();
	c->gpr[R_RCX] = 0xc0000082;
	c->gpr[R_RDX] = 0x8000;
	check_fault("not canonical", RUN(0x0f, 0x30), EXC_GP, 0);
}

/* FS and GS bases are the segments'. */
static void segment_bases(void **state)
{
	u64 value;

	(void)state;
	again();
	assert_int_equal(cpu_msr_write(c, MSR_GS_BASE, 0xffff888000000000, false), CPU_MSR_OK);
	assert_int_equal(c->seg[SEG_GS].base, 0xffff888000000000);
	c->seg[SEG_FS].base = 0x7000;
	assert_int_equal(cpu_msr_read(c, MSR_FS_BASE, &value, false), CPU_MSR_OK);
	assert_int_equal(value, 0x7000);
}

/* --- lists -------------------------------------------------------------------------------------- */

/* No number twice; each can be read, and its reset value written, by the client:
 * some clients abort otherwise. */
static void lists(void **state)
{
	static const u32 needed[] = {
		0x10, 0x3b, 0x174, 0x175, 0x176, 0x277, 0xc0000081, 0xc0000082, 0xc0000083,
		0xc0000084, 0xc0000102, 0xc0000103, 0x1a0, 0x9e, 0x34, 0x17a, 0x17b, 0x8b, 0x10a,
		0x6e0, 0x140,
	};
	u32 list[256], feature[16];
	unsigned n = cpu_msr_list(list, 256), f = cpu_msr_feature_list(feature, 16);

	(void)state;
	again();
	for (unsigned i = 0; i < n; i++) {
		u64 value;

		for (unsigned k = 0; k < i; k++)
			if (list[i] == list[k])
				fail_msg("MSR %#x is listed twice", list[i]);
		if (cpu_msr_read(c, list[i], &value, true) == CPU_MSR_UNKNOWN)
			continue; /* the owner's */
		if (cpu_msr_write(c, list[i], value, true) != CPU_MSR_OK)
			fail_msg("MSR %#x: the client cannot write back %#llx", list[i],
				 (unsigned long long)value);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(needed); i++) {
		unsigned k = 0;

		while (k < n && list[k] != needed[i])
			k++;
		if (k == n)
			fail_msg("MSR %#x is not listed", needed[i]);
	}
	assert_in_range(f, 2, 16);
	for (unsigned i = 0; i < f; i++) {
		u64 value;

		assert_true(cpu_msr_feature(feature[i], &value));
	}
	/* Short of room: counted, not stored. */
	list[1] = 0x55;
	assert_int_equal(cpu_msr_list(list, 1), n);
	assert_int_equal(list[1], 0x55);
}

/* INIT keeps MSRs, power-on does not. */
static void reset_and_init(void **state)
{
	(void)state;
	again();
	c->msr.star = 0x1234;
	c->msr.misc_features = 1;
	c->msr.pat = 0;
	cpu_reset(c, true);
	assert_int_equal(c->msr.star, 0x1234);
	assert_int_equal(c->msr.pat, 0);
	cpu_reset(c, false);
	assert_int_equal(c->msr.star, 0);
	assert_int_equal(c->msr.misc_features, 0);
	assert_int_equal(c->msr.pat, 0x0007040600070406);
}

/* The state after power-on and after INIT, register by register. */
static void power_on_state(void **state)
{
	(void)state;
	for (int init = 0; init < 2; init++) {
		again();
		c->gpr[R_RBX] = 5;
		c->dr[0] = c->dr7 = 0x1234;
		c->cr2 = 7;
		c->xcr0 = 3;
		cpu_fence();
		cpu_reset(c, init);
		assert_int_equal(c->rip, 0xfff0);
		assert_int_equal(c->seg[SEG_CS].sel, 0xf000);
		assert_int_equal(c->seg[SEG_CS].base, 0xffff0000);
		assert_int_equal(c->seg[SEG_CS].attr, 0x9b);
		assert_int_equal(c->seg[SEG_DS].attr, 0x93);
		assert_int_equal(c->seg[SEG_DS].limit, 0xffff);
		assert_int_equal(c->seg[SEG_TR].attr, 0x8b);
		assert_int_equal(c->seg[SEG_LDTR].attr, 0x82);
		assert_int_equal(cpu_rflags(c), RF_ONE);
		assert_int_equal(c->gpr[R_RBX], 0);
		assert_int_equal(c->gpr[R_RDX] >> 8 & 15, 6);
		assert_int_equal(c->mmu.cr0, init ? CR0_ET : 0x60000010);
		assert_int_equal(c->mmu.cr3 | c->mmu.cr4 | c->mmu.efer | c->cr2 | c->cr8, 0);
		assert_int_equal(c->dr6, 0xffff0ff0);
		assert_int_equal(c->dr7, 0x400);
		assert_int_equal(c->dr[0], 0);
		assert_int_equal(c->idtr.limit, 0xffff);
		assert_int_equal(c->xcr0, init ? 3 : 1);
		assert_int_equal(c->code_bits, 16);
		assert_int_equal(c->mmu.cpl, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(every_number),	CASE(memory_types),	  CASE(variable_ranges),
		CASE(machine_check),	CASE(bound_to_cpuid),	  CASE(microcode_revision),
		CASE(rdmsr_and_wrmsr),	CASE(segment_bases),	  CASE(lists),
		CASE(reset_and_init),	CASE(power_on_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
