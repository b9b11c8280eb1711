/* SPDX-License-Identifier: MIT */
/*
 * Segment registers: descriptors, checks, loads.
 * Source: SDM Vol. 3A "Protection"; Vol. 2 of each instruction.
 */
#ifndef LOCUM_CPU_SEG_H
#define LOCUM_CPU_SEG_H

#include "cpu/state.h"
#include "x86/desc.h"

/** struct descriptor - 8 or (system, long mode) 16 bytes, and where from */
struct descriptor {
	u64 lo, hi;
	gva_t at;
};

/**
 * seg_fetch() - read the descriptor of @sel (not null) from GDT or LDT
 * @wide: 16 bytes, as system descriptors have in long mode
 * @vector: exception when it lies beyond the limit, with error @sel & ~3 | @ext
 */
enum emul seg_fetch(struct cpu *c, u16 sel, bool wide, unsigned vector, u32 ext,
		    struct descriptor *d) must_check;

/** seg_fault() - raise @vector with the error code of @sel; use with return */
static inline enum emul seg_raise(struct cpu *c, unsigned vector, u16 sel, u32 ext)
{
	return cpu_raise(c, vector, (sel & 0xfffcu) | ext);
}

/** seg_accessed() - set the accessed bit of a code or data descriptor in memory,
 * and in @d, by a locked access */
enum emul seg_accessed(struct cpu *c, struct descriptor *d) must_check;

/** seg_put() - load register @seg from a checked descriptor */
void seg_put(struct cpu *c, unsigned seg, u16 sel, const struct descriptor *d);
/** seg_put_null() - load a null selector: unusable */
void seg_put_null(struct cpu *c, unsigned seg, u16 sel);
/** seg_put_real() - real mode: base = sel * 16; limit and attributes stay */
void seg_put_real(struct cpu *c, unsigned seg, u16 sel);
/** seg_put_flat_ss() - SS as 64-bit delivery leaves it: null with RPL @cpl */
void seg_put_flat_ss(struct cpu *c, unsigned cpl);

/** seg_load() - MOV or POP to @seg (ES, SS, DS, FS, GS; not CS), all modes */
enum emul seg_load(struct cpu *c, unsigned seg, u16 sel) must_check;
enum emul seg_load_ldt(struct cpu *c, u16 sel) must_check;
enum emul seg_load_tr(struct cpu *c, u16 sel) must_check;

/** seg_check_code() - may control go to code segment @sel with @d?
 * @rpl_checks: JMP and CALL: RPL <= CPL for non-conforming segments
 * @cpl: the privilege that results must be this for non-conforming ones
 * Return: EMUL_CONTINUE, or a fault with @sel. */
enum emul seg_check_code(struct cpu *c, u16 sel, const struct descriptor *d,
			 unsigned cpl, bool rpl_checks) must_check;

/** seg_put_cs() - load CS, set CPL, update code_bits */
void seg_put_cs(struct cpu *c, u16 sel, const struct descriptor *d, unsigned cpl);

/** seg_outer() - on a return to a lower privilege: unload data segments that
 * the new CPL may not use */
void seg_outer(struct cpu *c);

/** seg_real_mode() - protected mode is off, or VM86 */
static inline bool seg_real_mode(const struct cpu *c)
{
	return !(c->mmu.cr0 & CR0_PE) || (c->rflags & RF_VM);
}

#endif
