/* SPDX-License-Identifier: MIT */
/*
 * Message-signalled interrupts: an address and data word to an interrupt message.
 * SDM Vol. 3A "Message Signalled Interrupts".
 */
#ifndef LOCUM_IRQ_MSI_H
#define LOCUM_IRQ_MSI_H

#include "irq/irqchip.h"

/** msi_is_valid() - with 32-bit IDs the low byte of @addr_hi must be zero */
static inline bool msi_is_valid(u32 addr_hi, bool x2apic_format)
{
	return !x2apic_format || !(addr_hi & 0xff);
}

/** msi_decode() - @addr_lo, @addr_hi, @data to *@msg.  With @x2apic_format the
 * destination's upper 24 bits come from @addr_hi. */
void msi_decode(u32 addr_lo, u32 addr_hi, u32 data, bool x2apic_format,
		struct irq_msg *msg);

#endif
