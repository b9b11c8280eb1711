/* SPDX-License-Identifier: MIT */
/*
 * Guest access to LAPIC registers: the MMIO page, the x2APIC MSRs, APICBASE.
 * SDM Vol. 3A "Local APIC", "Extended XAPIC (x2APIC)".
 */
#include <string.h>

#include "irq/irqchip.h"
#include "irq/lapic.h"
#include "irq/lapic_timer.h"

/* The 32-bit word of a 256-bit register at @offset from its first word. */
static u32 map_word(const u64 map[4], unsigned offset)
{
	unsigned word = offset >> 4;

	return (u32)(map[word / 2] >> (32 * (word & 1)));
}

static u32 atomic_map_word(const _Atomic u64 map[4], unsigned offset)
{
	unsigned word = offset >> 4;

	return (u32)(atomic_load(&map[word / 2]) >> (32 * (word & 1)));
}

static u32 version(const struct lapic *l)
{
	u32 last_lvt = l->features & LAPIC_HAS_CMCI ? 6 : 5;
	u32 value = APIC_VERSION_LOW | last_lvt << 16;

	if ((l->features & LAPIC_HAS_X2APIC) && l->chip->mode != IRQCHIP_KERNEL)
		value |= APIC_VERSION_DIRECTED;
	return value;
}

/* Writable bits of a local vector table entry. */
static u32 lvt_writable(const struct lapic *l, unsigned offset)
{
	u32 mask = LVT_VECTOR | LVT_MASKED;

	switch (offset) {
	case APIC_LVTT:
		return mask | LVTT_PERIODIC |
		       (l->features & LAPIC_HAS_TSC_DEADLINE ? LVTT_TSCDEADLINE : 0);
	case APIC_LVT0:
	case APIC_LVT1:
		return mask | LVT_MODE | LVT_POLARITY | LVT_LEVEL;
	case APIC_LVTERR:
		return mask;
	default:
		return mask | LVT_MODE;
	}
}

bool lapic_reg_read(struct lapic *l, unsigned offset, u32 *value)
{
	bool x2apic = lapic_x2apic(l);

	switch (offset) {
	case APIC_ID:
		*value = x2apic ? l->id : lapic_reg(l, APIC_ID);
		return true;
	case APIC_VERSION:
		*value = version(l);
		return true;
	case APIC_TPR:
		*value = l->tpr;
		return true;
	case APIC_PPR:
		*value = atomic_load(&l->ppr);
		return true;
	case APIC_APR:
	case APIC_DFR:
	case APIC_ICR2:
		*value = lapic_reg(l, offset);
		return !x2apic;
	case APIC_LDR:
		*value = x2apic ? x2apic_ldr(l->id) : lapic_reg(l, APIC_LDR);
		return true;
	case APIC_ISR ... APIC_ISR + 0x70:
		*value = map_word(l->isr, offset - APIC_ISR);
		return true;
	case APIC_TMR ... APIC_TMR + 0x70:
		*value = atomic_map_word(l->tmr, offset - APIC_TMR);
		return true;
	case APIC_IRR ... APIC_IRR + 0x70:
		*value = atomic_map_word(l->irr, offset - APIC_IRR);
		return true;
	case APIC_LVTCMCI:
		*value = lapic_reg(l, offset);
		return l->features & LAPIC_HAS_CMCI;
	case APIC_TMCCT:
		*value = lapic_timer_current(l);
		return true;
	case APIC_SVR:
	case APIC_ESR:
	case APIC_ICR:
	case APIC_LVTT:
	case APIC_LVTTHMR:
	case APIC_LVTPC:
	case APIC_LVT0:
	case APIC_LVT1:
	case APIC_LVTERR:
	case APIC_TMICT:
	case APIC_TDCR:
		*value = lapic_reg(l, offset);
		return true;
	default:
		return false;
	}
}

static void mask_all_lvts(struct lapic *l)
{
	for (unsigned lvt = APIC_LVTT; lvt <= APIC_LVTERR; lvt += 0x10)
		lapic_put_reg(l, lvt, lapic_reg(l, lvt) | LVT_MASKED);
	lapic_put_reg(l, APIC_LVTCMCI, lapic_reg(l, APIC_LVTCMCI) | LVT_MASKED);
}

