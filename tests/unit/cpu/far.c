/* SPDX-License-Identifier: MIT */
/*
 * Far JMP, CALL, RET, IRET and call gates: every check with its error code,
 * frames to the byte, and nothing changed by what faulted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cpu/sysmachine.h"

#define FRAME	 (M_STACK - 0x200)
#define TARGET	 M_DATA
#define BAD_PAGE 0x70000

/* Nothing of what a far transfer changes has changed. */
static void unchanged(const char *name, u64 rip, u64 rsp, u16 cs, u16 ss)
{
	if (machine_frame(v, 1) != rip || machine_frame(v, 4) != rsp || machine_frame(v, 2) != cs ||
	    machine_frame(v, 5) != ss)
		fail_msg("%s: rip %#llx, rsp %#llx, cs %#llx, ss %#llx were pushed", name,
			 (unsigned long long)machine_frame(v, 1),
			 (unsigned long long)machine_frame(v, 4),
			 (unsigned long long)machine_frame(v, 2),
			 (unsigned long long)machine_frame(v, 5));
}

static void put_frame(gva_t at, const u64 *frame, unsigned n)
{
	memcpy(m.ram + at, frame, n * 8);
}

/* --- IRET from 64-bit code --------------------------------------------------------- */

static void iretq(u64 rip, u64 cs, u64 flags, u64 rsp, u64 ss)
{
	const u64 frame[5] = { rip, cs, flags, rsp, ss };

	put_frame(FRAME, frame, 5);
	c->gpr[R_RSP] = FRAME;
	machine_code(&m, M_CODE, "\x48\xcf", 2);
}

static void iret_checks(void **state)
{
	static const struct {
		const char *name;
		u64 rip;
		u16 cs;
		u16 ss;
		u64 desc; /* at S_FREE */
		int vector;
		u32 error;
	} rows[] = {
		{ "CS null", TARGET, 0, M_DS0, 0, EXC_GP, 0 },
		{ "CS null with RPL", TARGET, 3, M_DS3, 0, EXC_GP, 0 },
		{ "CS beyond the GDT", TARGET, 0x1008, M_DS0, 0, EXC_GP, 0x1008 },
		{ "CS is data", TARGET, M_DS0, M_DS0, 0, EXC_GP, M_DS0 },
		{ "CS: DPL is not RPL", TARGET, M_CS0 | 3, M_DS3, 0, EXC_GP, M_CS0 },
		{ "CS not present", TARGET, S_FREE, M_DS0, 0x00af1b000000ffff, EXC_NP, S_FREE },
		{ "CS with L and D", TARGET, S_FREE, M_DS0, 0x00ef9b000000ffff, EXC_GP, S_FREE },
		{ "CS is a TSS", TARGET, M_TR, M_DS0, 0, EXC_GP, M_TR },
		{ "RIP not canonical", 1ull << 47, M_CS0, M_DS0, 0, EXC_GP, 0 },
		{ "RIP not canonical, to privilege 3", 1ull << 47, M_CS3, M_DS3, 0, EXC_GP, 0 },
		{ "RIP beyond a 32-bit segment", 1ull << 32, M_CS32, M_DS0, 0, EXC_GP, 0 },
		{ "SS null to privilege 3", TARGET, M_CS3, 0, 0, EXC_GP, 0 },
		{ "SS null to 32-bit code", TARGET, M_CS32, 0, 0, EXC_GP, 0 },
		{ "SS null, RPL is not that of CS", TARGET, M_CS0, 3, 0, EXC_GP, 0 },
		{ "SS: RPL", TARGET, M_CS0, M_DS0 | 1, 0, EXC_GP, M_DS0 },
		{ "SS: DPL", TARGET, M_CS3, M_DS0 | 3, 0, EXC_GP, M_DS0 },
		{ "SS is code", TARGET, M_CS0, M_CS0, 0, EXC_GP, M_CS0 },
		{ "SS read-only", TARGET, M_CS0, S_FREE, 0x00cf91000000ffff, EXC_GP, S_FREE },
		{ "SS not present", TARGET, M_CS0, S_FREE, 0x00cf13000000ffff, EXC_SS, S_FREE },
		{ "SS beyond the GDT", TARGET, M_CS0, 0x1008, 0, EXC_GP, 0x1008 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		if (rows[i].desc)
			sys_desc(S_FREE, rows[i].desc);
		iretq(rows[i].rip, rows[i].cs, RF_ONE | RF_IF, M_STACK, rows[i].ss);
		check_fault(rows[i].name, machine_run(v), rows[i].vector, rows[i].error);
		unchanged(rows[i].name, M_CODE, FRAME, M_CS0, M_DS0);
		assert_false(c->rflags & RF_IF);
	}
}

static void iret_may_not_raise_privilege(void **state)
{
	static const u64 frame[5] = { TARGET, M_CS0, RF_ONE, M_STACK, M_DS0 };

	(void)state;
	machine_privilege(c, 3);
	put_frame(M_USTACK - 0x100, frame, 5);
	c->gpr[R_RSP] = M_USTACK - 0x100;
	check_fault("IRET to privilege 0", RUN(0x48, 0xcf), EXC_GP, M_CS0);
	unchanged("IRET to privilege 0", M_CODE, M_USTACK - 0x100, M_CS3, M_DS3);
}

static void iret_with_nt(void **state)
{
	(void)state;
	iretq(TARGET, M_CS0, RF_ONE, M_STACK, M_DS0);
	c->rflags |= RF_NT;
	check_fault("NT in long mode", machine_run(v), EXC_GP, 0);
	/* In compatibility mode too. */
	machine_reset(v);
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	cpu_update_mode(c);
	c->rflags |= RF_NT;
	check_fault("NT in compatibility mode", RUN(0xcf), EXC_GP, 0);
}

/* Legal: a null SS below privilege 3, with 64-bit code. */
static void iret_null_ss(void **state)
{
	(void)state;
	iretq(TARGET, M_CS0, RF_ONE, 0x1234560, 0);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->rip, TARGET);
	assert_int_equal(c->seg[SEG_SS].sel, 0);
	assert_true(c->seg[SEG_SS].attr & SEG_UNUSABLE);
	/* RSP is not looked at until it is used. */
	again();
	iretq(TARGET, M_CS0, RF_ONE, 1ull << 60, M_DS0);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->gpr[R_RSP], 1ull << 60);
}

