/* SPDX-License-Identifier: MIT */
/*
 * The families of integer instructions.  Each *_select() is given an insn of
 * its own family (tab_int.c knows which) and returns the handler, or NULL for
 * a form that it does not have.
 */
#ifndef LOCUM_CPU_OP_INT_H
#define LOCUM_CPU_OP_INT_H

#include "cpu/handlers.h"
#include "cpu/rmw.h"

op_fn alu_select(const struct insn *i);	   /* op_alu.c: ADD .. TEST */
op_fn unary_select(const struct insn *i);  /* op_alu.c: INC DEC NEG NOT */
op_fn shift_select(const struct insn *i);  /* op_shift.c: ROL .. SAR */
op_fn shiftd_select(const struct insn *i); /* op_shift.c: SHLD SHRD */
op_fn muldiv_select(const struct insn *i); /* op_muldiv.c */
op_fn mov_select(const struct insn *i);	   /* op_mov.c */
op_fn stack_select(const struct insn *i);  /* op_stack.c */
op_fn string_select(const struct insn *i); /* op_string.c */
op_fn bit_select(const struct insn *i);	   /* op_bit.c: BT*, BSF .. CRC32 */
op_fn bmi_select(const struct insn *i);	   /* op_bmi.c: VEX-coded, ADX */
op_fn ctl_select(const struct insn *i);	   /* op_ctl.c: branches, flags */
op_fn atomic_select(const struct insn *i); /* op_atomic.c */
op_fn io_select(const struct insn *i);	   /* op_io.c */
op_fn bcd_select(const struct insn *i);	   /* op_bcd.c */

/** int_size_index() - 0..3 for 1, 2, 4, 8 bytes */
static always_inline unsigned int_size_index(unsigned n)
{
	return (unsigned)__builtin_ctz(n);
}

/** int_rmw() - memory operand 0 = @fn(operand, @src), locked if @i says so;
 * commits the flags */
enum emul int_rmw(struct cpu *c, const struct insn *i, rmw_fn fn, u64 src) must_check;

#endif
