/* SPDX-License-Identifier: MIT */
#include "irq/lapic.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bug.h"
#include "irq/irqchip.h"
#include "irq/lapic_timer.h"

/* Index of the highest set bit of a 256-bit map of atomics, -1 for none. */
static int map_highest(const _Atomic u64 map[4])
{
	for (int i = 3; i >= 0; i--) {
		u64 word = atomic_load(&map[i]);

		if (word)
			return i * 64 + bits_fls64(word);
	}
	return -1;
}

static int isr_scan(const struct lapic *l)
{
	for (int i = 3; i >= 0; i--) {
		if (l->isr[i])
			return i * 64 + bits_fls64(l->isr[i]);
	}
	return -1;
}

/* The mark is cleared before the scan: a vector that the scan misses was posted
 * after it, and its sender sets the mark again. */
static int irr_highest(struct lapic *l)
{
	if (atomic_load(&l->irr_stale)) {
		atomic_exchange(&l->irr_stale, false);
		l->irr_highest = (s16)map_highest(l->irr);
	}
	return l->irr_highest;
}

static u8 ppr_compute(const struct lapic *l)
{
	u8 isr_class = l->isr_highest < 0 ? 0 : (u8)l->isr_highest & 0xf0;

	return (l->tpr & 0xf0) >= isr_class ? l->tpr : isr_class;
}

static bool class_above(int vector, u8 ppr)
{
	return vector >= 0 && (vector & 0xf0) > (ppr & 0xf0);
}

/* Is the highest request deliverable?  Sets `pending` if so. */
static bool mark_if_deliverable(struct lapic *l)
{
	if (!lapic_hw_enabled(l) || !class_above(irr_highest(l), atomic_load(&l->ppr)))
		return false;
	atomic_store(&l->pending, true);
	return true;
}

static void request(struct lapic *l, enum irq_request req)
{
	l->chip->ops->request(l->vcpu, req);
}

void lapic_update_ppr(struct lapic *l)
{
	u8 old = atomic_load_explicit(&l->ppr, memory_order_relaxed);
	u8 new = ppr_compute(l);

	if (new == old)
		return;
	/* Sequentially consistent: pairs with lapic_post(), see lapic.h. */
	atomic_store(&l->ppr, new);
	if (new >> 4 < old >> 4 && mark_if_deliverable(l))
		request(l, IRQ_REQ_APIC);
}

void lapic_recheck(struct lapic *l)
{
	l->isr_highest = (s16)isr_scan(l);
	atomic_store(&l->ppr, ppr_compute(l));
	atomic_store(&l->pending, false);
	atomic_store(&l->irr_stale, true);
	if (mark_if_deliverable(l))
		request(l, IRQ_REQ_APIC);
}

int lapic_evaluate(struct lapic *l, u64 *req_event)
{
	(*req_event)++;
	/* First forget, then look: a sender marks IRR stale before it sets
	 * `pending`, so what is forgotten here is found below. */
	atomic_exchange(&l->pending, false);
	return mark_if_deliverable(l) ? irr_highest(l) : -1;
}

void lapic_ack(struct lapic *l, u8 vector)
{
	unsigned word = vector / 64;
	u64 bit = BIT64(vector % 64);

	if (BUG_CHECK(!(atomic_load(&l->irr[word]) & bit)))
		return;
	atomic_fetch_and(&l->irr[word], ~bit);
	l->isr[word] |= bit;
	l->isr_highest = vector;
	atomic_store(&l->ppr, ppr_compute(l));
	/* What was requested before is of no higher class than `vector`, hence
	 * blocked now: nothing to scan, unless somebody posted meanwhile.
	 * The order of the two exchanges pairs with lapic_post(). */
	atomic_exchange(&l->pending, false);
	if (atomic_exchange(&l->irr_stale, true))
		mark_if_deliverable(l);
}

static bool tmr_test(const struct lapic *l, u8 vector)
{
	return atomic_load(&l->tmr[vector / 64]) & BIT64(vector % 64);
}

