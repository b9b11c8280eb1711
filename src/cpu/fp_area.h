/* SPDX-License-Identifier: MIT */
/*
 * The operand of FXSAVE, XSAVE and their kin: an image in guest memory.
 *
 * Images are composed in a buffer and written in the ranges that the
 * instruction writes; the whole operand is probed first, in the order in which
 * processors report its pages.
 */
#ifndef LOCUM_CPU_FP_AREA_H
#define LOCUM_CPU_FP_AREA_H

#include "cpu/fp_image.h"
#include "decode/decode.h"

/** fp_area_xmm_bytes() - of the XMM (or YMM-high) registers that the mode has */
unsigned fp_area_xmm_bytes(const struct cpu *c);

/**
 * fp_area_linear() - linear address of the operand of @n bytes
 * Return: EMUL_CONTINUE; EMUL_FAULT: a segment's fault, or #GP(0) if it is not
 * aligned to @align.
 */
enum emul fp_area_linear(struct cpu *c, const struct insn *i, unsigned n, unsigned align,
			 bool write, gva_t *lin) must_check;

/** fp_area_check_ac() - unlike for vector moves, a non-canonical address comes before
 * alignment; and where #AC is on, a doubleword's alignment before the area's.  For
 * FXSAVE, FXRSTOR, and on Intel's processors the XSAVE family (measured) */
enum emul fp_area_check_ac(struct cpu *c, const struct insn *i, gva_t lin) must_check;

/** fp_area_probe() - can byte @off of the operand be accessed?  Its address is
 * formed from the effective address, so that it wraps in the address size. */
enum emul fp_area_probe(struct cpu *c, const struct insn *i, unsigned off,
			bool write) must_check;

/** fp_area_compose() - the state as the vendor's FXSAVE shows it: AMD hides the
 * x87 pointers while no exception is pending
 * @wide: REX.W, 64-bit pointers */
void fp_area_compose(struct cpu *c, bool wide, struct fp_image *out);

/** fp_area_load_x87() - replace the x87 part of @f by that of @in */
void fp_area_load_x87(struct fp_image *f, const struct fp_image *in, bool wide);

#endif
