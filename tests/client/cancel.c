/* SPDX-License-Identifier: MIT */
/*
 * pthread_cancel() of threads in KVM_RUN, with asynchronous cancellation, at
 * every instant around its entry: the thread ends as cancelled, and the vCPU
 * can be used by others afterwards.  Argument: number of series (default 10).
 */
#include "client.h"

#include <pthread.h>
#include <signal.h>

GUEST_CODE(spin, "1: incq 0x20000\n jmp 1b");
GUEST_CODE(ports, "1: movb $1, %al\n outb %al, $0x10\n jmp 1b");

#define SERIES 40

static struct machine m;
static int started;

static void *vcpu_thread(void *arg)
{
	(void)arg;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	__atomic_store_n(&started, 1, __ATOMIC_RELEASE);
	for (;;)
		ioctl(m.cpu, KVM_RUN, 0);
	return NULL;
}

static void on_alarm(int sig)
{
	static const char text[] = "the vCPU is locked for ever\n";

	(void)sig;
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

static void run_series(void)
{
	for (int i = 0; i < SERIES; i++) {
		struct kvm_regs regs;
		pthread_t thread;
		void *result;

		alarm(60);
		started = 0;
		CHECK(!pthread_create(&thread, NULL, vcpu_thread, NULL));
		while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
			;
		/* From "about to call" to "long in the guest". */
		if (i % 8 == 7)
			usleep(1000);
		for (volatile int d = rand() & ((1 << (i % 12)) - 1); d > 0; d--)
			;
		CHECK(!pthread_cancel(thread));
		CHECK(!pthread_join(thread, &result));
		CHECK(result == PTHREAD_CANCELED);
		CHECK(!ioctl(m.cpu, KVM_GET_REGS, &regs));
	}
}

int main(int argc, char **argv)
{
	int series = argc > 1 ? atoi(argv[1]) : 10;

	srand(1);
	signal(SIGALRM, on_alarm);
	for (int i = 0; i < series; i++) {
		if (i & 1)
			machine_init(&m, ports_start, ports_end);
		else
			machine_init(&m, spin_start, spin_end);
		run_series();
		close(m.cpu);
		close(m.vm);
		close(m.kvm);
	}
	printf("TABLE %d cancellations of a thread in KVM_RUN\n", series * SERIES);
	return 0;
}
