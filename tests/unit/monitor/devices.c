/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake.h"

static u32 in(struct fake *f, u16 port, unsigned size)
{
	u32 v = 0;

	devices_io(&f->m, port, size, &v, false);
	return v;
}

static void out(struct fake *f, u16 port, unsigned size, u32 v)
{
	devices_io(&f->m, port, size, &v, true);
}

/* What ends the machine, and with which exit code; -1: it goes on. */
static void test_ends(void **state)
{
	static const struct {
		const char *name;
		u16 port;
		u8 size;
		u32 value;
		int code;
	} t[] = {
		{ "debug exit 0", 0xf4, 1, 0, 1 },
		{ "debug exit 21", 0xf4, 4, 21, 43 },
		{ "debug exit 0x80", 0xf4, 4, 0x80, 1 },
		{ "i8042 reset", 0x64, 1, 0xfe, 0 },
		{ "i8042 other command", 0x64, 1, 0x20, -1 },
		{ "reset control, hard", 0xcf9, 1, 6, 0 },
		{ "reset control, prepared", 0xcf9, 1, 2, -1 },
		{ "port 92 reset", 0x92, 1, 3, 0 },
		{ "port 92 A20", 0x92, 1, 2, -1 },
		{ "S5", 0x604, 2, 5 << 10 | 1 << 13, 0 },
		{ "S5 type without enable", 0x604, 2, 5 << 10, -1 },
		{ "another sleep type", 0x604, 2, 1 << 10 | 1 << 13, -1 },
		{ "delay port", 0x80, 1, 0xff, -1 },
		{ "unknown port", 0x1234, 4, 0xff, -1 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		struct fake *f = fake_new(4, 1);
		eventfd_t woken = 0;

		out(f, t[i].port, t[i].size, t[i].value);
		if (atomic_load(&f->m.exit_code) != t[i].code)
			fail_msg("%s: %d", t[i].name, atomic_load(&f->m.exit_code));
		assert_int_equal(eventfd_read(f->m.wake, &woken), t[i].code == -1 ? -1 : 0);
		fake_free(f);
	}
}

static void test_first_end_wins(void **state)
{
	struct fake *f = fake_new(4, 1);

	(void)state;
	machine_stop(&f->m, 43);
	machine_stop(&f->m, 0);
	assert_int_equal(atomic_load(&f->m.exit_code), 43);
	fake_free(f);
}

static u64 fw_cfg(struct fake *f, u16 key, unsigned n)
{
	u64 v = 0;

	out(f, 0x510, 2, key);
	for (unsigned i = 0; i < n; i++)
		v |= (u64)in(f, 0x511, 1) << (8 * i);
	return v;
}

static void test_fw_cfg(void **state)
{
	struct fake *f = fake_new(8, 3);

	(void)state;
	assert_int_equal(fw_cfg(f, 0, 4), 0x554d4551); /* QEMU */
	assert_int_equal(fw_cfg(f, 3, 8), 8 << 20);
	assert_int_equal(fw_cfg(f, 5, 2), 3);
	assert_int_equal(fw_cfg(f, 15, 2), 3);
	assert_int_equal(fw_cfg(f, 0x19, 4), 0); /* no files */
	assert_int_equal(fw_cfg(f, 3, 8), 8 << 20); /* selecting starts again */
	fake_free(f);
}

static void test_absent(void **state)
{
	static const struct {
		u16 port;
		u8 size;
		u32 value;
	} t[] = { { 0xcfc, 4, 0xffffffff }, { 0xcfe, 2, 0xffff }, { 0xcff, 1, 0xff },
		  { 0x2f8, 1, 0xff },	    { 0x1f7, 1, 0xff },	  { 0xcf9, 1, 0xff } };
	struct fake *f = fake_new(4, 1);
	u8 data[8];

	(void)state;
	out(f, 0xcf8, 4, 0x80000000);
	assert_int_equal(in(f, 0xcf8, 4), 0x80000000);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(in(f, t[i].port, t[i].size), t[i].value);
	devices_mmio(&f->m, 0xd0000000, 8, data, false);
	assert_true(*(u64 *)(void *)data == ~0ull);
	fake_free(f);
}

static void test_pc_testdev(void **state)
{
	struct fake *f = fake_new(4, 1);
	u8 a[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, b[8];

	(void)state;
	out(f, 0xe0, 4, 0x12345678);
	assert_int_equal(in(f, 0xe0, 4), 0x12345678);
	assert_int_equal(in(f, 0xe1, 1), 0x56);
	out(f, 0xe3, 1, 0xaa);
	assert_int_equal(in(f, 0xe2, 2), 0xaa34);
	out(f, 0xe3, 4, 0x55); /* reaches beyond the last byte */
	assert_int_equal(in(f, 0xe0, 4), 0x55345678);
	out(f, 0x2000 + 14, 1, 1);
	assert_true(fake_irq.irq == 14 && fake_irq.level == 1);
	out(f, 0x2000 + 14, 1, 0);
	assert_true(fake_irq.irq == 14 && fake_irq.level == 0);
	out(f, 0x2018, 1, 1);
	assert_int_equal(fake_irqs, 2);
	devices_mmio(&f->m, 0xff00fff8, 8, a, true);
	devices_mmio(&f->m, 0xff00fff8, 8, b, false);
	assert_memory_equal(a, b, 8);
	devices_mmio(&f->m, 0xff00fffc, 8, a, true); /* half of it outside: nothing */
	devices_mmio(&f->m, 0xff00fff8, 8, b, false);
	assert_memory_equal(a, b, 8);
	fake_free(f);
}

static void test_clocks(void **state)
{
	struct fake *f = fake_new(4, 5);
	u32 a, b;

	(void)state;
	a = in(f, 0x608, 4);
	usleep(20000);
	b = in(f, 0x608, 4) - a; /* 3.579545 MHz */
	assert_in_range(b, 71590, 7159090);
	out(f, 0x70, 1, 0x8a); /* bit 7 masks NMI */
	assert_int_equal(in(f, 0x71, 1), 0x26);
	out(f, 0x70, 1, 0x32);
	assert_in_range(in(f, 0x71, 1), 0x20, 0x21); /* century */
	out(f, 0x70, 1, 0x5f);
	assert_int_equal(in(f, 0x71, 1), 4);
	fake_free(f);
}

static void test_pm1(void **state)
{
	struct fake *f = fake_new(4, 1);

	(void)state;
	assert_int_equal(in(f, 0x600, 2), 0);
	out(f, 0x602, 2, 0x120);
	assert_int_equal(in(f, 0x602, 2), 0x120);
	assert_int_equal(in(f, 0x600, 4), 0x1200000);
	assert_int_equal(in(f, 0x604, 2) & 1, 1); /* SCI_EN */
	fake_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),	   cmocka_unit_test(test_first_end_wins),
		cmocka_unit_test(test_fw_cfg),	   cmocka_unit_test(test_absent),
		cmocka_unit_test(test_pc_testdev), cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_pm1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
