/* SPDX-License-Identifier: MIT */
/*
 * The contract of the two engines.
 */
#ifndef LOCUM_CPU_ENGINE_H
#define LOCUM_CPU_ENGINE_H

#include "base/types.h"

struct cpu;

/* Why an engine returned. */
enum engine_exit {
	ENGINE_EVENT,	 /* c->attn has ATTN_EVENT, ATTN_EXIT: the owner looks */
	ENGINE_HALT,	 /* HLT retired; c->halted is set */
	ENGINE_IO,	 /* an ops call or mmio returned EMUL_IO */
	ENGINE_DEBUG,	 /* guest debugging: breakpoint or step; see c->debug_exit */
	ENGINE_SHUTDOWN, /* triple fault */
	ENGINE_ERROR,	 /* instruction that we cannot execute: internal error */
};

/**
 * struct engine - something that executes guest code
 * @run: execute from c->rip until an exit is due.  Exceptions and software
 *       interrupts are delivered inside.  c->event is empty at entry, or holds
 *       an event to deliver first.  State is exact at return: at an
 *       instruction boundary, or (REP, EMUL_IO) as architecture allows.
 *       Runs on the vCPU's thread between mmu_enter_guest() and
 *       mmu_exit_guest(); polls c->attn at least every 200 instructions.
 */
struct engine {
	const char *name;
	enum engine_exit (*run)(struct cpu *c);
};

extern const struct engine engine_interp;

#endif
