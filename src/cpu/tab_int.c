/* SPDX-License-Identifier: MIT */
/* Which family of integer handlers an operation belongs to. */
#include "cpu/op_int.h"

static op_fn select_arith(const struct insn *i)
{
	switch (i->op) {
	case OP_ADD: case OP_OR: case OP_ADC: case OP_SBB: case OP_AND: case OP_SUB:
	case OP_XOR: case OP_CMP: case OP_TEST:
		return alu_select(i);
	case OP_INC: case OP_DEC: case OP_NEG: case OP_NOT:
		return unary_select(i);
	case OP_ROL: case OP_ROR: case OP_RCL: case OP_RCR: case OP_SHL: case OP_SHR:
	case OP_SAR:
		return shift_select(i);
	case OP_SHLD: case OP_SHRD:
		return shiftd_select(i);
	case OP_MUL: case OP_IMUL: case OP_DIV: case OP_IDIV:
		return muldiv_select(i);
	default:
		return NULL;
	}
}

op_fn int_select(const struct insn *i)
{
	static op_fn (*const family[])(const struct insn *i) = {
		select_arith, mov_select, ctl_select,  stack_select,  bit_select,
		bmi_select,   string_select, atomic_select, io_select, bcd_select,
	};

	for (unsigned k = 0; k < ARRAY_SIZE(family); k++) {
		op_fn fn = family[k](i);

		if (fn)
			return fn;
	}
	return NULL;
}
