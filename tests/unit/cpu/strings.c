/* SPDX-License-Identifier: MIT */
/* String instructions against a byte-by-byte model, and their restart rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cpu/machine.h"

static struct machine m;
static struct machine_vcpu *v;

static int setup(void **state)
{
	(void)state;
	if (!machine_init(&m, 1))
		return -1;
	v = &m.vcpu[0];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	machine_fini(&m);
	return 0;
}

static void load(const u8 *code, unsigned n)
{
	machine_code(&m, M_CODE, code, n);
	machine_reset(v);
	v->refuse_io = false;
}

#define LOAD(...)                                                                \
	do {                                                                     \
		static const u8 code_[] = { __VA_ARGS__ };                       \
		load(code_, sizeof(code_));                                      \
	} while (0)

static void fill(u8 *p, unsigned n)
{
	u32 x = 12345;

	for (unsigned i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = (u8)(x >> 24);
	}
}

/* REP MOVS of every size, direction and overlap, across page ends. */
static void test_movs_model(void **state)
{
	static const s64 distance[] = { -9, -8, -3, -1, 0, 1, 2, 3, 5, 8, 13, 4096, 5000 };
	static u8 model[0x8000];

	(void)state;
	for (unsigned size = 1; size <= 8; size *= 2)
		for (unsigned down = 0; down < 2; down++)
			for (unsigned d = 0; d < ARRAY_SIZE(distance); d++) {
				u8 code[4] = { 0xf3, size == 8 ? 0x48 : size == 2 ? 0x66 : 0x90,
					       size == 1 ? 0xa4 : 0xa5, 0xf4 };
				unsigned count = 5000 / size;
				u64 src = 0x1ffd + (down ? 5000 : 0), dst = src + (u64)distance[d];

				if (size == 1 || size == 4) {
					code[1] = code[2];
					code[2] = 0xf4;
				}
				if (size == 2) {
					code[0] = 0x66;
					code[1] = 0xf3;
				}
				load(code, 4);
				fill(m.ram + M_DATA, sizeof(model));
				memcpy(model, m.ram + M_DATA, sizeof(model));
				for (unsigned k = 0; k < count; k++) {
					u64 off = down ? 0 - (u64)k * size : (u64)k * size;
					u8 tmp[8];

					memcpy(tmp, model + src + off, size);
					memcpy(model + dst + off, tmp, size);
				}
				v->c.gpr[R_RSI] = M_DATA + src;
				v->c.gpr[R_RDI] = M_DATA + dst;
				v->c.gpr[R_RCX] = count;
				if (down)
					v->c.rflags |= RF_DF;
				assert_int_equal(machine_run(v), M_HALT);
				if (memcmp(model, m.ram + M_DATA, sizeof(model)))
					fail_msg("size %u down %u distance %lld", size, down,
						 (long long)distance[d]);
				assert_int_equal(v->c.gpr[R_RCX], 0);
				assert_int_equal(v->c.gpr[R_RSI],
						 M_DATA + src + (down ? 0 - (u64)count * size :
									(u64)count * size));
			}
}

/* A fault in the middle: whole iterations are done, registers point at the rest. */
static void test_fault_in_the_middle(void **state)
{
	(void)state;
	LOAD(0xf3, 0x48, 0xab, 0xf4);
	*machine_pte(&m, M_DATA + 0x2000) = 0;
	mmu_flush_guest(&v->c.mmu);
	v->c.gpr[R_RAX] = 0x1111;
	v->c.gpr[R_RDI] = M_DATA + 0x1000 + 4;
	v->c.gpr[R_RCX] = 1000;
	assert_int_equal(machine_run(v), EXC_PF);
	assert_int_equal(machine_frame(v, 0), PF_W);
	assert_int_equal(machine_frame(v, 1), M_CODE);
	assert_int_equal(v->c.cr2, M_DATA + 0x2000);
	assert_int_equal(v->c.gpr[R_RCX], 1000 - 511);
	assert_int_equal(v->c.gpr[R_RDI], M_DATA + 0x1000 + 4 + 511 * 8);
	*machine_pte(&m, M_DATA + 0x2000) = (M_DATA + 0x2000) | 7;
	mmu_flush_guest(&v->c.mmu);
}

/* A count of zero touches nothing, not even the upper halves with 67. */
static void test_count_zero(void **state)
{
	(void)state;
	for (unsigned vendor = VENDOR_INTEL; vendor <= VENDOR_AMD; vendor++) {
		u64 kept = vendor == VENDOR_AMD ? ~0ull : 0xffffffff;

		LOAD(0x67, 0xf3, 0xa4, 0xf4);
		v->c.vendor = (u8)vendor;
		v->c.gpr[R_RSI] = v->c.gpr[R_RDI] = 0xdeadbeef40000000;
		v->c.gpr[R_RCX] = 0x1234567800000000;
		assert_int_equal(machine_run(v), M_HALT);
		assert_int_equal(v->c.gpr[R_RCX], 0x1234567800000000 & kept);
		assert_int_equal(v->c.gpr[R_RSI], 0xdeadbeef40000000 & kept);
	}
}

static void test_address_size_32(void **state)
{
	(void)state;
	LOAD(0x67, 0xf3, 0xa4, 0xf4);
	m.ram[M_DATA] = 0x5a;
	v->c.gpr[R_RSI] = 0xdeadbeef00000000 | M_DATA;
	v->c.gpr[R_RDI] = 0xdeadbeef00000000 | (M_DATA + 8);
	v->c.gpr[R_RCX] = 0x1234567800000001;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(m.ram[M_DATA + 8], 0x5a);
	assert_int_equal(v->c.gpr[R_RCX], 0);
	assert_int_equal(v->c.gpr[R_RSI], M_DATA + 1);
}

