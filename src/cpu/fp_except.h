/* SPDX-License-Identifier: MIT */
/* SIMD floating-point exceptions: a stub under the guest's MXCSR, and #XM. */
#ifndef LOCUM_CPU_FP_EXCEPT_H
#define LOCUM_CPU_FP_EXCEPT_H

#include "cpu/fp.h"
#include "cpu/fp_stub.h"

/**
 * fp_except_run() - run a stub with the guest's rounding and denormal modes
 * @reg, @rm, @body, @rflags: as for fp_loader; @reg and @rm are copies of 16
 *                            bytes (8 for GPR and MMX operands)
 * The host runs it with all exceptions masked; its MXCSR is kept.
 * Return: the exception flags that the guest's instruction raises, given the
 * guest's masks.  MXCSR of @c is not changed.
 */
u32 fp_except_run(struct cpu *c, const struct fp_stub *s, u8 *reg, u8 *rm, const u8 *body,
		  u64 *rflags);

/**
 * fp_except_raise() - note @raised in MXCSR
 * Return: EMUL_CONTINUE; EMUL_FAULT if one of them is unmasked: #XM, or #UD
 * without CR4.OSXMMEXCPT.  The result must then not be committed.
 */
enum emul fp_except_raise(struct cpu *c, u32 raised) must_check;

#endif
