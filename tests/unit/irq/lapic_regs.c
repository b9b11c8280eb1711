/* SPDX-License-Identifier: MIT */
/* Register tables: reset values, writable bits, what each mode has; APICBASE;
 * the image for the client. */
#include "unit/irq/fake.h"

#define NONE 0 /* no such register: reads 0 in xAPIC mode, #GP in x2APIC mode */
#define R    1
#define W    2
#define RW   3

static const struct {
	const char *name;
	u16 offset;
	u32 reset; /* of an AP, software-disabled */
	u8 xapic, x2apic;
	u32 writable; /* bits that a write of all-ones changes (xAPIC) */
} regs[] = {
	{"reserved 000", 0x000, 0, NONE, NONE, 0},
	{"ID", APIC_ID, 0x01000000, RW, R, 0xff000000},
	{"version", APIC_VERSION, 0x00050014, R, R, 0},
	{"reserved 040", 0x040, 0, NONE, NONE, 0},
	{"TPR", APIC_TPR, 0, RW, RW, 0xff},
	{"APR", APIC_APR, 0, R, NONE, 0},
	{"PPR", APIC_PPR, 0, R, R, 0},
	{"EOI", APIC_EOI, 0, W, W, 0},
	{"remote read 0c0", 0x0c0, 0, NONE, NONE, 0},
	{"LDR", APIC_LDR, 0, RW, R, 0xff000000},
	{"DFR", APIC_DFR, 0xffffffff, RW, NONE, 0xffffffff},
	{"SVR", APIC_SVR, 0xff, RW, RW, 0x3ff},
	{"ISR 0", APIC_ISR, 0, R, R, 0},
	{"ISR 7", APIC_ISR + 0x70, 0, R, R, 0},
	{"TMR 0", APIC_TMR, 0, R, R, 0},
	{"TMR 7", APIC_TMR + 0x70, 0, R, R, 0},
	{"IRR 0", APIC_IRR, 0, R, R, 0},
	{"IRR 7", APIC_IRR + 0x70, 0, R, R, 0},
	{"ESR", APIC_ESR, 0, RW, RW, 0},
	{"reserved 290", 0x290, 0, NONE, NONE, 0},
	{"LVT CMCI, not offered", APIC_LVTCMCI, 0, NONE, NONE, 0},
	{"ICR2", APIC_ICR2, 0, RW, NONE, 0xff000000},
	{"LVT timer", APIC_LVTT, 0x10000, RW, RW, 0x700ff},
	{"LVT thermal", APIC_LVTTHMR, 0x10000, RW, RW, 0x107ff},
	{"LVT PMC", APIC_LVTPC, 0x10000, RW, RW, 0x107ff},
	{"LVT LINT0", APIC_LVT0, 0x10000, RW, RW, 0x1a7ff},
	{"LVT LINT1", APIC_LVT1, 0x10000, RW, RW, 0x1a7ff},
	{"LVT error", APIC_LVTERR, 0x10000, RW, RW, 0x100ff},
	{"initial count", APIC_TMICT, 0, RW, RW, 0}, /* checked with the timer */
	{"current count", APIC_TMCCT, 0, R, R, 0},
	{"reserved 3a0", 0x3a0, 0, NONE, NONE, 0},
	{"divide", APIC_TDCR, 0, RW, RW, 0xb},
	{"self IPI", APIC_SELF_IPI, 0, NONE, W, 0},
};

static void test_reset_values(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 2);
	struct lapic *l = f->v[1].l;

	(void)state;
	lapic_reset(l, false);
	for (unsigned i = 0; i < ARRAY_SIZE(regs); i++) {
		if (rd(l, regs[i].offset) != regs[i].reset)
			fail_msg("%s: 0x%x", regs[i].name, rd(l, regs[i].offset));
	}
	fake_destroy(f);
}

