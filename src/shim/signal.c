/* SPDX-License-Identifier: MIT */
/*
 * Signals of the client, deferred while a thread is in the engine.
 *
 * A client's handler may block for long (kvmtool's pause handler does), may
 * look at the vCPU's state and may itself call us, so it must not run on top
 * of the engine.  Every handler that the client installs is replaced by
 * shim_handler().  When that one finds its thread in the engine it records the
 * signal, asks the engine to leave and returns; KVM_RUN takes the vCPU out of
 * guest mode, drops its locks and, as the last thing, calls requeue(), which
 * sends the recorded signals to the thread once more, with their siginfo.
 * This time the thread is not in the engine, and the client's handler runs.
 *
 * SIGSEGV and SIGBUS are ours from the first open of /dev/kvm on: an access to
 * guest memory that the client has unmapped ends as -EFAULT.
 */
#include "shim/shim.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "api/signal.h"
#include "mem/hostfault.h"

#define NSIGNALS 65

/* What the client believes is installed.  Written under `lock` with a
 * sequence count; handlers read it without the lock. */
struct slot {
	struct sigaction act;
	u32 seq; /* odd while being written */
	bool set;
	bool taken; /* always goes to shim_handler, whatever the client asks for */
};

static struct slot slots[NSIGNALS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct sigaction slot_read(int sig)
{
	struct slot *s = &slots[sig];
	struct sigaction act;
	u32 seq;

	do {
		while ((seq = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE)) & 1)
			;
		memcpy(&act, &s->act, sizeof(act));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&s->seq, __ATOMIC_RELAXED) != seq);
	return act;
}

/* Caller holds `lock` with all signals blocked: a handler on this thread would
 * spin on an odd count for ever. */
static void slot_write(int sig, const struct sigaction *act)
{
	struct slot *s = &slots[sig];

	__atomic_fetch_add(&s->seq, 1, __ATOMIC_ACQ_REL);
	s->act = *act;
	s->set = true;
	__atomic_fetch_add(&s->seq, 1, __ATOMIC_RELEASE);
}

/* --- deferred signals of this thread ------------------------------------ */

#define DEFER_MAX 32

struct deferred {
	int sig;
	siginfo_t info;
};

static __thread struct {
	u32 count;
	struct deferred entry[DEFER_MAX];
} pending __attribute__((tls_model("initial-exec")));

static bool defer(int sig, const siginfo_t *info)
{
	/* Another handler may interrupt us here: claim the place first. */
	u32 n = __atomic_fetch_add(&pending.count, 1, __ATOMIC_RELAXED);

	if (n >= DEFER_MAX) {
		__atomic_fetch_sub(&pending.count, 1, __ATOMIC_RELAXED);
		return false;
	}
	pending.entry[n].sig = sig;
	pending.entry[n].info = *info;
	return true;
}

static void run_client(int sig, siginfo_t *info, void *uc)
{
	struct sigaction act = slot_read(sig);

	if (act.sa_flags & (int)SA_RESETHAND) {
		struct sigaction dfl = { .sa_handler = SIG_DFL };

		sigaction(sig, &dfl, NULL);
	}
	if (act.sa_flags & SA_SIGINFO)
		act.sa_sigaction(sig, info, uc);
	else if (act.sa_handler != SIG_DFL && act.sa_handler != SIG_IGN)
		act.sa_handler(sig);
}

/* As the kernel would call it: with the handler's mask in force, and a context
 * that it may look at. */
static void call_handler(int sig, siginfo_t *info)
{
	struct sigaction act = slot_read(sig);
	sigset_t block = act.sa_mask, old;
	ucontext_t uc;

	if (!(act.sa_flags & SA_NODEFER))
		sigaddset(&block, sig);
	memset(&uc, 0, sizeof(uc));
	getcontext(&uc);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &block, &old, 8);
	run_client(sig, info, &uc);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
}

/* Send the signal to this thread once more.  False: that cannot be. */
static bool send_again(const struct deferred *d)
{
	/* A filter may answer what it forbids with a signal or with death. */
	if (shim_is_confined())
		return false;
	return !syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), d->sig, &d->info);
}

/* Called at the end of an ioctl: out of guest mode, no lock or reference held. */
static void requeue(void)
{
	struct deferred copy[DEFER_MAX];
	u32 n = 0;
	sigset_t all, old;

	if (!pending.count)
		return;
	sigfillset(&all);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, 8);
	n = pending.count;
	memcpy(copy, pending.entry, n * sizeof(copy[0]));
	pending.count = 0;
	for (u32 i = 0; i < n; i++)
		if (send_again(&copy[i]))
			copy[i].sig = 0;
	/* Those that were queued arrive here, if the client has them unblocked. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
	/* The others' handlers are called here, on a clean stack at least. */
	for (u32 i = 0; i < n; i++)
		if (copy[i].sig)
			call_handler(copy[i].sig, &copy[i].info);
}

/* --- the handler that the kernel knows ----------------------------------- */

static bool is_sync_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL ||
				     sig == SIGFPE || sig == SIGTRAP || sig == SIGSYS);
}

/* SIGSEGV or SIGBUS that is not ours and that the client did not ask for:
 * what would have happened without us. */
static void default_action(int sig, const siginfo_t *info)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	REAL(sigaction)(sig, &dfl, NULL);
	if (info->si_code <= 0)
		raise(sig); /* sent by kill(2): it would not come again by itself */
	/* A fault repeats when the handler returns, and now kills. */
}

