/* SPDX-License-Identifier: MIT */
/* VM ioctls: vCPUs, clock, capabilities, MSR filter, statistics. */
#include <errno.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/objects.h"
#include "api/uaccess.h"
#include "vm/caps.h"
#include "vm/vcpu.h"
#include "vm/vm.h"

long vm_check_extension(struct vm *vm, void *data, u64 arg)
{
	(void)data;
	return caps_value(vm, arg);
}

long vm_create_vcpu(struct vm *vm, void *data, u64 arg)
{
	(void)data;
	return api_create_vcpu(vm, arg);
}

long vm_set_boot_cpu_id(struct vm *vm, void *data, u64 arg)
{
	long r = 0;

	(void)data;
	pthread_mutex_lock(&vm->lock);
	if (atomic_load(&vm->nr_vcpus))
		r = -EBUSY;
	else
		vm->bsp_id = (u32)arg;
	pthread_mutex_unlock(&vm->lock);
	return r;
}

/* --- time ------------------------------------------------------------------- */

long vm_get_clock(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	kvmclock_get(&vm->kvmclock, data);
	return 0;
}

long vm_set_clock(struct vm *vm, void *data, u64 arg)
{
	int r = kvmclock_set(&vm->kvmclock, data);

	(void)arg;
	if (!r)
		vm_request_all(vm, VCPU_REQ_CLOCK);
	return r;
}

long vm_set_tsc_khz(struct vm *vm, void *data, u64 arg)
{
	long r = 0;

	(void)data;
	if (arg > ~0u)
		return -EINVAL;
	pthread_mutex_lock(&vm->lock);
	if (atomic_load(&vm->nr_vcpus))
		r = -EINVAL;
	else
		vm->default_tsc_khz = arg ? (u32)arg : vm->clock->tsc_khz;
	pthread_mutex_unlock(&vm->lock);
	return r;
}

long vm_get_tsc_khz(struct vm *vm, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	return vm->default_tsc_khz;
}

/* --- KVM_ENABLE_CAP --------------------------------------------------------------- */

static long enable_split_irqchip(struct vm *vm, u64 pins)
{
	if (pins > ROUTE_MAX_GSIS)
		return -EINVAL;
	if (vm->irqchip.mode != IRQCHIP_NONE)
		return -EEXIST;
	if (atomic_load(&vm->nr_vcpus))
		return -EINVAL;
	return irqchip_create_split(&vm->irqchip, (unsigned)pins);
}

static long enable_max_vcpu_id(struct vm *vm, u64 max)
{
	if (!max || max > VM_MAX_VCPU_ID)
		return -EINVAL;
	if (vm->max_vcpu_id_set)
		return max == vm->max_vcpu_id ? 0 : -EINVAL;
	vm->max_vcpu_id = (u32)max;
	vm->max_vcpu_id_set = true;
	return 0;
}

static long enable_x2apic_api(struct vm *vm, u64 flags)
{
	if (flags & ~(u64)CAPS_X2APIC)
		return -EINVAL;
	vm->irqchip.x2apic_format |= (flags & KVM_X2APIC_API_USE_32BIT_IDS) != 0;
	vm->irqchip.no_broadcast_quirk |=
		(flags & KVM_X2APIC_API_DISABLE_BROADCAST_QUIRK) != 0;
	return 0;
}

static long disable_quirks(struct vm *vm, u64 quirks)
{
	/* The mask replaces the last one: a quirk may come back. */
	atomic_store(&vm->disabled_quirks, quirks);
	vm->irqchip.no_lint0_quirk = (quirks & KVM_X86_QUIRK_LINT0_REENABLED) != 0;
	vm->irqchip.no_mmio_hole_quirk = (quirks & KVM_X86_QUIRK_LAPIC_MMIO_HOLE) != 0;
	return 0;
}

static long enable_manual_dirty(struct vm *vm, u64 flags)
{
	return mem_set_dirty_mode(vm->mem, flags);
}

static long disable_exits(struct vm *vm, u64 exits)
{
	if ((exits & ~(u64)KVM_X86_DISABLE_VALID_EXITS) || atomic_load(&vm->nr_vcpus))
		return -EINVAL;
	atomic_fetch_or(&vm->disabled_exits, exits);
	return 0;
}

