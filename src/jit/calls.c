/* SPDX-License-Identifier: MIT */
/*
 * What emitted code calls.  Compiled without vector instructions (mk/jit.mk):
 * the host's vector registers may be the guest's until they are saved.
 */
#include "cpu/interp_int.h"
#include "jit/jit_int.h"

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
	bool vector = !c->jit.sse_off, x87 = !c->jit.x87_off, branch = e->insn.flags & INSN_BRANCH;
	enum emul r;

	jit_vector_save(c);
	r = e->fn(c, &e->insn);
	if (!branch && (r == EMUL_CONTINUE || r == EMUL_END))
		c->rip += e->insn.len;
	if (r == EMUL_CONTINUE && !branch && !interp_attn(c) && (!vector || jit_vector_load(c)) &&
	    (!x87 || jit_x87_load(c)))
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

/* What follows in the block counts on the registers: not from here. */
static struct jit_go without_registers(struct cpu *c, const struct icode *e)
{
	struct jit_go go = jit_native_slow(c, e);

	if (go.exit || go.code)
		return go;
	count_back(c, e);
	return (struct jit_go){ outcome(EMUL_CONTINUE), 0 };
}

struct jit_go jit_native_vector(struct cpu *c, const struct icode *e)
{
	bool avx = e->insn.flags & INSN_VEX;

	if ((!c->jit.sse_off || jit_vector_load(c)) && !(avx && c->jit.avx_off))
		return (struct jit_go){ 0, 0 };
	return without_registers(c, e);
}

struct jit_go jit_native_x87(struct cpu *c, const struct icode *e)
{
	if (!c->jit.x87_off || jit_x87_load(c))
		return (struct jit_go){ 0, 0 };
	return without_registers(c, e);
}
