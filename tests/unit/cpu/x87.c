/* SPDX-License-Identifier: MIT */
/*
 * The x87's pointers and state wherever a run can end: several instructions in
 * a block, exits in its middle, faults of the guest and of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <ucontext.h>

#include "cpu/fp.h"
#include "jit/jit.h"
#include "unit/cpu/machine.h"

#define FS_BASE	   0x100
#define NOT_MAPPED 0x7f000
#define FDP_BEFORE 0x5555

static struct machine m;

/*
 * PROGRAM(name, instructions): they end with HLT; the label 1 is where FIP must
 * point in the end.  rdi: M_DATA, rsp: M_STACK, rbx: NOT_MAPPED.
 */
#define PROGRAM(name, text)                                                      \
	extern const u8 name##_begin[], name##_last[], name##_end[];             \
	__asm__(".pushsection .rodata\n" #name "_begin:\n" text "\n\thlt\n"      \
		#name "_end:\n.set " #name "_last, 1b\n.popsection")

PROGRAM(store, "fld1; flds (%rdi); 1: fstps 8(%rdi)");
PROGRAM(two_registers, "flds (%rdi); 1: fadd %st(0), %st");
PROGRAM(control, "flds 4(%rdi); 1: fld1; fnstcw 16(%rdi); fnstsw 18(%rdi); fldcw 16(%rdi);"
		 "fnstsw %ax; fwait");
PROGRAM(by_fs, "fld1; 1: fadds %fs:4(%rdi); xor %eax, %eax");
PROGRAM(on_stack, "push %rax; push %rax; flds (%rdi); 1: fstpt -16(%rsp); pop %rax; pop %rax");
PROGRAM(by_ip, "fld1; 1: fldl 1b(%rip)");
PROGRAM(narrow, "mov $0xffffffff00000000, %rax; or %rdi, %rax; fld1; 1: fadds 12(%eax)");
PROGRAM(slow_between, "1: flds 4(%rdi); xor %eax, %eax; cpuid");
PROGRAM(loop, "mov $100, %ecx; fldz; 1: fadds 4(%rdi); dec %ecx; jnz 1b; xor %eax, %eax");
PROGRAM(mixed, "mov $50, %ecx; 2: cvtsi2ss %ecx, %xmm1; movss %xmm1, (%rdi); flds (%rdi);"
	       "1: fstp %st(0); movq (%rdi), %mm0; paddw %mm0, %mm3; emms; dec %ecx; jnz 2b");
PROGRAM(guest_fault, "flds 4(%rdi); 1: fld1; mov (%rbx), %eax");
PROGRAM(x87_fault, "1: flds 4(%rdi); fldt (%rbx)");
PROGRAM(store_fault, "1: flds 4(%rdi); fstps (%rbx)");
PROGRAM(refused, "flds 4(%rdi); 1: fld1; fldcw 32(%rdi); fnstsw 18(%rdi)");
PROGRAM(pending, "fld1; fldz; fldcw 32(%rdi); 1: fdivrp; xor %eax, %eax; fwait");
PROGRAM(switched, "1: fld1; mov %cr0, %rax; or $8, %eax; mov %rax, %cr0; fldpi");
/* The access in between must leave flags alone, though what follows replaces them. */
PROGRAM(flags, "fld1; fldz; cmp %eax, %edi; mov 8(%rdi), %rdx; 1: fcmovne %st(1), %st; test %edi, %edi");
PROGRAM(compare, "fld1; fldz; mov $7, %ecx; test %edi, %edi; 1: fcomi %st(1), %st; mov 8(%rdi), %rax;"
		 "jb 2f; mov $8, %ecx; 2: mov %ecx, 40(%rdi); add $1, %ecx");

#define P(name) #name, name##_begin, name##_last, name##_end

/* @fdp: 0: that of @last */
static const struct program {
	const char *name;
	const u8 *begin, *last, *end;
	int result;
	u64 fdp;
	u16 fop;
	u8 seg; /* FDS */
} programs[] = {
	{ P(store), M_HALT, M_DATA + 8, 0x15f, SEG_DS },
	{ P(two_registers), M_HALT, M_DATA, 0x0c0, SEG_DS },
	{ P(control), M_HALT, M_DATA + 4, 0x1e8, SEG_DS },
	{ P(by_fs), M_HALT, M_DATA + 4, 0x047, SEG_FS },
	{ P(on_stack), M_HALT, M_STACK - 32, 0x37c, SEG_SS },
	{ P(by_ip), M_HALT, 0, 0x505, SEG_DS },
	{ P(narrow), M_HALT, M_DATA + 12, 0x040, SEG_DS },
	{ P(slow_between), M_HALT, M_DATA + 4, 0x147, SEG_DS },
	{ P(loop), M_HALT, M_DATA + 4, 0x047, SEG_DS },
	{ P(mixed), M_HALT, M_DATA, 0x5d8, SEG_DS },
	{ P(guest_fault), EXC_PF, M_DATA + 4, 0x1e8, SEG_DS },
	{ P(x87_fault), EXC_PF, M_DATA + 4, 0x147, SEG_DS },
	{ P(store_fault), EXC_PF, M_DATA + 4, 0x147, SEG_DS },
	{ P(refused), M_HALT, M_DATA + 4, 0x1e8, SEG_DS },
	{ P(pending), EXC_MF, FDP_BEFORE, 0x6f9, SEG_COUNT },
	{ P(switched), EXC_NM, FDP_BEFORE, 0x1e8, SEG_COUNT },
	{ P(flags), M_HALT, FDP_BEFORE, 0x3c9, SEG_COUNT },
	{ P(compare), M_HALT, FDP_BEFORE, 0x3f1, SEG_COUNT },
};

/* The TLB stays filled. */
static struct cpu *reset(u8 vendor, u16 selector)
{
	static const float data[8] = { 1.5f, 0.25f, 0, 3 };
	struct cpu *c = &m.vcpu[0].c;
	struct fp_image *f = cpu_fp(c);

	memset(c->gpr, 0, sizeof(c->gpr));
	machine_privilege(c, 0);
	cpu_put_rflags(c, RF_ONE);
	if (c->mmu.cr0 & CR0_TS)
		mmu_set_cr0(&c->mmu, c->mmu.cr0 & ~CR0_TS);
	fp_reset(c);
	if (c->vendor != vendor)
		icache_flush(c->icache); /* as KVM_SET_CPUID2 does */
	c->vendor = vendor;
	c->seg[SEG_FS].base = FS_BASE;
	c->seg[SEG_FS].sel = 0x1b;
	c->seg[SEG_SS].sel = 0x23;
	c->gpr[R_RDI] = M_DATA;
	c->gpr[R_RBX] = NOT_MAPPED;
	memset(m.ram + M_DATA, 0, 1024);
	memcpy(m.ram + M_DATA, data, sizeof(data));
	memcpy(m.ram + M_DATA + FS_BASE, data, sizeof(data));
	memcpy(m.ram + M_DATA + 32, &(u16){ 0x37b }, 2); /* division by zero is not masked */
	f->fip = f->fop = 1;
	f->fdp = FDP_BEFORE;
	f->fcs = f->fds = selector;
	return c;
}

static int run(const struct program *p, u64 base, bool interp)
{
	struct cpu *c = &m.vcpu[0].c;
	struct jit *j = c->translator;
	int r;

	machine_code(&m, base, p->begin, (unsigned)(p->end - p->begin));
	c->rip = base;
	if (interp)
		c->translator = NULL; /* machine_run() chooses by it */
	r = machine_run(&m.vcpu[0]);
	c->translator = j;
	return r;
}

static u16 selector_of(const struct cpu *c, const struct program *p, u16 before)
{
	if (p->seg == SEG_COUNT)
		return before;
	return c->vendor == VENDOR_AMD ? c->seg[p->seg].sel : 0;
}

/* Intel's processors note it only with an exception that is not masked. */
static u16 fop_of(const struct cpu *c, const struct program *p)
{
	return c->vendor == VENDOR_AMD || p->result == EXC_MF ? p->fop : 1;
}

static bool check(const struct program *p, u64 base, u8 vendor, u16 selector, bool interp)
{
	struct cpu *c = reset(vendor, selector);
	struct fp_image *f = cpu_fp(c);
	u64 last = base + (u64)(p->last - p->begin);
	int got;
	bool ok;

	/* Once to fill the TLB: what misses it is the interpreter's. */
	run(p, base, interp);
	reset(vendor, selector);
	got = run(p, base, interp);
	ok = got == p->result && f->fip == last && f->fdp == (p->fdp ? p->fdp : last) &&
	     f->fop == fop_of(c, p) && f->fds == selector_of(c, p, selector) &&
	     f->fcs == (vendor == VENDOR_AMD ? M_CS0 : 0);

	if (!ok)
		print_error("%s at %llx vendor %u%s: %d fip %llx fdp %llx fop %x fcs %x fds %x\n",
			    p->name, base, vendor, interp ? ", interpreter" : "", got, f->fip,
			    f->fdp, f->fop, f->fcs, f->fds);
	return ok;
}

/* At the beginning of a page, and across its end; twice, since what ran once is
 * linked. */
static const u64 bases[] = { M_CODE, M_CODE + 0xff8, M_CODE + 0xff8 };

static void test_pointers(void **state)
{
	bool ok = true;

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(programs); k++)
		for (unsigned b = 0; b < ARRAY_SIZE(bases); b++)
			for (unsigned bits = 0; bits < 8; bits++)
				ok &= check(&programs[k], bases[b],
					    bits & 1 ? VENDOR_AMD : VENDOR_INTEL,
					    bits & 2 ? 0x77 : 0, bits & 4);
	assert_true(ok);
}

