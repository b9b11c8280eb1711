/* SPDX-License-Identifier: MIT */
/*
 * x87, MMX and SSE state of a vCPU, as the rest of the system sees it.
 *
 * cpu.fpu is a standard-format XSAVE image whose contents are always valid:
 * a component in its initial configuration is stored as such, and XSTATE_BV in
 * the image means nothing.  The x87 registers are in stack order (ST0 first),
 * MMX register n is physical register n, that is slot (n - TOP) & 7.
 * FIP, FDP and FOP are always those of the last non-control x87 instruction,
 * whatever the vendor's FXSAVE would show; their selectors are kept beside them.
 */
#ifndef LOCUM_CPU_FP_H
#define LOCUM_CPU_FP_H

#include "base/bug.h"
#include "cpu/state.h"

/** struct fp_image - the image in cpu.fpu; offsets are architectural */
struct fp_image {
	u16 fcw, fsw;
	u8 ftw; /* abridged: bit set = not empty, by physical register */
	u8 reserved0;
	u16 fop;
	u64 fip, fdp;
	u32 mxcsr, mxcsr_mask;
	u8 st[8][16];
	u8 xmm[16][16];
	u8 reserved1[92];
	u16 fcs, fds; /* ours: selectors that go with fip and fdp; zero in images given
			 out */
	u64 xstate_bv, xcomp_bv;
	u64 reserved2[6];
	u8 ymmh[16][16]; /* bits 255:128 */
} __attribute__((aligned(64)));

BUILD_BUG_ON(offsetof(struct fp_image, st) != 32);
BUILD_BUG_ON(offsetof(struct fp_image, xmm) != 160);
BUILD_BUG_ON(offsetof(struct fp_image, fcs) != 508);
BUILD_BUG_ON(offsetof(struct fp_image, xstate_bv) != 512);
BUILD_BUG_ON(sizeof(struct fp_image) > FPU_AREA_SIZE);

#define FP_LEGACY_SIZE 512
#define FP_HEADER_SIZE 64
#define FP_AVX_OFFSET  576 /* the host's, as every processor has it */
#define FP_AVX_SIZE    256
#define FP_AVX_END     (FP_AVX_OFFSET + FP_AVX_SIZE)

#define XFEATURE_X87 BIT64(0)
#define XFEATURE_SSE BIT64(1)
#define XFEATURE_AVX BIT64(2)

BUILD_BUG_ON(offsetof(struct fp_image, ymmh) != FP_AVX_OFFSET);

#define FSW_ES	 BIT(7)
#define FSW_TOP	 0x3800u
#define FSW_B	 BIT(15)
#define FP_FLAGS 0x3fu /* the six exceptions in FSW, FCW (masks) and MXCSR */

#define MXCSR_DAZ   BIT(6)
#define MXCSR_MASKS 0x1f80u
#define MXCSR_FZ    BIT(15)
#define MXCSR_MM    BIT(17) /* AMD: misaligned operands are allowed */
#define MXCSR_INIT  0x1f80u

static inline struct fp_image *cpu_fp(struct cpu *c)
{
	return (struct fp_image *)c->fpu;
}

/** fp_mm() - where MMX register @n (0..7) lives */
static inline u8 *fp_mm(struct fp_image *f, unsigned n)
{
	return f->st[(n - ((f->fsw & FSW_TOP) >> 11)) & 7];
}

/** fp_enter_mmx() - what every MMX instruction does: TOP = 0, all tags valid */
void fp_enter_mmx(struct fp_image *f);

/** fp_mmx_store_faults() - the store of an MMX register faulted: Intel's processors
 * have made TOP zero by then, AMD's have not */
void fp_mmx_store_faults(struct cpu *c);

/** fp_reset() - x87 and SSE as KVM creates a vCPU: FCW 037F, MXCSR 1F80, all
 * registers zero and empty.  Not done by INIT. */
void fp_reset(struct cpu *c);

/** fp_mxcsr_mask() - the MXCSR bits that @c may set (what FXSAVE stores) */
u32 fp_mxcsr_mask(const struct cpu *c);

/**
 * fp_get_xsave() - copy the state as a standard XSAVE image (KVM_GET_XSAVE)
 * @out: at least fp_xsave_size() bytes; the header and all components are written
 */
void fp_get_xsave(struct cpu *c, void *out);

/**
 * fp_set_xsave() - replace the state by a standard XSAVE image (KVM_SET_XSAVE)
 * @in: fp_xsave_size() bytes; components absent from XSTATE_BV are initialised
 * Without any component MXCSR becomes initial too.
 * Return: 0, or -EINVAL (nothing changed) for a component that this machine
 * does not have, a compacted image, reserved bits in the header or in MXCSR.
 */
int fp_set_xsave(struct cpu *c, const void *in) must_check;

/** fp_xsave_size() - bytes of an image with the components of @xcr0, standard or
 * compacted */
unsigned fp_xsave_size(u64 xcr0);

/** fp_supported_xcr0() - the components that this machine can offer: x87 and SSE;
 * AVX where the host has it */
u64 fp_supported_xcr0(void);

/** fp_normalise() - bring FCW, FSW, MXCSR of an image that a client wrote into
 * legal form (reserved bits, ES), so that it can be loaded */
void fp_normalise(struct cpu *c);

#endif
