/* SPDX-License-Identifier: MIT */
/* Who is addressed: physical, logical, broadcast, shorthands, lowest priority. */
#include "unit/irq/fake.h"

#include "irq/msi.h"

static struct fake *f;

static int setup(void **state)
{
	(void)state;
	f = fake_create(IRQCHIP_KERNEL, 4);
	fake_forget(f);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_destroy(f);
	return 0;
}

/* A bit per vCPU that @vector was requested at; clears it. */
static unsigned collect(u8 vector)
{
	unsigned mask = 0;

	for (unsigned i = 0; i < f->nr_vcpus; i++) {
		if (has_irr(f->v[i].l, vector))
			mask |= BIT(i);
		atomic_fetch_and(&f->v[i].l->irr[vector / 64], ~BIT64(vector % 64));
	}
	return mask;
}

static unsigned send(unsigned from, u32 dest, u32 icr)
{
	struct lapic *l = f->v[from].l;

	if (lapic_x2apic(l)) {
		lapic_msr_write(l, 0x830, (u64)dest << 32 | icr, false);
	} else {
		wr(l, APIC_ICR2, dest << 24);
		wr(l, APIC_ICR, icr);
	}
	return collect(icr & 0xff);
}

static void test_physical_and_shorthands(void **state)
{
	static const struct {
		const char *name;
		u32 dest, icr;
		unsigned want;
	} cases[] = {
		{"to 2", 2, 0x40, 0x4},
		{"to nobody", 7, 0x40, 0},
		{"to itself by ID", 1, 0x40, 0x2},
		{"broadcast", 0xff, 0x40, 0xf},
		{"self", 0, APIC_SELF << 18 | 0x40, 0x2},
		{"all", 0, APIC_ALL << 18 | 0x40, 0xf},
		{"all but self", 0, APIC_ALLBUT << 18 | 0x40, 0xd},
		{"level assert", 2, 0xc040, 0x4},
		{"level deassert is dropped", 2, 0x8040, 0},
		{"reserved mode ExtINT", 2, 0x740, 0},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned got = send(1, cases[i].dest, cases[i].icr);

		if (got != cases[i].want)
			fail_msg("%s: 0x%x", cases[i].name, got);
	}
	assert_int_equal(f->v[1].l->ipis_sent, ARRAY_SIZE(cases));
}

static void test_x2apic_destinations(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		enter_x2apic(f->v[i].l);
	assert_int_equal(send(0, 3, 0x40), 0x8);
	assert_int_equal(send(0, 0xffffffff, 0x40), 0xf);
	assert_int_equal(send(0, 0xff, 0x40), 0); /* an ID like any other in an IPI */
	assert_int_equal(send(0, 0x5, ICR_LOGICAL | 0x40), 0x5);
	assert_int_equal(send(0, 0x10005, ICR_LOGICAL | 0x40), 0); /* cluster 1 */
	assert_int_equal(send(0, 0, APIC_ALLBUT << 18 | 0x40), 0xe);
	assert_true(lapic_msr_write(f->v[2].l, 0x83f, 0x40, false));
	assert_int_equal(collect(0x40), 0x4);
}

static void test_x2apic_icr_is_one_write(void **state)
{
	struct lapic *l = f->v[0].l;

	(void)state;
	/* xAPIC: the destination waits in ICR2 until the low half is written. */
	wr(l, APIC_ICR2, 2u << 24);
	assert_int_equal(collect(0x40), 0);
	wr(l, APIC_ICR, 0x40);
	assert_int_equal(collect(0x40), 0x4);
	wr(l, APIC_ICR, 0x40); /* and stays there */
	assert_int_equal(collect(0x40), 0x4);
	enter_x2apic(l);
	assert_true(lapic_msr_write(l, 0x830, 0x0000000100000040ull, false));
	assert_int_equal(collect(0x40), 0x2);
}

