/* SPDX-License-Identifier: MIT */
/* An interpreter of a small stack machine, by switch and by computed goto. */
#include "work.h"

enum { PUSH, LOAD, STORE, ADD, SUB, MUL, XOR, SHR, LESS, JNZ, JMP, HALT };

/* counter in variable 0, sum in 1, limit in 2; one turn of the loop:
 * sum = (sum * 31 ^ counter) + (sum >> 3), less the counter if that is below 2^63 */
static const int program[] = {
	/* 0 */ LOAD, 1, PUSH, 31, MUL, LOAD, 0, XOR, LOAD, 1, PUSH, 3, SHR, ADD, STORE, 1,
	/* 16 */ LOAD, 0, PUSH, 63, SHR, JNZ, 32, LOAD, 1, LOAD, 0, SUB, STORE, 1, JMP, 32,
	/* 32 */ LOAD, 0, PUSH, 1, ADD, STORE, 0, LOAD, 0, LOAD, 2, LESS, JNZ, 0, HALT,
};

u64 bytecode_switch(unsigned long n)
{
	u64 stack[16] = { 0 }, vars[3] = { 0, 1, n }, *sp = stack;
	const int *pc = program;

	for (;;) {
		__asm__ volatile("" ::: "memory"); /* one dispatch for all */
		switch (*pc++) {
		case PUSH: *sp++ = (u64)*pc++; break;
		case LOAD: *sp++ = vars[*pc++]; break;
		case STORE: vars[*pc++] = *--sp; break;
		case ADD: sp--; sp[-1] += *sp; break;
		case SUB: sp--; sp[-1] -= *sp; break;
		case MUL: sp--; sp[-1] *= *sp; break;
		case XOR: sp--; sp[-1] ^= *sp; break;
		case SHR: sp--; sp[-1] >>= *sp & 63; break;
		case LESS: sp--; sp[-1] = sp[-1] < *sp; break;
		case JNZ: pc = *--sp ? program + *pc : pc + 1; break;
		case JMP: pc = program + *pc; break;
		default: return vars[1];
		}
	}
}

u64 bytecode_goto(unsigned long n)
{
	static const void *const code[] = { &&push, &&load, &&store, &&add, &&sub, &&mul, &&xor,
					    &&shr, &&less, &&jnz, &&jmp, &&halt };
	u64 stack[16] = { 0 }, vars[3] = { 0, 1, n }, *sp = stack;
	const int *pc = program;

#define NEXT goto *code[*pc++]
	NEXT;
push:	*sp++ = (u64)*pc++; NEXT;
load:	*sp++ = vars[*pc++]; NEXT;
store:	vars[*pc++] = *--sp; NEXT;
add:	sp--; sp[-1] += *sp; NEXT;
sub:	sp--; sp[-1] -= *sp; NEXT;
mul:	sp--; sp[-1] *= *sp; NEXT;
xor:	sp--; sp[-1] ^= *sp; NEXT;
shr:	sp--; sp[-1] >>= *sp & 63; NEXT;
less:	sp--; sp[-1] = sp[-1] < *sp; NEXT;
jnz:	pc = *--sp ? program + *pc : pc + 1; NEXT;
jmp:	pc = program + *pc; NEXT;
halt:	return vars[1];
#undef NEXT
}
