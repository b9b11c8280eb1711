/* SPDX-License-Identifier: MIT */
#ifndef LOCUM_API_DISPATCH_H
#define LOCUM_API_DISPATCH_H

#include "base/types.h"

struct vcpu;
struct vm;

/** dispatch_*() - carry out ioctl @request on the object; as ioctl(2), with
 * -errno.  The caller holds a reference.  Any thread. */
long dispatch_system(u32 request, u64 arg);
long dispatch_vm(struct vm *vm, u32 request, u64 arg);
long dispatch_vcpu(struct vcpu *v, u32 request, u64 arg);

#endif