static void iret_to_compatibility_mode(void **state)
{
	(void)state;
	c->gdtr.limit = S_GDT_LIMIT;
	sys_desc(S_FREE, sys_flat(0xc0fa));
	iretq(TARGET, S_FREE | 3, RF_ONE | RF_IF, 0xdeadbeef00001000, M_DS3);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->code_bits, 32);
	assert_int_equal(c->mmu.cpl, 3);
	assert_int_equal(c->rip, TARGET);
	assert_int_equal(c->gpr[R_RSP], 0x1000);
	assert_int_equal(c->seg[SEG_CS].sel, S_FREE | 3);
	/* The descriptor has been marked as accessed. */
	assert_int_equal(m_get64(&m, M_GDT + S_FREE), sys_flat(0xc0fb));
	/* A 16-bit stack segment takes the low half alone. */
	again();
	sys_desc(S_FREE, sys_flat(0xc0fb));
	sys_desc(S_FREE + 8, sys_seg(0, 0xffff, 0x00f3));
	c->gpr[R_RSP] = FRAME;
	iretq(TARGET, S_FREE | 3, RF_ONE, 0x12345678, (S_FREE + 8) | 3);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->gpr[R_RSP], (FRAME & ~0xffffull) | 0x5678);
}

/* Data segments that the new privilege may not use become null; FS and GS keep
 * their bases. */
static void iret_unloads_data_segments(void **state)
{
	(void)state;
	iretq(TARGET, M_CS3, RF_ONE, M_USTACK, M_DS3);
	m_seg(c, SEG_DS, M_DS3, 0xc0f3);
	c->seg[SEG_GS].base = 0x1234567;
	c->gdtr.limit = S_GDT_LIMIT;
	m_seg(c, SEG_FS, S_FREE, 0xc09f); /* conforming code may stay */
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->seg[SEG_DS].sel, M_DS3);
	assert_int_equal(c->seg[SEG_ES].sel, 0);
	assert_true(c->seg[SEG_ES].attr & SEG_UNUSABLE);
	assert_int_equal(c->seg[SEG_GS].sel, 0);
	assert_int_equal(c->seg[SEG_GS].base, 0x1234567);
	assert_int_equal(c->seg[SEG_FS].sel, S_FREE);
}

