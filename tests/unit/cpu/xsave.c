/* SPDX-License-Identifier: MIT */
/*
 * The XSAVE family against the host's own: random state, components, headers and
 * areas; memory, state and #GP must agree to the byte.  Then what user mode on the
 * host cannot show: XSAVES, privileges, CPUID, faults in the middle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "cpu/fp.h"
#include "cpu/hostcpu.h"
#include "unit/cpu/machine.h"

#define AREA_BYTES 1024
#define XCOMP	   BIT64(63)

static struct machine m;
static u64 seed;

static u64 rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static unsigned upto(unsigned n)
{
	return (unsigned)(rnd() >> 20) % n;
}

enum which { SAVE, SAVE64, OPT, OPT64, SAVEC, SAVEC64, RSTOR, RSTOR64, WHICH };

static const struct {
	const char *name;
	u8 n, code[4];
} forms[WHICH] = {
	[SAVE] = { "XSAVE", 3, { 0x0f, 0xae, 0x27 } },
	[SAVE64] = { "XSAVE64", 4, { 0x48, 0x0f, 0xae, 0x27 } },
	[OPT] = { "XSAVEOPT", 3, { 0x0f, 0xae, 0x37 } },
	[OPT64] = { "XSAVEOPT64", 4, { 0x48, 0x0f, 0xae, 0x37 } },
	[SAVEC] = { "XSAVEC", 3, { 0x0f, 0xc7, 0x27 } },
	[SAVEC64] = { "XSAVEC64", 4, { 0x48, 0x0f, 0xc7, 0x27 } },
	[RSTOR] = { "XRSTOR", 3, { 0x0f, 0xae, 0x2f } },
	[RSTOR64] = { "XRSTOR64", 4, { 0x48, 0x0f, 0xae, 0x2f } },
};

/* --- the host ------------------------------------------------------------------------ */

struct native {
	u8 in[AREA_BYTES];  /* state before, standard image of all three */
	u8 out[AREA_BYTES]; /* state after */
	u8 keep[4096];	    /* the program's own */
	u64 xinuse;
} __attribute__((aligned(64)));

static struct native nat;
static sigjmp_buf fault_jump;
static volatile sig_atomic_t fault_signal;
static void *volatile fault_at;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	fault_signal = sig;
	fault_at = info->si_addr;
	siglongjmp(fault_jump, 1);
}

/* Load nat.in, execute form @w on @area with components @mask, read nat.out. */
static void native_asm(enum which w, void *area, u32 mask, u64 *xinuse)
{
	u32 lo = 0, hi = 0;

#define CASE_OF(which, text)                                                       \
	case which:                                                                \
		asm volatile("mov $7, %%eax; xor %%edx, %%edx; xrstor64 %[in]\n\t"    \
			     "mov %[mask], %%eax; " text " (%[area])\n\t"              \
			     "mov $7, %%eax; xor %%edx, %%edx; xsave64 %[out]\n\t"     \
			     : [out] "+m"(nat.out)                                 \
			     : [in] "m"(nat.in), [mask] "r"(mask), [area] "r"(area) \
			     : "rax", "rdx", "memory");                            \
		break;
	switch (w) {
		CASE_OF(SAVE, "xsave")
		CASE_OF(SAVE64, "xsave64")
		CASE_OF(OPT, "xsaveopt")
		CASE_OF(OPT64, "xsaveopt64")
		CASE_OF(SAVEC, "xsavec")
		CASE_OF(SAVEC64, "xsavec64")
		CASE_OF(RSTOR, "xrstor")
		CASE_OF(RSTOR64, "xrstor64")
	case WHICH: /* XGETBV of the components in use */
		asm volatile("mov $7, %%eax; xor %%edx, %%edx; xrstor64 %[in]\n\t"
			     "mov $1, %%ecx; xgetbv"
			     : "=a"(lo), "=d"(hi)
			     : [in] "m"(nat.in)
			     : "rcx", "memory");
		break;
	}
#undef CASE_OF
	*xinuse = lo;
}

static bool native_run(enum which w, void *area, u32 mask, u64 *xinuse)
{
	static struct sigaction old_segv, old_bus;
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	bool ok = false;

	sigaction(SIGSEGV, &sa, &old_segv);
	sigaction(SIGBUS, &sa, &old_bus);
	asm volatile("xsave64 %0" : "+m"(nat.keep) : "a"(7), "d"(0) : "memory");
	if (!sigsetjmp(fault_jump, 1)) {
		native_asm(w, area, mask, xinuse);
		ok = true;
	}
	asm volatile("xrstor64 %0" : : "m"(nat.keep), "a"(7), "d"(0) : "memory");
	sigaction(SIGSEGV, &old_segv, NULL);
	sigaction(SIGBUS, &old_bus, NULL);
	return ok;
}

