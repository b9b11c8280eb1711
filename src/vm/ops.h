/* SPDX-License-Identifier: MIT */
/*
 * What the processor and the MMU ask of the VM (cpu/ops.h, mmu/mmu.h): ports,
 * MMIO, MSRs, hypercalls.  Answers come from a device of ours, from the record
 * of an instruction that is run again, or from the client at the next KVM_RUN.
 */
#ifndef LOCUM_VM_OPS_H
#define LOCUM_VM_OPS_H

#include "vm/vcpu.h"

extern const struct cpu_ops vm_cpu_ops;
extern const struct mmu_ops vm_mmu_ops;

/**
 * ops_take_answer() - the client has answered the open question: take the data
 * out of the run page
 * Call at KVM_RUN entry.  Drops the record instead when the client moved RIP.
 */
void ops_take_answer(struct vcpu *v);

/** ops_is_unfinished() - the instruction of the record is still to be run */
bool ops_is_unfinished(const struct vcpu *v);

#endif
