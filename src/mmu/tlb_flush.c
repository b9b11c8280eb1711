/* SPDX-License-Identifier: MIT */
/*
 * Invalidation.  Every function drops what it must and nothing else, and counts
 * the valid entries that went.
 */
#include <string.h>

#include "mmu/tlb_table.h"

/* --- one address ------------------------------------------------------------ */

/* Fragments of the large page of @size around @gva: they lie in consecutive
 * slots of the table, or anywhere in a table smaller than the page. */
static u32 drop_fragments(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind,
			  u64 gva, enum tlb_size size, bool keep_global, bool only_global)
{
	u32 slots = MIN(1u << (tlb_size_shift[size] - PAGE_SHIFT), tab->mask + 1);
	u32 first = tlb_index(gva & ~(BIT64(tlb_size_shift[size]) - 1), tab->mask), n = 0;

	for (u32 i = first; i < first + slots; i++) {
		u8 meta = tab->meta[i];

		if (!(tab->touched & BIT64(i >> 6))) {
			i |= 63;
			continue;
		}
		if (table_is_empty(tab, kind, i) || (meta & TLB_SIZE_MASK) != size ||
		    (table_gva(tab, kind, i) ^ gva) >> tlb_size_shift[size] ||
		    (meta & TLB_GLOBAL ? keep_global : only_global))
			continue;
		table_drop(t, tab, kind, i);
		n++;
	}
	return n;
}

static u32 table_drop_address(struct tlb *t, struct tlb_table *tab, enum tlb_kind kind,
			      u64 gva, bool keep_global, bool only_global)
{
	u32 i = tlb_index(gva, tab->mask), n = 0;
	bool global = tab->meta[i] & TLB_GLOBAL;

	if (!tab->used)
		return 0;
	if (table_gva(tab, kind, i) == (gva & PAGE_MASK) &&
	    !(global ? keep_global : only_global)) {
		table_drop(t, tab, kind, i);
		n++;
	}
	for (int size = TLB_2M; size < TLB_SIZES; size++)
		if (*tlb_large(tab, gva, size))
			n += drop_fragments(t, tab, kind, gva, size, keep_global,
					    only_global);
	return n;
}

static u32 space_drop_address(struct tlb *t, struct tlb_space *s, u64 gva,
			      bool keep_global, bool only_global)
{
	u32 n = 0;

	for (int c = 0; c < CLASS_COUNT; c++)
		for (int k = 0; s->class[c] && k < TLB_KINDS; k++)
			n += table_drop_address(t, &s->class[c] -> table[k], k, gva,
						keep_global, only_global);
	return n;
}

/* The filter of code pages, from what is in the code tables now. */
static void renew_code_filter(struct tlb_space *s)
{
	memset(s->code_pages, 0, sizeof(s->code_pages));
	for (int c = 0; c < CLASS_COUNT; c++) {
		const struct tlb_table *tab =
			s->class[c] ? &s->class[c]->table[TLB_CODE] : NULL;

		for (u32 i = 0; tab && tab->used && i <= tab->mask; i++) {
			if (table_is_empty(tab, TLB_CODE, i))
				continue;
			u32 h = tlb_code_hash(table_gva(tab, TLB_CODE, i),
					      tab->meta[i] & TLB_SIZE_MASK);

			s->code_pages[h / 64] |= BIT64(h % 64);
		}
	}
}

static bool may_have_code(const u64 filter[TLB_CODE_HASH / 64], u64 gva)
{
	for (int size = 0; size < TLB_SIZES; size++) {
		u32 h = tlb_code_hash(gva, size);

		if (filter[h / 64] & BIT64(h % 64))
			return true;
	}
	return false;
}

bool tlb_code_is_global(struct tlb *t, u64 gva)
{
	const struct tlb_table *tab = &t->class->table[TLB_CODE];
	u32 i = tlb_index(gva, tab->mask), h;

	if (table_gva(tab, TLB_CODE, i) != (gva & PAGE_MASK) || !(tab->meta[i] & TLB_GLOBAL))
		return false;
	h = tlb_code_hash(gva, tab->meta[i] & TLB_SIZE_MASK);
	t->global_code[h / 64] |= BIT64(h % 64);
	return true;
}

static void global_code_changed(struct tlb *t)
{
	t->global_code_gen = ++t->next_gen;
	memset(t->global_code, 0, sizeof(t->global_code));
}

/* Has any space global entries of a page around @gva? */
static bool may_be_global(const struct tlb *t, u64 gva)
{
	for (int size = 0; size < TLB_SIZES; size++)
		if (t->global_pages[tlb_page_hash(gva, size)])
			return true;
	return false;
}

