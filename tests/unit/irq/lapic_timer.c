/* SPDX-License-Identifier: MIT */
/* The LAPIC timer on a clock that the test moves. */
#include "unit/irq/fake.h"

static struct fake *f;
static struct lapic *l;

static int setup(void **state)
{
	(void)state;
	f = fake_create(IRQCHIP_KERNEL, 1);
	l = f->v[0].l;
	wr(l, APIC_TDCR, 0xb); /* divide by 1: a tick is a nanosecond */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_destroy(f);
	return 0;
}

/* Move the clock and let the timer run, as a vCPU's polls do. */
static bool advance(u64 ns)
{
	f->now += ns;
	return lapic_timer_run(l, f->now);
}

static void test_divisors(void **state)
{
	static const struct {
		u32 tdcr, divisor;
	} cases[] = {{0, 2},  {1, 4},  {2, 8},	  {3, 16},
		     {8, 32}, {9, 64}, {10, 128}, {11, 1}};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		wr(l, APIC_TDCR, cases[i].tdcr);
		wr(l, APIC_TMICT, 1000000);
		if (lapic_timer_next_ns(l) != f->now + 1000000ull * cases[i].divisor)
			fail_msg("divide configuration %u", cases[i].tdcr);
	}
}

static void test_one_shot(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000000);
	assert_int_equal(rd(l, APIC_TMICT), 1000000);
	assert_int_equal(rd(l, APIC_TMCCT), 1000000);
	assert_true(lapic_timer_next_ns(l) == f->now + 1000000);
	assert_false(advance(999999));
	assert_int_equal(rd(l, APIC_TMCCT), 1);
	assert_int_equal(fake_take(l), -1);
	assert_true(advance(1));
	assert_int_equal(rd(l, APIC_TMCCT), 0);
	assert_int_equal(fake_take(l), 0x31);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	assert_false(advance(NS_MS * 1000)); /* once */
	assert_int_equal(rd(l, APIC_TMICT), 1000000);
}

static void test_count_of_zero_stops(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000000);
	wr(l, APIC_TMICT, 0);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	assert_int_equal(rd(l, APIC_TMCCT), 0);
}

static void test_periodic_keeps_its_phase(void **state)
{
	u64 start = f->now;

	(void)state;
	wr(l, APIC_LVTT, LVTT_PERIODIC | 0x31);
	wr(l, APIC_TMICT, 1000000);
	assert_true(advance(1000300));
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	assert_true(lapic_timer_next_ns(l) == start + 2000000);
	assert_int_equal(rd(l, APIC_TMCCT), 999700);
	/* Five periods missed: one tick, and the phase stays. */
	assert_true(advance(5000000));
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	assert_int_equal(fake_take(l), -1);
	assert_true(lapic_timer_next_ns(l) == start + 7000000);
}

static void test_tick_while_one_is_requested_coalesces(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, LVTT_PERIODIC | 0x31);
	wr(l, APIC_TMICT, 1000000);
	fake_forget(f);
	assert_true(advance(1000000));
	assert_true(advance(1000000));
	assert_int_equal(asked(l, IRQ_REQ_APIC), 1);
	assert_int_equal(fake_take(l), 0x31);
	assert_true(advance(1000000)); /* one in service, one requested */
	lapic_eoi(l);
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	assert_int_equal(fake_take(l), -1);
}

static void test_short_periods_are_raised(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, LVTT_PERIODIC | 0x31);
	wr(l, APIC_TMICT, 100);
	assert_true(lapic_timer_next_ns(l) == f->now + 200000);
	assert_int_equal(rd(l, APIC_TMCCT), 100);
	wr(l, APIC_LVTT, 0x31); /* one-shot may be short */
	wr(l, APIC_TMICT, 100);
	assert_true(lapic_timer_next_ns(l) == f->now + 100);
}