/* --- random state and areas ------------------------------------------------------------ */

static void scramble(void *p, size_t n)
{
	u8 *b = p;

	for (size_t i = 0; i < n; i++)
		b[i] = (u8)(rnd() >> 30);
}

static bool any(const void *p, size_t n)
{
	const u8 *b = p;

	for (size_t i = 0; i < n; i++)
		if (b[i])
			return true;
	return false;
}

/* Intel's processors go by what was restored, not by what is in it: say so. */
static void mark_used(struct fp_image *f)
{
	if (hostcpu()->amd)
		return;
	f->xstate_bv = (f->fcw != 0x37f || f->fsw || f->ftw || f->fop || f->fip || f->fdp ||
			any(f->st, sizeof(f->st)) ? 1 : 0) |
		       (any(f->xmm, sizeof(f->xmm)) ? 2 : 0) |
		       (any(f->ymmh, sizeof(f->ymmh)) ? 4 : 0);
}

/* A state that FXRSTOR takes, each component initial or not. */
static void random_state(struct fp_image *f, bool pending)
{
	memset(f, 0, sizeof(*f));
	f->fcw = 0x37f;
	f->mxcsr = upto(2) ? MXCSR_INIT : (u32)(rnd() >> 8) & 0xffff;
	f->xstate_bv = 7;
	if (upto(2)) {
		f->fcw = (u16)((rnd() & 0x0f00) | 0x7f);
		f->fsw = (u16)(rnd() & 0x3800);
		if (pending && upto(2)) {
			f->fcw &= (u16)~1;
			f->fsw |= FSW_ES | FSW_B | 1;
		}
		f->ftw = (u8)(rnd() >> 9);
		f->fop = (u16)(rnd() >> 9) & 0x7ff;
		f->fip = rnd() >> 20;
		f->fdp = rnd() >> 20;
		for (unsigned n = 0; n < 8; n++)
			scramble(f->st[n], 10);
	}
	if (upto(2))
		scramble(f->xmm, upto(2) ? sizeof(f->xmm) : 1);
	if (upto(2))
		scramble(f->ymmh, sizeof(f->ymmh));
	mark_used(f);
}

/* An area to restore from: mostly a legal one. */
static void random_area(struct fp_image *f)
{
	scramble(f, sizeof(*f));
	random_state(f, true);
	f->mxcsr_mask = (u32)rnd();
	f->xstate_bv = upto(8);
	f->xcomp_bv = 0;
	if (upto(2)) {
		f->xcomp_bv = XCOMP | upto(8);
		if (upto(4))
			f->xstate_bv &= f->xcomp_bv;
	}
	memset(f->reserved2, 0, sizeof(f->reserved2));
	switch (upto(16)) {
	case 0:
		f->reserved2[upto(6)] = 1;
		break;
	case 1:
		f->xcomp_bv ^= BIT64(10);
		break;
	case 2:
		f->xstate_bv ^= BIT64(62);
		break;
	case 3:
		f->mxcsr |= BIT(16 + upto(16));
		break;
	case 4:
		f->xcomp_bv = upto(8);
		break;
	}
}

/* --- the machine --------------------------------------------------------------------------- */

static struct cpu *reset(void)
{
	static struct kvm_cpuid_entry2 e[80];
	const struct cpuid_offer o = { .vendor = -1 };
	struct cpu *c = &m.vcpu[0].c;
	unsigned n;

	machine_reset(&m.vcpu[0]);
	fp_reset(c);
	n = cpuid_supported(&o, e, 80);
	for (unsigned i = 0; i < n; i++)
		if (e[i].function == 0xd && e[i].index == 0)
			e[i].eax = 7;
	assert_int_equal(cpuid_set(c, e, n), 0);
	mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_OSXSAVE);
	c->xcr0 = 7;
	c->gpr[R_RDI] = M_DATA;
	return c;
}

static int run(const u8 *code, unsigned n)
{
	u8 b[16];

	memcpy(b, code, n);
	b[n] = 0xf4;
	machine_code(&m, M_CODE, b, n + 1);
	return machine_run(&m.vcpu[0]);
}

static bool host_can(enum which w)
{
	const struct hostcpu *h = hostcpu();

	if (w == OPT || w == OPT64)
		return h->xsaveopt;
	if (w == SAVEC || w == SAVEC64)
		return h->xsavec;
	return true;
}