/* Which flags IRET changes: IF up to IOPL, IOPL and VIF, VIP at privilege 0. */
static void iret_flags_by_privilege(void **state)
{
	static const struct {
		unsigned cpl;
		u64 before, popped, want;
	} rows[] = {
		{ 0, 0, ~0ull, RF_ARITH | RF_TF | RF_IF | RF_DF | RF_IOPL | RF_NT | RF_RF | RF_AC |
				       RF_VIF | RF_VIP | RF_ID },
		{ 3, 0, ~0ull, RF_ARITH | RF_TF | RF_DF | RF_NT | RF_RF | RF_AC | RF_ID },
		{ 3, RF_IOPL, ~0ull, RF_ARITH | RF_TF | RF_IF | RF_DF | RF_IOPL | RF_NT | RF_RF |
					     RF_AC | RF_ID },
		{ 3, RF_IF | RF_VIF, 0, RF_IF | RF_VIF },
		{ 3, RF_IOPL | RF_IF, 0, RF_IOPL },
		{ 0, RF_IF | RF_IOPL | RF_AC, 0, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		u64 frame[5] = { TARGET, rows[i].cpl ? M_CS3 : M_CS0, rows[i].popped, M_STACK,
				 rows[i].cpl ? M_DS3 : M_DS0 };

		again();
		machine_privilege(c, rows[i].cpl);
		put_frame(FRAME, frame, 5);
		c->gpr[R_RSP] = FRAME;
		machine_code(&m, M_CODE, "\x48\xcf", 2);
		cpu_put_rflags(c, RF_ONE | rows[i].before);
		assert_int_equal(machine_step(v), M_EVENT);
		if (cpu_rflags(c) != (rows[i].want | RF_ONE))
			fail_msg("case %u: %#llx, want %#llx", i,
				 (unsigned long long)cpu_rflags(c),
				 (unsigned long long)(rows[i].want | RF_ONE));
		assert_int_equal(c->mmu.ac, !!(rows[i].want & RF_AC));
	}
}

/* IRETW and IRETD in 64-bit code pop five words of their size. */
static void iret_sizes(void **state)
{
	static const u16 w[5] = { 0x1234, M_CS0, RF_ONE | RF_CF, 0x8000, M_DS0 };
	static const u32 d[5] = { TARGET, M_CS0, RF_ONE | RF_CF, 0x18000, M_DS0 };

	(void)state;
	c->gpr[R_RSP] = FRAME;
	c->rflags |= RF_AC | RF_RF;
	memcpy(m.ram + FRAME, w, sizeof(w));
	assert_int_equal(STEP(0x66, 0xcf), M_EVENT);
	assert_int_equal(c->rip, 0x1234);
	assert_int_equal(c->gpr[R_RSP], 0x8000);
	/* 16 bits: AC stays, RF ends with the instruction. */
	assert_int_equal(cpu_rflags(c), RF_ONE | RF_CF | RF_AC);
	again();
	c->gpr[R_RSP] = FRAME;
	memcpy(m.ram + FRAME, d, sizeof(d));
	assert_int_equal(STEP(0xcf), M_EVENT);
	assert_int_equal(c->rip, TARGET);
	assert_int_equal(c->gpr[R_RSP], 0x18000);
}

/* A fault inside IRET: Intel's has unblocked NMIs, AMD's has not. */
static void faulting_iret_and_nmi(void **state)
{
	(void)state;
	for (int amd = 0; amd < 2; amd++) {
		again();
		c->vendor = amd ? VENDOR_AMD : VENDOR_INTEL;
		iretq(1ull << 47, M_CS0, RF_ONE, M_STACK, M_DS0);
		c->nmi_blocked = true;
		v->event_checks = 0;
		check_fault("IRET", machine_run(v), EXC_GP, 0);
		assert_int_equal(c->nmi_blocked, amd);
		assert_true(amd || v->event_checks);
	}
}

/* The frame lies on pages that are not there: a read, U=1 at privilege 3. */
static void iret_and_retf_from_unmapped_stacks(void **state)
{
	static const u8 codes[][2] = { { 0x48, 0xcf }, { 0x48, 0xcb } };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		unsigned cpl = i & 1 ? 3 : 0;

		again();
		machine_privilege(c, cpl);
		sys_ist(1, 0x28000);
		sys_gate64(EXC_PF, M_CS0, 0x8e01);
		unmap(BAD_PAGE);
		c->gpr[R_RSP] = BAD_PAGE + 0x100;
		machine_code(&m, M_CODE, codes[i / 2], 2);
		check_fault(i / 2 ? "RETF" : "IRET", machine_run(v), EXC_PF, cpl ? PF_U : 0);
		unchanged("unmapped stack", M_CODE, BAD_PAGE + 0x100, cpl ? M_CS3 : M_CS0,
			  cpl ? M_DS3 : M_DS0);
		assert_int_equal(c->cr2 & PAGE_MASK, BAD_PAGE);
	}
	/* A stack pointer that is not canonical: #SS. */
	for (unsigned i = 0; i < 2; i++) {
		again();
		sys_ist(1, 0x28000);
		sys_gate64(EXC_SS, M_CS0, 0x8e01);
		c->gpr[R_RSP] = 0x8000000000000100ull;
		machine_code(&m, M_CODE, codes[i], 2);
		check_fault("not canonical", machine_run(v), EXC_SS, 0);
	}
}

/* --- far JMP and CALL ------------------------------------------------------------------ */

