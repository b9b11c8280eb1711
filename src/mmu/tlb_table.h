/* SPDX-License-Identifier: MIT */
/* Inside of the TLB: what its files share. */
#ifndef LOCUM_MMU_TLB_TABLE_H
#define LOCUM_MMU_TLB_TABLE_H

#include "mmu/tlb.h"

static const u8 tlb_size_shift[TLB_SIZES] = {12, 21, 22, 30};

/* Page of @size around @gva, as a number that no page of another size has. */
static inline u64 tlb_page(u64 gva, enum tlb_size size)
{
	return gva >> tlb_size_shift[size] | (u64)size << 62;
}

static inline u64 tlb_page_hash64(u64 gva, enum tlb_size size)
{
	return tlb_page(gva, size) * 0x9e3779b97f4a7c15ull;
}

static inline u32 bpage_hash(const struct bpage *bp)
{
	return (u32)((u64)(uintptr_t)bp * 0x9e3779b97f4a7c15ull >> 49);
}

/* May there be a write entry for @bp?  Another page's may share the bucket. */
static inline bool tlb_may_have_writes(const struct tlb *t, const struct bpage *bp)
{
	return t->write_pages[bpage_hash(bp)];
}

/* Bucket of that page in a filter of TLB_HASH. */
static inline u32 tlb_page_hash(u64 gva, enum tlb_size size)
{
	return (u32)(tlb_page_hash64(gva, size) >> 52);
}

/* Bucket of that page in tlb_space.code_pages.  What the kernel runs must not make
 * an invalidation in a program look like one of code: all code of the space would
 * be looked up again. */
static inline u32 tlb_code_hash(u64 gva, enum tlb_size size)
{
	_Static_assert(TLB_CODE_HASH == 2 << 14, "the hash's upper 14 bits and the half");

	return (u32)(tlb_page_hash64(gva, size) >> 50) | (u32)(gva >> 63) << 14;
}

/* Bucket in tlb_table.large of a page that is not of 4K.  Neighbours have one each,
 * and the two halves of the addresses do not meet: a kernel maps all memory with
 * large pages, and programs' pages go one by one. */
static inline u16 *tlb_large(struct tlb_table *tab, u64 gva, enum tlb_size size)
{
	u32 half = TLB_LARGE / 2, page = (u32)(gva >> tlb_size_shift[size]) & (half - 1);

	return &tab->large[size - 1][page + (u32)(gva >> 63) * half];
}

static inline size_t table_entry_size(enum tlb_kind kind)
{
	return kind == TLB_CODE ? sizeof(struct tlb_code_entry)
				: sizeof(struct tlb_entry);
}

/* The tag comes first in both kinds of entry. */
static inline u64 *table_negtag(const struct tlb_table *tab, enum tlb_kind kind, u32 i)
{
	return (u64 *)(void *)((u8 *)tab->entry + i * table_entry_size(kind));
}

/* Page address in slot @i, or that of tlb_empty(). */
static inline u64 table_gva(const struct tlb_table *tab, enum tlb_kind kind, u32 i)
{
	return -*table_negtag(tab, kind, i);
}

static inline bool table_is_empty(const struct tlb_table *tab, enum tlb_kind kind, u32 i)
{
	return *table_negtag(tab, kind, i) == tlb_empty(i);
}

/** table_make() - empty table of @size slots; false without memory, with @tab as
 * it was */
bool table_make(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind, u32 size);
/** table_free() - drops the entries first */
void table_free(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind);
/** table_drop() - empty slot @i, which is not empty; filters follow */
void table_drop(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind, u32 i);
/** table_clear() - drop all entries, or all that are not global.
 * Return: how many; the cost is proportional to what the table holds. */
u32 table_clear(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind, bool globals);

/** class_clear() - table_clear() of all three */
u32 class_clear(struct tlb *t, struct tlb_class *c, bool globals);

/** tlb_publish() - refresh rd, wr and their masks from the current class */
void tlb_publish(struct tlb *t);

/** l2_forget() - @s's entries in the second level go; l2_forget_globals() -
 * those that the spaces of @g share.  Return: how many. */
u32 l2_forget(struct tlb *t, struct tlb_space *s);
u32 l2_forget_globals(struct tlb *t, struct tlb_group *g);
/** space_code_changed() - code translations of @s may have gone */
void space_code_changed(struct tlb *t, struct tlb_space *s);
/** l2_drop() - the entry of the page around @gva under @tag.  Return: 0 or 1 */
u32 l2_drop(struct tlb *t, u64 tag, u64 gva);

#endif
