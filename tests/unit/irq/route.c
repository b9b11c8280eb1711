/* SPDX-License-Identifier: MIT */
/* GSI routing: the default table, replacement, what is refused; irqchip modes. */
#include "unit/irq/fake.h"

#include <errno.h>

static struct fake *f;

static int setup(void **state)
{
	(void)state;
	f = fake_create(IRQCHIP_KERNEL, 2);
	fake_forget(f);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_destroy(f);
	return 0;
}

static struct kvm_irq_routing_entry chip_entry(u32 gsi, u32 chip, u32 pin)
{
	struct kvm_irq_routing_entry e = {.gsi = gsi, .type = KVM_IRQ_ROUTING_IRQCHIP};

	e.u.irqchip.irqchip = chip;
	e.u.irqchip.pin = pin;
	return e;
}

static struct kvm_irq_routing_entry msi_entry(u32 gsi, u32 dest, u32 data)
{
	struct kvm_irq_routing_entry e = {.gsi = gsi, .type = KVM_IRQ_ROUTING_MSI};

	e.u.msi.address_lo = 0xfee00000 | dest << 12;
	e.u.msi.data = data;
	return e;
}

static void test_default_table(void **state)
{
	unsigned total = 0;

	(void)state;
	for (u32 gsi = 0; gsi < 64; gsi++) {
		struct kvm_irq_routing_entry e[ROUTE_PER_GSI];
		unsigned n = route_lookup(&f->chip.routes, gsi, e);

		total += n;
		assert_int_equal(n, gsi < 16 ? 2 : gsi < 24 ? 1 : 0);
		if (gsi < 24)
			assert_int_equal(
				route_gsi(&f->chip.routes, KVM_IRQCHIP_IOAPIC, gsi), gsi);
	}
	assert_int_equal(total, 40);
	assert_int_equal(route_gsi(&f->chip.routes, 0, 7), 7);
	assert_int_equal(route_gsi(&f->chip.routes, 1, 0), 8);
	assert_int_equal(route_gsi(&f->chip.routes, 1, 8), -1);
	assert_int_equal(route_gsi(&f->chip.routes, 3, 0), -1);
	assert_int_equal(route_gsi(&f->chip.routes, 2, 24), -1);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 24, 1, false), -1);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, ~0u, 1, false), -1);
}

static void test_replacement(void **state)
{
	struct kvm_irq_routing_entry e[] = {
		chip_entry(0, KVM_IRQCHIP_IOAPIC, 2),
		chip_entry(0, KVM_IRQCHIP_PIC_MASTER, 0),
		msi_entry(30, 1, 0x55),
		msi_entry(4095, 0, 0x66),
	};

	(void)state;
	assert_int_equal(irqchip_set_routes(&f->chip, e, ARRAY_SIZE(e)), 0);
	assert_int_equal(route_gsi(&f->chip.routes, KVM_IRQCHIP_IOAPIC, 2), 0);
	assert_int_equal(route_gsi(&f->chip.routes, KVM_IRQCHIP_IOAPIC, 0), -1);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 5, 1, false), -1); /* gone */
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 30, 1, false), 1);
	assert_int_equal(fake_take(f->v[1].l), 0x55);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 30, 0, false), -1);
	assert_int_equal(irqchip_pulse_gsi(&f->chip, 4095), 1);
	assert_int_equal(fake_take(f->v[0].l), 0x66);
	assert_int_equal(irqchip_set_routes(&f->chip, NULL, 0), 0);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 30, 1, false), -1);
}

static void test_refused(void **state)
{
	struct kvm_irq_routing_entry bad_type = {.type = KVM_IRQ_ROUTING_HV_SINT};
	struct kvm_irq_routing_entry flags = chip_entry(1, 2, 1);
	struct kvm_irq_routing_entry hi = msi_entry(1, 0, 0x55);
	struct {
		const char *name;
		unsigned n;
		struct kvm_irq_routing_entry e[3];
	} cases[] = {
		{"unknown type", 1, {bad_type}},
		{"unknown chip", 1, {chip_entry(1, 3, 0)}},
		{"PIC pin 8", 1, {chip_entry(1, 0, 8)}},
		{"slave pin 8", 1, {chip_entry(1, 1, 8)}},
		{"IOAPIC pin 24", 1, {chip_entry(1, 2, 24)}},
		{"GSI 4096", 1, {chip_entry(4096, 2, 1)}},
		{"same chip twice", 2, {chip_entry(1, 2, 1), chip_entry(1, 2, 2)}},
		{"MSI and pin", 2, {msi_entry(1, 0, 0x55), chip_entry(1, 2, 2)}},
		{"two MSIs", 2, {msi_entry(1, 0, 0x55), msi_entry(1, 0, 0x56)}},
		{"flags", 1, {flags}},
		{"32-bit format, low byte of the high address", 1, {hi}},
	};

	(void)state;
	f->chip.x2apic_format = true;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		cases[9].e[0].flags = 1;
		cases[10].e[0].u.msi.address_hi = 1;
		if (irqchip_set_routes(&f->chip, cases[i].e, cases[i].n) != -EINVAL)
			fail_msg("%s", cases[i].name);
		/* Nothing changed. */
		assert_int_equal(route_gsi(&f->chip.routes, 2, 9), 9);
	}
}

