/* SPDX-License-Identifier: MIT */
/*
 * Read-modify-write of a memory operand, plain and LOCKed.
 *
 * The operation is a pure function of the old value; it may run several times
 * (compare-and-exchange lost), so it must not touch *c: flags go through @f,
 * the old value comes back in @old, and the caller commits both.
 */
#ifndef LOCUM_CPU_RMW_H
#define LOCUM_CPU_RMW_H

#include "cpu/operand.h"

/** rmw_fn - new value of the operand from @old; @f: flags in and out */
typedef u64 (*rmw_fn)(const struct cpu *c, const struct insn *i, u64 old, u64 src, u64 *f);

/** struct rmw - one read-modify-write
 * @lin, @n, @acc: where; @src: second operand for @fn
 * @flags: out: flags after it; @old: out: the value before */
struct rmw {
	gva_t lin;
	unsigned n, acc;
	rmw_fn fn;
	u64 src;
	u64 flags, old;
};

/** rmw_locked() - atomic with respect to every other vCPU and to the client;
 * operands across a cache line or in a device go by the VM-wide lock.
 * Return: EMUL_CONTINUE (written; @w's outputs valid), or as mmu_rmw(). */
enum emul rmw_locked(struct cpu *c, const struct insn *i, struct rmw *w) must_check;

/** rmw_unmapped() - plain read, compute, write: devices, tracked pages, page ends */
enum emul rmw_unmapped(struct cpu *c, const struct insn *i, struct rmw *w) must_check;

/** host_load(), host_store() - single access of @n bytes to guest RAM
 * SAFETY: @p is from mmu_rmw() or mmu_page(), valid for @n bytes until the
 * next call into mmu; other vCPUs and the client may write it at any time. */
static always_inline u64 host_load(const void *p, unsigned n)
{
	switch (n) {
	case 1:
		return __atomic_load_n((const u8 *)p, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const u16 *)p, __ATOMIC_RELAXED);
	case 4:
		return __atomic_load_n((const u32 *)p, __ATOMIC_RELAXED);
	default:
		return __atomic_load_n((const u64 *)p, __ATOMIC_RELAXED);
	}
}

static always_inline void host_store(void *p, unsigned n, u64 v)
{
	switch (n) {
	case 1:
		__atomic_store_n((u8 *)p, (u8)v, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((u16 *)p, (u16)v, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((u32 *)p, (u32)v, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((u64 *)p, v, __ATOMIC_RELAXED);
		break;
	}
}

/** rmw_host() - mmu_rmw() with a hit of the write table inline */
static always_inline enum emul rmw_host(struct cpu *c, gva_t lin, unsigned n, unsigned acc,
					void **p)
{
	u8 *hit = mmu_hit(c->mmu.tlb.wr, c->mmu.tlb.wr_mask, lin, n);

	if (likely(hit)) {
		*p = hit;
		return EMUL_CONTINUE;
	}
	return mmu_rmw(&c->mmu, lin, n, acc, p);
}

/** rmw_plain() - @i's memory operand = fn(operand, src), not locked; commits
 * the flags */
static always_inline enum emul rmw_plain(struct cpu *c, const struct insn *i, unsigned n,
					 rmw_fn fn, u64 src)
{
	struct rmw w;
	void *p;
	u64 f, v;
	gva_t lin;
	enum emul r = mem_linear(c, i, n, true, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = rmw_host(c, lin, n, insn_acc(i), &p);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (likely(p)) {
		f = c->aflags;
		v = fn(c, i, host_load(p, n), src, &f);
		host_store(p, n, v);
		c->aflags = f;
		return EMUL_CONTINUE;
	}
	w = (struct rmw){ .lin = lin, .n = n, .acc = insn_acc(i), .fn = fn, .src = src };
	r = rmw_unmapped(c, i, &w);
	if (r == EMUL_CONTINUE)
		c->aflags = w.flags;
	return r;
}

/** rmw_run() - either form, by INSN_LOCK or @lock; outputs in @w, nothing of
 * *c committed */
enum emul rmw_run(struct cpu *c, const struct insn *i, struct rmw *w, bool lock) must_check;

#endif
