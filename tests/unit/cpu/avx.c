/* SPDX-License-Identifier: MIT */
/*
 * AVX where user mode on the host cannot show the truth: control registers,
 * modes, segment limits, restarted gathers, vendors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/cr.h"
#include "cpu/fp.h"
#include "cpu/hostcpu.h"
#include "cpu/reset.h"
#include "unit/cpu/sysmachine.h"

#define YMM (XFEATURE_X87 | XFEATURE_SSE | XFEATURE_AVX)

static void start(void)
{
	again();
	fp_reset(c);
	c->xcr0 = YMM;
	mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_OSXSAVE);
	c->gpr[R_RDI] = M_DATA;
}

static int run_bytes(const u8 *code, unsigned n)
{
	u8 b[32];

	memcpy(b, code, n);
	b[n] = 0xf4;
	machine_code(&m, M_CODE, b, n + 1);
	return machine_run(v);
}

static void set_high(unsigned reg, u8 byte)
{
	memset(cpu_fp(c)->ymmh[reg], byte, 16);
}

static const struct {
	const char *name;
	u8 n, code[8];
	bool avx2;
} insns[] = {
	{ "VADDPS ymm", 4, { 0xc5, 0xf4, 0x58, 0xc2 }, false },
	{ "VMOVAPS load", 4, { 0xc5, 0xfc, 0x28, 0x07 }, false },
	{ "VMOVUPS store", 4, { 0xc5, 0xfc, 0x11, 0x07 }, false },
	{ "VPADDB xmm", 4, { 0xc5, 0xf1, 0xfc, 0xc2 }, false },
	{ "VPADDB ymm", 4, { 0xc5, 0xf5, 0xfc, 0xc2 }, true },
	{ "VUCOMISS", 4, { 0xc5, 0xf8, 0x2e, 0xc1 }, false },
	{ "VZEROUPPER", 3, { 0xc5, 0xf8, 0x77 }, false },
	{ "VZEROALL", 3, { 0xc5, 0xfc, 0x77 }, false },
	{ "VSTMXCSR", 4, { 0xc5, 0xf8, 0xae, 0x1f }, false },
	{ "VPCMPISTRI", 6, { 0xc4, 0xe3, 0x79, 0x63, 0xc1, 0x00 }, false },
	{ "VMASKMOVPS", 5, { 0xc4, 0xe2, 0x75, 0x2e, 0x17 }, false },
	{ "VMASKMOVDQU", 4, { 0xc5, 0xf9, 0xf7, 0xc1 }, false },
	{ "VPGATHERDD", 6, { 0xc4, 0xe2, 0x75, 0x90, 0x04, 0x17 }, true },
};

static bool can_run(unsigned k)
{
	return hostcpu_runs(insns[k].avx2 ? FEAT_AVX2 : FEAT_AVX);
}

/* #UD by CR4.OSXSAVE and XCR0, #NM by CR0.TS; CR0.EM and CR4.OSFXSR do not matter. */
static void test_availability(void **state)
{
	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(insns); k++)
		for (unsigned bits = 0; bits < 64 && can_run(k); bits++) {
			bool osxsave = bits & 1, ts = bits & 2, em = bits & 4, osfxsr = bits & 8;
			u64 xcr0 = 1 | (bits & 16 ? 2 : 0) | (bits & 32 ? 4 : 0);
			int got, want = !osxsave || xcr0 != 7 ? EXC_UD : ts ? EXC_NM : M_HALT;

			start();
			c->xcr0 = xcr0;
			mmu_set_cr0(&c->mmu, c->mmu.cr0 | (ts ? CR0_TS : 0) | (em ? CR0_EM : 0));
			mmu_set_cr4(&c->mmu,
				    (c->mmu.cr4 & ~(u64)(CR4_OSXSAVE | CR4_OSFXSR)) |
					    (osxsave ? CR4_OSXSAVE : 0) | (osfxsr ? CR4_OSFXSR : 0));
			got = run_bytes(insns[k].code, insns[k].n);
			if (got != want)
				fail_msg("%s: OSXSAVE %d TS %d EM %d XCR0 %d: got %d, want %d",
					 insns[k].name, osxsave, ts, em, (int)xcr0, got, want);
		}
}

