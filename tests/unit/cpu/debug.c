/* SPDX-License-Identifier: MIT */
/* Debug registers and traps: access rules, DR6, instruction, data and I/O
 * breakpoints, single-step and its branch form, shadows, the client's registers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/debug.h"
#include "cpu/msr.h"
#include "unit/cpu/sysmachine.h"

enum { EXEC, WRITE, IO, ACCESS };
enum { LEN1, LEN2, LEN8, LEN4 };

static u64 bp(unsigned n, unsigned kind, unsigned len)
{
	return DR7_FIXED_1 | 2ull << 2 * n | (u64)kind << (16 + 4 * n) | (u64)len << (18 + 4 * n);
}

static void set_bp(unsigned n, u64 at, unsigned kind, unsigned len)
{
	c->dr[n] = at;
	c->dr7 = bp(n, kind, len);
	debug_update(c);
}

static int mov_dr(unsigned n, u64 value, bool to)
{
	const u8 code[] = { 0x0f, to ? 0x23 : 0x21, (u8)(0xc0 | n << 3) };

	c->gpr[R_RAX] = value;
	machine_code(&m, M_CODE, code, 3);
	return machine_step(v);
}

/* --- registers ----------------------------------------------------------------------- */

static void values(void **state)
{
	static const struct {
		const char *name;
		unsigned n;
		u64 write, read;
		bool ok;
	} rows[] = {
		{ "DR0", 0, ~0ull, ~0ull, true },
		{ "DR3", 3, 0x123456789abcdef0, 0x123456789abcdef0, true },
		{ "DR6: fixed bits", 6, 0, 0xffff0ff0, true },
		{ "DR6: B0-B3, BD, BS, BT", 6, 0xffffffff, 0xffffefff, true },
		{ "DR6: bit 32", 6, BIT64(32), 0xffff0ff0, false },
		{ "DR7: fixed bits", 7, 0, 0x400, true },
		{ "DR7: what can be set", 7, 0xffffdfff, 0xffff0fff & ~0x800u, true },
		{ "DR7: bit 32", 7, BIT64(32), 0x400, false },
		{ "DR4 is DR6", 4, 0, 0xffff0ff0, true },
		{ "DR5 is DR7", 5, 0x55, 0x455, true },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		u64 want = rows[i].read;

		check_fault(rows[i].name, mov_dr(rows[i].n, rows[i].write, true),
			    rows[i].ok ? M_EVENT : EXC_GP, 0);
		/* Bit 11 belongs to RTM, which is let through or not. */
		c->rip = M_CODE;
		machine_privilege(c, 0);
		c->dr7 &= ~(u64)0xff;
		debug_update(c);
		if (rows[i].n == 5 || rows[i].n == 7)
			want &= ~0xffull;
		assert_int_equal(mov_dr(rows[i].n, 0, false), M_EVENT);
		if ((c->gpr[R_RAX] & ~(rows[i].n == 7 ? 0x800ull : 0)) != want)
			fail_msg("%s: reads %#llx", rows[i].name,
				 (unsigned long long)c->gpr[R_RAX]);
	}
}

static void access_rules(void **state)
{
	(void)state;
	again();
	machine_privilege(c, 3);
	check_fault("privilege 3", mov_dr(0, 0, true), EXC_GP, 0);
	again();
	machine_privilege(c, 3);
	check_fault("privilege 3, read", mov_dr(7, 0, false), EXC_GP, 0);
	for (unsigned n = 4; n < 6; n++) {
		again();
		mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_DE);
		if (mov_dr(n, 0, true) != EXC_UD)
			fail_msg("DR%u with CR4.DE: no #UD", n);
	}
	/* MOV takes no memory operand: ModRM's mod is ignored. */
	again();
	c->gpr[R_RAX] = 0x55;
	assert_int_equal(STEP(0x0f, 0x23, 0x00), M_EVENT);
	assert_int_equal(c->dr[0], 0x55);
	again();
	assert_int_equal(STEP(0x44, 0x0f, 0x23, 0xc0), EXC_UD); /* DR8 */
}

