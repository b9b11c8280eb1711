/* SPDX-License-Identifier: MIT */
/*
 * x87, MMX and SSE where user mode on the host cannot show the truth: control
 * registers, vendors, the client's view of the state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "cpu/fp_image.h"
#include "unit/cpu/machine.h"

static struct machine m;

static struct cpu *reset(u64 cr0, u64 cr4_off)
{
	struct cpu *c = &m.vcpu[0].c;

	machine_reset(&m.vcpu[0]);
	fp_reset(c);
	c->cpuid->xcr0 = 3;
	c->xcr0 = 1;
	c->vendor = VENDOR_AMD;
	mmu_set_cr0(&c->mmu, c->mmu.cr0 | cr0);
	mmu_set_cr4(&c->mmu, (c->mmu.cr4 | CR4_OSXSAVE) & ~cr4_off);
	c->gpr[R_RDI] = M_DATA;
	memset(m.ram + M_DATA, 0, 1024);
	return c;
}

/* Run @n code bytes and HLT. */
static int run(const u8 *code, unsigned n)
{
	u8 b[32];

	memcpy(b, code, n);
	b[n] = 0xf4;
	machine_code(&m, M_CODE, b, n + 1);
	return machine_run(&m.vcpu[0]);
}

/* --- who may run when ------------------------------------------------------------ */

enum { K_X87, K_WAIT, K_MMX, K_SSE, K_SSE_MMX, K_FX, K_XSAVE, K_FREE };

static const struct {
	const char *name;
	u8 kind, n;
	u8 code[8];
} insns[] = {
	{ "FLD1", K_X87, 2, { 0xd9, 0xe8 } },
	{ "FNINIT", K_X87, 2, { 0xdb, 0xe3 } },
	{ "FNSTSW AX", K_X87, 2, { 0xdf, 0xe0 } },
	{ "FLDCW", K_X87, 2, { 0xd9, 0x2f } },
	{ "FNSAVE", K_X87, 2, { 0xdd, 0x37 } },
	{ "FWAIT", K_WAIT, 1, { 0x9b } },
	{ "PADDB mm", K_MMX, 3, { 0x0f, 0xfc, 0xc1 } },
	{ "PSHUFW mm", K_MMX, 4, { 0x0f, 0x70, 0xc1, 0x1b } },
	{ "EMMS", K_MMX, 2, { 0x0f, 0x77 } },
	{ "MOVNTQ", K_MMX, 3, { 0x0f, 0xe7, 0x07 } },
	{ "MASKMOVQ", K_MMX, 3, { 0x0f, 0xf7, 0xc1 } },
	{ "ADDPS", K_SSE, 3, { 0x0f, 0x58, 0xc1 } },
	{ "PADDB xmm", K_SSE, 4, { 0x66, 0x0f, 0xfc, 0xc1 } },
	{ "MOVAPS load", K_SSE, 3, { 0x0f, 0x28, 0x07 } },
	{ "MOVUPS store", K_SSE, 3, { 0x0f, 0x11, 0x07 } },
	{ "MOVD eax", K_SSE, 4, { 0x66, 0x0f, 0x7e, 0xc0 } },
	{ "CVTSI2SD", K_SSE, 4, { 0xf2, 0x0f, 0x2a, 0xc0 } },
	{ "COMISS", K_SSE, 3, { 0x0f, 0x2f, 0xc1 } },
	{ "MOVNTPS", K_SSE, 3, { 0x0f, 0x2b, 0x07 } },
	{ "MASKMOVDQU", K_SSE, 4, { 0x66, 0x0f, 0xf7, 0xc1 } },
	{ "STMXCSR", K_SSE, 3, { 0x0f, 0xae, 0x1f } },
	{ "CVTPI2PS mm", K_SSE_MMX, 3, { 0x0f, 0x2a, 0xc1 } },
	{ "MOVDQ2Q", K_SSE_MMX, 4, { 0xf2, 0x0f, 0xd6, 0xc1 } },
	{ "FXSAVE", K_FX, 3, { 0x0f, 0xae, 0x07 } },
	{ "FXRSTOR", K_FX, 3, { 0x0f, 0xae, 0x0f } },
	{ "XSAVE", K_XSAVE, 3, { 0x0f, 0xae, 0x27 } },
	{ "XRSTOR", K_XSAVE, 3, { 0x0f, 0xae, 0x2f } },
	{ "XSAVEOPT", K_XSAVE, 3, { 0x0f, 0xae, 0x37 } },
	{ "XSAVEC", K_XSAVE, 3, { 0x0f, 0xc7, 0x27 } },
	{ "XSAVES", K_XSAVE, 3, { 0x0f, 0xc7, 0x2f } },
	{ "MOVNTI", K_FREE, 3, { 0x0f, 0xc3, 0x07 } },
	{ "SFENCE", K_FREE, 3, { 0x0f, 0xae, 0xf8 } },
	{ "PREFETCHT0", K_FREE, 3, { 0x0f, 0x18, 0x0f } },
	{ "CRC32", K_FREE, 5, { 0xf2, 0x0f, 0x38, 0xf1, 0xc0 } },
	{ "POPCNT", K_FREE, 4, { 0xf3, 0x0f, 0xb8, 0xc0 } },
	{ "CLFLUSH", K_FREE, 3, { 0x0f, 0xae, 0x3f } },
};

