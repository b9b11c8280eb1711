/* SPDX-License-Identifier: MIT */
/* The VM's timer thread: deadlines fire, in time, once, and re-arm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/bits.h"
#include "vm/timer.h"

static struct timer t;
static struct timer_slot slots[4];
static _Atomic u64 fired_at[4];
static _Atomic u32 count[4];

static u64 now(void)
{
	return clock_host()->now_ns(clock_host());
}

static void fire(void *opaque)
{
	size_t i = (size_t)opaque;

	atomic_store(&fired_at[i], now());
	atomic_fetch_add(&count[i], 1);
}

static int start(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		slots[i] = (struct timer_slot){ .fire = fire, .opaque = (void *)i };
		atomic_store(&count[i], 0);
	}
	return timer_start(&t, clock_host(), slots, 4);
}

static int stop(void **state)
{
	(void)state;
	timer_stop(&t);
	return 0;
}

static void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static void wait_for(size_t slot, u32 n)
{
	for (int i = 0; i < 2000 && atomic_load(&count[slot]) < n; i++)
		sleep_ms(1);
	assert_int_equal(atomic_load(&count[slot]), n);
}

static void an_earlier_deadline_overtakes(void **state)
{
	u64 base = now();

	(void)state;
	timer_arm(&t, &slots[0], base + 60000000);
	sleep_ms(2); /* the thread sleeps by now */
	timer_arm(&t, &slots[1], base + 10000000);
	wait_for(1, 1);
	assert_true(atomic_load(&fired_at[1]) >= base + 10000000);
	wait_for(0, 1);
	assert_true(atomic_load(&fired_at[0]) >= base + 60000000);
}

static void a_disarmed_slot_stays_silent(void **state)
{
	(void)state;
	timer_arm(&t, &slots[2], now() + 20000000);
	timer_arm(&t, &slots[2], TIMER_NEVER);
	sleep_ms(40);
	assert_int_equal(atomic_load(&count[2]), 0);
}

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* 200 short deadlines: none lost; the delay is printed (it is the host's). */
static void none_of_many_is_lost(void **state)
{
	u64 late[200];

	(void)state;
	for (u32 i = 0; i < 200; i++) {
		u64 deadline = now() + 200000 + i * 1000;

		timer_arm(&t, &slots[3], deadline);
		wait_for(3, i + 1);
		late[i] = atomic_load(&fired_at[3]) - deadline;
		assert_true(atomic_load(&fired_at[3]) >= deadline);
	}
	qsort(late, 200, sizeof(late[0]), by_value);
	print_message("TABLE timer delay: median %llu us, p99 %llu us\n", late[100] / 1000,
		      late[198] / 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_earlier_deadline_overtakes, start, stop),
		cmocka_unit_test_setup_teardown(a_disarmed_slot_stays_silent, start, stop),
		cmocka_unit_test_setup_teardown(none_of_many_is_lost, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
