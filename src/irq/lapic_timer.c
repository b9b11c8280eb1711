/* SPDX-License-Identifier: MIT */
#include "irq/lapic_timer.h"

#include "irq/irqchip.h"

static u64 now_ns(const struct lapic *l)
{
	return l->chip->clock->now_ns(l->chip->clock);
}

static u32 timer_mode(const struct lapic *l)
{
	return lapic_reg(l, APIC_LVTT) & LVTT_MODE;
}

/* One-shot or periodic: driven by the initial count. */
static bool counts_down(u32 mode)
{
	return mode == LVTT_ONESHOT || mode == LVTT_PERIODIC;
}

/* Divide configuration: bits 3, 1, 0 hold log2 - 1, with 7 for 1. */
static u32 divisor(u32 tdcr)
{
	u32 code = (tdcr & 3) | (tdcr & 8) >> 1;

	return 1u << ((code + 1) & 7);
}

static u64 period_ns(const struct lapic *l)
{
	u64 ns = (u64)lapic_reg(l, APIC_TMICT) * divisor(lapic_reg(l, APIC_TDCR));

	if (ns && timer_mode(l) == LVTT_PERIODIC)
		ns = MAX(ns, LAPIC_TIMER_MIN_PERIOD_NS);
	return ns;
}

static void arm(struct lapic *l, u64 expiry_ns)
{
	atomic_store(&l->timer.expiry_ns, expiry_ns);
}

static void stop(struct lapic *l)
{
	arm(l, LAPIC_TIMER_NEVER);
	l->timer.deadline = 0;
}

/* Nanoseconds until the count reaches zero; 0: not running. */
static u64 remaining_ns(const struct lapic *l, u64 now)
{
	u64 expiry = lapic_timer_next_ns(l), period = period_ns(l);

	if (expiry == LAPIC_TIMER_NEVER || !period)
		return 0;
	if (expiry > now)
		return expiry - now;
	if (timer_mode(l) == LVTT_ONESHOT)
		return 0;
	/* Due and not yet run: the count has wrapped. */
	return period - (now - expiry) % period;
}

/* Ticks of the guest's TSC as nanoseconds, rounded up. */
static u64 tsc_to_ns(const struct lapic *l, u64 ticks)
{
	u32 khz = l->chip->ops->tsc_khz(l->vcpu);
	u128 ns = ((u128)ticks * 1000000 + khz - 1) / khz;

	/* Centuries ahead is never, and must not wrap. */
	return ns > LAPIC_TIMER_NEVER / 4 ? LAPIC_TIMER_NEVER / 4 : (u64)ns;
}

static void expire_deadline(struct lapic *l)
{
	stop(l);
	lapic_local_deliver(l, APIC_LVTT);
}

/* Arm for the deadline, or expire if it has passed.  Returns true if so. */
static bool arm_deadline(struct lapic *l)
{
	u64 tsc = l->chip->ops->tsc(l->vcpu);

	if (l->timer.deadline <= tsc) {
		expire_deadline(l);
		return true;
	}
	arm(l, now_ns(l) + tsc_to_ns(l, l->timer.deadline - tsc));
	return false;
}

bool lapic_timer_run(struct lapic *l, u64 now)
{
	u64 expiry = lapic_timer_next_ns(l), period;

	if (likely(now < expiry))
		return false;
	switch (timer_mode(l)) {
	case LVTT_TSCDEADLINE:
		/* The two clocks may disagree by a rounding. */
		return arm_deadline(l);
	case LVTT_PERIODIC:
		period = period_ns(l);
		arm(l, period ? expiry + ((now - expiry) / period + 1) * period
			      : LAPIC_TIMER_NEVER);
		break;
	default:
		arm(l, LAPIC_TIMER_NEVER);
		break;
	}
	lapic_local_deliver(l, APIC_LVTT);
	return true;
}

void lapic_timer_tsc_changed(struct lapic *l)
{
	if (timer_mode(l) == LVTT_TSCDEADLINE && l->timer.deadline)
		arm_deadline(l);
}

void lapic_timer_reset(struct lapic *l)
{
	stop(l);
}

void lapic_timer_write_lvtt(struct lapic *l, u32 value)
{
	u32 old = timer_mode(l);
	u32 new = value &LVTT_MODE;

	/* A tick that is already due belongs to the old setting. */
	lapic_timer_run(l, now_ns(l));
	lapic_put_reg(l, APIC_LVTT, value);
	if (old == new || (counts_down(old) && counts_down(new)))
		return;
	stop(l);
	lapic_put_reg(l, APIC_TMICT, 0);
}

void lapic_timer_write_tmict(struct lapic *l, u32 value)
{
	u64 period;

	if (timer_mode(l) == LVTT_TSCDEADLINE)
		return;
	lapic_timer_run(l, now_ns(l));
	lapic_put_reg(l, APIC_TMICT, value);
	period = period_ns(l);
	arm(l, period && counts_down(timer_mode(l)) ? now_ns(l) + period
						    : LAPIC_TIMER_NEVER);
}

void lapic_timer_write_tdcr(struct lapic *l, u32 value)
{
	u32 old = divisor(lapic_reg(l, APIC_TDCR));
	u64 now = now_ns(l), left;

	lapic_timer_run(l, now);
	left = remaining_ns(l, now);
	lapic_put_reg(l, APIC_TDCR, value & 0xb);
	/* The count stays; the time it stands for changes. */
	if (left && counts_down(timer_mode(l)))
		arm(l, now + clock_mul_div(left, divisor(value), old));
}

void lapic_timer_write_deadline(struct lapic *l, u64 value)
{
	if (!lapic_hw_enabled(l) || timer_mode(l) != LVTT_TSCDEADLINE)
		return;
	/* An expiry that is due and was not run comes before the new value. */
	lapic_timer_run(l, now_ns(l));
	stop(l);
	l->timer.deadline = value;
	if (value)
		arm_deadline(l);
}

u32 lapic_timer_current(struct lapic *l)
{
	u32 div = divisor(lapic_reg(l, APIC_TDCR));
	u64 count;

	if (!counts_down(timer_mode(l)))
		return 0;
	count = (remaining_ns(l, now_ns(l)) + div - 1) / div;
	/* A raised period is longer than the initial count says. */
	return (u32)MIN(count, (u64)lapic_reg(l, APIC_TMICT));
}

u64 lapic_timer_deadline(struct lapic *l)
{
	if (!lapic_hw_enabled(l) || timer_mode(l) != LVTT_TSCDEADLINE)
		return 0;
	lapic_timer_run(l, now_ns(l));
	return l->timer.deadline;
}

void lapic_timer_restore(struct lapic *l, u32 remaining)
{
	u64 left = (u64)remaining * divisor(lapic_reg(l, APIC_TDCR));
	u64 period = period_ns(l);

	if (timer_mode(l) == LVTT_TSCDEADLINE) {
		/* The deadline is an MSR of its own, written before or after. */
		if (l->timer.deadline)
			arm_deadline(l);
		else
			stop(l);
		return;
	}
	stop(l);
	if (timer_mode(l) == LVTT_PERIODIC && !left)
		left = period;
	left = MIN(left, period);
	if (left && counts_down(timer_mode(l)))
		arm(l, now_ns(l) + left);
}