/* The tables of SDM Vol. 3A "Control of the x87 FPU", "MMX Exceptions", "Checking
 * and Enabling SSE". */
static int expected(unsigned kind, bool em, bool ts, bool mp, bool osfxsr, bool osxsave)
{
	switch (kind) {
	case K_X87:
	case K_FX:
		return em || ts ? EXC_NM : M_HALT;
	case K_WAIT:
		return mp && ts ? EXC_NM : M_HALT;
	case K_MMX:
		return em ? EXC_UD : ts ? EXC_NM : M_HALT;
	case K_SSE:
	case K_SSE_MMX:
		return em || !osfxsr ? EXC_UD : ts ? EXC_NM : M_HALT;
	case K_XSAVE:
		return !osxsave ? EXC_UD : ts ? EXC_NM : M_HALT;
	default:
		return M_HALT;
	}
}

static void test_availability(void **state)
{
	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(insns); k++)
		for (unsigned bits = 0; bits < 32; bits++) {
			bool em = bits & 1, ts = bits & 2, mp = bits & 4, fx = bits & 8,
			     xs = bits & 16;
			int got, want = expected(insns[k].kind, em, ts, mp, fx, xs);

			reset((em ? CR0_EM : 0) | (ts ? CR0_TS : 0) | (mp ? CR0_MP : 0),
			      (fx ? 0 : CR4_OSFXSR) | (xs ? 0 : CR4_OSXSAVE));
			got = run(insns[k].code, insns[k].n);
			if (got != want)
				print_error("%s EM %d TS %d MP %d OSFXSR %d OSXSAVE %d\n",
					    insns[k].name, em, ts, mp, fx, xs);
			assert_int_equal(got, want);
		}
}

/* A pending x87 error stops what waits for it, and nothing else. */
static void test_pending_error(void **state)
{
	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(insns); k++) {
		struct cpu *c = reset(0, 0);
		bool waits = insns[k].kind == K_X87 || insns[k].kind == K_WAIT ||
			     insns[k].kind == K_MMX || insns[k].kind == K_SSE_MMX;
		int got;

		if (insns[k].kind == K_X87 && insns[k].code[0] != 0xd9)
			waits = false; /* FNINIT, FNSTSW, FNSAVE */
		cpu_fp(c)->fcw = 0x37e;
		cpu_fp(c)->fsw = 0x8081;
		m.ram[M_DATA] = 0x7f; /* FXRSTOR, XRSTOR, FLDCW */
		m.ram[M_DATA + 1] = 0x03;
		got = run(insns[k].code, insns[k].n);
		if (got != (waits ? EXC_MF : M_HALT))
			print_error("%s\n", insns[k].name);
		assert_int_equal(got, waits ? EXC_MF : M_HALT);
	}
}

/* --- SIMD exceptions --------------------------------------------------------------- */

static void test_unmasked_simd(void **state)
{
	static const u8 divps[] = { 0x0f, 0x5e, 0xc1 };
	struct cpu *c = reset(0, 0);

	(void)state;
	cpu_fp(c)->mxcsr = 0x1f80 & ~0x200u;
	memset(cpu_fp(c)->xmm[0], 0x3f, 16);
	assert_int_equal(run(divps, sizeof(divps)), EXC_XM);
	assert_int_equal(cpu_fp(c)->xmm[0][0], 0x3f);
	assert_int_equal(cpu_fp(c)->mxcsr & 0x3f, 4);
	assert_int_equal(machine_frame(&m.vcpu[0], 0), M_CODE);

	c = reset(0, CR4_OSXMMEXCPT);
	cpu_fp(c)->mxcsr = 0x1f80 & ~0x200u;
	memset(cpu_fp(c)->xmm[0], 0x3f, 16);
	assert_int_equal(run(divps, sizeof(divps)), EXC_UD);
}

/* --- state instructions -------------------------------------------------------------- */