static void test_logical_flat(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		wr(f->v[i].l, APIC_LDR, BIT(24 + i));
	for (unsigned dest = 0; dest < 255; dest++) {
		if (send(0, dest, ICR_LOGICAL | 0x40) != (dest & 0xf))
			fail_msg("0x%x", dest);
	}
	assert_int_equal(send(0, 0xff, ICR_LOGICAL | 0x40), 0xf);
}

static void test_logical_cluster(void **state)
{
	(void)state;
	/* Two clusters of two. */
	for (unsigned i = 0; i < 4; i++) {
		wr(f->v[i].l, APIC_DFR, 0x0fffffff);
		wr(f->v[i].l, APIC_LDR, (i / 2 << 4 | BIT(i % 2)) << 24);
	}
	assert_int_equal(send(0, 0x01, ICR_LOGICAL | 0x40), 0x1);
	assert_int_equal(send(0, 0x03, ICR_LOGICAL | 0x40), 0x3);
	assert_int_equal(send(0, 0x12, ICR_LOGICAL | 0x40), 0x8);
	assert_int_equal(send(0, 0x1f, ICR_LOGICAL | 0x40), 0xc);
	assert_int_equal(send(0, 0x2f, ICR_LOGICAL | 0x40), 0);
	/* A destination format that is neither matches nothing. */
	wr(f->v[0].l, APIC_DFR, 0x5fffffff);
	assert_int_equal(send(0, 0x01, ICR_LOGICAL | 0x40), 0);
}

static void test_aliased_ids(void **state)
{
	(void)state;
	wr(f->v[3].l, APIC_ID, 1u << 24);
	assert_int_equal(send(0, 1, 0x40), 0xa);
	assert_int_equal(send(0, 3, 0x40), 0);
}

static void test_ids_above_255(void **state)
{
	struct lapic *l = NULL;
	struct irq_msg msg = {.dest = 0x101, .vector = 0x40};

	(void)state;
	assert_int_equal(lapic_create(&f->chip, 0x101, &f->v[4], false, &l), 0);
	wr(l, APIC_SVR, 0x1ff);
	f->v[4].l = l;
	f->nr_vcpus = 5;
	/* Its xAPIC ID is 1 by truncation; the full ID reaches it alone. */
	assert_int_equal(irqchip_deliver(&f->chip, NULL, &msg), 1);
	assert_int_equal(collect(0x40), 0x10);
}

static void test_broadcast_quirk(void **state)
{
	struct irq_msg msg = {.dest = 0xff, .vector = 0x40};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		enter_x2apic(f->v[i].l);
	assert_int_equal(irqchip_deliver(&f->chip, NULL, &msg), 4);
	assert_int_equal(collect(0x40), 0xf);
	f->chip.no_broadcast_quirk = true;
	assert_int_equal(irqchip_deliver(&f->chip, NULL, &msg), -1);
}

static void test_lowest_priority(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		wr(f->v[i].l, APIC_LDR, BIT(24 + i));
	for (unsigned v = 0x40; v < 0x60; v++) {
		unsigned got = send(0, 0xe, ICR_LOGICAL | 0x100 | v);

		assert_int_equal(__builtin_popcount(got), 1); /* exactly one */
		assert_int_equal(got & ~0xeu, 0);
		assert_int_equal(got, BIT(1 + v % 3));
	}
	/* A disabled one does not take part. */
	wr(f->v[2].l, APIC_SVR, 0xff);
	for (unsigned v = 0x40; v < 0x60; v++)
		assert_int_equal(send(0, 0x6, ICR_LOGICAL | 0x100 | v), 0x2);
	assert_int_equal(send(0, 0x4, ICR_LOGICAL | 0x140), 0);
	/* A physical broadcast cannot arbitrate: all. */
	assert_int_equal(send(0, 0xff, 0x140), 0xb);
}

