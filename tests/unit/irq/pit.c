/* SPDX-License-Identifier: MIT */
/* The 8254: bytes, counts, outputs, and channel 0's interrupts. */
#include "unit/irq/fake.h"

#include "irq/pit_count.h"

static struct fake *f;

static void out(u16 port, u8 value)
{
	pit_write(&f->chip, port, value);
}

static u8 in(u16 port)
{
	return pit_read(&f->chip, port);
}

static void program(unsigned n, unsigned mode, u16 count)
{
	out(0x43, (u8)(n << 6 | 0x30 | mode << 1));
	out((u16)(0x40 + n), (u8)count);
	out((u16)(0x40 + n), (u8)(count >> 8));
}

static u16 count(unsigned n)
{
	u16 low;

	out(0x43, (u8)(n << 6)); /* latch */
	low = in((u16)(0x40 + n));
	return (u16)(low | in((u16)(0x40 + n)) << 8);
}

/* The clock at the first nanosecond of tick @n since @start. */
static void at_tick(u64 start, u64 n)
{
	f->now = start + pit_ticks_to_ns(n);
}

static bool out2(void)
{
	return in(0x61) & 0x20;
}

static int setup(void **state)
{
	(void)state;
	f = fake_create(IRQCHIP_KERNEL, 1);
	assert_int_equal(irqchip_create_pit(&f->chip, KVM_PIT_SPEAKER_DUMMY), 0);
	/* PIC: vectors at 0x20; IOAPIC stays masked. */
	pic_write(&f->chip, 0x20, 0x11);
	pic_write(&f->chip, 0x21, 0x20);
	pic_write(&f->chip, 0x21, 0x04);
	pic_write(&f->chip, 0x21, 0x01);
	wr(f->v[0].l, APIC_LVT0, APIC_MODE_EXTINT << 8);
	out(0x61, 0x01); /* gate of channel 2 */
	fake_forget(f);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_destroy(f);
	return 0;
}

static void test_ports(void **state)
{
	(void)state;
	for (u16 port = 0x40; port < 0x44; port++)
		assert_true(pit_owns_port(&f->chip, port));
	assert_true(pit_owns_port(&f->chip, 0x61));
	assert_false(pit_owns_port(&f->chip, 0x44));
	assert_false(pit_owns_port(&f->chip, 0x3f));
	assert_int_equal(in(0x43), 0xff);
	assert_true(irqchip_create_pit(&f->chip, 0) < 0); /* EEXIST */
	struct fake *g = fake_create(IRQCHIP_KERNEL, 0);

	assert_false(pit_owns_port(&g->chip, 0x40));
	assert_int_equal(irqchip_create_pit(&g->chip, 0), 0);
	assert_true(pit_owns_port(&g->chip, 0x40));
	assert_false(pit_owns_port(&g->chip, 0x61));
	fake_destroy(g);
	g = fake_create(IRQCHIP_SPLIT, 0);
	assert_true(irqchip_create_pit(&g->chip, 0) < 0); /* ENOENT */
	fake_destroy(g);
}

static void test_counts(void **state)
{
	static const struct {
		const char *name;
		unsigned mode;
		u16 loaded;
		u64 tick;
		u16 want;
	} cases[] = {
		{"mode 0 at load", 0, 1000, 0, 1000},
		{"mode 0 counts", 0, 1000, 300, 700},
		{"mode 0 at zero", 0, 1000, 1000, 0},
		{"mode 0 wraps", 0, 1000, 1001, 0xffff},
		{"0 is 65536", 0, 0, 1, 0xffff},
		{"mode 2 counts", 2, 1000, 999, 1},
		{"mode 2 reloads", 2, 1000, 1000, 1000},
		{"mode 2 later", 2, 1000, 123456, 544},
		{"mode 3 by two", 3, 1000, 1, 998},
		{"mode 3 last of the high half", 3, 1000, 499, 2},
		{"mode 3 low half", 3, 1000, 500, 1000},
		{"mode 3 odd: starts one lower", 3, 7, 0, 6},
		{"mode 3 odd: high half", 3, 7, 3, 0},
		{"mode 3 odd: low half", 3, 7, 4, 6},
		{"mode 3 odd: end", 3, 7, 6, 2},
		{"mode 3 odd: reloads", 3, 7, 7, 6},
		{"mode 4", 4, 10, 4, 6},
		{"mode 4 wraps", 4, 10, 12, 0xfffe},
		{"mode 6 is 2", 6, 100, 150, 50},
		{"mode 7 is 3", 7, 100, 1, 98},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		u64 start = f->now;

		program(2, cases[i].mode, cases[i].loaded);
		at_tick(start, cases[i].tick);
		if (count(2) != cases[i].want)
			fail_msg("%s: %u", cases[i].name, count(2));
	}
}

