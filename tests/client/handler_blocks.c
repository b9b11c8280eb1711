/* SPDX-License-Identifier: MIT */
/*
 * kvmtool's pause: a signal handler on the vCPU's thread blocks until another
 * thread has moved a memory slot.  The move must complete while the handler
 * blocks, and the vCPU must see the new mapping afterwards.
 */
#include "client.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

/* Count at 2M, report each value through port 0x10 now and then. */
GUEST_CODE(guest, "1: incq 0x200000\n incl %ebx\n testl $0xffff, %ebx\n jnz 1b\n"
		  "movl $1, %eax\n outl %eax, $0x10\n jmp 1b");

static struct machine m;
static sem_t in_handler, go_on;
static volatile int stop;

static void on_signal(int sig)
{
	(void)sig;
	sem_post(&in_handler);
	while (sem_wait(&go_on))
		;
}

static void *vcpu_thread(void *arg)
{
	(void)arg;
	while (!stop)
		if (ioctl(m.cpu, KVM_RUN, 0) < 0)
			CHECK(errno == EINTR);
	return NULL;
}

int main(void)
{
	struct sigaction act = { .sa_handler = on_signal };
	uint64_t *page[2];
	pthread_t thread;

	sem_init(&in_handler, 0, 0);
	sem_init(&go_on, 0, 0);
	CHECK(!sigaction(SIGUSR1, &act, NULL));
	machine_init(&m, guest_start, guest_end);
	machine_slot(&m, 0, 0, m.ram, 0, 0);
	machine_slot(&m, 0, 0, m.ram, 0x200000, 0);
	for (int i = 0; i < 2; i++)
		page[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	machine_slot(&m, 1, 0x200000, page[0], 4096, 0);
	CHECK(!pthread_create(&thread, NULL, vcpu_thread, NULL));
	for (int i = 0; i < 200; i++) {
		uint64_t *old = page[i & 1], *new = page[~i & 1], seen;

		while (!__atomic_load_n(old, __ATOMIC_RELAXED))
			usleep(100);
		CHECK(!pthread_kill(thread, SIGUSR1));
		sem_wait(&in_handler);
		/* The handler blocks here: this must not wait for it. */
		machine_slot(&m, 1, 0x200000, old, 0, 0);
		__atomic_store_n(new, 0, __ATOMIC_RELAXED);
		machine_slot(&m, 1, 0x200000, new, 4096, 0);
		seen = __atomic_load_n(old, __ATOMIC_RELAXED);
		sem_post(&go_on);
		while (!__atomic_load_n(new, __ATOMIC_RELAXED))
			usleep(100);
		CHECK(__atomic_load_n(old, __ATOMIC_RELAXED) == seen);
	}
	stop = 1;
	pthread_kill(thread, SIGUSR1);
	sem_wait(&in_handler);
	sem_post(&go_on);
	pthread_join(thread, NULL);
	return 0;
}
