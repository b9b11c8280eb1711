/* SPDX-License-Identifier: MIT */
/*
 * Delivery: exact frames and error codes, stacks, double faults, all modes.
 * Expected values are the manuals' (SDM Vol. 3A "Interrupt and Exception
 * Handling").
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cpu/sysmachine.h"

#define NON_CANONICAL 0x8000000000000000ull
#define STRAY	      0x800000001000ull /* what lies below it is not canonical either */
#define BAD_PAGE      0x70000 /* unmapped in the cases that name it */
#define GOOD_IST      0x28000

/* --- frames in 64-bit mode ------------------------------------------------------- */

/* What each kind of exception pushes: error code or not, RIP, RF. */
static void each_exception_pushes(void **state)
{
	static const struct {
		const char *name;
		u8 code[8];
		int vector;
		bool has_error;
		u64 error;
		unsigned rip; /* pushed, from the instruction on */
		bool rf;
	} rows[] = {
		{ "#DE", { 0xf7, 0xf1 }, EXC_DE, false, 0, 0, true },
		{ "ICEBP", { 0xf1 }, EXC_DB, false, 0, 1, false },
		{ "INT3", { 0xcc }, EXC_BP, false, 0, 1, false },
		{ "INT 3, two bytes", { 0xcd, 3 }, EXC_BP, false, 0, 2, false },
		{ "INT 13 has no error code", { 0xcd, 13 }, EXC_GP, false, 0, 2, false },
		{ "#UD", { 0x0f, 0x0b }, EXC_UD, false, 0, 0, true },
		{ "#UD by LOCK", { 0xf0, 0x90 }, EXC_UD, false, 0, 0, true },
		{ "#NM", { 0xd9, 0xe8 }, EXC_NM, false, 0, 0, true },
		{ "#NP by MOV DS", { 0x8e, 0xda }, EXC_NP, true, S_FREE, 0, true },
		{ "#SS by RBP", { 0x8b, 0x45, 0 }, EXC_SS, true, 0, 0, true },
		{ "#GP by RBX", { 0x8b, 0x03 }, EXC_GP, true, 0, 0, true },
		{ "#PF, write", { 0x88, 0x07 }, EXC_PF, true, PF_W, 0, true },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		sys_desc(S_FREE, sys_flat(0xc013));
		unmap(BAD_PAGE);
		c->mmu.cr0 |= CR0_TS;
		c->gpr[R_RBX] = c->gpr[R_RBP] = NON_CANONICAL;
		c->gpr[R_RDX] = S_FREE | 3;
		c->gpr[R_RDI] = BAD_PAGE;
		mmu_set_cpl(&c->mmu, 0);
		c->gpr[R_RDX] = S_FREE;
		machine_code(&m, M_CODE, rows[i].code, 8);
		int got = machine_run(v);
		unsigned n = rows[i].has_error;

		if (got != rows[i].vector ||
		    c->gpr[R_RSP] != M_STACK - 40 - n * 8 ||
		    (n && machine_frame(v, 0) != rows[i].error) ||
		    machine_frame(v, n) != M_CODE + rows[i].rip ||
		    machine_frame(v, n + 1) != M_CS0 ||
		    machine_frame(v, n + 2) != (RF_ONE | (rows[i].rf ? RF_RF : 0u)) ||
		    machine_frame(v, n + 3) != M_STACK || machine_frame(v, n + 4) != M_DS0)
			fail_msg("%s: vector %d, rip %#llx, flags %#llx", rows[i].name, got,
				 (unsigned long long)machine_frame(v, n),
				 (unsigned long long)machine_frame(v, n + 2));
	}
	assert_int_equal(c->cr2, BAD_PAGE);
}

static void frame_is_aligned(void **state)
{
	(void)state;
	for (unsigned off = 0; off < 32; off++) {
		machine_reset(v);
		c->gpr[R_RSP] = M_STACK - off;
		assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
		assert_int_equal(c->gpr[R_RSP], ((M_STACK - off) & ~15u) - 40);
		assert_int_equal(machine_frame(v, 3), M_STACK - off);
	}
}

/* Interrupt gates clear IF, trap gates do not; both clear TF, NT and RF. */
static void flags_in_the_handler(void **state)
{
	(void)state;
	for (int trap = 0; trap < 2; trap++) {
		machine_reset(v);
		sys_gate64(EXC_UD, M_CS0, trap ? 0x8f00 : 0x8e00);
		c->rflags |= RF_IF | RF_NT | RF_AC | RF_ID | RF_DF | RF_IOPL;
		c->aflags = RF_CF | RF_OF;
		assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
		assert_int_equal(cpu_rflags(c), RF_ONE | RF_CF | RF_OF | RF_AC | RF_ID | RF_DF |
							RF_IOPL | (trap ? RF_IF : 0u));
		assert_int_equal(machine_frame(v, 2),
				 RF_ONE | RF_CF | RF_OF | RF_AC | RF_ID | RF_DF | RF_IOPL |
					 RF_IF | RF_NT | RF_RF);
	}
}