/* VEX is for protected mode: also for general registers. */
static void test_modes(void **state)
{
	static const u8 andn[] = { 0xc4, 0xe2, 0x70, 0xf2, 0xc1 };

	(void)state;
	for (unsigned k = 0; k <= ARRAY_SIZE(insns); k++) {
		const u8 *code = k < ARRAY_SIZE(insns) ? insns[k].code : andn;
		unsigned n = k < ARRAY_SIZE(insns) ? insns[k].n : sizeof(andn);
		u32 ud = 0x40000;

		if (k < ARRAY_SIZE(insns) && !can_run(k))
			continue;
		start();
		legacy_mode(0);
		mmu_set_cr4(&c->mmu, CR4_OSXSAVE);
		c->rip = M_CODE;
		assert_int_equal(run_bytes(code, n), M_HALT);

		start();
		real_mode();
		c->xcr0 = YMM;
		mmu_set_cr4(&c->mmu, CR4_OSXSAVE);
		put32(0x50000 + 4 * EXC_UD, ud >> 4 << 16);
		m.ram[ud] = 0xf4;
		assert_int_equal(run_bytes(code, n), M_HALT);
		assert_int_equal(c->seg[SEG_CS].base, ud);
	}
}

/* Outside 64-bit mode: registers 8 to 15 stay, W does not widen a general register. */
static void test_32bit(void **state)
{
	static const u8 cvtsi2sd_w1[] = { 0xc4, 0xe1, 0xfb, 0x2a, 0xc1 };
	double one = 1, got;

	(void)state;
	if (!hostcpu_runs(FEAT_AVX)) {
		print_message("the host has no AVX\n");
		skip();
	}
	start();
	legacy_mode(0);
	mmu_set_cr4(&c->mmu, CR4_OSXSAVE);
	c->rip = M_CODE;
	memset(cpu_fp(c)->ymmh, 0xab, 256);
	memset(cpu_fp(c)->xmm, 0xab, 256);
	assert_int_equal(run_bytes((const u8[]){ 0xc5, 0xfc, 0x77 }, 3), M_HALT);
	assert_int_equal(cpu_fp(c)->ymmh[7][15], 0);
	assert_int_equal(cpu_fp(c)->xmm[7][15], 0);
	assert_int_equal(cpu_fp(c)->ymmh[8][0], 0xab);
	assert_int_equal(cpu_fp(c)->xmm[8][0], 0xab);

	c->rip = M_CODE;
	c->gpr[R_RCX] = 0x500000001;
	assert_int_equal(run_bytes(cvtsi2sd_w1, sizeof(cvtsi2sd_w1)), M_HALT);
	memcpy(&got, cpu_fp(c)->xmm[0], 8);
	assert_memory_equal(&got, &one, 8);
}

/* Legacy SSE keeps bits 255:128, VEX.128 clears them; a load like anything else. */
static void test_upper_halves(void **state)
{
	static const struct {
		const char *name;
		u8 n, code[8], want;
	} t[] = {
		{ "PADDB", 4, { 0x66, 0x0f, 0xfc, 0xc1 }, 0xee },
		{ "MOVAPS load", 3, { 0x0f, 0x28, 0x07 }, 0xee },
		{ "MOVAPS reg", 3, { 0x0f, 0x28, 0xc1 }, 0xee },
		{ "PCMPISTRM", 6, { 0x66, 0x0f, 0x3a, 0x62, 0xc9, 0x00 }, 0xee },
		{ "VPADDB xmm", 4, { 0xc5, 0xf9, 0xfc, 0xc1 }, 0 },
		{ "VMOVAPS load", 4, { 0xc5, 0xf8, 0x28, 0x07 }, 0 },
		{ "VMOVAPS reg", 4, { 0xc5, 0xf8, 0x28, 0xc1 }, 0 },
		{ "VMOVSS load", 4, { 0xc5, 0xfa, 0x10, 0x07 }, 0 },
		{ "VADDSS", 4, { 0xc5, 0xfa, 0x58, 0xc1 }, 0 },
		{ "VPCMPISTRM", 6, { 0xc4, 0xe3, 0x79, 0x62, 0xc9, 0x00 }, 0 },
	};

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++) {
		if ((k == 3 && !hostcpu_runs(FEAT_SSE42)) || (k >= 4 && !hostcpu_runs(FEAT_AVX)))
			continue;
		start();
		set_high(0, 0xee);
		assert_int_equal(run_bytes(t[k].code, t[k].n), M_HALT);
		if (cpu_fp(c)->ymmh[0][0] != t[k].want || cpu_fp(c)->ymmh[0][15] != t[k].want)
			fail_msg("%s: %#x", t[k].name, cpu_fp(c)->ymmh[0][0]);
	}
}

/* A gather that meets a page that is not there: what came before it is done, and
 * the second run does the rest and no more. */
