/* SPDX-License-Identifier: MIT */
/*
 * Workloads that flush translations, for `locum bench invlpg`: prints
 * "BEGIN NAME" and "END NAME NANOSECONDS" around each and is idle for a moment
 * at both, so that counters can be read from outside.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define HEAP_PAGES 1024ul

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static uint64_t random64(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static char *heap;
static volatile uint64_t sink;

/* --- a heap whose collector protects pages to learn what is written --------- */

static void write_barrier(int sig, siginfo_t *info, void *context)
{
	char *page = (char *)((uintptr_t)info->si_addr & ~(PAGE - 1));

	(void)sig;
	(void)context;
	if (page < heap || page >= heap + HEAP_PAGES * PAGE)
		_exit(3);
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

/* The mutator between two protections: reads all over the heap. */
static void mutate(unsigned reads)
{
	uint64_t sum = 0;

	while (reads--)
		sum += *(volatile uint64_t *)(heap + (random64() % HEAP_PAGES) * PAGE);
	sink += sum;
}

/* One page is protected at a time, as a concurrent collector goes through its
 * remembered set; the mutator works meanwhile and writes some of them. */
static void gc_heap(void)
{
	struct sigaction sa = { .sa_sigaction = write_barrier, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &sa, NULL);
	for (unsigned round = 0; round < 4000; round++) {
		char *page = heap + (random64() % HEAP_PAGES) * PAGE;

		mprotect(page, PAGE, PROT_READ);
		mutate(300);
		if (round % 4 == 0)
			*(volatile uint64_t *)page += 1; /* through the barrier */
		else
			mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	}
}

/* --- small mappings that come and go beside a working set -------------------- */

static void small_munmap(void)
{
	for (unsigned round = 0; round < 4000; round++) {
		size_t bytes = (1 + random64() % 4) * PAGE;
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			exit(1);
		for (size_t i = 0; i < bytes; i += PAGE)
			p[i] = 1;
		mutate(200);
		munmap(p, bytes);
	}
}

static void fork_exec(void)
{
	char self[] = "/flush", arg[] = "true";
	char *argv[] = { self, arg, NULL };

	for (unsigned round = 0; round < 60; round++) {
		pid_t pid = fork();

		if (!pid) {
			execv(self, argv);
			_exit(1);
		}
		mutate(200);
		waitpid(pid, NULL, 0);
	}
}

static const struct {
	const char *name;
	void (*fn)(void);
} work[] = {
	{ "gc-heap", gc_heap },
	{ "small-munmap", small_munmap },
	{ "fork+exec", fork_exec },
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "true"))
		return 0;
	heap = mmap(NULL, HEAP_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (heap == MAP_FAILED)
		return 1;
	madvise(heap, HEAP_PAGES * PAGE, MADV_NOHUGEPAGE);
	memset(heap, 1, HEAP_PAGES * PAGE);
	for (unsigned i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
		double start;

		printf("\nBEGIN %s\n", work[i].name);
		fflush(stdout);
		usleep(100000);
		start = now();
		work[i].fn();
		start = now() - start;
		printf("\nEND %s %.0f\n", work[i].name, start);
		fflush(stdout);
		usleep(100000);
	}
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
