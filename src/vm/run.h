/* SPDX-License-Identifier: MIT */
/*
 * KVM_RUN: requests -> events -> engine -> exit, again and again until the
 * client must act.  Source of the order at entry and of the fields at return:
 * Linux Documentation/virt/kvm/api.rst "KVM_RUN" and "The kvm_run structure".
 */
#ifndef LOCUM_VM_RUN_H
#define LOCUM_VM_RUN_H

#include "vm/vcpu.h"

/**
 * vcpu_run() - KVM_RUN on @v; its mutex is held
 * Return: 0 with v->run->exit_reason set, or -EINTR, -EAGAIN, -EINVAL, -EFAULT,
 * -EIO.
 */
int vcpu_run(struct vcpu *v) must_check;

#endif
