/* SPDX-License-Identifier: MIT */
/*
 * Code that changes, by every way it can, and code at page ends: the decoded
 * blocks must follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "unit/cpu/machine.h"

static struct machine m;

static int setup(void **state)
{
	(void)state;
	return machine_init(&m, 2) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	machine_fini(&m);
	return 0;
}

/* mov $IMM, %eax; hlt */
static void put_mov(gpa_t at, u8 imm)
{
	const u8 code[] = { 0xb8, imm, 0, 0, 0, 0xf4 };

	memcpy(m.ram + at, code, sizeof(code));
}

static u64 run_at(unsigned cpu, gva_t rip)
{
	struct machine_vcpu *v = &m.vcpu[cpu];

	machine_reset(v);
	v->c.rip = rip;
	assert_int_equal(machine_run(v), M_HALT);
	return v->c.gpr[R_RAX];
}

static void test_own_store_next_instruction(void **state)
{
	/* movb $7, 1(%rip) -> the immediate of the next instruction */
	static const u8 code[] = { 0xc6, 0x05, 0x01, 0, 0, 0, 7, 0xb8, 1, 0, 0, 0, 0xf4 };

	(void)state;
	machine_code(&m, M_CODE, code, sizeof(code));
	assert_int_equal(run_at(0, M_CODE), 7);
	/* Again, from a block that was decoded after the change. */
	m.ram[M_CODE + 8] = 3;
	mem_epoch_bump(m.mem);
	assert_int_equal(run_at(0, M_CODE), 7);
}

/* An instruction that turns itself into HLT is finished first. */
static void test_own_store_to_itself(void **state)
{
	static const u8 code[] = { 0xc6, 0x03, 0xf4,	/* 0: movb $0xf4, (%rbx) */
				   0x48, 0xff, 0xc0,	/* inc %rax */
				   0xeb, 0xf8 };	/* jmp 0b */
	struct machine_vcpu *v = &m.vcpu[0];

	(void)state;
	machine_code(&m, M_CODE, code, sizeof(code));
	machine_reset(v);
	v->c.gpr[R_RBX] = M_CODE;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RAX], 1);
	assert_int_equal(v->c.rip, M_CODE + 1);
}

/* A loop body patched by the loop itself, each time round. */
static void test_loop_patches_itself(void **state)
{
	static const u8 code[] = {
		0x05, 1, 0, 0, 0,		/* 0: add $1, %eax */
		0xfe, 0x05, 0xf6, 0xff, 0xff, 0xff, /* incb 1(0b) */
		0xff, 0xc9,			/* dec %ecx */
		0x75, 0xf1,			/* jnz 0b */
		0xf4,
	};
	struct machine_vcpu *v = &m.vcpu[0];

	(void)state;
	machine_code(&m, M_CODE, code, sizeof(code));
	machine_reset(v);
	v->c.gpr[R_RCX] = 10;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RAX], 55);
}

/* REP STOS over the code that follows it. */
static void test_rep_store_over_code(void **state)
{
	static const u8 code[] = { 0xf3, 0xaa, 0xeb, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0xf4 };
	struct machine_vcpu *v = &m.vcpu[0];

	(void)state;
	for (int k = 0; k < 2; k++) {
		machine_code(&m, M_CODE, code, sizeof(code));
		machine_reset(v);
		v->c.gpr[R_RAX] = 0x90;
		v->c.gpr[R_RCX] = 10;
		v->c.gpr[R_RDI] = M_CODE + 2;
		assert_int_equal(machine_run(v), M_HALT);
		assert_int_equal(v->c.gpr[R_RCX], 0);
		assert_int_equal(v->c.rip, M_CODE + 13);
		/* the jump became NOPs: they were executed one by one */
		assert_int_equal(m.ram[M_CODE + 2], 0x90);
	}
}

static void test_other_vcpu_store(void **state)
{
	static const u8 code[] = { 0xc6, 0x03, 9, 0xf4 }; /* movb $9, (%rbx); hlt */
	struct machine_vcpu *v1 = &m.vcpu[1];

	(void)state;
	put_mov(M_CODE, 1);
	machine_code(&m, M_CODE + 0x1000, code, sizeof(code));
	for (int k = 0; k < 3; k++) {
		m.ram[M_CODE + 1] = 1;
		mem_epoch_bump(m.mem);
		assert_int_equal(run_at(0, M_CODE), 1);
		machine_reset(v1);
		v1->c.gpr[R_RBX] = M_CODE + 1;
		v1->c.rip = M_CODE + 0x1000;
		assert_int_equal(machine_run(v1), M_HALT);
		assert_int_equal(run_at(0, M_CODE), 9);
	}
}