static void write_svr(struct lapic *l, u32 value)
{
	u32 mask = 0x3ff | (version(l) & APIC_VERSION_DIRECTED ? SVR_DIRECTED : 0);

	lapic_put_reg(l, APIC_SVR, value & mask);
	if (!(value & SVR_ENABLE))
		mask_all_lvts(l);
}

static void request_extint_if_raised(struct lapic *l)
{
	if (irqchip_has_extint(l->chip, l))
		l->chip->ops->request(l->vcpu, IRQ_REQ_EXTINT);
}

static void write_lvt(struct lapic *l, unsigned offset, u32 value)
{
	if (!lapic_sw_enabled(l))
		value |= LVT_MASKED;
	value &= lvt_writable(l, offset);
	if (offset == APIC_LVTT) {
		lapic_timer_write_lvtt(l, value);
		return;
	}
	lapic_put_reg(l, offset, value);
	if (offset == APIC_LVT0)
		request_extint_if_raised(l);
}

/* A register that x2APIC mode does not have or does not let write. */
static bool write_xapic_only(struct lapic *l, unsigned offset, u32 value)
{
	if (lapic_x2apic(l))
		return false;
	lapic_put_reg(l, offset,
		      offset == APIC_DFR ? value | 0x0fffffff : value & 0xff000000);
	return true;
}

bool lapic_reg_write(struct lapic *l, unsigned offset, u32 value)
{
	switch (offset) {
	case APIC_ID:
	case APIC_LDR:
	case APIC_DFR:
	case APIC_ICR2:
		return write_xapic_only(l, offset, value);
	case APIC_TPR:
		l->tpr = (u8)value;
		lapic_update_ppr(l);
		return true;
	case APIC_EOI:
		lapic_eoi(l);
		return true;
	case APIC_SVR:
		write_svr(l, value);
		return true;
	case APIC_ESR:
		/* No errors are recorded; the write only latches them. */
		return !lapic_x2apic(l) || !value;
	case APIC_ICR:
		lapic_put_reg(l, APIC_ICR, value & ~ICR_BUSY);
		lapic_send_ipi(l, value,
			       lapic_x2apic(l) ? lapic_reg(l, APIC_ICR2)
					       : lapic_reg(l, APIC_ICR2) >> 24);
		return true;
	case APIC_LVTCMCI:
		if (!(l->features & LAPIC_HAS_CMCI))
			return false;
		/* fallthrough */
	case APIC_LVTT:
	case APIC_LVTTHMR:
	case APIC_LVTPC:
	case APIC_LVT0:
	case APIC_LVT1:
	case APIC_LVTERR:
		write_lvt(l, offset, value);
		return true;
	case APIC_TMICT:
		lapic_timer_write_tmict(l, value);
		return true;
	case APIC_TDCR:
		lapic_timer_write_tdcr(l, value);
		return true;
	case APIC_SELF_IPI:
		if (!lapic_x2apic(l) || value > 0xff)
			return false;
		lapic_send_ipi(l, APIC_SELF << ICR_SHORT_SHIFT | value, 0);
		return true;
	default:
		return false;
	}
}

bool lapic_mmio_hits(const struct lapic *l, gpa_t gpa)
{
	u64 base = atomic_load_explicit(&l->base, memory_order_relaxed);

	if (gpa - (base & GENMASK64(51, 12)) >= PAGE_SIZE)
		return false;
	if (lapic_hw_enabled(l) && !lapic_x2apic(l))
		return true;
	return !l->chip->no_mmio_hole_quirk;
}

static bool is_hole(const struct lapic *l)
{
	return !lapic_hw_enabled(l) || lapic_x2apic(l);
}

void lapic_mmio_read(struct lapic *l, unsigned offset, void *data, unsigned len)
{
	unsigned byte = offset & 0xf;
	u32 value;

	memset(data, is_hole(l) ? 0xff : 0, len);
	if (is_hole(l) || byte + len > 4 || len == 3)
		return;
	if (lapic_reg_read(l, offset & ~0xfu, &value))
		memcpy(data, (const u8 *)&value + byte, len);
}