/* RF that was set when INT n began is not pushed: the instruction cleared it. */
static void int_n_pushes_no_rf(void **state)
{
	(void)state;
	c->rflags |= RF_RF;
	assert_int_equal(RUN(0xcd, 0x40), 0x40);
	assert_int_equal(machine_frame(v, 2), RF_ONE);
}

/* An interrupt at a boundary pushes RF as it is. */
static void interrupt_keeps_rf(void **state)
{
	(void)state;
	machine_code(&m, M_CODE, "\xf4", 1);
	c->rflags |= RF_RF | RF_IF;
	c->halted = true;
	c->event.kind = EVENT_INTR;
	c->event.vector = 0x51;
	assert_int_equal(machine_run(v), 0x51);
	assert_int_equal(machine_frame(v, 0), M_CODE);
	assert_int_equal(machine_frame(v, 2), RF_ONE | RF_RF | RF_IF);
	assert_int_equal(c->event.kind, EVENT_NONE);
}

static void conforming_handler_keeps_privilege(void **state)
{
	(void)state;
	c->gdtr.limit = S_GDT_LIMIT;
	sys_desc(S_FREE, sys_flat(0xa09f));
	machine_privilege(c, 3);
	sys_gate64(EXC_UD, S_FREE, 0x8e00);
	machine_code(&m, M_CODE, "\x0f\x0b", 2);
	assert_int_equal(machine_step(v), EXC_UD);
	assert_int_equal(c->mmu.cpl, 3);
	assert_int_equal(c->seg[SEG_CS].sel, S_FREE | 3);
	assert_int_equal(c->seg[SEG_SS].sel, M_DS3);
	assert_int_equal(c->gpr[R_RSP], M_USTACK - 40);
}

/* --- gates ------------------------------------------------------------------------- */

/* Each thing that can be wrong with a gate or its code segment, once for INT n
 * (EXT clear) and once for an external interrupt (EXT set). */
static void bad_gates(void **state)
{
	enum { V = 0x40, OWN = V * 8 + ERR_IDT };
	static const struct {
		const char *name;
		u16 sel, attr;
		u64 desc; /* at S_FREE */
		int vector;
		u32 error;
	} rows[] = {
		{ "not present", M_CS0, 0x0e00, 0, EXC_NP, OWN },
		{ "task gate", M_CS0, 0x8500, 0, EXC_GP, OWN },
		{ "call gate", M_CS0, 0x8c00, 0, EXC_GP, OWN },
		{ "16-bit interrupt gate", M_CS0, 0x8600, 0, EXC_GP, OWN },
		{ "code segment", M_CS0, 0x9e00, 0, EXC_GP, OWN },
		{ "null selector", 0, 0x8e00, 0, EXC_GP, 0 },
		{ "null selector with RPL", 3, 0x8e00, 0, EXC_GP, 0 },
		{ "selector beyond the GDT", 0x3f8, 0x8e00, 0, EXC_GP, 0x3f8 },
		{ "selector in no LDT", 0x0c, 0x8e00, 0, EXC_GP, 0x0c },
		{ "data segment", M_DS0, 0x8e00, 0, EXC_GP, M_DS0 },
		{ "32-bit code", M_CS32, 0x8e00, 0, EXC_GP, M_CS32 },
		{ "code with L and D", S_FREE, 0x8e00, 0x00ef9b000000ffff, EXC_GP, S_FREE },
		{ "code not present", S_FREE, 0x8e00, 0x00af1b000000ffff, EXC_NP, S_FREE },
		{ "code of less privilege", M_CS3, 0x8e00, 0, EXC_GP, M_CS3 & ~3u },
		{ "conforming code of less privilege", S_FREE, 0x8e00, 0x00afff000000ffff, EXC_GP,
		  S_FREE },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows) * 2; i++) {
		unsigned k = i / 2;
		bool external = i & 1;

		again();
		sys_gate64(V, rows[k].sel, rows[k].attr);
		if (rows[k].desc)
			sys_desc(S_FREE, rows[k].desc);
		machine_code(&m, M_CODE, external ? "\xf4" : "\xcd\x40", 2);
		if (external) {
			c->event.kind = EVENT_INTR;
			c->event.vector = V;
		}
		check_fault(rows[k].name, machine_run(v), rows[k].vector,
			    rows[k].error | (external ? ERR_EXT : 0));
		assert_int_equal(machine_frame(v, 1), M_CODE);
		assert_int_equal(machine_frame(v, 3), RF_ONE | RF_RF);
	}
}