static void test_client_store(void **state)
{
	u64 before = m.vcpu[0].stats.verify_pages;

	(void)state;
	put_mov(M_CODE, 1);
	mem_epoch_bump(m.mem);
	assert_int_equal(run_at(0, M_CODE), 1);
	put_mov(M_CODE, 2);
	mem_epoch_bump(m.mem);
	assert_int_equal(run_at(0, M_CODE), 2);
	assert_true(m.vcpu[0].stats.verify_pages > before);
	/* The same epoch: nothing is compared again. */
	before = m.vcpu[0].stats.verify_pages;
	assert_int_equal(run_at(0, M_CODE), 2);
	assert_int_equal(m.vcpu[0].stats.verify_pages, before);
}

/* A store beside the code, in the same page, drops nothing. */
static void test_store_beside_code(void **state)
{
	static const u8 code[] = { 0xc6, 0x83, 0x00, 0x08, 0, 0, 5, 0xf4 };
	struct machine_vcpu *v = &m.vcpu[0];
	u64 dropped, decoded;

	(void)state;
	machine_code(&m, M_CODE, code, sizeof(code));
	machine_reset(v);
	v->c.gpr[R_RBX] = M_CODE;
	assert_int_equal(machine_run(v), M_HALT);
	dropped = v->stats.blocks_invalidated;
	decoded = v->stats.blocks_decoded;
	for (int k = 0; k < 10; k++) {
		machine_reset(v);
		v->c.gpr[R_RBX] = M_CODE;
		assert_int_equal(machine_run(v), M_HALT);
	}
	assert_int_equal(v->stats.blocks_invalidated, dropped);
	/* At most the rest of the block after the store is decoded once. */
	assert_true(v->stats.blocks_decoded <= decoded + 1);
}

static void test_crossing_patched_on_second_page(void **state)
{
	gpa_t at = M_CODE + 0x1000 - 2;

	(void)state;
	put_mov(at, 1);
	m.ram[at + 3] = 0;
	mem_epoch_bump(m.mem);
	assert_int_equal(run_at(0, at), 1);
	assert_int_equal(run_at(0, at), 1);
	/* Byte 3 of the instruction lies in the second page; no epoch: as if
	 * another vCPU's store were caught by nobody. */
	m.ram[at + 3] = 2;
	assert_int_equal(run_at(0, at), 0x20001);
	m.ram[at + 3] = 0;
	assert_int_equal(run_at(0, at), 1);
}

/* One unaligned store that ends in a code page: both pages are looked at. */
static void test_unaligned_store_into_code_page(void **state)
{
	static const u8 code[] = { 0x48, 0x89, 0x03, 0xf4 }; /* mov %rax, (%rbx); hlt */
	struct machine_vcpu *v = &m.vcpu[0];

	(void)state;
	put_mov(M_CODE + 0x1000, 1);
	machine_code(&m, M_CODE + 0x2000, code, sizeof(code));
	assert_int_equal(run_at(0, M_CODE + 0x1000), 1);
	machine_reset(v);
	v->c.rip = M_CODE + 0x2000;
	v->c.gpr[R_RBX] = M_CODE + 0x1000 - 6;
	v->c.gpr[R_RAX] = 0x06b8000000000000; /* ... b8 06 */
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(run_at(0, M_CODE + 0x1000), 6);
}

/* One page at two guest addresses: code runs by one, is written by the other. */
static void test_alias(void **state)
{
	static const u8 code[] = { 0xc6, 0x03, 9, 0xf4 };
	struct machine_vcpu *v = &m.vcpu[0];

	(void)state;
	*machine_pte(&m, M_DATA + 0x5000) = M_CODE | 7;
	mmu_flush_guest(&v->c.mmu);
	put_mov(M_CODE, 1);
	machine_code(&m, M_CODE + 0x1000, code, sizeof(code));
	assert_int_equal(run_at(0, M_CODE), 1);
	assert_int_equal(run_at(0, M_DATA + 0x5000), 1);
	machine_reset(v);
	v->c.gpr[R_RBX] = M_DATA + 0x5001;
	v->c.rip = M_CODE + 0x1000;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(run_at(0, M_CODE), 9);
	*machine_pte(&m, M_DATA + 0x5000) = (M_DATA + 0x5000) | 7;
}

