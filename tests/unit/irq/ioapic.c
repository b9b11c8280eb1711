/* SPDX-License-Identifier: MIT */
/* The cases of kvm-unit-tests' ioapic test and what lies beside them. */
#include "unit/irq/fake.h"

#define PIN 14
#define VEC 0x76

static struct fake *f;

static u32 io_read(unsigned reg)
{
	u32 value = reg;

	ioapic_mmio_write(&f->chip, IOAPIC_REGSEL, &value, 4);
	ioapic_mmio_read(&f->chip, IOAPIC_WINDOW, &value, 4);
	return value;
}

static void io_write(unsigned reg, u32 value)
{
	u32 sel = reg;

	ioapic_mmio_write(&f->chip, IOAPIC_REGSEL, &sel, 4);
	ioapic_mmio_write(&f->chip, IOAPIC_WINDOW, &value, 4);
}

static void redir(unsigned pin, u64 entry)
{
	io_write(0x11 + 2 * pin, (u32)(entry >> 32));
	io_write(0x10 + 2 * pin, (u32)entry);
}

static int line(unsigned gsi, int level)
{
	return irqchip_set_gsi(&f->chip, IRQ_SOURCE_CLIENT, gsi, level, false);
}

static bool remote_irr(unsigned pin)
{
	return io_read(0x10 + 2 * pin) & REDIR_REMOTE_IRR;
}

static int take(unsigned cpu)
{
	return fake_take(f->v[cpu].l);
}

static void eoi(unsigned cpu)
{
	wr(f->v[cpu].l, APIC_EOI, 0);
}

static int setup(void **state)
{
	(void)state;
	f = fake_create(IRQCHIP_KERNEL, 4);
	/* The PIC out of the way. */
	pic_write(&f->chip, 0x21, 0xff);
	pic_write(&f->chip, 0xa1, 0xff);
	fake_forget(f);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_destroy(f);
	return 0;
}

static void test_registers(void **state)
{
	(void)state;
	assert_int_equal(io_read(0), 0);
	assert_int_equal(io_read(1), 0x00170011);
	for (unsigned pin = 0; pin < 24; pin++) {
		assert_int_equal(io_read(0x10 + 2 * pin), 0x10000);
		assert_int_equal(io_read(0x11 + 2 * pin), 0);
	}
	io_write(0, 0xffffffff);
	assert_int_equal(io_read(0), 0x0f000000);
	assert_int_equal(io_read(2), 0x0f000000);
	io_write(1, 0);
	assert_int_equal(io_read(1), 0x00170011);
	io_write(0x10, 0xffffffff);
	assert_int_equal(io_read(0x10), 0x1afff); /* not status, not remote IRR */
	io_write(0x11, 0xffffffff);
	assert_int_equal(io_read(0x11), 0xff000000);
	assert_int_equal(io_read(0x40), 0xffffffff); /* beyond the last pin */
	assert_int_equal(io_read(0x03), 0xffffffff);
	io_write(0x40, 0);
}

static void test_access_sizes(void **state)
{
	u64 value = 0x1ffffff01ull;
	u8 byte = 0x01;

	(void)state;
	ioapic_mmio_write(&f->chip, IOAPIC_REGSEL, &value, 8);
	ioapic_mmio_read(&f->chip, IOAPIC_REGSEL, &value, 8);
	assert_true(value == 1);
	ioapic_mmio_write(&f->chip, IOAPIC_REGSEL, &byte, 1);
	ioapic_mmio_read(&f->chip, IOAPIC_WINDOW, &byte, 1);
	assert_int_equal(byte, 0x11);
	ioapic_mmio_read(&f->chip, 0x20, &value, 8);
	assert_true(value == 0);
	assert_true(ioapic_hits(&f->chip.ioapic, 0xfec00000));
	assert_true(ioapic_hits(&f->chip.ioapic, 0xfec000ff));
	assert_false(ioapic_hits(&f->chip.ioapic, 0xfec00100));
	assert_false(ioapic_hits(&f->chip.ioapic, 0xfebfffff));
}

