/* SPDX-License-Identifier: MIT */
/* What fp_x87.c and fp_env.c share. */
#ifndef LOCUM_CPU_FP_X87_H
#define LOCUM_CPU_FP_X87_H

#include "cpu/fp.h"
#include "cpu/handlers.h"

#define X87_BYTES 160 /* the part of the image before XMM0 */

/**
 * x87_run() - run @i's host instruction on a copy of the x87 state
 * @work: receives the new state; nothing of @c is changed
 * @mem:  the memory operand: bytes that were read, or room for those to write
 * Its FIP, FDP and FOP are the guest's for @i, unless @i is a control instruction.
 */
void x87_run(struct cpu *c, const struct insn *i, struct fp_image *work, void *mem,
	     u64 *rflags);

/** x87_commit() - make @work the vCPU's x87 state (MXCSR and XMM stay) */
void x87_commit(struct cpu *c, const struct fp_image *work);

/** x87_forget() - FIP, FDP, FOP and selectors are zero: FNINIT, FNSAVE */
void x87_forget(struct fp_image *work);

/** x87_is_control() - FNINIT, FLDCW, FNSTENV ...: they leave FIP, FDP, FOP alone */
bool x87_is_control(const struct insn *i);

/** x87_selector() - of @seg, to be noted as FCS or FDS: Intel's processors have
 * stopped keeping them */
u16 x87_selector(const struct cpu *c, unsigned seg);

/** x87_notes() - does this processor note FOP, or @operand: FDP, of an instruction
 * without an exception that is not masked?  Intel's note no FOP, and no FDP where
 * CPUID has FDP_EXCPTN_ONLY. */
bool x87_notes(const struct cpu *c, bool operand);

/** x87_fop() - @i as FOP has it */
static inline u16 x87_fop(const struct insn *i)
{
	return (u16)((i->opcode & 7) << 8 | i->modrm);
}

op_fn env_select(const struct insn *i); /* FNSTENV, FLDENV, FNSAVE, FRSTOR (fp_env.c) */

#endif