void lapic_eoi(struct lapic *l)
{
	bool broadcast = !(lapic_reg(l, APIC_SVR) & SVR_DIRECTED);
	u8 vector = (u8)l->isr_highest;

	if (l->isr_highest < 0)
		return;
	l->isr[vector / 64] &= ~BIT64(vector % 64);
	l->isr_highest = (s16)isr_scan(l);
	lapic_update_ppr(l);
	irqchip_notify_eoi(l->chip, l, vector, tmr_test(l, vector) && broadcast);
}

bool lapic_can_pv_eoi(struct lapic *l)
{
	unsigned in_service = 0;
	u8 vector = (u8)l->isr_highest;

	if (l->isr_highest < 0 || irr_highest(l) >= 0 || tmr_test(l, vector))
		return false;
	for (int i = 0; i < 4; i++)
		in_service += (unsigned)__builtin_popcountll(l->isr[i]);
	return in_service == 1 && !(l->chip->mode == IRQCHIP_KERNEL &&
				    ioapic_wants_eoi(&l->chip->ioapic, vector));
}

bool lapic_accepts_extint(const struct lapic *l)
{
	u32 lvt0 = lapic_reg(l, APIC_LVT0);

	if (!lapic_hw_enabled(l))
		return true;
	return (lvt0 & (LVT_MASKED | LVT_MODE)) == APIC_MODE_EXTINT << ICR_MODE_SHIFT;
}

void lapic_set_cr8(struct lapic *l, u64 cr8)
{
	l->tpr = (u8)(cr8 << 4);
	lapic_update_ppr(l);
}

static void tmr_put(struct lapic *l, u8 vector, bool level)
{
	_Atomic u64 *word = &l->tmr[vector / 64];
	u64 bit = BIT64(vector % 64);

	if (level)
		atomic_fetch_or(word, bit);
	else if (atomic_load(word) & bit)
		atomic_fetch_and(word, ~bit);
}

static bool post(struct lapic *l, u8 vector, bool level)
{
	u64 bit = BIT64(vector % 64);

	if (!lapic_hw_enabled(l) || !lapic_sw_enabled(l))
		return false;
	tmr_put(l, vector, level);
	if (atomic_fetch_or(&l->irr[vector / 64], bit) & bit)
		return true;
	/* Sequentially consistent, before PPR is read: pairs with
	 * lapic_update_ppr(). */
	atomic_store(&l->irr_stale, true);
	if (class_above(vector, atomic_load(&l->ppr))) {
		atomic_store(&l->pending, true);
		request(l, IRQ_REQ_APIC);
	}
	return true;
}

bool lapic_post(struct lapic *l, u8 vector)
{
	return post(l, vector, false);
}

static void latch_sipi(struct lapic *l, u8 vector)
{
	u32 old = atomic_load(&l->init_sipi), new;

	do
		new = (old & LAPIC_INIT) | LAPIC_SIPI | (u32)vector << 8;
	while (!atomic_compare_exchange_weak(&l->init_sipi, &old, new));
	request(l, IRQ_REQ_INIT_SIPI);
}

u32 lapic_take_init_sipi(struct lapic *l, u8 *vector)
{
	u32 word = atomic_exchange(&l->init_sipi, 0);

	*vector = (u8)(word >> 8);
	return word & (LAPIC_INIT | LAPIC_SIPI);
}

int lapic_accept(struct lapic *l, const struct irq_msg *msg)
{
	switch (msg->mode) {
	case APIC_MODE_FIXED:
	case APIC_MODE_LOWEST:
		if (msg->level && !msg->assert)
			return 0;
		return post(l, msg->vector, msg->level);
	case APIC_MODE_SMI:
		request(l, IRQ_REQ_SMI);
		return 1;
	case APIC_MODE_REMOTE_READ:
		request(l, IRQ_REQ_UNHALT);
		return 1;
	case APIC_MODE_NMI:
		request(l, IRQ_REQ_NMI);
		return 1;
	case APIC_MODE_INIT:
		if (msg->level && !msg->assert)
			return 0;
		/* A SIPI that was latched before is gone. */
		atomic_store(&l->init_sipi, LAPIC_INIT);
		request(l, IRQ_REQ_INIT_SIPI);
		return 1;
	case APIC_MODE_SIPI:
		latch_sipi(l, msg->vector);
		return 1;
	default: /* ExtINT has no meaning on the bus here: the PIC is wired directly */
		return 0;
	}
}

