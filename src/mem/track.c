/* SPDX-License-Identifier: MIT */
#include "mem/track.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mem/mem.h"

#define SPINS_BEFORE_SLEEP 500

int track_attach(struct mem *mem, _Atomic u32 *attn, struct track_vcpu **out)
{
	for (unsigned i = 0; i < TRACK_MAX_VCPUS; i++) {
		struct track_vcpu *t = &mem->vcpu[i];
		bool mine;

		pthread_mutex_lock(&t->lock);
		mine = !t->attn;
		if (mine) {
			t->attn = attn;
			t->kinds = t->pages = 0;
			t->waits = t->wait_ns = 0;
			atomic_store(&t->ack, t->want);
		}
		pthread_mutex_unlock(&t->lock);
		if (mine) {
			*out = t;
			return 0;
		}
	}
	return -ENOSPC;
}

void track_detach(struct track_vcpu *t)
{
	pthread_mutex_lock(&t->lock);
	t->attn = NULL;
	pthread_mutex_unlock(&t->lock);
	track_exit(t);
}

static void wake(struct track_vcpu *t)
{
	if (atomic_load(&t->waiters))
		syscall(SYS_futex, &t->ack, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void track_enter(struct track_vcpu *t)
{
	atomic_store(&t->in_guest, 1);
}

void track_exit(struct track_vcpu *t)
{
	atomic_store(&t->in_guest, 0);
	wake(t);
}

void track_take(struct track_vcpu *t, struct track_work *w)
{
	pthread_mutex_lock(&t->lock);
	w->count = t->want;
	w->kinds = t->kinds;
	w->pages = t->pages;
	for (u32 i = 0; i < t->pages; i++)
		w->page[i] = t->page[i];
	t->kinds = t->pages = 0;
	pthread_mutex_unlock(&t->lock);
}

void track_done(struct track_vcpu *t, u32 count)
{
	atomic_store(&t->ack, count);
	wake(t);
}

static void name_page(struct track_vcpu *t, struct bpage *bp)
{
	for (u32 i = 0; i < t->pages; i++)
		if (t->page[i] == bp)
			return;
	if (t->pages < TRACK_PAGES)
		t->page[t->pages++] = bp;
	else
		t->kinds |= TRACK_WRITES;
}

/* Return: false if nobody is there. */
static bool post(struct track_vcpu *t, u32 kinds, struct bpage *bp, u32 *count)
{
	bool here;

	pthread_mutex_lock(&t->lock);
	here = t->attn != NULL;
	if (here) {
		if (kinds & TRACK_PAGE)
			name_page(t, bp);
		t->kinds |= kinds;
		*count = atomic_fetch_add(&t->want, 1) + 1;
		atomic_fetch_or(t->attn, ATTN_MEM);
	}
	pthread_mutex_unlock(&t->lock);
	return here;
}

static bool acknowledged(struct track_vcpu *t, u32 n)
{
	return !atomic_load(&t->in_guest) || (s32)(atomic_load(&t->ack) - n) >= 0;
}

/* A quarter of a millisecond at a time: whoever waits must also serve requests to
 * itself, and between its look at in_guest and its sleep a vCPU may leave. */
static void wait_a_little(struct track_vcpu *t, u32 n)
{
	struct timespec ts = {.tv_nsec = 250000};

	atomic_fetch_add(&t->waiters, 1);
	u32 seen = atomic_load(&t->ack);

	if (!acknowledged(t, n))
		syscall(SYS_futex, &t->ack, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
	atomic_fetch_sub(&t->waiters, 1);
}

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

static void wait_for(struct track_vcpu *t, u32 n, void (*serve)(void *arg), void *arg)
{
	for (unsigned spins = 0; !acknowledged(t, n); spins++) {
		if (serve)
			serve(arg);
		if (spins < SPINS_BEFORE_SLEEP)
			__builtin_ia32_pause();
		else
			wait_a_little(t, n);
	}
}

static void count_wait(struct mem *mem, struct track_vcpu *self, u64 ns)
{
	if (self) {
		self->waits++;
		self->wait_ns += ns;
	} else {
		atomic_fetch_add_explicit(&mem->waits, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&mem->wait_ns, ns, memory_order_relaxed);
	}
}

void track_request(struct mem *mem, u64 mask, u32 kinds, struct bpage *bp,
		   struct track_vcpu *self, void (*serve)(void *arg), void *arg)
{
	u32 count[TRACK_MAX_VCPUS];
	u64 asked = 0, start = 0;

	if (self)
		mask &= ~BIT64(self->id);
	for (u64 m = mask; m; m &= m - 1) {
		int i = bits_ffs64(m);

		if (post(&mem->vcpu[i], kinds, bp, &count[i]))
			asked |= BIT64(i);
	}
	for (u64 m = asked; m; m &= m - 1) {
		int i = bits_ffs64(m);

		if (acknowledged(&mem->vcpu[i], count[i]))
			continue;
		if (!start)
			start = now_ns();
		wait_for(&mem->vcpu[i], count[i], serve, arg);
	}
	if (start)
		count_wait(mem, self, now_ns() - start);
}
