/* SPDX-License-Identifier: MIT */
/*
 * Instruction handlers of the interpreter: how they are called and found.
 */
#ifndef LOCUM_CPU_HANDLERS_H
#define LOCUM_CPU_HANDLERS_H

#include "cpu/state.h"

/**
 * op_fn - execute one instruction
 *
 * At the call c->rip is the address of the instruction itself.  For
 * EMUL_CONTINUE and EMUL_END the engine advances rip by insn->len (masked to
 * the code size), unless insn->flags has INSN_BRANCH: then the handler has set
 * rip.  On every other result nothing architectural has been written (REP
 * instructions: whole iterations have been committed, rip stays).
 * Compute, check, commit: in this order.
 */
typedef enum emul (*op_fn)(struct cpu *c, const struct insn *i);

/* Each returns the handler for @i, or NULL if that family does not have it.
 * Called once, when a block is decoded; the choice may depend on everything in
 * @i (sizes, register or memory form) but not on processor state. */
op_fn int_select(const struct insn *i); /* integer: op_*.c, tab_int.c */
op_fn sys_select(const struct insn *i); /* privileged, far, flags of the system */
op_fn fp_select(const struct insn *i);	/* x87, MMX, SSE, XSAVE family */

/** op_select() - the first of the above that has one; NULL: nobody executes @i */
op_fn op_select(const struct insn *i);

#endif
