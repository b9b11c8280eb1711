/* SPDX-License-Identifier: MIT */
/*
 * The system half of the processor: exception frames and error codes, double
 * and triple faults, IST, IRET, SYSRET by vendor, control registers, MSRs,
 * CPUID.  Expected values are the manuals'.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cpuid.h>
#include <stdio.h>

#include "machine.h"

#include "cpu/msr.h"

#define PTE_PRESENT 1ull

static struct machine m;
static struct machine_vcpu *v;
static struct cpu *c;

static int setup(void **state)
{
	(void)state;
	assert_true(machine_init(&m, 1));
	v = &m.vcpu[0];
	c = &v->c;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	machine_fini(&m);
	return 0;
}

#define RUN(...)                                                               \
	({                                                                     \
		static const u8 bytes[] = { __VA_ARGS__ };                     \
		machine_code(&m, M_CODE, bytes, sizeof(bytes));                \
		machine_run(v);                                                \
	})

static void gate_attr(unsigned vector, u64 attr)
{
	u64 lo = m_get64(&m, M_IDT + vector * 16);

	m_put64(&m, M_IDT + vector * 16, (lo & ~(0xff07ull << 32)) | attr << 32);
}

/* Unmap the page of @gva. */
static void unmap(gva_t gva)
{
	*machine_pte(&m, gva) &= ~PTE_PRESENT;
	mmu_flush_guest(&c->mmu);
}

/* --- frames ------------------------------------------------------------------- */

static void ud_pushes_the_instruction(void **state)
{
	(void)state;
	c->gpr[R_RSP] = M_STACK - 3; /* delivery aligns to 16 bytes */
	assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
	assert_int_equal(machine_frame(v, 0), M_CODE);
	assert_int_equal(machine_frame(v, 1), M_CS0);
	assert_int_equal(machine_frame(v, 2), RF_ONE | RF_RF);
	assert_int_equal(machine_frame(v, 3), M_STACK - 3);
	assert_int_equal(machine_frame(v, 4), M_DS0);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 16 - 40 + 8 - 8);
}

static void user_to_supervisor_takes_rsp0(void **state)
{
	(void)state;
	machine_privilege(c, 3);
	assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
	assert_int_equal(machine_frame(v, 1), M_CS3);
	assert_int_equal(machine_frame(v, 3), M_USTACK);
	assert_int_equal(machine_frame(v, 4), M_DS3);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 40);
	assert_int_equal(c->mmu.cpl, 0);
	assert_int_equal(c->seg[SEG_SS].sel, 0);
}

static void ist_switches_the_stack(void **state)
{
	(void)state;
	m_put64(&m, M_TSS + 36 + 8, 0x28000); /* IST2 */
	gate_attr(EXC_UD, 0x8e02);
	assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
	assert_int_equal(c->gpr[R_RSP], 0x28000 - 40);
	assert_int_equal(machine_frame(v, 3), M_STACK);
}

static void selector_error_code(void **state)
{
	(void)state;
	/* mov eax, 0x73; mov ds, eax: beyond the GDT, RPL is no part of the code */
	assert_int_equal(RUN(0xb8, 0x73, 0, 0, 0, 0x8e, 0xd8), EXC_GP);
	assert_int_equal(machine_frame(v, 0), 0x70);
	assert_int_equal(machine_frame(v, 1), M_CODE + 5);
}

static void page_fault_codes(void **state)
{
	(void)state;
	unmap(M_DATA);
	/* add [M_DATA], eax: a read-modify-write is a write */
	assert_int_equal(RUN(0x01, 0x04, 0x25, 0, 0, 4, 0), EXC_PF);
	assert_int_equal(machine_frame(v, 0), PF_W);
	assert_int_equal(c->cr2, M_DATA);
	machine_reset(v);
	machine_privilege(c, 3);
	unmap(M_DATA);
	assert_int_equal(RUN(0x8b, 0x04, 0x25, 0, 0, 4, 0), EXC_PF);
	assert_int_equal(machine_frame(v, 0), PF_U);
	machine_reset(v);
	c->rip = M_DATA;
	unmap(M_DATA);
	assert_int_equal(machine_run(v), EXC_PF);
	assert_int_equal(machine_frame(v, 0), PF_I);
	assert_int_equal(machine_frame(v, 1), M_DATA);
}