static void test_writable_bits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(regs); i++) {
		struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
		struct lapic *l = f->v[0].l;
		u32 ones, zeros;

		if (regs[i].offset == APIC_TMICT || regs[i].offset == APIC_EOI) {
			fake_destroy(f);
			continue;
		}
		wr(l, regs[i].offset, ~0u);
		ones = rd(l, regs[i].offset);
		wr(l, regs[i].offset, 0);
		zeros = rd(l, regs[i].offset);
		/* Disabled by SVR = 0, the mask bit of an LVT sticks. */
		if ((ones ^ zeros) != regs[i].writable && regs[i].offset != APIC_DFR)
			fail_msg("%s: 0x%x after ones, 0x%x after zeros", regs[i].name,
				 ones, zeros);
		if (regs[i].offset == APIC_DFR && (ones != ~0u || zeros != 0x0fffffff))
			fail_msg("DFR: 0x%x, 0x%x", ones, zeros);
		fake_destroy(f);
	}
}

static void test_x2apic_msrs(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;
	u64 value;

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		assert_false(lapic_msr_read(l, 0x800 + i, &value));
	enter_x2apic(l);
	for (unsigned i = 0; i < ARRAY_SIZE(regs); i++) {
		u32 msr = 0x800 + (regs[i].offset >> 4);

		if (lapic_msr_read(l, msr, &value) != !!(regs[i].x2apic & R))
			fail_msg("%s: read", regs[i].name);
		if (lapic_msr_write(l, msr, 0, false) != !!(regs[i].x2apic & W))
			fail_msg("%s: write of 0", regs[i].name);
		if (lapic_msr_write(l, msr, 1ull << 32, false))
			fail_msg("%s: bit 32 accepted", regs[i].name);
	}
	assert_false(lapic_msr_write(l, 0x828, 1, false));     /* ESR: only zero */
	assert_false(lapic_msr_write(l, 0x83f, 0x100, false)); /* self IPI */
	assert_false(lapic_msr_read(l, 0x8ff, &value));
	assert_false(lapic_msr_write(l, 0x840, 0, false));
	fake_destroy(f);
}

static void test_x2apic_id_and_ldr(void **state)
{
	static const struct {
		u32 id, ldr;
	} cases[] = {{0, 0x1}, {5, 0x20}, {16, 0x10001}, {0x123, 0x120008}};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake *f = fake_create(IRQCHIP_KERNEL, 0);
		struct lapic *l;
		u64 value;

		assert_int_equal(lapic_create(&f->chip, cases[i].id, &f->v[0], false, &l),
				 0);
		lapic_set_features(l, LAPIC_HAS_X2APIC, 40);
		enter_x2apic(l);
		assert_true(lapic_msr_read(l, 0x802, &value));
		assert_int_equal(value, cases[i].id);
		assert_true(lapic_msr_read(l, 0x80d, &value));
		assert_int_equal(value, cases[i].ldr);
		lapic_destroy(l);
		fake_destroy(f);
	}
}

static void test_icr_is_kept(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;
	u64 value;

	(void)state;
	wr(l, APIC_ICR2, 0x12345678);
	wr(l, APIC_ICR, 0xa5a5a5a5);
	assert_int_equal(rd(l, APIC_ICR2), 0x12000000);
	assert_int_equal(rd(l, APIC_ICR), 0xa5a5a5a5 & ~ICR_BUSY);
	enter_x2apic(l);
	assert_true(lapic_msr_write(l, 0x830, 0xdeadbeef000040ffull | ICR_BUSY, false));
	assert_true(lapic_msr_read(l, 0x830, &value));
	assert_true(value == 0xdeadbeef000040ffull);
	for (unsigned bit = 0; bit < 32; bit++) {
		bool reserved = bit >= 20 || bit == 13 || bit == 16 || bit == 17;

		if (lapic_msr_write(l, 0x830, BIT64(bit), false) == reserved)
			fail_msg("ICR bit %u", bit);
	}
	fake_destroy(f);
}

