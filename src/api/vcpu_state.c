/* SPDX-License-Identifier: MIT */
/* vCPU ioctls that load and save processor state. */
#include <errno.h>
#include <linux/kvm.h>

#include "api/handlers.h"
#include "cpu/fp.h"
#include "irq/lapic.h"
#include "vm/event.h"
#include "vm/mp.h"
#include "vm/state.h"
#include "vm/vcpu.h"

long vcpu_get_regs(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	state_get_regs(v, data);
	return 0;
}

long vcpu_set_regs(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	state_set_regs(v, data);
	return 0;
}

long vcpu_get_sregs(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	state_get_sregs(v, data);
	return 0;
}

long vcpu_set_sregs(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return state_set_sregs(v, data);
}

long vcpu_get_sregs2(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	state_get_sregs2(v, data);
	return 0;
}

long vcpu_set_sregs2(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return state_set_sregs2(v, data);
}

long vcpu_translate(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	state_translate(v, data);
	return 0;
}

long vcpu_get_debugregs(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	state_get_debugregs(v, data);
	return 0;
}

long vcpu_set_debugregs(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return state_set_debugregs(v, data);
}

long vcpu_set_guest_debug(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return state_set_guest_debug(v, data);
}

long vcpu_get_mp_state(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	mp_get_state(v, data);
	return 0;
}

long vcpu_set_mp_state(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return mp_set_state(v, data);
}

long vcpu_get_events(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	event_get(v, data);
	return 0;
}

long vcpu_set_events(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return event_set(v, data);
}

long vcpu_get_lapic(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	if (!v->lapic)
		return -EINVAL;
	lapic_get_state(v->lapic, data);
	return 0;
}

long vcpu_set_lapic(struct vcpu *v, void *data, u64 arg)
{
	long r;

	(void)arg;
	if (!v->lapic)
		return -EINVAL;
	r = lapic_set_state(v->lapic, data);
	vcpu_request(v, VCPU_REQ_EVENT);
	return r;
}
