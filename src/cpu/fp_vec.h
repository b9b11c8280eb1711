/* SPDX-License-Identifier: MIT */
/* The handler families behind fp_select(). */
#ifndef LOCUM_CPU_FP_VEC_H
#define LOCUM_CPU_FP_VEC_H

#include "cpu/handlers.h"

/* Each returns NULL for what is not its own, as fp_select() does. */
op_fn vec_select(const struct insn *i); /* MMX and SSE with a stub (fp_vec.c) */
op_fn move_select(
	const struct insn *i);		/* plain moves, masked moves, hints (fp_move.c) */
op_fn x87_select(const struct insn *i); /* D8..DF, FWAIT (fp_x87.c, fp_env.c) */
op_fn state_select(const struct insn *i); /* FXSAVE, MXCSR, XCR0 (fp_state.c) */
op_fn xsave_select(const struct insn *i); /* XSAVE and its kin (fp_xsave.c) */

#endif
