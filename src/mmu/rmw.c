/* SPDX-License-Identifier: MIT */
/* Read-modify-write: one host pointer where there can be one, else in two halves
 * under the VM's lock of unsplittable accesses. */
#include <string.h>

#include "mem/access.h"
#include "mem/hostfault.h"
#include "mmu/resolve.h"

static bool crosses(gva_t gva, unsigned n)
{
	return (gva & ~PAGE_MASK) + n > PAGE_SIZE;
}

enum emul mmu_rmw(struct mmu *m, gva_t gva, unsigned n, unsigned acc, void **hva)
{
	struct target t;
	enum emul r;

	*hva = NULL;
	if (crosses(gva, n))
		return EMUL_CONTINUE;
	r = resolve_check(m, gva, n, acc);
	if (r == EMUL_CONTINUE)
		r = resolve_write(m, gva, n, acc, &t);
	if (r == EMUL_CONTINUE && t.hva && resolve_open(m, &t))
		*hva = t.hva;
	return r;
}

static enum emul begin_locked(struct mmu *m, gva_t gva, unsigned n, unsigned acc,
			      void *old)
{
	enum emul r;

	pthread_mutex_lock(&m->mem->rmw);
	hostfault_hold(&m->mem->rmw);
	r = mmu_read(m, gva, old, n, acc);
	if (r == EMUL_CONTINUE) {
		memcpy(m->rmw.old, old, n);
		return r;
	}
	hostfault_hold(NULL);
	pthread_mutex_unlock(&m->mem->rmw);
	return r;
}

enum emul mmu_rmw_begin(struct mmu *m, gva_t gva, unsigned n, unsigned acc, void *old)
{
	struct target t = {0};
	enum emul r;

	if (crosses(gva, n))
		r = mmu_probe_write(m, gva, n, acc);
	else
		r = resolve_check(m, gva, n, acc);
	if (r == EMUL_CONTINUE && !crosses(gva, n))
		r = resolve_write(m, gva, n, acc, &t);
	if (r != EMUL_CONTINUE)
		return r;
	m->rmw.gva = gva;
	m->rmw.n = n;
	m->rmw.acc = acc;
	m->rmw.target_hva = t.hva;
	m->rmw.slot = t.slot;
	m->rmw.page = t.page;
	m->rmw.bp = t.bp;
	return begin_locked(m, gva, n, acc, old);
}

#define CAS(bits)                                                                       \
	static bool cas##bits(void *p, const void *expect, const void *src)             \
	{                                                                               \
		u##bits old, new;                                                       \
                                                                                        \
		memcpy(&old, expect, sizeof(old));                                      \
		memcpy(&new, src, sizeof(new));                                         \
		return __atomic_compare_exchange_n((u##bits *)p, &old, new, false,      \
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	}
CAS(8)
CAS(16)
CAS(32)
CAS(64)

/* @p is 16-aligned: CMPXCHG16B asks for it, and so does the guest's. */
static bool cas128(void *p, const u8 *expect, const u8 *src)
{
	u64 old[2], new[2];
	bool ok;

	memcpy(old, expect, 16);
	memcpy(new, src, 16);
	asm volatile("lock cmpxchg16b %[mem]"
		     : [mem] "+m"(*(u128 *)p), "=@ccz"(ok), "+a"(old[0]), "+d"(old[1])
		     : "b"(new[0]), "c"(new[1])
		     : "memory");
	return ok;
}

/* Store @src if the memory still holds what mmu_rmw_begin() read. */
static bool compare_store(u8 *hva, unsigned n, const u8 *old, const u8 *src)
{
	u8 now[16];

	switch (n) {
	case 1:
		return cas8(hva, old, src);
	case 2:
		return cas16(hva, old, src);
	case 4:
		return cas32(hva, old, src);
	case 8:
		return cas64(hva, old, src);
	}
	if (n == 16 && IS_ALIGNED((uintptr_t)hva, 16))
		return cas128(hva, old, src);
	access_read(now, hva, n);
	if (memcmp(now, old, n))
		return false;
	access_write(hva, src, n);
	return true;
}

static enum emul end_in_ram(struct mmu *m, const void *src)
{
	struct target t = {.hva = m->rmw.target_hva, .bp = m->rmw.bp};

	if (!compare_store(t.hva, m->rmw.n, m->rmw.old, src))
		return EMUL_RETRY;
	if (m->rmw.slot)
		mem_mark_dirty(m->rmw.slot, m->rmw.page);
	resolve_written(m, &t, m->rmw.gva, m->rmw.n);
	return EMUL_CONTINUE;
}

enum emul mmu_rmw_end(struct mmu *m, const void *src)
{
	enum emul r = EMUL_CONTINUE;

	if (src && m->rmw.target_hva)
		r = end_in_ram(m, src);
	else if (src)
		r = mmu_write(m, m->rmw.gva, src, m->rmw.n, m->rmw.acc);
	hostfault_hold(NULL);
	pthread_mutex_unlock(&m->mem->rmw);
	return r;
}