/* JMP or CALL m16:64 (Intel) through M_DATA + 0x100. */
static int far_to(bool call, u16 sel, u64 off)
{
	static const u8 jmp[] = { 0x48, 0xff, 0x2b }, calls[] = { 0x48, 0xff, 0x1b };

	c->vendor = VENDOR_INTEL;
	c->gpr[R_RBX] = M_DATA + 0x100;
	m_put64(&m, M_DATA + 0x100, off);
	m_put64(&m, M_DATA + 0x108, sel);
	machine_code(&m, M_CODE, call ? calls : jmp, 3);
	return machine_step(v);
}

static void far_target_checks(void **state)
{
	static const struct {
		const char *name;
		u16 sel;
		u64 off, desc;
		int vector;
		u32 error;
	} rows[] = {
		{ "null", 0, TARGET, 0, EXC_GP, 0 },
		{ "null with RPL", 2, TARGET, 0, EXC_GP, 0 },
		{ "beyond the GDT", 0x1008, TARGET, 0, EXC_GP, 0x1008 },
		{ "data", M_DS0, TARGET, 0, EXC_GP, M_DS0 },
		{ "RPL above CPL", M_CS0 | 3, TARGET, 0, EXC_GP, M_CS0 },
		{ "less privilege", M_CS3, TARGET, 0, EXC_GP, M_CS3 & ~3u },
		{ "conforming of less privilege", S_FREE, TARGET, 0x00afff000000ffff, EXC_GP,
		  S_FREE },
		{ "not present", S_FREE, TARGET, 0x00af1b000000ffff, EXC_NP, S_FREE },
		{ "L and D", S_FREE, TARGET, 0x00ef9b000000ffff, EXC_GP, S_FREE },
		{ "not canonical", M_CS0, 1ull << 47, 0, EXC_GP, 0 },
		{ "beyond a 32-bit segment", M_CS32, 1ull << 32, 0, EXC_GP, 0 },
		{ "TSS in long mode", S_FREE, TARGET, 0x0000890000000067, EXC_GP, S_FREE },
		{ "task gate in long mode", S_FREE, TARGET, 0x0000850000000000, EXC_GP, S_FREE },
		{ "16-bit call gate in long mode", S_FREE, TARGET, 0x0000840000080000, EXC_GP,
		  S_FREE },
		{ "LDT", S_FREE, TARGET, 0x0000820000000067, EXC_GP, S_FREE },
		{ "interrupt gate", S_FREE, TARGET, 0x00008e0000080000, EXC_GP, S_FREE },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows) * 2; i++) {
		unsigned k = i / 2;

		again();
		if (rows[k].desc)
			sys_desc(S_FREE, rows[k].desc);
		check_fault(rows[k].name, far_to(i & 1, rows[k].sel, rows[k].off),
			    rows[k].vector, rows[k].error);
		unchanged(rows[k].name, M_CODE, M_STACK, M_CS0, M_DS0);
	}
}

static void far_jmp_and_call(void **state)
{
	(void)state;
	c->gdtr.limit = S_GDT_LIMIT;
	/* To conforming code: the privilege stays. */
	machine_privilege(c, 3);
	sys_desc(S_FREE, sys_flat(0xa09e));
	assert_int_equal(far_to(false, S_FREE, 0x123456789a), M_EVENT);
	assert_int_equal(c->rip, 0x123456789a);
	assert_int_equal(c->mmu.cpl, 3);
	assert_int_equal(c->seg[SEG_CS].sel, S_FREE | 3);
	assert_int_equal(m_get64(&m, M_GDT + S_FREE) >> 40 & 0xff, 0x9f);
	again();
	assert_int_equal(far_to(true, M_CS32, TARGET), M_EVENT);
	assert_int_equal(c->code_bits, 32);
	assert_int_equal(c->rip, TARGET);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 16);
	assert_int_equal(m_get64(&m, M_STACK - 16), M_CODE + 3);
	assert_int_equal(m_get64(&m, M_STACK - 8), M_CS0);
}

/* Heaven's gate: 32-bit code calls 64-bit code through memory, which returns. */
static void between_modes(void **state)
{
	static const u8 there[] = { 0x48, 0xff, 0xc0, 0xcb }; /* inc rax; retf (32 bits) */

	(void)state;
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	cpu_update_mode(c);
	put32(M_DATA + 0x100, TARGET);
	put16(M_DATA + 0x104, M_CS0);
	c->gpr[R_RSP] = M_DATA + 0x100;
	c->gpr[R_RAX] = 0xffffffff;
	machine_code(&m, TARGET, there, sizeof(there));
	/* call far [esp]; hlt */
	assert_int_equal(RUN(0xff, 0x1c, 0x24, 0xf4), M_HALT);
	assert_int_equal(c->rip, M_CODE + 4);
	assert_int_equal(c->code_bits, 32);
	assert_int_equal(c->gpr[R_RAX], 0x100000000);
	assert_int_equal(c->gpr[R_RSP], M_DATA + 0x100);
}

