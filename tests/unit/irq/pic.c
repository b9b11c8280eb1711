/* SPDX-License-Identifier: MIT */
/* The 8259 pair, as a guest and the lines see it. */
#include "unit/irq/fake.h"

#define MASTER 0x20
#define SLAVE  0xa0

static struct fake *f;

static void out(u16 port, u8 value)
{
	pic_write(&f->chip, port, value);
}

static u8 in(u16 port)
{
	return pic_read(&f->chip, port);
}

static void init_chip(u16 port, u8 base, u8 wiring, u8 icw4)
{
	out(port, 0x11);
	out(port + 1, base);
	out(port + 1, wiring);
	out(port + 1, icw4);
}

static void init_pair(u8 icw4)
{
	init_chip(MASTER, 0x20, 0x04, icw4);
	init_chip(SLAVE, 0x28, 0x02, icw4);
}

static int raise_pin(unsigned pin)
{
	return pic_set_pin(&f->chip, pin, 0, true);
}

static void lower(unsigned pin)
{
	pic_set_pin(&f->chip, pin, 0, false);
}

static void pulse(unsigned pin)
{
	raise_pin(pin);
	lower(pin);
}

/* The vector of an INTA cycle, -1 if INTR is low. */
static int inta(void)
{
	return pic_intr(&f->chip.pic) ? irqchip_ack_extint(&f->chip) : -1;
}

static u8 isr(u16 port)
{
	out(port, 0x0b);
	return in(port);
}

static u8 irr(u16 port)
{
	out(port, 0x0a);
	return in(port);
}

static int setup(void **state)
{
	(void)state;
	f = fake_create(IRQCHIP_KERNEL, 2);
	wr(f->v[0].l, APIC_LVT0, APIC_MODE_EXTINT << 8);
	init_pair(0x01);
	fake_forget(f);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_destroy(f);
	return 0;
}

static void test_vectors_of_all_pins(void **state)
{
	(void)state;
	for (unsigned pin = 0; pin < 16; pin++) {
		if (pin == 2)
			continue;
		fake_forget(f);
		assert_int_equal(raise_pin(pin), 1);
		assert_int_equal(f->v[0].asked[IRQ_REQ_EXTINT], 1);
		assert_int_equal(f->v[1].asked[IRQ_REQ_EXTINT], 0);
		if (inta() != 0x20 + (int)pin)
			fail_msg("pin %u", pin);
		lower(pin);
		if (pin >= 8) {
			assert_int_equal(isr(SLAVE), BIT(pin - 8));
			assert_int_equal(isr(MASTER), 0x04);
			out(SLAVE, 0x20);
		} else {
			assert_int_equal(isr(MASTER), BIT(pin));
		}
		out(MASTER, 0x20);
		assert_int_equal(isr(MASTER) | isr(SLAVE), 0);
		assert_int_equal(inta(), -1);
	}
}

static void test_fully_nested(void **state)
{
	(void)state;
	pulse(5);
	assert_int_equal(inta(), 0x25);
	pulse(6);
	pulse(5);
	assert_int_equal(inta(), -1); /* equal and lower wait */
	pulse(1);
	assert_int_equal(inta(), 0x21); /* higher interrupts */
	out(MASTER, 0x20);		/* ends 1, the highest in service */
	assert_int_equal(inta(), -1);
	out(MASTER, 0x20);
	assert_int_equal(inta(), 0x25);
	out(MASTER, 0x65); /* specific EOI */
	assert_int_equal(inta(), 0x26);
}

static void test_edge_needs_an_edge(void **state)
{
	(void)state;
	assert_int_equal(raise_pin(4), 1);
	assert_int_equal(inta(), 0x24);
	out(MASTER, 0x20);
	raise_pin(4); /* still high */
	assert_int_equal(inta(), -1);
	lower(4);
	raise_pin(4);
	assert_int_equal(inta(), 0x24);
	/* A second edge before the acknowledge is coalesced. */
	out(MASTER, 0x20);
	lower(4);
	assert_int_equal(raise_pin(4), 1);
	lower(4);
	assert_int_equal(raise_pin(4), 0);
}