static void test_modes(void **state)
{
	struct kvm_irq_routing_entry pin = chip_entry(1, 2, 1);
	struct kvm_irqchip s = {0};
	struct fake *g = fake_create(IRQCHIP_NONE, 0);

	(void)state;
	assert_int_equal(irqchip_create(&f->chip), -EEXIST);
	assert_int_equal(irqchip_create_split(&f->chip, 24), -EEXIST);
	assert_int_equal(irqchip_set_routes(&g->chip, NULL, 0), -EINVAL);
	assert_int_equal(irqchip_get(&g->chip, &s), -ENXIO);
	assert_int_equal(irqchip_set_gsi(&g->chip, 0, 1, 1, false), -1);
	assert_int_equal(irqchip_create_split(&g->chip, 4097), -EINVAL);
	assert_int_equal(irqchip_create_split(&g->chip, 24), 0);
	assert_int_equal(irqchip_create(&g->chip), -EEXIST);
	assert_int_equal(irqchip_set_routes(&g->chip, &pin, 1), -EINVAL);
	assert_int_equal(irqchip_set(&g->chip, &s), -ENXIO);
	assert_true(irqchip_timer_next_ns(&g->chip) == ~0ull);
	fake_destroy(g);
}

static void test_split_eoi(void **state)
{
	struct kvm_irq_routing_entry e[] = {
		msi_entry(3, 0, ICR_LEVEL | ICR_ASSERT | 0x51), msi_entry(4, 0, 0x52),
		msi_entry(40, 0, ICR_LEVEL | ICR_ASSERT | 0x53), /* no IOAPIC pin */
	};
	struct fake *g = fake_create(IRQCHIP_SPLIT, 1);
	struct lapic *l = g->v[0].l;

	(void)state;
	assert_int_equal(irqchip_set_routes(&g->chip, e, 3), 0);
	for (u32 gsi = 3; gsi <= 4; gsi++) {
		irqchip_pulse_gsi(&g->chip, gsi);
		assert_int_equal(fake_take(l), 0x4e + (int)gsi);
		lapic_eoi(l);
	}
	irqchip_pulse_gsi(&g->chip, 40);
	assert_int_equal(fake_take(l), 0x53);
	lapic_eoi(l);
	assert_int_equal(g->v[0].eois, 1);
	assert_int_equal(g->v[0].eoi_vector, 0x51);
	/* The route goes away while the vector is in service. */
	irqchip_pulse_gsi(&g->chip, 3);
	assert_int_equal(fake_take(l), 0x51);
	assert_int_equal(irqchip_set_routes(&g->chip, e + 1, 1), 0);
	lapic_eoi(l);
	assert_int_equal(g->v[0].eois, 2);
	/* An edge-triggered use of the same number is not reported. */
	lapic_post(l, 0x51);
	fake_take(l);
	lapic_eoi(l);
	assert_int_equal(g->v[0].eois, 2);
	/* Directed EOI: the guest tells the IOAPIC itself. */
	assert_int_equal(irqchip_set_routes(&g->chip, e, 3), 0);
	wr(l, APIC_SVR, 0x11ff);
	irqchip_pulse_gsi(&g->chip, 3);
	fake_take(l);
	lapic_eoi(l);
	assert_int_equal(g->v[0].eois, 2);
	fake_destroy(g);
}

static void test_status_is_summed(void **state)
{
	u32 reg = 0x10 + 2 * 3, entry = 0x60;

	(void)state;
	ioapic_mmio_write(&f->chip, IOAPIC_REGSEL, &reg, 4);
	ioapic_mmio_write(&f->chip, IOAPIC_WINDOW, &entry, 4);
	/* GSI 3 goes to the PIC and to the IOAPIC: both take it. */
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 3, 1, true), 2);
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 3, 0, true), 2);
	/* The PIC still has the first edge, the IOAPIC has sent it. */
	assert_int_equal(irqchip_set_gsi(&f->chip, 0, 3, 1, true), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_default_table), T(test_replacement), T(test_refused),
		T(test_modes),	       T(test_split_eoi),   T(test_status_is_summed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
