/* SPDX-License-Identifier: MIT */
/*
 * KVM_SET_SIGNAL_MASK: a signal that is blocked outside KVM_RUN and not inside
 * ends the call and stays pending; its handler does not run.
 */
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

GUEST_CODE(spin, "1: jmp 1b");

static volatile int handled;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static pthread_t runner;

static void sleep_ms(long ms)
{
	struct timespec ts = { 0, ms * 1000000 };

	nanosleep(&ts, NULL);
}

static void *kick(void *arg)
{
	(void)arg;
	sleep_ms(5);
	pthread_kill(runner, SIGUSR1);
	return NULL;
}

static void stays_pending(struct machine *m, void (*action)(int))
{
	struct {
		uint32_t len;
		uint8_t set[8];
	} mask = { .len = 8 };
	struct timespec none = { 0, 0 };
	sigset_t usr1;

	signal(SIGUSR1, action);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	CHECK(!ioctl(m->cpu, KVM_SET_SIGNAL_MASK, &mask));
	runner = pthread_self();
	for (int i = 0; i < 50; i++) {
		pthread_t t;

		pthread_create(&t, NULL, kick, NULL);
		CHECK(ioctl(m->cpu, KVM_RUN, 0) == -1 && errno == EINTR);
		CHECK(m->run->exit_reason == KVM_EXIT_INTR);
		CHECK(sigtimedwait(&usr1, NULL, &none) == SIGUSR1);
		pthread_join(t, NULL);
	}
	CHECK(!handled);
	/* Without the mask it is blocked in KVM_RUN, too. */
	CHECK(!ioctl(m->cpu, KVM_SET_SIGNAL_MASK, NULL));
	pthread_kill(runner, SIGUSR1);
	m->run->immediate_exit = 1;
	CHECK(ioctl(m->cpu, KVM_RUN, 0) == -1 && errno == EINTR);
	m->run->immediate_exit = 0;
	CHECK(sigtimedwait(&usr1, NULL, &none) == SIGUSR1);
	CHECK(!handled);
}

int main(void)
{
	struct machine m;

	machine_init(&m, spin_start, spin_end);
	stays_pending(&m, handler);
	/* A client that only waits for it: nothing is installed. */
	stays_pending(&m, SIG_DFL);
	return 0;
}
