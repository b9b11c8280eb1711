/* SPDX-License-Identifier: MIT */
/*
 * Handlers of ioctls.def and the capabilities.
 *
 * @data: IN, INOUT: the client's structure; OUT: zeroed, copied to the client
 *        when the result is not negative; NULL for VALUE and RAW
 * @arg:  the ioctl's third argument as it came
 * Return: what the ioctl returns, or -errno.
 * vCPU handlers run with the vCPU's mutex held, VM handlers with no lock.
 */
#ifndef LOCUM_API_HANDLERS_H
#define LOCUM_API_HANDLERS_H

#include "base/types.h"

struct vcpu;
struct vm;

#define SYSTEM(request, transfer, cap, handler, test) long handler(void *data, u64 arg);
#define VM(request, transfer, cap, handler, test)
#define VCPU(request, transfer, cap, handler, test)
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU

#define SYSTEM(request, transfer, cap, handler, test)
#define VM(request, transfer, cap, handler, test)                              \
	long handler(struct vm *vm, void *data, u64 arg);
#define VCPU(request, transfer, cap, handler, test)
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU

/* KVM_GET_XSAVE2 has KVM_GET_XSAVE's handler: two equal declarations. */
#define SYSTEM(request, transfer, cap, handler, test)
#define VM(request, transfer, cap, handler, test)
#define VCPU(request, transfer, cap, handler, test)                            \
	long handler(struct vcpu *v, void *data, u64 arg);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
#include "api/ioctls.def"
#pragma GCC diagnostic pop
#undef SYSTEM
#undef VM
#undef VCPU

/** caps_value() - KVM_CHECK_EXTENSION; 0 for what is not there
 * @vm: NULL on the system descriptor */
long caps_value(struct vm *vm, u64 cap);

#endif
