/* SPDX-License-Identifier: MIT */
/*
 * Host instructions as bytes.  Nothing here knows the guest.
 *
 * Code is written through one mapping and runs from another (jit/arena.h); what
 * is relative to the instruction pointer is computed within the first.
 */
#ifndef LOCUM_JIT_EMIT_H
#define LOCUM_JIT_EMIT_H

#include <string.h>

#include "base/types.h"

/* Host registers by number. */
enum host_reg {
	H_AX, H_CX, H_DX, H_BX, H_SP, H_BP, H_SI, H_DI,
	H_8, H_9, H_10, H_11, H_12, H_13, H_14, H_15,
	H_NONE = 0xff
};

/** struct emitter - where the next byte goes
 * @at:  beyond @end nothing is written, but @at goes on: look at the end */
struct emitter {
	u8 *at, *end;
};

static inline bool emit_full(const struct emitter *e)
{
	return e->at > e->end;
}

static inline void emit8(struct emitter *e, unsigned v)
{
	if (likely(e->at < e->end))
		*e->at = (u8)v;
	e->at++;
}

static inline void emit32(struct emitter *e, u32 v)
{
	if (likely(e->at + 4 <= e->end))
		memcpy(e->at, &v, 4);
	e->at += 4;
}

static inline void emit64(struct emitter *e, u64 v)
{
	emit32(e, (u32)v);
	emit32(e, (u32)(v >> 32));
}

/** struct host_mem - [base + (index << scale) + disp]; H_NONE leaves one out */
struct host_mem {
	u8 base, index, scale;
	s32 disp;
};

/**
 * struct host_insn - an instruction to be encoded
 * @pp:    0, 0x66, 0xf3, 0xf2: mandatory prefix
 * @opsz:  66 for a 16-bit operand; @lock
 * @w, @vex, @l, @vvvv: as in REX or VEX; vvvv is a register number
 * @byte:  a byte register may be named: REX is needed for numbers 4..7
 * @map:   0 one-byte, 1 0F, 2 0F38, 3 0F3A
 * @modrm: has one; @reg: its reg field, 0..15
 * @is_mem: @mem, else register @rm
 * @plus:  without ModRM: register in the opcode's low bits, H_NONE: none
 * @imm, @imm_bytes
 */
struct host_insn {
	u8 pp, map, opcode, reg, rm, vvvv, plus, imm_bytes;
	bool opsz, lock, w, vex, l, byte, modrm, is_mem;
	struct host_mem mem;
	u64 imm;
};

/** emit_insn() - encode @i */
void emit_insn(struct emitter *e, const struct host_insn *i);

/* The few that glue code is made of.  None changes flags but those marked F. */
void emit_mov_rr(struct emitter *e, unsigned to, unsigned from);
void emit_mov_load(struct emitter *e, unsigned to, struct host_mem m);   /* 64 bits */
void emit_mov_load32(struct emitter *e, unsigned to, struct host_mem m); /* zero-extends */
void emit_movzx8(struct emitter *e, unsigned to, struct host_mem m);
void emit_mov_store(struct emitter *e, struct host_mem m, unsigned from);
void emit_mov_imm(struct emitter *e, unsigned to, u64 v);
void emit_lea(struct emitter *e, unsigned to, struct host_mem m);
void emit_lea32(struct emitter *e, unsigned to, struct host_mem m);
void emit_pext(struct emitter *e, unsigned to, unsigned from, struct host_mem mask);
void emit_pext_rr(struct emitter *e, unsigned to, unsigned from, unsigned mask);
void emit_pdep_rr(struct emitter *e, unsigned to, unsigned from, unsigned mask);
void emit_movsxd(struct emitter *e, unsigned to, unsigned from);
void emit_mov_byte(struct emitter *e, unsigned to, unsigned from);
void emit_rorx(struct emitter *e, unsigned to, unsigned from, unsigned n);
void emit_alu_load(struct emitter *e, unsigned opcode, unsigned to, struct host_mem m); /* F */
void emit_alu_rr(struct emitter *e, unsigned opcode, unsigned to, unsigned from);	/* F */
void emit_shift_imm(struct emitter *e, unsigned ext, unsigned reg, unsigned n);		/* F */
void emit_cmp_imm(struct emitter *e, unsigned reg, u32 v); /* F */
void emit_cmp_mem0(struct emitter *e, struct host_mem m); /* 32 bits; F */
void emit_jmp_mem(struct emitter *e, struct host_mem m);

#define ALU_ADD 0x03
#define ALU_AND 0x23
#define ALU_CMP 0x3b
#define SHIFT_SHR 5
#define SHIFT_SAR 7

/* Jumps with a 32-bit distance: return where the distance is, for emit_link(). */
u8 *emit_jmp(struct emitter *e);
u8 *emit_call(struct emitter *e);
u8 *emit_jcc(struct emitter *e, unsigned cond);
/** emit_jrcxz() - jump if rcx is 0; returns where the one-byte distance is */
u8 *emit_jrcxz(struct emitter *e);

/** emit_link() - let the jump whose distance is at @at go to @to */
static inline void emit_link(struct emitter *e, u8 *at, const u8 *to)
{
	s32 d = (s32)(to - (at + 4));

	if (at + 4 <= e->end)
		memcpy(at, &d, 4);
}

/** emit_link8() - likewise for emit_jrcxz(), to here; it is within reach */
static inline void emit_link8(struct emitter *e, u8 *at)
{
	if (at < e->end)
		*at = (u8)(e->at - (at + 1));
}

#define COND_B	2
#define COND_AE 3
#define COND_E	4
#define COND_NE 5
#define COND_BE 6
#define COND_A	7

#endif