static void test_elcr(void **state)
{
	(void)state;
	out(0x4d0, 0xff);
	out(0x4d1, 0xff);
	assert_int_equal(in(0x4d0), 0xf8);
	assert_int_equal(in(0x4d1), 0xde);
	raise_pin(5);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(inta(), 0x25); /* level: as long as it is high */
		out(MASTER, 0x20);
	}
	lower(5);
	assert_int_equal(inta(), -1);
	raise_pin(11);
	assert_int_equal(inta(), 0x2b);
	out(SLAVE, 0x20);
	out(MASTER, 0x20);
	assert_int_equal(inta(), 0x2b);
}

static void test_spurious_7(void **state)
{
	(void)state;
	out(0x4d0, 0x20);
	raise_pin(5);
	assert_true(pic_intr(&f->chip.pic));
	lower(5); /* between INTR and INTA */
	assert_int_equal(irqchip_ack_extint(&f->chip), 0x27);
	assert_int_equal(isr(MASTER), 0);
}

static void test_spurious_15(void **state)
{
	(void)state;
	out(0x4d1, 0x08);
	raise_pin(11);
	lower(11);
	/* The master has latched its pin 2; the slave finds nothing. */
	assert_int_equal(inta(), 0x2f);
	assert_int_equal(isr(SLAVE), 0);
	assert_int_equal(isr(MASTER), 0x04);
	out(MASTER, 0x20);
	assert_int_equal(inta(), -1);
}

static void test_imr(void **state)
{
	(void)state;
	out(0x21, 0x10);
	assert_int_equal(in(0x21), 0x10);
	assert_int_equal(raise_pin(4), -1);
	assert_int_equal(inta(), -1);
	assert_int_equal(irr(MASTER), 0x10);
	fake_forget(f);
	out(0x21, 0x00);
	assert_int_equal(f->v[0].asked[IRQ_REQ_EXTINT], 1);
	assert_int_equal(inta(), 0x24);
	/* The slave's pins need the master's pin 2. */
	out(0x21, 0x04);
	pulse(9);
	out(MASTER, 0x20);
	assert_int_equal(inta(), -1);
	out(0x21, 0x00);
	assert_int_equal(inta(), 0x29);
}

static void test_intr_is_requested_only_when_it_rises(void **state)
{
	(void)state;
	fake_forget(f);
	raise_pin(3);
	raise_pin(4);
	raise_pin(1);
	(void)irr(MASTER);
	assert_int_equal(f->v[0].asked[IRQ_REQ_EXTINT], 1);
	/* INTA drops the output; a higher one that came meanwhile raises it. */
	raise_pin(5);
	assert_int_equal(inta(), 0x21);
	assert_int_equal(f->v[0].asked[IRQ_REQ_EXTINT], 1);
	out(MASTER, 0x20);
	assert_int_equal(f->v[0].asked[IRQ_REQ_EXTINT], 2);
	out(0x4d0, 0x08);
	assert_int_equal(inta(), 0x23); /* edge or not, it was latched */
}

static void test_ack_that_leaves_a_higher_one(void **state)
{
	(void)state;
	/* Auto-EOI: the acknowledge itself makes room for the next. */
	init_pair(0x03);
	fake_forget(f);
	pulse(3);
	pulse(4);
	assert_int_equal(inta(), 0x23);
	assert_int_equal(f->v[0].asked[IRQ_REQ_EXTINT], 2);
	assert_int_equal(inta(), 0x24);
	assert_int_equal(isr(MASTER), 0);
}

static void test_rotation(void **state)
{
	(void)state;
	out(MASTER, 0xc3); /* pin 3 lowest: 4 highest */
	pulse(3);
	pulse(4);
	pulse(0);
	assert_int_equal(inta(), 0x24);
	out(MASTER, 0xa0); /* rotate on non-specific EOI: 4 lowest, 5 highest */
	pulse(4);
	assert_int_equal(inta(), 0x20);
	out(MASTER, 0xe0); /* rotate on specific EOI of 0: 1 highest */
	assert_int_equal(inta(), 0x23);
	out(MASTER, 0x20);
	assert_int_equal(inta(), 0x24);
}

