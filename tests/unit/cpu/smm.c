/* SPDX-License-Identifier: MIT */
/* System management mode: what the area holds, what the handler starts with,
 * what RSM restores and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/debug.h"
#include "cpu/smm.h"
#include "unit/cpu/machine.h"

#define SMRAM	   (8u << 20) /* in the second space, with memory of its own */
#define SMRAM_SIZE (64u << 10)
#define AREA	   (smram + SMM_AREA)

static struct machine m;
static struct machine_vcpu *v;
static u8 *smram;

/* The guest's CPUID: long mode, NX, PCID, 40 address bits; or a 32-bit processor. */
static void set_cpuid(bool wide)
{
	struct kvm_cpuid_entry2 e[] = {
		{ .function = 0, .eax = 1, .ebx = 0x756e6547, .ecx = 0x6c65746e, .edx = 0x49656e69 },
		{ .function = 1, .ecx = BIT(17), .edx = BIT(0) | BIT(3) | BIT(6) | BIT(13) | BIT(24) },
		{ .function = 0x80000000, .eax = 0x80000008 },
		{ .function = 0x80000001, .edx = BIT(20) | (wide ? BIT(29) | BIT(11) : 0) },
		{ .function = 0x80000008, .eax = 0x3028 },
	};

	assert_int_equal(cpuid_set(&v->c, e, ARRAY_SIZE(e)), 0);
}

