/* SPDX-License-Identifier: MIT */
/* What the files of exception delivery share. */
#ifndef LOCUM_CPU_EXC_INT_H
#define LOCUM_CPU_EXC_INT_H

#include "cpu/seg.h"

/** struct delivery - one attempt
 * @soft: INT n and kin: the gate's DPL counts; @ext: ERR_EXT in error codes of
 * faults found during delivery; @rip, @rf: to push */
struct delivery {
	u8 vector;
	bool has_error, soft;
	u32 error, ext;
	u64 rip, rf;
};

/** exc_gate_fault() - fault @exc that names the vector of @d */
enum emul exc_gate_fault(struct cpu *c, unsigned exc, const struct delivery *d);

/** exc_read_table() - from IDT or vector table */
enum emul exc_read_table(struct cpu *c, gva_t at, void *dst, unsigned n) must_check;

/** exc_handler_cs() - the gate's code segment @sel, checked; *@cpl becomes the
 * privilege of the handler */
enum emul exc_handler_cs(struct cpu *c, const struct delivery *d, u16 sel,
			 struct descriptor *cs, unsigned *cpl) must_check;

/** exc_flags_after() - the flags that a handler starts with */
void exc_flags_after(struct cpu *c, bool interrupt_gate);

/* Deliver @d in long mode, protected mode, real mode.  On a fault nothing
 * but memory below the stack pointer has changed. */
enum emul exc_through_gate64(struct cpu *c, const struct delivery *d) must_check;
enum emul exc_through_gate32(struct cpu *c, const struct delivery *d) must_check;
enum emul exc_through_vector(struct cpu *c, const struct delivery *d) must_check;

#endif
