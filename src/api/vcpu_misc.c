/* SPDX-License-Identifier: MIT */
/* vCPU ioctls: interrupts, time, capabilities and the odd rest. */
#include <errno.h>
#include <linux/kvm.h>
#include <string.h>

#include "api/handlers.h"
#include "api/signal.h"
#include "api/uaccess.h"
#include "irq/lapic.h"
#include "vm/caps.h"
#include "vm/event.h"
#include "vm/mce.h"
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
	api_signal_mask_set(v->sigmask);
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
	(void)arg;
	return mce_setup(v, *(u64 *)data);
}

long vcpu_set_mce(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return mce_inject(v, data);
}

/* --- attributes ------------------------------------------------------------------ */

static bool is_tsc_offset(const struct kvm_device_attr *a)
{
	return a->group == KVM_VCPU_TSC_CTRL && a->attr == KVM_VCPU_TSC_OFFSET;
}

long vcpu_has_device_attr(struct vcpu *v, void *data, u64 arg)
{
	(void)v;
	(void)arg;
	return is_tsc_offset(data) ? 0 : -ENXIO;
}

long vcpu_get_device_attr(struct vcpu *v, void *data, u64 arg)
{
	const struct kvm_device_attr *a = data;

	(void)arg;
	if (!is_tsc_offset(a))
		return -ENXIO;
	return copy_to_client(a->addr, &v->cpu.tsc_offset, sizeof(v->cpu.tsc_offset));
}

long vcpu_set_device_attr(struct vcpu *v, void *data, u64 arg)
{
	const struct kvm_device_attr *a = data;
	s64 offset;

	(void)arg;
	if (!is_tsc_offset(a))
		return -ENXIO;
	if (copy_from_client(&offset, a->addr, sizeof(offset)))
		return -EFAULT;
	pthread_mutex_lock(&v->vm->lock);
	vm_set_tsc_offset(v->vm, v, offset);
	pthread_mutex_unlock(&v->vm->lock);
	vcpu_tsc_changed(v);
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
