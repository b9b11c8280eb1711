/* SPDX-License-Identifier: MIT */
/* What may be chosen for a VM before it is created. */
#ifndef LOCUM_VM_CONFIG_H
#define LOCUM_VM_CONFIG_H

#include "base/types.h"

enum vm_engine { VM_ENGINE_INTERP, VM_ENGINE_JIT };
enum vm_invlpg { VM_INVLPG_ADDRESS, VM_INVLPG_CONTEXT };
enum vm_vendor { VM_VENDOR_HOST, VM_VENDOR_INTEL, VM_VENDOR_AMD };
enum vm_sched { VM_SCHED_HOST };

/** struct vm_config - settings; copied into the VM when it is created
 * @tlb_size:   entries of a TLB table, power of two, 1..4096; 0: adaptive
 * @tlb_spaces: address spaces kept per vCPU, 1..64
 * @jit_exact:  arithmetic flags are right at every fault (jit.flags=exact)
 * @count_instructions: off: the counter stays 0 */
struct vm_config {
	enum vm_engine engine;
	enum vm_invlpg invlpg;
	enum vm_vendor vendor;
	enum vm_sched sched;
	u32 tlb_size;
	u32 tlb_spaces;
	bool jit_exact;
	bool count_instructions;
};

/** vm_config_default() - the defaults of design and manual page */
void vm_config_default(struct vm_config *c);

#endif