static void test_access_sizes(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;
	static const struct {
		unsigned offset, len;
		u64 want;
	} reads[] = {
		{APIC_VERSION, 4, 0x00050014},
		{APIC_VERSION, 1, 0x14},
		{APIC_VERSION + 2, 1, 0x05},
		{APIC_VERSION + 2, 2, 0x0005},
		{APIC_VERSION + 1, 4, 0},
		{APIC_VERSION, 8, 0},
		{APIC_VERSION + 4, 4, 0},
		{APIC_VERSION + 3, 2, 0},
		{0x400, 4, 0},
		{0xffc, 4, 0},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(reads); i++) {
		u64 got = 0;

		memset(&got, 0xcc, reads[i].len);
		lapic_mmio_read(l, reads[i].offset, &got, reads[i].len);
		if (got != reads[i].want)
			fail_msg("read %u at 0x%x: 0x%llx", reads[i].len, reads[i].offset,
				 got);
	}
	u64 value = 0x55;

	lapic_mmio_write(l, APIC_TPR, &value, 1);
	lapic_mmio_write(l, APIC_TPR, &value, 8);
	lapic_mmio_write(l, APIC_TPR + 4, &value, 4);
	assert_int_equal(rd(l, APIC_TPR), 0);
	lapic_mmio_write(l, APIC_TPR, &value, 4);
	assert_int_equal(rd(l, APIC_TPR), 0x55);
	fake_destroy(f);
}

static void test_apicbase_transitions(void **state)
{
	enum {
		OFF = 0,
		X = APICBASE_ENABLE,
		X2 = APICBASE_ENABLE | APICBASE_X2APIC,
		BAD = APICBASE_X2APIC
	};
	static const struct {
		u64 from, to;
		bool guest, host;
	} cases[] = {
		{OFF, OFF, 1, 1}, {OFF, X, 1, 1}, {OFF, X2, 0, 1}, {OFF, BAD, 0, 0},
		{X, OFF, 1, 1},	  {X, X, 1, 1},	  {X, X2, 1, 1},   {X, BAD, 0, 0},
		{X2, OFF, 1, 1},  {X2, X, 0, 1},  {X2, X2, 1, 1},  {X2, BAD, 0, 0},
	};
	const u64 base = APICBASE_DEFAULT;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		if (apicbase_valid(base | cases[i].from, base | cases[i].to, true, 40,
				   false) != cases[i].guest)
			fail_msg("guest case %u", i);
		if (apicbase_valid(base | cases[i].from, base | cases[i].to, true, 40,
				   true) != cases[i].host)
			fail_msg("host case %u", i);
	}
	assert_false(apicbase_valid(base | X, base | X2, false, 40, false));
	for (unsigned bit = 0; bit < 64; bit++) {
		bool ok = bit == 8 || (bit >= 11 && bit < 40);
		u64 value = bit == 10 ? base | BIT64(10) : base | X | BIT64(bit);

		if (apicbase_valid(base | X, value, true, 40, false) != ok)
			fail_msg("bit %u", bit);
	}
}

static void test_apicbase_moves_the_page(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;

	(void)state;
	assert_true(lapic_mmio_hits(l, 0xfee00000));
	assert_true(lapic_mmio_hits(l, 0xfee00fff));
	assert_false(lapic_mmio_hits(l, 0xfee01000));
	assert_false(lapic_mmio_hits(l, 0xfedfffff));
	fake_forget(f);
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, 0xfed40000 | 0x900, false));
	assert_int_equal(f->v[0].base_changes, 1);
	assert_false(lapic_mmio_hits(l, 0xfee00000));
	assert_true(lapic_mmio_hits(l, 0xfed40000));
	fake_destroy(f);
}

static void test_hole(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;

	(void)state;
	wr(l, APIC_TPR, 0x20);
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, APICBASE_DEFAULT, false));
	assert_true(lapic_mmio_hits(l, 0xfee00080));
	assert_int_equal(rd(l, APIC_TPR), 0xffffffff);
	wr(l, APIC_TPR, 0x30);
	lapic_set_cr8(l, 5); /* CR8 works while the APIC is disabled */
	assert_int_equal(lapic_get_cr8(l), 5);
	f->chip.no_mmio_hole_quirk = true;
	assert_false(lapic_mmio_hits(l, 0xfee00080));
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, APICBASE_DEFAULT | 0x800, false));
	assert_int_equal(rd(l, APIC_TPR), 0x50);
	enter_x2apic(l);
	assert_false(lapic_mmio_hits(l, 0xfee00080));
	f->chip.no_mmio_hole_quirk = false;
	assert_true(lapic_mmio_hits(l, 0xfee00080));
	assert_int_equal(rd(l, APIC_VERSION), 0xffffffff);
	fake_destroy(f);
}

