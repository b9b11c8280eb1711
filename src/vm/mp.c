/* SPDX-License-Identifier: MIT */
#include "vm/mp.h"

#include <errno.h>

#include "cpu/reset.h"
#include "irq/lapic.h"
#include "irq/lapic_timer.h"
#include "vm/event.h"
#include "vm/vm.h"

static u32 state_of(const struct vcpu *v)
{
	return atomic_load_explicit(&v->mp_state, memory_order_relaxed);
}

static void set_state(struct vcpu *v, u32 state)
{
	atomic_store_explicit(&v->mp_state, state, memory_order_relaxed);
}

void mp_reset(struct vcpu *v, bool init)
{
	event_reset(v);
	replay_reset(&v->replay);
	cpu_reset(&v->cpu, init);
	if (v->lapic)
		lapic_reset(v->lapic, init);
}

static void start_at(struct vcpu *v, u8 vector)
{
	struct cpu *c = &v->cpu;

	c->seg[SEG_CS].sel = (u16)(vector << 8);
	c->seg[SEG_CS].base = (u64)vector << 12;
	c->rip = 0;
}

/* In system management mode INIT waits, and a start-up IPI is lost. */
static bool has_init_sipi(struct vcpu *v)
{
	if (!v->lapic || !lapic_has_init_sipi(v->lapic))
		return false;
	if (likely(!v->cpu.smm))
		return true;
	atomic_fetch_and(&v->lapic->init_sipi, LAPIC_INIT);
	return false;
}

void mp_accept_init_sipi(struct vcpu *v)
{
	u8 vector = 0;
	u32 what;

	if (!has_init_sipi(v))
		return;
	what = lapic_take_init_sipi(v->lapic, &vector);
	if (what & LAPIC_INIT) {
		mp_reset(v, true);
		set_state(v, vcpu_is_bsp(v) ? KVM_MP_STATE_RUNNABLE :
					      KVM_MP_STATE_INIT_RECEIVED);
	}
	/* Whoever does not wait for it ignores a start-up IPI. */
	if ((what & LAPIC_SIPI) && state_of(v) == KVM_MP_STATE_INIT_RECEIVED) {
		start_at(v, vector);
		set_state(v, KVM_MP_STATE_RUNNABLE);
	}
}

/* Return: true if the vCPU need not sleep. */
static bool has_work(struct vcpu *v)
{
	if (has_init_sipi(v))
		return true;
	return state_of(v) == KVM_MP_STATE_HALTED && event_wakes(v);
}

static u64 sleep_until(struct vcpu *v)
{
	return v->lapic ? lapic_timer_next_ns(v->lapic) : WAIT_FOREVER;
}

/* KVM's order: what is latched is accepted, then a halted vCPU goes on. */
static void wake(struct vcpu *v)
{
	mp_accept_init_sipi(v);
	if (state_of(v) == KVM_MP_STATE_HALTED) {
		set_state(v, KVM_MP_STATE_RUNNABLE);
		v->cpu.stats->halt_wakeup++;
	}
}

enum mp_block mp_block(struct vcpu *v)
{
	/* We sleep on the timer ourselves: its helper thread need not run. */
	timer_arm(&v->vm->timer, v->slot, TIMER_NEVER);
	for (;;) {
		wait_prepare(&v->wait);
		if (v->lapic)
			lapic_timer_run(v->lapic, v->vm->clock->now_ns(v->vm->clock));
		if (has_work(v)) {
			wake(v);
			return MP_AGAIN;
		}
		if (atomic_load(&v->requests))
			return MP_AGAIN;
		if (wait_sleep(&v->wait, sleep_until(v)) == WAIT_INTERRUPTED)
			return MP_SIGNAL;
	}
}

void mp_get_state(struct vcpu *v, struct kvm_mp_state *s)
{
	/* What is latched is part of the state that the client sees. */
	mp_accept_init_sipi(v);
	s->mp_state = state_of(v);
	/* Without a LAPIC of ours the client knows no halted state. */
	if (s->mp_state == KVM_MP_STATE_HALTED && (!v->lapic || atomic_load(&v->pv_unhalted)))
		s->mp_state = KVM_MP_STATE_RUNNABLE;
}

int mp_set_state(struct vcpu *v, const struct kvm_mp_state *s)
{
	switch (s->mp_state) {
	case KVM_MP_STATE_RUNNABLE:
		break;
	case KVM_MP_STATE_UNINITIALIZED:
	case KVM_MP_STATE_INIT_RECEIVED:
	case KVM_MP_STATE_HALTED:
	case KVM_MP_STATE_SIPI_RECEIVED:
		if (!v->lapic)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	/* With SMM under way INIT is latched (KVM_SET_VCPU_EVENTS), not received. */
	if ((v->cpu.smm || v->smi_pending) &&
	    (s->mp_state == KVM_MP_STATE_INIT_RECEIVED ||
	     s->mp_state == KVM_MP_STATE_SIPI_RECEIVED))
		return -EINVAL;
	if (s->mp_state == KVM_MP_STATE_SIPI_RECEIVED) {
		/* Waiting for a start-up IPI that has come: its vector is the
		 * last one latched. */
		set_state(v, KVM_MP_STATE_INIT_RECEIVED);
		atomic_fetch_or(&v->lapic->init_sipi, LAPIC_SIPI);
	} else {
		set_state(v, s->mp_state);
	}
	vcpu_request(v, VCPU_REQ_EVENT);
	return 0;
}
