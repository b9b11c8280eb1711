/* SPDX-License-Identifier: MIT */
#include "irq/msi.h"

void msi_decode(u32 addr_lo, u32 addr_hi, u32 data, bool x2apic_format,
		struct irq_msg *msg)
{
	*msg = (struct irq_msg){
		.dest = addr_lo >> 12 & 0xff,
		.vector = data & LVT_VECTOR,
		.mode = (data & LVT_MODE) >> ICR_MODE_SHIFT,
		.shorthand = APIC_NOSHORT,
		.logical = addr_lo & BIT(2),
		.level = data & ICR_LEVEL,
		.assert = true, /* KVM: bit 14 of the data is not looked at */
		.redir_hint = addr_lo & BIT(3),
	};
	if (x2apic_format)
		msg->dest |= addr_hi & 0xffffff00;
}
