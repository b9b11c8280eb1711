/* SPDX-License-Identifier: MIT */
/* One direct-mapped table of the TLB: making, filling, growing, dropping. */
#include "mmu/tlb_table.h"

#include <string.h>

#include "base/pages.h"

/* One block: entries, backing pages of write entries, a byte each. */
static size_t table_bytes(enum tlb_kind kind, u32 size)
{
	size_t each = table_entry_size(kind) + 1 +
		      (kind == TLB_WRITE ? sizeof(struct bpage *) : 0);

	return size * each;
}

static void make_empty(struct tlb_table *tab, enum tlb_kind kind)
{
	for (u32 i = 0; i <= tab->mask; i++)
		*table_negtag(tab, kind, i) = tlb_empty(i);
}

bool table_make(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind, u32 size)
{
	struct tlb_table new = {.mask = size - 1};
	u8 *p = pages_alloc(table_bytes(kind, size));

	if (!p)
		return false;
	new.entry = (void *)p;
	p += size * table_entry_size(kind);
	if (kind == TLB_WRITE) {
		new.bp = (void *)p;
		p += size * sizeof(*new.bp);
	}
	new.meta = p;
	make_empty(&new, kind);
	t->bytes += table_bytes(kind, size);
	*tab = new;
	return true;
}

static void release(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind)
{
	size_t bytes = table_bytes(kind, tab->mask + 1);

	if (!tab->entry)
		return;
	t->bytes -= bytes;
	pages_free(tab->entry, bytes);
}

void table_free(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind)
{
	if (tab->entry)
		table_clear(t, tab, kind, true);
	release(t, tab, kind);
	memset(tab, 0, sizeof(*tab));
}

/* --- the filters that follow every entry ----------------------------------- */

bool tlb_may_write(struct tlb *t, struct bpage *bp)
{
	bool announced = atomic_load_explicit(&bp->writers, memory_order_relaxed) & t->writer;

	if (!announced)
		atomic_fetch_or(&bp->writers, t->writer);
	if (likely(!atomic_load(&bp->flags)))
		return true;
	/* What was not announced has no entry, whoever shares the bucket. */
	if (!announced || !t->write_pages[bpage_hash(bp)])
		atomic_fetch_and(&bp->writers, ~t->writer);
	return false;
}

/* Entries of other pages may share the bucket: then the bit stays, and costs a
 * needless request at worst. */
static void write_entry_gone(struct tlb *t, struct bpage *bp)
{
	if (--t->write_pages[bpage_hash(bp)] == 0)
		atomic_fetch_and(&bp->writers, ~t->writer);
}

static void count_entry(struct tlb *t, struct tlb_table *tab, u64 gva, u8 meta, int by)
{
	enum tlb_size size = meta & TLB_SIZE_MASK;

	tab->used += (u32)by;
	if (meta & TLB_GLOBAL) {
		tab->globals += (u32)by;
		t->global_pages[tlb_page_hash(gva, size)] += (u32)by;
	}
	if (size != TLB_4K)
		*tlb_large(tab, gva, size) += (u16)by;
}

void table_drop(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind, u32 i)
{
	count_entry(t, tab, table_gva(tab, kind, i), tab->meta[i], -1);
	*table_negtag(tab, kind, i) = tlb_empty(i);
	if (kind == TLB_WRITE)
		write_entry_gone(t, tab->bp[i]);
}

/* Return: entries dropped from slots @first.. of one group; *@left: others stay. */
static u32 clear_group(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind,
		       u32 first, bool globals, bool *left)
{
	u32 end = MIN(first + 64, tab->mask + 1), n = 0;

	*left = false;
	for (u32 i = first; i < end; i++) {
		if (table_is_empty(tab, kind, i))
			continue;
		if (!globals && (tab->meta[i] & TLB_GLOBAL)) {
			*left = true;
			continue;
		}
		table_drop(t, tab, kind, i);
		n++;
	}
	return n;
}

u32 table_clear(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind, bool globals)
{
	u32 n = 0;

	if (!tab->used || (!globals && tab->used == tab->globals))
		return 0;
	for (u64 m = tab->touched; m; m &= m - 1) {
		int g = bits_ffs64(m);
		bool left;

		n += clear_group(t, tab, kind, (u32)g * 64, globals, &left);
		if (!left)
			tab->touched &= ~BIT64(g);
	}
	return n;
}

