/* SPDX-License-Identifier: MIT */
/* KVM_GET_MSRS and KVM_SET_MSRS: the loop over the client's array. */
#ifndef LOCUM_API_MSRS_H
#define LOCUM_API_MSRS_H

#include "base/types.h"

/**
 * msrs_transfer() - read or write the MSRs of the client's struct kvm_msrs
 * @get, @set: one of them; called until one refuses
 * Return: how many were done; -EFAULT, -E2BIG (256 and more), -ENOMEM.
 */
long msrs_transfer(u64 arg, bool (*get)(void *opaque, u32 index, u64 *value),
		   bool (*set)(void *opaque, u32 index, u64 value), void *opaque);

#endif
