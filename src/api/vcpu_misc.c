/* SPDX-License-Identifier: MIT */
/* vCPU ioctls: interrupts, time, capabilities and the odd rest. */
#include <errno.h>
#include <linux/kvm.h>
#include <string.h>

#include "api/handlers.h"
#include "api/uaccess.h"
#include "irq/lapic.h"
#include "vm/caps.h"
#include "vm/event.h"
#include "vm/vm.h"
#include "x86/msr.h"

long vcpu_interrupt(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return event_interrupt(v, ((const struct kvm_interrupt *)data)->irq);
}

long vcpu_nmi(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	event_add_nmi(v);
	return 0;
}

long vcpu_smi(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	event_add_smi(v);
	return 0;
}

long vcpu_set_signal_mask(struct vcpu *v, void *data, u64 arg)
{
	struct kvm_signal_mask head;
	u64 mask;

	(void)data;
	if (!arg) {
		v->sigmask_set = false;
		return 0;
	}
	if (copy_from_client(&head, arg, sizeof(head)))
		return -EFAULT;
	if (head.len != sizeof(mask))
		return -EINVAL;
	if (copy_from_client(&mask, arg + sizeof(head), sizeof(mask)))
		return -EFAULT;
	/* SIGKILL and SIGSTOP cannot be blocked. */
	v->sigmask = mask & ~(BIT64(9 - 1) | BIT64(19 - 1));
	v->sigmask_set = true;
	return 0;
}

/* --- time --------------------------------------------------------------------- */

long vcpu_set_tsc_khz_ioctl(struct vcpu *v, void *data, u64 arg)
{
	u32 khz = (u32)arg;

	(void)data;
	if (arg > 10000000) /* the kernel's limit is one of its arithmetic, as ours */
		return -EINVAL;
	vcpu_set_tsc_khz(v, khz ? khz : v->vm->clock->tsc_khz);
	return 0;
}

long vcpu_get_tsc_khz(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	return v->tsc.clock.tsc_khz;
}

long vcpu_kvmclock_ctrl(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	if (!(v->kvmclock.msr & 1))
		return -EINVAL;
	v->kvmclock.stopped = true;
	vcpu_request(v, VCPU_REQ_CLOCK);
	return 0;
}

/* --- machine checks -------------------------------------------------------------- */

long vcpu_setup_mce(struct vcpu *v, void *data, u64 arg)
{
	u64 cap = *(u64 *)data;
	u32 banks = cap & 0xff;

	(void)arg;
	if (!banks || banks > MCE_BANKS || (cap & ~(CAPS_MCG | 0xff | 0xff0000)))
		return -EINVAL;
	v->cpu.msr.mcg_cap = cap;
	if (cap & MCG_CTL_P)
		v->cpu.msr.mcg_ctl = ~0ull;
	for (u32 i = 0; i < banks; i++)
		v->cpu.msr.mc_bank[i * 4] = ~0ull;
	vcpu_cpuid_changed(v);
	return 0;
}

#define MCI_VAL	 BIT64(63)
#define MCI_OVER BIT64(62)
#define MCI_UC	 BIT64(61)
#define MCG_MCIP BIT64(2)

static void store_mce(u64 *bank, const struct kvm_x86_mce *mce)
{
	u64 over = bank[1] & MCI_VAL ? MCI_OVER : 0;

	bank[1] = mce->status | over;
	bank[2] = mce->addr;
	bank[3] = mce->misc;
}

/* An uncorrected error raises #MC; one that the guest cannot take is fatal. */
static void raise_mce(struct vcpu *v, u64 *bank, const struct kvm_x86_mce *mce)
{
	struct cpu *c = &v->cpu;

	if ((c->msr.mcg_status & MCG_MCIP) || !(c->mmu.cr4 & CR4_MCE)) {
		v->triple_fault_pending = true;
		vcpu_request(v, VCPU_REQ_EVENT);
		return;
	}
	store_mce(bank, mce);
	c->msr.mcg_status = mce->mcg_status;
	event_queue_exception(v, EXC_MC, false, 0);
	vcpu_request(v, VCPU_REQ_EVENT);
}

long vcpu_set_mce(struct vcpu *v, void *data, u64 arg)
{
	const struct kvm_x86_mce *mce = data;
	u64 cap = v->cpu.msr.mcg_cap, *bank;

	(void)arg;
	if (mce->bank >= (cap & 0xff) || !(mce->status & MCI_VAL))
		return -EINVAL;
	bank = &v->cpu.msr.mc_bank[mce->bank * 4];
	if (mce->status & MCI_UC) {
		/* Reporting of it, or of this bank, may be turned off. */
		if (((cap & MCG_CTL_P) && v->cpu.msr.mcg_ctl != ~0ull) || bank[0] != ~0ull)
			return 0;
		raise_mce(v, bank, mce);
	} else if (bank[1] & MCI_VAL && bank[1] & MCI_UC) {
		bank[1] |= MCI_OVER; /* the worse one stays */
	} else {
		store_mce(bank, mce);
	}
	return 0;
}

/* --- the local APIC's helpers for old Windows guests ------------------------------ */

long vcpu_tpr_reporting(struct vcpu *v, void *data, u64 arg)
{
	const struct kvm_tpr_access_ctl *c = data;

	(void)v;
	(void)arg;
	/* Accesses are never reported: the client then patches nothing. */
	return c->flags ? -EINVAL : 0;
}

long vcpu_set_vapic_addr(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	return v->lapic ? 0 : -EINVAL;
}

/* --- capabilities ------------------------------------------------------------------ */

long vcpu_enable_cap(struct vcpu *v, void *data, u64 arg)
{
	const struct kvm_enable_cap *c = data;

	(void)arg;
	if (c->flags)
		return -EINVAL;
	switch (c->cap) {
	case KVM_CAP_ENFORCE_PV_FEATURE_CPUID:
		v->pv_enforce = c->args[0] != 0;
		return 0;
	default:
		return -EINVAL;
	}
}

long vcpu_get_stats_fd(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	return stats_reopen(&v->stats);
}
