/* SPDX-License-Identifier: MIT */
/*
 * One ioctl: find the row, copy in, lock, call, copy out.  errno values for
 * what is not there are the kernel's: EINVAL, on a VM ENOTTY.
 */
#include "api/dispatch.h"

#include <errno.h>
#include <linux/ioctl.h>
#include <linux/kvm.h>
#include <string.h>

#include "api/handlers.h"
#include "api/signal.h"
#include "api/uaccess.h"
#include "vm/run.h"
#include "vm/vcpu.h"
#include "vm/vm.h"

enum transfer { VALUE, IN, OUT, INOUT, RAW };

typedef long (*sys_fn)(void *data, u64 arg);
typedef long (*vm_fn)(struct vm *vm, void *data, u64 arg);
typedef long (*vcpu_fn)(struct vcpu *v, void *data, u64 arg);

/* The largest structure that the dispatcher copies: struct kvm_xsave. */
#define MAX_STRUCT 4096

/** struct call - one ioctl on its way to its handler */
struct call {
	enum transfer transfer;
	unsigned size;
	union {
		sys_fn sys;
		vm_fn vm;
		vcpu_fn vcpu;
	};
	void *object;
	long (*invoke)(const struct call *c, void *data, u64 arg);
};

static long invoke_sys(const struct call *c, void *data, u64 arg)
{
	return c->sys(data, arg);
}

static long invoke_vm(const struct call *c, void *data, u64 arg)
{
	return c->vm(c->object, data, arg);
}

static long invoke_vcpu(const struct call *c, void *data, u64 arg)
{
	return c->vcpu(c->object, data, arg);
}

static long with_struct(const struct call *c, u64 arg)
{
	u64 buf[MAX_STRUCT / 8];
	long r;

	if (c->transfer == OUT)
		memset(buf, 0, c->size);
	else if (copy_from_client(buf, arg, c->size))
		return -EFAULT;
	r = c->invoke(c, buf, arg);
	if (r >= 0 && c->transfer != IN && copy_to_client(arg, buf, c->size))
		return -EFAULT;
	return r;
}

static long transfer(const struct call *c, u64 arg)
{
	if (c->transfer == VALUE || c->transfer == RAW)
		return c->invoke(c, NULL, arg);
	return with_struct(c, arg);
}

#define ROW(request, how, field, handler)                                      \
	case request:                                                          \
		c.transfer = how;                                              \
		c.size = _IOC_SIZE(request);                                   \
		c.field = handler;                                             \
		_Static_assert(how == VALUE || how == RAW ||                   \
				       _IOC_SIZE(request) <= MAX_STRUCT,       \
			       #request);                                      \
		break;

long dispatch_system(u32 request, u64 arg)
{
	struct call c = { .invoke = invoke_sys };

	switch (request) {
#define SYSTEM(request, how, cap, handler, test) ROW(request, how, sys, handler)
#define VM(request, how, cap, handler, test)
#define VCPU(request, how, cap, handler, test)
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU
	default:
		return -EINVAL;
	}
	return transfer(&c, arg);
}

long dispatch_vm(struct vm *vm, u32 request, u64 arg)
{
	struct call c = { .invoke = invoke_vm, .object = vm };

	if (atomic_load_explicit(&vm->dead, memory_order_relaxed))
		return -EIO;
	switch (request) {
#define SYSTEM(request, how, cap, handler, test)
#define VM(request, how, cap, handler, test) ROW(request, how, vm, handler)
#define VCPU(request, how, cap, handler, test)
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU
	default:
		return -ENOTTY;
	}
	return transfer(&c, arg);
}

/* State ioctls may be used to write code into a vCPU's path (a debugger): what
 * was decoded is compared with memory before its next use. */
static void note_state_change(struct vcpu *v, enum transfer how)
{
	if (how != OUT)
		vm_client_wrote(v->vm, v);
}

/* KVM_RUN is apart: signals end it, and what they ask for happens after every
 * lock is given up. */
static long run(struct vcpu *v, u64 arg)
{
	long r;

	if (arg)
		return -EINVAL;
	pthread_mutex_lock(&v->mutex);
	api_run_enter(v);
	r = vcpu_run(v);
	api_run_unmask(v);
	pthread_mutex_unlock(&v->mutex);
	api_run_leave();
	return r;
}

long dispatch_vcpu(struct vcpu *v, u32 request, u64 arg)
{
	struct call c = { .invoke = invoke_vcpu, .object = v };
	long r;

	if (atomic_load_explicit(&v->vm->dead, memory_order_relaxed))
		return -EIO;
	if (request == KVM_RUN)
		return run(v, arg);
	switch (request) {
#define SYSTEM(request, how, cap, handler, test)
#define VM(request, how, cap, handler, test)
#define VCPU(request, how, cap, handler, test) ROW(request, how, vcpu, handler)
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU
	default:
		return -EINVAL;
	}
	pthread_mutex_lock(&v->mutex);
	note_state_change(v, c.transfer);
	r = transfer(&c, arg);
	pthread_mutex_unlock(&v->mutex);
	return r;
}
