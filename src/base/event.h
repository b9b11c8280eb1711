/* SPDX-License-Identifier: MIT */
/*
 * Sleeping and being woken: the protocol between the thread that runs a vCPU
 * and those that have something for it.
 *
 * One word: bit 0 KICKED, bits 2:1 enum wait_mode.  The rule that loses no
 * wake-up:
 *
 *   sender                           owner
 *   1 publish (IRR bit, attn bit)    1 wait_prepare(): forget old kicks
 *   2 wait_kick(): set KICKED        2 look at everything published
 *     and wake if SLEEPING           3 wait_sleep(): SLEEPING unless KICKED
 *
 * What is published after the owner looked sets KICKED after wait_prepare()
 * cleared it, so wait_sleep() returns at once or is woken.  Every step is one
 * locked instruction, hence also a full barrier.  tests/unit/base/event.c
 * enumerates the interleavings of the steps below.
 */
#ifndef LOCUM_BASE_EVENT_H
#define LOCUM_BASE_EVENT_H

#include <stdatomic.h>

#include "base/bits.h"

#define WAIT_KICKED	BIT(0)
#define WAIT_MODE_SHIFT 1

/* What the owner is doing. */
enum wait_mode {
	WAIT_OUT,      /* not inside KVM_RUN: looks at everything when it enters */
	WAIT_RUNNING,  /* executing guest code or about to; polls its attention word */
	WAIT_SLEEPING, /* in, or about to enter, the futex wait */
};

/* Why wait_sleep() returned. */
enum wait_result {
	WAIT_WOKEN,	  /* kicked, before or during the sleep, or spuriously */
	WAIT_TIMEOUT,	  /* the time has come */
	WAIT_INTERRUPTED, /* a signal handler ran */
};

#define WAIT_FOREVER (~0ull)

/** struct vcpu_wait - embed one per vCPU; all zero is a valid initial state */
struct vcpu_wait {
	_Atomic u32 word; /* KICKED | mode << WAIT_MODE_SHIFT; also the futex */
};

/** wait_init() - mode WAIT_OUT, not kicked */
static inline void wait_init(struct vcpu_wait *w)
{
	atomic_store(&w->word, 0);
}

/** wait_mode() - what the owner was doing a moment ago; any thread */
static inline enum wait_mode wait_mode(const struct vcpu_wait *w)
{
	return (enum wait_mode)(atomic_load(&w->word) >> WAIT_MODE_SHIFT);
}

/** wait_is_kicked() - kicked since the last wait_prepare(); any thread */
static inline bool wait_is_kicked(const struct vcpu_wait *w)
{
	return atomic_load(&w->word) & WAIT_KICKED;
}

/**
 * wait_prepare() - forget old kicks and become WAIT_RUNNING; owner only
 *
 * After it the owner must look at everything that senders publish, and only
 * then call wait_sleep() or enter the guest.  A full barrier.
 */
static inline void wait_prepare(struct vcpu_wait *w)
{
	atomic_exchange(&w->word, WAIT_RUNNING << WAIT_MODE_SHIFT);
}

/** wait_leave() - become WAIT_OUT, keeping KICKED; owner only */
static inline void wait_leave(struct vcpu_wait *w)
{
	atomic_fetch_and(&w->word, WAIT_KICKED);
}

/*
 * The two steps of wait_sleep() and the one of wait_kick(), apart so that the
 * tests can interleave the real ones.
 */

/** wait_step_arm() - owner: become SLEEPING
 * Return: false if kicked since wait_prepare(): do not sleep. */
static inline bool wait_step_arm(struct vcpu_wait *w)
{
	u32 old = WAIT_RUNNING << WAIT_MODE_SHIFT;

	return atomic_compare_exchange_strong(&w->word, &old,
					      WAIT_SLEEPING << WAIT_MODE_SHIFT);
}

/** wait_step_disarm() - owner: SLEEPING becomes RUNNING, keeping KICKED */
static inline void wait_step_disarm(struct vcpu_wait *w)
{
	/* SLEEPING (2) to RUNNING (1) without losing a kick that comes now. */
	atomic_fetch_sub(&w->word, 1u << WAIT_MODE_SHIFT);
}

/** wait_step_post() - sender: set KICKED
 * Return: true if the owner must be woken by FUTEX_WAKE. */
static inline bool wait_step_post(struct vcpu_wait *w)
{
	u32 old = atomic_fetch_or(&w->word, WAIT_KICKED);

	return old == WAIT_SLEEPING << WAIT_MODE_SHIFT;
}

/**
 * wait_sleep() - sleep until kicked, @until_ns, or a signal; owner only
 * @until_ns: absolute CLOCK_MONOTONIC nanoseconds; WAIT_FOREVER for no limit
 *
 * wait_prepare() was called before and nothing to do was found since.  On
 * return the mode is WAIT_RUNNING; call wait_prepare() again before the next
 * look.  Holds no lock; the caller holds none.  May return WAIT_WOKEN without
 * cause.
 */
enum wait_result wait_sleep(struct vcpu_wait *w, u64 until_ns);

/**
 * wait_kick() - make the owner look again; after publishing
 *
 * Any thread, any signal handler (async-signal-safe, errno kept).  Makes a
 * system call only if the owner sleeps.
 * Return: true if the owner slept and was woken.
 */
bool wait_kick(struct vcpu_wait *w);

#endif