static void gate_beyond_the_limit(void **state)
{
	(void)state;
	c->idtr.limit = 0x40 * 16 + 14;
	check_fault("limit one byte short", RUN(0xcd, 0x40), EXC_GP, 0x40 * 8 + ERR_IDT);
	machine_reset(v);
	c->idtr.limit = 0x40 * 16 + 15;
	assert_int_equal(RUN(0xcd, 0x40), 0x40);
}

static void handler_not_canonical(void **state)
{
	(void)state;
	m_put64(&m, M_IDT + 0x40 * 16 + 8, 0x8000);
	check_fault("INT n", RUN(0xcd, 0x40), EXC_GP, 0);
	machine_reset(v);
	c->event.kind = EVENT_INTR;
	c->event.vector = 0x40;
	check_fault("interrupt", machine_run(v), EXC_GP, ERR_EXT);
}

/* INT n, INT3 and INTO look at the gate's DPL; ICEBP and hardware do not. */
static void gate_privilege(void **state)
{
	static const struct {
		const char *name;
		u8 code[2];
		u8 vector;
		bool checked;
	} rows[] = {
		{ "INT n", { 0xcd, 0x40 }, 0x40, true },
		{ "INT3", { 0xcc }, EXC_BP, true },
		{ "ICEBP", { 0xf1 }, EXC_DB, false },
		{ "#UD", { 0x0f, 0x0b }, EXC_UD, false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		machine_privilege(c, 3);
		machine_code(&m, M_CODE, rows[i].code, 2);
		int got = machine_run(v);

		if (rows[i].checked)
			check_fault(rows[i].name, got, EXC_GP, rows[i].vector * 8u + ERR_IDT);
		else
			assert_int_equal(got, rows[i].vector);
		again();
		machine_privilege(c, 3);
		sys_gate64(rows[i].vector, M_CS0, 0xee00);
		machine_code(&m, M_CODE, rows[i].code, 2);
		assert_int_equal(machine_run(v), rows[i].vector);
	}
}

/* ICEBP is external to the program: EXT is set. */
static void icebp_sets_ext(void **state)
{
	(void)state;
	sys_gate64(EXC_DB, M_CS0, 0x0e00);
	check_fault("ICEBP", RUN(0xf1), EXC_NP, EXC_DB * 8 + ERR_IDT + ERR_EXT);
	assert_int_equal(c->dr6, 0xffff0ff0);
}

static void accessed_bit_of_the_handlers_segment(void **state)
{
	(void)state;
	c->gdtr.limit = S_GDT_LIMIT;
	sys_desc(S_FREE, 0x00af9a000000ffff);
	sys_gate64(0x40, S_FREE, 0x8e00);
	assert_int_equal(RUN(0xcd, 0x40), 0x40);
	assert_int_equal(m_get64(&m, M_GDT + S_FREE), 0x00af9b000000ffff);
	assert_int_equal(c->seg[SEG_CS].attr & SEG_TYPE, 0xb);
}

/* --- stacks of the TSS --------------------------------------------------------------- */

static void tss_stacks(void **state)
{
	static const struct {
		const char *name;
		unsigned ist;
		u64 stack;
		u32 limit;
		int vector;
		u32 error;
		u64 cr2;
	} rows[] = {
		{ "RSP0 beyond the limit", 0, M_STACK, 4 + 6, EXC_TS, M_TR, 0 },
		{ "RSP0 just inside", 0, M_STACK, 4 + 7, EXC_UD, 0, 0 },
		{ "IST7 beyond the limit", 7, M_STACK, 36 + 6 * 8 + 6, EXC_TS, M_TR, 0 },
		{ "RSP0 not canonical", 0, NON_CANONICAL, 0x67, EXC_SS, 0, 0 },
		{ "IST7 not canonical", 7, 1ull << 47, 0x67, EXC_SS, 0, 0 },
		{ "RSP0 unmapped: the first push, SS, faults", 0, BAD_PAGE + 0x800, 0x67, EXC_PF,
		  PF_W, BAD_PAGE + 0x7f8 },
		{ "RSP0: the frame crosses into it", 0, BAD_PAGE + 0x1010, 0x67, EXC_PF, PF_W,
		  BAD_PAGE + 0xff8 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		/* The second fault has a stack of its own, which lies low in the TSS. */
		sys_ist(1, GOOD_IST);
		sys_gate64(EXC_TS, M_CS0, 0x8e00);
		sys_gate64(EXC_SS, M_CS0, 0x8e00 | 1);
		sys_gate64(EXC_PF, M_CS0, 0x8e00 | 1);
		sys_gate64(EXC_UD, M_CS0, (u16)(0x8e00 | rows[i].ist));
		if (rows[i].vector == EXC_TS) {
			/* Deliver #TS from privilege 0's stack: with a conforming segment. */
			sys_desc(S_FREE, sys_flat(0xa09f));
			sys_gate64(EXC_TS, S_FREE, 0x8e00);
		}
		unmap(BAD_PAGE);
		machine_privilege(c, 3);
		m_put64(&m, rows[i].ist ? M_TSS + 36 + 8 * (rows[i].ist - 1) : M_TSS + 4,
			rows[i].stack);
		c->seg[SEG_TR].limit = rows[i].limit;
		machine_code(&m, M_CODE, "\x0f\x0b", 2);
		/* One step: a conforming handler cannot HLT. */
		int got = machine_step(v);

		if (rows[i].vector == EXC_UD) {
			assert_int_equal(got, EXC_UD);
			continue;
		}
		check_fault(rows[i].name, got, rows[i].vector, rows[i].error | ERR_EXT * (rows[i].vector != EXC_PF));
		if (rows[i].cr2 && c->cr2 != rows[i].cr2)
			fail_msg("%s: CR2 %#llx", rows[i].name, (unsigned long long)c->cr2);
	}
}

/* A stack pointer that is not canonical: #SS, at the same privilege too. */
static void own_stack_not_canonical(void **state)
{
	(void)state;
	sys_ist(1, GOOD_IST);
	sys_gate64(EXC_SS, M_CS0, 0x8e01);
	c->gpr[R_RSP] = STRAY;
	check_fault("#UD", RUN(0x0f, 0x0b), EXC_SS, ERR_EXT);
	assert_int_equal(machine_frame(v, 4), STRAY);
	machine_reset(v);
	c->gpr[R_RSP] = STRAY;
	check_fault("INT n", RUN(0xcd, 0x40), EXC_SS, 0);
}

static void ist_at_the_same_privilege(void **state)
{
	(void)state;
	sys_ist(3, GOOD_IST + 8);
	sys_gate64(EXC_UD, M_CS0, 0x8e03);
	assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
	assert_int_equal(c->gpr[R_RSP], GOOD_IST - 40);
	assert_int_equal(machine_frame(v, 3), M_STACK);
	/* The privilege did not change: SS stays. */
	assert_int_equal(c->seg[SEG_SS].sel, M_DS0);
}

/* From compatibility mode: a 64-bit frame, SS null. */
static void from_compatibility_mode(void **state)
{
	(void)state;
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	cpu_update_mode(c);
	assert_int_equal(c->code_bits, 32);
	assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
	assert_int_equal(machine_frame(v, 1), M_CS32);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 40);
	assert_int_equal(c->code_bits, 64);
}

/* --- second faults ---------------------------------------------------------------------- */

enum first { UD, DE, GP, NP, SS, PF, INTR };
enum second { CONTRIBUTORY_2, PAGE_2 };

static const struct {
	const char *name;
	u8 code[4];
	u8 vector;
} firsts[] = {
	[UD] = { "#UD", { 0x0f, 0x0b }, EXC_UD },
	[DE] = { "#DE", { 0xf7, 0xf1 }, EXC_DE },
	[GP] = { "#GP", { 0x8b, 0x03 }, EXC_GP },
	[NP] = { "#NP", { 0x8e, 0xda }, EXC_NP },
	[SS] = { "#SS", { 0x8b, 0x45, 0 }, EXC_SS },
	[PF] = { "#PF", { 0x88, 0x07 }, EXC_PF },
	[INTR] = { "interrupt", { 0xf4 }, 0x40 },
};

static void prepare_first(enum first f)
{
	again();
	sys_desc(S_FREE, sys_flat(0xc013));
	unmap(BAD_PAGE);
	c->gpr[R_RBX] = c->gpr[R_RBP] = NON_CANONICAL;
	c->gpr[R_RDX] = S_FREE;
	c->gpr[R_RDI] = BAD_PAGE + 0x10;
	if (f == INTR) {
		c->event.kind = EVENT_INTR;
		c->event.vector = 0x40;
	}
	machine_code(&m, M_CODE, firsts[f].code, 4);
}

/* The delivery of @vector is to meet a fault of class @s. */
static void break_vector(u8 vector, enum second s)
{
	if (s == CONTRIBUTORY_2) {
		sys_gate64(vector, M_CS0, 0x0e00); /* #NP */
	} else {
		sys_ist(6, BAD_PAGE + 0x800); /* #PF: the stack is not there */
		sys_gate64(vector, M_CS0, 0x8e06);
	}
}

static void double_fault_matrix(void **state)
{
	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(firsts); f++) {
		for (enum second s = CONTRIBUTORY_2; s <= PAGE_2; s++) {
			bool contributory = f == DE || f == GP || f == NP || f == SS;
			u8 vector = firsts[f].vector;
			int want = s == PAGE_2 ? EXC_PF : EXC_NP;
			u64 error = s == PAGE_2 ? PF_W : vector * 8u + ERR_IDT + ERR_EXT;
			char name[64];

			if (f == PF || (contributory && s == CONTRIBUTORY_2)) {
				want = EXC_DF;
				error = 0;
			}
			snprintf(name, sizeof(name), "%s, then %s", firsts[f].name,
				 s == PAGE_2 ? "page fault" : "#NP");
			prepare_first((enum first)f);
			break_vector(vector, s);
			/* #NP then #NP: the same gate; it is the double fault that is seen. */
			check_fault(name, machine_run(v), want, error);
			assert_int_equal(machine_frame(v, 1), M_CODE);
			assert_int_equal(machine_frame(v, 4), M_STACK);
		}
	}
}