static void far_call_stack_fault(void **state)
{
	(void)state;
	sys_ist(1, 0x28000);
	sys_gate64(EXC_PF, M_CS0, 0x8e01);
	unmap(BAD_PAGE);
	c->gpr[R_RSP] = BAD_PAGE + 0x1008; /* CS fits, RIP does not */
	check_fault("CALL", far_to(true, M_CS0, TARGET), EXC_PF, PF_W);
	assert_int_equal(c->cr2, BAD_PAGE + 0xff8);
	unchanged("CALL", M_CODE, BAD_PAGE + 0x1008, M_CS0, M_DS0);
}

/* RETF to less privilege, with an immediate: both stacks move by it. */
static void retf_to_user(void **state)
{
	static const u64 frame[] = { TARGET, M_CS3, 0, M_USTACK - 0x80, M_DS3 };

	(void)state;
	put_frame(FRAME, frame, 5);
	c->gpr[R_RSP] = FRAME;
	assert_int_equal(STEP(0x48, 0xca, 8, 0), M_EVENT);
	assert_int_equal(c->rip, TARGET);
	assert_int_equal(c->mmu.cpl, 3);
	assert_int_equal(c->seg[SEG_SS].sel, M_DS3);
	assert_int_equal(c->gpr[R_RSP], M_USTACK - 0x80 + 8);
	assert_int_equal(c->seg[SEG_DS].sel, 0);
}

static void retf_checks(void **state)
{
	static const struct {
		const char *name;
		u64 frame[4];
		u32 error;
	} rows[] = {
		{ "not canonical", { 1ull << 47, M_CS0 }, 0 },
		{ "null CS", { TARGET, 0 }, 0 },
		{ "data", { TARGET, M_DS0 }, M_DS0 },
		{ "SS null to privilege 3", { TARGET, M_CS3, M_USTACK, 0 }, 0 },
		{ "SS of privilege 0", { TARGET, M_CS3, M_USTACK, M_DS0 | 3 }, M_DS0 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		put_frame(FRAME, rows[i].frame, 4);
		c->gpr[R_RSP] = FRAME;
		check_fault(rows[i].name, RUN(0x48, 0xcb), EXC_GP, rows[i].error);
		unchanged(rows[i].name, M_CODE, FRAME, M_CS0, M_DS0);
	}
}

/* --- call gates ------------------------------------------------------------------------------ */

static void put_gate(u64 attr, u16 sel, u64 off, u64 hi)
{
	sys_desc(S_FREE, (off & 0xffff) | (u64)sel << 16 | attr << 40 |
				 (off >> 16 & 0xffff) << 48);
	sys_desc(S_FREE + 8, off >> 32 | hi << 32);
}

/* From privilege 3 to 0: SS null, the old SS:RSP and CS:RIP on RSP0, unaligned. */
static void call_gate_to_privilege_0(void **state)
{
	(void)state;
	again();
	machine_privilege(c, 3);
	put_gate(0xec, M_CS0, 0x1234567890, 0);
	m_put64(&m, M_TSS + 4, M_STACK - 4);
	assert_int_equal(far_to(true, S_FREE | 3, 0xdead), M_EVENT);
	assert_int_equal(c->rip, 0x1234567890);
	assert_int_equal(c->mmu.cpl, 0);
	/* The RPL of the gate's selector counts for nothing: CS's is the CPL. */
	assert_int_equal(c->seg[SEG_CS].sel, M_CS0);
	assert_int_equal(c->seg[SEG_SS].sel, 0);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 4 - 32);
	assert_int_equal(machine_frame(v, 0), M_CODE + 3);
	assert_int_equal(machine_frame(v, 1), M_CS3);
	assert_int_equal(machine_frame(v, 2), M_USTACK);
	assert_int_equal(machine_frame(v, 3), M_DS3);
	/* RETF undoes it. */
	machine_code(&m, TARGET, "\x48\xcb", 2);
	c->rip = TARGET;
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->rip, M_CODE + 3);
	assert_int_equal(c->mmu.cpl, 3);
	assert_int_equal(c->gpr[R_RSP], M_USTACK);
}

static void call_gate_same_privilege(void **state)
{
	(void)state;
	for (int call = 0; call < 2; call++) {
		again();
		put_gate(0x8c, M_CS0, TARGET, 0);
		assert_int_equal(far_to(call, S_FREE, 0xdead), M_EVENT);
		assert_int_equal(c->rip, TARGET);
		assert_int_equal(c->gpr[R_RSP], call ? M_STACK - 16 : M_STACK);
		assert_int_equal(c->seg[SEG_SS].sel, M_DS0);
	}
}

