/* SPDX-License-Identifier: MIT */
/*
 * The kick and sleep protocol of base/event.h.
 *
 * Its steps are the real functions; the futex is modelled as the kernel defines
 * it (compare and block in one step).  Every interleaving of an owner with up
 * to two senders is run.  The same search must find the lost wake-up in each
 * protocol with one mistake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/event.h"

enum mistake {
	NONE,
	SENDER_KICKS_FIRST,  /* kick, then publish */
	OWNER_LOOKS_FIRST,   /* look, then forget old kicks */
	SENDER_PEEKS_MODE,   /* wake if SLEEPING is seen, without marking */
	OWNER_FORCES_SLEEP,  /* SLEEPING by a plain store, whatever was marked */
	OWNER_SKIPS_COMPARE, /* sleep without the futex's comparison */
};

struct model {
	struct vcpu_wait w;
	unsigned published; /* what senders left; the owner takes all at once */
	unsigned taken, senders;
	int owner; /* program counter */
	int sender[2];
	bool blocked, must_wake[2];
};

enum { O_PREPARE, O_LOOK, O_ARM, O_FUTEX, O_BLOCKED, O_DISARM, O_DONE };
enum { S_FIRST, S_SECOND, S_WAKE, S_DONE };

static enum mistake mistake;
static unsigned long runs;
static bool lost;

static bool owner_look(struct model *m)
{
	bool found = m->published;

	m->taken += m->published;
	m->published = 0;
	return found;
}

static void owner_step(struct model *m)
{
	bool look_first = mistake == OWNER_LOOKS_FIRST;
	bool look_now = m->owner == O_LOOK;

	switch (m->owner) {
	case O_PREPARE:
	case O_LOOK:
		if (look_first)
			look_now = !look_now;
		if (!look_now) {
			wait_prepare(&m->w);
			m->owner++;
		} else if (owner_look(m)) {
			m->owner = m->taken == m->senders ? O_DONE : O_PREPARE;
		} else {
			m->owner++;
		}
		break;
	case O_ARM:
		if (mistake == OWNER_FORCES_SLEEP)
			atomic_store(&m->w.word, WAIT_SLEEPING << WAIT_MODE_SHIFT);
		else if (!wait_step_arm(&m->w)) {
			m->owner = O_PREPARE;
			break;
		}
		m->owner = O_FUTEX;
		break;
	case O_FUTEX:
		m->blocked = mistake == OWNER_SKIPS_COMPARE ||
			     atomic_load(&m->w.word) == WAIT_SLEEPING << WAIT_MODE_SHIFT;
		m->owner = m->blocked ? O_BLOCKED : O_DISARM;
		break;
	case O_BLOCKED:
		m->owner = O_DISARM;
		break;
	case O_DISARM:
		wait_step_disarm(&m->w);
		m->owner = O_PREPARE;
		break;
	default:
		fail();
	}
}

static void sender_post(struct model *m, unsigned i)
{
	if (mistake == SENDER_PEEKS_MODE)
		m->must_wake[i] = wait_mode(&m->w) == WAIT_SLEEPING;
	else
		m->must_wake[i] = wait_step_post(&m->w);
}

static void sender_step(struct model *m, unsigned i)
{
	bool publish = (m->sender[i] == S_FIRST) != (mistake == SENDER_KICKS_FIRST);

	if (m->sender[i] == S_WAKE) {
		m->blocked = false;
		m->sender[i] = S_DONE;
		return;
	}
	if (publish)
		m->published++;
	else
		sender_post(m, i);
	m->sender[i]++;
	if (m->sender[i] == S_WAKE && !m->must_wake[i])
		m->sender[i] = S_DONE;
}

static void explore(struct model m)
{
	bool moved = false;

	if (m.owner != O_DONE && !(m.owner == O_BLOCKED && m.blocked)) {
		struct model next = m;

		owner_step(&next);
		moved = true;
		explore(next);
	}
	for (unsigned i = 0; i < m.senders; i++) {
		struct model next = m;

		if (m.sender[i] == S_DONE)
			continue;
		sender_step(&next, i);
		moved = true;
		explore(next);
	}
	if (moved)
		return;
	runs++;
	if (m.owner != O_DONE)
		lost = true;
}

