/* SPDX-License-Identifier: MIT */
/*
 * Memory for what a vCPU's thread makes while it runs.
 *
 * Clients confine that thread by seccomp filters that allow mmap(2) of plain
 * memory and little else; malloc(3) on it may need mprotect(2) for its arena.
 */
#ifndef LOCUM_BASE_PAGES_H
#define LOCUM_BASE_PAGES_H

#include <stddef.h>

/** pages_alloc() - @bytes of zeros, aligned to 64 at least; for blocks of about
 * a page or more.  Return: NULL without memory. */
void *pages_alloc(size_t bytes);

/** pages_free() - @p (may be NULL) of pages_alloc(@bytes) */
void pages_free(void *p, size_t bytes);

#endif
