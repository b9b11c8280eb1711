/* SPDX-License-Identifier: MIT */
/*
 * Signals at random instants while the guest runs, halts or does port I/O:
 * every one must end KVM_RUN with EINTR, with the handler run, and none may be
 * lost.  Argument: number of kicks (default 20000).
 */
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

GUEST_CODE(spin, "1: incq 0x20000\n jmp 1b");
GUEST_CODE(ports, "1: movb $1, %al\n outb %al, $0x10\n jmp 1b");
GUEST_CODE(halts, "1: sti\n hlt\n jmp 1b");

static struct machine m;
static volatile unsigned long handled, returned;
static volatile int stop;

static void on_signal(int sig)
{
	(void)sig;
	m.run->immediate_exit = 1; /* for a signal just before the call */
	handled++;
}

static void *vcpu_thread(void *arg)
{
	(void)arg;
	while (!stop) {
		int r = ioctl(m.cpu, KVM_RUN, 0);

		if (r < 0) {
			CHECK(errno == EINTR);
			m.run->immediate_exit = 0;
			__atomic_store_n(&returned, handled, __ATOMIC_RELEASE);
		} else {
			CHECK(m.run->exit_reason == KVM_EXIT_IO ||
			      m.run->exit_reason == KVM_EXIT_HLT);
		}
	}
	return NULL;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void run_kicks(const char *what, const uint8_t *start, const uint8_t *end,
		      unsigned long kicks, bool irqchip)
{
	pthread_t thread;
	double worst = 0, begin = now();

	stop = 0;
	handled = returned = 0;
	machine_init(&m, start, end);
	if (irqchip) {
		/* HLT stays inside only with an in-kernel LAPIC: start over. */
		close(m.cpu);
		close(m.vm);
		CHECK((m.vm = ioctl(m.kvm, KVM_CREATE_VM, 0)) >= 0);
		CHECK(!ioctl(m.vm, KVM_CREATE_IRQCHIP, 0));
		machine_slot(&m, 0, 0, m.ram, RAM_SIZE, 0);
		CHECK((m.cpu = ioctl(m.vm, KVM_CREATE_VCPU, 0)) >= 0);
		m.run = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, m.cpu, 0);
		CHECK(m.run != MAP_FAILED);
		machine_cpuid(m.kvm, m.cpu);
		machine_long_mode(m.cpu, CODE_GPA, STACK_GPA);
	}
	CHECK(!pthread_create(&thread, NULL, vcpu_thread, NULL));
	for (unsigned long i = 1; i <= kicks; i++) {
		for (volatile int d = rand() & 2047; d > 0; d--)
			;
		double sent = now();

		CHECK(!pthread_kill(thread, SIGUSR1));
		while (__atomic_load_n(&returned, __ATOMIC_ACQUIRE) < i)
			if (now() - sent > 10) {
				fprintf(stderr, "%s: kick %lu lost (handled %lu, returned %lu)\n",
					what, i, handled, returned);
				exit(1);
			}
		if (now() - sent > worst)
			worst = now() - sent;
	}
	stop = 1;
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	printf("TABLE %s: %lu kicks, none lost, %.1f us each, worst %.2f ms\n", what, kicks,
	       (now() - begin) * 1e6 / (double)kicks, worst * 1e3);
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
}

int main(int argc, char **argv)
{
	unsigned long kicks = argc > 1 ? strtoul(argv[1], NULL, 0) : 20000;
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	CHECK(!sigaction(SIGUSR1, &act, NULL));
	srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
	run_kicks("spinning guest", spin_start, spin_end, kicks, false);
	run_kicks("port I/O", ports_start, ports_end, kicks, false);
	run_kicks("halted guest", halts_start, halts_end, kicks, true);
	return 0;
}
