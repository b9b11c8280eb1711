/* SPDX-License-Identifier: MIT */
/*
 * Multiprocessing state: INIT, start-up IPIs, halting and waking.
 * KVM_GET/SET_MP_STATE.  SDM Vol. 3A "Multiple-Processor (MP) Initialization".
 */
#ifndef LOCUM_VM_MP_H
#define LOCUM_VM_MP_H

#include "vm/vcpu.h"

/** mp_accept_init_sipi() - act on what the LAPIC has latched; vCPU's thread */
void mp_accept_init_sipi(struct vcpu *v);

/** mp_is_running() - guest code may be executed */
static inline bool mp_is_running(const struct vcpu *v)
{
	return atomic_load_explicit(&v->mp_state, memory_order_relaxed) ==
	       KVM_MP_STATE_RUNNABLE;
}

/** enum mp_block - why mp_block() returned
 * @MP_AGAIN: something changed: look at requests and state again
 * @MP_SIGNAL: a signal or a kick: KVM_RUN returns -EINTR */
enum mp_block { MP_AGAIN, MP_SIGNAL };

/**
 * mp_block() - sleep until the vCPU has something to do
 *
 * Out of guest mode, on the vCPU's thread.  A halted vCPU that has an event
 * becomes runnable; one that waits for INIT or SIPI accepts it.  The vCPU's own
 * timer is what it sleeps on.
 */
enum mp_block mp_block(struct vcpu *v);

/** mp_reset() - INIT: processor and LAPIC; vCPU's thread */
void mp_reset(struct vcpu *v, bool init);

/** mp_get_state(), mp_set_state() - KVM_GET_MP_STATE, KVM_SET_MP_STATE
 * Return: 0; -EINVAL. */
void mp_get_state(struct vcpu *v, struct kvm_mp_state *s);
int mp_set_state(struct vcpu *v, const struct kvm_mp_state *s) must_check;

#endif
