/* SPDX-License-Identifier: MIT */
/* ioctls of /dev/kvm itself. */
#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "api/cpuid.h"
#include "api/handlers.h"
#include "api/msrs.h"
#include "api/objects.h"
#include "api/uaccess.h"
#include "cpu/fp.h"
#include "cpu/msr.h"
#include "vm/caps.h"
#include "vm/msr.h"
#include "vm/vcpu.h"

long sys_get_api_version(void *data, u64 arg)
{
	(void)data;
	return arg ? -EINVAL : KVM_API_VERSION;
}

long sys_create_vm(void *data, u64 arg)
{
	(void)data;
	return api_create_vm(arg);
}

long sys_check_extension(void *data, u64 arg)
{
	(void)data;
	return caps_value(NULL, arg);
}

long sys_get_mmap_size(void *data, u64 arg)
{
	(void)data;
	return arg ? -EINVAL : (long)VCPU_MMAP_SIZE;
}

/* The two lists: how many there are is always told; all or nothing after. */
static long copy_msr_list(u64 arg, unsigned (*list)(u32 *out, unsigned max))
{
	u32 indices[MSR_LIST_MAX];
	struct kvm_msr_list head;
	unsigned n = list(indices, MSR_LIST_MAX);
	u32 room;

	if (copy_from_client(&head, arg, sizeof(head)))
		return -EFAULT;
	room = head.nmsrs;
	head.nmsrs = n;
	if (copy_to_client(arg, &head, sizeof(head)))
		return -EFAULT;
	if (room < n)
		return -E2BIG;
	return copy_to_client(arg + sizeof(head), indices, n * sizeof(u32));
}

long sys_get_msr_list(void *data, u64 arg)
{
	(void)data;
	return copy_msr_list(arg, msr_list);
}

long sys_get_msr_feature_list(void *data, u64 arg)
{
	(void)data;
	return copy_msr_list(arg, msr_feature_list);
}

static bool get_feature(void *opaque, u32 index, u64 *value)
{
	(void)opaque;
	return msr_feature_get(index, value);
}

long sys_get_msrs(void *data, u64 arg)
{
	(void)data;
	return msrs_transfer(arg, get_feature, NULL, NULL);
}

long sys_get_supported_cpuid(void *data, u64 arg)
{
	(void)data;
	return cpuid_copy_supported(arg);
}

long sys_get_emulated_cpuid(void *data, u64 arg)
{
	(void)data;
	return cpuid_copy_emulated(arg);
}

long sys_get_mce_cap(void *data, u64 arg)
{
	(void)arg;
	*(u64 *)data = CAPS_MCG | MCE_BANKS;
	return 0;
}

/* The one attribute: which XCR0 components need arch_prctl() first (none). */
static bool is_xcomp_attr(const struct kvm_device_attr *a)
{
	return !a->group && a->attr == KVM_X86_XCOMP_GUEST_SUPP;
}

long sys_get_device_attr(void *data, u64 arg)
{
	struct kvm_device_attr *a = data;
	u64 xcr0 = fp_supported_xcr0();

	(void)arg;
	if (!is_xcomp_attr(a))
		return -ENXIO;
	return copy_to_client(a->addr, &xcr0, sizeof(xcr0));
}

long sys_has_device_attr(void *data, u64 arg)
{
	(void)arg;
	return is_xcomp_attr(data) ? 0 : -ENXIO;
}