static void test_mode_changes(void **state)
{
	(void)state;
	/* One-shot to periodic: counts on, then wraps. */
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000000);
	f->now += 400000;
	wr(l, APIC_LVTT, LVTT_PERIODIC | 0x31);
	assert_int_equal(rd(l, APIC_TMICT), 1000000);
	assert_int_equal(rd(l, APIC_TMCCT), 600000);
	assert_true(advance(600000));
	assert_int_equal(rd(l, APIC_TMCCT), 1000000);
	/* Periodic to one-shot: reaches zero and stays there. */
	f->now += 100000;
	wr(l, APIC_LVTT, 0x31);
	assert_int_equal(rd(l, APIC_TMCCT), 900000);
	assert_true(advance(900000));
	assert_int_equal(rd(l, APIC_TMCCT), 0);
	/* Switched after the expiry: stays at zero. */
	wr(l, APIC_LVTT, LVTT_PERIODIC | 0x31);
	assert_int_equal(rd(l, APIC_TMICT), 1000000);
	assert_int_equal(rd(l, APIC_TMCCT), 0);
	assert_false(advance(NS_MS * 10));
}

static void test_mode_change_to_and_from_deadline_stops(void **state)
{
	u64 value;

	(void)state;
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000000);
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	assert_int_equal(rd(l, APIC_TMICT), 0);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	wr(l, APIC_TMICT, 1000); /* ignored in this mode */
	assert_int_equal(rd(l, APIC_TMICT), 0);
	assert_true(lapic_msr_write(l, MSR_TSC_DEADLINE, f->now * 2 + 1000, false));
	assert_int_equal(rd(l, APIC_TMCCT), 0);
	wr(l, APIC_LVTT, 0x31);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	assert_true(lapic_msr_read(l, MSR_TSC_DEADLINE, &value));
	assert_int_equal(value, 0);
	assert_true(lapic_msr_write(l, MSR_TSC_DEADLINE, 5, false)); /* ignored */
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	assert_true(lapic_msr_read(l, MSR_TSC_DEADLINE, &value));
	assert_int_equal(value, 0);
	assert_int_equal(fake_take(l), -1);
}

static void arm_deadline(u64 tsc)
{
	assert_true(lapic_msr_write(l, MSR_TSC_DEADLINE, tsc, false));
}

static u64 deadline(void)
{
	u64 value;

	assert_true(lapic_msr_read(l, MSR_TSC_DEADLINE, &value));
	return value;
}

static void test_deadline(void **state)
{
	u64 tsc = f->now * 2;

	(void)state;
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	arm_deadline(tsc + 2000000);
	assert_true(deadline() == tsc + 2000000);
	assert_true(lapic_timer_next_ns(l) == f->now + 1000000);
	assert_false(advance(999999));
	assert_true(advance(1));
	assert_int_equal(deadline(), 0);
	assert_int_equal(fake_take(l), 0x31);
	assert_false(advance(NS_MS * 10)); /* once */
	arm_deadline(f->now * 2 + 1);	   /* half a nanosecond: never early */
	assert_true(lapic_timer_next_ns(l) == f->now + 1);
	arm_deadline(0);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	arm_deadline(~0ull); /* centuries ahead, no overflow */
	assert_true(lapic_timer_next_ns(l) > f->now + 1000000000ull * 1000000);
}

static void test_deadline_in_the_past(void **state)
{
	(void)state;
	/* Inside an IF=0 section: it stays requested. */
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	lapic_eoi(l);
	arm_deadline(1);
	assert_int_equal(deadline(), 0);
	assert_true(has_irr(l, 0x31));
	/* Rewritten before it was delivered: one more may come after it. */
	arm_deadline(f->now * 2 + 2000);
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	assert_true(advance(1000));
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	/* Masked afterwards: what is in IRR stays. */
	arm_deadline(1);
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | LVT_MASKED | 0x31);
	assert_int_equal(fake_take(l), 0x31);
}

static void test_deadline_follows_the_guest_tsc(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	f->v[0].tsc_offset = -1000;
	arm_deadline(f->now * 2 + 1000);
	assert_true(lapic_timer_next_ns(l) == f->now + 1000);
	f->v[0].tsc_offset = 500;
	lapic_timer_tsc_changed(l);
	assert_true(lapic_timer_next_ns(l) == f->now + 250);
	/* TSC set back without notice: not early. */
	f->v[0].tsc_offset = 0;
	assert_false(advance(250));
	assert_true(lapic_timer_next_ns(l) == f->now + 250);
	f->v[0].tsc_offset = 100000;
	lapic_timer_tsc_changed(l);
	assert_int_equal(fake_take(l), 0x31);
}

static void test_masked_tick_is_lost(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, LVT_MASKED | 0x31);
	wr(l, APIC_TMICT, 1000);
	assert_true(advance(1000));
	wr(l, APIC_LVTT, 0x31);
	assert_int_equal(fake_take(l), -1);
}

