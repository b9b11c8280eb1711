/* SPDX-License-Identifier: MIT */
/*
 * Interrupt messages: who is addressed, and who of them takes it.
 * SDM Vol. 3A "Determining IPI Destination", "Lowest Priority Delivery Mode".
 *
 * Lowest priority is decided by the vector: the (vector mod n)-th of the n
 * enabled LAPICs that are addressed, as in KVM by default.
 */
#include "irq/irqchip.h"
#include "irq/lapic.h"

/* The broadcast ID that @l understands in its mode. */
static u32 broadcast_id(const struct lapic *l)
{
	return lapic_x2apic(l) ? X2APIC_BROADCAST : APIC_BROADCAST;
}

/* KVM's quirk: 0xff from an IOAPIC or MSI means all, in x2APIC mode too. */
static u32 effective_dest(const struct lapic *l, const struct lapic *src,
			  const struct irq_msg *msg)
{
	if (!src && msg->dest == APIC_BROADCAST && !l->chip->no_broadcast_quirk)
		return broadcast_id(l);
	return msg->dest;
}

static bool matches_physical(const struct lapic *l, u32 dest)
{
	if (lapic_x2apic(l))
		return dest == l->id;
	/* An xAPIC-mode LAPIC whose ID does not fit is reached by its full ID. */
	if (l->id > 0xff && dest == l->id)
		return true;
	return dest == lapic_reg(l, APIC_ID) >> 24;
}

static bool matches_logical(const struct lapic *l, u32 dest)
{
	u32 ldr;

	if (lapic_x2apic(l)) {
		ldr = x2apic_ldr(l->id);
		return ldr >> 16 == dest >> 16 && (ldr & dest & 0xffff);
	}
	ldr = lapic_reg(l, APIC_LDR) >> 24;
	switch (lapic_reg(l, APIC_DFR) >> 28) {
	case DFR_FLAT:
		return ldr & dest;
	case DFR_CLUSTER:
		return ldr >> 4 == dest >> 4 && (ldr & dest & 0xf);
	default:
		return false;
	}
}

bool lapic_matches(const struct lapic *l, const struct lapic *src,
		   const struct irq_msg *msg)
{
	u32 dest;

	switch (src ? msg->shorthand : APIC_NOSHORT) {
	case APIC_SELF:
		return l == src;
	case APIC_ALL:
		return true;
	case APIC_ALLBUT:
		return l != src;
	default:
		break;
	}
	dest = effective_dest(l, src, msg);
	if (dest == broadcast_id(l))
		return true;
	return msg->logical ? matches_logical(l, dest) : matches_physical(l, dest);
}

static bool takes_lowest(const struct lapic *l, const struct lapic *src,
			 const struct irq_msg *msg)
{
	return lapic_hw_enabled(l) && lapic_sw_enabled(l) && lapic_matches(l, src, msg);
}

static int deliver_lowest(struct irqchip *chip, struct lapic *src,
			  const struct irq_msg *msg, unsigned n)
{
	unsigned count = 0, chosen;

	for (unsigned i = 0; i < n; i++)
		count += takes_lowest(chip->lapics[i], src, msg);
	if (!count)
		return -1;
	chosen = msg->vector % count;
	for (unsigned i = 0; i < n; i++) {
		if (takes_lowest(chip->lapics[i], src, msg) && !chosen--)
			return lapic_accept(chip->lapics[i], msg);
	}
	/* One of them was disabled between the two passes. */
	return 0;
}

int irqchip_deliver(struct irqchip *chip, struct lapic *src, const struct irq_msg *msg)
{
	unsigned n = atomic_load_explicit(&chip->nr_lapics, memory_order_acquire);
	bool lowest = msg->mode == APIC_MODE_LOWEST || msg->redir_hint;
	struct irq_msg fixed = *msg;
	int taken = -1;

	if (lowest && !msg->logical && msg->dest == APIC_BROADCAST) {
		/* A physical broadcast cannot arbitrate. */
		fixed.mode = APIC_MODE_FIXED;
		msg = &fixed;
		lowest = false;
	}
	if (lowest)
		return deliver_lowest(chip, src, msg, n);
	for (unsigned i = 0; i < n; i++) {
		struct lapic *l = chip->lapics[i];

		if (!lapic_hw_enabled(l) || !lapic_matches(l, src, msg))
			continue;
		taken = MAX(taken, 0) + lapic_accept(l, msg);
	}
	return taken;
}

void lapic_send_ipi(struct lapic *l, u32 icr, u32 dest)
{
	struct irq_msg msg = {
		.dest = dest,
		.vector = icr & LVT_VECTOR,
		.mode = (icr & LVT_MODE) >> ICR_MODE_SHIFT,
		.shorthand = icr >> ICR_SHORT_SHIFT & 3,
		.logical = icr & ICR_LOGICAL,
		.level = icr & ICR_LEVEL,
		.assert = icr & ICR_ASSERT,
	};

	l->ipis_sent++;
	irqchip_deliver(l->chip, l, &msg);
}