static void test_rotation_in_auto_eoi(void **state)
{
	(void)state;
	init_pair(0x03);
	out(MASTER, 0x80); /* set */
	pulse(3);
	assert_int_equal(inta(), 0x23); /* now 4 is highest */
	pulse(3);
	pulse(5);
	assert_int_equal(inta(), 0x25);
	out(MASTER, 0x00); /* clear */
	assert_int_equal(inta(), 0x23);
}

static void test_special_mask(void **state)
{
	(void)state;
	pulse(3);
	assert_int_equal(inta(), 0x23);
	pulse(6);
	assert_int_equal(inta(), -1);
	out(0x21, 0x08); /* mask what is in service */
	assert_int_equal(inta(), -1);
	out(MASTER, 0x68); /* special mask mode: lower ones may come */
	assert_int_equal(inta(), 0x26);
	out(MASTER, 0x20); /* ends 6: 3 is masked and not seen */
	assert_int_equal(isr(MASTER), 0x08);
	out(MASTER, 0x48); /* leave the mode */
	out(MASTER, 0x20);
	assert_int_equal(isr(MASTER), 0);
}

static void test_special_fully_nested(void **state)
{
	(void)state;
	pulse(12);
	assert_int_equal(inta(), 0x2c);
	pulse(9); /* higher on the slave, but pin 2 of the master is in service */
	assert_int_equal(inta(), -1);
	out(SLAVE, 0x20);
	out(MASTER, 0x20);
	assert_int_equal(inta(), 0x29);
	out(SLAVE, 0x20);
	out(MASTER, 0x20);
	init_chip(MASTER, 0x20, 0x04, 0x11);
	pulse(12);
	assert_int_equal(inta(), 0x2c);
	pulse(9);
	assert_int_equal(inta(), 0x29);
}

static void test_poll(void **state)
{
	(void)state;
	out(MASTER, 0x0c);
	assert_int_equal(in(MASTER), 0); /* nothing */
	pulse(6);
	out(MASTER, 0x0c);
	assert_int_equal(in(MASTER), 0x86);
	assert_int_equal(isr(MASTER), 0x40); /* a poll acknowledges */
	assert_int_equal(in(0x21), 0);	     /* one read only */
	out(MASTER, 0x20);
	pulse(10);
	out(SLAVE, 0x0c);
	assert_int_equal(in(SLAVE), 0x82);
	assert_int_equal(inta(), -1); /* the master has nothing left */
}

static void test_init_sequence(void **state)
{
	(void)state;
	out(0x4d0, 0x20);
	raise_pin(3);
	raise_pin(5);
	out(0x21, 0xff);
	out(MASTER, 0x11); /* ICW1 */
	assert_int_equal(in(0x21), 0);
	assert_int_equal(in(MASTER), 0x20); /* edges are forgotten, levels are not */
	out(0x21, 0x47);
	out(0x21, 0x04);
	out(0x21, 0x01);
	assert_int_equal(inta(), 0x45); /* the low three bits are the pin's */
	out(0x21, 0xaa);		/* OCW1 again */
	assert_int_equal(in(0x21), 0xaa);
	/* Without ICW4, single: ready after ICW2. */
	out(MASTER, 0x12);
	out(0x21, 0x60);
	out(0x21, 0x55);
	assert_int_equal(in(0x21), 0x55);
}

static void test_acks_are_reported(void **state)
{
	(void)state;
	irqchip_watch_acks(&f->chip, 3, true);
	irqchip_watch_acks(&f->chip, 11, true);
	pulse(3);
	inta();
	assert_int_equal(f->acked[3], 0);
	out(MASTER, 0x20);
	assert_int_equal(f->acked[3], 1);
	pulse(11);
	inta();
	out(SLAVE, 0x20);
	out(MASTER, 0x20);
	assert_int_equal(f->acked[11], 1);
	assert_int_equal(f->acked[3], 1);
}

