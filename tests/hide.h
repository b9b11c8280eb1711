/* SPDX-License-Identifier: MIT */
/* HIDE=FEATURE+FEATURE... in the environment of a test: the host lacks them. */
#ifndef LOCUM_TESTS_HIDE_H
#define LOCUM_TESTS_HIDE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cpu/hostcpu.h"

/** test_hide() - hide what HIDE names; before anything asks what the host has */
static inline void test_hide(void)
{
	const char *env = getenv("HIDE");
	char *names = env ? strdup(env) : NULL, *rest = names, *one;

	while (rest && (one = strsep(&rest, "+"))) {
		if (!strcmp(one, "tsc")) {
			clock_hide_tsc();
		} else if (!hostcpu_hide(one)) {
			fprintf(stderr, "HIDE: no feature \"%s\"\n", one);
			exit(2);
		}
	}
	free(names);
}

#endif
