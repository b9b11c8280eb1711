/* SPDX-License-Identifier: MIT */
#include "mem/hostfault.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <ucontext.h>

#include "mem/mem.h"

struct attempt {
	sigjmp_buf env;
	struct mem *mem;
	pthread_mutex_t *held;
	struct attempt *outer;
	u64 (*redirect)(void *arg, u64 pc);
	void *redirect_arg;
};

static __thread struct attempt *current __attribute__((tls_model("initial-exec")));

int hostfault_try(struct mem *mem, int (*fn)(void *arg), void *arg)
{
	struct attempt a = {.mem = mem, .outer = current};
	int r;

	if (sigsetjmp(a.env, 0)) {
		if (current->held)
			pthread_mutex_unlock(current->held);
		current = current->outer;
		return -EFAULT;
	}
	current = &a;
	r = fn(arg);
	current = a.outer;
	return r;
}

void hostfault_hold(pthread_mutex_t *lock)
{
	if (current)
		current->held = lock;
}

void hostfault_redirect(u64 (*fn)(void *arg, u64 pc), void *arg)
{
	if (!current)
		return;
	current->redirect = fn;
	current->redirect_arg = arg;
}

bool hostfault_active(void)
{
	return current != NULL;
}

static bool in_slot(struct mem *mem, u64 addr)
{
	if (!mem)
		return true;
	for (unsigned space = 0; space < MEM_SPACES; space++) {
		const struct slot_table *t = mem_slots(mem, space);

		for (u32 i = 0; i < t->count; i++) {
			u64 hva = (u64)(uintptr_t)t->slot[i]->hva;

			if (addr - hva < t->slot[i]->npages << PAGE_SHIFT)
				return true;
		}
	}
	return false;
}

/* Runs after the signal handler has returned, with the signal mask restored. */
static void __attribute__((noreturn)) resume(void)
{
	siglongjmp(current->env, 1);
}

bool hostfault_handle(int sig, siginfo_t *info, void *ucontext)
{
	greg_t *regs = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
	u64 go_on;

	(void)sig;
	if (!current || info->si_code <= 0 ||
	    !in_slot(current->mem, (u64)(uintptr_t)info->si_addr))
		return false;
	go_on = current->redirect ? current->redirect(current->redirect_arg, (u64)regs[REG_RIP])
				  : 0;
	if (go_on) {
		regs[REG_RIP] = (greg_t)go_on;
		return true;
	}
	/* As if resume() had been called here, beyond the red zone. */
	regs[REG_RSP] = ((regs[REG_RSP] - 256) & ~15ll) - 8;
	regs[REG_RIP] = (greg_t)(uintptr_t)resume;
	regs[REG_EFL] &= ~0x400ll;
	return true;
}

static struct sigaction before[2]; /* SIGSEGV, SIGBUS */
static bool disowned;

static void on_fault(int sig, siginfo_t *info, void *uc)
{
	struct sigaction *act = &before[sig == SIGBUS];

	if (hostfault_handle(sig, info, uc))
		return;
	if (act->sa_flags & SA_SIGINFO)
		act->sa_sigaction(sig, info, uc);
	else if (act->sa_handler == SIG_DFL || act->sa_handler == SIG_IGN)
		sigaction(sig, act, NULL); /* the fault comes again and does it */
	else
		act->sa_handler(sig);
}

static void install_once(void)
{
	static const int sigs[] = {SIGSEGV, SIGBUS};
	struct sigaction act = {.sa_sigaction = on_fault,
				.sa_flags = SA_SIGINFO | SA_ONSTACK};

	if (disowned)
		return;
	for (int i = 0; i < 2; i++)
		sigaction(sigs[i], &act, &before[i]);
}

void hostfault_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install_once);
}

void hostfault_disown(void)
{
	disowned = true;
}
