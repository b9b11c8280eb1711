/* SPDX-License-Identifier: MIT */
/* What is looked at around an instruction: shadows, TF, RF, breakpoints, the
 * client's debugger, attention, answers on record, segment limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/debug.h"
#include "unit/cpu/machine.h"

static struct machine m;
static struct machine_vcpu *v;

static int setup(void **state)
{
	(void)state;
	if (!machine_init(&m, 1))
		return -1;
	v = &m.vcpu[0];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	machine_fini(&m);
	return 0;
}

static void load(const u8 *code, unsigned n)
{
	machine_code(&m, M_CODE, code, n);
	machine_reset(v);
	v->commits = v->event_checks = v->mmio_calls = 0;
	v->refuse_io = false;
	memset(&v->c.gdb, 0, sizeof(v->c.gdb));
}

#define LOAD(...)                                                                \
	do {                                                                     \
		static const u8 code_[] = { __VA_ARGS__ };                       \
		load(code_, sizeof(code_));                                      \
	} while (0)

/* STI: no event between it and the next instruction. */
static void test_sti_shadow(void **state)
{
	(void)state;
	LOAD(0xfb, 0x90, 0x90, 0xf4);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(v->c.shadow, SHADOW_STI);
	assert_int_equal(v->event_checks, 0);
	atomic_fetch_or(&v->c.attn, ATTN_EVENT);
	assert_int_equal(machine_run(v), M_EVENT);
	assert_int_equal(v->c.rip, M_CODE + 2);
	assert_int_equal(v->c.shadow, 0);
	assert_true(v->event_checks >= 1);
	atomic_fetch_and(&v->c.attn, ~ATTN_EVENT);
	/* STI with IF already set: no shadow. */
	LOAD(0xfb, 0x90, 0xf4);
	v->c.rflags |= RF_IF;
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(v->c.shadow, 0);
}

static void test_cli_sti_privilege(void **state)
{
	(void)state;
	LOAD(0xfa);
	machine_privilege(&v->c, 3);
	assert_int_equal(machine_run(v), EXC_GP);
	LOAD(0xfa, 0xfb, 0xeb, 0xfe);
	machine_privilege(&v->c, 3);
	cpu_put_rflags(&v->c, RF_ONE | RF_IF | RF_IOPL);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(v->c.rflags & RF_IF, 0);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(v->c.rflags & RF_IF, RF_IF);
}

/* POPF: IOPL only at privilege 0, IF only up to IOPL, RF never, ID and AC always. */
static void test_popf_privilege(void **state)
{
	static const struct {
		unsigned cpl;
		u64 before, want;
	} cases[] = {
		{ 0, 0, RF_IF | RF_IOPL | RF_NT | RF_AC | RF_ID },
		{ 3, 0, RF_NT | RF_AC | RF_ID },
		{ 3, RF_IOPL, RF_IF | RF_IOPL | RF_NT | RF_AC | RF_ID },
		{ 3, RF_IF, RF_IF | RF_NT | RF_AC | RF_ID },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		LOAD(0x53, 0x9d, 0xeb, 0xfe);
		machine_privilege(&v->c, cases[i].cpl);
		cpu_put_rflags(&v->c, RF_ONE | cases[i].before);
		v->c.gpr[R_RBX] = ~(u64)RF_TF;
		assert_int_equal(machine_step(v), M_EVENT);
		assert_int_equal(machine_step(v), M_EVENT);
		assert_int_equal(cpu_rflags(&v->c),
				 cases[i].want | RF_ONE | RF_ARITH | RF_DF);
	}
}

