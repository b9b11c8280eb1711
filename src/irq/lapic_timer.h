/* SPDX-License-Identifier: MIT */
/*
 * The LAPIC timer: one-shot, periodic, TSC deadline.
 *
 * No host timer: the owner of the vCPU calls lapic_timer_run() when
 * lapic_timer_next_ns() has come.  A halted vCPU sleeps until then (wait_sleep()
 * takes that time).  For a running one either its thread compares the clock at
 * its polls, or a helper thread reads lapic_timer_next_ns() (any thread may) and
 * sets the attention bit.  lapic_timer_run() is cheap when nothing is due, so it
 * may simply be called before every entry.
 *
 * The bus clock is 1 GHz (one tick a nanosecond), KVM's default.  A period
 * below 200 us is raised to that, as in KVM.  A tick at a masked LVT is lost
 * (KVM keeps one; hardware does not).
 */
#ifndef LOCUM_IRQ_LAPIC_TIMER_H
#define LOCUM_IRQ_LAPIC_TIMER_H

#include "irq/lapic.h"

#define LAPIC_TIMER_NEVER	  (~0ull)
#define LAPIC_TIMER_MIN_PERIOD_NS 200000ull

/** lapic_timer_next_ns() - absolute clock->now_ns() of the next expiry, or
 * LAPIC_TIMER_NEVER.  Any thread. */
static inline u64 lapic_timer_next_ns(const struct lapic *l)
{
	return atomic_load(&l->timer.expiry_ns);
}

/**
 * lapic_timer_run() - let the timer expire if it is due at @now_ns; vCPU thread
 * Posts LVTT's vector (ops->request() as usual).  Several periods missed give one
 * tick; the phase is kept.
 * Return: true if it expired.
 */
bool lapic_timer_run(struct lapic *l, u64 now_ns);

/** lapic_timer_tsc_changed() - the guest TSC jumped or changed its rate: recompute
 * the expiry of an armed deadline */
void lapic_timer_tsc_changed(struct lapic *l);

/* Inside the layer: register side effects.  vCPU thread. */
void lapic_timer_reset(struct lapic *l);
void lapic_timer_write_lvtt(struct lapic *l, u32 value);
void lapic_timer_write_tmict(struct lapic *l, u32 value);
void lapic_timer_write_tdcr(struct lapic *l, u32 value);
void lapic_timer_write_deadline(struct lapic *l, u64 value);
u32 lapic_timer_current(struct lapic *l);
u64 lapic_timer_deadline(struct lapic *l);
/** lapic_timer_restore() - registers were loaded; @remaining: TMCCT as saved */
void lapic_timer_restore(struct lapic *l, u32 remaining);

#endif
