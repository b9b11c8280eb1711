/* SPDX-License-Identifier: MIT */
/*
 * Machine checks that the client injects: KVM_X86_SETUP_MCE, KVM_X86_SET_MCE.
 * Source: SDM Vol. 3B "Machine-Check Architecture"; KVM's rules for what is
 * reported how.
 */
#ifndef LOCUM_VM_MCE_H
#define LOCUM_VM_MCE_H

#include "vm/vcpu.h"

/** mce_setup() - set MCG_CAP to @cap: banks and CAPS_MCG bits
 * Return: 0; -EINVAL. */
int mce_setup(struct vcpu *v, u64 cap) must_check;

/** mce_inject() - record an error in its bank and signal it: #MC, CMCI, a
 * shutdown, or nothing.  Return: 0; -EINVAL (bank, VAL clear). */
int mce_inject(struct vcpu *v, const struct kvm_x86_mce *mce) must_check;

#endif