static void stack_segment_faults(void **state)
{
	(void)state;
	c->gpr[R_RBP] = 0x8000000000000000ull;
	/* mov eax, [rbp]: #SS; mov eax, [rax]: #GP */
	assert_int_equal(RUN(0x8b, 0x45, 0x00), EXC_SS);
	assert_int_equal(machine_frame(v, 0), 0);
	machine_reset(v);
	c->gpr[R_RAX] = 0x8000000000000000ull;
	assert_int_equal(RUN(0x8b, 0x00), EXC_GP);
}

static void int_n_and_gate_privilege(void **state)
{
	(void)state;
	machine_privilege(c, 3);
	assert_int_equal(RUN(0xcd, 0x80), EXC_GP);
	assert_int_equal(machine_frame(v, 0), 0x80 * 8 + ERR_IDT);
	machine_reset(v);
	machine_privilege(c, 3);
	gate_attr(0x80, 0xee00);
	assert_int_equal(RUN(0xcd, 0x80), 0x80);
	assert_int_equal(machine_frame(v, 0), M_CODE + 2);
	/* ICEBP looks at no privilege and changes no DR6. */
	machine_reset(v);
	machine_privilege(c, 3);
	assert_int_equal(RUN(0xf1), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 1);
	assert_int_equal(c->dr6, 0xffff0ff0);
}

/* --- faults during delivery ----------------------------------------------------- */

static void second_faults(void **state)
{
	static const struct {
		const char *name;
		u8 broken[3]; /* vectors whose gate is not present */
		u8 code[8];
		int want;
		u64 error;
	} rows[] = {
		{ "#UD, then #NP: benign first", { EXC_UD }, { 0x0f, 0x0b }, EXC_NP,
		  EXC_UD * 8 + ERR_IDT + ERR_EXT },
		{ "#GP, then #NP: double fault", { EXC_GP }, { 0x8e, 0xd8 }, EXC_DF, 0 },
		{ "#PF, then #NP: double fault", { EXC_PF }, { 0x8b, 4, 0x25, 0, 0, 4, 0 }, EXC_DF, 0 },
		{ "#GP, #NP, #DF not deliverable: triple fault", { EXC_GP, EXC_DF }, { 0x8e, 0xd8 },
		  M_SHUT, 0 },
		{ "INT n: EXT is clear", { 0x40 }, { 0xcd, 0x40 }, EXC_NP, 0x40 * 8 + ERR_IDT },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		teardown(NULL);
		setup(NULL);
		for (unsigned k = 0; k < 3 && rows[i].broken[k]; k++)
			gate_attr(rows[i].broken[k], 0x0e00);
		c->gpr[R_RAX] = 0x70;
		unmap(M_DATA);
		machine_code(&m, M_CODE, rows[i].code, 8);
		int got = machine_run(v);

		if (got != rows[i].want)
			fail_msg("%s: want %d got %d", rows[i].name, rows[i].want, got);
		if (got >= 0)
			assert_int_equal(machine_frame(v, 0), rows[i].error);
		else
			assert_non_null(c->shutdown_cause);
	}
}

static void external_interrupt_sets_ext(void **state)
{
	(void)state;
	gate_attr(0x50, 0x0e00);
	machine_code(&m, M_CODE, "\xf4", 1);
	c->event.kind = EVENT_INTR;
	c->event.vector = 0x50;
	assert_int_equal(machine_run(v), EXC_NP);
	assert_int_equal(machine_frame(v, 0), 0x50 * 8 + ERR_IDT + ERR_EXT);
}