static bool can_compare(void)
{
	if (hostcpu()->avx)
		return true;
	print_message("the host has no AVX state to compare with\n");
	return false;
}

/* What XSAVE64 shows of a state: not the header, not the mask. */
static bool same_state(const struct fp_image *a, struct cpu *c)
{
	struct fp_image b = *cpu_fp(c);

	if (c->vendor == VENDOR_AMD && !(b.fsw & FSW_ES))
		b.fip = b.fdp = b.fop = 0;
	return !memcmp(a, &b, 24) && a->mxcsr == b.mxcsr &&
	       !memcmp(a->st, b.st, sizeof(b.st) + sizeof(b.xmm)) &&
	       !memcmp(a->ymmh, b.ymmh, sizeof(b.ymmh));
}

static void say(enum which w, u32 mask, const struct fp_image *in, const u8 *got,
		const u8 *want)
{
	print_error("%s components %u, header %llx %llx, MXCSR %x\n", forms[w].name, mask,
		    (unsigned long long)in->xstate_bv, (unsigned long long)in->xcomp_bv,
		    in->mxcsr);
	for (unsigned i = 0, said = 0; got && i < AREA_BYTES && said < 6; i++)
		if (got[i] != want[i] && ++said)
			print_error("  byte %u: %02x, the host's %02x\n", i, got[i], want[i]);
}

static void load_state(struct cpu *c, const struct fp_image *s)
{
	memcpy(cpu_fp(c), s, offsetof(struct fp_image, xstate_bv));
	memcpy(cpu_fp(c)->ymmh, s->ymmh, sizeof(s->ymmh));
	fp_normalise(c);
}

static void one_case(void)
{
	static u8 area[AREA_BYTES] __attribute__((aligned(64)));
	static u8 before[AREA_BYTES] __attribute__((aligned(64)));
	struct fp_image *state = (struct fp_image *)nat.in;
	enum which w = upto(WHICH);
	u32 mask = upto(8);
	struct cpu *c = reset();
	u64 ignored;
	bool ok;
	int got;

	if (!host_can(w))
		return;
	random_state(state, true);
	if (w >= RSTOR) {
		random_area((struct fp_image *)area);
		if (!hostcpu()->xsavec)
			((struct fp_image *)area)->xcomp_bv = 0;
	} else {
		scramble(area, sizeof(area));
	}
	memcpy(before, area, sizeof(area));
	load_state(c, state);
	memcpy(m.ram + M_DATA, area, sizeof(area));
	ok = native_run(w, area, mask, &ignored);
	c->gpr[R_RAX] = mask;
	got = run(forms[w].code, forms[w].n);
	if ((got == M_HALT) != ok || (!ok && got != EXC_GP)) {
		say(w, mask, (struct fp_image *)before, NULL, NULL);
		fail_msg("the host %s, here %d", ok ? "executes it" : "faults", got);
	}
	if (memcmp(area, m.ram + M_DATA, sizeof(area))) {
		say(w, mask, state, m.ram + M_DATA, area);
		fail_msg("the areas differ");
	}
	if (ok && !same_state((struct fp_image *)nat.out, c)) {
		say(w, mask, (struct fp_image *)before, c->fpu, nat.out);
		fail_msg("the states differ");
	}
}

static void test_against_the_host(void **s)
{
	(void)s;
	if (!can_compare())
		skip();
	for (unsigned n = 0; n < 20000; n++)
		one_case();
}

static void test_in_use(void **s)
{
	static const u8 xgetbv[] = { 0x0f, 0x01, 0xd0 };
	struct fp_image *state = (struct fp_image *)nat.in;

	(void)s;
	if (!can_compare() || !hostcpu()->xgetbv1)
		skip();
	for (unsigned n = 0; n < 500; n++) {
		struct cpu *c = reset();
		u64 want;

		random_state(state, false);
		load_state(c, state);
		c->gpr[R_RCX] = 1;
		assert_true(native_run(WHICH, NULL, 0, &want));
		assert_int_equal(run(xgetbv, 3), M_HALT);
		if (c->gpr[R_RAX] != (want & 7))
			fail_msg("XGETBV: %llx, the host's %llx; MXCSR %x",
				 (unsigned long long)c->gpr[R_RAX], (unsigned long long)want,
				 state->mxcsr);
	}
}

/* --- faults --------------------------------------------------------------------------------- */

/* The area across a page end, either page closed: the address reported, and
 * whether there is a fault at all. */
