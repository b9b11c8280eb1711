/* SPDX-License-Identifier: MIT */
#include "api/cpuid.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "api/config.h"
#include "api/handlers.h"
#include "api/uaccess.h"
#include "cpu/cpuid.h"
#include "pv/pv.h"
#include "vm/vcpu.h"
#include "vm/vm.h"

#define SUPPORTED_MAX 80 /* what every client has room for */

/* Copy @n entries out if the client's array holds them. */
static long copy_out(u64 arg, const struct kvm_cpuid_entry2 *e, u32 n)
{
	struct kvm_cpuid2 head;

	if (copy_from_client(&head, arg, sizeof(head)))
		return -EFAULT;
	if (head.nent < n)
		return -E2BIG;
	head.nent = n;
	if (copy_to_client(arg + sizeof(head), e, n * sizeof(*e)) ||
	    copy_to_client(arg, &head, sizeof(head)))
		return -EFAULT;
	return 0;
}

static int vendor_of(const struct vm_config *c)
{
	switch (c->vendor) {
	case VM_VENDOR_INTEL:
		return VENDOR_INTEL;
	case VM_VENDOR_AMD:
		return VENDOR_AMD;
	case VM_VENDOR_HOST:
		break;
	}
	return -1;
}

long cpuid_copy_supported(u64 arg)
{
	const struct clock *clock = clock_host();
	struct kvm_cpuid_entry2 e[SUPPORTED_MAX];
	struct cpuid_offer offer = {
		.tsc_khz = clock->tsc_khz,
		.tsc_stable = clock->tsc_stable,
		.pv_features = pv_features(clock->tsc_stable),
	};
	struct vm_config config;
	unsigned n;

	config_get(&config);
	offer.vendor = vendor_of(&config);
	n = cpuid_supported(&offer, e, SUPPORTED_MAX);
	return copy_out(arg, e, MIN(n, SUPPORTED_MAX));
}

/* Instructions that the kernel's emulator adds to what the hardware has: here
 * there is no such difference, but clients expect the list to have leaves. */
long cpuid_copy_emulated(u64 arg)
{
	static const struct kvm_cpuid_entry2 e[] = {
		{ .function = 0, .eax = 7 },
		{ .function = 1, .ecx = BIT(22) }, /* MOVBE */
		{ .function = 7, .ecx = BIT(22), /* RDPID */
		  .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX },
	};

	return copy_out(arg, e, ARRAY_SIZE(e));
}

/* --- the vCPU's table ---------------------------------------------------------- */

static int read_head(u64 arg, struct kvm_cpuid2 *head)
{
	if (copy_from_client(head, arg, sizeof(*head)))
		return -EFAULT;
	return head->nent > CPUID_MAX_ENTRIES ? -E2BIG : 0;
}

/* Does @e say what the vCPU was told when it first ran?  What KVM_GET_CPUID2
 * fills in from state does not count. */
static bool same_table(struct vcpu *v, struct kvm_cpuid_entry2 *e, u32 n)
{
	const struct kvm_cpuid_entry2 *have;

	if (cpuid_entries(v->cpu.cpuid, &have) != n)
		return false;
	for (u32 i = 0; i < n; i++) {
		struct kvm_cpuid_entry2 a = have[i], b = e[i];

		cpuid_dynamic(&v->cpu, &a);
		cpuid_dynamic(&v->cpu, &b);
		if (a.function != b.function || a.index != b.index || a.flags != b.flags ||
		    a.eax != b.eax || a.ebx != b.ebx || a.ecx != b.ecx || a.edx != b.edx)
			return false;
	}
	return true;
}

static long set_table(struct vcpu *v, struct kvm_cpuid_entry2 *e, u32 n)
{
	long r;

	if (v->has_run)
		return same_table(v, e, n) ? 0 : -EINVAL;
	r = cpuid_set(&v->cpu, e, n);
	if (!r)
		vcpu_cpuid_changed(v);
	return r;
}

long vcpu_set_cpuid2(struct vcpu *v, void *data, u64 arg)
{
	struct kvm_cpuid_entry2 *e;
	struct kvm_cpuid2 head;
	int error;
	long r;

	(void)data;
	r = read_head(arg, &head);
	if (r)
		return r;
	e = dup_from_client(arg + sizeof(head), head.nent * sizeof(*e), &error);
	if (!e)
		return error;
	r = set_table(v, e, head.nent);
	free(e);
	return r;
}

long vcpu_get_cpuid2(struct vcpu *v, void *data, u64 arg)
{
	const struct kvm_cpuid_entry2 *have;
	u32 n = cpuid_entries(v->cpu.cpuid, &have);
	struct kvm_cpuid_entry2 e[CPUID_MAX_ENTRIES];

	(void)data;
	memcpy(e, have, n * sizeof(*e));
	for (u32 i = 0; i < n; i++)
		cpuid_dynamic(&v->cpu, &e[i]);
	return copy_out(arg, e, n);
}

/* The first form, without indices. */
long vcpu_set_cpuid(struct vcpu *v, void *data, u64 arg)
{
	struct kvm_cpuid_entry *old;
	struct kvm_cpuid_entry2 *e;
	struct kvm_cpuid2 head; /* begins as struct kvm_cpuid does */
	int error;
	long r;

	(void)data;
	r = read_head(arg, &head);
	if (r)
		return r;
	old = dup_from_client(arg + sizeof(struct kvm_cpuid), head.nent * sizeof(*old),
			      &error);
	if (!old)
		return error;
	e = calloc(head.nent + 1, sizeof(*e));
	for (u32 i = 0; e && i < head.nent; i++)
		e[i] = (struct kvm_cpuid_entry2){
			.function = old[i].function,
			.eax = old[i].eax,
			.ebx = old[i].ebx,
			.ecx = old[i].ecx,
			.edx = old[i].edx,
		};
	r = e ? set_table(v, e, head.nent) : -ENOMEM;
	free(e);
	free(old);
	return r;
}