static void call_gate_checks(void **state)
{
	static const struct {
		const char *name;
		u16 sel; /* of the gate */
		u64 attr;
		u16 code;
		u64 off, hi;
		u64 desc; /* at S_FREE + 16 */
		int vector;
		u32 error;
		bool jmp; /* JMP alone */
	} rows[] = {
		{ "gate: DPL below CPL", S_FREE, 0x8c, M_CS0, TARGET, 0, 0, EXC_GP, S_FREE, false },
		{ "gate: not present", S_FREE, 0x6c, M_CS0, TARGET, 0, 0, EXC_NP, S_FREE, false },
		{ "gate: type in the upper half", S_FREE, 0xec, M_CS0, TARGET, 0x0c00, 0, EXC_GP,
		  S_FREE, false },
		{ "gate: upper half beyond the GDT", 0xf8, 0xec, M_CS0, TARGET, 0, 0, EXC_GP, 0xf8,
		  false },
		{ "code: null", S_FREE, 0xec, 0, TARGET, 0, 0, EXC_GP, 0, false },
		{ "code: data", S_FREE, 0xec, M_DS0, TARGET, 0, 0, EXC_GP, M_DS0, false },
		{ "code: 32-bit", S_FREE, 0xec, M_CS32, TARGET, 0, 0, EXC_GP, M_CS32, false },
		{ "code: beyond the GDT", S_FREE, 0xec, 0x1008, TARGET, 0, 0, EXC_GP, 0x1008,
		  false },
		{ "code: not present", S_FREE, 0xec, S_FREE + 16, TARGET, 0, 0x00af1b000000ffff,
		  EXC_NP, S_FREE + 16, false },
		{ "JMP to more privilege", S_FREE, 0xec, M_CS0, TARGET, 0, 0, EXC_GP, M_CS0, true },
		{ "target not canonical", S_FREE, 0xec, M_CS3, 1ull << 47, 0, 0, EXC_GP, 0, false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		machine_privilege(c, 3);
		put_gate(rows[i].attr, rows[i].code, rows[i].off, rows[i].hi);
		if (rows[i].sel == 0xf8)
			sys_desc(0xf8, 0x0000ec0000080000);
		if (rows[i].desc)
			sys_desc(S_FREE + 16, rows[i].desc);
		check_fault(rows[i].name, far_to(!rows[i].jmp, rows[i].sel | 3, 0), rows[i].vector,
			    rows[i].error);
		unchanged(rows[i].name, M_CODE, M_USTACK, M_CS3, M_DS3);
	}
}

static void call_gate_stacks(void **state)
{
	static const struct {
		const char *name;
		u64 rsp0;
		u32 limit;
		int vector;
		u32 error;
	} rows[] = {
		{ "RSP0 not canonical", 1ull << 47, 0x67, EXC_SS, 0 },
		{ "RSP0 unmapped", BAD_PAGE + 0x100, 0x67, EXC_PF, PF_W },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		unmap(BAD_PAGE);
		machine_privilege(c, 3);
		put_gate(0xec, M_CS0, TARGET, 0);
		sys_ist(1, 0x28000);
		sys_gate64(EXC_SS, M_CS0, 0x8e01);
		sys_gate64(EXC_PF, M_CS0, 0x8e01);
		m_put64(&m, M_TSS + 4, rows[i].rsp0);
		check_fault(rows[i].name, far_to(true, S_FREE | 3, 0), rows[i].vector, rows[i].error);
		unchanged(rows[i].name, M_CODE, M_USTACK, M_CS3, M_DS3);
	}
	/* #TS itself then has no stack either, but for an IST that lies below it. */
	again();
	machine_privilege(c, 3);
	put_gate(0xec, M_CS0, TARGET, 0);
	sys_desc(S_FREE + 16, sys_flat(0xa09f));
	sys_gate64(EXC_TS, S_FREE + 16, 0x8e00);
	c->seg[SEG_TR].limit = 10;
	check_fault("RSP0 beyond the TSS", far_to(true, S_FREE | 3, 0), EXC_TS, M_TR);
}

/* 32-bit gates copy parameters from the caller's stack. */
static void legacy_call_gate(void **state)
{
	(void)state;
	again();
	legacy_mode(3);
	sys_desc(S_FREE, (TARGET & 0xffff) | (u64)L_CS0 << 16 | 0xec02ull << 32 |
				 (u64)(TARGET >> 16) << 48);
	c->gpr[R_RSP] = M_USTACK - 8;
	put32(M_USTACK - 8, 0x11111111);
	put32(M_USTACK - 4, 0x22222222);
	/* call S_FREE:0 */
	assert_int_equal(STEP(0x9a, 0, 0, 0, 0, S_FREE | 3, 0), M_EVENT);
	assert_int_equal(c->rip, TARGET);
	assert_int_equal(c->mmu.cpl, 0);
	assert_int_equal(c->seg[SEG_SS].sel, L_DS0);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 24);
	assert_int_equal(get32(M_STACK - 24), M_CODE + 7);
	assert_int_equal(get32(M_STACK - 20), L_CS3);
	assert_int_equal(get32(M_STACK - 16), 0x11111111);
	assert_int_equal(get32(M_STACK - 12), 0x22222222);
	assert_int_equal(get32(M_STACK - 8), M_USTACK - 8);
	assert_int_equal(get32(M_STACK - 4), L_DS3);
	/* ret far 8 */
	machine_code(&m, TARGET, "\xca\x08\x00", 3);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->mmu.cpl, 3);
	assert_int_equal(c->rip, M_CODE + 7);
	assert_int_equal(c->gpr[R_RSP], M_USTACK);
}