/* The same address mapped to other code, after INVLPG by the guest. */
static void test_remap_and_invlpg(void **state)
{
	static const u8 code[] = {
		0xe8, 0xfb, 0x0f, 0, 0,		/* 30000: call 31000 */
		0x89, 0xc2,			/* mov %eax, %edx */
		0x48, 0x89, 0x1e,		/* mov %rbx, (%rsi): the PTE */
		0x0f, 0x01, 0x3f,		/* invlpg (%rdi) */
		0xe8, 0xee, 0x0f, 0, 0,		/* call 31000 */
		0xf4,
	};
	static const u8 one[] = { 0xb8, 1, 0, 0, 0, 0xc3 }, two[] = { 0xb8, 2, 0, 0, 0, 0xc3 };
	struct machine_vcpu *v = &m.vcpu[0];

	(void)state;
	machine_code(&m, M_CODE, code, sizeof(code));
	machine_code(&m, M_CODE + 0x1000, one, sizeof(one));
	machine_code(&m, M_CODE + 0x2000, two, sizeof(two));
	machine_reset(v);
	v->c.gpr[R_RBX] = (M_CODE + 0x2000) | 7;
	v->c.gpr[R_RSI] = M_PT + ((M_CODE + 0x1000) >> 12) * 8;
	v->c.gpr[R_RDI] = M_CODE + 0x1000;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RDX], 1);
	assert_int_equal(v->c.gpr[R_RAX], 2);
	*machine_pte(&m, M_CODE + 0x1000) = (M_CODE + 0x1000) | 7;
	mmu_flush_guest(&v->c.mmu);
}

/* Fetch faults name the exact byte, and NX is I=1. */
static void test_fetch_faults(void **state)
{
	struct machine_vcpu *v = &m.vcpu[0];
	gva_t at = M_CODE + 0x1000 - 2;

	(void)state;
	put_mov(at, 1);
	*machine_pte(&m, M_CODE + 0x1000) = (M_CODE + 0x1000) | 7 | 1ull << 63;
	mem_epoch_bump(m.mem);
	machine_reset(v);
	v->c.rip = at;
	assert_int_equal(machine_run(v), EXC_PF);
	assert_int_equal(machine_frame(v, 0), PF_P | PF_I);
	assert_int_equal(machine_frame(v, 1), at);
	assert_int_equal(v->c.cr2, M_CODE + 0x1000);
	/* An instruction that ends at the page end does not touch the next page. */
	m.ram[M_CODE + 0xfff] = 0x90;
	mem_epoch_bump(m.mem);
	machine_reset(v);
	v->c.rip = M_CODE + 0xfff;
	assert_int_equal(machine_run(v), EXC_PF);
	assert_int_equal(machine_frame(v, 1), M_CODE + 0x1000);
	*machine_pte(&m, M_CODE + 0x1000) = (M_CODE + 0x1000) | 7;
	mmu_flush_guest(&v->c.mmu);
}

/* A cache of 256 KiB under code of 1 MiB: everything still runs, in bounds. */
static void test_eviction(void **state)
{
	static const struct icache_config small = { .max_bytes = 256 << 10 };
	struct machine_vcpu *v = &m.vcpu[0];
	u64 sum;

	(void)state;
	interp_fini(&v->c);
	assert_int_equal(interp_init(&v->c, &small), 0);
	/* A chain of 256 pages: add $1, %eax; jmp next page. */
	for (u64 p = 0; p < 256; p++) {
		const u8 code[] = { 0x83, 0xc0, 1, 0xe9, 0xf8, 0x0f, 0, 0 };

		memcpy(m.ram + 0x200000 + p * 4096, code, sizeof(code));
	}
	m.ram[0x300000] = 0xf4;
	mem_epoch_bump(m.mem);
	for (int k = 0; k < 3; k++) {
		sum = run_at(0, 0x200000);
		assert_int_equal(sum, 256);
	}
	interp_fini(&v->c);
	assert_int_equal(interp_init(&v->c, NULL), 0);
}

/* Blocks of a page, chained to each other, survive the drop of the page. */
static void test_chains_after_drop(void **state)
{
	static const u8 code[] = {
		0xeb, 0x00,			/* jmp 1f */
		0x83, 0xc0, 0x01,		/* 1: add $1, %eax */
		0xff, 0xc9,			/* dec %ecx */
		0x75, 0xf7,			/* jnz start */
		0x80, 0x3b, 0x01,		/* cmpb $1, (%rbx) */
		0x74, 0x0a,			/* je done */
		0xc6, 0x03, 0x01,		/* movb $1, (%rbx): 1 -> 1 in "add $1" */
		0xb9, 0x05, 0, 0, 0,		/* mov $5, %ecx */
		0xeb, 0xea,			/* jmp start */
		0xf4,
	};
	struct machine_vcpu *v = &m.vcpu[0];

	(void)state;
	machine_code(&m, M_CODE, code, sizeof(code));
	m.ram[M_CODE + 4] = 2;
	mem_epoch_bump(m.mem);
	machine_reset(v);
	v->c.gpr[R_RCX] = 5;
	v->c.gpr[R_RBX] = M_CODE + 4;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RAX], 5 * 2 + 5 * 1);
}

/* --- two vCPUs at once ------------------------------------------------------- */

struct racer {
	struct machine_vcpu *v;
	int exit;
};

