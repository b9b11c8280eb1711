/* SPDX-License-Identifier: MIT */
/*
 * Interrupts, NMIs and exceptions on their way into a vCPU: which may be
 * delivered now, and in which order; KVM_GET/SET_VCPU_EVENTS.
 *
 * What the processor is to deliver next is in cpu.event, one at most; it may
 * stay there when delivery needs the client first.  Everything else waits
 * here or in the interrupt controllers.  All on the vCPU's thread (its mutex).
 */
#ifndef LOCUM_VM_EVENT_H
#define LOCUM_VM_EVENT_H

#include "vm/vcpu.h"

/**
 * event_inject() - move the next deliverable event to cpu.event
 *
 * Order: what delivery left unfinished, a pending exception, SMI, NMI, ExtINT,
 * LAPIC.  One at most; an SMI is entered at once.  ATTN_EVENT is set again when more may follow right
 * after its delivery.
 */
void event_inject(struct vcpu *v);

/** event_check() - something the processor did may have removed an obstacle
 * (IF, shadow, NMI blocking): set ATTN_EVENT if an event waits for it */
void event_check(struct vcpu *v);

/** event_wakes() - a halted vCPU has a reason to go on */
bool event_wakes(struct vcpu *v);

/** event_window_open() - the client's own PIC may inject: IF=1, no shadow,
 * nothing else under way */
bool event_window_open(const struct vcpu *v);

/** event_queue_exception() - an exception to deliver before the next
 * instruction, as KVM_SET_GUEST_DEBUG injects one */
void event_queue_exception(struct vcpu *v, u8 vector, bool has_error, u32 error);

/** event_add_nmi() - latch an NMI; any thread */
void event_add_nmi(struct vcpu *v);

/** event_add_smi() - latch a system management interrupt; any thread */
void event_add_smi(struct vcpu *v);

/** event_interrupt() - KVM_INTERRUPT
 * Return: 0; -EINVAL, -ENXIO, -EEXIST. */
int event_interrupt(struct vcpu *v, u32 irq) must_check;

/** event_reset() - forget everything pending: INIT, power-up */
void event_reset(struct vcpu *v);

/** event_get(), event_set() - KVM_GET_VCPU_EVENTS, KVM_SET_VCPU_EVENTS
 * Return: 0; -EINVAL. */
void event_get(struct vcpu *v, struct kvm_vcpu_events *e);
int event_set(struct vcpu *v, const struct kvm_vcpu_events *e) must_check;

#endif