bool lapic_local_deliver(struct lapic *l, unsigned lvt)
{
	u32 value = lapic_reg(l, lvt);
	struct irq_msg msg = {
		.vector = value & LVT_VECTOR,
		.mode = (value & LVT_MODE) >> ICR_MODE_SHIFT,
		.level = (lvt == APIC_LVT0 || lvt == APIC_LVT1) && (value & LVT_LEVEL),
		.assert = true,
	};

	if (!lapic_hw_enabled(l) || (value & LVT_MASKED))
		return false;
	if (lvt == APIC_LVTPC)
		lapic_put_reg(l, lvt, value | LVT_MASKED);
	return lapic_accept(l, &msg) > 0;
}

void lapic_set_features(struct lapic *l, u32 features, u8 maxphyaddr)
{
	l->features = features;
	l->maxphyaddr = maxphyaddr;
}

static void reset_registers(struct lapic *l)
{
	static const u16 lvts[] = {APIC_LVTCMCI, APIC_LVTT, APIC_LVTTHMR, APIC_LVTPC,
				   APIC_LVT0,	 APIC_LVT1, APIC_LVTERR};
	u32 id = lapic_reg(l, APIC_ID);

	for (unsigned i = 0; i < ARRAY_SIZE(l->reg); i++)
		atomic_store_explicit(&l->reg[i], 0, memory_order_relaxed);
	for (unsigned i = 0; i < ARRAY_SIZE(lvts); i++)
		lapic_put_reg(l, lvts[i], LVT_MASKED);
	/* KVM's quirk: virtual wire mode on the boot processor alone. */
	if (l->is_bsp && !l->chip->no_lint0_quirk)
		lapic_put_reg(l, APIC_LVT0, APIC_MODE_EXTINT << ICR_MODE_SHIFT);
	lapic_put_reg(l, APIC_ID, id);
	lapic_put_reg(l, APIC_SVR, 0xff);
	lapic_put_reg(l, APIC_DFR, ~0u);
}

void lapic_reset(struct lapic *l, bool init)
{
	lapic_timer_reset(l);
	if (!init) {
		lapic_put_reg(l, APIC_ID, l->id << 24);
		lapic_set_base(l, APICBASE_DEFAULT | APICBASE_ENABLE |
					  (l->is_bsp ? APICBASE_BSP : 0));
	}
	reset_registers(l);
	l->tpr = 0;
	for (int i = 0; i < 4; i++) {
		atomic_store(&l->irr[i], 0);
		atomic_store(&l->tmr[i], 0);
		l->isr[i] = 0;
	}
	lapic_recheck(l);
}

int lapic_create(struct irqchip *chip, u32 id, void *vcpu, bool is_bsp,
		 struct lapic **out)
{
	unsigned n = atomic_load(&chip->nr_lapics);
	struct lapic *l;

	if (n >= IRQCHIP_MAX_VCPUS)
		return -EINVAL;
	l = aligned_alloc(64, ALIGN_UP(sizeof(*l), 64));
	if (!l)
		return -ENOMEM;
	*l = (struct lapic){.chip = chip, .vcpu = vcpu, .id = id, .is_bsp = is_bsp};
	l->maxphyaddr = 36;
	l->isr_highest = l->irr_highest = -1;
	atomic_store(&l->base,
		     APICBASE_DEFAULT | APICBASE_ENABLE | (is_bsp ? APICBASE_BSP : 0));
	lapic_reset(l, false);
	chip->lapics[n] = l;
	/* Publishes the pointer and the contents to irqchip_deliver(). */
	atomic_store_explicit(&chip->nr_lapics, n + 1, memory_order_release);
	*out = l;
	return 0;
}

void lapic_destroy(struct lapic *l)
{
	struct irqchip *chip = l->chip;
	unsigned n = atomic_load(&chip->nr_lapics);

	if (n && chip->lapics[n - 1] == l)
		atomic_store(&chip->nr_lapics, n - 1);
	free(l);
}
