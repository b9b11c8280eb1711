/* SPDX-License-Identifier: MIT */
/* The x87 and SSE image: reset, normal form, and how clients read and write it. */
#include <errno.h>
#include <string.h>

#include "cpu/fp.h"
#include "cpu/fp_image.h"
#include "cpu/fp_stub.h"
#include "cpu/hostcpu.h"

#define FCW_INIT	   0x037f
#define FCW_KEPT	   0x1f3f /* writable bits; bit 6 is always one */
#define FCW_ONE		   0x0040
#define MXCSR_MASK_DEFAULT 0xffbfu /* where FXSAVE stores a mask of zero */

/* What the host's FXSAVE stores as its MXCSR mask. */
static u32 host_mxcsr_mask(void)
{
	static u32 cached; /* a constant of the host */
	u32 mask = __atomic_load_n(&cached, __ATOMIC_RELAXED);

	if (!mask) {
		struct fp_image f;

		memset(&f, 0, sizeof(f));
		__asm__ volatile("fxsave64 %0" : "+m"(f));
		mask = f.mxcsr_mask ? f.mxcsr_mask : MXCSR_MASK_DEFAULT;
		__atomic_store_n(&cached, mask, __ATOMIC_RELAXED);
	}
	return mask;
}

/*
 * How many bits of FIP and FDP the host keeps: what a 64-bit FXRSTOR loads is
 * sign-extended from the highest one.  Seen through FENI, which does nothing, and
 * with an exception pending, since AMD's processors hide the pointers otherwise.
 */
static unsigned host_pointer_bits(void)
{
	static u32 cached; /* a constant of the host */
	u32 bits = __atomic_load_n(&cached, __ATOMIC_RELAXED);

	if (!bits) {
		const u8 *feni = fp_x87_reg + (3 * 64 + 0x20) * STUB_STEP;
		struct fp_image f;
		u64 rflags = 0;

		memset(&f, 0, sizeof(f));
		f.fcw = FCW_INIT & ~1;
		f.fsw = FSW_ES | FSW_B | 1;
		f.mxcsr = MXCSR_INIT;
		f.fip = BIT64(56);
		fp_x87_call(&f, feni, NULL, &rflags);
		bits = f.fip == BIT64(56) ? 64 : f.fip ? 57 : 48;
		__atomic_store_n(&cached, bits, __ATOMIC_RELAXED);
	}
	return bits;
}

u64 fp_image_pointer(u64 v)
{
	return bits_sext(v, host_pointer_bits());
}

u32 fp_mxcsr_mask(const struct cpu *c)
{
	return host_mxcsr_mask() & (c->vendor == VENDOR_AMD ? ~0u : ~MXCSR_MM);
}

static void top_to_zero(struct fp_image *f)
{
	unsigned top = (f->fsw & FSW_TOP) >> 11;

	if (top) {
		u8 old[8][16];

		memcpy(old, f->st, sizeof(old));
		for (unsigned n = 0; n < 8; n++)
			memcpy(f->st[n], old[(n - top) & 7], 16);
		f->fsw &= (u16)~FSW_TOP;
	}
}

void fp_enter_mmx(struct fp_image *f)
{
	top_to_zero(f);
	f->ftw = 0xff;
}

void fp_mmx_store_faults(struct cpu *c)
{
	if (c->vendor == VENDOR_INTEL)
		top_to_zero(cpu_fp(c));
}

void fp_image_normalise_x87(struct fp_image *f)
{
	u32 pending;

	f->fcw = (f->fcw & FCW_KEPT) | FCW_ONE;
	pending = f->fsw & ~f->fcw & FP_FLAGS;
	f->fsw &= (u16) ~(FSW_ES | FSW_B);
	if (pending)
		f->fsw |= FSW_ES | FSW_B;
	f->fop &= 0x7ff;
	f->reserved0 = 0;
	for (unsigned n = 0; n < 8; n++)
		memset(f->st[n] + 10, 0, 6);
}

void fp_image_init_x87(struct fp_image *f)
{
	f->fcw = FCW_INIT;
	f->fsw = 0;
	f->ftw = 0;
	f->fop = 0;
	f->fip = f->fdp = 0;
	f->fcs = f->fds = 0;
	memset(f->st, 0, sizeof(f->st));
}

void fp_image_init_sse(struct fp_image *f)
{
	memset(f->xmm, 0, sizeof(f->xmm));
}

