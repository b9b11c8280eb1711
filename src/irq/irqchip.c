/* SPDX-License-Identifier: MIT */
#include "irq/irqchip.h"

#include <errno.h>
#include <string.h>

#include "irq/lapic.h"
#include "irq/msi.h"
#include "irq/pit.h"

int irqchip_init(struct irqchip *chip, const struct irqchip_ops *ops, void *vm,
		 const struct clock *clock)
{
	memset(chip, 0, sizeof(*chip));
	chip->ops = ops;
	chip->vm = vm;
	chip->clock = clock;
	chip->mode = IRQCHIP_NONE;
	route_init(&chip->routes);
	pic_init(&chip->pic);
	ioapic_init(&chip->ioapic);
	return 0;
}

void irqchip_fini(struct irqchip *chip)
{
	pit_destroy(atomic_load(&chip->pit));
	ioapic_fini(&chip->ioapic);
	pic_fini(&chip->pic);
	route_fini(&chip->routes);
}

int irqchip_create(struct irqchip *chip)
{
	int err;

	if (chip->mode != IRQCHIP_NONE)
		return -EEXIST;
	err = route_set_default(&chip->routes);
	if (err)
		return err;
	chip->mode = IRQCHIP_KERNEL;
	ioapic_update_eoi_vectors(chip);
	return 0;
}

int irqchip_create_split(struct irqchip *chip, unsigned pins)
{
	int err;

	if (chip->mode != IRQCHIP_NONE)
		return -EEXIST;
	if (pins > ROUTE_MAX_GSIS)
		return -EINVAL;
	err = route_set(&chip->routes, NULL, 0, false, false);
	if (err)
		return err;
	chip->split_pins = pins;
	chip->mode = IRQCHIP_SPLIT;
	return 0;
}

int irqchip_create_pit(struct irqchip *chip, u32 flags)
{
	struct pit *p;

	if (atomic_load(&chip->pit))
		return -EEXIST;
	if (chip->mode != IRQCHIP_KERNEL)
		return -ENOENT;
	p = pit_create(flags, chip->clock->now_ns(chip->clock));
	if (!p)
		return -ENOMEM;
	atomic_store(&chip->pit, p);
	ioapic_update_eoi_vectors(chip);
	return 0;
}

static int deliver_msi(struct irqchip *chip, u32 addr_lo, u32 addr_hi, u32 data)
{
	struct irq_msg msg;

	if (!msi_is_valid(addr_hi, chip->x2apic_format))
		return -EINVAL;
	msi_decode(addr_lo, addr_hi, data, chip->x2apic_format, &msg);
	return irqchip_deliver(chip, NULL, &msg);
}

static int set_route(struct irqchip *chip, const struct kvm_irq_routing_entry *e,
		     enum irq_source source, int level, bool line_status)
{
	const struct kvm_irq_routing_irqchip *r = &e->u.irqchip;

	if (e->type == KVM_IRQ_ROUTING_MSI)
		return level ? deliver_msi(chip, e->u.msi.address_lo, e->u.msi.address_hi,
					   e->u.msi.data)
			     : -1;
	if (r->irqchip == KVM_IRQCHIP_IOAPIC)
		return ioapic_set_pin(chip, r->pin, source, level, line_status);
	return pic_set_pin(chip, r->irqchip * 8 + r->pin, source, level);
}

int irqchip_set_gsi(struct irqchip *chip, enum irq_source source, u32 gsi, int level,
		    bool line_status)
{
	struct kvm_irq_routing_entry e[ROUTE_PER_GSI];
	unsigned n = route_lookup(&chip->routes, gsi, e);
	int status = -1;

	for (unsigned i = 0; i < n; i++) {
		int r = set_route(chip, &e[i], source, level, line_status);

		if (r >= 0)
			status = MAX(status, 0) + r;
	}
	return status;
}

int irqchip_pulse_gsi(struct irqchip *chip, u32 gsi)
{
	int status = irqchip_set_gsi(chip, IRQ_SOURCE_CLIENT, gsi, 1, false);

	irqchip_set_gsi(chip, IRQ_SOURCE_CLIENT, gsi, 0, false);
	return status;
}

/* Note the vector of a level-triggered route (struct irqchip's split_eoi). */
static void add_split_vector(const struct kvm_irq_routing_entry *e, void *arg)
{
	u64 *now = arg;
	u32 vector = e->u.msi.data & LVT_VECTOR;

	if (e->u.msi.data & ICR_LEVEL)
		now[vector / 64] |= BIT64(vector % 64);
}

int irqchip_set_routes(struct irqchip *chip, const struct kvm_irq_routing_entry *entries,
		       unsigned nr)
{
	u64 now[4] = {0};
	int err;

	if (chip->mode == IRQCHIP_NONE)
		return -EINVAL;
	err = route_set(&chip->routes, entries, nr, chip->x2apic_format,
			chip->mode == IRQCHIP_KERNEL);
	if (err)
		return err;
	if (chip->mode == IRQCHIP_KERNEL) {
		ioapic_update_eoi_vectors(chip);
		return 0;
	}
	route_each_msi(&chip->routes, chip->split_pins, add_split_vector, now);
	for (unsigned i = 0; i < 4; i++) {
		atomic_fetch_or(&chip->split_ever[i], now[i]);
		atomic_store(&chip->split_eoi[i], now[i]);
	}
	return 0;
}