static void legacy_16bit_call_gate(void **state)
{
	(void)state;
	again();
	legacy_mode(0);
	sys_desc(S_FREE, 0x1234ull | (u64)L_CS0 << 16 | 0x8400ull << 32 | 0xffffull << 48);
	assert_int_equal(STEP(0x9a, 0, 0, 0, 0, S_FREE, 0), M_EVENT);
	assert_int_equal(c->rip, 0x1234);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 4);
	assert_int_equal(get16(M_STACK - 4), (u16)(M_CODE + 7));
	assert_int_equal(get16(M_STACK - 2), L_CS0);
}

/* --- 32-bit and real mode ------------------------------------------------------------------------ */

static void legacy_iret(void **state)
{
	static const u32 same[] = { TARGET, L_CS0, RF_ONE | RF_IF };
	static const u32 outer[] = { TARGET, L_CS3, RF_ONE | RF_IF | RF_VM, M_USTACK, L_DS3 };

	(void)state;
	legacy_mode(0);
	memcpy(m.ram + FRAME, same, sizeof(same));
	c->gpr[R_RSP] = FRAME;
	assert_int_equal(STEP(0xcf), M_EVENT);
	assert_int_equal(c->rip, TARGET);
	assert_int_equal(c->gpr[R_RSP], FRAME + 12);
	assert_int_equal(c->seg[SEG_SS].sel, L_DS0);
	assert_true(c->rflags & RF_IF);
	again();
	legacy_mode(0);
	memcpy(m.ram + FRAME, outer, sizeof(outer));
	put32(M_DATA, 0);
	put32(FRAME + 8, RF_ONE | RF_IF);
	c->gpr[R_RSP] = FRAME;
	assert_int_equal(STEP(0xcf), M_EVENT);
	assert_int_equal(c->mmu.cpl, 3);
	assert_int_equal(c->gpr[R_RSP], M_USTACK);
	assert_int_equal(c->seg[SEG_SS].sel, L_DS3);
	assert_int_equal(c->seg[SEG_DS].sel, 0);
	/* VM in the frame: at privilege 3 it is ignored, at 0 it is refused. */
	again();
	legacy_mode(3);
	memcpy(m.ram + FRAME, outer, sizeof(outer));
	c->gpr[R_RSP] = FRAME;
	assert_int_equal(STEP(0xcf), M_EVENT);
	assert_int_equal(c->rip, TARGET);
	assert_false(c->rflags & RF_VM);
	again();
	legacy_mode(0);
	memcpy(m.ram + FRAME, outer, sizeof(outer));
	c->gpr[R_RSP] = FRAME;
	assert_int_equal(STEP(0xcf), M_ERROR);
}

/* NT: a return to the task in the TSS's link, whose checks come first, so that
 * a user program cannot stop the machine by it. */
static void legacy_iret_with_nt(void **state)
{
	static const struct {
		const char *name;
		u16 link;
		u64 desc;
		int vector;
		u32 error;
	} rows[] = {
		{ "link is null", 0, 0, EXC_TS, 0 },
		{ "link in the LDT", S_FREE | 4, 0, EXC_TS, S_FREE | 4 },
		{ "link beyond the GDT", 0x1008, 0, EXC_TS, 0x1008 },
		{ "TSS is not busy", S_FREE, 0x0000890000000067, EXC_TS, S_FREE },
		{ "no TSS", S_FREE, 0x00cf93000000ffff, EXC_TS, S_FREE },
		{ "TSS not present", S_FREE, 0x00000b0000000067, EXC_NP, S_FREE },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		legacy_mode(3);
		if (rows[i].desc)
			sys_desc(S_FREE, rows[i].desc);
		put16(M_TSS, rows[i].link);
		c->rflags |= RF_NT;
		check_fault(rows[i].name, RUN(0xcf), rows[i].vector, rows[i].error);
	}
	again();
	legacy_mode(0);
	sys_desc(S_FREE, 0x00008b0000000067);
	put16(M_TSS, S_FREE);
	c->rflags |= RF_NT;
	assert_int_equal(RUN(0xcf), M_ERROR);
	assert_string_equal(c->refused, "task return");
}