static void idt_in_unbacked_memory(void **state)
{
	(void)state;
	c->idtr.base = 0x1000000; /* mapped, but beyond RAM: a device that answers 0 */
	assert_int_equal(RUN(0x0f, 0x0b), M_SHUT);
}

/* --- returns ---------------------------------------------------------------------- */

static void put_iret_frame(u64 rip, u64 cs, u64 flags, u64 rsp, u64 ss)
{
	const u64 frame[5] = { rip, cs, flags, rsp, ss };

	c->gpr[R_RSP] = M_STACK - 0x100;
	memcpy(m.ram + M_STACK - 0x100, frame, sizeof(frame));
}

static void iret_to_user(void **state)
{
	(void)state;
	m.ram[M_DATA] = 0xf4; /* HLT: #GP at privilege 3 */
	put_iret_frame(M_DATA, M_CS3, RF_ONE | RF_IF | RF_CF, M_USTACK - 8, M_DS3);
	assert_int_equal(RUN(0x48, 0xcf), EXC_GP);
	assert_int_equal(machine_frame(v, 1), M_DATA);
	assert_int_equal(machine_frame(v, 2), M_CS3);
	assert_int_equal(machine_frame(v, 3), RF_ONE | RF_IF | RF_CF | RF_RF);
	assert_int_equal(machine_frame(v, 4), M_USTACK - 8);
}

static void iret_non_canonical(void **state)
{
	(void)state;
	put_iret_frame(1ull << 47, M_CS0, RF_ONE, M_STACK, M_DS0);
	assert_int_equal(RUN(0x48, 0xcf), EXC_GP);
	assert_int_equal(machine_frame(v, 1), M_CODE);
	assert_int_equal(machine_frame(v, 4), M_STACK - 0x100); /* rsp did not move */
}

static void iret_unmapped_user_stack(void **state)
{
	(void)state;
	machine_privilege(c, 3);
	c->gpr[R_RSP] = M_DATA;
	unmap(M_DATA);
	assert_int_equal(RUN(0x48, 0xcf), EXC_PF);
	assert_int_equal(machine_frame(v, 0), PF_U);
}

static void iret_unblocks_nmi(void **state)
{
	(void)state;
	c->nmi_blocked = true;
	put_iret_frame(M_CODE + 2, M_CS0, RF_ONE, M_STACK, M_DS0);
	assert_int_equal(RUN(0x48, 0xcf, 0xf4), M_HALT);
	assert_false(c->nmi_blocked);
	assert_true(v->event_checks > 0);
}

static void sysret_non_canonical(void **state)
{
	(void)state;
	for (int amd = 0; amd < 2; amd++) {
		machine_reset(v);
		c->vendor = amd ? VENDOR_AMD : VENDOR_INTEL;
		c->msr.star = (u64)(M_CS3 - 16 - 3) << 48 | (u64)M_CS0 << 32;
		c->gpr[R_RCX] = 1ull << 47;
		c->gpr[R_R11] = RF_ONE;
		assert_int_equal(RUN(0x48, 0x0f, 0x07), EXC_GP);
		/* Intel faults in ring 0 at SYSRET, AMD in ring 3 at the target. */
		assert_int_equal(machine_frame(v, 1), amd ? 1ull << 47 : M_CODE);
		assert_int_equal(machine_frame(v, 2) & 3, amd ? 3 : 0);
	}
}

static void syscall_and_back(void **state)
{
	(void)state;
	machine_privilege(c, 3);
	c->msr.star = (u64)(M_CS3 - 16 - 3) << 48 | (u64)M_CS0 << 32;
	c->msr.lstar = M_DATA;
	c->msr.sfmask = RF_IF | RF_TF;
	c->rflags |= RF_IF;
	machine_code(&m, M_DATA, "\xf4", 1);
	assert_int_equal(RUN(0x0f, 0x05), M_HALT);
	assert_int_equal(c->gpr[R_RCX], M_CODE + 2);
	assert_int_equal(c->gpr[R_R11], RF_ONE | RF_IF);
	assert_int_equal(c->mmu.cpl, 0);
	assert_false(c->rflags & RF_IF);
	c->rip = M_DATA + 1;
	machine_code(&m, M_DATA + 1, "\x48\x0f\x07", 3);
	machine_code(&m, M_CODE + 2, "\x0f\x0b", 2);
	assert_int_equal(machine_run(v), EXC_UD);
	assert_int_equal(machine_frame(v, 1), M_CS3);
	assert_int_equal(machine_frame(v, 2), RF_ONE | RF_IF | RF_RF);
}