static int setup(void **state)
{
	struct kvm_userspace_memory_region r = { .slot = 1u << 16, .memory_size = M_RAM_BYTES / 2 };
	struct kvm_userspace_memory_region s = {
		.slot = 1u << 16 | 1, .guest_phys_addr = SMRAM, .memory_size = SMRAM_SIZE
	};

	(void)state;
	if (!machine_init(&m, 1))
		return -1;
	v = &m.vcpu[0];
	smram = mmap(NULL, SMRAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r.userspace_addr = (u64)(uintptr_t)m.ram;
	s.userspace_addr = (u64)(uintptr_t)smram;
	return smram == MAP_FAILED || mem_set_region(m.mem, &r) || mem_set_region(m.mem, &s);
}

static int teardown(void **state)
{
	(void)state;
	machine_fini(&m);
	munmap(smram, SMRAM_SIZE);
	return 0;
}

static void start(bool wide)
{
	machine_reset(v);
	set_cpuid(wide);
	v->c.msr.smbase = SMRAM;
	v->event_checks = 0;
	memset(smram, 0, SMRAM_SIZE);
	memset(m.ram + SMRAM, 0, SMRAM_SIZE);
	mem_epoch_bump(m.mem);
}

static void handler(const void *code, unsigned n)
{
	memset(smram + SMM_ENTRY, 0, 64);
	memcpy(smram + SMM_ENTRY, code, n);
	mem_epoch_bump(m.mem);
}

#define HANDLER(...)                                    \
	do {                                            \
		static const u8 code_[] = { __VA_ARGS__ }; \
		handler(code_, sizeof(code_));          \
	} while (0)
#define RSM 0x0f, 0xaa

static u64 area(unsigned at, unsigned n)
{
	u64 x = 0;

	memcpy(&x, AREA + at, n);
	return x;
}

static void put_area(unsigned at, unsigned n, u64 x)
{
	memcpy(AREA + at, &x, n);
}

/* --- the two layouts -------------------------------------------------------------- */

struct place {
	const char *name;
	u16 at;
	u8 bytes;
	u64 value;
};

static void check_places(const struct place *p, unsigned n)
{
	for (; n--; p++)
		if (area(p->at, p->bytes) != p->value)
			fail_msg("%s: %#llx, not %#llx", p->name,
				 (unsigned long long)area(p->at, p->bytes),
				 (unsigned long long)p->value);
}

static void fill_registers(struct cpu *c)
{
	for (unsigned i = 0; i < R_COUNT; i++)
		c->gpr[i] = 0x1111111100000000ull * (i & 7) + 0x1000 + i;
	c->dr6 = 0xffff0ff3;
	c->dr7 = 0x401;
	debug_update(c);
}

static void test_layout_64(void **state)
{
	static const struct place places[] = {
		{ "RAX", 0x1f8, 8, 0x1000 },
		{ "RCX", 0x1f0, 8, 0x1111111100001001 },
		{ "RDX", 0x1e8, 8, 0x2222222200001002 },
		{ "RBX", 0x1e0, 8, 0x3333333300001003 },
		{ "RSP", 0x1d8, 8, 0x4444444400001004 },
		{ "RBP", 0x1d0, 8, 0x5555555500001005 },
		{ "RSI", 0x1c8, 8, 0x6666666600001006 },
		{ "RDI", 0x1c0, 8, 0x7777777700001007 },
		{ "R8", 0x1b8, 8, 0x1008 },
		{ "R15", 0x180, 8, 0x777777770000100f },
		{ "RIP", 0x178, 8, M_CODE },
		{ "RFLAGS", 0x170, 4, 0x246 },
		{ "DR6", 0x168, 8, 0xffff0ff3 },
		{ "DR7", 0x160, 8, 0x401 },
		{ "CR0", 0x158, 8, CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG },
		{ "CR3", 0x150, 8, M_PML4 },
		{ "CR4", 0x148, 8, CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT },
		{ "SMBASE", 0x100, 4, SMRAM },
		{ "revision", 0x0fc, 4, 0x20064 },
		{ "EFER", 0x0d0, 8, EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE },
		{ "I/O restart, HLT restart", 0x0c8, 2, 0 },
		{ "TR selector", 0x090, 2, M_TR },
		{ "TR attributes", 0x092, 2, 0x8b },
		{ "TR limit", 0x094, 4, 0x67 },
		{ "TR base", 0x098, 8, M_TSS },
		{ "IDT limit", 0x084, 4, 0xfff },
		{ "IDT base", 0x088, 8, M_IDT },
		{ "LDTR attributes: not present", 0x072, 2, 0 },
		{ "GDT limit", 0x064, 4, 0x4f },
		{ "GDT base", 0x068, 8, M_GDT },
		{ "ES selector", 0x000, 2, M_DS0 },
		{ "CS selector", 0x010, 2, M_CS0 },
		{ "CS attributes", 0x012, 2, 0xa09b },
		{ "CS limit", 0x014, 4, 0xffffffff },
		{ "SS attributes", 0x022, 2, 0xc093 },
		{ "FS base", 0x048, 8, 0x123456789000 },
		{ "GS base", 0x058, 8, 0xffff800000001000 },
	};
	struct cpu *c = &v->c;

	(void)state;
	start(true);
	fill_registers(c);
	cpu_put_rflags(c, 0x246);
	c->seg[SEG_FS].base = 0x123456789000;
	c->seg[SEG_GS].base = 0xffff800000001000;
	smm_enter(c);
	check_places(places, ARRAY_SIZE(places));
}

/* 32-bit paging with a processor that has no long mode. */
static void legacy_mode(struct cpu *c)
{
	cr_load_sregs(c, CR0_PE | CR0_ET | CR0_NE, 0x5000, CR4_OSFXSR, 0);
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	cpu_update_mode(c);
}

static void test_layout_32(void **state)
{
	static const struct place places[] = {
		{ "CR0", 0x1fc, 4, CR0_PE | CR0_ET | CR0_NE },
		{ "CR3", 0x1f8, 4, 0x5000 },
		{ "EFLAGS", 0x1f4, 4, 0x202 },
		{ "EIP", 0x1f0, 4, M_CODE },
		{ "EDI", 0x1ec, 4, 0x1007 },
		{ "ESP", 0x1e0, 4, 0x1004 },
		{ "EAX", 0x1d0, 4, 0x1000 },
		{ "DR6", 0x1cc, 4, 0xffff0ff3 },
		{ "DR7", 0x1c8, 4, 0x401 },
		{ "TR", 0x1c4, 4, M_TR },
		{ "LDTR", 0x1c0, 4, 0 },
		{ "GS", 0x1bc, 4, M_DS0 },
		{ "CS", 0x1ac, 4, M_CS32 },
		{ "ES", 0x1a8, 4, M_DS0 },
		{ "CS base", 0x198, 4, 0x10000 },
		{ "CS limit", 0x194, 4, 0xffffffff },
		{ "CS attributes", 0x190, 4, 0xc09b00 },
		{ "GDT base", 0x174, 4, M_GDT },
		{ "TR base", 0x164, 4, M_TSS },
		{ "TR attributes", 0x15c, 4, 0x8b00 },
		{ "IDT base", 0x158, 4, M_IDT },
		{ "DS base", 0x134, 4, 0x77000 },
		{ "CR4", 0x114, 4, CR4_OSFXSR },
		{ "revision", 0x0fc, 4, 0x20000 },
		{ "SMBASE", 0x0f8, 4, SMRAM },
	};
	struct cpu *c = &v->c;

	(void)state;
	start(false);
	legacy_mode(c);
	fill_registers(c);
	cpu_put_rflags(c, 0x202);
	c->seg[SEG_CS].base = 0x10000;
	c->seg[SEG_DS].base = 0x77000;
	smm_enter(c);
	check_places(places, ARRAY_SIZE(places));
}

/* --- entry and return ----------------------------------------------------------------- */

static void test_entry(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	start(true);
	c->dr7 = 0x401;
	c->msr.smi_count = 4;
	smm_enter(c);
	assert_true(c->smm && c->nmi_blocked && !c->smm_in_nmi);
	assert_int_equal(c->rip, 0x8000);
	assert_int_equal(cpu_rflags(c), 2);
	assert_int_equal(c->code_bits, 16);
	assert_int_equal(c->mmu.cr0, CR0_ET | CR0_NE | CR0_WP);
	assert_int_equal(c->mmu.cr4, 0);
	assert_int_equal(c->mmu.efer, 0);
	assert_int_equal(c->dr7, 0x400);
	assert_int_equal(c->idtr.limit, 0);
	assert_int_equal(c->seg[SEG_CS].sel, (u16)(SMRAM >> 4));
	assert_int_equal(c->seg[SEG_CS].base, SMRAM);
	assert_int_equal(c->seg[SEG_DS].base, 0);
	assert_int_equal(c->seg[SEG_SS].limit, 0xffffffff);
	assert_int_equal(c->msr.smi_count, 5);
}

/* Everything comes back; the handler sees memory of its own at SMRAM, and what
 * had been translated before does not hide it. */
static void test_round_trip(void **state)
{
	/* mov SMRAM + 0x100, %ebx; hlt */
	static const u8 main_code[] = { 0x8b, 0x1c, 0x25, 0, 1, 0x80, 0, 0xf4 };
	struct cpu *c = &v->c, *before = malloc(sizeof(*before));
	u32 secret = 0x5ec4e700;

	(void)state;
	assert_non_null(before);
	start(true);
	fill_registers(c);
	c->gpr[R_RSP] = M_STACK;
	c->dr7 = 0x400;
	c->seg[SEG_SS].attr = SEG_UNUSABLE;
	debug_update(c);
	/* mov SMRAM + 0x100, %ecx; hlt: fills the TLB with the ordinary page. */
	machine_code(&m, M_CODE, (u8[]){ 0x8b, 0x0c, 0x25, 0, 1, 0x80, 0, 0xf4 }, 8);
	memcpy(smram + 0x100, &secret, 4);
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(c->gpr[R_RCX], 0);
	memcpy(before, c, sizeof(*before));
	/* mov SMRAM + 0x100, %eax; mov %eax, %cs:0x200 ; rsm */
	HANDLER(0x67, 0x66, 0xa1, 0, 1, 0x80, 0, 0x2e, 0x66, 0xa3, 0, 2, RSM);
	smm_enter(c);
	machine_code(&m, M_CODE + 8, main_code, sizeof(main_code));
	(void)machine_run(v);
	assert_false(c->smm);
	assert_memory_equal(smram + 0x200, &secret, 4);
	assert_int_equal(m_get64(&m, SMRAM + 0x200), 0);
	/* It went on behind the HLT, with the ordinary page. */
	assert_int_equal(c->rip, before->rip + sizeof(main_code));
	assert_int_equal(c->gpr[R_RBX], 0);
	for (unsigned i = 0; i < R_COUNT; i++)
		if (i != R_RBX)
			assert_int_equal(c->gpr[i], before->gpr[i]);
	assert_int_equal(cpu_rflags(c), cpu_rflags(before));
	assert_int_equal(c->mmu.cr0, before->mmu.cr0);
	assert_int_equal(c->mmu.cr3, before->mmu.cr3);
	assert_int_equal(c->mmu.cr4, before->mmu.cr4);
	assert_int_equal(c->mmu.efer, before->mmu.efer);
	for (unsigned i = 0; i < SEG_COUNT; i++) {
		assert_int_equal(c->seg[i].sel, before->seg[i].sel);
		assert_int_equal(c->seg[i].base, before->seg[i].base);
		assert_int_equal(c->seg[i].limit, before->seg[i].limit);
		assert_int_equal(c->seg[i].attr, before->seg[i].attr);
	}
	assert_int_equal(c->gdtr.base, before->gdtr.base);
	assert_int_equal(c->idtr.limit, before->idtr.limit);
	assert_int_equal(c->dr6, before->dr6);
	assert_false(c->nmi_blocked);
	assert_true(v->event_checks > 0);
	free(before);
}

static void test_relocation(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	start(true);
	machine_code(&m, M_CODE, (u8[]){ 0xf4 }, 1);
	/* movl $SMRAM + 0x1000, %cs:0xff00; rsm */
	HANDLER(0x2e, 0x66, 0xc7, 0x06, 0x00, 0xff, 0, 0x10, 0x80, 0, RSM);
	smm_enter(c);
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(c->msr.smbase, SMRAM + 0x1000);
	smm_enter(c);
	assert_int_equal(c->seg[SEG_CS].base, SMRAM + 0x1000);
	assert_int_equal(area(0x100 + 0x1000, 4), 0); /* beyond the memory there is */
	smm_set(c, false, false);
}

static void test_nmi_blocking(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	machine_code(&m, M_CODE, (u8[]){ 0xf4 }, 1);
	for (unsigned in_nmi = 0; in_nmi < 2; in_nmi++) {
		start(true);
		HANDLER(RSM);
		c->nmi_blocked = in_nmi;
		smm_enter(c);
		assert_int_equal(c->smm_in_nmi, in_nmi);
		assert_int_equal(machine_run(v), M_HALT);
		assert_int_equal(c->nmi_blocked, in_nmi);
	}
}

static void test_rsm_outside(void **state)
{
	(void)state;
	start(true);
	machine_code(&m, M_CODE, (u8[]){ RSM }, 2);
	assert_int_equal(machine_run(v), EXC_UD);
	machine_privilege(&v->c, 3);
	v->c.rip = M_CODE;
	assert_int_equal(machine_run(v), EXC_UD);
}

/* --- states that RSM refuses ------------------------------------------------------------ */

#define LONG_CR0 (CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG)

static const struct {
	const char *name;
	u16 at;
	u8 bytes;
	bool good;
	u64 value;
} states[] = {
	{ "as saved", 0x158, 8, true, LONG_CR0 },
	{ "EFER without LMA", 0x0d0, 8, true, EFER_LME | EFER_NXE },
	{ "PG without PE", 0x158, 8, false, LONG_CR0 & ~CR0_PE },
	{ "NW without CD", 0x158, 8, false, LONG_CR0 | CR0_NW },
	{ "upper half of CR0", 0x158, 8, false, LONG_CR0 | 1ull << 32 },
	{ "upper half of DR6", 0x168, 8, false, 1ull << 32 },
	{ "upper half of DR7", 0x160, 8, false, 1ull << 32 | 0x400 },
	{ "long mode without PAE", 0x148, 8, false, CR4_OSFXSR },
	{ "CR4 bit that is not there", 0x148, 8, false, CR4_PAE | CR4_LA57 },
	{ "CR3 beyond MAXPHYADDR", 0x150, 8, false, 1ull << 45 },
	{ "EFER bit that is not there", 0x0d0, 8, false, EFER_LME | EFER_NXE | EFER_SVME },
	{ "VM86 in long mode", 0x170, 4, false, RF_ONE | RF_VM },
	{ "reserved flags are dropped", 0x170, 4, true, RF_ONE | BIT(3) | BIT(15) | BIT(30) },
};

static void test_states(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	machine_code(&m, M_CODE, (u8[]){ 0xf4 }, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(states); i++) {
		int got;

		start(true);
		HANDLER(RSM);
		smm_enter(c);
		put_area(states[i].at, states[i].bytes, states[i].value);
		c->shutdown_cause = NULL;
		got = machine_run(v);
		if (got != (states[i].good ? M_HALT : M_SHUT))
			fail_msg("%s: %d", states[i].name, got);
		if (!states[i].good && !c->shutdown_cause)
			fail_msg("%s: no cause", states[i].name);
		assert_false(c->smm);
		assert_int_equal(cpu_rflags(c) & (BIT(3) | BIT(15) | BIT(30)), 0);
	}
}

static void test_pae_and_lost_area(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	/* PAE paging: a PDPTE with a reserved bit. */
	start(true);
	HANDLER(RSM);
	m_put64(&m, 0x6000, 1 | BIT(1));
	smm_enter(c);
	put_area(0x0d0, 8, 0);
	put_area(0x150, 8, 0x6000);
	assert_int_equal(machine_run(v), M_SHUT);
	/* An area where no memory is: nothing to come back to. */
	start(true);
	c->msr.smbase = 0x7fff0000;
	smm_enter(c);
	c->seg[SEG_CS].base = SMRAM;
	HANDLER(RSM);
	assert_int_equal(machine_run(v), M_SHUT);
	assert_non_null(c->shutdown_cause);
}

static void test_legacy_round_trip(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	start(false);
	legacy_mode(c);
	machine_code(&m, M_CODE, (u8[]){ 0xf4 }, 1);
	HANDLER(0x66, 0xb8, 1, 2, 3, 4, RSM); /* mov $0x04030201, %eax; rsm */
	fill_registers(c);
	c->dr7 = 0x400;
	c->gpr[R_RSP] = M_STACK;
	smm_enter(c);
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal((u32)c->gpr[R_RAX], 0x1000);
	assert_int_equal((u32)c->gpr[R_RDI], 0x1007);
	assert_int_equal(c->code_bits, 32);
	assert_int_equal(c->mmu.cr0, CR0_PE | CR0_ET | CR0_NE);
	assert_int_equal(c->seg[SEG_CS].attr, 0xc09b);
	assert_true(c->seg[SEG_LDTR].attr & SEG_UNUSABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout_64),    cmocka_unit_test(test_layout_32),
		cmocka_unit_test(test_entry),	     cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_relocation),   cmocka_unit_test(test_nmi_blocking),
		cmocka_unit_test(test_rsm_outside),  cmocka_unit_test(test_states),
		cmocka_unit_test(test_pae_and_lost_area),
		cmocka_unit_test(test_legacy_round_trip),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