static void test_gather_restart(void **state)
{
	static const u8 code[] = { 0xc4, 0xe2, 0x75, 0x90, 0x04, 0x97 }; /* [rdi + ymm2 * 4] */
	u32 index[8] = { 0, 1, 2, 0x400, 3, 4, 5, 6 }, got[8], mask[8];

	(void)state;
	if (!hostcpu_runs(FEAT_AVX2)) {
		print_message("the host has no AVX2\n");
		skip();
	}
	start();
	for (u32 k = 0; k < 8; k++)
		put32(M_DATA + 4 * k, 100 + k);
	put32(M_DATA + 0x1000, 777);
	unmap(M_DATA + 0x1000);
	memcpy(cpu_fp(c)->xmm[2], index, 16);
	memcpy(cpu_fp(c)->ymmh[2], index + 4, 16);
	memset(cpu_fp(c)->xmm[1], 0xff, 16);
	set_high(1, 0xff);
	memset(cpu_fp(c)->xmm[1] + 4, 0x7f, 4); /* element 1: not wanted */
	memset(cpu_fp(c)->xmm[0], 0x55, 16);
	assert_int_equal(run_bytes(code, sizeof(code)), EXC_PF);
	assert_int_equal(c->cr2, M_DATA + 0x1000);
	memcpy(got, cpu_fp(c)->xmm[0], 16);
	memcpy(mask, cpu_fp(c)->xmm[1], 16);
	assert_int_equal(got[0], 100);
	assert_int_equal(got[1], 0x55555555);
	assert_int_equal(got[2], 102);
	assert_int_equal(mask[0] | mask[2], 0);
	assert_int_equal(mask[3], 0xffffffff);

	*machine_pte(&m, M_DATA + 0x1000) |= 1;
	put32(M_DATA, 999); /* must not be read again */
	c->rip = M_CODE;
	assert_int_equal(run_bytes(code, sizeof(code)), M_HALT);
	memcpy(got, cpu_fp(c)->xmm[0], 16);
	memcpy(got + 4, cpu_fp(c)->ymmh[0], 16);
	assert_int_equal(got[0], 100);
	assert_int_equal(got[3], 777);
	assert_int_equal(got[7], 106);
	for (unsigned k = 0; k < 16; k++)
		assert_int_equal(cpu_fp(c)->xmm[1][k] | cpu_fp(c)->ymmh[1][k], 0);
}

/* Masked elements beyond a segment limit do not count. */
static void test_masked_limit(void **state)
{
	static const u8 store[] = { 0xc4, 0xe2, 0x75, 0x2e, 0x17 }; /* [edi], ymm1, ymm2 */
	static const u8 load[] = { 0xc4, 0xe2, 0x75, 0x2c, 0x17 };

	(void)state;
	if (!hostcpu_runs(FEAT_AVX)) {
		print_message("the host has no AVX\n");
		skip();
	}
	for (unsigned k = 0; k < 4; k++) {
		start();
		legacy_mode(0);
		mmu_set_cr4(&c->mmu, CR4_OSXSAVE);
		c->rip = M_CODE;
		c->seg[SEG_DS].limit = M_DATA + 15;
		memset(cpu_fp(c)->xmm[1], 0x80, 16);
		set_high(1, k & 2 ? 0x80 : 0x7f);
		memset(cpu_fp(c)->xmm[2], 0x33, 16);
		memset(m.ram + M_DATA, 0, 32);
		assert_int_equal(run_bytes(k & 1 ? load : store, sizeof(load)),
				 k & 2 ? EXC_GP : M_HALT);
		assert_int_equal(m.ram[M_DATA + 15], k == 0 ? 0x33 : 0);
		assert_int_equal(m.ram[M_DATA + 16], 0);
	}
}

/* An unmasked exception leaves the destination alone. */
static void test_unmasked(void **state)
{
	static const u8 code[] = { 0xc5, 0xf4, 0x5e, 0xc2 }; /* vdivps ymm0, ymm1, ymm2 */

	(void)state;
	if (!hostcpu_runs(FEAT_AVX)) {
		print_message("the host has no AVX\n");
		skip();
	}
	for (unsigned on = 0; on < 2; on++) {
		float one[4] = { 1, 1, 1, 1 };

		start();
		memcpy(cpu_fp(c)->xmm[1], one, 16);
		memcpy(cpu_fp(c)->ymmh[1], one, 16);
		memcpy(cpu_fp(c)->xmm[2], one, 16); /* the upper half divides by zero */
		memset(cpu_fp(c)->xmm[0], 0x11, 16);
		cpu_fp(c)->mxcsr = 0x1f80 & ~0x200u;
		mmu_set_cr4(&c->mmu, (c->mmu.cr4 & ~(u64)CR4_OSXMMEXCPT) |
					     (on ? CR4_OSXMMEXCPT : 0));
		assert_int_equal(run_bytes(code, sizeof(code)), on ? EXC_XM : EXC_UD);
		assert_int_equal(cpu_fp(c)->mxcsr, (0x1f80 & ~0x200u) | 4);
		assert_int_equal(cpu_fp(c)->xmm[0][0], 0x11);
	}
}

