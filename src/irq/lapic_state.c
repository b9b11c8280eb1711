/* SPDX-License-Identifier: MIT */
/*
 * KVM_GET_LAPIC and KVM_SET_LAPIC: the first 1024 bytes of the register page,
 * each 32-bit register at a multiple of 16.
 *
 * In x2APIC mode the ID is 32 bits wide only if the client asked for that
 * format, else in bits 31:24; ICR is split as in xAPIC mode; LDR follows the ID.
 */
#include <errno.h>
#include <string.h>

#include "irq/irqchip.h"
#include "irq/lapic.h"
#include "irq/lapic_timer.h"

static u32 image_get(const struct kvm_lapic_state *s, unsigned offset)
{
	u32 value;

	memcpy(&value, s->regs + offset, sizeof(value));
	return value;
}

static void image_put(struct kvm_lapic_state *s, unsigned offset, u32 value)
{
	memcpy(s->regs + offset, &value, sizeof(value));
}

void lapic_get_state(struct lapic *l, struct kvm_lapic_state *s)
{
	u32 value;

	/* What has expired belongs into IRR, not into the count. */
	lapic_timer_run(l, l->chip->clock->now_ns(l->chip->clock));
	memset(s, 0, sizeof(*s));
	for (unsigned offset = 0; offset < sizeof(s->regs); offset += 0x10) {
		if (lapic_reg_read(l, offset, &value))
			image_put(s, offset, value);
	}
	/* Registers that x2APIC mode hides from the guest. */
	image_put(s, APIC_ICR2, lapic_reg(l, APIC_ICR2));
	image_put(s, APIC_DFR, lapic_reg(l, APIC_DFR));
	if (lapic_x2apic(l) && !l->chip->x2apic_format)
		image_put(s, APIC_ID, l->id << 24);
}

/* Eight 32-bit words to four of 64 bits. */
static u64 image_map(const struct kvm_lapic_state *s, unsigned offset, unsigned word)
{
	offset += word * 0x20;
	return image_get(s, offset) | (u64)image_get(s, offset + 0x10) << 32;
}

static void load_registers(struct lapic *l, const struct kvm_lapic_state *s)
{
	static const struct {
		u16 offset;
		u32 mask;
	} plain[] = {
		{APIC_LDR, 0xff000000},
		{APIC_DFR, 0xffffffff},
		{APIC_SVR, 0x000013ff},
		{APIC_ICR, ~ICR_BUSY},
		{APIC_ICR2, 0xffffffff},
		{APIC_LVTCMCI, LVT_VECTOR | LVT_MODE | LVT_MASKED},
		{APIC_LVTTHMR, LVT_VECTOR | LVT_MODE | LVT_MASKED},
		{APIC_LVTPC, LVT_VECTOR | LVT_MODE | LVT_MASKED},
		{APIC_LVT0,
		 LVT_VECTOR | LVT_MODE | LVT_POLARITY | LVT_LEVEL | LVT_MASKED},
		{APIC_LVT1,
		 LVT_VECTOR | LVT_MODE | LVT_POLARITY | LVT_LEVEL | LVT_MASKED},
		{APIC_LVTERR, LVT_VECTOR | LVT_MASKED},
		{APIC_TDCR, 0xb},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(plain); i++)
		lapic_put_reg(l, plain[i].offset,
			      image_get(s, plain[i].offset) & plain[i].mask);
	if (!lapic_x2apic(l))
		lapic_put_reg(l, APIC_ID, image_get(s, APIC_ID) & 0xff000000);
	l->tpr = (u8)image_get(s, APIC_TPR);
	for (unsigned i = 0; i < 4; i++) {
		l->isr[i] = image_map(s, APIC_ISR, i);
		atomic_store(&l->tmr[i], image_map(s, APIC_TMR, i));
		atomic_store(&l->irr[i], image_map(s, APIC_IRR, i));
	}
}

static void load_timer(struct lapic *l, const struct kvm_lapic_state *s)
{
	u32 lvtt = LVT_VECTOR | LVT_MASKED | LVTT_MODE;

	if (!(l->features & LAPIC_HAS_TSC_DEADLINE))
		lvtt &= ~LVTT_TSCDEADLINE;
	/* Stops the timer if the mode changes to or from TSC deadline; a tick of
	 * the old state must not be delivered into the new one. */
	if ((lapic_reg(l, APIC_LVTT) ^ image_get(s, APIC_LVTT)) & LVTT_MODE)
		lapic_timer_reset(l);
	lapic_put_reg(l, APIC_LVTT, image_get(s, APIC_LVTT) & lvtt);
	lapic_put_reg(l, APIC_TMICT, image_get(s, APIC_TMICT));
	lapic_timer_restore(l, image_get(s, APIC_TMCCT));
}

int lapic_set_state(struct lapic *l, const struct kvm_lapic_state *s)
{
	if (lapic_x2apic(l) && l->chip->x2apic_format && image_get(s, APIC_ID) != l->id)
		return -EINVAL;
	load_registers(l, s);
	/* Before the timer: a deadline in the past posts at once. */
	lapic_recheck(l);
	load_timer(l, s);
	if (irqchip_has_extint(l->chip, l))
		l->chip->ops->request(l->vcpu, IRQ_REQ_EXTINT);
	return 0;
}
