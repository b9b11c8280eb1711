/* SPDX-License-Identifier: MIT */
/* Integer instructions: hand-made cases with the values that processors give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/hostcpu.h"
#include "unit/cpu/machine.h"

#define NO_VECTOR 256

/* Registers in and out; a 0 in `out` that should be checked is written as ZERO. */
#define ZERO 0xfeedfeedfeedfeedull

struct icase {
	const char *name;
	u8 code[24];
	u8 n;
	u64 in[R_COUNT], out[R_COUNT];
	u64 flags_in, flags_out, flags_mask;
	u64 mem_in, mem_out; /* eight bytes at M_DATA */
	int vector;	     /* expected exception, 0: none (NO_VECTOR: #DE) */
	u64 error;
};

#define CODE(...) .code = { __VA_ARGS__ }, .n = sizeof((u8[]){ __VA_ARGS__ })
#define DIRTY 0xdeadbeef00000000ull
#define ALL RF_ARITH

/* clang-format off */
static const struct icase cases[] = {
	{ "BLSI r32 of zero: CF=0, ZF=1", CODE(0xc4, 0xe2, 0x78, 0xf3, 0xdb),
	  .in = { [R_RBX] = DIRTY, [R_RAX] = 7 }, .out = { [R_RAX] = ZERO },
	  .flags_in = RF_CF, .flags_out = RF_ZF, .flags_mask = RF_CF | RF_ZF | RF_SF | RF_OF },
	{ "BLSI r32: carry from the low half alone", CODE(0xc4, 0xe2, 0x78, 0xf3, 0xdb),
	  .in = { [R_RBX] = 6 }, .out = { [R_RAX] = 2 },
	  .flags_out = RF_CF, .flags_mask = RF_CF | RF_ZF | RF_SF | RF_OF },
	{ "BLSR r64 of zero: CF=1", CODE(0xc4, 0xe2, 0xf8, 0xf3, 0xcb),
	  .out = { [R_RAX] = ZERO }, .flags_out = RF_CF | RF_ZF, .flags_mask = RF_CF | RF_ZF },
	{ "BLSR r64: CF=0", CODE(0xc4, 0xe2, 0xf8, 0xf3, 0xcb),
	  .in = { [R_RBX] = 12 }, .out = { [R_RAX] = 8 }, .flags_in = RF_CF, .flags_mask = RF_CF },
	{ "BLSMSK r32 with a dirty upper half: CF=1 for a zero low half",
	  CODE(0xc4, 0xe2, 0x78, 0xf3, 0xd3), .in = { [R_RBX] = DIRTY },
	  .out = { [R_RAX] = 0xffffffff }, .flags_out = RF_CF | RF_SF, .flags_mask = RF_CF | RF_SF | RF_ZF },
	{ "BEXTR r32 start beyond the operand: 0", CODE(0xc4, 0xe2, 0x60, 0xf7, 0xc1),
	  .in = { [R_RCX] = ~0ull, [R_RBX] = 0x0428 }, .out = { [R_RAX] = ZERO },
	  .flags_out = RF_ZF, .flags_mask = RF_ZF | RF_CF | RF_OF },
	{ "BEXTR r32 length beyond the operand", CODE(0xc4, 0xe2, 0x60, 0xf7, 0xc1),
	  .in = { [R_RCX] = 0xfffffffff0000000, [R_RBX] = 0x801c }, .out = { [R_RAX] = 15 } },
	{ "ADCX r32: carry out of bit 31, dirty upper halves, other flags stay",
	  CODE(0x66, 0x0f, 0x38, 0xf6, 0xc3),
	  .in = { [R_RAX] = DIRTY | 0xffffffff, [R_RBX] = DIRTY }, .out = { [R_RAX] = ZERO },
	  .flags_in = RF_CF | RF_OF | RF_SF, .flags_out = RF_CF | RF_OF | RF_SF, .flags_mask = ALL },
	{ "ADOX r32 uses OF alone", CODE(0xf3, 0x0f, 0x38, 0xf6, 0xc3),
	  .in = { [R_RAX] = DIRTY | 1, [R_RBX] = DIRTY | 1 }, .out = { [R_RAX] = 3 },
	  .flags_in = RF_CF | RF_OF | RF_ZF, .flags_out = RF_CF | RF_ZF, .flags_mask = ALL },
	{ "BZHI r64 index 64: copy, CF=1", CODE(0xc4, 0xe2, 0xe0, 0xf5, 0xc1),
	  .in = { [R_RCX] = 0x8000000000000001, [R_RBX] = 64 }, .out = { [R_RAX] = 0x8000000000000001 },
	  .flags_out = RF_CF | RF_SF, .flags_mask = RF_CF | RF_SF | RF_ZF | RF_OF },
	{ "BZHI r32: only bits 7:0 of the index", CODE(0xc4, 0xe2, 0x60, 0xf5, 0xc1),
	  .in = { [R_RCX] = ~0ull, [R_RBX] = 0xff04 }, .out = { [R_RAX] = 15 },
	  .flags_mask = RF_CF | RF_SF | RF_ZF },
	{ "CMPXCHG r32 success: accumulator's upper half stays", CODE(0x0f, 0xb1, 0xcb),
	  .in = { [R_RAX] = DIRTY | 5, [R_RBX] = DIRTY | 5, [R_RCX] = DIRTY | 9 },
	  .out = { [R_RAX] = DIRTY | 5, [R_RBX] = 9 }, .flags_out = RF_ZF | RF_PF, .flags_mask = ALL },
	{ "LOCK CMPXCHG m32 success: upper half stays", CODE(0xf0, 0x0f, 0xb1, 0x0b),
	  .in = { [R_RAX] = DIRTY | 5, [R_RBX] = M_DATA, [R_RCX] = 9 },
	  .out = { [R_RAX] = DIRTY | 5 }, .mem_in = 5, .mem_out = 9,
	  .flags_out = RF_ZF | RF_PF, .flags_mask = ALL },
	{ "LOCK CMPXCHG m32 failure: accumulator loaded, zero-extended, flags of CMP",
	  CODE(0xf0, 0x0f, 0xb1, 0x0b), .in = { [R_RAX] = DIRTY | 4, [R_RBX] = M_DATA },
	  .out = { [R_RAX] = 5 }, .mem_in = 5, .mem_out = 5,
	  .flags_out = RF_CF | RF_SF | RF_AF | RF_PF, .flags_mask = ALL },
	{ "LAHF with REX still writes AH", CODE(0x48, 0x9f), .in = { [R_RAX] = ~0ull },
	  .out = { [R_RAX] = 0xffffffffffff03ff }, .flags_in = RF_CF, .flags_out = RF_CF, .flags_mask = ALL },
	{ "SAHF with REX reads AH, OF stays", CODE(0x48, 0x9e), .in = { [R_RAX] = 0xff00 },
	  .flags_in = RF_OF, .flags_out = ALL, .flags_mask = ALL },
	{ "DS override after FS is ignored, FS base applies", CODE(0x64, 0x3e, 0x48, 0x8b, 0x03),
	  .in = { [R_RBX] = M_DATA - 0x100 }, .out = { [R_RAX] = 0x77 }, .mem_in = 0x77, .mem_out = 0x77 },
	{ "RCR r8 by 9 is no rotation: flags stay", CODE(0xc0, 0xdb, 9), .in = { [R_RBX] = 0x181 },
	  .out = { [R_RBX] = 0x181 }, .flags_in = RF_CF | RF_SF, .flags_out = RF_CF | RF_SF,
	  .flags_mask = RF_CF | RF_SF | RF_ZF | RF_PF | RF_AF },
	{ "RCL r8 by 33 & 31 = 1", CODE(0xc0, 0xd3, 33), .in = { [R_RBX] = 0x80 },
	  .out = { [R_RBX] = 1 }, .flags_in = RF_CF, .flags_out = RF_CF, .flags_mask = RF_CF },
	{ "RCL r16 by 17 is no rotation", CODE(0x66, 0xc1, 0xd3, 17), .in = { [R_RBX] = 0x12348001 },
	  .out = { [R_RBX] = 0x12348001 }, .flags_in = RF_CF, .flags_out = RF_CF, .flags_mask = RF_CF },
	{ "SHL r32 by 0: flags stay, upper half cleared", CODE(0xd3, 0xe3),
	  .in = { [R_RBX] = DIRTY | 3, [R_RCX] = 32 }, .out = { [R_RBX] = 3 },
	  .flags_in = ALL, .flags_out = ALL, .flags_mask = ALL },
	{ "SHL r32, 8: CF is the last bit out, PF of the result", CODE(0xc1, 0xe3, 8),
	  .in = { [R_RBX] = 0x01000003 }, .out = { [R_RBX] = 0x300 },
	  .flags_out = RF_CF | RF_PF, .flags_mask = RF_CF | RF_PF | RF_ZF | RF_SF },
	{ "BTS m32, r32: negative offset moves below the operand", CODE(0x0f, 0xab, 0x4b, 0x04),
	  .in = { [R_RBX] = M_DATA, [R_RCX] = 0xffffffffffffffe1 }, .mem_in = 0, .mem_out = 2,
	  .flags_mask = RF_CF },
	{ "BT m64, r64 beyond the operand with an FS base", CODE(0x64, 0x48, 0x0f, 0xa3, 0x0b),
	  .in = { [R_RBX] = M_DATA - 0x108, [R_RCX] = 67 }, .mem_in = 8, .mem_out = 8,
	  .flags_out = RF_CF, .flags_mask = RF_CF },
	{ "BTC m32, imm8 is modulo 32", CODE(0x0f, 0xba, 0x3b, 33), .in = { [R_RBX] = M_DATA },
	  .mem_in = 2, .mem_out = 0, .flags_out = RF_CF, .flags_mask = RF_CF },
	{ "BT r16, r16: offset modulo 16; other flags stay", CODE(0x66, 0x0f, 0xa3, 0xcb),
	  .in = { [R_RBX] = 2, [R_RCX] = 17 }, .flags_in = RF_ZF | RF_SF,
	  .flags_out = RF_CF | RF_ZF | RF_SF, .flags_mask = RF_CF | RF_ZF },
	{ "MOVSX r32, r8 clears the upper half", CODE(0x0f, 0xbe, 0xc3),
	  .in = { [R_RAX] = ~0ull, [R_RBX] = 0x80 }, .out = { [R_RAX] = 0xffffff80 } },
	{ "MOVSX r16, r8 keeps the rest", CODE(0x66, 0x0f, 0xbe, 0xc3),
	  .in = { [R_RAX] = 0x1122334455667788, [R_RBX] = 0x80 }, .out = { [R_RAX] = 0x112233445566ff80 } },
	{ "MOV AH, BH", CODE(0x88, 0xfc), .in = { [R_RAX] = 0x1111, [R_RBX] = 0x2233 },
	  .out = { [R_RAX] = 0x2211 } },
	{ "MOV SPL, BL with REX is not AH", CODE(0x40, 0x88, 0xdd), .in = { [R_RBP] = 0x1111, [R_RBX] = 0x2233 },
	  .out = { [R_RBP] = 0x1133 } },
	{ "CMOVcc r32, false: upper half cleared", CODE(0x0f, 0x44, 0xc3),
	  .in = { [R_RAX] = DIRTY | 1, [R_RBX] = 2 }, .out = { [R_RAX] = 1 } },
	{ "LEA r64 with 67: truncated to 32 bits", CODE(0x67, 0x48, 0x8d, 0x43, 0xff),
	  .in = { [R_RBX] = DIRTY }, .out = { [R_RAX] = 0xffffffff } },
	{ "DIV r64 overflow: #DE, nothing changed", CODE(0x48, 0xf7, 0xf3),
	  .in = { [R_RAX] = 1, [R_RDX] = 3, [R_RBX] = 3 }, .out = { [R_RAX] = 1, [R_RDX] = 3 },
	  .vector = NO_VECTOR },
	{ "DIV r8 by zero: #DE", CODE(0xf6, 0xf3), .in = { [R_RAX] = 1 }, .out = { [R_RAX] = 1 }, .vector = NO_VECTOR },
	{ "IDIV r64: most negative by -1 overflows", CODE(0x48, 0xf7, 0xfb),
	  .in = { [R_RAX] = 1ull << 63, [R_RDX] = ~0ull, [R_RBX] = ~0ull }, .vector = NO_VECTOR },
	{ "IDIV r64: quotient -2^63 is fine", CODE(0x48, 0xf7, 0xfb),
	  .in = { [R_RAX] = 1ull << 63, [R_RDX] = ~0ull, [R_RBX] = 1 }, .out = { [R_RAX] = 1ull << 63, [R_RDX] = ZERO } },
	{ "IDIV r32: quotient -2^31 is fine", CODE(0xf7, 0xfb),
	  .in = { [R_RAX] = 0x80000000, [R_RDX] = 0xffffffff, [R_RBX] = 1 }, .out = { [R_RAX] = 0x80000000, [R_RDX] = ZERO } },
	{ "IDIV r8: -128 by -1 overflows", CODE(0xf6, 0xfb), .in = { [R_RAX] = 0xff80, [R_RBX] = 0xff }, .vector = NO_VECTOR },
	{ "MUL r8 writes AX", CODE(0xf6, 0xe3), .in = { [R_RAX] = 0x12345ff, [R_RBX] = 0xff }, .out = { [R_RAX] = 0x123fe01 },
	  .flags_out = RF_CF | RF_OF, .flags_mask = RF_CF | RF_OF },
	{ "IMUL r16, r16, imm8", CODE(0x66, 0x6b, 0xc3, 0xfe), .in = { [R_RAX] = ~0ull, [R_RBX] = 3 },
	  .out = { [R_RAX] = 0xfffffffffffffffa } },
	{ "XADD of a register with itself: twice the value", CODE(0x48, 0x0f, 0xc1, 0xdb),
	  .in = { [R_RBX] = 21 }, .out = { [R_RBX] = 42 } },
	{ "XCHG m64 is locked and swaps", CODE(0x48, 0x87, 0x0b), .in = { [R_RBX] = M_DATA, [R_RCX] = 4 },
	  .out = { [R_RCX] = 3 }, .mem_in = 3, .mem_out = 4 },
	{ "LOCK across a cache line", CODE(0xf0, 0x48, 0xff, 0x43, 0x3c),
	  .in = { [R_RBX] = M_DATA - 0x3c }, .mem_in = 41, .mem_out = 42 },
	{ "CMPXCHG8B mismatch loads EDX:EAX, ZF=0 alone changes", CODE(0x0f, 0xc7, 0x0b),
	  .in = { [R_RBX] = M_DATA, [R_RAX] = ~0ull, [R_RDX] = ~0ull }, .mem_in = 0x200000001, .mem_out = 0x200000001,
	  .out = { [R_RAX] = 1, [R_RDX] = 2 }, .flags_in = ALL, .flags_out = ALL & ~RF_ZF, .flags_mask = ALL },
	{ "CMPXCHG16B misaligned: #GP(0)", CODE(0x48, 0x0f, 0xc7, 0x4b, 0x08), .in = { [R_RBX] = M_DATA },
	  .vector = EXC_GP },
	{ "non-canonical by RBX: #GP(0)", CODE(0x48, 0x8b, 0x03), .in = { [R_RBX] = 1ull << 47 }, .vector = EXC_GP },
	{ "non-canonical by RBP: #SS(0)", CODE(0x48, 0x8b, 0x45, 0x00), .in = { [R_RBP] = 1ull << 47 }, .vector = EXC_SS },
	{ "RBP with FS: #GP(0)", CODE(0x64, 0x48, 0x8b, 0x45, 0x00), .in = { [R_RBP] = 1ull << 47 }, .vector = EXC_GP },
	{ "RMW of a missing page: error has W", CODE(0x48, 0x01, 0x03), .in = { [R_RBX] = 0x40000000 },
	  .vector = EXC_PF, .error = PF_W },
	{ "RMW across into a missing page: error has W", CODE(0x48, 0x01, 0x03), .in = { [R_RBX] = 0x3fffffff },
	  .vector = EXC_PF, .error = PF_W },
	{ "JMP to a non-canonical address faults at the jump", CODE(0xff, 0xe3), .in = { [R_RBX] = 1ull << 47 },
	  .vector = EXC_GP },
	{ "CRC32 r32, r8 (no #NM, no flags)", CODE(0xf2, 0x0f, 0x38, 0xf0, 0xc3),
	  .in = { [R_RAX] = DIRTY | 0xffffffff, [R_RBX] = 'a' }, .out = { [R_RAX] = 0x3e2fbccf },
	  .flags_in = ALL, .flags_out = ALL, .flags_mask = ALL },
	{ "POPCNT r64 clears CF OF SF AF PF", CODE(0xf3, 0x48, 0x0f, 0xb8, 0xc3), .in = { [R_RBX] = ~0ull },
	  .out = { [R_RAX] = 64 }, .flags_in = ALL, .flags_mask = ALL },
	{ "TZCNT r16 of zero: 16, CF=1", CODE(0x66, 0xf3, 0x0f, 0xbc, 0xc3), .in = { [R_RBX] = 0xffff0000, [R_RAX] = ~0ull },
	  .out = { [R_RAX] = 0xffffffffffff0010 }, .flags_out = RF_CF, .flags_mask = RF_CF | RF_ZF },
	{ "BSF of zero leaves the register", CODE(0x48, 0x0f, 0xbc, 0xc3), .in = { [R_RAX] = 77 },
	  .out = { [R_RAX] = 77 }, .flags_out = RF_ZF, .flags_mask = RF_ZF },
	{ "MOVBE m16", CODE(0x66, 0x0f, 0x38, 0xf0, 0x03), .in = { [R_RBX] = M_DATA, [R_RAX] = ~0ull }, .mem_in = 0x1234,
	  .mem_out = 0x1234, .out = { [R_RAX] = 0xffffffffffff3412 } },
	{ "MULX: one register for both halves gets the high one", CODE(0xc4, 0xe2, 0xfb, 0xf6, 0xc3),
	  .in = { [R_RDX] = 1ull << 63, [R_RBX] = 4 }, .out = { [R_RAX] = 2 } },
	{ "PDEP, PEXT undo each other", CODE(0xc4, 0xe2, 0xe3, 0xf5, 0xc1, 0xc4, 0xe2, 0xfa, 0xf5, 0xd1),
	  .in = { [R_RBX] = 0x5a, [R_RCX] = 0xf0f0 }, .out = { [R_RAX] = 0x50a0, [R_RDX] = 0x5a } },
	{ "SHLD r16 count 1", CODE(0x66, 0x0f, 0xa4, 0xcb, 1), .in = { [R_RBX] = 0x8000, [R_RCX] = 0x8000 },
	  .out = { [R_RBX] = 1 }, .flags_out = RF_CF, .flags_mask = RF_CF },
	{ "INC keeps CF", CODE(0x48, 0xff, 0xc3), .in = { [R_RBX] = ~0ull }, .out = { [R_RBX] = ZERO },
	  .flags_in = RF_CF, .flags_out = RF_CF | RF_ZF | RF_PF | RF_AF, .flags_mask = ALL },
	{ "ADC m8 with carry", CODE(0x80, 0x13, 0xff), .in = { [R_RBX] = M_DATA }, .mem_in = 0x107f, .mem_out = 0x107f,
	  .flags_in = RF_CF, .flags_out = RF_CF | RF_AF, .flags_mask = ALL },
	{ "LOOP with 67 uses ECX and clears the upper half", CODE(0x67, 0xe2, 0x00), .in = { [R_RCX] = DIRTY | 1 },
	  .out = { [R_RCX] = ZERO } },
	{ "JECXZ ignores the upper half", CODE(0x67, 0xe3, 0x02, 0x0f, 0x0b), .in = { [R_RCX] = DIRTY } },
	{ "PUSH RSP pushes the old value", CODE(0x54, 0x5b), .out = { [R_RBX] = M_STACK } },
	{ "POP RSP: the value wins", CODE(0x53, 0x5c), .in = { [R_RBX] = 0x1f000 }, .out = { [R_RSP] = 0x1f000 } },
	{ "POP m64 by RSP: the address is of the RSP after", CODE(0x53, 0x8f, 0x44, 0x24, 0xf8, 0x58),
	  .in = { [R_RBX] = 9 } },
	{ "ENTER 16, 0; LEAVE", CODE(0xc8, 16, 0, 0, 0x48, 0x89, 0xe0, 0xc9), .in = { [R_RBP] = 5 },
	  .out = { [R_RAX] = M_STACK - 24, [R_RBP] = 5, [R_RSP] = M_STACK } },
	{ "XLAT", CODE(0xd7), .in = { [R_RBX] = M_DATA - 255, [R_RAX] = 0x11ff }, .mem_in = 0x42, .mem_out = 0x42,
	  .out = { [R_RAX] = 0x1142 } },
	{ "UD2", CODE(0x0f, 0x0b), .vector = EXC_UD },
	{ "LOCK of a register form: #UD", CODE(0xf0, 0x01, 0xc3), .vector = EXC_UD },
	{ "16 bytes: #GP(0)", CODE(0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90),
	  .vector = EXC_GP },
	{ "CWD family", CODE(0x48, 0x99), .in = { [R_RAX] = 1ull << 63 }, .out = { [R_RDX] = ~0ull } },
	{ "CBW", CODE(0x66, 0x98), .in = { [R_RAX] = 0x1234567890abcd80 }, .out = { [R_RAX] = 0x1234567890abff80 } },
};
/* clang-format on */