static void test_due_tick_is_taken_before_a_register_changes(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000);
	f->now += 1500; /* expired, and nobody has called lapic_timer_run() */
	wr(l, APIC_LVTT, LVT_MASKED | 0x31);
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000);
	f->now += 1500;
	wr(l, APIC_TMICT, 5000);
	assert_int_equal(fake_take(l), 0x31);
	assert_true(lapic_timer_next_ns(l) == f->now + 5000);
}

static void test_divide_change_rescales(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000000);
	f->now += 400000;
	wr(l, APIC_TDCR, 0); /* divide by 2 */
	assert_int_equal(rd(l, APIC_TMCCT), 600000);
	assert_true(lapic_timer_next_ns(l) == f->now + 1200000);
}

static void test_software_disable_masks_the_timer(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000);
	wr(l, APIC_SVR, 0xff);
	assert_true(advance(1000));
	wr(l, APIC_SVR, 0x1ff);
	assert_int_equal(fake_take(l), -1);
}

static void test_reset_stops(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	arm_deadline(f->now * 2 + 1000);
	lapic_reset(l, true);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	wr(l, APIC_SVR, 0x1ff);
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	assert_int_equal(deadline(), 0);
}

static void test_reserved_mode_does_not_count(void **state)
{
	(void)state;
	wr(l, APIC_LVTT, LVTT_MODE | 0x31);
	wr(l, APIC_TMICT, 1000);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	assert_int_equal(rd(l, APIC_TMCCT), 0);
}

static void test_restored_one_shot(void **state)
{
	struct kvm_lapic_state s;

	(void)state;
	wr(l, APIC_LVTT, 0x31);
	wr(l, APIC_TMICT, 1000000);
	f->now += 300000;
	lapic_get_state(l, &s);
	f->now += 5 * NS_MS; /* time passes while the client keeps the state */
	assert_int_equal(lapic_set_state(l, &s), 0);
	assert_true(lapic_timer_next_ns(l) == f->now + 700000);
	/* One that had expired does not expire again. */
	assert_true(advance(700000));
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	lapic_get_state(l, &s);
	assert_int_equal(lapic_set_state(l, &s), 0);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	/* Expired but not seen before saving: it is in the saved IRR. */
	wr(l, APIC_TMICT, 1000);
	f->now += 2000;
	lapic_get_state(l, &s);
	lapic_reset(l, false);
	assert_int_equal(lapic_set_state(l, &s), 0);
	assert_int_equal(fake_take(l), 0x31);
}

static void test_restored_deadline(void **state)
{
	struct kvm_lapic_state s;

	(void)state;
	wr(l, APIC_LVTT, LVTT_TSCDEADLINE | 0x31);
	arm_deadline(f->now * 2 + 2000);
	lapic_get_state(l, &s);
	/* The same state again keeps it; from another mode it is gone, and the
	 * client writes the MSR after the registers. */
	assert_int_equal(lapic_set_state(l, &s), 0);
	assert_true(lapic_timer_next_ns(l) == f->now + 1000);
	lapic_reset(l, false);
	assert_int_equal(lapic_set_state(l, &s), 0);
	assert_true(lapic_timer_next_ns(l) == LAPIC_TIMER_NEVER);
	assert_true(lapic_msr_write(l, MSR_TSC_DEADLINE, f->now * 2 + 2000, true));
	assert_true(lapic_timer_next_ns(l) == f->now + 1000);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_divisors),
		T(test_one_shot),
		T(test_count_of_zero_stops),
		T(test_periodic_keeps_its_phase),
		T(test_tick_while_one_is_requested_coalesces),
		T(test_short_periods_are_raised),
		T(test_mode_changes),
		T(test_mode_change_to_and_from_deadline_stops),
		T(test_deadline),
		T(test_deadline_in_the_past),
		T(test_deadline_follows_the_guest_tsc),
		T(test_masked_tick_is_lost),
		T(test_due_tick_is_taken_before_a_register_changes),
		T(test_divide_change_rescales),
		T(test_software_disable_masks_the_timer),
		T(test_reset_stops),
		T(test_reserved_mode_does_not_count),
		T(test_restored_one_shot),
		T(test_restored_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