void fp_image_init_avx(struct fp_image *f)
{
	memset(f->ymmh, 0, sizeof(f->ymmh));
}

static bool all_zero(const void *p, size_t n)
{
	const u8 *b = p;

	return !b[0] && !memcmp(b, b + 1, n - 1);
}

/* The pointers do not count: a processor that does not save them cannot tell. */
u64 fp_image_in_use(const struct fp_image *f)
{
	u64 bv = 0;

	if (f->fcw != FCW_INIT || f->fsw || f->ftw || !all_zero(f->st, sizeof(f->st)))
		bv |= XFEATURE_X87;
	if (!all_zero(f->xmm, sizeof(f->xmm)))
		bv |= XFEATURE_SSE;
	if (!all_zero(f->ymmh, sizeof(f->ymmh)))
		bv |= XFEATURE_AVX;
	return bv;
}

u64 fp_in_use_compact(const struct fp_image *f)
{
	return fp_image_in_use(f) | (f->mxcsr != MXCSR_INIT ? XFEATURE_SSE : 0);
}

void fp_reset(struct cpu *c)
{
	struct fp_image *f = cpu_fp(c);

	memset(c->fpu, 0, sizeof(c->fpu));
	f->fcw = FCW_INIT;
	f->mxcsr = MXCSR_INIT;
	f->mxcsr_mask = fp_mxcsr_mask(c);
}

void fp_normalise(struct cpu *c)
{
	struct fp_image *f = cpu_fp(c);

	fp_image_normalise_x87(f);
	f->mxcsr &= fp_mxcsr_mask(c);
	f->mxcsr_mask = fp_mxcsr_mask(c);
	f->fcs = f->fds = 0;
}

u64 fp_supported_xcr0(void)
{
	return XFEATURE_X87 | XFEATURE_SSE | (hostcpu()->avx ? XFEATURE_AVX : 0);
}

unsigned fp_xsave_size(u64 xcr0)
{
	return xcr0 & XFEATURE_AVX ? FP_AVX_END : FP_LEGACY_SIZE + FP_HEADER_SIZE;
}

void fp_get_xsave(struct cpu *c, void *out)
{
	struct fp_image *f = cpu_fp(c), o; /* @out may be unaligned */

	f->mxcsr_mask = fp_mxcsr_mask(c);
	o = *f;
	memset((u8 *)&o + FP_LEGACY_SIZE, 0, FP_HEADER_SIZE);
	o.fcs = o.fds = 0;
	/* Every component is there, those in their initial state too. */
	o.xstate_bv = fp_supported_xcr0();
	memcpy(out, &o, fp_xsave_size(o.xstate_bv));
}

/* The header and MXCSR, as KVM judges them: MXCSR only where a component is
 * loaded. */
static bool image_ok(const struct cpu *c, const struct fp_image *s)
{
	if (s->xcomp_bv || (s->xstate_bv & ~fp_supported_xcr0()))
		return false;
	for (unsigned n = 0; n < ARRAY_SIZE(s->reserved2); n++)
		if (s->reserved2[n])
			return false;
	return !s->xstate_bv || !(s->mxcsr & ~fp_mxcsr_mask(c));
}

int fp_set_xsave(struct cpu *c, const void *in)
{
	struct fp_image copy; /* @in may be unaligned */
	const struct fp_image *s = &copy;
	struct fp_image *f = cpu_fp(c);

	memcpy(&copy, in, fp_xsave_size(fp_supported_xcr0()));
	if (!image_ok(c, s))
		return -EINVAL;
	if (s->xstate_bv & XFEATURE_X87) {
		memcpy(f, s, offsetof(struct fp_image, mxcsr));
		memcpy(f->st, s->st, sizeof(f->st));
	} else {
		fp_image_init_x87(f);
	}
	if (s->xstate_bv & XFEATURE_SSE)
		memcpy(f->xmm, s->xmm, sizeof(f->xmm));
	else
		fp_image_init_sse(f);
	if (s->xstate_bv & XFEATURE_AVX)
		memcpy(f->ymmh, s->ymmh, sizeof(f->ymmh));
	else
		fp_image_init_avx(f);
	f->mxcsr = s->xstate_bv ? s->mxcsr : MXCSR_INIT;
	fp_normalise(c);
	return 0;
}
