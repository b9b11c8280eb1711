/* SPDX-License-Identifier: MIT */
/*
 * GSI routing: where an interrupt number of the client goes.
 *
 * One GSI goes to at most one pin of each of the three chips, or to one MSI.
 * The table is replaced as a whole (KVM_SET_GSI_ROUTING); readers copy the few
 * entries of one GSI out under the lock and act afterwards.
 */
#ifndef LOCUM_IRQ_ROUTE_H
#define LOCUM_IRQ_ROUTE_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/types.h"

#define ROUTE_MAX_GSIS 4096 /* KVM_CAP_IRQ_ROUTING; GSIs and entries alike */
#define ROUTE_PER_GSI  KVM_NR_IRQCHIPS

struct route_map; /* one immutable table */

struct route_table {
	pthread_mutex_t lock;
	struct route_map *map; /* NULL: no routes; @lock */
};

void route_init(struct route_table *t);
void route_fini(struct route_table *t);

/**
 * route_set() - replace the table
 * @entries: @nr entries, copied.  Types: KVM_IRQ_ROUTING_IRQCHIP (chip 0..2,
 *           pin within the chip), KVM_IRQ_ROUTING_MSI.
 * @x2apic_format: MSI addresses carry 32-bit IDs: low byte of address_hi is 0
 * @has_chips: IRQCHIP entries are allowed (there is an in-kernel PIC)
 * Return: 0; -EINVAL (unknown type, flags, chip, pin or GSI; one GSI twice on
 * one chip, or MSI together with anything else), -ENOMEM; on error nothing changed.
 */
int route_set(struct route_table *t, const struct kvm_irq_routing_entry *entries,
	      unsigned nr, bool x2apic_format, bool has_chips) must_check;

/** route_set_default() - KVM's table: GSI 0..7 master PIC, 8..15 slave PIC, and
 * 0..23 IOAPIC.  Return: 0 or -ENOMEM. */
int route_set_default(struct route_table *t) must_check;

/** route_lookup() - copy the entries of @gsi to @out
 * Return: how many, 0..ROUTE_PER_GSI. */
unsigned route_lookup(struct route_table *t, u32 gsi,
		      struct kvm_irq_routing_entry out[ROUTE_PER_GSI]);

/** route_gsi() - the GSI routed to @pin of @chip (0..2), or -1 */
int route_gsi(struct route_table *t, unsigned chip, unsigned pin);

/** route_each_msi() - call @fn for each MSI entry with GSI below @gsis, under
 * the lock: @fn only computes */
void route_each_msi(struct route_table *t, u32 gsis,
		    void (*fn)(const struct kvm_irq_routing_entry *e, void *arg),
		    void *arg);

#endif
