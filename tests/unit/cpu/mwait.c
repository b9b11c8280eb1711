/* SPDX-License-Identifier: MIT */
/* MONITOR and MWAIT: no-ops with checks, and the two quirks that govern them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/msr.h"
#include "unit/cpu/sysmachine.h"

#define NEVER_UD KVM_X86_QUIRK_MWAIT_NEVER_UD_FAULTS
#define BY_MSR	 KVM_X86_QUIRK_MISC_ENABLE_NO_MWAIT
#define OFFERED	 BIT(3)
#define SSE3	 BIT(0)

static void set_cpuid(bool amd, u32 ecx)
{
	struct kvm_cpuid_entry2 e[] = {
		{ .function = 0, .eax = 1, .ebx = 0x756e6547, .ecx = 0x6c65746e, .edx = 0x49656e69 },
		{ .function = 1, .ecx = ecx },
	};

	if (amd) {
		e[0].ebx = 0x68747541;
		e[0].ecx = 0x444d4163;
		e[0].edx = 0x69746e65;
	}
	assert_int_equal(cpuid_set(c, e, ARRAY_SIZE(e)), 0);
}

static const struct {
	const char *name;
	bool mwait, amd, user;
	u64 disabled;
	u32 cpuid, misc; /* CPUID.1:ECX, bit 18 of MISC_ENABLE */
	u64 rax, rcx;
	int want;
} rows[] = {
	{ "MONITOR", false, true, false, 0, 0, 0, M_DATA, 0, M_EVENT },
	{ "MWAIT", true, true, false, 0, 0, 0, M_DATA, 0, M_EVENT },
	{ "MONITOR of a user", false, true, true, 0, 0, 0, M_DATA, 0, EXC_UD },
	{ "MWAIT of a user", true, false, true, 0, 0, 0, M_DATA, 0, EXC_UD },
	{ "MONITOR, absent, no quirk", false, true, false, NEVER_UD, 0, 0, M_DATA, 0, EXC_UD },
	{ "MWAIT, absent, no quirk", true, true, false, NEVER_UD, 0, 0, M_DATA, 0, EXC_UD },
	{ "MWAIT, offered, no quirk", true, true, false, NEVER_UD, OFFERED, 0, M_DATA, 0,
	  M_EVENT },
	{ "MWAIT, off by MSR", true, true, false, NEVER_UD | BY_MSR, OFFERED, 0, M_DATA, 0,
	  EXC_UD },
	{ "MWAIT, on by MSR", true, true, false, NEVER_UD | BY_MSR, 0, MISC_ENABLE_MWAIT, M_DATA,
	  0, M_EVENT },
	{ "MWAIT, the MSR does not count", true, true, false, NEVER_UD, 0, MISC_ENABLE_MWAIT,
	  M_DATA, 0, EXC_UD },
	{ "MONITOR, extension, AMD", false, true, false, 0, 0, 0, M_DATA, 1, EXC_GP },
	{ "MWAIT, extension, AMD", true, true, false, 0, 0, 0, M_DATA, 1, EXC_GP },
	{ "MONITOR, extension, Intel", false, false, false, 0, 0, 0, M_DATA, 1, M_EVENT },
	{ "MWAIT, upper half of RCX", true, true, false, 0, 0, 0, 0, 1ull << 32, M_EVENT },
	{ "MONITOR, not mapped, AMD", false, true, false, 0, 0, 0, 1ull << 40, 0, EXC_PF },
	{ "MONITOR, not canonical, AMD", false, true, false, 0, 0, 0, 1ull << 60, 0, EXC_GP },
	{ "MONITOR, not mapped, Intel", false, false, false, 0, 0, 0, 1ull << 40, 0, M_EVENT },
	{ "#UD before #GP", true, true, false, NEVER_UD, 0, 0, M_DATA, 1, EXC_UD },
};

static void instructions(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		u8 code[3] = { 0x0f, 0x01, rows[i].mwait ? 0xc9 : 0xc8 };
		int got;

		again();
		set_cpuid(rows[i].amd, rows[i].cpuid);
		v->disabled_quirks = rows[i].disabled;
		c->msr.misc_enable = rows[i].misc;
		machine_privilege(c, rows[i].user ? 3 : 0);
		c->gpr[R_RAX] = rows[i].rax;
		c->gpr[R_RCX] = rows[i].rcx;
		machine_code(&m, M_CODE, code, sizeof(code));
		got = machine_step(v);
		if (got != rows[i].want)
			fail_msg("%s: %d, not %d", rows[i].name, got, rows[i].want);
		if (got == M_EVENT && c->rip != M_CODE + 3)
			fail_msg("%s: rip", rows[i].name);
	}
}

static void misc_enable(void **state)
{
	u32 reg[4];

	(void)state;
	again();
	set_cpuid(false, OFFERED);
	cpuid_query(c, 1, 0, reg);
	assert_true(reg[2] & OFFERED);
	/* The quirk off: CPUID follows the MSR, which needs SSE3 to change. */
	v->disabled_quirks = BY_MSR;
	cpuid_query(c, 1, 0, reg);
	assert_false(reg[2] & OFFERED);
	assert_int_equal(cpu_msr_write(c, MSR_MISC_ENABLE, MISC_ENABLE_MWAIT | 1, true),
			 CPU_MSR_INVALID);
	set_cpuid(false, SSE3);
	assert_int_equal(cpu_msr_write(c, MSR_MISC_ENABLE, MISC_ENABLE_MWAIT | 1, false),
			 CPU_MSR_OK);
	cpuid_query(c, 1, 0, reg);
	assert_true(reg[2] & OFFERED);
	v->disabled_quirks = 0;
	cpuid_query(c, 1, 0, reg);
	assert_false(reg[2] & OFFERED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(instructions, setup, teardown),
		cmocka_unit_test_setup_teardown(misc_enable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
