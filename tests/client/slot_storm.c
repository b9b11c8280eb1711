/* SPDX-License-Identifier: MIT */
/*
 * A slot is replaced 10,000 times under two running vCPUs: each call returns
 * in bounded time, and after it nobody writes through the old mapping.
 */
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* Each vCPU increments its own word at 2M (+ rdi); a hole is MMIO, ignored. */
GUEST_CODE(guest, "1: incq 0x200000(%rdi)\n jmp 1b");

static struct machine m;
static int second;
static volatile int stop;

static void on_signal(int sig)
{
	(void)sig;
}

static void *vcpu_thread(void *arg)
{
	int fd = *(int *)arg;

	while (!stop)
		if (ioctl(fd, KVM_RUN, 0) < 0)
			CHECK(errno == EINTR);
	return NULL;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10000;
	struct sigaction act = { .sa_handler = on_signal };
	struct kvm_regs regs;
	uint64_t *page[2];
	pthread_t t[2];
	double worst = 0;

	CHECK(!sigaction(SIGUSR1, &act, NULL));
	machine_init(&m, guest_start, guest_end);
	machine_slot(&m, 0, 0, m.ram, 0, 0);
	machine_slot(&m, 0, 0, m.ram, 0x200000, 0);
	CHECK((second = ioctl(m.vm, KVM_CREATE_VCPU, 1)) >= 0);
	machine_cpuid(m.kvm, second);
	machine_long_mode(second, CODE_GPA, STACK_GPA);
	CHECK(!ioctl(second, KVM_GET_REGS, &regs));
	regs.rdi = 64;
	CHECK(!ioctl(second, KVM_SET_REGS, &regs));
	for (int i = 0; i < 2; i++)
		page[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	machine_slot(&m, 1, 0x200000, page[0], 4096, 0);
	CHECK(!pthread_create(&t[0], NULL, vcpu_thread, &m.cpu));
	CHECK(!pthread_create(&t[1], NULL, vcpu_thread, &second));
	for (int i = 0; i < rounds; i++) {
		uint64_t *old = page[i & 1], *new = page[~i & 1], before[2];
		double start = now(), took;

		machine_slot(&m, 1, 0x200000, old, 0, 0);
		before[0] = __atomic_load_n(&old[0], __ATOMIC_RELAXED);
		before[1] = __atomic_load_n(&old[8], __ATOMIC_RELAXED);
		machine_slot(&m, 1, 0x200000, new, 4096, 0);
		took = now() - start;
		worst = took > worst ? took : worst;
		for (volatile int d = 0; d < 3000; d++)
			;
		CHECK(__atomic_load_n(&old[0], __ATOMIC_RELAXED) == before[0]);
		CHECK(__atomic_load_n(&old[8], __ATOMIC_RELAXED) == before[1]);
	}
	CHECK(worst < 5);
	CHECK(page[0][0] + page[1][0] > 0 && page[0][8] + page[1][8] > 0);
	stop = 1;
	for (int i = 0; i < 2; i++) {
		struct timespec until;

		/* A signal between the look at `stop` and KVM_RUN is one too few. */
		do {
			pthread_kill(t[i], SIGUSR1);
			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_sec++;
		} while (pthread_timedjoin_np(t[i], NULL, &until));
	}
	printf("TABLE slot storm: %d replacements, worst %.2f ms\n", rounds, worst * 1e3);
	return 0;
}
