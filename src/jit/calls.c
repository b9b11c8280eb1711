/* SPDX-License-Identifier: MIT */
/*
 * What emitted code calls.  Compiled without vector instructions (mk/jit.mk):
 * the host's vector registers may be the guest's until they are saved.
 */
#include "cpu/fp.h"
#include "cpu/hostcpu.h"
#include "jit/jit_int.h"

#define VECTOR_PARTS (XFEATURE_SSE | XFEATURE_AVX)

void jit_vector_save(struct cpu *c)
{
	if (c->jit.sse_off)
		return;
	__asm__ volatile("xsave64 %0" : "+m"(c->fpu) : "a"((u32)VECTOR_PARTS), "d"(0) : "memory");
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

/* The guest's vector registers into the host's.  False: not now. */
static bool vector_load(struct cpu *c)
{
	struct fp_image *f = cpu_fp(c);

	if (!sse_enabled(c))
		return false;
	__asm__ volatile("stmxcsr %0" : "=m"(c->translator->host_mxcsr));
	f->xstate_bv = XFEATURE_X87 | VECTOR_PARTS;
	f->xcomp_bv = 0;
	f->reserved2[0] = 0;
	__asm__ volatile("xrstor64 %0" : : "m"(c->fpu), "a"((u32)VECTOR_PARTS), "d"(0) : "memory");
	c->jit.sse_off = 0;
	c->jit.avx_off = !avx_enabled(c);
	return true;
}

static u64 outcome(enum emul r)
{
	return JIT_OUTCOME | (u64)r << 8;
}

/* The block was counted as a whole when it began. */
static void count_back(struct cpu *c, const struct icode *e)
{
	const struct block *b = (const struct block *)(uintptr_t)c->jit.tmp[1];

	if (c->translator->count)
		c->jit.blocks_n -= (u64)(b->code + b->n - 1 - e);
}

u64 jit_native_slow(struct cpu *c, const struct icode *e)
{
	bool vector = !c->jit.sse_off, branch = e->insn.flags & INSN_BRANCH;
	enum emul r;

	jit_vector_save(c);
	r = e->fn(c, &e->insn);
	if (!branch && (r == EMUL_CONTINUE || r == EMUL_END))
		c->rip += e->insn.len;
	if (r == EMUL_CONTINUE && !branch &&
	    !__atomic_load_n((const u32 *)&c->attn, __ATOMIC_RELAXED) &&
	    (!vector || vector_load(c)))
		return 0;
	count_back(c, e);
	return outcome(r);
}

u64 jit_native_vector(struct cpu *c, const struct icode *e)
{
	bool avx = e->insn.flags & INSN_VEX;
	u64 r;

	if ((!c->jit.sse_off || vector_load(c)) && !(avx && c->jit.avx_off))
		return 0;
	/* What follows in the block counts on the registers: not from here. */
	r = jit_native_slow(c, e);
	if (r)
		return r;
	count_back(c, e);
	return outcome(EMUL_CONTINUE);
}
