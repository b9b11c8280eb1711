/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "locum/kvm.h"

struct world world;

/* --- input ------------------------------------------------------------------- */

u8 in8(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

u32 in32(struct input *in)
{
	u32 v = 0;

	in_bytes(in, &v, sizeof(v));
	return v;
}

u64 in64(struct input *in)
{
	u64 v = 0;

	in_bytes(in, &v, sizeof(v));
	return v;
}

u32 in_below(struct input *in, u32 n)
{
	u32 v = in8(in);

	if (n > 256)
		v |= (u32)in8(in) << 8;
	return v % n;
}

u64 in_value(struct input *in)
{
	u8 kind = in8(in);

	switch (kind & 7) {
	case 0:
		return in8(in);
	case 1:
		return 1ull << (in8(in) & 63);
	case 2:
		return (1ull << (in8(in) & 63)) - 1;
	case 3:
		return ~0ull - in8(in);
	case 4:
		return (u64)in8(in) << 12;
	case 5:
		return in32(in);
	default:
		return in64(in);
	}
}

void in_bytes(struct input *in, void *buf, size_t n)
{
	size_t k = n < in->left ? n : in->left;

	memcpy(buf, in->p, k);
	memset((u8 *)buf + k, 0, n - k);
	in->p += k;
	in->left -= k;
}

/* --- trace and failure ---------------------------------------------------------- */

static int tracing = -1;

void world_trace(const char *format, ...)
{
	va_list ap;

	if (tracing < 0)
		tracing = getenv("FUZZ_TRACE") != NULL;
	if (!tracing)
		return;
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void world_fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	fputs("ioctl: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
	abort();
}

/* --- memory -------------------------------------------------------------------- */

#define GUARD_PAGES 4u
#define STRIDE	    (AREA_PAGES + GUARD_PAGES)
#define ARENA_PAGES (AREAS * STRIDE + GUARD_PAGES)

static u8 *arena;
static u8 may_change[ARENA_PAGES];

static u8 pattern(unsigned page)
{
	return (u8)(0xa5 ^ page * 7);
}

u8 *arena_area(unsigned i)
{
	return arena + (GUARD_PAGES + i * STRIDE) * 4096u;
}

void arena_may_change(const void *p, u64 n)
{
	u64 first = (u64)((const u8 *)p - arena) / 4096;
	u64 last = ((u64)((const u8 *)p - arena) + n + 4095) / 4096;

	for (u64 i = first; i < last && i < ARENA_PAGES; i++)
		may_change[i] = 1;
}

void arena_check(void)
{
	for (unsigned i = 0; i < ARENA_PAGES; i++) {
		u8 *page = arena + i * 4096u;

		if (may_change[i]) {
			memset(page, pattern(i), 4096);
			may_change[i] = 0;
		} else if (page[0] != pattern(i) || memcmp(page, page + 1, 4095)) {
			world_fail("page %u of the arena was written; no slot showed it", i);
		}
	}
}

/* --- threads in calls -------------------------------------------------------------- */

#define THREADS	  3 /* the main one and two workers */
#define PATIENCE  (60 * 1000000000ull)

struct job {
	unsigned times, us;
	u64 seed;
	int fd;
	struct kvm_run *run;
};

static struct thread {
	_Atomic u64 since; /* in a call since then; 0: in none */
	_Atomic u32 request;
	_Atomic int tid;
	_Atomic u32 kick_us; /* 0: never */
	struct kvm_run *_Atomic run;
	_Atomic int busy; /* a worker has a job */
	struct job job;
	unsigned long runs;
	unsigned kicks; /* the watchdog's */
} threads[THREADS];

static __thread struct thread *self;

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
}

static void nap(unsigned us)
{
	struct timespec ts = { 0, (long)us * 1000 };

	nanosleep(&ts, NULL);
}

static void *watch(void *arg)
{
	(void)arg;
	for (;;) {
		nap(200);
		for (struct thread *t = threads; t < threads + THREADS; t++) {
			u64 since = t->since, us = t->kick_us;
			u64 spent = since ? now_ns() - since : 0;

			if (since && spent > PATIENCE)
				world_fail("request %#x does not end", t->request);
			if (since && us && spent > us * 1000) {
				struct kvm_run *run = t->run;

				if (run)
					run->immediate_exit = 1;
				/* A signal's handler kicks; it may be masked. */
				if (t->kicks++ % 2)
					syscall(SYS_tgkill, getpid(), t->tid, SIGUSR1);
				else
					locum_kick(t->tid);
			}
		}
	}
	return NULL;
}

static long call(int fd, u32 request, u64 arg)
{
	long r;

	self->request = request;
	self->since = now_ns();
	r = locum_ioctl(fd, request, arg);
	self->since = 0;
	return r;
}

long world_ioctl(int fd, u32 request, const char *name, u64 arg)
{
	long r = call(fd, request, arg);

	world.ioctls++;
	world_trace("%d: %s(%#llx) = %ld", fd, name, arg, r);
	return r;
}

static void run_job(const struct job *job)
{
	u64 seed = job->seed;

	self->run = job->run;
	self->kick_us = job->us ? job->us : 1;
	for (unsigned i = 0; i < job->times; i++) {
		long r;

		job->run->immediate_exit = 0;
		r = call(job->fd, KVM_RUN, 0);
		self->runs++;
		world_trace("%d: KVM_RUN = %ld, exit %u", job->fd, r, job->run->exit_reason);
		if (r == -EINVAL) { /* the page was scribbled on: mend it */
			job->run->kvm_valid_regs = job->run->kvm_dirty_regs = 0;
			job->run->cr8 = 0;
		} else if (r < 0 && r != -EINTR && r != -EAGAIN) {
			break;
		}
		guest_answer(job->run, &seed);
	}
	self->kick_us = 0;
	self->run = NULL;
}

static void *work(void *arg)
{
	self = arg;
	self->tid = gettid();
	for (;;) {
		while (!self->busy)
			nap(100);
		run_job(&self->job);
		self->busy = 0;
	}
	return NULL;
}

void world_run(unsigned i, unsigned times, unsigned us, int worker, u64 seed)
{
	struct fuzz_vcpu *v = &world.vcpu[i];
	struct job job = { times, us, seed, v->fd, v->run };
	struct thread *t = &threads[worker < 0 ? 0 : 1 + worker % (THREADS - 1)];

	if (v->fd < 0 || !v->run)
		return;
	world_trace("%d: run %u times, %u us each, by thread %ld", v->fd, times, us,
		    (long)(t - threads));
	if (t == self)
		run_job(&job);
	if (t == self || t->busy)
		return;
	t->job = job;
	t->busy = 1;
}

/* --- objects --------------------------------------------------------------------- */

static void on_signal(int sig)
{
	(void)sig;
	locum_kick(gettid());
}

void world_init(void)
{
	pthread_t thread;

	signal(SIGUSR1, on_signal);
	arena = mmap(NULL, ARENA_PAGES * 4096, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		world_fail("no memory");
	memset(may_change, 1, sizeof(may_change));
	arena_check();
	self = &threads[0];
	self->tid = gettid();
	for (unsigned i = 1; i < THREADS; i++)
		if (pthread_create(&thread, NULL, work, &threads[i]))
			world_fail("no thread");
	if (pthread_create(&thread, NULL, watch, NULL))
		world_fail("no thread");
	world.sys = locum_open(O_RDWR | O_CLOEXEC);
	if (world.sys < 0)
		world_fail("locum_open: %d", world.sys);
	for (unsigned i = 0; i < VMS; i++)
		world.vm[i] = -1;
	for (unsigned i = 0; i < VCPUS; i++)
		world.vcpu[i].fd = -1;
	for (unsigned i = 0; i < 4; i++)
		world.eventfd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

unsigned world_pick_vm(struct input *in)
{
	unsigned first = in_below(in, VMS);

	for (unsigned i = first; i < first + VMS; i++)
		if (world.vm[i % VMS] >= 0)
			return i % VMS;
	return first;
}

unsigned world_pick_vcpu(struct input *in)
{
	unsigned first = in_below(in, VCPUS);

	for (unsigned i = first; i < first + VCPUS; i++)
		if (world.vcpu[i % VCPUS].fd >= 0)
			return i % VCPUS;
	return first;
}

void world_close_vm(unsigned i)
{
	world_trace("close VM %u", i);
	if (world.vm[i] >= 0 && locum_close(world.vm[i]))
		world_fail("a VM cannot be closed");
	world.vm[i] = -1;
}

/* The mapping stays until the end: a worker may be using it. */
void world_close_vcpu(unsigned i)
{
	world_trace("close vCPU %u", i);
	if (world.vcpu[i].fd >= 0 && locum_close(world.vcpu[i].fd))
		world_fail("a vCPU cannot be closed");
	world.vcpu[i].fd = -1;
}

static struct kvm_run *mapped[256];
static unsigned nr_mapped;

void world_add_vcpu(unsigned vm, int fd)
{
	for (unsigned i = 0; i < VCPUS; i++) {
		struct fuzz_vcpu *v = &world.vcpu[i];

		if (v->fd >= 0)
			continue;
		v->fd = fd;
		v->vm = (int)vm;
		v->run = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (v->run == MAP_FAILED)
			world_fail("a vCPU cannot be mapped");
		if (nr_mapped < 256)
			mapped[nr_mapped++] = v->run;
		return;
	}
	locum_close(fd);
}

void world_end(void)
{
	for (unsigned i = 0; i < VMS; i++)
		if (world.vm[i] >= 0)
			world_close_vm(i);
	for (unsigned i = 0; i < VCPUS; i++)
		if (world.vcpu[i].fd >= 0)
			world_close_vcpu(i);
	world.runs = 0;
	for (struct thread *t = threads; t < threads + THREADS; t++) {
		while (t->busy)
			nap(50);
		world.runs += t->runs;
	}
	for (unsigned i = 0; i < nr_mapped; i++)
		munmap(mapped[i], 12288);
	nr_mapped = 0;
	arena_check();
}