/* A fault while a double fault is delivered: shutdown, with a cause in words. */
static void triple_fault_matrix(void **state)
{
	(void)state;
	for (enum second s = CONTRIBUTORY_2; s <= PAGE_2; s++) {
		prepare_first(GP);
		break_vector(EXC_GP, CONTRIBUTORY_2);
		break_vector(EXC_DF, s);
		assert_int_equal(machine_run(v), M_SHUT);
		assert_true(c->shutdown);
		assert_non_null(c->shutdown_cause);
		assert_true(strlen(c->shutdown_cause) > 10);
		assert_int_equal(c->rip, M_CODE);
		assert_int_equal(c->gpr[R_RSP], M_STACK);
	}
}

/* Page fault, then page fault: CR2 is the second's. */
static void cr2_of_the_second_fault(void **state)
{
	(void)state;
	prepare_first(PF);
	break_vector(EXC_PF, PAGE_2);
	assert_int_equal(machine_run(v), EXC_DF);
	assert_int_equal(c->cr2, BAD_PAGE + 0x7f8);
}

/* --- NMI, interrupts, events ------------------------------------------------------------ */

static void nmi_blocks_until_iret(void **state)
{
	(void)state;
	machine_code(&m, M_CODE, "\xf4", 1);
	c->event.kind = EVENT_NMI;
	assert_int_equal(machine_run(v), EXC_NMI);
	assert_true(c->nmi_blocked);
	assert_int_equal(machine_frame(v, 0), M_CODE);
	v->event_checks = 0;
	machine_code(&m, c->rip, "\x48\xcf", 2);
	c->rflags |= RF_IF;
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->rip, M_CODE);
	assert_false(c->nmi_blocked);
	assert_true(v->event_checks > 0);
}

