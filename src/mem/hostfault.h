/* SPDX-License-Identifier: MIT */
/*
 * Recovery from faults of the host in guest memory.
 *
 * A slot may point at memory that the client has unmapped, protected or
 * truncated.  An access then raises SIGSEGV or SIGBUS in the thread that made
 * it; inside hostfault_try() that ends the attempt with -EFAULT.  This is the
 * one place where control leaves functions without returning through them:
 * they hold no lock and have committed nothing when they touch guest memory.
 */
#ifndef LOCUM_MEM_HOSTFAULT_H
#define LOCUM_MEM_HOSTFAULT_H

#include <pthread.h>
#include <signal.h>

#include "base/types.h"

struct mem;

/**
 * hostfault_try() - call @fn(@arg); -EFAULT if it faulted in a slot of @mem
 * @mem: NULL: at any address (copies from and to the client's pointers)
 * Nests.  Return: what @fn returned, or -EFAULT.
 */
int hostfault_try(struct mem *mem, int (*fn)(void *arg), void *arg) must_check;

/** hostfault_hold() - a fault in the current attempt unlocks @lock; NULL: none */
void hostfault_hold(pthread_mutex_t *lock);

/**
 * hostfault_redirect() - have @fn(@arg, pc) asked, in the signal handler, when
 * the current attempt faults at @pc: the address where the thread goes on
 * instead, with its registers as they are; 0: the attempt ends
 */
void hostfault_redirect(u64 (*fn)(void *arg, u64 pc), void *arg);

/** hostfault_active() - the calling thread is inside hostfault_try() */
bool hostfault_active(void);

/**
 * hostfault_handle() - called by a SIGSEGV or SIGBUS handler
 * Return: true if the fault was ours: the handler returns, and the attempt
 * ends.  False: the fault is somebody else's.
 */
bool hostfault_handle(int sig, siginfo_t *info, void *ucontext);

/** hostfault_install() - handlers for SIGSEGV and SIGBUS that call
 * hostfault_handle() and pass other faults on to what was there before */
void hostfault_install(void);
/** hostfault_disown() - somebody else installs handlers: install nothing */
void hostfault_disown(void);

#endif