static void test_xsetbv(void **state)
{
	static const struct {
		const char *name;
		u32 rax, rcx;
		u8 cpl;
		int want;
		u64 xcr0;
	} t[] = {
		{ "x87 and SSE", 3, 0, 0, M_HALT, 3 },
		{ "x87 alone", 1, 0, 0, M_HALT, 1 },
		{ "without x87", 2, 0, 0, EXC_GP, 1 },
		{ "AVX, not offered", 7, 0, 0, EXC_GP, 1 },
		{ "another register", 1, 1, 0, EXC_GP, 1 },
		{ "privilege 3", 3, 0, 3, EXC_GP, 1 },
	};
	static const u8 code[] = { 0x0f, 0x01, 0xd1 };

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++) {
		struct cpu *c = reset(0, 0);

		c->gpr[R_RAX] = t[k].rax;
		c->gpr[R_RCX] = t[k].rcx;
		machine_privilege(c, t[k].cpl);
		if (run(code, sizeof(code)) != t[k].want || c->xcr0 != t[k].xcr0)
			fail_msg("%s", t[k].name);
	}
}

static void test_fxsave_pointers(void **state)
{
	static const u8 code[] = { 0xd9, 0xe8, 0x48, 0x0f, 0xae, 0x07 }; /* FLD1, FXSAVE64 */
	struct cpu *c = reset(0, 0);

	(void)state;
	c->vendor = VENDOR_INTEL;
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m_get64(&m, M_DATA + 8), M_CODE);
	assert_int_equal(m.ram[M_DATA + 6], 0); /* no exception: no opcode */

	c = reset(0, 0);
	c->vendor = VENDOR_INTEL;
	cpu_fp(c)->fcw &= (u16)~1;
	cpu_fp(c)->ftw = 0xff; /* overflow of the stack */
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m_get64(&m, M_DATA + 8), M_CODE);
	assert_int_equal(m.ram[M_DATA + 6], 0xe8);

	c = reset(0, 0);
	memset(m.ram + M_DATA, 0xff, 32);
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m_get64(&m, M_DATA + 8), 0); /* AMD: no exception is pending */
	assert_int_equal(cpu_fp(c)->fip, M_CODE);
}

static void test_fxsave_without_xmm(void **state)
{
	static const u8 code[] = { 0x0f, 0xae, 0x07 };
	struct cpu *c = reset(0, CR4_OSFXSR);

	(void)state;
	memset(cpu_fp(c)->xmm, 0xab, 256);
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m.ram[M_DATA + 160], 0);

	c = reset(0, 0);
	mmu_set_efer(&c->mmu, c->mmu.efer | EFER_FFXSR);
	memset(cpu_fp(c)->xmm, 0xab, 256);
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m.ram[M_DATA + 160], 0);

	c = reset(0, 0);
	memset(cpu_fp(c)->xmm, 0xab, 256);
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m.ram[M_DATA + 160], 0xab);
	assert_int_equal(m.ram[M_DATA + 415], 0xab);
	assert_int_equal(m.ram[M_DATA + 416], 0);
}

static void test_xsave_in_use(void **state)
{
	static const u8 code[] = { 0x0f, 0xae, 0x27 };
	struct cpu *c = reset(0, 0);

	(void)state;
	c->xcr0 = 3;
	c->gpr[R_RAX] = 3;
	fp_reset(c);
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m_get64(&m, M_DATA + 512), 0);

	c = reset(0, 0);
	c->xcr0 = 3;
	c->gpr[R_RAX] = 3;
	fp_reset(c);
	cpu_fp(c)->xmm[15][15] = 1;
	assert_int_equal(run(code, sizeof(code)), M_HALT);
	assert_int_equal(m_get64(&m, M_DATA + 512), XFEATURE_SSE);
}

/* --- the client's view ------------------------------------------------------------------ */

