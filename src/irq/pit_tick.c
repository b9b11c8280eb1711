/* SPDX-License-Identifier: MIT */
/*
 * Channel 0's interrupts, and their reinjection.
 */
#include <stdatomic.h>

#include "irq/irqchip.h"
#include "irq/lapic.h"
#include "irq/pit_count.h"

#define NEVER	      (~0ull)
#define MIN_PERIOD_NS 200000ull /* KVM's min_timer_period_us */
#define BACKLOG_MAX   100000000u

static void forget_backlog(struct pit *p)
{
	p->backlog = 0;
	p->acked = true;
}

/* Channel 0's interrupts from now on.  Modes 2 and 3 are periodic; 0, 1 and 4
 * (as KVM) give one; with HPET legacy replacement there are none. */
void pit_start_ticks(struct pit *p, u64 now)
{
	const struct pit_channel *c = &p->ch[0];
	u64 ns = pit_ticks_to_ns(c->s.count);

	p->period_ns = 0;
	forget_backlog(p);
	if (p->flags & KVM_PIT_FLAGS_HPET_LEGACY || !c->loaded) {
		atomic_store(&p->next_ns, NEVER);
		return;
	}
	switch (c->s.mode) {
	case 2:
	case 3:
		p->period_ns = MAX(ns, MIN_PERIOD_NS);
		break;
	case 0:
	case 1:
	case 4:
		break;
	default:
		atomic_store(&p->next_ns, NEVER);
		return;
	}
	atomic_store(&p->next_ns, now + ns);
}

/* A tick as the rest of the machine sees it. */
static void send_tick(struct irqchip *chip)
{
	unsigned n = atomic_load_explicit(&chip->nr_lapics, memory_order_acquire);

	irqchip_set_gsi(chip, IRQ_SOURCE_PIT, 0, 1, false);
	irqchip_set_gsi(chip, IRQ_SOURCE_PIT, 0, 0, false);
	/* The old NMI watchdog: LINT0 in NMI mode sees the timer's line. */
	for (unsigned i = 0; i < n; i++) {
		struct lapic *l = chip->lapics[i];
		u32 lvt0 = lapic_reg(l, APIC_LVT0);

		if ((lvt0 & (LVT_MASKED | LVT_MODE)) == APIC_MODE_NMI << ICR_MODE_SHIFT)
			lapic_local_deliver(l, APIC_LVT0);
	}
}

/* Advance past @now; how many ticks came due. */
static u64 take_due(struct pit *p, u64 now)
{
	u64 next = atomic_load(&p->next_ns), ticks;

	if (now < next)
		return 0;
	if (!p->period_ns) {
		atomic_store(&p->next_ns, NEVER);
		return 1;
	}
	ticks = (now - next) / p->period_ns + 1;
	atomic_store(&p->next_ns, next + ticks * p->period_ns);
	return ticks;
}

void pit_run(struct irqchip *chip, u64 now)
{
	struct pit *p = atomic_load(&chip->pit);
	bool send;
	u64 ticks;

	if (!p || now < atomic_load(&p->next_ns))
		return;
	pthread_mutex_lock(&p->lock);
	ticks = take_due(p, now);
	send = ticks;
	if (p->reinject && ticks) {
		p->backlog = (u32)MIN(p->backlog + ticks, (u64)BACKLOG_MAX);
		send = p->acked;
		p->acked = false;
	}
	pthread_mutex_unlock(&p->lock);
	if (send)
		send_tick(chip);
}

void pit_ack(struct irqchip *chip)
{
	struct pit *p = atomic_load(&chip->pit);
	bool send = false;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->reinject) {
		/* The backlog counts the tick that is acknowledged here. */
		if (p->backlog)
			send = --p->backlog;
		p->acked = !send;
	}
	pthread_mutex_unlock(&p->lock);
	if (send)
		send_tick(chip);
}

void pit_unmasked(struct irqchip *chip)
{
	struct pit *p = atomic_load(&chip->pit);

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	forget_backlog(p);
	pthread_mutex_unlock(&p->lock);
}

void pit_set_reinject(struct irqchip *chip, bool on)
{
	struct pit *p = atomic_load(&chip->pit);

	pthread_mutex_lock(&p->lock);
	if (p->reinject != on)
		forget_backlog(p);
	p->reinject = on;
	pthread_mutex_unlock(&p->lock);
}