/* Far JMP to a TSS or task gate: checks first, then refused in words. */
static void legacy_task_switch(void **state)
{
	static const struct {
		const char *name;
		u64 desc;
		unsigned cpl;
		int vector;
	} rows[] = {
		{ "TSS of privilege 0", 0x0000890000000067, 3, EXC_GP },
		{ "TSS is busy", 0x00008b0000000067, 0, EXC_GP },
		{ "TSS not present", 0x0000090000000067, 0, EXC_NP },
		{ "task gate of privilege 0", 0x0000850000700000, 3, EXC_GP },
		{ "TSS", 0x0000890000000067, 0, M_ERROR },
		{ "task gate", 0x0000850000700000, 0, M_ERROR },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		legacy_mode(rows[i].cpl);
		sys_desc(S_FREE, rows[i].desc);
		check_fault(rows[i].name, RUN(0xea, 0, 0, 0, 0, S_FREE, 0), rows[i].vector, S_FREE);
		if (rows[i].vector == M_ERROR)
			assert_string_equal(c->refused, "task switch");
	}
}

static void real_mode_far(void **state)
{
	(void)state;
	real_mode();
	/* call 0x1234:0x0010 */
	machine_code(&m, M_CODE, "\x9a\x10\x00\x34\x12", 5);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->seg[SEG_CS].base, 0x12340);
	assert_int_equal(c->rip, 0x10);
	assert_int_equal(get16(0x200fc), 5);
	assert_int_equal(get16(0x200fe), M_CODE >> 4);
	machine_code(&m, 0x12350, "\xcb", 1);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->seg[SEG_CS].base, M_CODE);
	assert_int_equal(c->rip, 5);
	assert_int_equal(c->gpr[R_RSP], 0x100);
	/* IRET unblocks NMIs, loads 16 bits of flags. */
	put16(0x20100, 0x20);
	put16(0x20102, 0x1000);
	put16(0x20104, RF_IF | RF_CF);
	machine_code(&m, M_CODE + 5, "\xcf", 1);
	c->nmi_blocked = true;
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->seg[SEG_CS].base, 0x10000);
	assert_int_equal(c->rip, 0x20);
	assert_int_equal(cpu_rflags(c), RF_ONE | RF_IF | RF_CF);
	assert_false(c->nmi_blocked);
}

/* With a 32-bit offset beyond the limit: #GP, through the vector table. */
static void real_mode_far_limit(void **state)
{
	static const u8 codes[][8] = {
		{ 0x66, 0xea, 0, 0, 1, 0, 0x34, 0x12 }, /* jmp 0x1234:0x10000 */
		{ 0x66, 0x9a, 0, 0, 1, 0, 0x34, 0x12 },
		{ 0x66, 0xcb },
		{ 0x66, 0xcf },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
		again();
		real_mode();
		put32(0x50000 + EXC_GP * 4, 0x10000123);
		put32(0x20100, 0x10000);
		put32(0x20104, 0x1234);
		machine_code(&m, M_CODE, codes[i], 8);
		assert_int_equal(machine_step(v), M_EVENT);
		if (c->seg[SEG_CS].sel != 0x1000 || c->rip != 0x123 || c->gpr[R_RSP] != 0xfa ||
		    get16(0x200fa) != 0)
			fail_msg("case %u: no #GP", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(iret_checks),
		CASE(iret_may_not_raise_privilege),
		CASE(iret_with_nt),
		CASE(iret_null_ss),
		CASE(iret_to_compatibility_mode),
		CASE(iret_unloads_data_segments),
		CASE(iret_flags_by_privilege),
		CASE(iret_sizes),
		CASE(faulting_iret_and_nmi),
		CASE(iret_and_retf_from_unmapped_stacks),
		CASE(far_target_checks),
		CASE(far_jmp_and_call),
		CASE(between_modes),
		CASE(far_call_stack_fault),
		CASE(retf_to_user),
		CASE(retf_checks),
		CASE(call_gate_to_privilege_0),
		CASE(call_gate_same_privilege),
		CASE(call_gate_checks),
		CASE(call_gate_stacks),
		CASE(legacy_call_gate),
		CASE(legacy_16bit_call_gate),
		CASE(legacy_iret),
		CASE(legacy_iret_with_nt),
		CASE(legacy_task_switch),
		CASE(real_mode_far),
		CASE(real_mode_far_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
