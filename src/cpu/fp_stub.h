/* SPDX-License-Identifier: MIT */
/*
 * Stubs: host instructions that execute guest x87, MMX, SSE and AVX instructions.
 *
 * tools/genstubs.c walks the decode table at build time and writes, for each
 * form, a body: the instruction itself with its operands in fixed registers,
 * and RET.  The operand of the ModRM reg field is xmm2, ymm2, mm2 or rdx; that
 * of the r/m field xmm1, ymm1, mm1, rcx or memory at (rsi); that of VEX.vvvv
 * ymm3, that of imm8[7:4] ymm4; an implied XMM0 is itself.  Forms with an
 * immediate byte have 256 bodies, STUB_STEP bytes apart.  A loader (fp_call.S)
 * brings the operands in, calls the body and stores the result.
 *
 * A vector register is stored in two halves of 16 bytes, STUB_HIGH bytes apart,
 * as in the XSAVE image: what works on the guest's registers works on copies.
 */
#ifndef LOCUM_CPU_FP_STUB_H
#define LOCUM_CPU_FP_STUB_H

#include "base/bits.h"

#define STUB_STEP 8
#define STUB_HIGH 416 /* from bits 127:0 of a register to bits 255:128 */

/* Kinds of operand in the reg and r/m fields. */
enum stub_kind { STUB_NONE, STUB_XMM, STUB_MM, STUB_GPR, STUB_MEM };

/* fp_stub.flags */
#define STUB_IMM    BIT(0)
#define STUB_FPEXC  BIT(1) /* may raise SIMD floating-point exceptions */
#define STUB_ALIGN  BIT(2) /* memory operand must be aligned */
#define STUB_SSE    BIT(3) /* checks of SSE */
#define STUB_MMX    BIT(4) /* uses an MMX register: checks, effect on x87 state */
#define STUB_EFLAGS BIT(5) /* result is in EFLAGS */
#define STUB_WREG   BIT(6) /* writes the operand of the reg field */
#define STUB_WRM    BIT(7) /* writes the operand of the r/m field */
#define STUB_RRM    BIT(8) /* reads the operand of the r/m field */
#define STUB_TINY4  BIT(9) /* result can underflow: 4-byte elements */
#define STUB_TINY8  BIT(10)
#define STUB_SRC8   BIT(11) /* STUB_TINY*: operands are 8-byte elements, else 4 */
#define STUB_SUM    BIT(12) /* STUB_TINY*: addition or subtraction */
#define STUB_HSUM   BIT(13) /* STUB_TINY*: likewise, of neighbours in one operand */
#define STUB_TINY2  BIT(14) /* half precision */
#define STUB_FMA    BIT(15) /* STUB_TINY*: fused multiply-add */
#define STUB_AVX    BIT(16) /* VEX-encoded: checks of AVX, upper halves */
#define STUB_WV	    BIT(17) /* writes the operand of VEX.vvvv */
#define STUB_XMM0   BIT(18) /* XMM0 is read */
#define STUB_IS4    BIT(19) /* imm8[7:4] names an operand */
#define STUB_STR    BIT(20) /* PCMPxSTRx: for fp_string_call() */
#define STUB_DOT    BIT(21) /* DPPS, DPPD: several roundings */

/**
 * typedef fp_loader - run a body
 * @reg, @rm: storage of the operands: a vector register (above), 8 bytes (MM,
 *            GPR), or the memory operand of r/m
 * @body:     the body to call
 * @rflags:   STUB_EFLAGS: receives RFLAGS
 * @vvvv:     STUB_AVX: register of VEX.vvvv, or any
 * @extra:    STUB_IS4: that register; STUB_XMM0: XMM0
 */
typedef void fp_loader(void *reg, void *rm, const u8 *body, u64 *rflags, void *vvvv,
		       void *extra);

struct fp_stub {
	fp_loader *load;
	const u8 *body;
	u32 flags;
	u8 reg_kind, rm_kind;
	u8 mem_opnd;	 /* index of the memory operand in insn.opnd */
	u8 result_bytes; /* STUB_TINY*: bytes of the result that can underflow */
};

extern const struct fp_stub fp_stubs[];
/* By row * 8 + (VEX.L ? 4 : 0) + (REX.W or VEX.W ? 2 : 0) + (memory form ? 1 : 0);
 * 0 = no stub. */
extern const u16 fp_stub_index[];

/** struct fp_string - operands of PCMPESTRI and its kin beside the two vectors */
struct fp_string {
	u64 rax, rdx;	/* in */
	u64 rcx, flags; /* out */
	u8 xmm0[16];	/* in and out */
};

/** fp_string_call() - run a body with STUB_STR; @a, @b: 16 bytes each */
void fp_string_call(const void *a, const void *b, const u8 *body, struct fp_string *s);

/* x87: bodies of D8..DF, STUB_STEP bytes each: by (opcode & 7) * 64 + (modrm & 63)
 * for registers, by (opcode & 7) * 8 + reg for memory at (rsi). */
extern const u8 fp_x87_reg[], fp_x87_mem[];

/**
 * fp_x87_call() - run an x87 body on a guest image
 * @image:  16-byte aligned FXSAVE image with legal MXCSR: x87 part in and out
 * @body:   in fp_x87_reg or fp_x87_mem
 * @mem:    the memory operand
 * @rflags: arithmetic flags in and out (FCMOVcc, FCOMI)
 * Return:  RAX after the body (FNSTSW AX)
 * The host's control word is kept, its x87 stack is empty on return.
 */
u64 fp_x87_call(void *image, const u8 *body, void *mem, u64 *rflags);

#endif
