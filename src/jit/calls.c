/* SPDX-License-Identifier: MIT */
/*
 * What emitted code calls.  Compiled without vector instructions (mk/jit.mk):
 * the host's vector registers may be the guest's until they are saved.
 */
#include "cpu/fp.h"
#include "cpu/hostcpu.h"
#include "cpu/interp_int.h"
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

/* Is there nothing to be done before the instruction at c->rip? */
static bool goes_on(const struct cpu *c)
{
	return !interp_attn(c) && !c->halted && !c->shutdown && !c->pending_dbg &&
	       !interp_wants_step(c);
}

struct jit_go jit_native_lookup(struct cpu *c)
{
	u64 code = interp_attn(c) ? 0 : jumps_next(c);

	return (struct jit_go){ code ? 0 : JIT_LOOKUP, code };
}

struct jit_go jit_native_slow(struct cpu *c, const struct icode *e)
{
	bool vector = !c->jit.sse_off, branch = e->insn.flags & INSN_BRANCH;
	enum emul r;

	jit_vector_save(c);
	r = e->fn(c, &e->insn);
	if (!branch && (r == EMUL_CONTINUE || r == EMUL_END))
		c->rip += e->insn.len;
	if (r == EMUL_CONTINUE && !branch && !interp_attn(c) && (!vector || vector_load(c)))
		return (struct jit_go){ 0, 0 };
	count_back(c, e);
	if ((r == EMUL_CONTINUE || r == EMUL_END) && goes_on(c)) {
		u64 code;

		jit_see_mode(c);
		code = jumps_next(c);

		if (code)
			return (struct jit_go){ 0, code };
	}
	return (struct jit_go){ outcome(r), 0 };
}

struct jit_go jit_native_vector(struct cpu *c, const struct icode *e)
{
	bool avx = e->insn.flags & INSN_VEX;
	struct jit_go go;

	if ((!c->jit.sse_off || vector_load(c)) && !(avx && c->jit.avx_off))
		return (struct jit_go){ 0, 0 };
	/* What follows in the block counts on the registers: not from here. */
	go = jit_native_slow(c, e);
	if (go.exit || go.code)
		return go;
	count_back(c, e);
	return (struct jit_go){ outcome(EMUL_CONTINUE), 0 };
}
