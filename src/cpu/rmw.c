/* SPDX-License-Identifier: MIT */
#include "cpu/rmw.h"

#include <stdint.h>

#define HOST_LINE 64

static bool host_cas(void *p, unsigned n, u64 *old, u64 v)
{
	switch (n) {
	case 1: {
		u8 o = (u8)*old;
		bool ok = __atomic_compare_exchange_n((u8 *)p, &o, (u8)v, false,
						      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

		*old = o;
		return ok;
	}
	case 2: {
		u16 o = (u16)*old;
		bool ok = __atomic_compare_exchange_n((u16 *)p, &o, (u16)v, false,
						      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

		*old = o;
		return ok;
	}
	case 4: {
		u32 o = (u32)*old;
		bool ok = __atomic_compare_exchange_n((u32 *)p, &o, (u32)v, false,
						      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

		*old = o;
		return ok;
	}
	default:
		return __atomic_compare_exchange_n((u64 *)p, old, v, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
}

/* One cache line: the host's LOCK does not split, which would be slow, and
 * with split-lock detection a trap. */
static bool in_one_line(const void *p, unsigned n)
{
	return ((uintptr_t)p & (HOST_LINE - 1)) + n <= HOST_LINE;
}

static enum emul locked_slow(struct cpu *c, const struct insn *i, struct rmw *w)
{
	u64 v;
	enum emul r;

	w->old = 0;
	r = mmu_rmw_begin(&c->mmu, w->lin, w->n, w->acc | ACC_LOCKED, &w->old);
	if (r != EMUL_CONTINUE)
		return r;
	w->flags = c->aflags;
	v = w->fn(c, i, w->old, w->src, &w->flags);
	return mmu_rmw_end(&c->mmu, &v);
}

enum emul rmw_locked(struct cpu *c, const struct insn *i, struct rmw *w)
{
	void *p;
	u64 v;
	enum emul r = rmw_host(c, w->lin, w->n, w->acc | ACC_LOCKED, &p);

	if (r != EMUL_CONTINUE)
		return r;
	if (!p || !in_one_line(p, w->n))
		return locked_slow(c, i, w);
	w->old = host_load(p, w->n);
	do {
		w->flags = c->aflags;
		v = w->fn(c, i, w->old, w->src, &w->flags);
	} while (!host_cas(p, w->n, &w->old, v));
	return EMUL_CONTINUE;
}

enum emul rmw_unmapped(struct cpu *c, const struct insn *i, struct rmw *w)
{
	u64 v;
	enum emul r;

	/* A missing page is reported as a write, whichever half of the operand
	 * it holds. */
	r = mmu_probe_write(&c->mmu, w->lin, w->n, w->acc);
	if (r != EMUL_CONTINUE)
		return r;
	w->old = 0;
	r = mmu_read(&c->mmu, w->lin, &w->old, w->n, w->acc);
	if (r != EMUL_CONTINUE)
		return r;
	w->flags = c->aflags;
	v = w->fn(c, i, w->old, w->src, &w->flags);
	return mmu_write(&c->mmu, w->lin, &v, w->n, w->acc);
}

enum emul rmw_run(struct cpu *c, const struct insn *i, struct rmw *w, bool lock)
{
	void *p;
	u64 v;
	enum emul r;

	if (lock || i->flags & INSN_LOCK)
		return rmw_locked(c, i, w);
	r = rmw_host(c, w->lin, w->n, w->acc, &p);
	if (r != EMUL_CONTINUE)
		return r;
	if (!p)
		return rmw_unmapped(c, i, w);
	w->old = host_load(p, w->n);
	w->flags = c->aflags;
	v = w->fn(c, i, w->old, w->src, &w->flags);
	host_store(p, w->n, v);
	return EMUL_CONTINUE;
}