static void search(enum mistake what, unsigned senders)
{
	mistake = what;
	runs = 0;
	lost = false;
	explore((struct model){.senders = senders});
}

static void test_no_wakeup_is_lost(void **state)
{
	(void)state;
	for (unsigned senders = 1; senders <= 2; senders++) {
		search(NONE, senders);
		assert_false(lost);
		print_message("%u sender(s): %lu interleavings\n", senders, runs);
		assert_true(runs > 10);
	}
}

static void test_each_mistake_is_found(void **state)
{
	(void)state;
	for (enum mistake m = SENDER_KICKS_FIRST; m <= OWNER_SKIPS_COMPARE; m++) {
		search(m, 1);
		if (!lost)
			fail_msg("mistake %d was not found in %lu runs", (int)m, runs);
	}
}

static void test_word(void **state)
{
	struct vcpu_wait w;

	(void)state;
	wait_init(&w);
	assert_int_equal(wait_mode(&w), WAIT_OUT);
	assert_false(wait_is_kicked(&w));
	assert_false(wait_kick(&w));
	assert_true(wait_is_kicked(&w));
	wait_prepare(&w);
	assert_int_equal(wait_mode(&w), WAIT_RUNNING);
	assert_false(wait_is_kicked(&w));
	wait_kick(&w);
	assert_int_equal(wait_sleep(&w, WAIT_FOREVER), WAIT_WOKEN);
	assert_int_equal(wait_mode(&w), WAIT_RUNNING);
	wait_leave(&w);
	assert_int_equal(wait_mode(&w), WAIT_OUT);
	assert_true(wait_is_kicked(&w));
}

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

static void test_timeout(void **state)
{
	struct vcpu_wait w = {0};
	u64 until = now_ns() + 3000000;

	(void)state;
	wait_prepare(&w);
	assert_int_equal(wait_sleep(&w, until), WAIT_TIMEOUT);
	assert_true(now_ns() >= until);
	wait_prepare(&w);
	assert_int_equal(wait_sleep(&w, 1), WAIT_TIMEOUT);
	assert_int_equal(wait_mode(&w), WAIT_RUNNING);
}

static struct vcpu_wait shared;
static _Atomic unsigned mailbox;

#define KICKS 50000u

static void *send_many(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < KICKS; i++) {
		atomic_fetch_add(&mailbox, 1);
		wait_kick(&shared);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t thread[2];
	unsigned got = 0;

	(void)state;
	wait_init(&shared);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, send_many, NULL), 0);
	while (got < 2 * KICKS) {
		unsigned n;

		wait_prepare(&shared);
		n = atomic_exchange(&mailbox, 0);
		got += n;
		if (!n)
			assert_int_not_equal(
				wait_sleep(&shared, now_ns() + 10000000000ull),
				WAIT_TIMEOUT);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(got, 2 * KICKS);
}

static void on_alarm(int sig)
{
	int saved = errno;

	(void)sig;
	errno = 4321;
	wait_kick(&shared);
	if (errno != 4321)
		_exit(1);
	errno = saved;
}

static void test_kick_from_signal_handler(void **state)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	timer_t timer;
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	struct itimerspec when = {.it_value = {.tv_nsec = 1}};

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &sa, NULL), 0);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
	for (long i = 0; i < 200; i++) {
		wait_prepare(&shared);
		/* Before, at, and after the call: at various distances. */
		when.it_value.tv_nsec = 1 + i * 500;
		assert_int_equal(timer_settime(timer, 0, &when, NULL), 0);
		assert_int_not_equal(wait_sleep(&shared, now_ns() + 10000000000ull),
				     WAIT_TIMEOUT);
		while (!wait_is_kicked(&shared))
			;
	}
	timer_delete(timer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_wakeup_is_lost),
		cmocka_unit_test(test_each_mistake_is_found),
		cmocka_unit_test(test_word),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_kick_from_signal_handler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