static void run_case(struct machine *m, const struct icase *t, bool step)
{
	struct machine_vcpu *v = &m->vcpu[0];
	int expect = t->vector == NO_VECTOR ? EXC_DE : t->vector ? t->vector : M_HALT, got;
	u8 code[32];

	memcpy(code, t->code, t->n);
	code[t->n] = 0xf4;
	machine_code(m, M_CODE, code, t->n + 1u);
	machine_reset(v);
	m_put64(m, M_DATA, t->mem_in);
	v->c.seg[SEG_FS].base = 0x100;
	for (unsigned r = 0; r < R_COUNT; r++)
		if (r != R_RSP)
			v->c.gpr[r] = t->in[r];
	cpu_put_rflags(&v->c, t->flags_in | RF_ONE);
	if (step) {
		v->c.dr7 = 0x401; /* a breakpoint that never hits: step by step */
		v->c.dr[0] = 1;
	}
	got = machine_run(v);
	/* Nothing can stand in for the host's own. */
	if (!hostcpu()->cx16 && !strncmp(t->name, "CMPXCHG16B", 10))
		expect = EXC_UD;
	if (got != expect)
		fail_msg("%s: ended with %d, not %d (rip %llx)", t->name, got, expect, v->c.rip);
	for (unsigned r = 0; r < R_COUNT; r++) {
		u64 want = t->out[r] == ZERO ? 0 : t->out[r];

		if (t->out[r] && v->c.gpr[r] != want)
			fail_msg("%s: gpr%u is %llx, not %llx", t->name, r, v->c.gpr[r], want);
	}
	if (expect == M_HALT && (v->c.aflags ^ t->flags_out) & t->flags_mask)
		fail_msg("%s: flags %llx, not %llx (of %llx)", t->name, v->c.aflags, t->flags_out,
			 t->flags_mask);
	if (t->mem_out | t->mem_in && m_get64(m, M_DATA) != t->mem_out)
		fail_msg("%s: memory %llx, not %llx", t->name, m_get64(m, M_DATA), t->mem_out);
	if (expect >= EXC_SS && machine_frame(v, 0) != t->error)
		fail_msg("%s: error code %llx", t->name, machine_frame(v, 0));
	if (expect >= 0 && machine_frame(v, expect >= EXC_SS ? 1 : 0) != M_CODE)
		fail_msg("%s: fault not at the instruction", t->name);
}

