/* SPDX-License-Identifier: MIT */
/*
 * Instruction bytes -> struct insn.
 *
 * One table (insns.def) describes every instruction form; decode.c walks
 * prefixes, opcode map, ModRM and immediates by it.  The result depends on
 * the bytes, the mode and the vendor alone: it can be cached by content.
 * Needs no memory, takes no lock, keeps no state.
 */
#ifndef LOCUM_DECODE_DECODE_H
#define LOCUM_DECODE_DECODE_H

#include "base/types.h"
#include "x86/regs.h"

#define INSN_MAX_LEN 15

/* OP_<Intel mnemonic>; conditional families (OP_JCC, OP_SETCC, OP_CMOVCC) are
 * one op each, with the condition in insn.cond. */
enum insn_op {
	OP_INVALID,
#define INSN_OP(name) OP_##name,
#include "decode/ops.def"
#undef INSN_OP
	OP_COUNT
};

/* CPUID features that insn_row.feature names; FEAT_BASE = 0 = always there */
enum insn_feature {
#define FEATURE(name) FEAT_##name,
#include "decode/features.def"
#undef FEATURE
	FEAT_COUNT
};

enum decode_vendor { VENDOR_INTEL, VENDOR_AMD };

/** struct decode_mode - what the meaning of the bytes depends on
 * @bits:   16, 32 or 64: default code size (CS.D, CS.L)
 * @vendor: near branches with 66, SYSENTER/SYSCALL validity, LZCNT ...
 */
struct decode_mode {
	u8 bits;
	u8 vendor;
};

enum opnd_kind {
	OPD_NONE,
	OPD_GPR,   /* general register `reg`, low `size` bytes */
	OPD_GPR8H, /* AH CH DH BH: bits 15:8 of register `reg` (0..3) */
	OPD_MEM,   /* the instruction's memory operand */
	OPD_IMM,   /* insn.imm, already sign- or zero-extended to `size` */
	OPD_IMM2,  /* insn.imm2 (ENTER level, far selector, EXTRQ ...) */
	OPD_REL,   /* branch displacement in insn.imm, sign-extended */
	OPD_FAR,   /* ptr16:16/32: offset in imm, selector in imm2 */
	OPD_SEG,   /* segment register */
	OPD_CR,
	OPD_DR,
	OPD_MM,	   /* MMX register */
	OPD_XMM,   /* vector register, `size` = 4, 8, 16 or 32 bytes used */
	OPD_ST,	   /* x87 stack register */
	OPD_K,	   /* AVX-512 mask register (not decoded yet) */
};

#define OPD_R BIT(0) /* read */
#define OPD_W BIT(1) /* written */

struct operand {
	u8 kind;   /* enum opnd_kind */
	u8 reg;	   /* register number, 0..15 */
	u8 access; /* OPD_R | OPD_W; 0 = address only (LEA, INVLPG, NOP) */
	u16 size;  /* bytes; 0 where the instruction defines it (FXSAVE) */
};

#define REG_NONE 0xff /* no base or no index */
#define REG_IP	 0x10 /* base: address of the next instruction */

/* insn.flags */
#define INSN_LOCK    BIT(0)  /* F0 present and legal here */
#define INSN_REP     BIT(1)  /* F3 with its repeat meaning */
#define INSN_REPNE   BIT(2)  /* F2 with its repeat meaning */
#define INSN_MEM     BIT(3)  /* has a memory operand (base, index, disp valid) */
#define INSN_REX     BIT(4)  /* a REX prefix took effect */
#define INSN_VEX     BIT(5)
#define INSN_MODRM   BIT(6)
#define INSN_STACK   BIT(7)  /* memory operand is relative to rSP or rBP: #SS */
#define INSN_SEGOVR  BIT(8)  /* a segment override took effect */
#define INSN_BRANCH  BIT(9)  /* may change RIP other than to the next instruction */
#define INSN_ENDS    BIT(10) /* a block must end after it (far, privileged, mode) */

/**
 * struct insn - one decoded instruction
 *
 * @row indexes the descriptor table (insn_row()); two encodings with the same
 * row differ in registers, addresses, sizes and immediates alone.
 */