static void test_edge(void **state)
{
	(void)state;
	redir(PIN, VEC);
	assert_int_equal(line(PIN, 1), 1);
	assert_int_equal(line(PIN, 1), 0); /* no new edge */
	assert_int_equal(take(0), VEC);
	assert_false(remote_irr(PIN));
	eoi(0);
	assert_int_equal(take(0), -1);
	line(PIN, 0);
	line(PIN, 1);
	assert_int_equal(take(0), VEC);
}

static void test_edges_coalesce_in_irr(void **state)
{
	(void)state;
	redir(PIN, VEC);
	for (unsigned i = 0; i < 5; i++)
		irqchip_pulse_gsi(&f->chip, PIN);
	assert_int_equal(take(0), VEC);
	irqchip_pulse_gsi(&f->chip, PIN); /* while in service: one more */
	eoi(0);
	assert_int_equal(take(0), VEC);
	eoi(0);
	assert_int_equal(take(0), -1);
}

static void test_level(void **state)
{
	(void)state;
	redir(PIN, REDIR_LEVEL | VEC);
	assert_int_equal(line(PIN, 1), 1);
	assert_true(remote_irr(PIN));
	assert_int_equal(line(PIN, 1), -1); /* still unacknowledged */
	assert_int_equal(take(0), VEC);
	assert_int_equal(rd(f->v[0].l, APIC_TMR + 0x30), BIT(VEC - 0x60));
	line(PIN, 0);
	eoi(0);
	assert_false(remote_irr(PIN));
	assert_int_equal(take(0), -1);
}

static void test_level_is_sent_again_while_high(void **state)
{
	(void)state;
	redir(PIN, REDIR_LEVEL | VEC);
	line(PIN, 1);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(take(0), VEC);
		assert_int_equal(take(0), -1);
		eoi(0);
		assert_true(remote_irr(PIN));
	}
	assert_int_equal(take(0), VEC);
	line(PIN, 0);
	eoi(0);
	assert_int_equal(take(0), -1);
}

static void test_level_retriggered_in_service(void **state)
{
	(void)state;
	redir(PIN, REDIR_LEVEL | VEC);
	line(PIN, 1);
	assert_int_equal(take(0), VEC);
	line(PIN, 0);
	line(PIN, 1);
	assert_int_equal(take(0), -1);
	eoi(0);
	assert_int_equal(take(0), VEC);
}

static void test_simultaneous_in_priority_order(void **state)
{
	(void)state;
	redir(14, 0x78);
	redir(15, 0x66);
	line(15, 1);
	line(14, 1);
	assert_int_equal(take(0), 0x78);
	assert_int_equal(take(0), -1);
	eoi(0);
	assert_int_equal(take(0), 0x66);
}

static void test_masking(void **state)
{
	(void)state;
	redir(PIN, REDIR_MASKED | VEC);
	assert_int_equal(line(PIN, 1), -1);
	line(PIN, 0);
	redir(PIN, VEC);
	assert_int_equal(take(0), -1); /* a masked edge is lost */
	line(PIN, 1);
	assert_int_equal(take(0), VEC);
	eoi(0);
	line(PIN, 0);
	/* A level that is high when unmasked is sent. */
	redir(PIN, REDIR_MASKED | REDIR_LEVEL | VEC);
	line(PIN, 1);
	assert_int_equal(take(0), -1);
	redir(PIN, REDIR_LEVEL | VEC);
	assert_int_equal(take(0), VEC);
	/* Masked in service: EOI does not send; unmasking does. */
	redir(PIN, REDIR_MASKED | REDIR_LEVEL | VEC);
	eoi(0);
	assert_false(remote_irr(PIN));
	assert_int_equal(take(0), -1);
	redir(PIN, REDIR_LEVEL | VEC);
	assert_int_equal(take(0), VEC);
}

static void test_tmr_follows_the_last_acceptance(void **state)
{
	(void)state;
	redir(PIN, REDIR_LEVEL | VEC);
	line(PIN, 1);
	assert_int_equal(take(0), VEC);
	line(PIN, 0);
	eoi(0);
	assert_true(rd(f->v[0].l, APIC_TMR + 0x30));
	wr(f->v[0].l, APIC_ICR, APIC_SELF << 18 | ICR_ASSERT | VEC);
	assert_int_equal(rd(f->v[0].l, APIC_TMR + 0x30), 0);
}

