/* SPDX-License-Identifier: MIT */
/*
 * The second level: 4-way sets, one for all spaces of a vCPU, pages of every
 * size.  An entry belongs to whoever has its tag: flushing a space is taking a
 * new one.  Rights are those of the tables, so that all classes share entries.
 */
#include "mmu/tlb_table.h"

static struct tlb_l2_entry *l2_set(struct tlb *t, u64 page)
{
	u32 set = (u32)(page * 0x9e3779b97f4a7c15ull >> 54) % L2_SETS;

	return &t->l2[set * L2_WAYS];
}

static struct tlb_l2_entry *find(struct tlb *t, u64 page, u64 tag, u64 gtag)
{
	struct tlb_l2_entry *e = l2_set(t, page);

	for (int i = 0; i < L2_WAYS; i++)
		if (e[i].page == page && (e[i].tag == tag || e[i].tag == gtag))
			return &e[i];
	return NULL;
}

const struct tlb_l2_entry *tlb_l2_find(struct tlb *t, u64 gva, enum tlb_size *size)
{
	const struct tlb_space *s = t->space;

	for (int k = 0; k < TLB_SIZES; k++) {
		struct tlb_l2_entry *e;

		if (!t->l2_size_used[k])
			continue;
		e = find(t, tlb_page(gva, k), s->tag, s->group->tag);
		if (e) {
			*size = k;
			return e;
		}
	}
	return NULL;
}

/* Tag and count of whoever made @e. */
static u64 *owner_tag(struct tlb *t, const struct tlb_l2_entry *e, u32 **used)
{
	if (e->owner & L2_GLOBAL) {
		struct tlb_group *g = &t->groups[e->owner & ~L2_GLOBAL];

		*used = &g->l2_used;
		return &g->tag;
	}
	*used = &t->spaces[e->owner].l2_used;
	return &t->spaces[e->owner].tag;
}

/* Empty @e; an entry left over from before a flush is no longer counted. */
static void forget(struct tlb *t, struct tlb_l2_entry *e)
{
	u32 *used;

	if (e->tag && *owner_tag(t, e, &used) == e->tag)
		--*used;
	e->tag = 0;
}

static bool is_live(struct tlb *t, const struct tlb_l2_entry *e)
{
	u32 *used;

	return e->tag && *owner_tag(t, e, &used) == e->tag;
}

u32 l2_forget(struct tlb *t, struct tlb_space *s)
{
	u32 n = s->l2_used;

	s->tag = ++t->next_tag;
	s->l2_used = 0;
	return n;
}

u32 l2_forget_globals(struct tlb *t, struct tlb_group *g)
{
	u32 n = g->l2_used;

	g->tag = ++t->next_tag;
	g->l2_used = 0;
	return n;
}

/* Where an entry for @page goes: its own (rights changed), one that nobody owns
 * any more, or the next in turn. */
static struct tlb_l2_entry *choose(struct tlb *t, u64 page)
{
	struct tlb_l2_entry *set = l2_set(t, page);
	struct tlb_l2_entry *own = find(t, page, t->space->tag, t->space->group->tag);

	if (own)
		return own;
	for (int i = 0; i < L2_WAYS; i++)
		if (!is_live(t, &set[i]))
			return &set[i];
	return &set[t->l2_next++ % L2_WAYS];
}

void tlb_l2_add(struct tlb *t, u64 gva, enum tlb_size size, u64 frame, u8 rights)
{
	struct tlb_space *s = t->space;
	struct tlb_l2_entry *e = choose(t, tlb_page(gva, size));
	u32 *used;

	forget(t, e);
	e->page = tlb_page(gva, size);
	e->frame = frame;
	e->rights = rights;
	e->owner = rights & RIGHT_G ? (u8)(L2_GLOBAL | (s->group - t->groups))
				    : (u8)(s - t->spaces);
	e->tag = *owner_tag(t, e, &used);
	++*used;
	t->l2_size_used[size]++;
}

u32 l2_drop(struct tlb *t, u64 tag, u64 gva)
{
	u32 n = 0;

	for (int k = 0; k < TLB_SIZES; k++) {
		struct tlb_l2_entry *e = NULL;

		if (t->l2_size_used[k])
			e = find(t, tlb_page(gva, k), tag, tag);
		if (e) {
			forget(t, e);
			n++;
		}
	}
	return n;
}