struct insn {
	u16 op;	 /* enum insn_op */
	u16 row; /* table row */
	u16 flags; /* INSN_* */
	u8 len;	   /* bytes, 1..15 */
	u8 opsize; /* effective operand size in bytes: 1, 2, 4, 8 */
	u8 adsize; /* effective address size in bytes: 2, 4, 8 */
	u8 nopnd;  /* explicit operands in opnd[], 0..4 */
	u8 cond;   /* condition code 0..15 of Jcc, SETcc, CMOVcc */
	u8 seg;	   /* segment of the memory operand (or of the string source) */
	u8 base;   /* REG_NONE, REG_IP or 0..15 */
	u8 index;  /* REG_NONE or 0..15; ROW_VSIB: vector register */
	u8 scale;  /* log2: 0..3 */
	u8 vl;	   /* VEX: vector length in bytes, 16 or 32; else 0 */
	/* Encoding, for those who copy or re-emit the instruction. */
	u8 map;	   /* 0 one-byte, 1 0F, 2 0F38, 3 0F3A */
	u8 opcode;
	u8 modrm;
	u8 rex;	   /* W R X B in bits 3..0, from REX or VEX */
	u8 pp;	   /* mandatory prefix that took effect: 0, 0x66, 0xf3, 0xf2 */
	u8 vvvv;   /* VEX register operand, 0..15 */
	u8 immsize; /* bytes of imm as encoded */
	u8 pad;
	s64 disp;  /* sign-extended; 64-bit for moffs */
	u64 imm;
	u16 imm2;
	struct operand opnd[4];
};

/* insn_row.attr */
#define ROW_LOCKABLE BIT(0)
#define ROW_PRIV     BIT(1) /* CPL 0 alone */
#define ROW_X87	     BIT(2) /* #NM by CR0.EM/TS */
#define ROW_MMX	     BIT(3)
#define ROW_SSE	     BIT(4) /* legacy SSE: CR0.EM/TS, CR4.OSFXSR */
#define ROW_AVX	     BIT(5) /* XCR0 and CR4.OSXSAVE */
#define ROW_ALIGN    BIT(6) /* the memory operand must be aligned to its size: #GP */
#define ROW_STRING   BIT(7)
#define ROW_D64	     BIT(8) /* operand size 64 by default in 64-bit mode */
#define ROW_FPEXC    BIT(9) /* may raise a SIMD floating-point exception */
#define ROW_FXSAVE   BIT(10) /* FXSAVE, FXRSTOR */
#define ROW_MMXU     BIT(11) /* an SSE form that uses an MMX register */
#define ROW_NOWAIT   BIT(12) /* x87 form that ignores pending exceptions */
#define ROW_VSIB     BIT(13) /* insn.index is a vector register */

/** struct insn_row - the facts that all encodings of a form share
 * @flags_read, @flags_written, @flags_undef: RF_* masks (CF..OF)
 * @feature: enum cpuid feature number (decode/features.def), 0 = always
 */
struct insn_row {
	u16 op;
	u16 attr;
	u16 feature;
	u16 flags_read, flags_written, flags_undef;
};

enum decode_status {
	DECODE_OK,
	DECODE_SHORT,	/* more than the given bytes are needed */
	DECODE_TOOLONG, /* over 15 bytes: #GP(0) */
	DECODE_UD,	/* no such instruction, or LOCK where it is illegal: #UD */
};

/**
 * decode() - decode one instruction
 * @bytes:  code bytes
 * @avail:  how many of them may be read, 1 or more; never reads beyond
 * @mode:   code size and vendor
 * @insn:   filled on DECODE_OK; on DECODE_UD `len` is the number of bytes
 *          that a processor would have fetched to know
 *
 * Return: DECODE_OK, or the reason.  DECODE_SHORT only when the result depends
 * on a byte at or beyond @avail.
 * Source: SDM Vol. 2A "Instruction Format", APM Vol. 3 "Instruction Encoding".
 */
enum decode_status decode(const u8 *bytes, unsigned avail,
			  const struct decode_mode *mode, struct insn *insn);

/** insn_row() - descriptor of table row @row (from insn.row); never NULL */
const struct insn_row *insn_row(unsigned row);

/** insn_row_count() - number of table rows, for sweeps and coverage */
unsigned insn_row_count(void);

/** insn_row_name() - the row's encoding and mnemonic as text, for reports */
const char *insn_row_name(unsigned row);

/** insn_op_name() - Intel mnemonic, lower case, of enum insn_op @op */
const char *insn_op_name(unsigned op);

#endif
