/* SPDX-License-Identifier: MIT */
/*
 * Alignment checks: when they are on, what they ask of each operand, and that the
 * processor's own accesses are free of them.  Ordinary instructions are compared
 * with the host's processor in tests/diff, where RFLAGS.AC is set at random.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/flags.h"
#include "cpu/fp.h"
#include "unit/cpu/machine.h"

static struct machine m;

static struct cpu *reset(bool am, bool ac, unsigned cpl)
{
	struct cpu *c = &m.vcpu[0].c;

	machine_reset(&m.vcpu[0]);
	fp_reset(c);
	mmu_set_cr0(&c->mmu, c->mmu.cr0 | (am ? CR0_AM : 0));
	machine_privilege(c, cpl);
	cpu_set_rflags(c, RF_ONE | (ac ? RF_AC : 0));
	c->gpr[R_RBX] = M_DATA;
	return c;
}

/* One instruction.  Return: vector, or M_EVENT: executed. */
static int step(const u8 *code, unsigned n)
{
	machine_code(&m, M_CODE, code, n);
	return machine_step(&m.vcpu[0]);
}

/* All of CR0.AM, RFLAGS.AC and privilege 3 are needed. */
static void test_conditions(void **state)
{
	static const u8 load[] = { 0x8b, 0x03 }; /* MOV EAX, [RBX] */

	(void)state;
	for (unsigned k = 0; k < 8; k++)
		for (unsigned off = 0; off < 4; off++) {
			struct cpu *c = reset(k & 1, k & 2, k & 4 ? 3 : 0);
			bool fault = k == 7 && off;

			c->gpr[R_RBX] += off;
			if (step(load, 2) != (fault ? EXC_AC : M_EVENT))
				fail_msg("AM %d AC %d privilege %d offset %u", k & 1, k >> 1 & 1,
					 k & 4 ? 3 : 0, off);
			if (fault) {
				assert_int_equal(machine_frame(&m.vcpu[0], 0), 0);
				assert_int_equal(machine_frame(&m.vcpu[0], 1), M_CODE);
			}
		}
}

/* The switch is followed at once, also where a table entry exists already. */
static void test_switching(void **state)
{
	static const u8 load[] = { 0x8b, 0x03 };
	struct cpu *c = reset(true, false, 3);

	(void)state;
	c->gpr[R_RBX]++;
	for (unsigned k = 0; k < 6; k++) {
		cpu_set_rflags(c, RF_ONE | (k & 1 ? RF_AC : 0));
		c->rip = M_CODE;
		assert_int_equal(step(load, 2), k & 1 ? EXC_AC : M_EVENT);
		machine_privilege(c, 3);
	}
	/* POPF by the guest itself: the next instruction is checked. */
	static const u8 popf[] = { 0x9d, 0x8b, 0x03 };

	c = reset(true, false, 3);
	c->gpr[R_RBX]++;
	m_put64(&m, M_USTACK - 8, RF_ONE | RF_AC);
	c->gpr[R_RSP] -= 8;
	machine_code(&m, M_CODE, popf, 3);
	assert_int_equal(machine_run(&m.vcpu[0]), EXC_AC);
	assert_int_equal(machine_frame(&m.vcpu[0], 1), M_CODE + 1);
	assert_true(machine_frame(&m.vcpu[0], 3) & RF_AC);
}

/* The mask of address bits that must be clear, 0: never #AC; VECTOR: 15 on AMD's
 * processors, 0 on Intel's; -1: #GP for 16. */
#define VECTOR -2
static const struct {
	const char *name;
	int mask;
	u8 n, code[8];
} rows[] = {
	{ "MOV byte", 0, 2, { 0x8a, 0x03 } },
	{ "MOV word", 1, 3, { 0x66, 0x8b, 0x03 } },
	{ "MOV qword", 7, 3, { 0x48, 0x8b, 0x03 } },
	{ "MOV to memory", 3, 2, { 0x89, 0x03 } },
	{ "ADD to memory", 3, 2, { 0x01, 0x03 } },
	{ "LOCK ADD", 7, 4, { 0xf0, 0x48, 0x01, 0x03 } },
	{ "XCHG", 3, 2, { 0x87, 0x03 } },
	{ "CMPXCHG8B", 7, 3, { 0x0f, 0xc7, 0x0b } },
	{ "PUSH [mem]", 7, 2, { 0xff, 0x33 } },
	{ "CALL [mem]", 7, 2, { 0xff, 0x13 } },
	{ "BT", 3, 3, { 0x0f, 0xa3, 0x03 } },
	{ "MOVUPS", VECTOR, 3, { 0x0f, 0x10, 0x03 } },
	{ "MOVAPS", -1, 3, { 0x0f, 0x28, 0x03 } },
	{ "PADDB", -1, 4, { 0x66, 0x0f, 0xfc, 0x03 } },
	{ "MOVSD", 7, 4, { 0xf2, 0x0f, 0x10, 0x03 } },
	{ "FLD m80", 7, 2, { 0xdb, 0x2b } },
	{ "FLD m64", 7, 2, { 0xdd, 0x03 } },
	{ "FNSTENV", 3, 2, { 0xd9, 0x33 } },
	{ "FLDCW", 1, 2, { 0xd9, 0x2b } },
	{ "STMXCSR", 3, 3, { 0x0f, 0xae, 0x1b } },
	{ "PREFETCHT0", 0, 3, { 0x0f, 0x18, 0x0b } },
	{ "CLFLUSH", 0, 3, { 0x0f, 0xae, 0x3b } },
	{ "INVALID NOP", 0, 3, { 0x0f, 0x1f, 0x03 } },
	{ "LEA", 0, 2, { 0x8d, 0x03 } },
};

