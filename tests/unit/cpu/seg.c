/* SPDX-License-Identifier: MIT */
/* Segment registers: loads with all their checks, LDTR, TR, LAR, LSL, VERR, VERW,
 * the shadow of SS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cpu/sysmachine.h"

#define L_SEL 0x0c /* first free slot of the LDT that some cases have */
#define LDT_AT 0xc000

/* MOV @seg, AX by its encoding number. */
static int mov_sreg(unsigned seg, u16 sel)
{
	const u8 code[] = { 0x8e, (u8)(0xc0 | seg << 3) };

	c->gpr[R_RAX] = sel;
	machine_code(&m, M_CODE, code, 2);
	return machine_step(v);
}

/* --- loads ------------------------------------------------------------------------- */

static void data_segment_checks(void **state)
{
	static const struct {
		const char *name;
		unsigned cpl;
		u16 sel;
		u32 attr; /* of the flat descriptor at S_FREE */
		int vector;
	} rows[] = {
		{ "beyond the GDT", 0, 0x1008, 0, EXC_GP },
		{ "no LDT", 0, L_SEL, 0, EXC_GP },
		{ "system segment", 0, S_FREE, 0x8089, EXC_GP },
		{ "execute-only code", 0, S_FREE, 0xa099, EXC_GP },
		{ "readable code", 0, S_FREE, 0xa09b, M_EVENT },
		{ "read-only data", 0, S_FREE, 0xc091, M_EVENT },
		{ "expand-down data", 0, S_FREE, 0xc097, M_EVENT },
		{ "not present", 0, S_FREE, 0xc013, EXC_NP },
		{ "RPL above DPL", 0, S_FREE | 3, 0xc093, EXC_GP },
		{ "RPL at DPL", 0, S_FREE | 3, 0xc0f3, M_EVENT },
		{ "CPL above DPL", 3, S_FREE, 0xc093, EXC_GP },
		{ "CPL above DPL of readable code", 3, S_FREE, 0xa09b, EXC_GP },
		{ "conforming code is for all", 3, S_FREE | 3, 0xa09f, M_EVENT },
		{ "privilege counts before presence", 3, S_FREE, 0xc013, EXC_GP },
	};
	static const u8 regs[] = { SEG_ES, SEG_DS, SEG_FS, SEG_GS };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows) * 4; i++) {
		unsigned k = i / 4, seg = regs[i % 4];

		again();
		machine_privilege(c, rows[k].cpl);
		sys_desc(S_FREE, sys_flat(rows[k].attr));
		struct segment before = c->seg[seg];

		check_fault(rows[k].name, mov_sreg(seg, rows[k].sel), rows[k].vector,
			    rows[k].sel & 0xfffcu);
		if (rows[k].vector != M_EVENT) {
			assert_memory_equal(&c->seg[seg], &before, sizeof(before));
			continue;
		}
		assert_int_equal(c->seg[seg].sel, rows[k].sel);
		assert_int_equal(c->seg[seg].attr, rows[k].attr);
		assert_int_equal(c->seg[seg].limit, 0xffffffff);
	}
}

static void hidden_part(void **state)
{
	(void)state;
	again();
	sys_desc(S_FREE, sys_seg(0x12345678, 0xabcde, 0x4093));
	assert_int_equal(mov_sreg(SEG_FS, S_FREE), M_EVENT);
	assert_int_equal(c->seg[SEG_FS].base, 0x12345678);
	assert_int_equal(c->seg[SEG_FS].limit, 0xabcde);
	/* G: the limit in pages. */
	sys_desc(S_FREE, sys_seg(0x12345678, 0xabcde, 0xc093));
	c->rip = M_CODE;
	assert_int_equal(mov_sreg(SEG_FS, S_FREE), M_EVENT);
	assert_int_equal(c->seg[SEG_FS].limit, 0xabcdefff);
}

