/* SPDX-License-Identifier: MIT */
#include "api/signal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "vm/vcpu.h"

/* The vCPU that this thread runs; read by signal handlers on it. */
static __thread struct vcpu *_Atomic current __attribute__((tls_model("initial-exec")));
static __thread int slot_index __attribute__((tls_model("initial-exec")));
static __thread int my_tid __attribute__((tls_model("initial-exec")));

static void (*_Atomic leave_hook)(void);
static void (*_Atomic mask_hook)(u64 mask);

/*
 * Threads in KVM_RUN, for api_kick_tid().  A kicker counts itself in before it
 * looks at the vCPU; whoever leaves waits for kickers to be gone, so that the
 * vCPU outlives them.
 */
#define RUNNERS 256

static struct runner {
	_Atomic int tid; /* 0: free */
	_Atomic pthread_t thread;
	struct vcpu *_Atomic vcpu;
	_Atomic u32 kickers;
} runners[RUNNERS];

bool api_signal_note(void)
{
	struct vcpu *v = atomic_load_explicit(&current, memory_order_relaxed);

	if (!v)
		return false;
	vcpu_kick(v);
	return true;
}

void api_signal_set_mask_hook(void (*hook)(u64 mask))
{
	atomic_store(&mask_hook, hook);
}

void api_signal_mask_set(u64 mask)
{
	void (*hook)(u64 mask) = atomic_load(&mask_hook);

	if (hook)
		hook(mask);
}

void api_signal_set_hook(void (*hook)(void))
{
	atomic_store(&leave_hook, hook);
}

static void runner_add(struct vcpu *v)
{
	int none;

	if (!my_tid)
		my_tid = (int)syscall(SYS_gettid);
	slot_index = -1;
	for (int i = 0; i < RUNNERS; i++) {
		none = 0;
		if (!atomic_compare_exchange_strong(&runners[i].tid, &none,
						    my_tid))
			continue;
		atomic_store(&runners[i].thread, pthread_self());
		atomic_store(&runners[i].vcpu, v);
		slot_index = i;
		return;
	}
}

static void runner_remove(void)
{
	struct runner *r = slot_index < 0 ? NULL : &runners[slot_index];

	if (!r)
		return;
	atomic_store(&r->vcpu, NULL);
	while (atomic_load(&r->kickers))
		sched_yield();
	atomic_store(&r->tid, 0);
}

/* Kick the vCPU in @r if it is still the one of thread @tid (0: any). */
static void kick_runner(struct runner *r, int tid)
{
	struct vcpu *v;

	atomic_fetch_add(&r->kickers, 1);
	v = atomic_load(&r->vcpu);
	if (v && (!tid || atomic_load(&r->tid) == tid))
		vcpu_kick(v);
	atomic_fetch_sub(&r->kickers, 1);
}

void api_kick_tid(int tid)
{
	for (int i = 0; i < RUNNERS; i++)
		if (atomic_load_explicit(&runners[i].tid, memory_order_relaxed) == tid) {
			kick_runner(&runners[i], tid);
			return;
		}
}

void api_kick_thread(pthread_t thread)
{
	for (int i = 0; i < RUNNERS; i++)
		if (atomic_load(&runners[i].tid) &&
		    pthread_equal(atomic_load(&runners[i].thread), thread))
			kick_runner(&runners[i], 0);
}

/*
 * Threads that pthread_cancel() was called for while they may have been on
 * their way into KVM_RUN, with cancellation disabled and not yet a runner: the
 * kick misses them, so they look here once they are one.  A stale entry costs
 * one EINTR; an overwritten one needs 64 cancellations at once.
 */
#define CANCELLED 64
static _Atomic pthread_t cancelled[CANCELLED];
static _Atomic u32 cancel_next, cancel_count;

void api_cancel_note(pthread_t thread)
{
	u32 i = atomic_fetch_add(&cancel_next, 1) % CANCELLED;

	atomic_store(&cancelled[i], thread);
	atomic_fetch_add(&cancel_count, 1);
}

static bool take_cancellation(void)
{
	static __thread u32 seen __attribute__((tls_model("initial-exec")));
	u32 count = atomic_load(&cancel_count);
	pthread_t self = pthread_self();
	bool found = false;

	if (likely(count == seen))
		return false;
	seen = count;
	for (int i = 0; i < CANCELLED; i++) {
		pthread_t t = self;

		found |= atomic_compare_exchange_strong(&cancelled[i], &t, 0);
	}
	return found;
}

void api_signal_forked(void)
{
	my_tid = 0;
}

/* The raw system call: libc hides signals of its own from masks. */
static void set_mask(const u64 *mask, u64 *old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, old, sizeof(*mask));
}

/*
 * A fault in guest memory is how -EFAULT comes about; one whose signal is
 * blocked kills.  So a thread that runs a vCPU has these unblocked: in the mask
 * for KVM_RUN, and for good in its own (a blocked fault could never have meant
 * anything else, and a system call for each KVM_RUN is too much).
 */
#define FAULTS (BIT64(SIGSEGV - 1) | BIT64(SIGBUS - 1))

static void unblock_faults(void)
{
	static __thread bool done __attribute__((tls_model("initial-exec")));
	u64 faults = FAULTS;

	if (likely(done))
		return;
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &faults, NULL, sizeof(faults));
	done = true;
}

void api_run_enter(struct vcpu *v)
{
	u64 mask = v->sigmask & ~FAULTS;

	unblock_faults();
	/* A kick that came for an earlier KVM_RUN is over. */
	atomic_fetch_and(&v->requests, ~(u32)VCPU_REQ_EXIT);
	runner_add(v);
	if (unlikely(take_cancellation()))
		vcpu_kick(v);
	atomic_store_explicit(&current, v, memory_order_seq_cst);
	if (v->sigmask_set)
		set_mask(&mask, &v->saved_sigmask);
	v->sigmask_used = v->sigmask_set;
}

void api_run_unmask(struct vcpu *v)
{
	if (v->sigmask_used)
		set_mask(&v->saved_sigmask, NULL);
}

void api_run_leave(void)
{
	atomic_store_explicit(&current, NULL, memory_order_seq_cst);
	runner_remove();
}

void api_run_deferred(void)
{
	void (*hook)(void) = atomic_load_explicit(&leave_hook, memory_order_relaxed);

	if (hook)
		hook();
}
