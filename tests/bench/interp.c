/* SPDX-License-Identifier: MIT */
/*
 * Speed of the interpreter on small loops: MIPS, best of five.
 * interp [SECONDS-SCALE]: iterations are multiplied by it.
 */
#include <stdio.h>

#include "unit/cpu/machine.h"

/* clang-format off */
static const u8 loop_alu[] = { /* 8 instructions an iteration */
	0x48, 0x01, 0xd8,		/* 1: add %rbx, %rax */
	0x48, 0x31, 0xc2,		/* xor %rax, %rdx */
	0x48, 0x8d, 0x74, 0x50, 0x07,	/* lea 7(%rax,%rdx,2), %rsi */
	0x48, 0xc1, 0xee, 0x03,		/* shr $3, %rsi */
	0x89, 0xf7,			/* mov %esi, %edi */
	0x83, 0xe7, 0x3f,		/* and $63, %edi */
	0x48, 0xff, 0xc9,		/* dec %rcx */
	0x75, 0xe7,			/* jnz 1b */
	0xf4,
};
static const u8 loop_mem[] = { /* 8 instructions: loads, stores, push, pop */
	0x48, 0x8b, 0x03,		/* 1: mov (%rbx), %rax */
	0x48, 0x03, 0x43, 0x08,		/* add 8(%rbx), %rax */
	0x48, 0x89, 0x43, 0x10,		/* mov %rax, 16(%rbx) */
	0x50,				/* push %rax */
	0x5a,				/* pop %rdx */
	0x0f, 0xb6, 0x43, 0x20,		/* movzbl 32(%rbx), %eax */
	0x48, 0xff, 0xc9,		/* dec %rcx */
	0x75, 0xea,			/* jnz 1b */
	0xf4,
};
static const u8 loop_call[] = { /* 6 instructions: call, ret, short blocks */
	0xe8, 0x06, 0x00, 0x00, 0x00,	/* 1: call 2f */
	0x48, 0xff, 0xc9,		/* dec %rcx */
	0x75, 0xf6,			/* jnz 1b */
	0xf4,
	0x48, 0x39, 0xd8,		/* 2: cmp %rbx, %rax */
	0x74, 0xfa,			/* je (never) */
	0xc3,				/* ret */
};
/* clang-format on */

static double run(struct machine *m, const u8 *code, unsigned n, u64 iterations)
{
	struct machine_vcpu *v = &m->vcpu[0];
	double best = 0;

	machine_code(m, M_CODE, code, n);
	for (int k = 0; k < 5; k++) {
		u64 start, ns, before = v->stats.instructions;

		machine_reset(v);
		v->c.gpr[R_RCX] = iterations;
		v->c.gpr[R_RBX] = M_DATA;
		start = v->c.clock->now_ns(v->c.clock);
		if (machine_run(v) != M_HALT)
			return 0;
		ns = v->c.clock->now_ns(v->c.clock) - start;
		double mips = (double)(v->stats.instructions - before) * 1e3 / (double)ns;

		best = mips > best ? mips : best;
	}
	return best;
}

int main(int argc, char **argv)
{
	u64 n = 2000000ull * (argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
	struct machine m;

	if (!machine_init(&m, 1))
		return 1;
	printf("interp_alu_mips %.1f\n", run(&m, loop_alu, sizeof(loop_alu), n));
	printf("interp_mem_mips %.1f\n", run(&m, loop_mem, sizeof(loop_mem), n));
	printf("interp_call_mips %.1f\n", run(&m, loop_call, sizeof(loop_call), n));
	machine_fini(&m);
	return 0;
}
