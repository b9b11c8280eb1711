/* SPDX-License-Identifier: MIT */
/*
 * What the string instructions share: counts, index registers, addresses.
 *
 * A REP instruction runs in steps of at most a page.  After each step its
 * registers are committed, and it returns EMUL_RETRY when somebody wants the
 * processor's attention: rIP still points at it, so it goes on from there.
 */
#ifndef LOCUM_CPU_STROP_H
#define LOCUM_CPU_STROP_H

#include "cpu/op_int.h"

/** struct str - one string instruction while it runs
 * @n:    element size in bytes
 * @mask: of the address size
 * @rep:  a repeat prefix is there
 * @down: DF is set
 * @left: iterations left */
struct str {
	unsigned n;
	u64 mask;
	bool rep, down;
	u64 left;
};

/** str_begin() - read @i, rCX and DF.  Return: false if there is nothing to do */
bool str_begin(struct cpu *c, const struct insn *i, struct str *s);

/** str_none_done() - a repeated @i ends, or faults, before an iteration is done: with
 * 32-bit addresses Intel's processors have cleared the upper half of rCX, and of
 * the index registers of MOVS and STOS (measured) */
void str_none_done(struct cpu *c, const struct insn *i, const struct str *s);

/** str_advance() - index register @reg by @count elements in the address size */
void str_advance(struct cpu *c, const struct str *s, unsigned reg, u64 count);

/** str_step_done() - @count iterations were done: rCX.
 * Return: EMUL_CONTINUE at the end, EMUL_RETRY when the instruction must pause
 * (attention, or single-step after one iteration), else EMUL_END: go on. */
enum emul str_step_done(struct cpu *c, const struct insn *i, struct str *s, u64 count);

/**
 * str_chunk() - how many elements at offset @reg of @seg can be done at once
 * @max:  upper limit, >= 1
 * @host: out: host address of the lowest of them; NULL: do one element with
 *        mmu_read() or mmu_write() at @lin
 * @lin:  out: linear address of the current element
 * @count: out: 1..@max; 1 when @host is NULL
 */
enum emul str_chunk(struct cpu *c, const struct str *s, unsigned seg, unsigned reg,
		    bool write, u64 max, u8 **host, gva_t *lin, u64 *count) must_check;

#endif