/* TF traps after each instruction; the one that sets it is not trapped. */
static void test_single_step(void **state)
{
	(void)state;
	LOAD(0x53, 0x9d, 0x90, 0x90);
	v->c.gpr[R_RBX] = RF_TF | RF_ONE;
	assert_int_equal(machine_run(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 3);
	assert_int_equal(machine_frame(v, 2) & RF_RF, 0);
	assert_int_equal(v->c.dr6 & (DR6_BS | DR6_B), DR6_BS);
	assert_int_equal(v->c.rflags & RF_TF, 0);
}

/* The instruction after POPF faults: its fault comes, and no #DB before it. */
static void test_single_step_then_fault(void **state)
{
	(void)state;
	LOAD(0x53, 0x9d, 0x0f, 0x0b);
	v->c.gpr[R_RBX] = RF_TF | RF_ONE;
	assert_int_equal(machine_run(v), EXC_UD);
	assert_int_equal(machine_frame(v, 0), M_CODE + 2);
	assert_int_equal(machine_frame(v, 2) & (RF_TF | RF_RF), RF_TF | RF_RF);
}

/* REP under TF: one iteration, then the trap, rIP still at the instruction. */
static void test_single_step_rep(void **state)
{
	(void)state;
	LOAD(0xf3, 0xaa, 0xf4);
	v->c.gpr[R_RCX] = 3;
	v->c.gpr[R_RDI] = M_DATA;
	v->c.rflags |= RF_TF;
	assert_int_equal(machine_run(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE);
	assert_int_equal(v->c.gpr[R_RCX], 2);
}

static void test_instruction_breakpoint(void **state)
{
	(void)state;
	LOAD(0x90, 0x90, 0xf4);
	v->c.dr[0] = M_CODE + 1;
	v->c.dr7 = 0x402;
	assert_int_equal(machine_run(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 1);
	/* Of all faults this one alone does not push RF: the handler sets it. */
	assert_int_equal(machine_frame(v, 2) & RF_RF, 0);
	assert_int_equal(v->c.dr6 & DR6_B, 1);
	/* RF skips it once. */
	LOAD(0x90, 0x90, 0xf4);
	v->c.dr[0] = M_CODE + 1;
	v->c.dr7 = 0x402;
	v->c.rip = M_CODE + 1;
	v->c.rflags |= RF_RF;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.rflags & RF_RF, 0);
}

static void test_data_breakpoint(void **state)
{
	(void)state;
	LOAD(0x88, 0x03, 0x90, 0xf4);
	v->c.gpr[R_RBX] = M_DATA + 1;
	v->c.dr[1] = M_DATA;
	v->c.dr7 = 0x400 | 1 << 2 | 0xdull << 20; /* write, 4 bytes */
	debug_update(&v->c);
	assert_int_equal(machine_run(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 2);
	assert_int_equal(v->c.dr6 & DR6_B, 2);
	v->c.dr7 = 0x400;
	debug_update(&v->c);
}

static void test_client_debugger(void **state)
{
	(void)state;
	LOAD(0x90, 0xcc, 0xf4);
	v->c.gdb.enabled = v->c.gdb.sw_bp = true;
	assert_int_equal(machine_run(v), M_DEBUG);
	assert_int_equal(v->c.debug_exit.vector, EXC_BP);
	assert_int_equal(v->c.debug_exit.pc, M_CODE + 1);
	assert_int_equal(v->c.rip, M_CODE + 1);
	LOAD(0x90, 0x90, 0xf4);
	v->c.gdb.enabled = v->c.gdb.singlestep = true;
	assert_int_equal(machine_run(v), M_DEBUG);
	assert_int_equal(v->c.debug_exit.vector, EXC_DB);
	assert_int_equal(v->c.debug_exit.pc, M_CODE + 1);
	assert_int_equal(v->c.debug_exit.dr6 & DR6_BS, DR6_BS);
}

/* An endless loop is left for ATTN_EXIT at an instruction boundary. */
static void test_exit_attention(void **state)
{
	(void)state;
	LOAD(0xeb, 0xfe);
	atomic_fetch_or(&v->c.attn, ATTN_EXIT);
	assert_int_equal(machine_run(v), M_EVENT);
	assert_int_equal(v->c.rip, M_CODE);
	atomic_fetch_and(&v->c.attn, ~ATTN_EXIT);
}

/* A device access that the client must answer: nothing is done, and it is done
 * once at the next entry; the record is dropped then. */
static void test_mmio_again(void **state)
{
	(void)state;
	LOAD(0x48, 0x8b, 0x03, 0x48, 0xff, 0xc1, 0xf4);
	v->c.gpr[R_RBX] = M_RAM_BYTES + 0x1000;
	v->refuse_io = true;
	assert_int_equal(machine_run(v), M_IO);
	assert_int_equal(v->c.rip, M_CODE);
	assert_int_equal(v->commits, 0);
	v->refuse_io = false;
	v->mmio_data = 0x1234;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RAX], 0x1234);
	assert_int_equal(v->c.gpr[R_RCX], 1);
	assert_true(v->commits >= 1);
}

static void test_io_permission(void **state)
{
	static const struct {
		const char *name;
		u16 port, base;
		u32 limit;
		u8 bits[2];
		bool ok;
	} cases[] = {
		{ "allowed", 0x10, 0x68, 0x100, { 0, 0 }, true },
		{ "denied by its bit", 0x10, 0x68, 0x100, { 1, 0 }, false },
		{ "second byte's bit counts for a word", 0x17, 0x68, 0x100, { 0, 1 }, false },
		{ "only its own bits count", 0x17, 0x68, 0x100, { 0x7f, 0xfe }, true },
		{ "two bytes are read: the limit is one too small", 0x10, 0x68, 0x6a, { 0, 0 }, false },
		{ "the limit just fits", 0x10, 0x68, 0x6b, { 0, 0 }, true },
		{ "no bitmap", 0x10, 0xffff, 0x67, { 0, 0 }, false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		LOAD(0x66, 0xed, 0xeb, 0xfe); /* in (%dx), %ax */
		machine_privilege(&v->c, 3);
		v->c.gpr[R_RDX] = cases[i].port;
		v->c.seg[SEG_TR].limit = cases[i].limit;
		v->port_data = 0x8765;
		memcpy(m.ram + M_TSS + 102, &cases[i].base, 2);
		memcpy(m.ram + M_TSS + 0x68 + 2, cases[i].bits, 2);
		int got = machine_step(v);

		if (got != (cases[i].ok ? M_EVENT : EXC_GP))
			fail_msg("%s: %d", cases[i].name, got);
		if (cases[i].ok)
			assert_int_equal(v->c.gpr[R_RAX], 0x8765);
	}
}

static void test_privileged_at_3(void **state)
{
	static const u8 codes[][3] = {
		{ 0xf4 }, { 0x0f, 0x06 }, { 0x0f, 0x32 }, { 0x0f, 0x30 }, { 0x0f, 0x09 },
		{ 0x0f, 0x01, 0x3b }, { 0x0f, 0x20, 0xc0 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
		load(codes[i], 3);
		machine_privilege(&v->c, 3);
		if (machine_run(v) != EXC_GP)
			fail_msg("case %u", i);
	}
}

/* 32-bit code: the limit of CS, and of DS, to the byte. */
static void test_segment_limits(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	LOAD(0x90, 0x90, 0x90, 0xb8, 1, 0, 0, 0, 0x8b, 0x03, 0xf4);
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	cpu_update_mode(c);
	assert_int_equal(c->code_bits, 32);
	c->gpr[R_RBX] = 0xffd;
	c->seg[SEG_DS].limit = 0x1000;
	assert_int_equal(machine_run(v), M_HALT);
	/* One byte further. */
	LOAD(0x90, 0x90, 0x90, 0xb8, 1, 0, 0, 0, 0x8b, 0x03, 0xf4);
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	cpu_update_mode(c);
	c->gpr[R_RBX] = 0xffe;
	c->seg[SEG_DS].limit = 0x1000;
	assert_int_equal(machine_run(v), EXC_GP);
	assert_int_equal(machine_frame(v, 1), M_CODE + 8);
	/* The MOV's last byte is beyond CS's limit: #GP at the MOV. */
	LOAD(0x90, 0x90, 0x90, 0xb8, 1, 0, 0, 0, 0x8b, 0x03, 0xf4);
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	c->seg[SEG_CS].limit = M_CODE + 6;
	cpu_update_mode(c);
	assert_int_equal(machine_run(v), EXC_GP);
	assert_int_equal(machine_frame(v, 1), M_CODE + 3);
}

/* Real mode: IP is 16 bits wide, SP wraps. */
static void test_real_mode(void **state)
{
	struct cpu *c = &v->c;

	(void)state;
	LOAD(0);
	m.ram[0x10000] = 0x6a;
	m.ram[0x10001] = 5; /* push 5 at 1000:0 */
	m.ram[0x10002] = 0x2e; /* mov %al, %cs:0x80 */
	m.ram[0x10003] = 0xa2;
	m.ram[0x10004] = 0x80;
	m.ram[0x10005] = 0;
	m.ram[0x10006] = 0xf4;
	mem_epoch_bump(m.mem);
	cpu_reset(c, false);
	c->seg[SEG_CS].base = 0x10000;
	c->seg[SEG_CS].sel = 0x1000;
	c->seg[SEG_SS].base = 0x20000;
	c->gpr[R_RSP] = 0xabcd0000;
	c->gpr[R_RAX] = 0x5a;
	c->rip = 0;
	cpu_update_mode(c);
	assert_int_equal(c->code_bits, 16);
	(void)machine_run(v);
	assert_true(c->halted);
	assert_int_equal(c->gpr[R_RSP], 0xabcdfffe);
	assert_int_equal(m.ram[0x2fffe], 5);
	assert_int_equal(m.ram[0x10080], 0x5a);
	/* Put the stub's bytes back. */
	memset(m.ram + 0x10000, 0, 0x100);
	for (unsigned k = 0; k < 16; k++)
		m.ram[M_STUBS + k * 16] = 0xf4;
	mem_epoch_bump(m.mem);
}

/* 16-bit code: IP beyond 64 KiB, where the segment's limit lets it. */
static void test_beyond_64k(void **state)
{
	/* What follows a row's code is HLT. */
	static const struct {
		const char *name;
		u32 limit, at;
		u8 n, code[9];
		bool faults;
		u64 rip; /* of the HLT, or of the instruction that faults */
	} rows[] = {
		{ "goes on", ~0u, 0x2fffe, 3, { 0x90, 0x90, 0x90 }, false, 0x30001 },
		{ "instruction across", ~0u, 0xffff, 3, { 0xb8, 1, 2 }, false, 0x10002 },
		{ "ends at the limit", 0xffff, 0xfffe, 2, { 0x90, 0x90 }, true, 0x10000 },
		{ "crosses the limit", 0xffff, 0xffff, 3, { 0xb8, 1, 2 }, true, 0xffff },
		{ "Jcc not taken", ~0u, 0x20000, 4, { 0x85, 0xc0, 0x75, 0x10 }, false, 0x20004 },
		{ "JMP cuts to 16 bits", ~0u, 0x20000, 2, { 0xeb, 0x10 }, false, 0x12 },
		{ "JMP EAX does not", ~0u, 0x1000, 9,
		  { 0x66, 0xb8, 0, 0, 3, 0, 0x66, 0xff, 0xe0 }, false, 0x30000 },
	};
	struct cpu *c = &v->c;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		u64 base = 4u << 20, rip;
		bool faulted;

		LOAD(0);
		memset(m.ram + base, 0xf4, 0x40000);
		memcpy(m.ram + base + rows[i].at, rows[i].code, rows[i].n);
		mem_epoch_bump(m.mem);
		m_seg(c, SEG_CS, M_CS32, 0x809b); /* 16-bit code, DPL 0 */
		c->seg[SEG_CS].base = base;
		c->seg[SEG_CS].limit = rows[i].limit;
		cpu_update_mode(c);
		c->rip = rows[i].at;
		faulted = machine_run(v) == EXC_GP;
		rip = faulted ? machine_frame(v, 1) : c->rip - 1;
		if (faulted != rows[i].faults || rip != rows[i].rip)
			fail_msg("%s: %s at %#llx", rows[i].name, faulted ? "#GP" : "HLT",
				 (unsigned long long)rip);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sti_shadow),
		cmocka_unit_test(test_cli_sti_privilege),
		cmocka_unit_test(test_popf_privilege),
		cmocka_unit_test(test_single_step),
		cmocka_unit_test(test_single_step_then_fault),
		cmocka_unit_test(test_single_step_rep),
		cmocka_unit_test(test_instruction_breakpoint),
		cmocka_unit_test(test_data_breakpoint),
		cmocka_unit_test(test_client_debugger),
		cmocka_unit_test(test_exit_attention),
		cmocka_unit_test(test_mmio_again),
		cmocka_unit_test(test_io_permission),
		cmocka_unit_test(test_privileged_at_3),
		cmocka_unit_test(test_segment_limits),
		cmocka_unit_test(test_real_mode),
		cmocka_unit_test(test_beyond_64k),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
