/* SPDX-License-Identifier: MIT */
/*
 * One thread per VM that calls back at deadlines: the 8254, and the LAPIC
 * timers of vCPUs that are busy running guest code.  (A halted vCPU sleeps
 * until its own deadline and disarms its slot.)
 *
 * Arming takes no lock, and no system call unless the new deadline is earlier
 * than everything the thread waits for.
 */
#ifndef LOCUM_VM_TIMER_H
#define LOCUM_VM_TIMER_H

#include <pthread.h>

#include "base/clock.h"

#define TIMER_NEVER (~0ull)

/** struct timer_slot - one deadline
 * @deadline_ns: monotonic, TIMER_NEVER when disarmed
 * @fire: called on the timer thread, after the slot was disarmed; may arm it */
struct timer_slot {
	_Atomic u64 deadline_ns;
	void (*fire)(void *opaque);
	void *opaque;
};

struct timer {
	pthread_t thread;
	const struct clock *clock;
	struct timer_slot *slots; /* `count`, of the owner */
	unsigned count;
	_Atomic u32 word;	  /* futex */
	_Atomic u64 next_ns;	  /* what the thread sleeps until; 0 = awake */
	_Atomic bool stop;
};

/**
 * timer_start() - start the thread
 * @slots: @count slots, zero-filled by the caller; live as long as @t
 * Return: 0 or -errno.
 */
int timer_start(struct timer *t, const struct clock *clock, struct timer_slot *slots,
		unsigned count) must_check;

/** timer_stop() - end the thread; no callback runs afterwards */
void timer_stop(struct timer *t);

/** timer_arm() - call @slot's function at @deadline_ns (TIMER_NEVER: not at
 * all); any thread.  A callback under way is not waited for. */
void timer_arm(struct timer *t, struct timer_slot *slot, u64 deadline_ns);

#endif