/* STI; INT n through a trap gate: what the shadow held off must be looked at. */
static void trap_gate_ends_a_shadow(void **state)
{
	(void)state;
	sys_gate64(0x40, M_CS0, 0x8f00);
	machine_code(&m, M_CODE, "\xfb\xcd\x40", 3);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->shadow, SHADOW_STI);
	v->event_checks = 0;
	assert_int_equal(machine_step(v), 0x40);
	assert_int_equal(c->shadow, 0);
	assert_true(c->rflags & RF_IF);
	assert_true(v->event_checks > 0);
	/* A fault in the shadow likewise. */
	machine_reset(v);
	sys_gate64(EXC_UD, M_CS0, 0x8f00);
	machine_code(&m, M_CODE, "\xfb\x0f\x0b", 3);
	assert_int_equal(machine_step(v), M_EVENT);
	v->event_checks = 0;
	assert_int_equal(machine_step(v), EXC_UD);
	assert_true(v->event_checks > 0);
}

static void events_of_the_client(void **state)
{
	static const struct {
		const char *name;
		enum event_kind kind;
		u8 vector;
		bool soft, has_error;
		u64 rip;
	} rows[] = {
		{ "#GP with an error code", EVENT_EXCEPTION, EXC_GP, false, true, M_CODE },
		{ "#UD without", EVENT_EXCEPTION, EXC_UD, false, false, M_CODE },
		{ "INT n again", EVENT_SOFT_INT, 0x40, true, false, M_CODE + 2 },
		{ "interrupt", EVENT_INTR, 0x41, false, false, M_CODE },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		machine_code(&m, M_CODE, "\xf4", 1);
		c->halted = true;
		c->event.kind = (u8)rows[i].kind;
		c->event.vector = rows[i].vector;
		c->event.is_soft = rows[i].soft;
		c->event.has_error = rows[i].has_error;
		c->event.error = 0x1230;
		c->event.next_rip = M_CODE + 2;
		if (machine_run(v) != rows[i].vector ||
		    machine_frame(v, rows[i].has_error) != rows[i].rip ||
		    (rows[i].has_error && machine_frame(v, 0) != 0x1230) ||
		    c->event.kind != EVENT_NONE)
			fail_msg("%s: rip %#llx", rows[i].name,
				 (unsigned long long)machine_frame(v, rows[i].has_error));
	}
	/* INT n that is repeated looks at the gate's privilege, with EXT clear. */
	again();
	machine_privilege(c, 3);
	c->event.kind = EVENT_SOFT_INT;
	c->event.vector = 0x40;
	c->event.is_soft = true;
	check_fault("INT n at privilege 3", machine_run(v), EXC_GP, 0x40 * 8 + ERR_IDT);
}