static void test_outputs(void **state)
{
	static const struct {
		const char *name;
		unsigned mode;
		u64 tick;
		bool want;
	} cases[] = {
		{"mode 0 low", 0, 99, 0},	 {"mode 0 high", 0, 100, 1},
		{"mode 0 stays", 0, 100000, 1},	 {"mode 2 high", 2, 98, 1},
		{"mode 2 low", 2, 99, 0},	 {"mode 2 again", 2, 100, 1},
		{"mode 2 low again", 2, 199, 0}, {"mode 3 high", 3, 49, 1},
		{"mode 3 low", 3, 50, 0},	 {"mode 3 again", 3, 100, 1},
		{"mode 4 high", 4, 99, 1},	 {"mode 4 strobe", 4, 100, 0},
		{"mode 4 after", 4, 101, 1},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		u64 start = f->now;

		program(2, cases[i].mode, 100);
		at_tick(start, cases[i].tick);
		if (out2() != cases[i].want)
			fail_msg("%s", cases[i].name);
	}
	/* Mode 3, odd count: the high half is one tick longer. */
	u64 start = f->now;

	program(2, 3, 7);
	for (u64 tick = 0; tick < 14; tick++) {
		at_tick(start, tick);
		assert_int_equal(out2(), tick % 7 < 4);
	}
	out(0x43, 0xb0); /* the control word alone sets OUT */
	assert_false(out2());
	out(0x43, 0xb4);
	assert_true(out2());
}

static void test_gate(void **state)
{
	u64 start = f->now;

	(void)state;
	/* Mode 0: a low gate stops the count, a high one goes on. */
	program(2, 0, 1000);
	at_tick(start, 100);
	out(0x61, 0);
	f->now += NS_MS;
	assert_int_equal(count(2), 900);
	assert_false(in(0x61) & 1);
	start = f->now;
	out(0x61, 1);
	at_tick(start, 200);
	assert_int_equal(count(2), 700);
	/* Mode 2: a low gate forces OUT high, a rising one reloads. */
	program(2, 2, 1000);
	out(0x61, 0);
	f->now += pit_ticks_to_ns(999);
	assert_true(out2());
	start = f->now;
	out(0x61, 1);
	assert_int_equal(count(2), 1000);
	at_tick(start, 10);
	assert_int_equal(count(2), 990);
	/* Loaded with the gate low: starts with the gate. */
	out(0x61, 0);
	program(2, 0, 500);
	f->now += NS_MS;
	assert_int_equal(count(2), 500);
	start = f->now;
	out(0x61, 1);
	at_tick(start, 500);
	assert_true(out2());
}

static void test_triggered_modes(void **state)
{
	u64 start;

	(void)state;
	/* Mode 1: OUT goes low with the gate, for the count. */
	out(0x61, 0);
	program(2, 1, 100);
	f->now += NS_MS;
	assert_true(out2());
	start = f->now;
	out(0x61, 1);
	assert_false(out2());
	at_tick(start, 50);
	out(0x61, 0); /* a falling gate does nothing */
	assert_false(out2());
	assert_int_equal(count(2), 50);
	start = f->now;
	out(0x61, 1); /* a rising one starts anew */
	at_tick(start, 99);
	assert_false(out2());
	at_tick(start, 100);
	assert_true(out2());
	/* Mode 5: one tick low after the count. */
	out(0x61, 0);
	program(2, 5, 100);
	start = f->now;
	out(0x61, 1);
	at_tick(start, 99);
	assert_true(out2());
	at_tick(start, 100);
	assert_false(out2());
	at_tick(start, 101);
	assert_true(out2());
}

static void test_byte_orders(void **state)
{
	u64 start = f->now;

	(void)state;
	out(0x43, 0x90); /* channel 2, low byte only, mode 0 */
	out(0x42, 0x80);
	assert_int_equal(in(0x42), 0x80);
	out(0x43, 0xa0); /* high byte only */
	out(0x42, 0x12);
	assert_int_equal(in(0x42), 0x12);
	program(2, 0, 0x1234);
	start = f->now;
	assert_int_equal(in(0x42), 0x34);
	assert_int_equal(in(0x42), 0x12);
	/* A latched count does not move, and is latched once. */
	out(0x43, 0x80);
	at_tick(start, 0x234);
	out(0x43, 0x80);
	assert_int_equal(in(0x42), 0x34);
	assert_int_equal(in(0x42), 0x12);
	assert_int_equal(in(0x42), 0x00);
	assert_int_equal(in(0x42), 0x10);
}

