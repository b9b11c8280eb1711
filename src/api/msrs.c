/* SPDX-License-Identifier: MIT */
#include "api/msrs.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>

#include "api/handlers.h"
#include "api/uaccess.h"
#include "vm/msr.h"

#define MAX_MSRS 256 /* as many are refused, one fewer is taken */

long msrs_transfer(u64 arg, bool (*get)(void *opaque, u32 index, u64 *value),
		   bool (*set)(void *opaque, u32 index, u64 value), void *opaque)
{
	u64 entries = arg + sizeof(struct kvm_msrs);
	struct kvm_msr_entry *e;
	struct kvm_msrs head;
	size_t bytes;
	int error;
	u32 i;

	if (copy_from_client(&head, arg, sizeof(head)))
		return -EFAULT;
	if (head.nmsrs >= MAX_MSRS)
		return -E2BIG;
	bytes = head.nmsrs * sizeof(*e);
	e = dup_from_client(entries, bytes, &error);
	if (!e)
		return error;
	for (i = 0; i < head.nmsrs; i++)
		if (get ? !get(opaque, e[i].index, &e[i].data) :
			  !set(opaque, e[i].index, e[i].data))
			break;
	error = get ? copy_to_client(entries, e, bytes) : 0;
	free(e);
	return error ? error : (long)i;
}

static bool get_one(void *opaque, u32 index, u64 *value)
{
	return msr_get(opaque, index, value);
}

static bool set_one(void *opaque, u32 index, u64 value)
{
	return msr_set(opaque, index, value);
}

long vcpu_get_msrs(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	return msrs_transfer(arg, get_one, NULL, v);
}

long vcpu_set_msrs(struct vcpu *v, void *data, u64 arg)
{
	(void)data;
	return msrs_transfer(arg, NULL, set_one, v);
}