/* --- control registers, MSRs -------------------------------------------------------- */

static void control_register_checks(void **state)
{
	static const struct {
		const char *name;
		int cr;
		u64 value;
	} rows[] = {
		{ "CR0 with PG and no PE", 0, CR0_PG | CR0_ET },
		{ "CR0 with NW and no CD", 0, CR0_PG | CR0_PE | CR0_NW },
		{ "CR0 above 32 bits", 0, BIT64(32) | CR0_PG | CR0_PE },
		{ "CR0.PG off in 64-bit mode", 0, CR0_PE },
		{ "CR4 without PAE in long mode", 4, 0 },
		{ "CR4.VMXE without VMX", 4, CR4_PAE | CR4_VMXE },
		{ "CR4.LA57 without LA57", 4, CR4_PAE | CR4_LA57 },
		{ "CR4 reserved bit", 4, CR4_PAE | BIT64(31) },
		{ "CR4.PCIDE with CR3[11:0]", 4, CR4_PAE | CR4_PCIDE },
		{ "CR3 beyond MAXPHYADDR", 3, BIT64(51) },
		{ "CR8 above 15", 8, 16 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		machine_reset(v);
		c->mmu.maxphyaddr = 40;
		if (strstr(rows[i].name, "CR3[11:0]"))
			mmu_set_cr3(&c->mmu, M_PML4 | 8);
		const u8 code[] = { 0x44, 0x0f, 0x22, (u8)(0xc0 | (rows[i].cr & 7) << 3) };
		u64 cr0 = c->mmu.cr0, cr4 = c->mmu.cr4;

		c->gpr[R_RAX] = rows[i].value;
		machine_code(&m, M_CODE, code + (rows[i].cr != 8), rows[i].cr == 8 ? 4 : 3);
		if (machine_run(v) != EXC_GP || machine_frame(v, 0) || c->mmu.cr0 != cr0 ||
		    c->mmu.cr4 != cr4)
			fail_msg("%s: no #GP(0)", rows[i].name);
	}
}

static void msr_values(void **state)
{
	static const struct {
		u32 index;
		u64 value;
		enum cpu_msr want;
	} rows[] = {
		{ MSR_PAT, 0x0007040600070406ull, CPU_MSR_OK },
		{ MSR_PAT, 0x0007040600070402ull, CPU_MSR_INVALID },
		{ MSR_LSTAR, 1ull << 47, CPU_MSR_INVALID },
		{ MSR_KERNEL_GS_BASE, 0xffff800000000000ull, CPU_MSR_OK },
		{ MSR_FS_BASE, 1ull << 60, CPU_MSR_INVALID },
		{ 0x200, 6, CPU_MSR_OK },
		{ 0x200, 2, CPU_MSR_INVALID },
		{ MSR_MTRR_DEF_TYPE, 0xc06, CPU_MSR_OK },
		{ MSR_MTRR_DEF_TYPE, 0x1006, CPU_MSR_INVALID },
		{ MSR_MC0_CTL, 0, CPU_MSR_OK },
		{ MSR_MC0_CTL + 1, 1, CPU_MSR_INVALID },
		{ MSR_MC0_CTL + 4 * 31, 0, CPU_MSR_UNKNOWN },
		{ 0xce, 1, CPU_MSR_INVALID },
		{ 0xdeadbeef, 0, CPU_MSR_UNKNOWN },
		{ 0xc0010015, 1, CPU_MSR_OK },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		enum cpu_msr got = cpu_msr_write(c, rows[i].index, rows[i].value, false);

		if (got != rows[i].want)
			fail_msg("WRMSR %#x, %#llx: want %d got %d", rows[i].index, rows[i].value,
				 rows[i].want, got);
	}
}

/* Every listed MSR can be read, and written back by the client. */
static void listed_msrs_round_trip(void **state)
{
	u32 list[256];
	unsigned n = cpu_msr_list(list, 256), own = 0;

	(void)state;
	assert_in_range(n, 20, 256);
	for (unsigned i = 0; i < n; i++) {
		u64 value;

		if (cpu_msr_read(c, list[i], &value, true) == CPU_MSR_UNKNOWN)
			continue; /* TSC, APIC: the owner's */
		own++;
		if (cpu_msr_write(c, list[i], value, true) != CPU_MSR_OK)
			fail_msg("MSR %#x: %#llx is refused", list[i], value);
	}
	assert_in_range(own, 15, 256);
}

/* --- CPUID ------------------------------------------------------------------------------ */

static void supported_cpuid(void **state)
{
	struct kvm_cpuid_entry2 e[100];
	const struct cpuid_offer offer = { .vendor = -1, .pv_features = 9 };
	unsigned n = cpuid_supported(&offer, e, 100), a, b, cx, d;

	(void)state;
	assert_in_range(n, 15, 80);
	assert_int_equal(cpuid_set(c, e, n), 0);
	assert_true(cpuid_has(c->cpuid, CPUID_LM) && cpuid_has(c->cpuid, CPUID_X2APIC));
	assert_false(cpuid_has(c->cpuid, CPUID_VMX) || cpuid_has(c->cpuid, CPUID_SVM) ||
		     cpuid_has(c->cpuid, CPUID_MONITOR) || cpuid_has(c->cpuid, CPUID_LA57) ||
		     cpuid_has(c->cpuid, CPUID_PKU));
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			if (e[i].function == e[k].function && e[i].index == e[k].index)
				fail_msg("leaf %#x.%u twice", e[i].function, e[i].index);
	if (!cpuid_has(c->cpuid, CPUID_XSAVE))
		return;
	/* The legacy area and header stand where the host's do. */
	__cpuid_count(0xd, 0, a, b, cx, d);
	assert_int_equal(a & c->cpuid->xcr0, c->cpuid->xcr0);
	c->xcr0 = 3;
	u32 reg[4];

	cpuid_query(c, 0xd, 0, reg);
	assert_int_equal(reg[1], 576);
	assert_true(reg[2] <= cx);
}

static void unknown_leaves(void **state)
{
	struct kvm_cpuid_entry2 e[100];
	u32 reg[4], top[4];

	(void)state;
	for (int amd = 0; amd < 2; amd++) {
		const struct cpuid_offer offer = { .vendor = amd ? VENDOR_AMD : VENDOR_INTEL };

		assert_int_equal(cpuid_set(c, e, cpuid_supported(&offer, e, 100)), 0);
		assert_int_equal(c->vendor, amd ? VENDOR_AMD : VENDOR_INTEL);
		cpuid_query(c, 0x77, 0, reg);
		cpuid_query(c, 0xd, 0, top);
		/* Intel: the highest basic leaf; AMD: zero. */
		assert_int_equal(reg[0], amd ? 0 : top[0]);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(ud_pushes_the_instruction),	T(user_to_supervisor_takes_rsp0),
		T(ist_switches_the_stack),	T(selector_error_code),
		T(page_fault_codes),		T(stack_segment_faults),
		T(int_n_and_gate_privilege),	T(second_faults),
		T(external_interrupt_sets_ext), T(idt_in_unbacked_memory),
		T(iret_to_user),		T(iret_non_canonical),
		T(iret_unmapped_user_stack),	T(iret_unblocks_nmi),
		T(sysret_non_canonical),	T(syscall_and_back),
		T(control_register_checks),	T(msr_values),
		T(listed_msrs_round_trip),	T(supported_cpuid),
		T(unknown_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
