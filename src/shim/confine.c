/* SPDX-License-Identifier: MIT */
/*
 * Seccomp filters of the client.
 *
 * Virtual machine monitors confine their vCPU threads to the system calls that
 * KVM_RUN, their exit handling and their allocator need; the answer to others
 * is often death.  From the first filter on we make no system call in KVM_RUN
 * and around it that such lists do not have (tests/client/replay_seccomp).
 */
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "shim/shim.h"

static _Atomic bool confined;

bool shim_is_confined(void)
{
	return confined;
}

void shim_note_filter(void)
{
	confined = true;
}

SHIM_EXPORT int prctl(int option, ...)
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (option == PR_SET_SECCOMP)
		shim_note_filter();
	return REAL(prctl)(option, a[0], a[1], a[2], a[3]);
}