static void test_values(void **state)
{
	struct machine m;

	(void)state;
	assert_true(machine_init(&m, 1));
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		run_case(&m, &cases[i], false);
		run_case(&m, &cases[i], true);
	}
	machine_fini(&m);
}

/* RET to a non-canonical address: the fault is at RET, RSP unchanged. */
static void test_ret_non_canonical(void **state)
{
	static const u8 code[] = { 0x53, 0xc3 };
	struct machine m;
	struct machine_vcpu *v;

	(void)state;
	assert_true(machine_init(&m, 1));
	v = &m.vcpu[0];
	machine_code(&m, M_CODE, code, sizeof(code));
	v->c.gpr[R_RBX] = 1ull << 63;
	assert_int_equal(machine_run(v), EXC_GP);
	assert_int_equal(machine_frame(v, 1), M_CODE + 1);
	assert_int_equal(machine_frame(v, 4), M_STACK - 8);
	machine_fini(&m);
}

/* CALL with an unmapped stack: RSP and RIP unchanged, error code of a write. */
static void test_call_stack_fault(void **state)
{
	static const u8 code[] = { 0xe8, 0, 0, 0, 0 };
	struct machine m;
	struct machine_vcpu *v;

	(void)state;
	assert_true(machine_init(&m, 1));
	v = &m.vcpu[0];
	machine_code(&m, M_CODE, code, sizeof(code));
	machine_privilege(&v->c, 3);
	v->c.gpr[R_RSP] = 0x40000004;
	assert_int_equal(machine_run(v), EXC_PF);
	assert_int_equal(machine_frame(v, 0), PF_W | PF_U);
	assert_int_equal(machine_frame(v, 1), M_CODE);
	assert_int_equal(machine_frame(v, 4), 0x40000004);
	assert_int_equal(v->c.cr2, 0x40000000);
	machine_fini(&m);
}