static void test_reconfigured_while_in_service(void **state)
{
	(void)state;
	/* To another processor: the EOI of the old one still counts. */
	redir(PIN, REDIR_LEVEL | VEC);
	line(PIN, 1);
	assert_int_equal(take(0), VEC);
	line(PIN, 0);
	io_write(0x11 + 2 * PIN, 1u << 24);
	assert_true(remote_irr(PIN));
	eoi(0);
	assert_false(remote_irr(PIN));
	line(PIN, 1);
	assert_int_equal(take(0), -1);
	assert_int_equal(take(1), VEC);
	/* Vector changed: the old EOI finds no pin, edge mode clears it. */
	line(PIN, 0);
	io_write(0x10 + 2 * PIN, REDIR_LEVEL | (VEC + 1));
	eoi(1);
	assert_true(remote_irr(PIN));
	io_write(0x10 + 2 * PIN, REDIR_MASKED | (VEC + 1));
	assert_false(remote_irr(PIN));
	io_write(0x10 + 2 * PIN, REDIR_LEVEL | (VEC + 1));
	line(PIN, 1);
	assert_int_equal(take(1), (VEC + 1));
}

static void test_destinations(void **state)
{
	(void)state;
	redir(PIN, 2ull << 56 | VEC);
	line(PIN, 1);
	assert_int_equal(take(0), -1);
	assert_int_equal(take(2), VEC);
	line(PIN, 0);
	for (unsigned i = 0; i < 4; i++)
		wr(f->v[i].l, APIC_LDR, BIT(24 + i));
	redir(PIN, 0xaull << 56 | REDIR_LOGICAL | (VEC + 1));
	assert_int_equal(line(PIN, 1), 2);
	assert_int_equal(take(1), (VEC + 1));
	assert_int_equal(take(3), (VEC + 1));
	line(PIN, 0);
	redir(PIN, 0xffull << 56 | (VEC + 2));
	assert_int_equal(line(PIN, 1), 4);
}

static void test_refused_level_leaves_no_remote_irr(void **state)
{
	(void)state;
	wr(f->v[0].l, APIC_SVR, 0xff);
	redir(PIN, REDIR_LEVEL | VEC);
	assert_int_equal(line(PIN, 1), 0);
	assert_false(remote_irr(PIN));
	wr(f->v[0].l, APIC_SVR, 0x1ff);
	line(PIN, 1);
	assert_int_equal(take(0), VEC);
}

static void test_sources_are_ored(void **state)
{
	(void)state;
	redir(PIN, REDIR_LEVEL | VEC);
	line(PIN, 1);
	irqchip_set_gsi(&f->chip, IRQ_SOURCE_RESAMPLE, PIN, 1, false);
	line(PIN, 0);
	assert_int_equal(take(0), VEC);
	eoi(0);
	assert_int_equal(take(0), VEC); /* the other source still holds it */
	irqchip_set_gsi(&f->chip, IRQ_SOURCE_RESAMPLE, PIN, 0, false);
	eoi(0);
	assert_int_equal(take(0), -1);
}

static void test_resample(void **state)
{
	(void)state;
	redir(PIN, REDIR_LEVEL | VEC);
	irqchip_watch_acks(&f->chip, PIN, true);
	f->drop_on_ack = PIN;
	irqchip_set_gsi(&f->chip, IRQ_SOURCE_RESAMPLE, PIN, 1, false);
	assert_int_equal(take(0), VEC);
	eoi(0);
	/* The listener lowered the line before it was looked at. */
	assert_int_equal(f->acked[PIN], 1);
	assert_int_equal(take(0), -1);
	/* An edge pin is reported too. */
	redir(PIN, VEC);
	irqchip_pulse_gsi(&f->chip, PIN);
	assert_int_equal(take(0), VEC);
	eoi(0);
	assert_int_equal(f->acked[PIN], 2);
	irqchip_watch_acks(&f->chip, PIN, false);
	irqchip_pulse_gsi(&f->chip, PIN);
	take(0);
	eoi(0);
	assert_int_equal(f->acked[PIN], 2);
}

