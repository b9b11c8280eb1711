/* SPDX-License-Identifier: MIT */
/*
 * Signals and KVM_RUN: what the shim's signal handler calls, and the hook that
 * runs when the engine has been left.
 */
#ifndef LOCUM_API_SIGNAL_H
#define LOCUM_API_SIGNAL_H

#include <pthread.h>

#include "base/types.h"

struct vcpu;

/**
 * api_signal_note() - the calling thread got a signal
 *
 * If the thread is inside KVM_RUN, makes that call end with -EINTR: sets the
 * vCPU's exit flag and attention word and wakes it if it sleeps.
 * Async-signal-safe.
 * Return: true if the thread was inside KVM_RUN and the signal's handler must
 * wait for the hook of api_signal_set_hook().
 */
bool api_signal_note(void);

/**
 * api_signal_set_hook() - call @hook at the end of every ioctl
 *
 * It runs on the ioctl's thread, with the vCPU out of guest mode, no lock or
 * reference of ours held (it may not return), api_signal_note() answering false
 * again, and before the call returns.  Set once.
 */
void api_signal_set_hook(void (*hook)(void));

/**
 * api_signal_set_mask_hook() - call @hook when KVM_SET_SIGNAL_MASK names a mask
 * @mask: signals blocked in KVM_RUN; bit n-1: signal n
 * On the ioctl's thread.  Whoever has the hook sees to it that a signal which
 * that mask lets in ends KVM_RUN even if the client has no handler for it.
 */
void api_signal_set_mask_hook(void (*hook)(u64 mask));
/** api_signal_mask_set() - run it */
void api_signal_mask_set(u64 mask);

/** api_run_enter() - the calling thread, which holds @v's mutex, starts KVM_RUN */
void api_run_enter(struct vcpu *v);
/** api_run_unmask() - the client's signal mask is in force again; mutex held */
void api_run_unmask(struct vcpu *v);
/** api_run_leave() - KVM_RUN is over; no lock held */
void api_run_leave(void);
/** api_run_deferred() - run the hook of api_signal_set_hook() */
void api_run_deferred(void);

/** api_kick_tid() - as api_signal_note(), for the thread @tid of this process;
 * async-signal-safe */
void api_kick_tid(int tid);

/** api_cancel_note() - before pthread_cancel(@thread): a KVM_RUN that @thread is
 * about to enter ends with -EINTR.  Then api_kick_thread(), for one it is in. */
void api_cancel_note(pthread_t thread);

/** api_kick_thread() - likewise by thread; a thread that is about to be
 * cancelled must leave KVM_RUN first */
void api_kick_thread(pthread_t thread);

/** api_signal_forked() - this is a forked child: its thread has another id */
void api_signal_forked(void);

#endif