static void test_compare_and_scan(void **state)
{
	(void)state;
	/* REPE CMPSB stops after the first difference. */
	LOAD(0xf3, 0xa6, 0xf4);
	memset(m.ram + M_DATA, 7, 0x4000);
	m.ram[M_DATA + 0x1234] = 8;
	v->c.gpr[R_RSI] = M_DATA;
	v->c.gpr[R_RDI] = M_DATA + 0x2000;
	v->c.gpr[R_RCX] = 0x2000;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RSI], M_DATA + 0x1235);
	assert_int_equal(v->c.gpr[R_RCX], 0x2000 - 0x1235);
	assert_int_equal(v->c.aflags & (RF_ZF | RF_CF), 0); /* 8 - 7 */
	/* REPNE SCASW. */
	LOAD(0x66, 0xf2, 0xaf, 0xf4);
	memset(m.ram + M_DATA, 0, 0x4000);
	m.ram[M_DATA + 0x1501] = 0x99;
	v->c.gpr[R_RAX] = 0x9900;
	v->c.gpr[R_RDI] = M_DATA;
	v->c.gpr[R_RCX] = ~0ull;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RDI], M_DATA + 0x1502);
	assert_int_equal(v->c.aflags & RF_ZF, RF_ZF);
	/* REPE SCASB of equal bytes runs to the end, going down. */
	LOAD(0xf3, 0xae, 0xf4);
	memset(m.ram + M_DATA, 3, 0x3000);
	v->c.rflags |= RF_DF;
	v->c.gpr[R_RAX] = 3;
	v->c.gpr[R_RDI] = M_DATA + 0x2fff;
	v->c.gpr[R_RCX] = 0x3000;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RDI], M_DATA - 1);
	assert_int_equal(v->c.gpr[R_RCX], 0);
	/* REP LODSD: the last element. */
	LOAD(0xf3, 0xad, 0xf4);
	for (u32 i = 0; i < 2000; i++)
		memcpy(m.ram + M_DATA + 4 * i, &i, 4);
	v->c.gpr[R_RSI] = M_DATA;
	v->c.gpr[R_RAX] = ~0ull;
	v->c.gpr[R_RCX] = 1500;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RAX], 1499);
}

/* Attention stops a long REP within a page, at a whole iteration. */
static void test_interruptible(void **state)
{
	(void)state;
	LOAD(0xf3, 0xaa, 0xf4);
	v->c.gpr[R_RDI] = 0x400000;
	v->c.gpr[R_RCX] = 0x100000;
	atomic_fetch_or(&v->c.attn, ATTN_EXIT);
	assert_int_equal(machine_run(v), M_EVENT);
	assert_int_equal(v->c.gpr[R_RCX], 0x100000);
	/* By hand past the boundary that looked at it: one step is done. */
	assert_int_equal(machine_step(v), M_EVENT);
	atomic_fetch_and(&v->c.attn, ~ATTN_EXIT);
	assert_int_equal(v->c.rip, M_CODE);
	assert_in_range(v->c.gpr[R_RCX], 0x100000 - 0x1000, 0x100000 - 1);
	assert_int_equal(v->c.gpr[R_RDI], 0x400000 + 0x100000 - v->c.gpr[R_RCX]);
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RDI], 0x500000);
}

static void test_port_strings(void **state)
{
	(void)state;
	LOAD(0xf3, 0x6d, 0xf4); /* rep insl */
	v->c.gpr[R_RDX] = 0x1f0;
	v->c.gpr[R_RDI] = M_DATA + 0xffe;
	v->c.gpr[R_RCX] = 300;
	v->port_data = 0xa1b2c3d4;
	v->pio_calls = v->commits = 0;
	assert_int_equal(machine_run(v), M_HALT);
	for (unsigned i = 0; i < 300; i++)
		assert_memory_equal(m.ram + M_DATA + 0xffe + 4 * i, "\xd4\xc3\xb2\xa1", 4);
	assert_true(v->pio_calls < 10);
	assert_int_equal(v->commits, v->pio_calls);
	/* INS that cannot store does not read the port. */
	LOAD(0x6c, 0xf4);
	v->c.gpr[R_RDI] = 0x40000000;
	v->pio_calls = 0;
	assert_int_equal(machine_run(v), EXC_PF);
	assert_int_equal(v->pio_calls, 0);
	/* OUTSB refused: nothing moved; then done. */
	LOAD(0xf3, 0x6e, 0xf4);
	m.ram[M_DATA] = 0x77;
	v->c.gpr[R_RSI] = M_DATA;
	v->c.gpr[R_RCX] = 1;
	v->refuse_io = true;
	assert_int_equal(machine_run(v), M_IO);
	assert_int_equal(v->c.gpr[R_RCX], 1);
	v->refuse_io = false;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->port_data & 0xff, 0x77);
	assert_int_equal(v->c.gpr[R_RCX], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_movs_model),
		cmocka_unit_test(test_fault_in_the_middle),
		cmocka_unit_test(test_count_zero),
		cmocka_unit_test(test_address_size_32),
		cmocka_unit_test(test_compare_and_scan),
		cmocka_unit_test(test_interruptible),
		cmocka_unit_test(test_port_strings),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