static void test_nobody_accepts(void **state)
{
	(void)state;
	wr(f->v[0].l, APIC_LVT0, LVT_MASKED);
	fake_forget(f);
	raise_pin(3);
	assert_int_equal(f->v[0].asked[IRQ_REQ_EXTINT], 0);
	/* The second vCPU takes it in virtual wire mode. */
	lower(3);
	inta();
	out(MASTER, 0x20);
	wr(f->v[1].l, APIC_LVT0, APIC_MODE_EXTINT << 8);
	raise_pin(3);
	assert_int_equal(f->v[1].asked[IRQ_REQ_EXTINT], 1);
	assert_false(irqchip_has_extint(&f->chip, f->v[0].l));
	assert_true(irqchip_has_extint(&f->chip, f->v[1].l));
}

static void test_other_ports(void **state)
{
	(void)state;
	assert_int_equal(in(0x22), 0xff);
	out(0x22, 0x55);
	assert_int_equal(in(0x4d2), 0xff);
}

static void test_state(void **state)
{
	struct kvm_irqchip m = {.chip_id = KVM_IRQCHIP_PIC_MASTER};
	struct kvm_irqchip s = {.chip_id = KVM_IRQCHIP_PIC_SLAVE};

	(void)state;
	pulse(3);
	inta();
	out(0x4d1, 0x08);
	raise_pin(11);
	out(0x21, 0x10);
	assert_int_equal(irqchip_get(&f->chip, &m), 0);
	assert_int_equal(irqchip_get(&f->chip, &s), 0);
	assert_int_equal(m.chip.pic.isr, 0x08);
	assert_int_equal(m.chip.pic.imr, 0x10);
	assert_int_equal(m.chip.pic.irq_base, 0x20);
	assert_int_equal(m.chip.pic.elcr_mask, 0xf8);
	assert_int_equal(s.chip.pic.irr, 0x08);
	assert_int_equal(s.chip.pic.elcr, 0x08);
	init_pair(0x01);
	lower(11);
	assert_int_equal(inta(), 0x2f);
	assert_int_equal(irqchip_set(&f->chip, &m), 0);
	fake_forget(f);
	assert_int_equal(irqchip_set(&f->chip, &s), 0);
	assert_int_equal(inta(), 0x2b); /* above pin 3, which is in service */
	memset(&m, 0xff, sizeof(m));
	m.chip_id = 0;
	assert_int_equal(irqchip_set(&f->chip, &m), 0);
	assert_int_equal(in(0x4d0), 0xf8); /* what cannot be is masked */
	out(0x21, 0);
	raise_pin(1);
	inta();
}

static void test_random_input_is_survived(void **state)
{
	static const u16 ports[] = {0x20, 0x21, 0xa0, 0xa1, 0x4d0, 0x4d1};
	u32 x = 12345;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		x = x * 1664525 + 1013904223;
		u16 port = ports[(x >> 8) % 6];

		switch (x >> 28 & 3) {
		case 0:
			out(port, (u8)(x >> 16));
			break;
		case 1:
			(void)in(port);
			break;
		case 2:
			pic_set_pin(&f->chip, x >> 12 & 15, x >> 20 & 1, x >> 21 & 1);
			break;
		default:
			(void)inta();
			break;
		}
	}
	init_pair(0x01);
	out(0x4d0, 0);
	for (unsigned pin = 0; pin < 16; pin++) {
		pic_set_pin(&f->chip, pin, 0, false);
		pic_set_pin(&f->chip, pin, 1, false);
	}
	init_pair(0x01);
	pulse(1);
	assert_int_equal(inta(), 0x21);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_vectors_of_all_pins),
		T(test_fully_nested),
		T(test_edge_needs_an_edge),
		T(test_elcr),
		T(test_spurious_7),
		T(test_spurious_15),
		T(test_imr),
		T(test_intr_is_requested_only_when_it_rises),
		T(test_ack_that_leaves_a_higher_one),
		T(test_rotation),
		T(test_rotation_in_auto_eoi),
		T(test_special_mask),
		T(test_special_fully_nested),
		T(test_poll),
		T(test_init_sequence),
		T(test_acks_are_reported),
		T(test_nobody_accepts),
		T(test_other_ports),
		T(test_state),
		T(test_random_input_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
