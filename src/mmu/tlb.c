/* SPDX-License-Identifier: MIT */
/* Spaces and classes of the TLB: making, selecting, reclaiming. */
#include "mmu/tlb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "mmu/tlb_table.h"

static void class_free(struct tlb *t, struct tlb_class *c)
{
	if (!c)
		return;
	for (int k = 0; k < TLB_KINDS; k++)
		table_free(t, &c->table[k], k);
	pages_free(c, sizeof(*c));
	t->classes--;
}

static struct tlb_class *class_make(struct tlb *t)
{
	struct tlb_class *c = pages_alloc(sizeof(*c));
	u32 size = MAX(t->config.size, (u32)TLB_MIN_SIZE);

	if (!c)
		return NULL;
	t->classes++;
	for (int k = 0; k < TLB_KINDS; k++) {
		u32 first = k == TLB_CODE ? TLB_FIRST_CODE : TLB_FIRST_DATA;

		if (!table_make(t, &c->table[k], k, t->config.size ? size : first)) {
			class_free(t, c);
			return NULL;
		}
	}
	return c;
}

static void fix_config(struct tlb_config *c)
{
	if (!c->spaces || c->spaces > TLB_MAX_SPACES)
		c->spaces = 16;
	if (c->size & (c->size - 1) || c->size > TLB_MAX_SIZE)
		c->size = 0;
	if (!c->max_bytes)
		c->max_bytes = TLB_MAX_BYTES;
}

int tlb_init(struct tlb *t, const struct tlb_config *config, u64 writer)
{
	memset(t, 0, sizeof(*t));
	t->config = *config;
	t->writer = writer;
	fix_config(&t->config);
	t->spaces = calloc(t->config.spaces, sizeof(*t->spaces));
	t->groups = calloc(t->config.spaces, sizeof(*t->groups));
	t->l2 = calloc((size_t)L2_SETS * L2_WAYS, sizeof(*t->l2));
	if (!t->spaces || !t->groups || !t->l2)
		goto fail;
	/* One of each at least, always: see trim(). */
	for (int c = 0; c < CLASS_COUNT; c++) {
		t->spaces[0].class[c] = class_make(t);
		if (!t->spaces[0].class[c])
			goto fail;
	}
	t->global_code_gen = ++t->next_gen;
	tlb_select(t, &(struct tlb_key){0}, CLASS_SUP);
	return 0;
fail:
	tlb_fini(t);
	return -ENOMEM;
}

void tlb_fini(struct tlb *t)
{
	for (u32 i = 0; t->spaces && i < t->config.spaces; i++)
		for (int c = 0; c < CLASS_COUNT; c++)
			class_free(t, t->spaces[i].class[c]);
	free(t->spaces);
	free(t->groups);
	free(t->l2);
	t->spaces = NULL;
	t->groups = NULL;
	t->l2 = NULL;
}

/* --- spaces ------------------------------------------------------------------ */

void space_code_changed(struct tlb *t, struct tlb_space *s)
{
	s->code_gen = ++t->next_gen;
	if (s == t->space)
		t->code_gen = s->code_gen;
}

static bool same_key(const struct tlb_key *a, const struct tlb_key *b)
{
	return a->pcid == b->pcid && a->vpid == b->vpid && a->eptp == b->eptp;
}

/* The group of @key: that of a live space like it, or a free one. */
static struct tlb_group *group_for(struct tlb *t, const struct tlb_key *key)
{
	struct tlb_group *g = t->groups;

	for (u32 i = 0; i < t->config.spaces; i++) {
		const struct tlb_space *s = &t->spaces[i];

		if (s->group && s->key.vpid == key->vpid && s->key.eptp == key->eptp)
			return s->group;
	}
	while (g->spaces)
		g++;
	l2_forget_globals(t, g);
	return g;
}

static void space_stop(struct tlb *t, struct tlb_space *s)
{
	for (int c = 0; c < CLASS_COUNT; c++)
		if (s->class[c])
			class_clear(t, s->class[c], true);
	s->group->spaces--;
	s->group = NULL;
	t->stats.tlb_context_evicted++;
}

static void space_start(struct tlb *t, struct tlb_space *s, const struct tlb_key *key)
{
	s->key = *key;
	s->group = group_for(t, key);
	s->group->spaces++;
	s->id = ++t->next_id;
	s->psc_gen++;
	l2_forget(t, s);
	memset(s->code_pages, 0, sizeof(s->code_pages));
	space_code_changed(t, s);
}

