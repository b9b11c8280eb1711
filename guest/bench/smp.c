/* SPDX-License-Identifier: MIT */
/* Two processors that interrupt each other and share an address space. */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "work.h"

/* A thread that reads the shared pages on the second processor until told to stop. */
struct spinner {
	pthread_t thread;
	const volatile u8 *pages;
	u32 running, stop;
};

/* This thread onto processor @which of those that the process may use. */
static void pin_self(int which)
{
	cpu_set_t have, want;

	CPU_ZERO(&want);
	if (sched_getaffinity(getpid(), sizeof(have), &have))
		fail("sched_getaffinity");
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &have) && which-- == 0)
			CPU_SET(i, &want);
	if (pthread_setaffinity_np(pthread_self(), sizeof(want), &want))
		fail("pthread_setaffinity_np");
}

static void *spin(void *opaque)
{
	struct spinner *s = opaque;

	pin_self(1);
	__atomic_store_n(&s->running, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE))
		if (s->pages)
			(void)s->pages[0];
	return NULL;
}

static void start(struct spinner *s, const void *p)
{
	*s = (struct spinner){ .pages = p };
	errno = pthread_create(&s->thread, NULL, spin, s);
	if (errno)
		fail("pthread_create");
	while (!__atomic_load_n(&s->running, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void stop(struct spinner *s)
{
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
	pthread_join(s->thread, NULL);
}

/* One operation: an interrupt to the other processor, and its answer. */
u64 ipi(unsigned long n)
{
	struct spinner s;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		skip("the kernel has no membarrier(2)");
	start(&s, NULL);
	for (unsigned long i = 0; i < n; i++)
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
			fail("membarrier");
	stop(&s);
	return n;
}

/* One operation: a page loses its write permission on both processors, gets it back
 * and is written; the other processor reads another page of the same mapping. */
u64 shootdown_mprotect(unsigned long n)
{
	volatile u8 *p = pages(2 * 4096, PROT_READ | PROT_WRITE);
	struct spinner s;
	u64 sum = 0;

	start(&s, (const void *)(uintptr_t)p);
	for (unsigned long i = 0; i < n; i++) {
		p[4096] = (u8)i;
		if (mprotect((void *)(uintptr_t)(p + 4096), 4096, PROT_READ))
			fail("mprotect");
		sum += p[4096];
		if (mprotect((void *)(uintptr_t)(p + 4096), 4096, PROT_READ | PROT_WRITE))
			fail("mprotect");
	}
	stop(&s);
	munmap((void *)(uintptr_t)p, 2 * 4096);
	return sum;
}

/* One operation: a page comes, is written, and goes from both processors. */
u64 shootdown_munmap(unsigned long n)
{
	struct spinner s;
	u64 sum = 0;

	start(&s, NULL);
	for (unsigned long i = 0; i < n; i++) {
		volatile u8 *p = map_here(0, 4096);

		sum += *p;
		*p = (u8)i;
		sum += *p;
		munmap((void *)(uintptr_t)p, 4096);
	}
	stop(&s);
	return sum;
}

/* --- allocation, copying and searching in two threads ------------------------------------------ */

#define CHUNKS 16
#define CHUNK_WORDS 4096

static u32 chunk[CHUNKS][CHUNK_WORDS];

struct searcher {
	unsigned long n;
	u64 x, sum;
	unsigned place;
};

static void *search(void *opaque)
{
	struct searcher *s = opaque;

	for (unsigned long i = 0; i < s->n; i++) {
		u32 *copy = map_here(s->place, sizeof(chunk[0]));
		u64 r = random64(&s->x);
		u32 key = (u32)(r >> 32) % (CHUNK_WORDS * 3), low = 0, high = CHUNK_WORDS;

		memcpy(copy, chunk[r % CHUNKS], sizeof(chunk[0]));
		while (low < high) {
			u32 middle = (low + high) / 2;

			if (copy[middle] < key)
				low = middle + 1;
			else
				high = middle;
		}
		s->sum = fold(s->sum, low);
		munmap(copy, sizeof(chunk[0]));
	}
	return NULL;
}

/* One operation: a sorted chunk of 16 KiB is copied to new memory and searched. */
u64 ebizzy(unsigned long n)
{
	struct searcher s[2] = { { n / 2 + 1, 1, 0, 0 }, { n / 2 + 1, 2, 0, 1 } };
	pthread_t thread[2];

	munmap(map_here(0, 4096), 4096); /* not first in both threads at once */
	for (unsigned c = 0; c < CHUNKS; c++)
		for (u32 i = 0; i < CHUNK_WORDS; i++)
			chunk[c][i] = i * 3 + c % 3;
	for (int i = 0; i < 2; i++) {
		errno = pthread_create(&thread[i], NULL, search, &s[i]);
		if (errno)
			fail("pthread_create");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return fold(s[0].sum, s[1].sum);
}