static void test_cr8_and_tpr(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;

	(void)state;
	wr(l, APIC_TPR, 0x5a);
	assert_int_equal(lapic_get_cr8(l), 5);
	lapic_set_cr8(l, 7);
	assert_int_equal(rd(l, APIC_TPR), 0x70);
	fake_destroy(f);
}

static void test_software_disable_masks_lvts(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;

	(void)state;
	wr(l, APIC_LVT1, 0x400);
	wr(l, APIC_LVTT, 0x40);
	wr(l, APIC_SVR, 0xff);
	assert_int_equal(rd(l, APIC_LVT1), 0x10400);
	assert_int_equal(rd(l, APIC_LVTT), 0x10040);
	wr(l, APIC_LVT1, 0x400); /* cannot be unmasked now */
	assert_int_equal(rd(l, APIC_LVT1), 0x10400);
	wr(l, APIC_SVR, 0x1ff);
	assert_int_equal(rd(l, APIC_LVT1), 0x10400); /* stays masked */
	wr(l, APIC_LVT1, 0x400);
	assert_int_equal(rd(l, APIC_LVT1), 0x400);
	fake_destroy(f);
}

static void test_lint0_of_bsp(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 2);

	(void)state;
	lapic_reset(f->v[0].l, false);
	lapic_reset(f->v[1].l, false);
	assert_int_equal(rd(f->v[0].l, APIC_LVT0), 0x700);
	assert_int_equal(rd(f->v[1].l, APIC_LVT0), 0x10000);
	f->chip.no_lint0_quirk = true;
	lapic_reset(f->v[0].l, false);
	assert_int_equal(rd(f->v[0].l, APIC_LVT0), 0x10000);
	fake_destroy(f);
}

static void test_init_keeps_id_and_base(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 2);
	struct lapic *l = f->v[1].l;
	u64 base;

	(void)state;
	wr(l, APIC_ID, 0x42000000);
	wr(l, APIC_LDR, 0x08000000);
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, 0xfed40800, false));
	lapic_post(l, 0x55);
	lapic_reset(l, true);
	assert_int_equal(rd(l, APIC_ID), 0x42000000);
	assert_int_equal(rd(l, APIC_LDR), 0);
	assert_int_equal(rd(l, APIC_SVR), 0xff);
	assert_false(lapic_is_pending(l));
	assert_true(lapic_msr_read(l, MSR_APIC_BASE, &base));
	assert_int_equal(base, 0xfed40800);
	lapic_reset(l, false);
	assert_int_equal(rd(l, APIC_ID), 0x01000000);
	assert_true(lapic_msr_read(l, MSR_APIC_BASE, &base));
	assert_int_equal(base, 0xfee00800);
	fake_destroy(f);
}

static void test_version_follows_features(void **state)
{
	struct fake *f = fake_create(IRQCHIP_SPLIT, 1);
	struct lapic *l = f->v[0].l;

	(void)state;
	assert_int_equal(rd(l, APIC_VERSION), 0x01050014);
	wr(l, APIC_SVR, 0x11ff);
	assert_int_equal(rd(l, APIC_SVR), 0x11ff);
	lapic_set_features(l, LAPIC_HAS_CMCI, 40);
	assert_int_equal(rd(l, APIC_VERSION), 0x00060014);
	wr(l, APIC_LVTCMCI, 0x10051);
	assert_int_equal(rd(l, APIC_LVTCMCI), 0x10051);
	/* Without TSC-deadline the mode bit cannot be set. */
	wr(l, APIC_LVTT, 0x40040);
	assert_int_equal(rd(l, APIC_LVTT), 0x40);
	fake_destroy(f);
}

/* --- image ------------------------------------------------------------------ */

static u32 image(const struct kvm_lapic_state *s, unsigned offset)
{
	u32 value;

	memcpy(&value, s->regs + offset, 4);
	return value;
}

static void image_set(struct kvm_lapic_state *s, unsigned offset, u32 value)
{
	memcpy(s->regs + offset, &value, 4);
}

