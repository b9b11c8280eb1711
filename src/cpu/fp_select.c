/* SPDX-License-Identifier: MIT */
/* Which family executes a floating-point or vector instruction. */
#include "cpu/fp_vec.h"

op_fn fp_select(const struct insn *i)
{
	static op_fn (*const families[])(const struct insn *) = {
		move_select,
		avx_select,
		masked_select,
		state_select,
		xsave_select,
		x87_select,
		vec_select,
	};

	for (unsigned n = 0; n < ARRAY_SIZE(families); n++) {
		op_fn f = families[n](i);

		if (f)
			return f;
	}
	return NULL;
}