/* Null selectors, with any RPL, load; FS and GS lose their base. */
static void null_data_segments(void **state)
{
	(void)state;
	for (u16 rpl = 0; rpl < 4; rpl++) {
		again();
		c->seg[SEG_GS].base = 0x1234;
		assert_int_equal(mov_sreg(SEG_GS, rpl), M_EVENT);
		assert_int_equal(c->seg[SEG_GS].sel, rpl);
		assert_int_equal(c->seg[SEG_GS].base, 0);
		assert_true(c->seg[SEG_GS].attr & SEG_UNUSABLE);
	}
}

static void stack_segment_checks(void **state)
{
	static const struct {
		const char *name;
		unsigned cpl;
		u16 sel;
		u32 attr;
		int vector;
		u32 error;
	} rows[] = {
		{ "null at privilege 0", 0, 0, 0, M_EVENT, 0 },
		{ "null, RPL is not CPL", 0, 3, 0, EXC_GP, 0 },
		{ "null at privilege 3", 3, 3, 0, EXC_GP, 0 },
		{ "writable", 0, S_FREE, 0xc093, M_EVENT, 0 },
		{ "writable, expand-down", 0, S_FREE, 0xc097, M_EVENT, 0 },
		{ "read-only", 0, S_FREE, 0xc091, EXC_GP, S_FREE },
		{ "code", 0, S_FREE, 0xa09b, EXC_GP, S_FREE },
		{ "system", 0, S_FREE, 0x8082, EXC_GP, S_FREE },
		{ "RPL", 0, S_FREE | 3, 0xc093, EXC_GP, S_FREE },
		{ "DPL", 0, S_FREE, 0xc0f3, EXC_GP, S_FREE },
		{ "not present", 0, S_FREE, 0xc013, EXC_SS, S_FREE },
		{ "user", 3, S_FREE | 3, 0xc0f3, M_EVENT, 0 },
		{ "beyond the GDT", 0, 0x1008, 0, EXC_GP, 0x1008 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		machine_privilege(c, rows[i].cpl);
		sys_desc(S_FREE, sys_flat(rows[i].attr));
		check_fault(rows[i].name, mov_sreg(SEG_SS, rows[i].sel), rows[i].vector,
			    rows[i].error);
		if (rows[i].vector == M_EVENT)
			assert_int_equal(c->seg[SEG_SS].sel, rows[i].sel);
	}
	/* Outside 64-bit mode null is never legal. */
	again();
	legacy_mode(0);
	check_fault("null, 32 bits", mov_sreg(SEG_SS, 0), EXC_GP, 0);
}

static void cs_cannot_be_moved_to(void **state)
{
	(void)state;
	assert_int_equal(mov_sreg(SEG_CS, M_CS0), EXC_UD);
	machine_reset(v);
	assert_int_equal(mov_sreg(6, M_CS0), EXC_UD);
}

/* The accessed bit is set in memory, and not written where it is set already. */
static void accessed_bit(void **state)
{
	(void)state;
	again();
	sys_desc(S_FREE, sys_flat(0xc092));
	assert_int_equal(mov_sreg(SEG_DS, S_FREE), M_EVENT);
	assert_int_equal(m_get64(&m, M_GDT + S_FREE), sys_flat(0xc093));
	assert_int_equal(c->seg[SEG_DS].attr, 0xc093);
	/* A read-only GDT: fine while nothing is to be set. */
	again();
	sys_desc(S_FREE, sys_flat(0xc093));
	sys_desc(S_FREE + 8, sys_flat(0xc092));
	*machine_pte(&m, M_GDT) &= ~2ull;
	mmu_flush_guest(&c->mmu);
	assert_int_equal(mov_sreg(SEG_DS, S_FREE), M_EVENT);
	c->rip = M_CODE;
	check_fault("read-only GDT", mov_sreg(SEG_DS, S_FREE + 8), EXC_PF, PF_P | PF_W);
	assert_int_equal(c->seg[SEG_DS].sel, S_FREE);
	/* Descriptor tables are supervisor accesses, at privilege 3 too. */
	again();
	machine_privilege(c, 3);
	sys_desc(S_FREE, sys_flat(0xc0f2));
	*machine_pte(&m, M_GDT) &= ~4ull;
	mmu_flush_guest(&c->mmu);
	assert_int_equal(mov_sreg(SEG_DS, S_FREE), M_EVENT);
}

static void descriptor_not_mapped(void **state)
{
	(void)state;
	machine_privilege(c, 3);
	unmap(0x70000);
	c->gdtr.base = 0x70000;
	c->gdtr.limit = 0xff;
	/* The handler's CS is not readable either: #PF, #DF, shutdown. */
	assert_int_equal(mov_sreg(SEG_DS, S_FREE), M_EVENT);
	assert_true(c->shutdown);
	assert_int_equal(c->cr2, 0x70000 + M_CS0);
}

/* POP moves rSP only if the load succeeds; LSS and LFS write both or nothing. */
static void pops_and_far_pointers(void **state)
{
	(void)state;
	again();
	m_put64(&m, M_STACK - 8, 0x1008);
	c->gpr[R_RSP] = M_STACK - 8;
	check_fault("POP FS", RUN(0x0f, 0xa1), EXC_GP, 0x1008);
	assert_int_equal(machine_frame(v, 4), M_STACK - 8);
	again();
	m_put64(&m, M_STACK - 8, M_DS3);
	c->gpr[R_RSP] = M_STACK - 8;
	assert_int_equal(STEP(0x0f, 0xa1), M_EVENT);
	assert_int_equal(c->seg[SEG_FS].sel, M_DS3);
	assert_int_equal(c->gpr[R_RSP], M_STACK);
	again();
	put32(M_DATA, 0x12345678);
	put16(M_DATA + 4, 0x1008);
	c->gpr[R_RBX] = M_DATA;
	check_fault("LSS", RUN(0x0f, 0xb2, 0x23), EXC_GP, 0x1008);
	again();
	put32(M_DATA, 0x12345678);
	put16(M_DATA + 4, M_DS3);
	c->gpr[R_RBX] = M_DATA;
	c->gpr[R_RCX] = ~0ull;
	assert_int_equal(STEP(0x0f, 0xb4, 0x0b), M_EVENT);
	assert_int_equal(c->gpr[R_RCX], 0x12345678);
	assert_int_equal(c->seg[SEG_FS].sel, M_DS3);
	/* POP SS to a 16-bit stack: ESP moves by the old width. */
	again();
	legacy_mode(0);
	sys_desc(S_FREE, sys_seg(0, 0xffff, 0x0093));
	c->gpr[R_RSP] = 0x1fffc;
	put32(0x1fffc, S_FREE);
	assert_int_equal(STEP(0x17), M_EVENT);
	assert_int_equal(c->gpr[R_RSP], 0x20000);
	assert_int_equal(c->seg[SEG_SS].sel, S_FREE);
}

static void real_mode_loads(void **state)
{
	(void)state;
	real_mode();
	c->seg[SEG_DS].limit = 0xffffffff; /* "unreal": stays */
	const u8 code[] = { 0x8e, 0xd8 };

	c->gpr[R_RAX] = 0xf123;
	machine_code(&m, M_CODE, code, 2);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->seg[SEG_DS].sel, 0xf123);
	assert_int_equal(c->seg[SEG_DS].base, 0xf1230);
	assert_int_equal(c->seg[SEG_DS].limit, 0xffffffff);
}

