/* SPDX-License-Identifier: MIT */
#include "vm/mce.h"

#include <errno.h>

#include "irq/lapic.h"
#include "vm/caps.h"
#include "vm/event.h"
#include "x86/msr.h"

#define MCI_VAL	 BIT64(63)
#define MCI_OVER BIT64(62)
#define MCI_UC	 BIT64(61)
#define MCI_PCC	 BIT64(57)
#define MCI_S	 BIT64(56)
#define MCI_AR	 BIT64(55)
#define MCG_MCIP BIT64(2)

/* Registers of a bank. */
enum { CTL, STATUS, ADDR, MISC };

int mce_setup(struct vcpu *v, u64 cap)
{
	u32 banks = cap & MCG_BANKS;

	if (!banks || banks > MCE_BANKS || (cap & ~(CAPS_MCG | MCG_BANKS | 0xff0000)))
		return -EINVAL;
	v->cpu.msr.mcg_cap = cap;
	if (cap & MCG_CTL_P)
		v->cpu.msr.mcg_ctl = ~0ull;
	for (u32 i = 0; i < banks; i++) {
		v->cpu.msr.mc_bank[i * 4 + CTL] = ~0ull;
		if (cap & MCG_CMCI_P)
			v->cpu.msr.mc_ctl2[i] = 0;
	}
	vcpu_cpuid_changed(v); /* the LAPIC's seventh local vector */
	return 0;
}

static void store(u64 *bank, const struct kvm_x86_mce *mce, u64 over)
{
	bank[STATUS] = mce->status | over;
	bank[ADDR] = mce->addr;
	bank[MISC] = mce->misc;
}

static u64 overflow(const u64 *bank)
{
	return bank[STATUS] & MCI_VAL ? MCI_OVER : 0;
}

/* Uncorrected, but nobody need do anything now: the newest one stays, and a
 * corrected-machine-check interrupt may tell of it. */
static bool is_ucna(const struct kvm_x86_mce *mce)
{
	return !mce->mcg_status && !(mce->status & (MCI_PCC | MCI_S | MCI_AR));
}

static void inject_ucna(struct vcpu *v, u64 *bank, const struct kvm_x86_mce *mce)
{
	struct cpu *c = &v->cpu;

	store(bank, mce, 0);
	c->msr.mcg_status = mce->mcg_status;
	if ((c->msr.mcg_cap & MCG_CMCI_P) &&
	    (c->msr.mc_ctl2[mce->bank] & MCI_CTL2_CMCI_EN) && v->lapic)
		lapic_local_deliver(v->lapic, APIC_LVTCMCI);
}

/* An uncorrected error raises #MC; one that the guest cannot take is fatal. */
static void inject_uncorrected(struct vcpu *v, u64 *bank, const struct kvm_x86_mce *mce)
{
	struct cpu *c = &v->cpu;

	/* Reporting of it, or of this bank, may be turned off. */
	if (((c->msr.mcg_cap & MCG_CTL_P) && c->msr.mcg_ctl != ~0ull) || bank[CTL] != ~0ull)
		return;
	if ((c->msr.mcg_status & MCG_MCIP) || !(c->mmu.cr4 & CR4_MCE)) {
		v->triple_fault_pending = true;
	} else {
		store(bank, mce, overflow(bank));
		c->msr.mcg_status = mce->mcg_status;
		event_queue_exception(v, EXC_MC, false, 0);
	}
	vcpu_request(v, VCPU_REQ_EVENT);
}

int mce_inject(struct vcpu *v, const struct kvm_x86_mce *mce)
{
	u64 *bank;

	if (mce->bank >= (v->cpu.msr.mcg_cap & MCG_BANKS) || !(mce->status & MCI_VAL))
		return -EINVAL;
	bank = &v->cpu.msr.mc_bank[mce->bank * 4];
	if (is_ucna(mce))
		inject_ucna(v, bank, mce);
	else if (mce->status & MCI_UC)
		inject_uncorrected(v, bank, mce);
	else if ((bank[STATUS] & MCI_VAL) && (bank[STATUS] & MCI_UC))
		bank[STATUS] |= MCI_OVER; /* the worse one stays */
	else
		store(bank, mce, overflow(bank));
	return 0;
}