/* Everything else as the interpreter leaves it, also where dead flags may be lost
 * on the way. */
static void test_engines(void **state)
{
	static u8 data[2][1024];
	struct cpu *c = &m.vcpu[0].c;
	struct fp_image f;

	(void)state;
	if (!c->translator)
		skip();
	c->translator->exact = false;
	for (unsigned k = 0; k < ARRAY_SIZE(programs); k++)
		for (unsigned b = 0; b < ARRAY_SIZE(bases); b++) {
			u64 gpr[R_COUNT], aflags;

			reset(VENDOR_INTEL, 0);
			run(&programs[k], bases[b], true);
			f = *cpu_fp(c);
			memcpy(gpr, c->gpr, sizeof(gpr));
			memcpy(data[0], m.ram + M_DATA, sizeof(data[0]));
			aflags = c->aflags;
			/* Once to fill the TLB. */
			reset(VENDOR_INTEL, 0);
			run(&programs[k], bases[b], false);
			reset(VENDOR_INTEL, 0);
			run(&programs[k], bases[b], false);
			memcpy(data[1], m.ram + M_DATA, sizeof(data[1]));
			assert_memory_equal(&f, cpu_fp(c), FP_LEGACY_SIZE);
			assert_memory_equal(gpr, c->gpr, sizeof(gpr));
			assert_memory_equal(data[0], data[1], sizeof(data[0]));
			assert_int_equal(aflags, c->aflags);
		}
	c->translator->exact = true;
}