static void *race(void *arg)
{
	struct racer *r = arg;

	r->exit = machine_run(r->v);
	return NULL;
}

/*
 * vCPU 1 patches an immediate and then publishes it; vCPU 0 waits for the
 * number, executes a serialising instruction (CPUID) and calls the patched
 * code, which must return at least that number.
 */
static void test_cross_modifying(void **state)
{
	static const u8 reader[] = {
		0x8b, 0x2b,			/* 0: mov (%rbx), %ebp */
		0x85, 0xed,			/* test %ebp, %ebp */
		0x74, 0xfa,			/* je 0b */
		0x53,				/* push %rbx */
		0x31, 0xc0, 0x0f, 0xa2,		/* xor %eax, %eax; cpuid */
		0x5b,				/* pop %rbx */
		0xe8, 0xef, 0x0f, 0, 0,		/* call 31000 */
		0x39, 0xe8,			/* cmp %ebp, %eax */
		0x72, 0x09,			/* jb bad */
		0x81, 0xfd, 0x20, 0x4e, 0, 0,	/* cmp $20000, %ebp */
		0x75, 0xe3,			/* jne 0b */
		0xf4,
		0x0f, 0x0b,			/* bad: ud2 */
	};
	static const u8 writer[] = {
		0xff, 0xc1,			/* 0: inc %ecx */
		0x89, 0x0e,			/* mov %ecx, (%rsi): the immediate */
		0x89, 0x0b,			/* mov %ecx, (%rbx): the number */
		0x81, 0xf9, 0x20, 0x4e, 0, 0,	/* cmp $20000, %ecx */
		0x75, 0xf2,			/* jne 0b */
		0xf4,
	};
	static const u8 patched[] = { 0xb8, 0, 0, 0, 0, 0xc3 };
	struct racer r[2] = { { &m.vcpu[0], 0 }, { &m.vcpu[1], 0 } };
	pthread_t t[2];

	(void)state;
	machine_code(&m, M_CODE, reader, sizeof(reader));
	machine_code(&m, M_CODE + 0x1000, patched, sizeof(patched));
	machine_code(&m, M_CODE + 0x2000, writer, sizeof(writer));
	m_put64(&m, M_DATA, 0);
	for (int i = 0; i < 2; i++) {
		machine_reset(r[i].v);
		r[i].v->c.gpr[R_RBX] = M_DATA;
		r[i].v->c.gpr[R_RSI] = M_CODE + 0x1001;
		r[i].v->c.gpr[R_RSP] = M_STACK - 0x1000 * i;
	}
	r[1].v->c.rip = M_CODE + 0x2000;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, race, &r[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(r[1].exit, M_HALT);
	assert_int_equal(r[0].exit, M_HALT);
}

/* Both add to one counter with LOCK, half of the time across a cache line. */
static void test_locked_counter(void **state)
{
	static const u8 code[] = {
		0xf0, 0x48, 0xff, 0x03,		/* 0: lock incq (%rbx) */
		0xf0, 0x48, 0x83, 0x06, 0x01,	/* lock addq $1, (%rsi) */
		0xff, 0xc9,			/* dec %ecx */
		0x75, 0xf3,			/* jnz 0b */
		0xf4,
	};
	struct racer r[2] = { { &m.vcpu[0], 0 }, { &m.vcpu[1], 0 } };
	pthread_t t[2];

	(void)state;
	machine_code(&m, M_CODE, code, sizeof(code));
	memset(m.ram + M_DATA, 0, 256);
	for (int i = 0; i < 2; i++) {
		machine_reset(r[i].v);
		r[i].v->c.gpr[R_RBX] = M_DATA;
		r[i].v->c.gpr[R_RSI] = M_DATA + 64 + 60;
		r[i].v->c.gpr[R_RCX] = 100000;
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, race, &r[i]), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(r[i].exit, M_HALT);
	}
	assert_int_equal(m_get64(&m, M_DATA), 200000);
	assert_int_equal(m_get64(&m, M_DATA + 124), 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_store_next_instruction),
		cmocka_unit_test(test_own_store_to_itself),
		cmocka_unit_test(test_loop_patches_itself),
		cmocka_unit_test(test_rep_store_over_code),
		cmocka_unit_test(test_other_vcpu_store),
		cmocka_unit_test(test_client_store),
		cmocka_unit_test(test_store_beside_code),
		cmocka_unit_test(test_crossing_patched_on_second_page),
		cmocka_unit_test(test_unaligned_store_into_code_page),
		cmocka_unit_test(test_alias),
		cmocka_unit_test(test_remap_and_invlpg),
		cmocka_unit_test(test_fetch_faults),
		cmocka_unit_test(test_eviction),
		cmocka_unit_test(test_chains_after_drop),
		cmocka_unit_test(test_cross_modifying),
		cmocka_unit_test(test_locked_counter),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
