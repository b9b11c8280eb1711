/* SPDX-License-Identifier: MIT */
/* The clock structure's arithmetic, against exact integer division. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "pv/pvclock.h"

static const u32 rates_khz[] = { 1, 999, 1000, 32768, 999999, 1000000, 1000001, 1999999,
				 2000000, 2000001, 2595124, 2999999, 4000000, 5800001,
				 ~0u };

/* What the scale promises: mul fills 32 bits, so the error is a few 2^-31. */
static void scale_is_exact_to_2_parts_in_2_31(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rates_khz); i++) {
		struct pvclock_scale s = pvclock_scale_from_khz(rates_khz[i]);
		u64 ticks = (u64)rates_khz[i] * 1000 * 3600; /* an hour */
		u64 exact = clock_mul_div(ticks, 1000000, rates_khz[i]);
		u64 got = pvclock_ticks_to_ns(s, ticks);
		u64 diff = got > exact ? got - exact : exact - got;

		assert_true(s.mul >= 1u << 30);
		assert_true(diff <= (exact >> 30) + 2);
	}
}

static void time_never_goes_backwards_with_the_counter(void **state)
{
	struct pvclock_scale s = pvclock_scale_from_khz(2595124);
	u64 last = 0;

	(void)state;
	for (u64 t = 0; t < 100000; t++) {
		u64 ns = pvclock_ticks_to_ns(s, t);

		assert_true(ns >= last);
		last = ns;
	}
}

static void reading_adds_the_difference_to_the_base(void **state)
{
	struct pvclock_scale s = pvclock_scale_from_khz(1000000);
	struct pvclock_vcpu_time_info i = {
		.tsc_timestamp = ~0ull - 9, /* the counter wraps between the two */
		.system_time = 5000,
		.tsc_to_system_mul = s.mul,
		.tsc_shift = s.shift,
	};

	(void)state;
	assert_int_equal(sizeof(i), 32);
	assert_int_equal(pvclock_read(&i, 90), 5100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scale_is_exact_to_2_parts_in_2_31),
		cmocka_unit_test(time_never_goes_backwards_with_the_counter),
		cmocka_unit_test(reading_adds_the_difference_to_the_base),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