static void test_image_round_trip(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 2);
	struct lapic *a = f->v[0].l, *b = f->v[1].l;
	struct kvm_lapic_state s, t;

	(void)state;
	wr(a, APIC_ID, 0x01000000);
	wr(a, APIC_LDR, 0x02000000);
	wr(a, APIC_TPR, 0x23);
	wr(a, APIC_LVT1, 0x8400);
	wr(a, APIC_LVTT, 0x20031);
	wr(a, APIC_TDCR, 0xb);
	wr(a, APIC_TMICT, 4000000);
	lapic_post(a, 0x81);
	assert_int_equal(fake_take(a), 0x81);
	lapic_post(a, 0x31);
	f->now += NS_MS;
	lapic_get_state(a, &s);
	assert_int_equal(image(&s, APIC_TMCCT), 3000000);
	assert_int_equal(image(&s, APIC_ISR + 0x40), 0x2);
	assert_int_equal(image(&s, APIC_PPR), 0x80);
	assert_int_equal(lapic_set_state(b, &s), 0);
	lapic_get_state(b, &t);
	assert_memory_equal(&s, &t, sizeof(s));
	assert_true(lapic_timer_next_ns(a) == lapic_timer_next_ns(b));
	/* The caches were derived anew. */
	assert_int_equal(fake_take(b), -1);
	lapic_eoi(b);
	assert_int_equal(fake_take(b), 0x31);
	fake_destroy(f);
}

static void test_image_id_formats(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 2);
	struct lapic *l = f->v[1].l;
	struct kvm_lapic_state s;

	(void)state;
	enter_x2apic(l);
	assert_true(lapic_msr_write(l, 0x830, 0x0000000500000040ull, false));
	lapic_get_state(l, &s);
	assert_int_equal(image(&s, APIC_ID), 0x01000000);
	assert_int_equal(image(&s, APIC_ICR2), 5);
	assert_int_equal(image(&s, APIC_LDR), 2);
	assert_int_equal(lapic_set_state(l, &s), 0);
	f->chip.x2apic_format = true;
	lapic_get_state(l, &s);
	assert_int_equal(image(&s, APIC_ID), 1);
	assert_int_equal(lapic_set_state(l, &s), 0);
	image_set(&s, APIC_ID, 2);
	assert_true(lapic_set_state(l, &s) < 0);
	fake_destroy(f);
}

static void test_image_of_garbage_is_survived(void **state)
{
	struct fake *f = fake_create(IRQCHIP_KERNEL, 1);
	struct lapic *l = f->v[0].l;
	struct kvm_lapic_state s, t;

	(void)state;
	memset(&s, 0xff, sizeof(s));
	assert_int_equal(lapic_set_state(l, &s), 0);
	lapic_get_state(l, &t);
	assert_int_equal(rd(l, APIC_PPR), 0xff);
	for (unsigned i = 0; i < 300; i++)
		lapic_eoi(l);
	assert_int_equal(l->isr_highest, -1);
	lapic_set_cr8(l, 0);
	/* Vectors 0 to 15 are of a class that is never above PPR. */
	for (int v = 255; v >= 16; v--) {
		assert_int_equal(fake_take(l), v);
		lapic_eoi(l);
	}
	assert_int_equal(fake_take(l), -1);
	fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reset_values),
		cmocka_unit_test(test_writable_bits),
		cmocka_unit_test(test_x2apic_msrs),
		cmocka_unit_test(test_x2apic_id_and_ldr),
		cmocka_unit_test(test_icr_is_kept),
		cmocka_unit_test(test_access_sizes),
		cmocka_unit_test(test_apicbase_transitions),
		cmocka_unit_test(test_apicbase_moves_the_page),
		cmocka_unit_test(test_hole),
		cmocka_unit_test(test_cr8_and_tpr),
		cmocka_unit_test(test_software_disable_masks_lvts),
		cmocka_unit_test(test_lint0_of_bsp),
		cmocka_unit_test(test_init_keeps_id_and_base),
		cmocka_unit_test(test_version_follows_features),
		cmocka_unit_test(test_image_round_trip),
		cmocka_unit_test(test_image_id_formats),
		cmocka_unit_test(test_image_of_garbage_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
