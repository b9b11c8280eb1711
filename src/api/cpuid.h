/* SPDX-License-Identifier: MIT */
/* CPUID tables to and from the client. */
#ifndef LOCUM_API_CPUID_H
#define LOCUM_API_CPUID_H

#include "base/types.h"

/** cpuid_copy_supported() - KVM_GET_SUPPORTED_CPUID into the client's struct
 * kvm_cpuid2.  Return: 0; -E2BIG (room is too small), -EFAULT, -ENOMEM. */
long cpuid_copy_supported(u64 arg);

/** cpuid_copy_emulated() - KVM_GET_EMULATED_CPUID: what we offer although the
 * host has it not; likewise */
long cpuid_copy_emulated(u64 arg);

#endif
