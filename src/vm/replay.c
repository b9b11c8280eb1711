/* SPDX-License-Identifier: MIT */
#include "vm/replay.h"

#include <string.h>

static bool matches(const struct replay_entry *e, enum replay_kind kind, u64 addr,
		    unsigned size)
{
	return e->kind == kind && e->addr == addr && e->size == size;
}

struct replay_entry *replay_find(struct replay *r, enum replay_kind kind, u64 addr,
				 unsigned size)
{
	struct replay_entry *e;

	if (likely(r->cursor == r->n))
		return NULL;
	e = &r->entry[r->cursor];
	if (!matches(e, kind, addr, size)) {
		r->n = r->cursor;
		return NULL;
	}
	r->cursor++;
	return e;
}

static struct replay_entry *put(struct replay *r, enum replay_kind kind, u64 addr,
				unsigned size)
{
	struct replay_entry *e = &r->entry[r->n];

	if (r->n == REPLAY_MAX)
		return NULL;
	*e = (struct replay_entry){
		.kind = (u8)kind, .size = (u8)size, .count = 1, .addr = addr
	};
	return e;
}

struct replay_entry *replay_add(struct replay *r, enum replay_kind kind, u64 addr,
				unsigned size)
{
	struct replay_entry *e = put(r, kind, addr, size);

	if (e)
		r->cursor = ++r->n;
	return e;
}

bool replay_open(struct replay *r, enum replay_kind kind, u64 addr, unsigned size,
		 unsigned count)
{
	struct replay_entry *e = put(r, kind, addr, size);

	if (!e)
		return false;
	e->count = (u16)count;
	r->open = true;
	return true;
}

void replay_answered(struct replay *r)
{
	if (r->open)
		r->n++;
	r->open = false;
	r->cursor = 0;
}
