/* SPDX-License-Identifier: MIT */
/*
 * Memory for translated code: one file in memory mapped twice, to write and to
 * run, so that no page is ever both and no permission changes.
 */
#ifndef LOCUM_JIT_ARENA_H
#define LOCUM_JIT_ARENA_H

#include "base/types.h"

/** struct arena - @rw, @rx: the two mappings, @bytes long; @used: from the start */
struct arena {
	u8 *rw, *rx;
	size_t bytes, used;
};

/** arena_create() - reserve @bytes (a multiple of the page size)
 * Return: 0; -errno where the host refuses executable memory. */
int arena_create(struct arena *a, size_t bytes) must_check;
/** arena_destroy() - harmless on a zeroed @a */
void arena_destroy(struct arena *a);

/** arena_code() - where byte @at of the writable mapping runs */
static inline u8 *arena_code(const struct arena *a, const u8 *at)
{
	return a->rx + (at - a->rw);
}

#endif