/* --- the shadow of SS ------------------------------------------------------------------ */

static void ss_shadow(void **state)
{
	static const struct {
		const char *name;
		u8 code[3];
		bool shadow;
	} rows[] = {
		{ "MOV SS", { 0x8e, 0xd0 }, true },
		{ "MOV DS", { 0x8e, 0xd8 }, false },
		{ "LSS", { 0x0f, 0xb2, 0x23 }, false },
		{ "POP FS", { 0x0f, 0xa1 }, false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		c->gpr[R_RAX] = M_DS0;
		c->gpr[R_RBX] = M_DATA;
		put16(M_DATA + 4, M_DS0);
		m_put64(&m, M_STACK - 8, M_DS0);
		c->gpr[R_RSP] = M_STACK - 8;
		machine_code(&m, M_CODE, rows[i].code, 3);
		assert_int_equal(machine_step(v), M_EVENT);
		if ((c->shadow == SHADOW_MOVSS) != rows[i].shadow)
			fail_msg("%s: shadow %u", rows[i].name, c->shadow);
	}
	/* A second MOV SS under the first one's shadow makes none. */
	again();
	c->gpr[R_RAX] = M_DS0;
	machine_code(&m, M_CODE, "\x8e\xd0\x8e\xd0", 4);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(machine_step(v), M_EVENT);
	assert_int_equal(c->shadow, 0);
	/* A MOV SS that faults makes none. */
	again();
	mov_sreg(SEG_SS, 0x1008);
	assert_int_equal(c->shadow, 0);
}

/* --- LDTR and TR -------------------------------------------------------------------------- */

static void system_desc(u16 sel, u64 base, u32 limit, u32 attr)
{
	sys_desc(sel, sys_seg((u32)base, limit, attr));
	sys_desc((u16)(sel + 8), base >> 32);
}

static void lldt_and_ltr_checks(void **state)
{
	static const struct {
		const char *name;
		bool tr;
		u16 sel;
		u32 attr;
		u64 base;
		int vector;
		u32 error;
	} rows[] = {
		{ "LLDT null", false, 2, 0, 0, M_EVENT, 0 },
		{ "LLDT", false, S_FREE, 0x0082, 0xffff800000001000, M_EVENT, 0 },
		{ "LLDT in the LDT", false, S_FREE | 4, 0x0082, 0, EXC_GP, S_FREE | 4 },
		{ "LLDT beyond the GDT", false, 0x1008, 0, 0, EXC_GP, 0x1008 },
		{ "LLDT, upper half beyond the GDT", false, 0xf8, 0x0082, 0, EXC_GP, 0xf8 },
		{ "LLDT of a TSS", false, S_FREE, 0x0089, 0, EXC_GP, S_FREE },
		{ "LLDT of data", false, S_FREE, 0xc093, 0, EXC_GP, S_FREE },
		{ "LLDT not present", false, S_FREE, 0x0002, 0, EXC_NP, S_FREE },
		{ "LLDT not canonical", false, S_FREE, 0x0082, 1ull << 47, EXC_GP, S_FREE },
		{ "LTR null", true, 0, 0, 0, EXC_GP, 0 },
		{ "LTR", true, S_FREE, 0x0089, 0xffff800000001000, M_EVENT, 0 },
		{ "LTR busy", true, S_FREE, 0x008b, 0, EXC_GP, S_FREE },
		{ "LTR of a 16-bit TSS", true, S_FREE, 0x0081, 0, EXC_GP, S_FREE },
		{ "LTR of an LDT", true, S_FREE, 0x0082, 0, EXC_GP, S_FREE },
		{ "LTR in the LDT", true, S_FREE | 4, 0x0089, 0, EXC_GP, S_FREE | 4 },
		{ "LTR not present", true, S_FREE, 0x0009, 0, EXC_NP, S_FREE },
		{ "LTR not canonical", true, S_FREE, 0x0089, 1ull << 47, EXC_GP, S_FREE },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned seg = rows[i].tr ? SEG_TR : SEG_LDTR;
		const u8 code[] = { 0x0f, 0x00, rows[i].tr ? 0xd8 : 0xd0 };

		again();
		system_desc(rows[i].sel == 0xf8 ? 0xf8 : S_FREE, rows[i].base, 0x67, rows[i].attr);
		struct segment before = c->seg[seg];

		c->gpr[R_RAX] = rows[i].sel;
		machine_code(&m, M_CODE, code, 3);
		check_fault(rows[i].name, machine_step(v), rows[i].vector, rows[i].error);
		if (rows[i].vector != M_EVENT) {
			assert_memory_equal(&c->seg[seg], &before, sizeof(before));
			continue;
		}
		assert_int_equal(c->seg[seg].sel, rows[i].sel);
		if (rows[i].sel < 4) {
			assert_true(c->seg[seg].attr & SEG_UNUSABLE);
			continue;
		}
		assert_int_equal(c->seg[seg].base, rows[i].base);
		assert_int_equal(c->seg[seg].limit, 0x67);
		/* LTR: busy in the register and in memory. */
		if (rows[i].tr) {
			assert_int_equal(c->seg[seg].attr & SEG_TYPE, 0xb);
			assert_int_equal(m_get64(&m, M_GDT + S_FREE) >> 40 & 15, 0xb);
		}
	}
}

static void ldt_is_used(void **state)
{
	(void)state;
	again();
	m_put64(&m, LDT_AT + (L_SEL & ~7), sys_flat(0xc0f3));
	c->seg[SEG_LDTR] = (struct segment){ .base = LDT_AT, .limit = 15, .attr = 0x82, .sel = S_FREE };
	assert_int_equal(mov_sreg(SEG_DS, L_SEL | 3), M_EVENT);
	assert_int_equal(c->seg[SEG_DS].sel, L_SEL | 3);
	/* Selector 4 is entry 0 of the LDT, no null selector. */
	m_put64(&m, LDT_AT, sys_flat(0xc091));
	c->rip = M_CODE;
	assert_int_equal(mov_sreg(SEG_DS, 4), M_EVENT);
	assert_int_equal(c->seg[SEG_DS].attr, 0xc091);
	c->seg[SEG_LDTR].limit = 14;
	c->rip = M_CODE;
	check_fault("LDT limit", mov_sreg(SEG_DS, L_SEL), EXC_GP, L_SEL);
}

static void legacy_ltr(void **state)
{
	(void)state;
	again();
	legacy_mode(0);
	sys_desc(S_FREE, sys_seg(0x1000, 0x2b, 0x0081));
	c->gpr[R_RAX] = S_FREE;
	/* Outside long mode a 16-bit TSS will do, and descriptors have 8 bytes. */
	assert_int_equal(STEP(0x0f, 0x00, 0xd8), M_EVENT);
	assert_int_equal(c->seg[SEG_TR].attr, 0x83);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* For each type of system descriptor: does LAR, does LSL see it? */
static void lar_and_lsl_by_type(void **state)
{
	static const u16 lar_long = 1 << 2 | 1 << 9 | 1 << 0xb | 1 << 0xc;
	static const u16 lar_legacy = lar_long | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5;
	static const u16 lsl_long = 1 << 2 | 1 << 9 | 1 << 0xb;
	static const u16 lsl_legacy = lsl_long | 1 << 1 | 1 << 3;

	(void)state;
	for (unsigned i = 0; i < 16 * 4; i++) {
		unsigned type = i / 4;
		bool lsl = i & 1, legacy = i & 2;
		u16 sees = lsl ? (legacy ? lsl_legacy : lsl_long) :
				 (legacy ? lar_legacy : lar_long);
		const u8 code[] = { 0x0f, lsl ? 0x03 : 0x02, 0xd8 }; /* ebx, eax */

		again();
		if (legacy)
			legacy_mode(0);
		sys_desc(S_FREE, sys_seg(0, 0x1234, 0x1080 | type));
		c->gpr[R_RAX] = S_FREE;
		c->gpr[R_RBX] = 0x55;
		c->aflags = sees >> type & 1 ? 0 : RF_ZF;
		machine_code(&m, M_CODE, code, 3);
		assert_int_equal(machine_step(v), M_EVENT);
		u64 want = !(sees >> type & 1) ? 0x55 : lsl ? 0x1234 : 0x108000u | type << 8;

		if (c->gpr[R_RBX] != want || !!(c->aflags & RF_ZF) != (sees >> type & 1))
			fail_msg("%s of type %u%s: %#llx", lsl ? "LSL" : "LAR", type,
				 legacy ? ", legacy" : "", (unsigned long long)c->gpr[R_RBX]);
	}
}

static void lar_lsl_verr_verw(void **state)
{
	enum { LAR = 1, LSL = 2, VERR = 4, VERW = 8 };
	static const struct {
		const char *name;
		unsigned cpl;
		u16 sel;
		u32 attr;
		unsigned yes;
	} rows[] = {
		{ "null", 0, 0, 0, 0 },
		{ "beyond the GDT", 0, 0x1008, 0, 0 },
		{ "no LDT", 0, L_SEL, 0, 0 },
		{ "data", 0, S_FREE, 0xc093, LAR | LSL | VERR | VERW },
		{ "read-only data", 0, S_FREE, 0xc091, LAR | LSL | VERR },
		{ "not present is no matter", 0, S_FREE, 0xc013, LAR | LSL | VERR | VERW },
		{ "execute-only", 0, S_FREE, 0xa099, LAR | LSL },
		{ "readable code", 0, S_FREE, 0xa09b, LAR | LSL | VERR },
		{ "conforming code from below", 3, S_FREE | 3, 0xa09f, LAR | LSL | VERR },
		{ "RPL above DPL", 0, S_FREE | 3, 0xc093, 0 },
		{ "CPL above DPL", 3, S_FREE, 0xc093, 0 },
		{ "TSS", 0, S_FREE, 0x0089, LAR | LSL },
		{ "interrupt gate", 0, S_FREE, 0x008e, 0 },
	};
	static const u8 codes[4][3] = {
		{ 0x0f, 0x02, 0xd8 }, { 0x0f, 0x03, 0xd8 }, { 0x0f, 0x00, 0xe0 }, { 0x0f, 0x00, 0xe8 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows) * 4; i++) {
		unsigned k = i / 4, op = i % 4;
		bool yes = rows[k].yes >> op & 1;

		again();
		machine_privilege(c, rows[k].cpl);
		sys_desc(S_FREE, sys_flat(rows[k].attr));
		c->gpr[R_RAX] = rows[k].sel;
		c->gpr[R_RBX] = 0x55;
		c->aflags = RF_CF | (yes ? 0 : RF_ZF);
		machine_code(&m, M_CODE, codes[op], 3);
		if (machine_step(v) != M_EVENT || c->aflags != (RF_CF | (yes ? RF_ZF : 0)) ||
		    (!yes && c->gpr[R_RBX] != 0x55))
			fail_msg("%s: instruction %u", rows[k].name, op);
	}
}

static void not_in_real_mode(void **state)
{
	static const u8 codes[][3] = {
		{ 0x0f, 0x02, 0xd8 }, { 0x0f, 0x03, 0xd8 }, { 0x0f, 0x00, 0xe0 }, { 0x0f, 0x00, 0xd0 },
		{ 0x0f, 0x00, 0xd8 }, { 0x0f, 0x00, 0xc0 }, { 0x0f, 0x00, 0xc8 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
		again();
		real_mode();
		put32(0x50000 + EXC_UD * 4, 0x10000777);
		machine_code(&m, M_CODE, codes[i], 3);
		assert_int_equal(machine_step(v), M_EVENT);
		if (c->rip != 0x777)
			fail_msg("case %u: no #UD", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(data_segment_checks),
		CASE(hidden_part),
		CASE(null_data_segments),
		CASE(stack_segment_checks),
		CASE(cs_cannot_be_moved_to),
		CASE(accessed_bit),
		CASE(descriptor_not_mapped),
		CASE(pops_and_far_pointers),
		CASE(real_mode_loads),
		CASE(ss_shadow),
		CASE(lldt_and_ltr_checks),
		CASE(ldt_is_used),
		CASE(legacy_ltr),
		CASE(lar_and_lsl_by_type),
		CASE(lar_lsl_verr_verw),
		CASE(not_in_real_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
