/* SPDX-License-Identifier: MIT */
#include "base/bug.h"

#include <stdio.h>
#include <stdlib.h>

void bug_report(const char *file, int line, const char *what)
{
	fprintf(stderr, "locum: broken invariant at %s:%d: %s\n", file, line, what);
#ifdef LOCUM_DEBUG_BUILD
	abort();
#endif
}