static void fault_case(u8 *pages, enum which w, unsigned offset, u32 mask, unsigned closed,
		       u64 xstate_bv, bool busy)
{
	struct fp_image *state = (struct fp_image *)nat.in;
	struct cpu *c = reset();
	u64 ignored;
	bool ok;
	int got;

	memset(pages, 0, 2 * PAGE_SIZE);
	seed |= 1;
	random_state(state, false);
	if (!busy) {
		memset(state->ymmh, 0, sizeof(state->ymmh));
		memset(state->xmm, 0, sizeof(state->xmm));
	}
	mark_used(state);
	load_state(c, state);
	((struct fp_image *)(pages + offset))->mxcsr = MXCSR_INIT;
	((struct fp_image *)(pages + offset))->xstate_bv = xstate_bv;
	memcpy(m.ram + M_DATA, pages, 2 * PAGE_SIZE);
	mprotect(pages + closed * PAGE_SIZE, PAGE_SIZE, PROT_NONE);
	ok = native_run(w, pages + offset, mask, &ignored);
	mprotect(pages, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE);
	*machine_pte(&m, M_DATA + closed * PAGE_SIZE) &= ~1ull;
	mmu_flush_guest(&c->mmu);
	c->gpr[R_RDI] = M_DATA + offset;
	c->gpr[R_RAX] = mask;
	got = run(forms[w].code, forms[w].n);
	*machine_pte(&m, M_DATA + closed * PAGE_SIZE) |= 1;
	mmu_flush_guest(&c->mmu);
	if (got != (ok ? M_HALT : EXC_PF) ||
	    (!ok && c->cr2 - M_DATA != (u64)((u8 *)fault_at - pages)))
		fail_msg("%s components %u at %u, page %u closed, XSTATE_BV %llx, %s: the host "
			 "%s %lx, here %d at %llx", forms[w].name, mask, offset, closed,
			 (unsigned long long)xstate_bv, busy ? "busy" : "initial",
			 ok ? "executes" : "faults", (long)((u8 *)fault_at - pages), got,
			 (unsigned long long)(c->cr2 - M_DATA));
	if (!ok && memcmp(m.ram + M_DATA, pages, 2 * PAGE_SIZE))
		fail_msg("%s wrote before it faulted", forms[w].name);
}

static void test_faults(void **s)
{
	u8 *pages;

	(void)s;
	if (!can_compare())
		skip();
	pages = mmap(NULL, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	for (enum which w = 0; w < WHICH; w++)
		for (unsigned offset = PAGE_SIZE - 896; host_can(w) && offset < PAGE_SIZE;
		     offset += 64)
			for (unsigned k = 0; k < 8 * 2 * 4; k++)
				fault_case(pages, w, offset, k & 7, k >> 3 & 1,
					   w >= RSTOR ? (k & 16 ? 7 : 3) : 0, k & 32);
	munmap(pages, 2 * PAGE_SIZE);
}

/* --- supervisor forms, CPUID ------------------------------------------------------------------ */

static void test_supervisor(void **s)
{
	static const u8 xsaves[] = { 0x0f, 0xc7, 0x2f }, xrstors[] = { 0x0f, 0xc7, 0x1f };
	static const struct {
		const char *name;
		bool restore;
		u8 cpl;
		u64 bv, comp;
		int want;
	} t[] = {
		{ "XSAVES", false, 0, 0, 0, M_HALT },
		{ "XSAVES, privilege 3", false, 3, 0, 0, EXC_GP },
		{ "XRSTORS", true, 0, 7, XCOMP | 7, M_HALT },
		{ "XRSTORS, privilege 3", true, 3, 7, XCOMP | 7, EXC_GP },
		{ "XRSTORS, standard image", true, 0, 7, 0, EXC_GP },
		{ "XRSTORS, unknown component", true, 0, 7, XCOMP | 15, EXC_GP },
		{ "XRSTORS, component not in XCOMP_BV", true, 0, 7, XCOMP | 3, EXC_GP },
	};

	(void)s;
	if (!hostcpu()->xsaves)
		skip();
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++) {
		struct cpu *c = reset();
		struct fp_image *a = (struct fp_image *)(m.ram + M_DATA);

		memset(a, 0, sizeof(*a));
		a->fcw = 0x37f;
		a->mxcsr = MXCSR_INIT;
		a->xstate_bv = t[k].bv;
		a->xcomp_bv = t[k].comp;
		a->ymmh[3][3] = 0x77;
		cpu_fp(c)->ymmh[2][2] = 0x55;
		c->gpr[R_RAX] = ~0u;
		c->gpr[R_RDX] = ~0u;
		machine_privilege(c, t[k].cpl);
		if (run(t[k].restore ? xrstors : xsaves, 3) != t[k].want)
			fail_msg("%s", t[k].name);
		if (t[k].want != M_HALT)
			continue;
		if (t[k].restore) {
			assert_int_equal(cpu_fp(c)->ymmh[3][3], 0x77);
			assert_int_equal(cpu_fp(c)->ymmh[2][2], 0);
		} else {
			assert_int_equal(a->xstate_bv, XFEATURE_AVX);
			assert_int_equal(a->xcomp_bv, XCOMP | 7);
			assert_int_equal(a->ymmh[2][2], 0x55);
		}
	}
}