u32 class_clear(struct tlb *t, struct tlb_class *c, bool globals)
{
	u32 n = 0;

	for (int k = 0; k < TLB_KINDS; k++)
		n += table_clear(t, &c->table[k], k, globals);
	return n;
}

/* --- filling ---------------------------------------------------------------- */

/* Move the entries of @old to the larger @new: one slot becomes two. */
static void move_entries(const struct tlb_table *old, struct tlb_table *new,
			 enum tlb_kind kind)
{
	size_t bytes = table_entry_size(kind);

	for (u32 i = 0; i <= old->mask; i++) {
		if (table_is_empty(old, kind, i))
			continue;
		u32 k = tlb_index(table_gva(old, kind, i), new->mask);

		memcpy((u8 *)new->entry + k *bytes, (u8 *)old->entry + i * bytes, bytes);
		new->meta[k] = old->meta[i];
		if (kind == TLB_WRITE)
			new->bp[k] = old->bp[i];
		new->touched |= BIT64(k >> 6);
	}
	new->used = old->used;
	new->globals = old->globals;
	memcpy(new->large, old->large, sizeof(new->large));
}

/* Up to these sizes tables grow for conflicts alone. */
#define GROW_DATA 2048
#define GROW_CODE 512

static noinline void grow(struct tlb *t, struct tlb_class *c, enum tlb_kind kind)
{
	struct tlb_table *tab = &c->table[kind], old = *tab;

	if (!table_make(t, tab, kind, (tab->mask + 1) * 2))
		return;
	move_entries(&old, tab, kind);
	release(t, &old, kind);
	t->stats.tlb_grown++;
	if (c == t->class)
		tlb_publish(t);
}

/*
 * A table doubles when its entries push each other out.  A small one does so even
 * if it is not half full: two pages of one slot that are used in turn would
 * miss for ever (three times a system call, in the kernel).
 */
static void maybe_grow(struct tlb *t, struct tlb_class *c, enum tlb_kind kind)
{
	struct tlb_table *tab = &c->table[kind];
	u32 size = tab->mask + 1;

	if (t->config.size || size >= TLB_MAX_SIZE || tab->replaced < size / 2)
		return;
	tab->replaced = 0;
	if (tab->used >= size / 2 || size < (kind == TLB_CODE ? GROW_CODE : GROW_DATA))
		grow(t, c, kind);
}

/* Tables have TLB_MIN_SIZE slots at least; a smaller size is kept by emptying
 * the slots that would have been the same one. */
static void keep_small(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind, u32 slot)
{
	u32 size = t->config.size;

	for (u32 i = slot & (size - 1); i <= tab->mask; i += size)
		if (i != slot && !table_is_empty(tab, kind, i))
			table_drop(t, tab, kind, i);
}

void tlb_fill(struct tlb *t, struct tlb_class *c, enum tlb_kind kind, u64 gva, u8 *hva,
	      u8 meta, struct bpage *bp)
{
	struct tlb_table *tab = &c->table[kind];
	u64 page = gva & PAGE_MASK;

	maybe_grow(t, c, kind);
	u32 i = tlb_index(page, tab->mask);

	/* First the count: the entry that goes may be of the same page, and its
	 * going must not take the announcement back. */
	if (kind == TLB_WRITE)
		t->write_pages[bpage_hash(bp)]++;
	if (t->config.size && t->config.size < TLB_MIN_SIZE)
		keep_small(t, tab, kind, i);
	if (!table_is_empty(tab, kind, i)) {
		tab->replaced += table_gva(tab, kind, i) != page;
		table_drop(t, tab, kind, i);
	}
	if (kind == TLB_CODE) {
		((struct tlb_code_entry *)tab->entry)[i] =
			(struct tlb_code_entry){.negtag = -page, .hva = hva, .bp = bp};
		u32 h = tlb_code_hash(page, meta & TLB_SIZE_MASK);

		t->space->code_pages[h / 64] |= BIT64(h % 64);
	} else {
		((struct tlb_entry *)tab->entry)[i] = (struct tlb_entry){
			.negtag = -page, .addend = (u64)(uintptr_t)hva - page};
	}
	if (kind == TLB_WRITE)
		tab->bp[i] = bp;
	tab->meta[i] = meta;
	tab->touched |= BIT64(i >> 6);
	count_entry(t, tab, page, meta, 1);
}
