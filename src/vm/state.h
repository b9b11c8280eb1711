/* SPDX-License-Identifier: MIT */
/*
 * Processor state in the client's structures.  All with the vCPU's mutex held,
 * the vCPU not in guest mode.
 */
#ifndef LOCUM_VM_STATE_H
#define LOCUM_VM_STATE_H

#include "vm/vcpu.h"

void state_get_regs(struct vcpu *v, struct kvm_regs *r);
/** state_set_regs() - also drops a pending exception */
void state_set_regs(struct vcpu *v, const struct kvm_regs *r);

void state_get_sregs(struct vcpu *v, struct kvm_sregs *s);
/** state_set_sregs() - Return: 0; -EINVAL with nothing changed. */
int state_set_sregs(struct vcpu *v, const struct kvm_sregs *s) must_check;
void state_get_sregs2(struct vcpu *v, struct kvm_sregs2 *s);
int state_set_sregs2(struct vcpu *v, const struct kvm_sregs2 *s) must_check;

/** state_sync_in(), state_sync_out() - registers through the run page
 * (KVM_CAP_SYNC_REGS).  Return: 0; -EINVAL. */
int state_sync_in(struct vcpu *v) must_check;
void state_sync_out(struct vcpu *v);

void state_get_debugregs(struct vcpu *v, struct kvm_debugregs *d);
/** state_set_debugregs() - Return: 0; -EINVAL (flags, high halves). */
int state_set_debugregs(struct vcpu *v, const struct kvm_debugregs *d) must_check;

/** state_set_guest_debug() - KVM_SET_GUEST_DEBUG.  Return: 0; -EBUSY. */
int state_set_guest_debug(struct vcpu *v, const struct kvm_guest_debug *d) must_check;

/** state_translate() - KVM_TRANSLATE */
void state_translate(struct vcpu *v, struct kvm_translation *t);

#endif