/* The stack lies in a device that the client serves: the event waits for it. */
static void stack_in_a_device(void **state)
{
	(void)state;
	c->gpr[R_RSP] = M_RAM_BYTES + 0x1000;
	c->gpr[R_RCX] = 0;
	v->refuse_io = true;
	assert_int_equal(RUN(0xf7, 0xf1), M_IO);
	assert_int_equal(c->event.kind, EVENT_EXCEPTION);
	assert_int_equal(c->event.vector, EXC_DE);
	assert_int_equal(c->rip, M_CODE);
	v->refuse_io = false;
	v->mmio_calls = 0;
	assert_int_equal(machine_run(v), EXC_DE);
	assert_int_equal(v->mmio_calls, 5);
	assert_int_equal(c->gpr[R_RSP], M_RAM_BYTES + 0x1000 - 40);
	assert_int_equal(c->event.kind, EVENT_NONE);
}

/* A fault that had to wait still pushes RF. */
static void waiting_fault_pushes_rf(void **state)
{
	(void)state;
	c->gpr[R_RSP] = M_RAM_BYTES + 0x1000;
	v->refuse_io = true;
	assert_int_equal(RUN(0x0f, 0x0b), M_IO);
	c->gpr[R_RSP] = M_STACK;
	v->refuse_io = false;
	assert_int_equal(machine_run(v), EXC_UD);
	assert_int_equal(machine_frame(v, 2), RF_ONE | RF_RF);
}

/* --- 32-bit protected mode --------------------------------------------------------------- */

static void legacy_same_privilege(void **state)
{
	(void)state;
	legacy_mode(0);
	c->rflags |= RF_IF;
	assert_int_equal(RUN(0x0f, 0x0b), EXC_UD);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 12);
	assert_int_equal(get32(M_STACK - 12), M_CODE);
	assert_int_equal(get32(M_STACK - 8), L_CS0);
	assert_int_equal(get32(M_STACK - 4), RF_ONE | RF_IF | RF_RF);
	assert_false(c->rflags & RF_IF);
}

static void legacy_to_privilege_0(void **state)
{
	(void)state;
	legacy_mode(3);
	assert_int_equal(RUN(0xcd, 0x0d), EXC_GP);
	assert_int_equal(get32(M_STACK - 24), EXC_GP * 8 + ERR_IDT);
	assert_int_equal(get32(M_STACK - 20), M_CODE);
	assert_int_equal(get32(M_STACK - 16), L_CS3);
	assert_int_equal(get32(M_STACK - 12), RF_ONE | RF_RF);
	assert_int_equal(get32(M_STACK - 8), M_USTACK);
	assert_int_equal(get32(M_STACK - 4), L_DS3);
	assert_int_equal(c->seg[SEG_SS].sel, L_DS0);
	assert_int_equal(c->mmu.cpl, 0);
}