static void test_client_xsave(void **state)
{
	static u8 image[4096] __attribute__((aligned(64)));
	struct fp_image *f = (struct fp_image *)image;
	struct cpu *c = reset(0, 0);

	(void)state;
	fp_reset(c);
	cpu_fp(c)->xmm[3][0] = 7;
	cpu_fp(c)->fip = 0x1234;
	cpu_fp(c)->fcs = 0x33;
	fp_get_xsave(c, image);
	assert_int_equal(f->xmm[3][0], 7);
	assert_int_equal(f->fip, 0x1234);
	assert_int_equal(f->fcs, 0);
	assert_int_equal(f->xstate_bv, fp_supported_xcr0());
	assert_int_equal(f->mxcsr, MXCSR_INIT);

	f->mxcsr = 0x80000000;
	assert_int_equal(fp_set_xsave(c, image), -EINVAL);
	f->mxcsr = MXCSR_INIT;
	f->xstate_bv = 1ull << 40;
	assert_int_equal(fp_set_xsave(c, image), -EINVAL);
	f->xstate_bv = 3;
	f->xcomp_bv = 1ull << 63;
	assert_int_equal(fp_set_xsave(c, image), -EINVAL);
	f->xcomp_bv = 0;
	f->reserved2[5] = 1;
	assert_int_equal(fp_set_xsave(c, image), -EINVAL);
	f->reserved2[5] = 0;
	assert_int_equal(cpu_fp(c)->xmm[3][0], 7);

	f->xstate_bv = XFEATURE_SSE; /* x87: initial */
	f->xmm[3][0] = 9;
	f->fcw = 0;
	cpu_fp(c)->fsw = 0x1800;
	assert_int_equal(fp_set_xsave(c, image), 0);
	assert_int_equal(cpu_fp(c)->xmm[3][0], 9);
	assert_int_equal(cpu_fp(c)->fcw, 0x37f);
	assert_int_equal(cpu_fp(c)->fsw, 0);

	f->xstate_bv = 3;
	f->fcw = 0xffff;
	f->fsw = 0x0001;
	f->fcw = 0xfffe;
	assert_int_equal(fp_set_xsave(c, image), 0);
	assert_int_equal(cpu_fp(c)->fcw, 0x1f7e);
	assert_int_equal(cpu_fp(c)->fsw, 0x8081); /* the summary bits follow */

	/* Nothing in it: all initial, whatever stands where MXCSR would be. */
	f->xstate_bv = 0;
	f->mxcsr = 0xffffffff;
	assert_int_equal(fp_set_xsave(c, image), 0);
	assert_int_equal(cpu_fp(c)->mxcsr, MXCSR_INIT);
	assert_int_equal(fp_image_in_use(cpu_fp(c)), 0);
}

static void test_client_avx(void **state)
{
	static u8 image[4096] __attribute__((aligned(64)));
	struct fp_image *f = (struct fp_image *)image;
	struct cpu *c = reset(0, 0);

	(void)state;
	memset(cpu_fp(c)->ymmh, 0x5a, sizeof(cpu_fp(c)->ymmh));
	memset(image, 0xee, sizeof(image));
	fp_get_xsave(c, image);
	assert_int_equal(image[fp_xsave_size(fp_supported_xcr0())], 0xee);
	if (!(fp_supported_xcr0() & XFEATURE_AVX)) {
		f->xstate_bv = 7;
		assert_int_equal(fp_set_xsave(c, image), -EINVAL);
		return;
	}
	assert_int_equal(image[576], 0x5a);
	assert_int_equal(image[831], 0x5a);
	image[831] = 0x11;
	assert_int_equal(fp_set_xsave(c, image), 0);
	assert_int_equal(cpu_fp(c)->ymmh[15][15], 0x11);
	f->xstate_bv = 3;
	assert_int_equal(fp_set_xsave(c, image), 0);
	assert_int_equal(cpu_fp(c)->ymmh[15][15], 0);
}

/* The host's own x87 and SSE state survives guest instructions. */
static void test_host_state(void **state)
{
	static const u8 code[] = { 0xd9, 0xe8, 0x0f, 0xfc, 0xc1, 0x0f, 0x5e, 0xc1 };
	struct cpu *c = reset(0, 0);
	u32 mxcsr = 0x3f80, after;
	u16 fcw = 0x0a7f, fcw_after, host_fcw, fsw;
	u32 host_mxcsr;

	(void)state;
	cpu_fp(c)->fcw = 0x77f; /* other than the host's */
	cpu_fp(c)->mxcsr = 0x5f80;
	__asm__ volatile("fnstcw %0; stmxcsr %1" : "=m"(host_fcw), "=m"(host_mxcsr));
	__asm__ volatile("fldcw %0; ldmxcsr %1" : : "m"(fcw), "m"(mxcsr));
	int got = run(code, sizeof(code));

	__asm__ volatile("fnstcw %0; stmxcsr %1; fnstsw %2"
			 : "=m"(fcw_after), "=m"(after), "=m"(fsw));
	__asm__ volatile("fldcw %0; ldmxcsr %1" : : "m"(host_fcw), "m"(host_mxcsr));
	assert_int_equal(got, M_HALT);
	assert_int_equal(fcw_after, fcw);
	assert_int_equal(after & ~0x3fu, mxcsr);
	assert_int_equal(fsw & 0x3800, 0);
}

static int setup(void **state)
{
	(void)state;
	return machine_init(&m, 1) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	machine_fini(&m);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_availability),
		cmocka_unit_test(test_pending_error),
		cmocka_unit_test(test_unmasked_simd),
		cmocka_unit_test(test_xsetbv),
		cmocka_unit_test(test_fxsave_pointers),
		cmocka_unit_test(test_fxsave_without_xmm),
		cmocka_unit_test(test_xsave_in_use),
		cmocka_unit_test(test_client_xsave),
		cmocka_unit_test(test_client_avx),
		cmocka_unit_test(test_host_state),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
