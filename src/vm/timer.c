/* SPDX-License-Identifier: MIT */
#include "vm/timer.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void futex_wait_until(_Atomic u32 *word, u32 value, u64 deadline_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline_ns / 1000000000),
		.tv_nsec = (long)(deadline_ns % 1000000000),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value,
		deadline_ns == TIMER_NEVER ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void wake_thread(struct timer *t)
{
	atomic_fetch_add(&t->word, 1);
	syscall(SYS_futex, &t->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static u64 earliest(const struct timer *t)
{
	u64 min = TIMER_NEVER;

	for (unsigned i = 0; i < t->count; i++)
		min = MIN(min, atomic_load(&t->slots[i].deadline_ns));
	return min;
}

static void fire_due(struct timer *t)
{
	u64 now = t->clock->now_ns(t->clock);

	for (unsigned i = 0; i < t->count; i++) {
		struct timer_slot *s = &t->slots[i];
		u64 deadline = atomic_load(&s->deadline_ns);

		if (deadline > now)
			continue;
		/* Lost to a timer_arm(): the next pass sees its deadline. */
		if (atomic_compare_exchange_strong(&s->deadline_ns, &deadline,
						   TIMER_NEVER))
			s->fire(s->opaque);
	}
}

static void *timer_main(void *opaque)
{
	struct timer *t = opaque;

	prctl(PR_SET_NAME, "locum-timer");
	prctl(PR_SET_TIMERSLACK, 1);
	while (!atomic_load(&t->stop)) {
		u32 word = atomic_load(&t->word);
		u64 next = earliest(t);

		atomic_store(&t->next_ns, next);
		/* Pairs with timer_arm(): it stores a deadline, then reads
		 * next_ns; we store next_ns, then read the deadlines again. */
		if (earliest(t) >= next && !atomic_load(&t->stop))
			futex_wait_until(&t->word, word, next);
		atomic_store(&t->next_ns, 0);
		fire_due(t);
	}
	return NULL;
}

int timer_start(struct timer *t, const struct clock *clock, struct timer_slot *slots,
		unsigned count)
{
	sigset_t all, old;
	int r;

	t->clock = clock;
	t->slots = slots;
	t->count = count;
	atomic_init(&t->word, 0);
	atomic_init(&t->next_ns, 0);
	atomic_init(&t->stop, false);
	for (unsigned i = 0; i < count; i++)
		atomic_init(&slots[i].deadline_ns, TIMER_NEVER);
	/* The thread is born with every signal blocked. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	r = pthread_create(&t->thread, NULL, timer_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

void timer_stop(struct timer *t)
{
	atomic_store(&t->stop, true);
	wake_thread(t);
	pthread_join(t->thread, NULL);
}

void timer_arm(struct timer *t, struct timer_slot *slot, u64 deadline_ns)
{
	if (deadline_ns == TIMER_NEVER &&
	    atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed) == TIMER_NEVER)
		return;
	atomic_store(&slot->deadline_ns, deadline_ns);
	if (deadline_ns < atomic_load(&t->next_ns))
		wake_thread(t);
}
