/* SPDX-License-Identifier: MIT */
#include "base/event.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A futex syscall on the word; -errno instead of -1. */
static long futex(_Atomic u32 *word, int op, u32 value, const struct timespec *until)
{
	long r = syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, until, NULL,
			 FUTEX_BITSET_MATCH_ANY);

	return r < 0 ? -errno : r;
}

enum wait_result wait_sleep(struct vcpu_wait *w, u64 until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000ull),
		.tv_nsec = (long)(until_ns % 1000000000ull),
	};
	long r;

	if (!wait_step_arm(w))
		return WAIT_WOKEN;
	/* The bitset form alone takes an absolute CLOCK_MONOTONIC time. */
	r = futex(&w->word, FUTEX_WAIT_BITSET, WAIT_SLEEPING << WAIT_MODE_SHIFT,
		  until_ns == WAIT_FOREVER ? NULL : &until);
	wait_step_disarm(w);
	if (r == -ETIMEDOUT)
		return WAIT_TIMEOUT;
	return r == -EINTR ? WAIT_INTERRUPTED : WAIT_WOKEN;
}

bool wait_kick(struct vcpu_wait *w)
{
	int saved_errno = errno;

	if (!wait_step_post(w))
		return false;
	futex(&w->word, FUTEX_WAKE, 1, NULL);
	errno = saved_errno;
	return true;
}