static void test_storm_guard(void **state)
{
	unsigned n = 0;

	(void)state;
	redir(PIN, REDIR_LEVEL | VEC);
	line(PIN, 1);
	while (take(0) == VEC && n < 20000) {
		n++;
		eoi(0);
	}
	assert_int_equal(n, 10000);
	assert_int_equal(f->timer_changes, 1);
	assert_true(irqchip_timer_next_ns(&f->chip) == f->now + 10 * NS_MS);
	irqchip_timer_run(&f->chip, f->now + 10 * NS_MS - 1);
	assert_int_equal(take(0), -1);
	irqchip_timer_run(&f->chip, f->now + 10 * NS_MS);
	assert_int_equal(take(0), VEC);
	assert_true(irqchip_timer_next_ns(&f->chip) == ~0ull);
}

static void test_rtc_line_status(void **state)
{
	(void)state;
	redir(8, 0x51);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 8, 1, true), 1);
	irqchip_set_gsi(&f->chip, 0, 8, 0, true);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 8, 1, true), 0); /* not ended */
	irqchip_set_gsi(&f->chip, 0, 8, 0, true);
	assert_int_equal(take(0), 0x51);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 8, 1, true), 0);
	irqchip_set_gsi(&f->chip, 0, 8, 0, true);
	eoi(0);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 8, 1, true), 1);
}

static void test_state(void **state)
{
	struct kvm_irqchip s = {.chip_id = KVM_IRQCHIP_IOAPIC};

	(void)state;
	redir(PIN, 3ull << 56 | REDIR_LEVEL | VEC);
	redir(PIN - 1, VEC - 1);
	io_write(0, 0x05000000);
	line(PIN, 1);
	line(PIN - 1, 1); /* an edge that was sent must not be sent again */
	assert_int_equal(irqchip_get(&f->chip, &s), 0);
	assert_true(s.chip.ioapic.base_address == 0xfec00000);
	assert_int_equal(s.chip.ioapic.id, 5);
	assert_int_equal(s.chip.ioapic.irr, BIT(PIN));
	assert_int_equal(s.chip.ioapic.redirtbl[PIN].fields.vector, VEC);
	assert_int_equal(s.chip.ioapic.redirtbl[PIN].fields.remote_irr, 1);
	assert_int_equal(s.chip.ioapic.redirtbl[PIN].fields.dest_id, 3);
	assert_int_equal(s.chip.ioapic.redirtbl[0].fields.mask, 1);
	s.chip.ioapic.redirtbl[PIN].fields.remote_irr = 0;
	assert_int_equal(take(3), VEC);
	assert_int_equal(take(0), VEC - 1);
	assert_int_equal(irqchip_set(&f->chip, &s), 0); /* sends what is pending */
	assert_true(has_irr(f->v[3].l, VEC));
	assert_false(has_irr(f->v[0].l, VEC - 1));
	memset(&s, 0xff, sizeof(s));
	s.chip_id = KVM_IRQCHIP_IOAPIC;
	assert_int_equal(irqchip_set(&f->chip, &s), 0);
	s.chip_id = 3;
	assert_true(irqchip_set(&f->chip, &s) < 0);
	assert_true(irqchip_get(&f->chip, &s) < 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_registers),
		T(test_access_sizes),
		T(test_edge),
		T(test_edges_coalesce_in_irr),
		T(test_level),
		T(test_level_is_sent_again_while_high),
		T(test_level_retriggered_in_service),
		T(test_simultaneous_in_priority_order),
		T(test_masking),
		T(test_tmr_follows_the_last_acceptance),
		T(test_reconfigured_while_in_service),
		T(test_destinations),
		T(test_refused_level_leaves_no_remote_irr),
		T(test_sources_are_ored),
		T(test_resample),
		T(test_storm_guard),
		T(test_rtc_line_status),
		T(test_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