static void test_read_back(void **state)
{
	u64 start = f->now;

	(void)state;
	program(0, 2, 1000);
	program(2, 3, 2000);
	at_tick(start, 10);
	out(0x43, 0xc0 | 0x0a); /* count and status of channels 0 and 2 */
	at_tick(start, 500);
	assert_int_equal(in(0x40), 0xb4); /* OUT, word access, mode 2 */
	assert_int_equal(in(0x40) | in(0x40) << 8, 990);
	assert_int_equal(in(0x42), 0xb6);
	assert_int_equal(in(0x42) | in(0x42) << 8, 1980);
	out(0x43, 0x76); /* channel 1: control word, nothing loaded */
	out(0x43, 0xe4);
	assert_int_equal(in(0x41), 0xf6); /* null count */
	out(0x43, 0xb0);
	out(0x43, 0xe8);
	assert_int_equal(in(0x42), 0x70); /* mode 0: OUT low */
}

static void test_bcd(void **state)
{
	u64 start = f->now;

	(void)state;
	out(0x43, 0xb5); /* channel 2, mode 2, BCD */
	out(0x42, 0x00);
	out(0x42, 0x10); /* 1000 */
	at_tick(start, 1);
	assert_int_equal(count(2), 0x0999);
	at_tick(start, 1000);
	assert_int_equal(count(2), 0x1000);
	start = f->now;
	out(0x43, 0xb1); /* mode 0, BCD, 0 = 10000 */
	out(0x42, 0);
	out(0x42, 0);
	assert_int_equal(count(2), 0);
	at_tick(start, 1);
	assert_int_equal(count(2), 0x9999);
	at_tick(start, 10001);
	assert_int_equal(count(2), 0x9999);
	assert_true(out2());
}

static void test_port_61(void **state)
{
	u8 first;

	(void)state;
	out(0x61, 0x03);
	assert_int_equal(in(0x61) & 3, 3);
	out(0x61, 0x02);
	assert_int_equal(in(0x61) & 3, 2);
	out(0x61, 0xfd);
	assert_int_equal(in(0x61) & 3, 1);
	first = in(0x61) & 0x10;
	f->now += 1 << 14;
	assert_int_equal(in(0x61) & 0x10, first ^ 0x10); /* refresh toggles */
}

/* --- interrupts ------------------------------------------------------------- */

static void run(void)
{
	irqchip_timer_run(&f->chip, f->now);
}

static bool tick_waits(void)
{
	return irqchip_has_extint(&f->chip, f->v[0].l);
}

static void serve(void)
{
	assert_int_equal(irqchip_ack_extint(&f->chip), 0x20);
	pic_write(&f->chip, 0x20, 0x20);
}

static void test_periodic(void **state)
{
	u64 start = f->now, period = pit_ticks_to_ns(11932);

	(void)state;
	program(0, 2, 11932);
	assert_true(f->timer_changes > 0);
	assert_true(irqchip_timer_next_ns(&f->chip) == start + period);
	f->now = start + period - 1;
	run();
	assert_false(tick_waits());
	for (unsigned i = 1; i <= 5; i++) {
		f->now = start + i * period;
		run();
		assert_true(tick_waits());
		serve();
		assert_false(tick_waits());
		assert_true(irqchip_timer_next_ns(&f->chip) == start + (i + 1) * period);
	}
}

static void test_one_shots(void **state)
{
	static const unsigned modes[] = {0, 1, 4};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(modes); i++) {
		program(0, modes[i], 1000);
		f->now += pit_ticks_to_ns(1000);
		run();
		assert_true(tick_waits());
		serve();
		assert_true(irqchip_timer_next_ns(&f->chip) == ~0ull);
		f->now += NS_MS * 100;
		run();
		assert_false(tick_waits());
	}
	program(0, 5, 1000);
	assert_true(irqchip_timer_next_ns(&f->chip) == ~0ull);
}

static void test_control_word_stops(void **state)
{
	(void)state;
	program(0, 2, 1000);
	out(0x43, 0x30);
	assert_true(irqchip_timer_next_ns(&f->chip) == ~0ull);
}

static void test_fast_periods_are_raised(void **state)
{
	u64 start = f->now;

	(void)state;
	program(0, 2, 20);
	f->now = irqchip_timer_next_ns(&f->chip);
	run();
	assert_true(irqchip_timer_next_ns(&f->chip) >= f->now + 200000);
	(void)start;
}

static unsigned served_now(void)
{
	unsigned n = 0;

	while (tick_waits()) {
		serve();
		n++;
	}
	return n;
}

static void test_reinjection(void **state)
{
	u64 start = f->now, period = pit_ticks_to_ns(11932);

	(void)state;
	program(0, 2, 11932);
	/* The guest does not look for five periods: five ticks, one by one. */
	for (unsigned i = 1; i <= 5; i++) {
		f->now = start + i * period;
		run();
	}
	assert_int_equal(served_now(), 5);
	/* Likewise if nobody called run(). */
	f->now = start + 9 * period;
	run();
	assert_int_equal(served_now(), 4);
	f->now = start + 10 * period;
	run();
	assert_int_equal(served_now(), 1);
}