static void legacy_16bit_gate(void **state)
{
	(void)state;
	legacy_mode(0);
	/* The handler must lie below 64 KiB of its segment. */
	sys_desc(S_FREE, sys_seg(M_STUBS, 0xfffff, 0xc09b));
	m_put64(&m, M_IDT + 0x40 * 8, 0x123480ull /* offset 0x3480 is cut */ |
					      (u64)S_FREE << 16 | 0x8600ull << 32);
	m_put64(&m, M_IDT + 0x40 * 8, (0x40 * 16) | (u64)S_FREE << 16 | 0x8600ull << 32 |
					      0xffffull << 48);
	machine_code(&m, M_CODE, "\xcd\x40", 2);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->rip, 0x40 * 16);
	assert_int_equal(c->gpr[R_RSP], M_STACK - 6);
	assert_int_equal(get16(M_STACK - 6), (u16)(M_CODE + 2));
	assert_int_equal(get16(M_STACK - 4), L_CS0);
	assert_int_equal(get16(M_STACK - 2), RF_ONE);
}

/* What the manual checks about the TSS's stack, each with #TS or #SS. */
static void legacy_bad_stacks(void **state)
{
	static const struct {
		const char *name;
		u16 sel;
		u64 desc; /* at S_FREE */
		u32 limit;
		int vector;
		u32 error;
	} rows[] = {
		{ "TSS limit", L_DS0, 0, 8, EXC_TS, L_TR },
		{ "TSS limit just fits", L_DS0, 0, 9, EXC_UD, 0 },
		{ "null SS", 0, 0, 0x67, EXC_TS, 0 },
		{ "SS beyond the GDT", 0x3f8, 0, 0x67, EXC_TS, 0x3f8 },
		{ "RPL", L_DS0 | 1, 0, 0x67, EXC_TS, L_DS0 },
		{ "DPL", L_DS3 & ~3, 0, 0x67, EXC_TS, L_DS3 & ~3 },
		{ "code segment", L_CS0, 0, 0x67, EXC_TS, L_CS0 },
		{ "read-only", S_FREE, 0x00cf91000000ffff, 0x67, EXC_TS, S_FREE },
		{ "not present", S_FREE, 0x00cf13000000ffff, 0x67, EXC_SS, S_FREE },
		{ "no room", S_FREE, 0x004093000000ffff, 0x67, EXC_SS, S_FREE },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		legacy_mode(3);
		if (rows[i].desc)
			sys_desc(S_FREE, rows[i].desc);
		put16(M_TSS + 8, rows[i].sel);
		c->seg[SEG_TR].limit = rows[i].limit;
		/* #TS and #SS run at privilege 3: conforming code needs no stack switch. */
		sys_desc(S_FREE + 8, sys_flat(0xc09f));
		sys_gate32(EXC_TS, S_FREE + 8, 0x8e00);
		sys_gate32(EXC_SS, S_FREE + 8, 0x8e00);
		machine_code(&m, M_CODE, "\x0f\x0b", 2);
		int got = machine_step(v);

		if (got != rows[i].vector)
			fail_msg("%s: vector %d", rows[i].name, got);
		if (got != EXC_UD)
			check_fault(rows[i].name, got, rows[i].vector, rows[i].error | ERR_EXT);
	}
}

/* No room on the own stack: #SS(0) for INT n, #SS(EXT) for a fault; here in turn
 * a double fault, as #SS has no room either, then shutdown. */
static void legacy_own_stack_limit(void **state)
{
	(void)state;
	legacy_mode(0);
	c->seg[SEG_SS].limit = M_STACK - 5;
	assert_int_equal(RUN(0xcd, 0x40), M_SHUT);
	/* Expand-down: the stack must stay above the limit. */
	again();
	legacy_mode(0);
	c->seg[SEG_SS].attr |= SEG_T_EXPAND;
	c->seg[SEG_SS].limit = M_STACK - 13;
	assert_int_equal(RUN(0xcd, 0x40), 0x40);
	again();
	legacy_mode(0);
	c->seg[SEG_SS].attr |= SEG_T_EXPAND;
	c->seg[SEG_SS].limit = M_STACK - 12;
	assert_int_equal(RUN(0xcd, 0x40), M_SHUT);
}

static void legacy_handler_beyond_its_segment(void **state)
{
	(void)state;
	legacy_mode(0);
	sys_desc(S_FREE, sys_seg(0, 0xfff, 0x409b));
	sys_gate32(0x40, S_FREE, 0x8e00);
	check_fault("INT n", RUN(0xcd, 0x40), EXC_GP, 0);
}

/* A 16-bit stack wraps inside its segment, the upper half of ESP stays. */
static void legacy_16bit_stack_wraps(void **state)
{
	(void)state;
	legacy_mode(0);
	c->seg[SEG_SS] = (struct segment){
		.base = 0x40000, .limit = 0xffff, .attr = 0x0093, .sel = L_DS0
	};
	c->gpr[R_RSP] = 0xabc0004;
	assert_int_equal(RUN(0xcd, 0x40), 0x40);
	assert_int_equal(c->gpr[R_RSP], 0xabcfff8);
	assert_int_equal(get32(0x4fff8), M_CODE + 2);
	assert_int_equal(get32(0x4fffc), L_CS0);
	assert_int_equal(get32(0x40000), RF_ONE);
}

