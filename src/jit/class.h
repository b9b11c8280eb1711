/* SPDX-License-Identifier: MIT */
/* How an instruction is translated: decided before anything is emitted. */
#ifndef LOCUM_JIT_CLASS_H
#define LOCUM_JIT_CLASS_H

#include "cpu/icache.h"

enum jit_class {
	JIT_INTERP, /* by the interpreter, as one instruction */
	JIT_COPY,   /* the instruction itself, registers renamed */
	JIT_VECTOR, /* likewise, with vector registers */
	JIT_X87,    /* x87.c */
	JIT_SHIFT,  /* by CL */
	JIT_DIV,
	JIT_LEA,
	JIT_PUSH,
	JIT_POP,
	JIT_LEAVE,
	JIT_PUSH_MEM,
	JIT_SYSTEM, /* sys.c */
	JIT_NOP,
	JIT_JCC,
	JIT_JMP,
	JIT_JMP_IND,
	JIT_CALL,
	JIT_CALL_IND,
	JIT_RET,
};

/* Where an operand stands in the encoding. */
enum jit_role { ROLE_NONE, ROLE_REG, ROLE_RM, ROLE_VVVV, ROLE_PLUS, ROLE_FIXED, ROLE_OTHER };

/** jit_role() - of operand @n of @i */
enum jit_role jit_role(const struct insn *i, unsigned n);

/** jit_class() - of @e; depends on the icode and the host alone */
enum jit_class jit_class(const struct icode *e);

/** jit_flags_read() - RF_* that @i reads */
unsigned jit_flags_read(const struct insn *i);

#endif
