/* SPDX-License-Identifier: MIT */
/*
 * Inline halves of mmu.h: a hit in the current tables.  Included by mmu.h.
 *
 * One compare decides: the right page, no page crossing, permission, RAM, no
 * tracking (struct tlb_entry).  The access itself is one of mem/access.h.
 */
#ifndef LOCUM_MMU_ACCESS_INC_H
#define LOCUM_MMU_ACCESS_INC_H

#include <string.h> /* for those who include mmu.h */

#include "mem/access.h"

/* Host address of [@gva, @gva + n) if it hits, else NULL. */
static always_inline u8 *mmu_hit(const struct tlb_entry *table, u32 mask, gva_t gva,
				 unsigned n)
{
	const struct tlb_entry *e = &table[tlb_index(gva, mask)];

	if (likely(gva + (n - 1) + e->negtag < PAGE_SIZE))
		return (u8 *)(uintptr_t)(gva + e->addend);
	return NULL;
}

#define MMU_READ(bits)                                                               \
	static inline enum emul mmu_read##bits(struct mmu *m, gva_t gva, u##bits *v, \
					       unsigned acc)                         \
	{                                                                            \
		u8 *p = acc & ACC_IMPLICIT                                           \
				? NULL                                               \
				: mmu_hit(m->tlb.rd, m->tlb.rd_mask, gva, bits / 8); \
                                                                                     \
		if (unlikely(!p))                                                    \
			return mmu_read_slow(m, gva, v, bits / 8, acc);              \
		*v = access_load##bits(p);                                           \
		return EMUL_CONTINUE;                                                \
	}
MMU_READ(8)
MMU_READ(16)
MMU_READ(32)
MMU_READ(64)
#undef MMU_READ

#define MMU_WRITE(bits)                                                              \
	static inline enum emul mmu_write##bits(struct mmu *m, gva_t gva, u##bits v, \
						unsigned acc)                        \
	{                                                                            \
		u8 *p = acc & ACC_IMPLICIT                                           \
				? NULL                                               \
				: mmu_hit(m->tlb.wr, m->tlb.wr_mask, gva, bits / 8); \
                                                                                     \
		if (unlikely(!p))                                                    \
			return mmu_write_slow(m, gva, &v, bits / 8, acc);            \
		access_store##bits(p, v);                                            \
		return EMUL_CONTINUE;                                                \
	}
MMU_WRITE(8)
MMU_WRITE(16)
MMU_WRITE(32)
MMU_WRITE(64)
#undef MMU_WRITE

static inline enum emul mmu_read(struct mmu *m, gva_t gva, void *dst, unsigned n,
				 unsigned acc)
{
	u8 *p = acc & ACC_IMPLICIT ? NULL : mmu_hit(m->tlb.rd, m->tlb.rd_mask, gva, n);

	if (unlikely(!p))
		return mmu_read_slow(m, gva, dst, n, acc);
	access_read(dst, p, n);
	return EMUL_CONTINUE;
}

static inline enum emul mmu_write(struct mmu *m, gva_t gva, const void *src, unsigned n,
				  unsigned acc)
{
	u8 *p = acc & ACC_IMPLICIT ? NULL : mmu_hit(m->tlb.wr, m->tlb.wr_mask, gva, n);

	if (unlikely(!p))
		return mmu_write_slow(m, gva, src, n, acc);
	access_write(p, src, n);
	return EMUL_CONTINUE;
}

#endif