void irqchip_watch_acks(struct irqchip *chip, u32 gsi, bool on)
{
	if (gsi >= ROUTE_MAX_GSIS)
		return;
	if (on)
		atomic_fetch_or(&chip->watched[gsi / 64], BIT64(gsi % 64));
	else
		atomic_fetch_and(&chip->watched[gsi / 64], ~BIT64(gsi % 64));
	if (chip->mode == IRQCHIP_KERNEL)
		ioapic_update_eoi_vectors(chip);
}

int irqchip_signal_msi(struct irqchip *chip, const struct kvm_msi *msi)
{
	if (chip->mode == IRQCHIP_NONE || (msi->flags & ~KVM_MSI_VALID_DEVID))
		return -EINVAL;
	return deliver_msi(chip, msi->address_lo, msi->address_hi, msi->data);
}

int irqchip_get(struct irqchip *chip, struct kvm_irqchip *s)
{
	if (chip->mode != IRQCHIP_KERNEL)
		return -ENXIO;
	switch (s->chip_id) {
	case KVM_IRQCHIP_PIC_MASTER:
	case KVM_IRQCHIP_PIC_SLAVE:
		pic_get_state(chip, s->chip_id, &s->chip.pic);
		return 0;
	case KVM_IRQCHIP_IOAPIC:
		ioapic_get_state(chip, &s->chip.ioapic);
		return 0;
	default:
		return -EINVAL;
	}
}

int irqchip_set(struct irqchip *chip, const struct kvm_irqchip *s)
{
	if (chip->mode != IRQCHIP_KERNEL)
		return -ENXIO;
	switch (s->chip_id) {
	case KVM_IRQCHIP_PIC_MASTER:
	case KVM_IRQCHIP_PIC_SLAVE:
		pic_set_state(chip, s->chip_id, &s->chip.pic);
		return 0;
	case KVM_IRQCHIP_IOAPIC:
		ioapic_set_state(chip, &s->chip.ioapic);
		return 0;
	default:
		return -EINVAL;
	}
}

bool irqchip_has_extint(struct irqchip *chip, const struct lapic *lapic)
{
	return chip->mode == IRQCHIP_KERNEL && pic_intr(&chip->pic) &&
	       lapic_accepts_extint(lapic);
}

u8 irqchip_ack_extint(struct irqchip *chip)
{
	return pic_ack(chip);
}

u64 irqchip_timer_next_ns(struct irqchip *chip)
{
	const struct pit *p = atomic_load(&chip->pit);
	u64 next = atomic_load(&chip->ioapic.resend_ns);

	return p ? MIN(next, atomic_load(&p->next_ns)) : next;
}

void irqchip_timer_run(struct irqchip *chip, u64 now_ns)
{
	pit_run(chip, now_ns);
	ioapic_run(chip, now_ns);
}

void irqchip_pic_raised(struct irqchip *chip)
{
	unsigned n = atomic_load_explicit(&chip->nr_lapics, memory_order_acquire);

	for (unsigned i = 0; i < n; i++) {
		struct lapic *l = chip->lapics[i];

		if (!lapic_accepts_extint(l))
			continue;
		chip->ops->request(l->vcpu, IRQ_REQ_EXTINT);
		return;
	}
}

void irqchip_notify_ack(struct irqchip *chip, unsigned id, unsigned pin)
{
	int gsi = route_gsi(&chip->routes, id, pin);

	if (gsi < 0)
		return;
	if (!gsi)
		pit_ack(chip);
	if (atomic_load(&chip->watched[gsi / 64]) & BIT64(gsi % 64))
		chip->ops->acked(chip->vm, (u32)gsi);
}

void irqchip_notify_mask(struct irqchip *chip, unsigned id, unsigned pin, bool masked)
{
	if (!masked && route_gsi(&chip->routes, id, pin) == 0)
		pit_unmasked(chip);
}

static bool vector_in(const _Atomic u64 map[4], u8 vector)
{
	return atomic_load(&map[vector / 64]) & BIT64(vector % 64);
}

void irqchip_notify_eoi(struct irqchip *chip, struct lapic *lapic, u8 vector, bool level)
{
	if (chip->mode == IRQCHIP_KERNEL) {
		if (level || ioapic_wants_eoi(&chip->ioapic, vector))
			ioapic_eoi(chip, vector, level);
		return;
	}
	/* The client's IOAPIC is told of what it routes now, and of a level vector
	 * whose route it changed while in service; not if the guest will do so
	 * itself (directed EOI). */
	if (lapic_reg(lapic, APIC_SVR) & SVR_DIRECTED)
		return;
	if (vector_in(chip->split_eoi, vector) ||
	    (level && vector_in(chip->split_ever, vector)))
		chip->ops->eoi(lapic->vcpu, vector);
}