/* GD: #DB before the access, as a fault; the handler may access again. */
static void general_detect(void **state)
{
	(void)state;
	again();
	c->dr7 |= DR7_GD;
	assert_int_equal(mov_dr(0, 0x1234, true), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE);
	assert_int_equal(machine_frame(v, 2), RF_ONE | RF_RF);
	assert_int_equal(c->dr6, DR6_FIXED_1 | DR6_BD);
	assert_false(c->dr7 & DR7_GD);
	assert_int_equal(c->dr[0], 0);
}

/* --- DR6 --------------------------------------------------------------------------------- */

/* B0-B3 are replaced, BS and BD stay until software clears them; DEBUGCTL's LBR and
 * BTF are cleared. */
static void dr6_accumulates(void **state)
{
	(void)state;
	again();
	c->dr6 = DR6_FIXED_1 | DR6_BD | 8;
	c->msr.debugctl = DEBUGCTL_LBR | DEBUGCTL_BTF;
	set_bp(1, M_CODE, EXEC, LEN1);
	machine_code(&m, M_CODE, "\x90", 1);
	assert_int_equal(machine_step(v), EXC_DB);
	assert_int_equal(c->dr6, DR6_FIXED_1 | DR6_BD | 2);
	assert_int_equal(c->msr.debugctl, 0);
}

/* --- instruction breakpoints ---------------------------------------------------------------- */

static void instruction_breakpoint_is_a_fault(void **state)
{
	(void)state;
	again();
	set_bp(2, M_CODE, EXEC, LEN1);
	assert_int_equal(STEP(0x48, 0xff, 0xc0), EXC_DB);
	assert_int_equal(c->gpr[R_RAX], 0);
	assert_int_equal(machine_frame(v, 0), M_CODE);
	assert_int_equal(machine_frame(v, 2), RF_ONE);
	assert_int_equal(c->dr6, DR6_FIXED_1 | 4);
	/* Return without RF: it hits again; with RF it does not. */
	machine_code(&m, c->rip, "\x48\xcf", 2);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(machine_step(v), EXC_DB);
	m_put64(&m, c->gpr[R_RSP] + 16, RF_ONE | RF_RF);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_true(c->rflags & RF_RF);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->gpr[R_RAX], 1);
	assert_false(c->rflags & RF_RF);
}

