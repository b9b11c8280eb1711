/* SPDX-License-Identifier: MIT */
/*
 * Flags: conditions, and the way between RFLAGS and the host's flags.
 *
 * The arithmetic flags (c->aflags) are always the result of the host's own
 * instruction.  lahf and seto bring them into AX (SF ZF AF PF CF in AH, OF in
 * AL), add $127,%al and sahf put them back; both are several times cheaper
 * than pushf and popf, and need no stack below a red zone.
 */
#ifndef LOCUM_CPU_FLAGS_H
#define LOCUM_CPU_FLAGS_H

#include "cpu/state.h"

/* Assembly text: AX -> host flags, host flags -> AX.  Operand "a" is flags_ax(). */
#define FLAGS_LOAD "addb $127, %%al\n\tsahf\n\t"
#define FLAGS_SAVE "\n\tlahf\n\tseto %%al"

/** flags_ax() - RFLAGS' arithmetic bits as FLAGS_LOAD wants them in AX */
static inline u32 flags_ax(u64 aflags)
{
	return (u32)(((aflags & 0xff) << 8) | ((aflags >> 11) & 1));
}

/** flags_from_ax() - what FLAGS_SAVE left in AX, in RFLAGS' positions */
static inline u64 flags_from_ax(u32 ax)
{
	return ((ax >> 8) & 0xd5) | ((u64)(ax & 0xff) << 11);
}

/**
 * flags_cond() - is condition @cond (0..15, the low bits of Jcc) true?
 * With a constant @cond one or two tests remain.
 */
static always_inline bool flags_cond(u64 f, unsigned cond)
{
	bool r;

	switch (cond >> 1) {
	case 0:
		r = f & RF_OF;
		break;
	case 1:
		r = f & RF_CF;
		break;
	case 2:
		r = f & RF_ZF;
		break;
	case 3:
		r = f & (RF_CF | RF_ZF);
		break;
	case 4:
		r = f & RF_SF;
		break;
	case 5:
		r = f & RF_PF;
		break;
	case 6:
		r = ((f >> 7) ^ (f >> 11)) & 1;
		break;
	default:
		r = (((f >> 7) ^ (f >> 11)) & 1) || (f & RF_ZF);
		break;
	}
	return r != (bool)(cond & 1);
}

/**
 * cpu_set_rflags() - make @v the RFLAGS register, with every side effect
 *
 * Updates the class tables for AC and asks the owner for events when IF or the
 * like became set.  Which bits may change is the caller's business.  After it
 * an instruction must end its block (EMUL_END): TF and RF are seen at block
 * boundaries alone.
 */
void cpu_set_rflags(struct cpu *c, u64 v);

/** cpu_set_shadow() - start an interrupt shadow of one instruction
 * @kind: SHADOW_STI or SHADOW_MOVSS.  The instruction must return EMUL_END. */
void cpu_set_shadow(struct cpu *c, unsigned kind);

#endif
