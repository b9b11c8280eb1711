/* SPDX-License-Identifier: MIT */
/*
 * Vector and x87 registers: the guest's in the host's, or in struct cpu.
 * Compiled without vector instructions (mk/jit.mk).
 *
 * Each of the two parts is loaded when translated code first needs it, if the
 * guest may use it now and nothing in it can raise an exception; both are saved
 * before C code runs.  FIP, FDP and FOP never leave the image: the host would
 * note its own, or none.
 */
#include "cpu/fp.h"
#include "jit/jit_int.h"

#define VECTOR_PARTS (XFEATURE_SSE | XFEATURE_AVX)

static void save(struct cpu *c, u32 parts)
{
	__asm__ volatile("xsave64 %0" : "+m"(c->fpu) : "a"(parts), "d"(0) : "memory");
}

static void load(struct cpu *c, u32 parts)
{
	struct fp_image *f = cpu_fp(c);

	f->xstate_bv = XFEATURE_X87 | VECTOR_PARTS;
	f->xcomp_bv = 0;
	f->reserved2[0] = 0;
	__asm__ volatile("xrstor64 %0" : : "m"(c->fpu), "a"(parts), "d"(0) : "memory");
}

static void save_x87(struct cpu *c, u32 parts)
{
	struct fp_image *f = cpu_fp(c);
	u64 fip = f->fip, fdp = f->fdp;
	u16 fop = f->fop;

	save(c, parts);
	f->fip = fip;
	f->fdp = fdp;
	f->fop = fop;
	__asm__ volatile("fninit\n\tfldcw %0" : : "m"(c->translator->host_fcw));
	c->jit.x87_off = 1;
}

void jit_vector_save(struct cpu *c)
{
	u32 parts = c->jit.sse_off ? 0 : VECTOR_PARTS;

	if (!c->jit.x87_off)
		save_x87(c, parts | XFEATURE_X87);
	else if (parts)
		save(c, parts);
	if (!parts)
		return;
	__asm__ volatile("ldmxcsr %0" : : "m"(c->translator->host_mxcsr));
	c->jit.sse_off = c->jit.avx_off = 1;
}

static bool sse_enabled(struct cpu *c)
{
	u32 mxcsr = cpu_fp(c)->mxcsr;

	/* An exception that is not masked is raised by the interpreter. */
	return !(c->mmu.cr0 & (CR0_EM | CR0_TS)) && c->mmu.cr4 & CR4_OSFXSR &&
	       (mxcsr & MXCSR_MASKS) == MXCSR_MASKS && !(mxcsr >> 16);
}

static bool avx_enabled(const struct cpu *c)
{
	return c->mmu.cr4 & CR4_OSXSAVE && (c->xcr0 & VECTOR_PARTS) == VECTOR_PARTS;
}

bool jit_vector_load(struct cpu *c)
{
	if (!sse_enabled(c))
		return false;
	__asm__ volatile("stmxcsr %0" : "=m"(c->translator->host_mxcsr));
	load(c, VECTOR_PARTS);
	c->jit.sse_off = 0;
	c->jit.avx_off = !avx_enabled(c);
	return true;
}

/* Selectors other than zero are AMD's: where they are not kept, the interpreter
 * runs what clears them. */
static bool x87_enabled(struct cpu *c)
{
	const struct fp_image *f = cpu_fp(c);

	return !(c->mmu.cr0 & (CR0_EM | CR0_TS)) && (f->fcw & FP_FLAGS) == FP_FLAGS &&
	       !(f->fsw & FSW_ES) && (c->vendor == VENDOR_AMD || !(f->fcs | f->fds));
}

bool jit_x87_load(struct cpu *c)
{
	if (!x87_enabled(c))
		return false;
	__asm__ volatile("fnstcw %0" : "=m"(c->translator->host_fcw));
	load(c, XFEATURE_X87);
	c->jit.x87_off = 0;
	return true;
}

u64 jit_enter_with(struct cpu *c, const void *code, bool vector, bool x87)
{
	if ((vector && !jit_vector_load(c)) || (x87 && !jit_x87_load(c)))
		return JIT_LOOKUP;
	return c->translator->enter(c, code);
}
