/* SPDX-License-Identifier: MIT */
/* SIMD floating-point exceptions: a stub under the guest's MXCSR, and #XM. */
#ifndef LOCUM_CPU_FP_EXCEPT_H
#define LOCUM_CPU_FP_EXCEPT_H

#include "cpu/fp.h"
#include "cpu/fp_stub.h"

/** struct fp_args - what a loader is given (cpu/fp_stub.h)
 * @reg, @rm: copies, since an unmasked exception forbids the result; a memory
 *            operand has room for 32 bytes */
struct fp_args {
	u8 *reg, *rm, *vvvv, *extra;
	const u8 *body;
	u64 rflags;
};

/**
 * fp_except_run() - run a stub with the guest's rounding and denormal modes
 * The host runs it with all exceptions masked; its MXCSR is kept.
 * Return: the exception flags that the guest's instruction raises, given the
 * guest's masks.  MXCSR of @c is not changed.
 */
u32 fp_except_run(struct cpu *c, const struct insn *i, const struct fp_stub *s,
		  struct fp_args *a);

#define FPX_PRE (BIT(0) | BIT(1) | BIT(2)) /* invalid, denormal, divide by zero */

/**
 * fp_except_step() - fp_except_run() with unmasked exceptions
 * @masked: the exceptions that the guest masks; @in: its MXCSR with all masked and
 *          no flags
 * Of exceptions found before computing, if unmasked, those alone are reported.
 */
u32 fp_except_step(const struct fp_stub *s, const struct insn *i, struct fp_args *a,
		   u32 masked, u32 in);

/**
 * fp_dot_ends() - for DPPS and DPPD: does a step raise something unmasked?
 * Then *@raised is what it and the steps before it raise.  @a is not changed.
 */
bool fp_dot_ends(const struct fp_stub *s, const struct insn *i, const struct fp_args *a,
		 u32 masked, u32 in, u32 *raised);

/** fp_except_stops() - is one of @raised unmasked? */
bool fp_except_stops(struct cpu *c, u32 raised);

/**
 * fp_except_raise() - note @raised in MXCSR
 * Return: EMUL_CONTINUE; EMUL_FAULT if one of them is unmasked: #XM, or #UD
 * without CR4.OSXMMEXCPT.  The result must then not be committed.
 */
enum emul fp_except_raise(struct cpu *c, u32 raised) must_check;

#endif
