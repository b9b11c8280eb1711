/* SPDX-License-Identifier: MIT */
/*
 * Integer operations on the host's own instructions.
 *
 * Each takes the destination as a full 64-bit register and gives back the full
 * register: writing 32 bits clears the upper half, writing 8 or 16 keeps the
 * rest, because the host's instruction does.  @n (bytes) and @op are constants
 * at every call, so one instruction remains.  @f: arithmetic flags in RFLAGS'
 * positions, in and out.
 */
#ifndef LOCUM_CPU_ALU_H
#define LOCUM_CPU_ALU_H

#include "cpu/flags.h"

enum alu_op {
	ALU_ADD, ALU_OR, ALU_ADC, ALU_SBB, ALU_AND, ALU_SUB, ALU_XOR, ALU_CMP,
	ALU_TEST,
	ALU_OPS
};

enum shift_op {
	SHIFT_ROL, SHIFT_ROR, SHIFT_RCL, SHIFT_RCR, SHIFT_SHL, SHIFT_SHR, SHIFT_SAL, SHIFT_SAR
};

/* d = d INS s; flags out only. */
#define ALU_ASM(INS, SFX, MOD)                                                 \
	asm(INS SFX " %" MOD "[s], %" MOD "[d]" FLAGS_SAVE                     \
	    : [d] "+r"(d), "=a"(ax)                                            \
	    : [s] "r"(s)                                                       \
	    : "cc")

/* d = d INS s + CF; flags in and out. */
#define ALU_ASM_CF(INS, SFX, MOD)                                              \
	asm(FLAGS_LOAD INS SFX " %" MOD "[s], %" MOD "[d]" FLAGS_SAVE          \
	    : [d] "+&r"(d), "+&a"(ax)                                          \
	    : [s] "r"(s)                                                       \
	    : "cc")

#define ALU_SIZES(ASM, INS)                                                    \
	switch (n) {                                                           \
	case 1:                                                                \
		ASM(INS, "b", "b");                                            \
		break;                                                         \
	case 2:                                                                \
		ASM(INS, "w", "w");                                            \
		break;                                                         \
	case 4:                                                                \
		ASM(INS, "l", "k");                                            \
		break;                                                         \
	default:                                                               \
		ASM(INS, "q", "q");                                            \
		break;                                                         \
	}                                                                      \
	break

static always_inline u64 alu_exec(unsigned op, unsigned n, u64 d, u64 s, u64 *f)
{
	u32 ax = flags_ax(*f);

	switch (op) {
	case ALU_ADD:
		ALU_SIZES(ALU_ASM, "add");
	case ALU_OR:
		ALU_SIZES(ALU_ASM, "or");
	case ALU_ADC:
		ALU_SIZES(ALU_ASM_CF, "adc");
	case ALU_SBB:
		ALU_SIZES(ALU_ASM_CF, "sbb");
	case ALU_AND:
		ALU_SIZES(ALU_ASM, "and");
	case ALU_SUB:
		ALU_SIZES(ALU_ASM, "sub");
	case ALU_XOR:
		ALU_SIZES(ALU_ASM, "xor");
	case ALU_CMP:
		ALU_SIZES(ALU_ASM, "cmp");
	default:
		ALU_SIZES(ALU_ASM, "test");
	}
	*f = flags_from_ax(ax);
	return d;
}

enum unary_op { UNARY_INC, UNARY_DEC, UNARY_NEG, UNARY_NOT };

/* inc and dec keep CF, not keeps all: the host's instructions do. */
#define UNARY_ASM(INS, SFX, MOD)                                               \
	asm(FLAGS_LOAD INS SFX " %" MOD "[d]" FLAGS_SAVE                       \
	    : [d] "+&r"(d), "+&a"(ax)                                          \
	    :                                                                  \
	    : "cc")

static always_inline u64 alu_unary(unsigned op, unsigned n, u64 d, u64 *f)
{
	u32 ax = flags_ax(*f);

	switch (op) {
	case UNARY_INC:
		ALU_SIZES(UNARY_ASM, "inc");
	case UNARY_DEC:
		ALU_SIZES(UNARY_ASM, "dec");
	case UNARY_NEG:
		ALU_SIZES(UNARY_ASM, "neg");
	default:
		ALU_SIZES(UNARY_ASM, "not");
	}
	*f = flags_from_ax(ax);
	return d;
}

/* The host masks the count and takes RCL/RCR modulo 9 and 17 itself; a count
 * of zero leaves the flags that FLAGS_LOAD put there. */
#define SHIFT_ASM(INS, SFX, MOD)                                               \
	asm(FLAGS_LOAD INS SFX " %%cl, %" MOD "[d]" FLAGS_SAVE                 \
	    : [d] "+&r"(d), "+&a"(ax)                                          \
	    : "c"(count)                                                       \
	    : "cc")

static always_inline u64 alu_shift(unsigned op, unsigned n, u64 d, u64 count, u64 *f)
{
	u32 ax = flags_ax(*f);

	switch (op) {
	case SHIFT_ROL:
		ALU_SIZES(SHIFT_ASM, "rol");
	case SHIFT_ROR:
		ALU_SIZES(SHIFT_ASM, "ror");
	case SHIFT_RCL:
		ALU_SIZES(SHIFT_ASM, "rcl");
	case SHIFT_RCR:
		ALU_SIZES(SHIFT_ASM, "rcr");
	case SHIFT_SHL:
	case SHIFT_SAL:
		ALU_SIZES(SHIFT_ASM, "shl");
	case SHIFT_SHR:
		ALU_SIZES(SHIFT_ASM, "shr");
	default:
		ALU_SIZES(SHIFT_ASM, "sar");
	}
	*f = flags_from_ax(ax);
	return d;
}

#define SHIFTD_ASM(INS, SFX, MOD)                                              \
	asm(FLAGS_LOAD INS SFX " %%cl, %" MOD "[s], %" MOD "[d]" FLAGS_SAVE    \
	    : [d] "+&r"(d), "+&a"(ax)                                          \
	    : [s] "r"(s), "c"(count)                                           \
	    : "cc")

#define SHIFTD_SIZES(INS)                                                      \
	switch (n) {                                                           \
	case 2:                                                                \
		SHIFTD_ASM(INS, "w", "w");                                     \
		break;                                                         \
	case 4:                                                                \
		SHIFTD_ASM(INS, "l", "k");                                     \
		break;                                                         \
	default:                                                               \
		SHIFTD_ASM(INS, "q", "q");                                     \
		break;                                                         \
	}

/** alu_shiftd() - SHLD (@left) or SHRD; @n is 2, 4 or 8 */
static always_inline u64 alu_shiftd(bool left, unsigned n, u64 d, u64 s, u64 count, u64 *f)
{
	u32 ax = flags_ax(*f);

	if (left)
		SHIFTD_SIZES("shld")
	else
		SHIFTD_SIZES("shrd")
	*f = flags_from_ax(ax);
	return d;
}

#endif