static void shim_handler(int sig, siginfo_t *info, void *uc)
{
	int saved = errno;

	if ((sig == SIGSEGV || sig == SIGBUS) && hostfault_handle(sig, info, uc))
		goto out;
	if (!is_sync_fault(sig, info) && api_signal_note() && defer(sig, info))
		goto out;
	struct sigaction act = slot_read(sig);
	if (!(act.sa_flags & SA_SIGINFO) && act.sa_handler == SIG_DFL)
		default_action(sig, info);
	else
		run_client(sig, info, uc);
out:
	errno = saved;
}

static bool is_handler(const struct sigaction *act)
{
	return (act->sa_flags & SA_SIGINFO) ||
	       (act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN);
}

static bool faults_taken; /* SIGSEGV and SIGBUS are */

/* What the kernel is told when the client asks for @act. */
static int install(int sig, const struct sigaction *act)
{
	struct sigaction k = *act;

	if (is_handler(act) || slots[sig].taken) {
		k.sa_sigaction = shim_handler;
		/* SA_RESETHAND acts when the client's handler runs, which may be
		 * later than when the signal first arrives. */
		k.sa_flags = (act->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
	}
	return REAL(sigaction)(sig, &k, NULL);
}

/* Does the default action end the process? */
static bool is_deadly(int sig)
{
	switch (sig) {
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGKILL:
	case SIGSTOP:
		return false;
	}
	return true;
}

/* A signal that is blocked but in KVM_RUN ends that call and stays pending, for
 * a client that takes it by sigwait() and has no handler.  In the kernel it is
 * never delivered; here it is let in for the time of KVM_RUN, and must then find
 * a handler: ours. */
static void take_unmasked(u64 mask)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pthread_mutex_lock(&lock);
	for (int sig = 1; sig < NSIGNALS; sig++) {
		struct sigaction act;

		if ((mask >> (sig - 1) & 1) || sigismember(&old, sig) != 1 ||
		    !is_deadly(sig) || slots[sig].taken ||
		    REAL(sigaction)(sig, NULL, &act))
			continue;
		if ((act.sa_flags & SA_SIGINFO) || act.sa_handler != SIG_DFL)
			continue;
		slot_write(sig, &act);
		slots[sig].taken = true;
		install(sig, &act);
	}
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void shim_signals_init(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS };
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pthread_mutex_lock(&lock);
	if (!faults_taken) {
		faults_taken = true;
		hostfault_disown();
		api_signal_set_hook(requeue);
		api_signal_set_mask_hook(take_unmasked);
		for (int i = 0; i < 2; i++) {
			struct sigaction act = slots[faults[i]].act;

			if (!slots[faults[i]].set) {
				REAL(sigaction)(faults[i], NULL, &act);
				slot_write(faults[i], &act);
			}
			act.sa_flags |= SA_ONSTACK;
			slots[faults[i]].taken = true;
			install(faults[i], &act);
		}
	}
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

SHIM_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction before, copy;
	sigset_t all, mask;
	int r = 0;

	if (sig <= 0 || sig >= NSIGNALS || sig == SIGKILL || sig == SIGSTOP)
		return REAL(sigaction)(sig, act, old);
	if (act)
		copy = *act; /* a bad pointer faults here, before the lock */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &mask);
	pthread_mutex_lock(&lock);
	if (slots[sig].set)
		before = slots[sig].act;
	else
		r = REAL(sigaction)(sig, NULL, &before);
	if (!r && act) {
		/* The slot first: the handler may be entered at once. */
		slot_write(sig, &copy);
		r = install(sig, &copy);
		if (r)
			slot_write(sig, &before);
	}
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!r && old)
		*old = before;
	return r;
}

/* --- the older interfaces, by sigaction ---------------------------------- */

typedef void (*handler_fn)(int);

static handler_fn set_handler(int sig, handler_fn fn, int flags)
{
	struct sigaction act = { .sa_handler = fn, .sa_flags = flags }, old;

	if (fn == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (!(flags & SA_NODEFER))
		sigaddset(&act.sa_mask, sig);
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

SHIM_EXPORT handler_fn signal(int sig, handler_fn fn)
{
	return set_handler(sig, fn, SA_RESTART);
}

SHIM_EXPORT handler_fn ssignal(int sig, handler_fn fn)
{
	return set_handler(sig, fn, SA_RESTART);
}

SHIM_EXPORT handler_fn __sysv_signal(int sig, handler_fn fn)
{
	return set_handler(sig, fn, (int)(SA_RESETHAND | SA_NODEFER));
}

SHIM_EXPORT handler_fn sysv_signal(int sig, handler_fn fn)
{
	return __sysv_signal(sig, fn);
}

/* sigset(3): SIG_HOLD blocks; anything else installs and unblocks. */
SHIM_EXPORT handler_fn sigset(int sig, handler_fn fn)
{
	sigset_t one, mask;
	struct sigaction old;
	handler_fn before;

	sigemptyset(&one);
	if (sigaddset(&one, sig) || sigaction(sig, NULL, &old))
		return SIG_ERR;
	if (fn == SIG_HOLD) {
		pthread_sigmask(SIG_BLOCK, &one, &mask);
		return sigismember(&mask, sig) ? SIG_HOLD : old.sa_handler;
	}
	before = set_handler(sig, fn, 0);
	if (before == SIG_ERR)
		return SIG_ERR;
	pthread_sigmask(SIG_UNBLOCK, &one, &mask);
	return sigismember(&mask, sig) ? SIG_HOLD : before;
}