/* Without its CPUID bit each form is #UD, and a compacted image #GP. */
static void test_not_offered(void **s)
{
	static const struct {
		const char *name;
		u8 code[4];
		u8 bit;
		int want;
	} t[] = {
		{ "XSAVEOPT", { 0x0f, 0xae, 0x37 }, 0, EXC_UD },
		{ "XSAVEC", { 0x0f, 0xc7, 0x27 }, 1, EXC_UD },
		{ "XSAVES", { 0x0f, 0xc7, 0x2f }, 3, EXC_UD },
		{ "XRSTORS", { 0x0f, 0xc7, 0x1f }, 3, EXC_UD },
		{ "XRSTOR, compacted", { 0x0f, 0xae, 0x2f }, 1, EXC_GP },
		{ "XGETBV ECX=1", { 0x0f, 0x01, 0xd0 }, 2, EXC_GP },
	};

	(void)s;
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++) {
		struct cpu *c = reset();
		struct fp_image *a = (struct fp_image *)(m.ram + M_DATA);

		memset(a, 0, sizeof(*a));
		a->xcomp_bv = XCOMP | 7;
		c->gpr[R_RAX] = 7;
		c->gpr[R_RCX] = 1;
		c->cpuid->word[CW_D1_EAX] &= ~BIT(t[k].bit);
		if (run(t[k].code, 3) != t[k].want)
			fail_msg("%s", t[k].name);
	}
}

static void test_xcr0(void **s)
{
	static const struct {
		u32 leaf_d, rax;
		bool ok;
	} t[] = {
		{ 7, 1, true },	 { 7, 3, true },  { 7, 7, true },  { 7, 5, false },
		{ 7, 6, false }, { 7, 2, false }, { 7, 0, false }, { 3, 7, false },
		{ 3, 3, true },	 { 1, 3, false }, { 0xe7, 0xe7, false }, { 0, 1, true },
	};
	static const u8 xsetbv[] = { 0x0f, 0x01, 0xd1 };

	(void)s;
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++) {
		struct cpu *c = reset();
		struct kvm_cpuid_entry2 e[] = {
			{ .function = 1, .ecx = BIT(26) | BIT(28) },
			{ .function = 0xd, .flags = 1, .eax = t[k].leaf_d },
			{ .function = 0xd, .index = 1, .flags = 1, .eax = 0xf },
		};
		bool avx = !(t[k].rax & 4) || hostcpu()->avx;
		u32 reg[4];

		assert_int_equal(cpuid_set(c, e, 3), 0);
		c->xcr0 = 1;
		c->gpr[R_RAX] = t[k].rax;
		if (run(xsetbv, 3) != (t[k].ok && avx ? M_HALT : EXC_GP))
			fail_msg("XCR0 %x, leaf 0xD %x", t[k].rax, t[k].leaf_d);
		assert_int_equal(c->xcr0, t[k].ok && avx ? t[k].rax : 1);
		for (u32 sub = 0; sub < 2; sub++) {
			cpuid_query(c, 0xd, sub, reg);
			assert_int_equal(reg[1], c->xcr0 & 4 ? 832 : 576);
		}
	}
}

static int setup(void **state)
{
	const char *env = getenv("SEED");

	(void)state;
	seed = env ? strtoull(env, NULL, 0) : (u64)time(NULL) * 2654435761u;
	print_message("SEED %llu\n", (unsigned long long)seed);
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
		cmocka_unit_test(test_against_the_host),
		cmocka_unit_test(test_in_use),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_supervisor),
		cmocka_unit_test(test_not_offered),
		cmocka_unit_test(test_xcr0),
	};

	test_hide();
	if (!hostcpu()->xsave) {
		print_message("the host has no XSAVE: it is not offered\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