static long enable_dirty_ring(struct vm *vm, u64 bytes)
{
	int r;

	/* Bad sizes first, as the kernel. */
	if (!atomic_load(&vm->nr_vcpus))
		return mem_set_ring_bytes(vm->mem, bytes);
	r = mem_check_ring_bytes(bytes);
	return r ? r : -EINVAL;
}

static long enable_locked(struct vm *vm, const struct kvm_enable_cap *cap)
{
	u64 a = cap->args[0];

	switch (cap->cap) {
	case KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2:
		return enable_manual_dirty(vm, a);
	case KVM_CAP_DIRTY_LOG_RING:
	case KVM_CAP_DIRTY_LOG_RING_ACQ_REL:
		return enable_dirty_ring(vm, a);
	case KVM_CAP_DISABLE_QUIRKS2:
		if (a & ~(u64)CAPS_QUIRKS)
			return -EINVAL;
		return disable_quirks(vm, a);
	case KVM_CAP_DISABLE_QUIRKS:
		return disable_quirks(vm, a);
	case KVM_CAP_SPLIT_IRQCHIP:
		return enable_split_irqchip(vm, a);
	case KVM_CAP_X2APIC_API:
		return enable_x2apic_api(vm, a);
	case KVM_CAP_EXCEPTION_PAYLOAD:
		atomic_store(&vm->exception_payload, a != 0);
		return 0;
	case KVM_CAP_X86_TRIPLE_FAULT_EVENT:
		atomic_store(&vm->triple_fault_event, a != 0);
		return 0;
	case KVM_CAP_X86_USER_SPACE_MSR:
		if (a & ~(u64)CAPS_MSR_EXITS)
			return -EINVAL;
		atomic_store(&vm->user_msr_mask, (u32)a);
		return 0;
	case KVM_CAP_MSR_PLATFORM_INFO:
		atomic_store(&vm->hide_platform_info, !a);
		return 0;
	case KVM_CAP_X86_DISABLE_EXITS:
		return disable_exits(vm, a);
	case KVM_CAP_EXIT_ON_EMULATION_FAILURE:
		return a > 1 ? -EINVAL : 0; /* it always exits */
	case KVM_CAP_MAX_VCPU_ID:
		return enable_max_vcpu_id(vm, a);
	default:
		return -EINVAL;
	}
}

long vm_enable_cap(struct vm *vm, void *data, u64 arg)
{
	const struct kvm_enable_cap *cap = data;
	long r;

	(void)arg;
	if (cap->flags)
		return -EINVAL;
	pthread_mutex_lock(&vm->lock);
	r = enable_locked(vm, cap);
	pthread_mutex_unlock(&vm->lock);
	return r;
}

/* --- MSR filter ---------------------------------------------------------------------- */

/* Replace the client's bitmap pointers by copies. */
static int copy_bitmaps(struct kvm_msr_filter *f)
{
	int error = 0;

	for (unsigned i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++) {
		struct kvm_msr_filter_range *r = &f->ranges[i];
		u64 from = (u64)(uintptr_t)r->bitmap;
		size_t bytes = ((size_t)r->nmsrs + 7) / 8;

		r->bitmap = NULL;
		if (!r->nmsrs || error)
			continue;
		if (bytes > KVM_MSR_FILTER_MAX_BITMAP_SIZE)
			error = -EINVAL;
		else
			r->bitmap = dup_from_client(from, bytes, &error);
	}
	return error;
}

static void install_filter(struct vm *vm, struct msr_filter *f)
{
	struct msr_filter *old;

	pthread_mutex_lock(&vm->lock);
	old = atomic_exchange(&vm->filter, f);
	if (old) { /* a vCPU may be looking at it: kept until the VM goes */
		old->next_old = vm->old_filters;
		vm->old_filters = old;
	}
	pthread_mutex_unlock(&vm->lock);
}

long vm_set_msr_filter(struct vm *vm, void *data, u64 arg)
{
	struct kvm_msr_filter *in = data;
	struct msr_filter *f = NULL;
	int r;

	(void)arg;
	if (in->flags & ~(u32)KVM_MSR_FILTER_DEFAULT_DENY)
		return -EINVAL;
	r = copy_bitmaps(in);
	if (!r)
		r = msr_filter_create(in, &f);
	for (unsigned i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++)
		free(in->ranges[i].bitmap);
	if (!r)
		install_filter(vm, f);
	return r;
}

long vm_get_stats_fd(struct vm *vm, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	return stats_reopen(&vm->stats);
}