static void test_operands(void **state)
{
	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(rows); k++)
		for (unsigned off = 0; off < 2 * 17; off++) {
			struct cpu *c = reset(true, true, 3);
			bool amd = off & 1;
			unsigned at = off / 2;
			int want = M_EVENT, got;

			c->vendor = amd ? VENDOR_AMD : VENDOR_INTEL;
			c->mmu.amd = amd;
			int mask = rows[k].mask == VECTOR ? (amd ? 15 : 0) : rows[k].mask;

			if (mask < 0)
				want = at & 15 ? EXC_GP : M_EVENT;
			else if (at & (unsigned)mask)
				want = EXC_AC;
			memset(m.ram + M_DATA, 0, 64);
			m_put64(&m, M_DATA + at, M_CODE + 64);
			m.ram[M_DATA + at + 1] |= 0x03; /* FLDCW */
			c->gpr[R_RBX] += at;
			got = step(rows[k].code, rows[k].n);
			if (got != want)
				fail_msg("%s at %u, %s: %d, not %d", rows[k].name, at,
					 amd ? "AMD" : "Intel", got, want);
		}
}

static void test_stack(void **state)
{
	static const struct {
		const char *name;
		u8 n, code[4];
		bool fault;
	} t[] = {
		{ "PUSH", 1, { 0x50 }, true },
		{ "POP", 1, { 0x58 }, true },
		{ "CALL", 5, { 0xe8, 0, 0, 0 }, true },
		{ "RET", 1, { 0xc3 }, true },
		{ "PUSHF", 1, { 0x9c }, true },
		{ "LEAVE", 1, { 0xc9 }, true },
		{ "IRET", 2, { 0x48, 0xcf }, true },
		/* Delivery to privilege 0 is the processor's own. */
		{ "UD2", 2, { 0x0f, 0x0b }, false },
	};

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(t); k++) {
		struct cpu *c = reset(true, true, 3);
		int got;

		c->gpr[R_RSP] -= 63;
		c->gpr[R_RBP] = c->gpr[R_RSP];
		got = step(t[k].code, t[k].n);
		if (got != (t[k].fault ? EXC_AC : EXC_UD))
			fail_msg("%s: %d", t[k].name, got);
	}
}

/* Tables and stacks of the processor's own may stand anywhere. */
static void test_implicit(void **state)
{
	static const u8 ud2[] = { 0x0f, 0x0b };
	static const u8 load_fs[] = { 0x8e, 0xe0 };
	struct cpu *c = reset(true, true, 3);

	(void)state;
	memmove(m.ram + M_DATA + 0x801, m.ram + M_IDT, 0x100);
	c->idtr = (struct desc_table){ .base = M_DATA + 0x801, .limit = 0xff };
	assert_int_equal(step(ud2, 2), EXC_UD);
	assert_true(machine_frame(&m.vcpu[0], 2) & RF_AC);

	c = reset(true, true, 3);
	memmove(m.ram + M_DATA + 0x803, m.ram + M_GDT, 0x50);
	c->gdtr = (struct desc_table){ .base = M_DATA + 0x803, .limit = 0x4f };
	c->gpr[R_RAX] = M_DS3;
	assert_int_equal(step(load_fs, 2), M_EVENT);
	c->gdtr = (struct desc_table){ .base = M_GDT, .limit = 0x4f };
}

/* REP: elements one by one, those before the fault are done. */
static void test_strings(void **state)
{
	static const u8 stosd[] = { 0xf3, 0xab }, movsb[] = { 0xf3, 0xa4 };
	struct cpu *c = reset(true, true, 3);

	(void)state;
	c->gpr[R_RDI] = M_DATA + 0x100;
	c->gpr[R_RCX] = 8;
	c->gpr[R_RAX] = 0x5a5a5a5a;
	machine_code(&m, M_CODE, stosd, 2);
	m.ram[M_CODE + 2] = 0xf4; /* HLT: #GP at privilege 3 */
	assert_int_equal(machine_run(&m.vcpu[0]), EXC_GP);
	assert_int_equal(c->gpr[R_RCX], 0);
	assert_int_equal(m.ram[M_DATA + 0x11f], 0x5a);

	c = reset(true, true, 3);
	c->gpr[R_RDI] = M_DATA + 0x102;
	c->gpr[R_RCX] = 8;
	assert_int_equal(step(stosd, 2), EXC_AC);
	assert_int_equal(c->gpr[R_RCX], 8);

	c = reset(true, true, 3);
	c->gpr[R_RSI] = M_DATA + 1;
	c->gpr[R_RDI] = M_DATA + 0x203;
	c->gpr[R_RCX] = 77;
	machine_code(&m, M_CODE, movsb, 2);
	assert_int_equal(machine_run(&m.vcpu[0]), EXC_GP);
	assert_int_equal(c->gpr[R_RCX], 0);
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
		cmocka_unit_test(test_conditions), cmocka_unit_test(test_switching),
		cmocka_unit_test(test_operands),   cmocka_unit_test(test_stack),
		cmocka_unit_test(test_implicit),   cmocka_unit_test(test_strings),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
