/* SPDX-License-Identifier: MIT */
/* VMCALL and VMMCALL of a guest: registers to pv/ and back. */
#ifndef LOCUM_VM_HYPERCALL_H
#define LOCUM_VM_HYPERCALL_H

#include "vm/vcpu.h"

/** hypercall_run() - serve the hypercall that @v's registers describe; the
 * instruction is not yet retired.  Only RAX changes.
 * Return: EMUL_CONTINUE; EMUL_RETRY when the other vendor's instruction was
 * replaced in memory; EMUL_FAULT. */
enum emul hypercall_run(struct vcpu *v) must_check;

#endif
