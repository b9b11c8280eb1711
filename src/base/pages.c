/* SPDX-License-Identifier: MIT */
#include "base/pages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"

#ifdef LOCUM_SANITIZE /* which watches the ends and the life of heap blocks */

void *pages_alloc(size_t bytes)
{
	void *p = aligned_alloc(64, ALIGN_UP(bytes, (size_t)64));

	return p ? memset(p, 0, bytes) : NULL;
}

void pages_free(void *p, size_t bytes)
{
	(void)bytes;
	free(p);
}

#else

void *pages_alloc(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void pages_free(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

#endif