/* The first byte counts, not the others; disabled ones do not. */
static void instruction_breakpoint_address(void **state)
{
	(void)state;
	again();
	set_bp(0, M_CODE + 1, EXEC, LEN1);
	assert_int_equal(STEP(0x48, 0xff, 0xc0), M_EVENT);
	again();
	set_bp(0, M_CODE, EXEC, LEN1);
	c->dr7 &= ~0xffull;
	assert_int_equal(STEP(0x48, 0xff, 0xc0), M_EVENT);
	/* By the linear address: CS's base counts. */
	again();
	legacy_mode(0);
	c->seg[SEG_CS].base = 0x1000;
	c->rip = M_CODE - 0x1000;
	set_bp(0, M_CODE, EXEC, LEN1);
	assert_int_equal(STEP(0x90), EXC_DB);
	/* In the second page of a run of code. */
	again();
	memset(m.ram + M_CODE, 0x90, 0x1100);
	mem_epoch_bump(m.mem);
	c->rip = M_CODE + 0xff0;
	set_bp(3, M_CODE + 0x1004, EXEC, LEN1);
	assert_int_equal(machine_run(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 0x1004);
}

/* In the shadow of MOV SS: Intel's does not hit, AMD's does. */
static void instruction_breakpoint_after_mov_ss(void **state)
{
	(void)state;
	for (int amd = 0; amd < 2; amd++) {
		again();
		c->vendor = amd ? VENDOR_AMD : VENDOR_INTEL;
		set_bp(0, M_CODE + 2, EXEC, LEN1);
		c->gpr[R_RAX] = M_DS0;
		machine_code(&m, M_CODE, "\x8e\xd0\x90\x90", 4);
		assert_int_equal(machine_step(v), M_EVENT);
		assert_int_equal(machine_step(v), amd ? EXC_DB : M_EVENT);
		if (!amd)
			assert_int_equal(c->rip, M_CODE + 3);
	}
}

/* --- data breakpoints --------------------------------------------------------------------------- */

static void data_breakpoint_ranges(void **state)
{
	static const struct {
		const char *name;
		u64 at;
		u8 kind, len;
		u64 access;
		bool read, hit;
	} rows[] = {
		{ "write, exact", M_DATA, WRITE, LEN4, M_DATA, false, true },
		{ "read of a write breakpoint", M_DATA, WRITE, LEN4, M_DATA, true, false },
		{ "read", M_DATA, ACCESS, LEN4, M_DATA, true, true },
		{ "access breakpoint, write", M_DATA, ACCESS, LEN4, M_DATA, false, true },
		{ "last byte", M_DATA, WRITE, LEN4, M_DATA + 3, false, true },
		{ "one after", M_DATA, WRITE, LEN4, M_DATA + 4, false, false },
		{ "overlaps from below", M_DATA, WRITE, LEN1, M_DATA - 3, false, true },
		{ "ends just below", M_DATA, WRITE, LEN1, M_DATA - 4, false, false },
		{ "address is aligned down", M_DATA + 3, WRITE, LEN4, M_DATA, false, true },
		{ "8 bytes", M_DATA, WRITE, LEN8, M_DATA + 7, false, true },
		{ "over a page's end", M_DATA + 0x1000, WRITE, LEN1, M_DATA + 0xffd, false, true },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		set_bp(1, rows[i].at, rows[i].kind, rows[i].len);
		c->gpr[R_RBX] = rows[i].access;
		const u8 code[] = { rows[i].read ? 0x8b : 0x89, 0x0b }; /* 4 bytes */

		machine_code(&m, M_CODE, code, 2);
		int got = machine_step(v);

		if (got != (rows[i].hit ? EXC_DB : M_EVENT))
			fail_msg("%s: %d", rows[i].name, got);
		if (!rows[i].hit)
			continue;
		/* A trap: after the instruction. */
		assert_int_equal(machine_frame(v, 0), M_CODE + 2);
		assert_int_equal(machine_frame(v, 2), RF_ONE);
		assert_int_equal(c->dr6, DR6_FIXED_1 | 2);
	}
}

/* Many kinds of instruction touch memory; all are seen. */
static void data_breakpoint_instructions(void **state)
{
	static const struct {
		const char *name;
		u8 code[6];
		u8 len;
	} rows[] = {
		{ "ADD to memory", { 0x01, 0x0b }, 2 },
		{ "LOCK XADD", { 0xf0, 0x0f, 0xc1, 0x0b }, 4 },
		{ "XCHG", { 0x87, 0x0b }, 2 },
		{ "CMPXCHG that fails", { 0x0f, 0xb1, 0x0b }, 3 },
		{ "STOSD", { 0xab }, 1 },
		{ "MOVSD", { 0xa5 }, 1 },
		{ "PUSH", { 0x51 }, 1 },
		{ "CALL", { 0xe8, 0, 0, 0, 0 }, 5 },
		{ "MOVUPS", { 0x0f, 0x11, 0x03 }, 3 },
		{ "SGDT", { 0x0f, 0x01, 0x03 }, 3 },
		{ "FNSTCW", { 0xd9, 0x3b }, 2 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		set_bp(0, M_DATA, WRITE, LEN1);
		c->gpr[R_RBX] = c->gpr[R_RDI] = M_DATA;
		c->gpr[R_RSI] = M_DATA + 0x800;
		c->gpr[R_RSP] = rows[i].code[0] == 0x51 || rows[i].code[0] == 0xe8 ? M_DATA + 8 :
										     M_STACK;
		m_put64(&m, M_DATA, 0x1234);
		machine_code(&m, M_CODE, rows[i].code, 6);
		if (machine_step(v) != EXC_DB || !(c->dr6 & 1) ||
		    machine_frame(v, 0) != M_CODE + (u64)rows[i].len)
			fail_msg("%s: not seen", rows[i].name);
	}
}

/* After the breakpoint is gone the page is as fast and silent as before. */
static void data_breakpoint_removed(void **state)
{
	(void)state;
	again();
	set_bp(0, M_DATA, WRITE, LEN1);
	c->dr7 = DR7_FIXED_1;
	debug_update(c);
	c->gpr[R_RBX] = M_DATA;
	assert_int_equal(STEP(0x88, 0x03), M_EVENT);
	assert_int_equal(c->mmu.watch_hits, 0);
}

/* Both a data breakpoint and single-step: one #DB reports both. */
static void data_breakpoint_and_single_step(void **state)
{
	(void)state;
	again();
	set_bp(0, M_DATA, WRITE, LEN1);
	c->gpr[R_RBX] = M_DATA;
	c->rflags |= RF_TF;
	assert_int_equal(STEP(0x88, 0x03), EXC_DB);
	assert_int_equal(c->dr6, DR6_FIXED_1 | DR6_BS | 1);
}

/* A data breakpoint on MOV SS waits for the instruction after it. */
static void data_breakpoint_in_the_shadow(void **state)
{
	(void)state;
	again();
	set_bp(0, M_DATA, ACCESS, LEN2);
	put16(M_DATA, M_DS0);
	c->gpr[R_RBX] = M_DATA;
	machine_code(&m, M_CODE, "\x8e\x13\x90\x90", 4);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->rip, M_CODE + 2);
	assert_int_equal(machine_step(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 3);
	assert_int_equal(c->dr6 & DR6_B, 1);
}

/* MOV SS with a data breakpoint, then ICEBP: one #DB reports both; then INT n: the
 * breakpoint's #DB comes at the handler's first instruction. */
static void data_breakpoint_in_the_shadow_and_int(void **state)
{
	(void)state;
	again();
	set_bp(0, M_DATA, ACCESS, LEN2);
	put16(M_DATA, M_DS0);
	c->gpr[R_RBX] = M_DATA;
	machine_code(&m, M_CODE, "\x8e\x13\xf1", 3);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(machine_step(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 3);
	assert_int_equal(c->dr6, DR6_FIXED_1 | 1);
	assert_int_equal(c->pending_dbg, 0);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 40);
	again();
	set_bp(0, M_DATA, ACCESS, LEN2);
	put16(M_DATA, M_DS0);
	c->gpr[R_RBX] = M_DATA;
	machine_code(&m, M_CODE, "\x8e\x13\xcd\x40", 4);
	assert_int_equal(machine_run(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_STUBS + 0x40 * 16);
	assert_int_equal(c->dr6, DR6_FIXED_1 | 1);
}

/* --- I/O breakpoints -------------------------------------------------------------------------------- */

static void io_breakpoints(void **state)
{
	static const struct {
		const char *name;
		u16 port;
		u8 len;
		bool de, hit;
	} rows[] = {
		{ "exact", 0x60, LEN1, true, true },
		{ "without CR4.DE", 0x60, LEN1, false, false },
		{ "second byte of a word", 0x61, LEN1, true, true },
		{ "two further", 0x62, LEN1, true, false },
		{ "range of four", 0x63, LEN4, true, true },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		if (rows[i].de)
			mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_DE);
		set_bp(0, rows[i].port, IO, rows[i].len);
		c->gpr[R_RDX] = 0x60;
		int got = STEP(0x66, 0xef); /* out dx, ax */

		if (got != (rows[i].hit ? EXC_DB : M_EVENT))
			fail_msg("%s: %d", rows[i].name, got);
		if (rows[i].hit)
			assert_int_equal(machine_frame(v, 0), M_CODE + 2);
	}
}

/* --- single-step --------------------------------------------------------------------------------------- */

/* BTF: taken branches alone trap. */
static void branch_step(void **state)
{
	(void)state;
	again();
	c->msr.debugctl = DEBUGCTL_BTF;
	c->rflags |= RF_TF;
	c->aflags = RF_ZF;
	/* nop; jne +1 (not taken); nop; je +1 (taken) */
	machine_code(&m, M_CODE, "\x90\x75\x01\x90\x74\x01\x90\x90", 8);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->rip, M_CODE + 4);
	assert_int_equal(machine_step(v), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 7);
	assert_int_equal(c->dr6 & DR6_BS, DR6_BS);
	assert_int_equal(c->msr.debugctl, 0);
}

/* What clears TF itself is not trapped; SYSCALL by SFMASK; INT n by the gate. */
static void single_step_into_handlers(void **state)
{
	(void)state;
	again();
	c->rflags |= RF_TF;
	assert_int_equal(STEP(0xcd, 0x40), 0x40);
	assert_int_equal(machine_frame(v, 2), RF_ONE | RF_TF);
	assert_int_equal(c->pending_dbg, 0);
	again();
	c->rflags |= RF_TF;
	c->msr.star = (u64)M_CS0 << 32;
	c->msr.lstar = M_DATA;
	c->msr.sfmask = RF_TF;
	assert_int_equal(STEP(0x0f, 0x05), M_EVENT);
	assert_int_equal(c->rip, M_DATA);
	again();
	c->rflags |= RF_TF;
	c->msr.star = (u64)M_CS0 << 32;
	c->msr.lstar = M_DATA;
	c->msr.sfmask = 0;
	assert_int_equal(STEP(0x0f, 0x05), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_DATA);
}

/* A faulting instruction under TF: its fault alone; TF is in the frame. */
static void single_step_of_a_fault(void **state)
{
	(void)state;
	again();
	c->rflags |= RF_TF;
	assert_int_equal(STEP(0x0f, 0x0b), EXC_UD);
	assert_int_equal(machine_frame(v, 2), RF_ONE | RF_TF | RF_RF);
	assert_int_equal(c->pending_dbg, 0);
	assert_int_equal(c->dr6, DR6_FIXED_1);
}

/* HLT under TF traps and does not sleep. */
static void single_step_of_hlt(void **state)
{
	(void)state;
	again();
	c->rflags |= RF_TF;
	assert_int_equal(STEP(0xf4), EXC_DB);
	assert_int_equal(machine_frame(v, 0), M_CODE + 1);
	assert_false(c->halted);
}

/* --- the client's debugger -------------------------------------------------------------------------------- */

/* While the client owns the registers the guest reads and writes its own, which
 * do not act; hits go to the client and leave DR6 alone. */
static void client_owns_breakpoints(void **state)
{
	(void)state;
	again();
	c->gdb.enabled = c->gdb.hw_bp = true;
	c->gdb.dr[0] = M_CODE + 1;
	c->gdb.dr7 = bp(0, EXEC, LEN1);
	c->dr[0] = M_CODE;
	c->dr7 = bp(0, EXEC, LEN1);
	debug_update(c);
	machine_code(&m, M_CODE, "\x90\x90\xf4", 3);
	assert_int_equal(machine_run(v), M_DEBUG);
	assert_int_equal(c->debug_exit.vector, EXC_DB);
	assert_int_equal(c->debug_exit.pc, M_CODE + 1);
	assert_int_equal(c->debug_exit.dr6, DR6_FIXED_1 | 1);
	assert_int_equal(c->rip, M_CODE + 1);
	assert_int_equal(c->dr6, DR6_FIXED_1);
	c->gdb.dr[0] = 0x1000;
	debug_update(c);
	c->rip = M_CODE;
	assert_int_equal(mov_dr(0, 0x4444, true), M_EVENT);
	assert_int_equal(c->dr[0], 0x4444);
	assert_int_equal(c->gdb.dr[0], 0x1000);
	/* Data breakpoints likewise. */
	again();
	c->gdb.enabled = c->gdb.hw_bp = true;
	c->gdb.dr[1] = M_DATA;
	c->gdb.dr7 = bp(1, WRITE, LEN1);
	debug_update(c);
	c->gpr[R_RBX] = M_DATA;
	machine_code(&m, M_CODE, "\x88\x03\xf4", 3);
	assert_int_equal(machine_run(v), M_DEBUG);
	assert_int_equal(c->debug_exit.dr6, DR6_FIXED_1 | 2);
	assert_int_equal(c->rip, M_CODE + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(values),
		CASE(access_rules),
		CASE(general_detect),
		CASE(dr6_accumulates),
		CASE(instruction_breakpoint_is_a_fault),
		CASE(instruction_breakpoint_address),
		CASE(instruction_breakpoint_after_mov_ss),
		CASE(data_breakpoint_ranges),
		CASE(data_breakpoint_instructions),
		CASE(data_breakpoint_removed),
		CASE(data_breakpoint_and_single_step),
		CASE(data_breakpoint_in_the_shadow),
		CASE(data_breakpoint_in_the_shadow_and_int),
		CASE(io_breakpoints),
		CASE(branch_step),
		CASE(single_step_into_handlers),
		CASE(single_step_of_a_fault),
		CASE(single_step_of_hlt),
		CASE(client_owns_breakpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
