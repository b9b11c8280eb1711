/* SPDX-License-Identifier: MIT */
#include "irq/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "irq/msi.h"
#include "x86/apic.h"

#define CHIP_PINS IOAPIC_PINS /* the most that any chip has */

/** struct route_map - entries sorted by GSI; first[gsi]..first[gsi + 1] */
struct route_map {
	s16 gsi_of[KVM_NR_IRQCHIPS][CHIP_PINS]; /* -1: the pin has no route */
	u16 first[ROUTE_MAX_GSIS + 1];
	struct kvm_irq_routing_entry entry[];
};

void route_init(struct route_table *t)
{
	pthread_mutex_init(&t->lock, NULL);
	t->map = NULL;
}

void route_fini(struct route_table *t)
{
	free(t->map);
	t->map = NULL;
	pthread_mutex_destroy(&t->lock);
}

static bool pin_valid(const struct kvm_irq_routing_irqchip *r)
{
	switch (r->irqchip) {
	case KVM_IRQCHIP_PIC_MASTER:
	case KVM_IRQCHIP_PIC_SLAVE:
		return r->pin < 8;
	case KVM_IRQCHIP_IOAPIC:
		return r->pin < IOAPIC_PINS;
	default:
		return false;
	}
}

static bool entry_valid(const struct kvm_irq_routing_entry *e, bool x2apic_format,
			bool has_chips)
{
	if (e->gsi >= ROUTE_MAX_GSIS)
		return false;
	switch (e->type) {
	case KVM_IRQ_ROUTING_IRQCHIP:
		return has_chips && !e->flags && pin_valid(&e->u.irqchip);
	case KVM_IRQ_ROUTING_MSI:
		return !(e->flags & ~KVM_MSI_VALID_DEVID) &&
		       msi_is_valid(e->u.msi.address_hi, x2apic_format);
	default:
		return false;
	}
}

/* One GSI: pins of different chips, or a single MSI. */
static bool may_share(const struct kvm_irq_routing_entry *a,
		      const struct kvm_irq_routing_entry *b)
{
	return a->type == KVM_IRQ_ROUTING_IRQCHIP && b->type == KVM_IRQ_ROUTING_IRQCHIP &&
	       a->u.irqchip.irqchip != b->u.irqchip.irqchip;
}

/* Put @e into the slots of its GSI; @used counts how many are taken. */
static bool map_add(struct route_map *map, u16 *used,
		    const struct kvm_irq_routing_entry *e)
{
	struct kvm_irq_routing_entry *slot = &map->entry[map->first[e->gsi]];
	unsigned n = used[e->gsi]++;

	for (unsigned i = 0; i < n; i++) {
		if (!may_share(&slot[i], e))
			return false;
	}
	slot[n] = *e;
	if (e->type == KVM_IRQ_ROUTING_IRQCHIP)
		map->gsi_of[e->u.irqchip.irqchip][e->u.irqchip.pin] = (s16)e->gsi;
	return true;
}

static int map_build(const struct kvm_irq_routing_entry *entries, unsigned nr,
		     bool x2apic_format, bool has_chips, struct route_map **out)
{
	struct route_map *map = calloc(1, sizeof(*map) + nr * sizeof(map->entry[0]));
	u16 *used = calloc(ROUTE_MAX_GSIS, sizeof(*used));
	int err = map && used ? 0 : -ENOMEM;

	for (unsigned i = 0; !err && i < nr; i++) {
		if (!entry_valid(&entries[i], x2apic_format, has_chips))
			err = -EINVAL;
		else
			map->first[entries[i].gsi + 1]++;
	}
	if (!err) {
		for (unsigned gsi = 0; gsi < ROUTE_MAX_GSIS; gsi++)
			map->first[gsi + 1] += map->first[gsi];
		memset(map->gsi_of, 0xff, sizeof(map->gsi_of));
	}
	for (unsigned i = 0; !err && i < nr; i++) {
		if (!map_add(map, used, &entries[i]))
			err = -EINVAL;
	}
	free(used);
	if (err) {
		free(map);
		return err;
	}
	*out = map;
	return 0;
}

int route_set(struct route_table *t, const struct kvm_irq_routing_entry *entries,
	      unsigned nr, bool x2apic_format, bool has_chips)
{
	struct route_map *map, *old;
	int err;

	if (nr > ROUTE_MAX_GSIS)
		return -EINVAL;
	err = map_build(entries, nr, x2apic_format, has_chips, &map);
	if (err)
		return err;
	pthread_mutex_lock(&t->lock);
	old = t->map;
	t->map = map;
	pthread_mutex_unlock(&t->lock);
	free(old);
	return 0;
}

int route_set_default(struct route_table *t)
{
	struct kvm_irq_routing_entry e[16 + IOAPIC_PINS];
	unsigned n = 0;

	memset(e, 0, sizeof(e));
	for (unsigned gsi = 0; gsi < IOAPIC_PINS; gsi++) {
		e[n].gsi = gsi;
		e[n].type = KVM_IRQ_ROUTING_IRQCHIP;
		e[n].u.irqchip.irqchip = KVM_IRQCHIP_IOAPIC;
		e[n++].u.irqchip.pin = gsi;
		if (gsi >= 16)
			continue;
		e[n].gsi = gsi;
		e[n].type = KVM_IRQ_ROUTING_IRQCHIP;
		e[n].u.irqchip.irqchip =
			gsi < 8 ? KVM_IRQCHIP_PIC_MASTER : KVM_IRQCHIP_PIC_SLAVE;
		e[n++].u.irqchip.pin = gsi % 8;
	}
	return route_set(t, e, n, false, true);
}

unsigned route_lookup(struct route_table *t, u32 gsi,
		      struct kvm_irq_routing_entry out[ROUTE_PER_GSI])
{
	unsigned n = 0;

	if (gsi >= ROUTE_MAX_GSIS)
		return 0;
	pthread_mutex_lock(&t->lock);
	if (t->map) {
		unsigned first = t->map->first[gsi];

		/* may_share() allows no more than ROUTE_PER_GSI. */
		n = t->map->first[gsi + 1] - first;
		memcpy(out, &t->map->entry[first], n * sizeof(*out));
	}
	pthread_mutex_unlock(&t->lock);
	return n;
}

int route_gsi(struct route_table *t, unsigned chip, unsigned pin)
{
	int gsi = -1;

	if (chip >= KVM_NR_IRQCHIPS || pin >= CHIP_PINS)
		return -1;
	pthread_mutex_lock(&t->lock);
	if (t->map)
		gsi = t->map->gsi_of[chip][pin];
	pthread_mutex_unlock(&t->lock);
	return gsi;
}

void route_each_msi(struct route_table *t, u32 gsis,
		    void (*fn)(const struct kvm_irq_routing_entry *e, void *arg),
		    void *arg)
{
	pthread_mutex_lock(&t->lock);
	if (t->map) {
		unsigned end = t->map->first[MIN(gsis, (u32)ROUTE_MAX_GSIS)];

		for (unsigned i = 0; i < end; i++) {
			if (t->map->entry[i].type == KVM_IRQ_ROUTING_MSI)
				fn(&t->map->entry[i], arg);
		}
	}
	pthread_mutex_unlock(&t->lock);
}