void lapic_mmio_write(struct lapic *l, unsigned offset, const void *data, unsigned len)
{
	u32 value;

	if (is_hole(l) || len != 4 || (offset & 0xf))
		return;
	memcpy(&value, data, 4);
	lapic_reg_write(l, offset, value);
}

static bool write_x2apic_icr(struct lapic *l, u64 value)
{
	if (value & X2APIC_ICR_RESERVED)
		return false;
	lapic_put_reg(l, APIC_ICR2, (u32)(value >> 32));
	return lapic_reg_write(l, APIC_ICR, (u32)value);
}

static bool x2apic_read(struct lapic *l, unsigned offset, u64 *value)
{
	u32 low;

	if (offset == APIC_ICR) {
		*value = (u64)lapic_reg(l, APIC_ICR2) << 32 | lapic_reg(l, APIC_ICR);
		return true;
	}
	if (!lapic_reg_read(l, offset, &low))
		return false;
	*value = low;
	return true;
}

bool lapic_msr_read(struct lapic *l, u32 msr, u64 *value)
{
	switch (msr) {
	case MSR_APIC_BASE:
		*value = atomic_load_explicit(&l->base, memory_order_relaxed);
		return true;
	case MSR_TSC_DEADLINE:
		*value = lapic_timer_deadline(l);
		return true;
	case MSR_X2APIC_FIRST ... MSR_X2APIC_FIRST + 0x3f:
		return lapic_x2apic(l) &&
		       x2apic_read(l, (msr - MSR_X2APIC_FIRST) << 4, value);
	default:
		return false;
	}
}

bool lapic_msr_write(struct lapic *l, u32 msr, u64 value, bool host)
{
	u64 base = atomic_load_explicit(&l->base, memory_order_relaxed);

	switch (msr) {
	case MSR_APIC_BASE:
		if (!apicbase_valid(base, value, l->features & LAPIC_HAS_X2APIC,
				    l->maxphyaddr, host))
			return false;
		lapic_set_base(l, value);
		return true;
	case MSR_TSC_DEADLINE:
		lapic_timer_write_deadline(l, value);
		return true;
	case MSR_X2APIC_FIRST + (APIC_ICR >> 4):
		return lapic_x2apic(l) && write_x2apic_icr(l, value);
	case MSR_X2APIC_FIRST ... MSR_X2APIC_FIRST + 0x2f:
	case MSR_X2APIC_FIRST + 0x31 ... MSR_X2APIC_FIRST + 0x3f:
		return lapic_x2apic(l) && !(value >> 32) &&
		       lapic_reg_write(l, (msr - MSR_X2APIC_FIRST) << 4, (u32)value);
	default:
		return false;
	}
}

bool apicbase_valid(u64 old, u64 value, bool x2apic, u8 maxphyaddr, bool host)
{
	const u64 modes = APICBASE_ENABLE | APICBASE_X2APIC;
	u64 reserved = 0x2ff | (maxphyaddr < 64 ? ~0ull << maxphyaddr : 0);

	if (!x2apic)
		reserved |= APICBASE_X2APIC;
	if ((value & reserved) || (value & modes) == APICBASE_X2APIC)
		return false;
	if (host)
		return true;
	/* x2APIC mode is entered from xAPIC mode, and left by disabling. */
	if ((old & modes) == modes && (value & modes) == APICBASE_ENABLE)
		return false;
	return (old & modes) || (value & modes) != modes;
}

void lapic_set_base(struct lapic *l, u64 value)
{
	u64 old = atomic_exchange(&l->base, value);

	if (old == value)
		return;
	if ((old ^ value) & APICBASE_ENABLE) {
		if (value & APICBASE_ENABLE) {
			lapic_put_reg(l, APIC_ID, l->id << 24);
			/* What is in IRR has become visible. */
			lapic_recheck(l);
		}
		request_extint_if_raised(l);
	}
	l->chip->ops->base_changed(l->vcpu);
}