/* A space for @key: its own, a free one, or the one used longest ago. */
static struct tlb_space *space_for(struct tlb *t, const struct tlb_key *key)
{
	struct tlb_space *oldest = &t->spaces[0];

	for (u32 i = 0; i < t->config.spaces; i++) {
		struct tlb_space *s = &t->spaces[i];

		if (s->group && same_key(&s->key, key))
			return s;
		if (oldest->group && (!s->group || s->last_used < oldest->last_used))
			oldest = s;
	}
	if (oldest->group)
		space_stop(t, oldest);
	space_start(t, oldest, key);
	return oldest;
}

/* --- classes ----------------------------------------------------------------- */

static bool has_class(const struct tlb_space *s)
{
	return s->class[0] || s->class[1] || s->class[2];
}

/* The space other than the current one that has classes and was used longest
 * ago; NULL if none has. */
static struct tlb_space *idle_space(struct tlb *t)
{
	struct tlb_space *idle = NULL;

	for (u32 i = 0; i < t->config.spaces; i++) {
		struct tlb_space *s = &t->spaces[i];

		if (s != t->space && has_class(s) &&
		    (!idle || s->last_used < idle->last_used))
			idle = s;
	}
	return idle;
}

/* Take a class away from the space that is idle longest; its entries go. */
static struct tlb_class *take_class(struct tlb *t)
{
	struct tlb_space *s = idle_space(t);
	struct tlb_class *class = NULL;

	for (int c = 0; s && !class && c < CLASS_COUNT; c++) {
		class = s->class[c];
		s->class[c] = NULL;
	}
	if (class) {
		class_clear(t, class, true);
		t->stats.tlb_context_evicted++;
	}
	return class;
}

/* Keep within the limit, and as many classes as one space can have: then a
 * class that cannot be made can always be taken from another space. */
static void trim(struct tlb *t)
{
	while (t->bytes > t->config.max_bytes && t->classes > CLASS_COUNT) {
		struct tlb_class *c = take_class(t);

		if (!c)
			return;
		class_free(t, c);
	}
}

struct tlb_class *tlb_class_of(struct tlb *t, enum tlb_class_id id)
{
	struct tlb_space *s = t->space;

	if (unlikely(!s->class[id])) {
		s->class[id] = class_make(t);
		if (!s->class[id])
			s->class[id] = take_class(t);
		trim(t);
	}
	return s->class[id];
}

void tlb_publish(struct tlb *t)
{
	struct tlb_class *c = t->class;

	if (unlikely(t->aligned)) {
		t->rd = t->wr = t->none;
		t->rd_mask = t->wr_mask = TLB_MIN_SIZE - 1;
		return;
	}
	t->rd = c->table[TLB_READ].entry;
	t->rd_mask = c->table[TLB_READ].mask;
	t->wr = c->table[TLB_WRITE].entry;
	t->wr_mask = c->table[TLB_WRITE].mask;
	t->rd_bits = (u64)t->rd_mask << PAGE_SHIFT;
	t->wr_bits = (u64)t->wr_mask << PAGE_SHIFT;
	t->rd_span = (u64)t->rd_mask * sizeof(struct tlb_entry);
	t->wr_span = (u64)t->wr_mask * sizeof(struct tlb_entry);
}

void tlb_set_aligned(struct tlb *t, bool on)
{
	t->aligned = on;
	for (u32 i = 0; i < TLB_MIN_SIZE; i++)
		t->none[i].negtag = tlb_empty(i);
	tlb_publish(t);
}

void tlb_select(struct tlb *t, const struct tlb_key *key, enum tlb_class_id class)
{
	if (!t->space || !t->space->group || !same_key(&t->space->key, key)) {
		t->space = space_for(t, key);
		t->space->last_used = ++t->clock;
		t->code_gen = t->space->code_gen;
	}
	t->class_id = class;
	t->class = tlb_class_of(t, class);
	t->context_id = t->space->id * 4 + class;
	tlb_publish(t);
}

u64 tlb_count(const struct tlb *t)
{
	u64 n = 0;

	for (u32 i = 0; i < t->config.spaces; i++)
		for (int c = 0; c < CLASS_COUNT; c++)
			for (int k = 0; t->spaces[i].class[c] && k < TLB_KINDS; k++)
				n += t->spaces[i].class[c]->table[k].used;
	return n;
}
