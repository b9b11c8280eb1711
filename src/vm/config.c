/* SPDX-License-Identifier: MIT */
#include "vm/config.h"

void vm_config_default(struct vm_config *c)
{
	*c = (struct vm_config){
		.engine = VM_ENGINE_JIT,
		.invlpg = VM_INVLPG_ADDRESS,
		.vendor = VM_VENDOR_HOST,
		.sched = VM_SCHED_HOST,
		.tlb_size = 0,
		.tlb_spaces = 16,
		.count_instructions = false, /* a few host instructions a block */
	};
}
