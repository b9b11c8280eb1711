/* SPDX-License-Identifier: MIT */
/*
 * Stacks that gates use: where a transfer to a more privileged level continues,
 * and how interrupt, trap and call gates push on it.
 * Source: SDM Vol. 3A "Stack Switching", "Stack Switching in IA-32e Mode".
 */
#ifndef LOCUM_CPU_GATE_STACK_H
#define LOCUM_CPU_GATE_STACK_H

#include "cpu/seg.h"

/**
 * gate_stack64() - RSP for privilege @cpl, or of the interrupt stack table
 * @ist: 1..7, or 0: the RSP of @cpl
 * @ext: ERR_EXT or 0, for error codes
 * Return: EMUL_CONTINUE; EMUL_FAULT: #TS (beyond the TSS), #SS (not canonical).
 */
enum emul gate_stack64(struct cpu *c, unsigned ist, unsigned cpl, u32 ext,
		       u64 *rsp) must_check;

/** struct inner_stack - a stack from the 32-bit TSS, its segment checked */
struct inner_stack {
	u32 esp;
	u16 sel;
	struct descriptor ss;
	struct segment seg;
};

/** gate_stack32() - SS:ESP for privilege @cpl; #TS and #SS as the manual says */
enum emul gate_stack32(struct cpu *c, unsigned cpl, u32 ext,
		       struct inner_stack *s) must_check;

/**
 * gate_push64() - write @n quadwords below @rsp, the last one first
 * @frame: in memory order, frame[0] at @rsp
 * A page fault names the address of the push that faults first.
 */
enum emul gate_push64(struct cpu *c, u64 rsp, const u64 *frame, unsigned n, unsigned acc,
		      u32 ext) must_check;

/** struct legacy_push - what is pushed on a stack outside 64-bit mode
 * @seg: the stack's segment; @sp: before; @size: 2 or 4 bytes a word
 * @sel, @ext: error code of #SS when it does not fit */
struct legacy_push {
	const struct segment *seg;
	u32 sp;
	u8 size;
	u16 sel;
	u32 ext;
	unsigned acc;
};

/** gate_push() - write words[0..@n), in memory order, to end below p->sp; wraps
 * at the stack's width, checks the limit; writes nothing if it faults */
enum emul gate_push(struct cpu *c, const struct legacy_push *p, const u32 *words,
		    unsigned n) must_check;

/** gate_sp() - rSP after @bytes were pushed below @sp on @seg; for 16-bit stacks
 * the upper half of the register stays */
static inline u64 gate_sp(const struct cpu *c, const struct segment *seg, u32 sp,
			  unsigned bytes)
{
	if (seg->attr & SEG_DB)
		return sp - bytes;
	return (c->gpr[R_RSP] & ~0xffffull) | ((sp - bytes) & 0xffff);
}

#endif
