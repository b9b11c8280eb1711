/* SPDX-License-Identifier: MIT */
/*
 * pthread_cancel: a thread in KVM_RUN leaves it first.
 *
 * Our calls run with cancellation disabled, so libc only notes the request;
 * the kick ends KVM_RUN, and the thread dies when locum_ioctl() enables
 * cancellation again.  (The kernel's selftests cancel their vCPU threads.)
 */
#include <pthread.h>

#include "api/signal.h"
#include "shim/shim.h"

SHIM_EXPORT int pthread_cancel(pthread_t thread)
{
	int r = REAL(pthread_cancel)(thread);

	/* The request first: a thread that takes the note and finds none goes back
	 * into KVM_RUN, and the kick may miss it on its way. */
	if (!r) {
		api_cancel_note(thread);
		api_kick_thread(thread);
	}
	return r;
}