void tlb_drop_address(struct tlb *t, const struct tlb_key *key, u64 gva, bool globals)
{
	bool everywhere = globals && may_be_global(t, gva);
	u32 n = 0, l2 = 0;

	if (globals && may_have_code(t->global_code, gva))
		global_code_changed(t);
	for (u32 i = 0; i < t->config.spaces; i++) {
		struct tlb_space *s = &t->spaces[i];
		bool own = s->key.pcid == key->pcid;

		if (!s->group || s->key.vpid != key->vpid || (!own && !globals))
			continue;
		if (own || everywhere)
			n += space_drop_address(t, s, gva, !globals, !own);
		if (globals)
			l2 += l2_drop(t, s->group->tag, gva);
		if (own) {
			l2 += l2_drop(t, s->tag, gva);
			s->psc_gen++;
		}
		/* Its jump caches may hold what its code table has lost since. */
		if (may_have_code(s->code_pages, gva)) {
			renew_code_filter(s);
			space_code_changed(t, s);
		}
	}
	t->stats.tlb_entries_dropped += n;
	t->stats.tlb_l2_dropped += l2;
}

/* --- more -------------------------------------------------------------------- */

static void space_clear(struct tlb *t, struct tlb_space *s, bool globals)
{
	u32 n = 0, l2 = l2_forget(t, s);

	for (int c = 0; c < CLASS_COUNT; c++)
		if (s->class[c])
			n += class_clear(t, s->class[c], globals);
	if (globals) {
		l2 += l2_forget_globals(t, s->group);
		global_code_changed(t);
	}
	s->psc_gen++;
	renew_code_filter(s);
	space_code_changed(t, s);
	t->stats.tlb_entries_dropped += n;
	t->stats.tlb_l2_dropped += l2;
}

void tlb_drop_pcid(struct tlb *t, const struct tlb_key *key)
{
	for (u32 i = 0; i < t->config.spaces; i++) {
		struct tlb_space *s = &t->spaces[i];

		if (s->group && s->key.vpid == key->vpid && s->key.pcid == key->pcid)
			space_clear(t, s, false);
	}
}

void tlb_drop_vpid(struct tlb *t, u32 vpid, bool globals)
{
	for (u32 i = 0; i < t->config.spaces; i++) {
		struct tlb_space *s = &t->spaces[i];

		if (s->group && s->key.vpid == vpid)
			space_clear(t, s, globals);
	}
}

void tlb_drop_all(struct tlb *t)
{
	for (u32 i = 0; i < t->config.spaces; i++)
		if (t->spaces[i].group)
			space_clear(t, &t->spaces[i], true);
	memset(t->l2_size_used, 0, sizeof(t->l2_size_used));
}

void tlb_drop_writes(struct tlb *t)
{
	for (u32 i = 0; i < t->config.spaces; i++)
		for (int c = 0; c < CLASS_COUNT; c++)
			if (t->spaces[i].class[c])
				t->stats.tlb_entries_dropped += table_clear(
					t, &t->spaces[i].class[c] -> table[TLB_WRITE],
					TLB_WRITE, true);
}

static bool table_drop_page_at(struct tlb *t, struct tlb_table *tab, const struct bpage *bp,
			       u32 i)
{
	if (tab->bp[i] != bp || table_is_empty(tab, TLB_WRITE, i))
		return false;
	table_drop(t, tab, TLB_WRITE, i);
	t->stats.tlb_entries_dropped++;
	return true;
}

static void table_drop_page(struct tlb *t, struct tlb_table *tab, const struct bpage *bp)
{
	for (u64 m = tab->used ? tab->touched : 0; m; m &= m - 1) {
		u32 first = (u32)bits_ffs64(m) * 64, end = MIN(first + 64, tab->mask + 1);

		for (u32 i = first; i < end; i++)
			table_drop_page_at(t, tab, bp, i);
	}
}

/* First where it probably is: looking at every entry costs microseconds, and code
 * that is written again and again pays it each time. */
void tlb_drop_page_writes(struct tlb *t, struct bpage *bp, u64 gva)
{
	for (u32 i = 0; i < t->config.spaces; i++)
		for (int c = 0; c < CLASS_COUNT && tlb_may_have_writes(t, bp); c++) {
			struct tlb_class *class = t->spaces[i].class[c];

			if (class)
				table_drop_page_at(t, &class->table[TLB_WRITE], bp,
						   tlb_index(gva, class->table[TLB_WRITE].mask));
		}
	for (u32 i = 0; i < t->config.spaces; i++)
		for (int c = 0; c < CLASS_COUNT && tlb_may_have_writes(t, bp); c++)
			if (t->spaces[i].class[c])
				table_drop_page(
					t, &t->spaces[i].class[c] -> table[TLB_WRITE],
					bp);
	/* Announced without an entry, or lost to a bucket that others share. */
	if (atomic_load_explicit(&bp->writers, memory_order_relaxed) & t->writer)
		atomic_fetch_and(&bp->writers, ~t->writer);
}
