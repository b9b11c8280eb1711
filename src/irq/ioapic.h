/* SPDX-License-Identifier: MIT */
/*
 * The 82093AA IOAPIC with 24 pins, version 0x11, as KVM has it.
 *
 * A level-triggered pin that was sent has its remote IRR bit set until a LAPIC
 * ends the vector; then it is sent again if the line is still high.  Every end
 * of a vector that some pin uses is looked at, whichever LAPIC it comes from,
 * as on a bus: re-targeting a pin while it is in service is safe.
 */
#ifndef LOCUM_IRQ_IOAPIC_H
#define LOCUM_IRQ_IOAPIC_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/types.h"
#include "x86/apic.h"

struct irqchip;

struct ioapic {
	pthread_mutex_t lock;
	/* @lock */
	u64 redir[IOAPIC_PINS]; /* redirection entries, REDIR_* */
	u64 base;		/* gpa of the MMIO page */
	u32 regsel;
	u32 id;			  /* 0..15 */
	u32 irr;		  /* line levels; edge pins: pending or high */
	u32 irr_delivered;	  /* edge pins in irr that were sent */
	u8 sources[IOAPIC_PINS];  /* bit per enum irq_source that is high */
	u32 resends[IOAPIC_PINS]; /* successive re-sends at EOI */
	u32 notify_pins;	  /* pins whose acknowledge somebody wants */
	int rtc_vector;		  /* pin 8 sent with line status, not ended; -1 */
	/* Written under @lock, read by anyone. */
	_Atomic u64 resend_ns;	    /* delayed re-send is due, ~0 never */
	_Atomic u64 eoi_vectors[4]; /* vectors whose end ioapic_eoi() wants */
};

void ioapic_init(struct ioapic *io);
void ioapic_fini(struct ioapic *io);

/** ioapic_hits() - @gpa is in the MMIO page; any thread */
static inline bool ioapic_hits(const struct ioapic *io, gpa_t gpa)
{
	return gpa - io->base < IOAPIC_SIZE;
}

/**
 * ioapic_mmio_read(), ioapic_mmio_write() - guest access
 * @offset: 0..0xff from the base; only 0x00 and 0x10 are registers, others
 *          read 0 and ignore writes
 * @len: 1, 2, 4 or 8 bytes; the register is 32 bits wide
 * Any thread; may deliver interrupts.
 */
void ioapic_mmio_read(struct irqchip *chip, unsigned offset, void *data, unsigned len);
void ioapic_mmio_write(struct irqchip *chip, unsigned offset, const void *data,
		       unsigned len);

/** ioapic_set_pin() - drive @pin 0..23 for @source (enum irq_source)
 * Return: as irqchip_set_gsi(). */
int ioapic_set_pin(struct irqchip *chip, unsigned pin, unsigned source, bool level,
		   bool line_status);

/** ioapic_eoi() - @vector was ended at a LAPIC; vCPU thread
 * @level: it was level-triggered and the LAPIC broadcasts its end */
void ioapic_eoi(struct irqchip *chip, u8 vector, bool level);

/** ioapic_wants_eoi() - some pin needs to know of the end of @vector */
bool ioapic_wants_eoi(const struct ioapic *io, u8 vector);

/** ioapic_update_eoi_vectors() - watched GSIs or routes changed */
void ioapic_update_eoi_vectors(struct irqchip *chip);

/** ioapic_run() - re-send what was delayed and is due at @now_ns */
void ioapic_run(struct irqchip *chip, u64 now_ns);

/** ioapic_get_state(), ioapic_set_state() - save, load (and send what is pending) */
void ioapic_get_state(struct irqchip *chip, struct kvm_ioapic_state *s);
void ioapic_set_state(struct irqchip *chip, const struct kvm_ioapic_state *s);

#endif