static void test_results(void **state)
{
	struct irq_msg msg = {.dest = 1, .vector = 0x40};

	(void)state;
	assert_int_equal(irqchip_deliver(&f->chip, NULL, &msg), 1);
	assert_int_equal(irqchip_deliver(&f->chip, NULL, &msg), 1); /* coalesced */
	wr(f->v[1].l, APIC_SVR, 0xff);
	assert_int_equal(irqchip_deliver(&f->chip, NULL, &msg), 0);
	lapic_msr_write(f->v[1].l, MSR_APIC_BASE, APICBASE_DEFAULT, false);
	assert_int_equal(irqchip_deliver(&f->chip, NULL, &msg), -1);
}

static void test_modes_reach_every_cpu(void **state)
{
	static const struct {
		const char *name;
		u32 mode;
		enum irq_request req;
	} cases[] = {
		{"SMI", APIC_MODE_SMI, IRQ_REQ_SMI},
		{"NMI", APIC_MODE_NMI, IRQ_REQ_NMI},
		{"INIT", APIC_MODE_INIT, IRQ_REQ_INIT_SIPI},
		{"SIPI", APIC_MODE_SIPI, IRQ_REQ_INIT_SIPI},
		{"PV kick", APIC_MODE_REMOTE_READ, IRQ_REQ_UNHALT},
	};

	(void)state;
	/* Software-disabled ones, and one that waits for SIPI, take them too. */
	wr(f->v[2].l, APIC_SVR, 0xff);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_forget(f);
		send(0, 0, APIC_ALLBUT << 18 | ICR_ASSERT | cases[i].mode << 8 | 0x9a);
		for (unsigned n = 0; n < 4; n++) {
			if (asked(f->v[n].l, cases[i].req) != (n != 0))
				fail_msg("%s at %u", cases[i].name, n);
		}
	}
	fake_forget(f);
	send(1, 0xff, APIC_MODE_NMI << 8); /* broadcast includes oneself */
	for (unsigned n = 0; n < 4; n++)
		assert_int_equal(asked(f->v[n].l, IRQ_REQ_NMI), 1);
}

static void test_msi_decode(void **state)
{
	struct irq_msg m;

	(void)state;
	msi_decode(0xfee05000, 0, 0x4031, false, &m);
	assert_int_equal(m.dest, 5);
	assert_int_equal(m.vector, 0x31);
	assert_int_equal(m.mode, APIC_MODE_FIXED);
	assert_false(m.logical || m.level || m.redir_hint);
	msi_decode(0xfee0f00c, 0x12345600, 0xc1ff, true, &m);
	assert_int_equal(m.dest, 0x1234560f);
	assert_int_equal(m.mode, APIC_MODE_LOWEST);
	assert_true(m.logical && m.level && m.redir_hint && m.assert);
	msi_decode(0xfee0f000, 0x12345600, 0x31, false, &m);
	assert_int_equal(m.dest, 0x0f);
	assert_true(msi_is_valid(1, false));
	assert_false(msi_is_valid(1, true));
}

static void test_signal_msi(void **state)
{
	struct kvm_msi msi = {.address_lo = 0xfee02000, .data = 0x41};

	(void)state;
	assert_int_equal(irqchip_signal_msi(&f->chip, &msi), 1);
	assert_int_equal(collect(0x41), 0x4);
	wr(f->v[2].l, APIC_SVR, 0xff);
	assert_int_equal(irqchip_signal_msi(&f->chip, &msi), 0);
	msi.address_lo = 0xfee09000;
	assert_int_equal(irqchip_signal_msi(&f->chip, &msi), -1);
	msi.flags = 2;
	assert_true(irqchip_signal_msi(&f->chip, &msi) < 0);
	msi.flags = 0;
	msi.address_hi = 1;
	f->chip.x2apic_format = true;
	assert_true(irqchip_signal_msi(&f->chip, &msi) < 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_physical_and_shorthands),
		T(test_x2apic_destinations),
		T(test_x2apic_icr_is_one_write),
		T(test_logical_flat),
		T(test_logical_cluster),
		T(test_aliased_ids),
		T(test_ids_above_255),
		T(test_broadcast_quirk),
		T(test_lowest_priority),
		T(test_results),
		T(test_modes_reach_every_cpu),
		T(test_msi_decode),
		T(test_signal_msi),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