static void test_no_reinjection(void **state)
{
	u64 start = f->now, period = pit_ticks_to_ns(11932);

	(void)state;
	pit_set_reinject(&f->chip, false);
	program(0, 2, 11932);
	f->now = start + 5 * period;
	run();
	assert_int_equal(served_now(), 1);
	f->now = start + 6 * period;
	run();
	assert_int_equal(served_now(), 1);
}

static void test_unmasking_forgets_the_backlog(void **state)
{
	u64 start = f->now, period = pit_ticks_to_ns(11932);

	(void)state;
	pic_write(&f->chip, 0x21, 0x01);
	program(0, 2, 11932);
	for (unsigned i = 1; i <= 50; i++) {
		f->now = start + i * period;
		run();
	}
	pic_write(&f->chip, 0x21, 0x00);
	assert_int_equal(served_now(), 1); /* what the PIC has latched */
	f->now = start + 51 * period;
	run();
	assert_int_equal(served_now(), 1);
}

static void test_through_the_ioapic(void **state)
{
	u64 start = f->now, period = pit_ticks_to_ns(11932);
	u32 reg = 0x10, entry = 0x50;

	(void)state;
	pic_write(&f->chip, 0x21, 0xff);
	ioapic_mmio_write(&f->chip, IOAPIC_REGSEL, &reg, 4);
	ioapic_mmio_write(&f->chip, IOAPIC_WINDOW, &entry, 4);
	program(0, 2, 11932);
	f->now = start + 3 * period;
	run();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(fake_take(f->v[0].l), 0x50);
		assert_int_equal(fake_take(f->v[0].l), -1);
		lapic_eoi(f->v[0].l);
	}
	assert_int_equal(fake_take(f->v[0].l), -1);
}

static void test_nmi_watchdog(void **state)
{
	(void)state;
	wr(f->v[0].l, APIC_LVT0, APIC_MODE_NMI << 8);
	program(0, 2, 11932);
	f->now += pit_ticks_to_ns(11932);
	run();
	assert_int_equal(f->v[0].asked[IRQ_REQ_NMI], 1);
}

static void test_state(void **state)
{
	struct kvm_pit_state2 s, t;
	u64 start = f->now;

	(void)state;
	pit_get_state(&f->chip, &s);
	assert_int_equal(s.channels[0].mode, 0xff);
	assert_int_equal(s.channels[0].gate, 1);
	assert_int_equal(s.channels[2].gate, 1);
	program(0, 2, 11932);
	program(2, 3, 500);
	out(0x61, 0x03);
	pit_get_state(&f->chip, &s);
	assert_int_equal(s.channels[0].count, 11932);
	assert_int_equal(s.channels[0].mode, 2);
	assert_int_equal(s.channels[0].rw_mode, 3);
	assert_int_equal(s.flags, KVM_PIT_FLAGS_SPEAKER_DATA_ON);
	f->now += 77 * NS_MS;
	start = f->now;
	assert_int_equal(pit_set_state(&f->chip, &s), 0);
	assert_true(irqchip_timer_next_ns(&f->chip) == start + pit_ticks_to_ns(11932));
	at_tick(start, 100);
	assert_int_equal(count(0), 11832);
	s.flags |= KVM_PIT_FLAGS_HPET_LEGACY;
	assert_int_equal(pit_set_state(&f->chip, &s), 0);
	assert_true(irqchip_timer_next_ns(&f->chip) == ~0ull);
	t = s;
	s.channels[1].count = 65537;
	assert_true(pit_set_state(&f->chip, &s) < 0);
	memset(&t, 0xff, sizeof(t));
	for (unsigned n = 0; n < 3; n++)
		t.channels[n].count = 65536;
	assert_int_equal(pit_set_state(&f->chip, &t), 0);
	for (u16 port = 0x40; port < 0x43; port++)
		(void)in(port);
	(void)in(0x61);
	out(0x43, 0xc0);
	out(0x43, 0xce);
	memset(&t, 0, sizeof(t));
	assert_int_equal(pit_set_state(&f->chip, &t), 0);
	f->now += NS_MS * 1000;
	for (u16 port = 0x40; port < 0x43; port++)
		(void)in(port);
	run();
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_ports),
		T(test_counts),
		T(test_outputs),
		T(test_gate),
		T(test_triggered_modes),
		T(test_byte_orders),
		T(test_read_back),
		T(test_bcd),
		T(test_port_61),
		T(test_periodic),
		T(test_one_shots),
		T(test_control_word_stops),
		T(test_fast_periods_are_raised),
		T(test_reinjection),
		T(test_no_reinjection),
		T(test_unmasking_forgets_the_backlog),
		T(test_through_the_ioapic),
		T(test_nmi_watchdog),
		T(test_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