/* Not executed, and said so: but only where the checks before let it through. */
static void legacy_task_gates(void **state)
{
	(void)state;
	legacy_mode(3);
	sys_gate32(0x40, L_TR, 0x8500);
	check_fault("DPL", RUN(0xcd, 0x40), EXC_GP, 0x40 * 8 + ERR_IDT);
	again();
	legacy_mode(0);
	sys_gate32(0x40, L_TR, 0x0500);
	check_fault("not present", RUN(0xcd, 0x40), EXC_NP, 0x40 * 8 + ERR_IDT);
	again();
	legacy_mode(0);
	sys_gate32(0x40, L_TR, 0x8500);
	assert_int_equal(RUN(0xcd, 0x40), M_ERROR);
	assert_string_equal(c->refused, "task gate");
}

/* --- real mode ------------------------------------------------------------------------------ */

static void real_mode_vector(void **state)
{
	(void)state;
	real_mode();
	put32(0x50000 + 0x21 * 4, 0x12345678);
	c->rflags |= RF_IF | RF_TF | RF_AC;
	c->aflags = RF_CF;
	machine_code(&m, M_CODE, "\xcd\x21", 2);
	c->rflags &= ~(u64)RF_TF;
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->seg[SEG_CS].sel, 0x1234);
	assert_int_equal(c->seg[SEG_CS].base, 0x12340);
	assert_int_equal(c->rip, 0x5678);
	assert_int_equal(c->gpr[R_RSP], 0xfa);
	assert_int_equal(get16(0x200fa), 2);
	assert_int_equal(get16(0x200fc), M_CODE >> 4);
	assert_int_equal(get16(0x200fe), RF_ONE | RF_CF | RF_IF);
	assert_int_equal(c->rflags & (RF_IF | RF_AC), 0);
}

static void real_mode_stack_wraps(void **state)
{
	(void)state;
	real_mode();
	c->gpr[R_RSP] = 0xffff0002;
	put32(0x50000 + 0x21 * 4, 0x12345678);
	machine_code(&m, M_CODE, "\xcd\x21", 2);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->gpr[R_RSP], 0xfffffffc);
	assert_int_equal(get16(0x20000), RF_ONE);
	assert_int_equal(get16(0x2fffe), M_CODE >> 4);
	assert_int_equal(get16(0x2fffc), 2);
}

static void real_mode_without_vectors(void **state)
{
	(void)state;
	real_mode();
	c->idtr.limit = 0;
	assert_int_equal(RUN(0x0f, 0x0b), M_SHUT);
	/* An odd SP of 1: the push straddles the segment's end. */
	again();
	real_mode();
	c->gpr[R_RSP] = 1;
	assert_int_equal(RUN(0x0f, 0x0b), M_SHUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_exception_pushes),
		CASE(frame_is_aligned),
		CASE(flags_in_the_handler),
		CASE(int_n_pushes_no_rf),
		CASE(interrupt_keeps_rf),
		CASE(conforming_handler_keeps_privilege),
		CASE(bad_gates),
		CASE(gate_beyond_the_limit),
		CASE(handler_not_canonical),
		CASE(gate_privilege),
		CASE(icebp_sets_ext),
		CASE(accessed_bit_of_the_handlers_segment),
		CASE(tss_stacks),
		CASE(own_stack_not_canonical),
		CASE(ist_at_the_same_privilege),
		CASE(from_compatibility_mode),
		CASE(double_fault_matrix),
		CASE(triple_fault_matrix),
		CASE(cr2_of_the_second_fault),
		CASE(nmi_blocks_until_iret),
		CASE(trap_gate_ends_a_shadow),
		CASE(events_of_the_client),
		CASE(stack_in_a_device),
		CASE(waiting_fault_pushes_rf),
		CASE(legacy_same_privilege),
		CASE(legacy_to_privilege_0),
		CASE(legacy_16bit_gate),
		CASE(legacy_bad_stacks),
		CASE(legacy_own_stack_limit),
		CASE(legacy_handler_beyond_its_segment),
		CASE(legacy_16bit_stack_wraps),
		CASE(legacy_task_gates),
		CASE(real_mode_vector),
		CASE(real_mode_stack_wraps),
		CASE(real_mode_without_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