/* --- a host fault: the client took the memory away ------------------------------------ */

/* Up to the first HLT they fill the TLB. */
PROGRAM(host_fault, "mov 0x2000(%rdi), %eax; hlt; flds 4(%rdi); 1: fld1;"
		    "mov 0x2000(%rdi), %eax; fldpi");
PROGRAM(host_fault_x87, "mov 0x2000(%rdi), %eax; mov 4(%rdi), %eax; hlt; 1: flds 4(%rdi); fldl 0x2000(%rdi); fldpi");

static sigjmp_buf out;

/* First in translated code, then in the interpreter, which tries again. */
static void on_fault(int sig, siginfo_t *si, void *context)
{
	greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	u64 on = jit_fault(&m.vcpu[0].c, (u64)*rip);

	(void)sig;
	(void)si;
	if (!on)
		siglongjmp(out, 1);
	*rip = (greg_t)on;
}

static bool goes_on_to_fault(void)
{
	u8 *page = m.ram + M_DATA + 0x2000;

	assert_int_equal(mprotect(page, 4096, PROT_NONE), 0);
	if (!sigsetjmp(out, 1)) {
		machine_run(&m.vcpu[0]);
		return false;
	}
	mmu_exit_guest(&m.vcpu[0].c.mmu);
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
	return true;
}

static void test_host_fault(void **state)
{
	static const struct program faults[] = {
		{ P(host_fault), M_HALT, M_DATA + 4, 0x1e8, SEG_DS },
		{ P(host_fault_x87), M_HALT, M_DATA + 4, 0x147, SEG_DS },
	};
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, old;

	(void)state;
	if (!m.vcpu[0].c.translator)
		skip();
	sigaction(SIGSEGV, &sa, &old);
	for (unsigned k = 0; k < ARRAY_SIZE(faults); k++) {
		struct cpu *c = reset(VENDOR_AMD, 0);
		const struct program *p = &faults[k];

		assert_int_equal(run(p, M_CODE, false), M_HALT);
		assert_true(goes_on_to_fault());
		assert_int_equal(cpu_fp(c)->fip, M_CODE + (u64)(p->last - p->begin));
		assert_int_equal(cpu_fp(c)->fdp, p->fdp);
		assert_int_equal(cpu_fp(c)->fop, fop_of(c, p));
		assert_int_equal(cpu_fp(c)->fcs, M_CS0);
		assert_int_equal((cpu_fp(c)->fsw & FSW_TOP) >> 11, 8 - (k ? 1 : 2));
		/* It goes on where it was. */
		assert_int_equal(machine_run(&m.vcpu[0]), M_HALT);
		assert_int_equal((cpu_fp(c)->fsw & FSW_TOP) >> 11, 5);
	}
	sigaction(SIGSEGV, &old, NULL);
}

static int setup(void **state)
{
	(void)state;
	if (!machine_init(&m, 1))
		return -1;
	machine_reset(&m.vcpu[0]);
	*machine_pte(&m, NOT_MAPPED) = 0;
	return 0;
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
		cmocka_unit_test(test_pointers),
		cmocka_unit_test(test_engines),
		cmocka_unit_test(test_host_fault),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
