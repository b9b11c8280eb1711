/* SPDX-License-Identifier: MIT */
#include "cpu/handlers.h"

op_fn op_select(const struct insn *i)
{
	op_fn fn = int_select(i);

	if (!fn)
		fn = fp_select(i);
	if (!fn)
		fn = sys_select(i);
	return fn;
}
