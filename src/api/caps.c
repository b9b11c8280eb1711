/* SPDX-License-Identifier: MIT */
/* KVM_CHECK_EXTENSION. */
#include <linux/kvm.h>
#include <unistd.h>

#include "api/handlers.h"
#include "vm/caps.h"
#include "vm/vm.h"
#include "x86/msr.h"

/* Offered with value 1 unless caps.def says otherwise. */
static const struct {
	u32 cap;
	u32 value;
} caps[] = {
#define CAP(name, value) { name, value },
#include "api/caps.def"
#undef CAP
};

static long online_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return MIN(MAX(n, 1), VM_MAX_VCPUS);
}

long caps_value(struct vm *vm, u64 cap)
{
	switch (cap) {
	case KVM_CAP_NR_VCPUS:
		return online_cpus();
	case KVM_CAP_MAX_VCPU_ID:
		return vm && vm->max_vcpu_id_set ? vm->max_vcpu_id : VM_MAX_VCPU_ID;
	case KVM_CAP_ADJUST_CLOCK:
		return KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC |
		       (clock_host()->tsc_stable ? KVM_CLOCK_TSC_STABLE : 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(caps); i++)
		if (caps[i].cap == cap)
			return caps[i].value;
	return 0;
}