/* Without LZCNT and BMI1 in CPUID the bytes mean BSR and BSF. */
static void test_lzcnt_without_feature(void **state)
{
	static const u8 code[] = { 0xf3, 0x48, 0x0f, 0xbd, 0xc3, 0xf3, 0x48, 0x0f, 0xbc, 0xd3, 0xf4 };
	struct kvm_cpuid_entry2 none = { .function = 0 };
	struct machine m;
	struct machine_vcpu *v;

	(void)state;
	assert_true(machine_init(&m, 1));
	v = &m.vcpu[0];
	machine_code(&m, M_CODE, code, sizeof(code));
	v->c.gpr[R_RBX] = 0x10;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RAX], 59);
	assert_int_equal(v->c.gpr[R_RDX], 4);
	assert_int_equal(cpuid_set(&v->c, &none, 1), 0);
	icache_flush(v->c.icache);
	machine_reset(v);
	v->c.gpr[R_RBX] = 0x10;
	assert_int_equal(machine_run(v), M_HALT);
	assert_int_equal(v->c.gpr[R_RAX], 4);
	assert_int_equal(v->c.gpr[R_RDX], 4);
	machine_fini(&m);
}

/* The same cases on a host that lacks what we can do in C.  Hiding is for the
 * process and for good: last. */
static void test_without_host_features(void **state)
{
	static const char *const hide[] = { "popcnt", "lzcnt", "bmi1", "bmi2", "sse42", "rdrand" };

	for (unsigned i = 0; i < ARRAY_SIZE(hide); i++)
		assert_true(hostcpu_hide(hide[i]));
	assert_false(hostcpu_hide("no such feature"));
	test_values(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_ret_non_canonical),
		cmocka_unit_test(test_call_stack_fault),
		cmocka_unit_test(test_lzcnt_without_feature),
		cmocka_unit_test(test_without_host_features),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
