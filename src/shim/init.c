/* SPDX-License-Identifier: MIT */
/* What happens when the library is loaded, before the program starts. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "shim/hosttest.h"

__attribute__((constructor)) static void shim_init(void)
{
	const char *error = hosttest_pass();

	if (!error)
		return;
	fprintf(stderr, "locum: %s: %s\n", program_invocation_name, error);
	_exit(2);
}