static void test_alignment(void **state)
{
	static const struct {
		const char *name;
		u8 n, code[8];
		u16 feature;
		int intel, amd;
	} t[] = {
		{ "VMOVAPS ymm", 4, { 0xc5, 0xfc, 0x28, 0x07 }, FEAT_AVX, EXC_GP, EXC_GP },
		{ "VMOVAPS xmm", 4, { 0xc5, 0xf8, 0x28, 0x07 }, FEAT_AVX, M_HALT, M_HALT },
		{ "VMOVNTDQ ymm", 4, { 0xc5, 0xfd, 0xe7, 0x07 }, FEAT_AVX, EXC_GP, EXC_GP },
		{ "VADDPS ymm", 4, { 0xc5, 0xf4, 0x58, 0x07 }, FEAT_AVX, M_HALT, M_HALT },
		{ "LDDQU", 5, { 0xf2, 0x0f, 0xf0, 0x47, 0x01 }, FEAT_SSE3, M_HALT, M_HALT },
		{ "PSHUFB", 6, { 0x66, 0x0f, 0x38, 0x00, 0x47, 0x01 }, FEAT_SSSE3, EXC_GP, EXC_GP },
		{ "PCMPISTRI", 7, { 0x66, 0x0f, 0x3a, 0x63, 0x47, 0x01, 0x00 }, FEAT_SSE42, M_HALT,
		  M_HALT },
		{ "SHA1MSG1", 5, { 0x0f, 0x38, 0xc9, 0x47, 0x01 }, FEAT_SHA, EXC_GP, M_HALT },
	};

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++)
		for (unsigned vendor = 0; vendor < 2 && hostcpu_runs(t[k].feature); vendor++) {
			int want = vendor == VENDOR_AMD ? t[k].amd : t[k].intel, got;

			start();
			c->vendor = (u8)vendor;
			c->gpr[R_RDI] = M_DATA + 16;
			got = run_bytes(t[k].code, t[k].n);
			if (got != want)
				fail_msg("%s, vendor %u: got %d, want %d", t[k].name, vendor, got,
					 want);
		}
}

/* Last, since nothing is unhidden: what the host lacks is #UD even for a client
 * that set no CPUID; CRC32 is computed. */
static void test_host_lacks(void **state)
{
	static const struct {
		const char *hide;
		u8 n, code[8];
		int want;
	} t[] = {
		{ "sha", 4, { 0x0f, 0x38, 0xc9, 0xc1 }, EXC_UD },
		{ "sse42", 6, { 0x66, 0x0f, 0x3a, 0x63, 0xc1, 0x00 }, EXC_UD },
		{ "sse42", 5, { 0xf2, 0x0f, 0x38, 0xf1, 0xc0 }, M_HALT },
		{ "sse3", 4, { 0xf2, 0x0f, 0x12, 0xc1 }, EXC_UD },
		{ "avx2", 4, { 0xc5, 0xf5, 0xfc, 0xc2 }, EXC_UD },
		{ "fma", 5, { 0xc4, 0xe2, 0x75, 0x98, 0xc2 }, EXC_UD },
		{ "avx", 4, { 0xc5, 0xf4, 0x58, 0xc2 }, EXC_UD },
		{ "avx", 5, { 0xc4, 0xe2, 0x71, 0xdc, 0xc2 }, EXC_UD }, /* VAESENC xmm */
	};

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++) {
		int got;

		assert_true(hostcpu_hide(t[k].hide));
		start();
		got = run_bytes(t[k].code, t[k].n);
		if (got != t[k].want)
			fail_msg("%u without %s: got %d, want %d", k, t[k].hide, got, t[k].want);
	}
}

int main(void)
{
	test_hide();
	const struct CMUnitTest tests[] = {
		CASE(test_availability), CASE(test_modes),	 CASE(test_32bit),
		CASE(test_upper_halves), CASE(test_gather_restart), CASE(test_masked_limit),
		CASE(test_unmasked),	 CASE(test_alignment),	 CASE(test_host_lacks),
	};

	if (!hostcpu_runs(FEAT_AVX))
		print_message("the host has no AVX: most cases are left out\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
