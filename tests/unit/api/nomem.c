/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail: for every n, the n-th call of malloc, mmap,
 * memfd_create, pthread_create ... made by the library while a VM is made,
 * furnished and run fails, alone or with all that follow.  The ioctl answers
 * ENOMEM or its like, nothing is lost, and afterwards everything works.
 *
 * The linker sends the library's calls here (mk/nomem.mk).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "locum/kvm.h"

/* --- calls that may fail ---------------------------------------------------------- */

static _Atomic long countdown; /* the call that makes it 0 fails; 0: none does */
static _Atomic bool from_then_on;
static _Atomic long failed;
static _Atomic long heap, maps; /* what is there: blocks, mapped bytes */

static bool fails(void)
{
	long n = atomic_load(&countdown);

	if (!n)
		return false;
	if (n > 1) {
		atomic_fetch_sub(&countdown, 1);
		return false;
	}
	if (!from_then_on)
		atomic_store(&countdown, 0);
	atomic_fetch_add(&failed, 1);
	return true;
}

#define WRAP(type, name, params, args, error)                                  \
	type __real_##name params;                                             \
	type __wrap_##name params;                                             \
	type __wrap_##name params                                              \
	{                                                                      \
		if (fails()) {                                                 \
			errno = error;                                         \
			return (type)-1;                                       \
		}                                                              \
		return __real_##name args;                                     \
	}

#define WRAP_ALLOC(name, params, args)                                         \
	void *__real_##name params;                                            \
	void *__wrap_##name params;                                            \
	void *__wrap_##name params                                             \
	{                                                                      \
		void *p;                                                       \
                                                                               \
		if (fails()) {                                                 \
			errno = ENOMEM;                                        \
			return NULL;                                           \
		}                                                              \
		p = __real_##name args;                                        \
		heap += p != NULL;                                             \
		return p;                                                      \
	}

WRAP_ALLOC(malloc, (size_t n), (n))
WRAP_ALLOC(calloc, (size_t n, size_t size), (n, size))
WRAP_ALLOC(aligned_alloc, (size_t align, size_t n), (align, n))
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), EMFILE)
WRAP(int, ftruncate, (int fd, off_t size), (fd, size), ENOSPC)
WRAP(int, epoll_create1, (int flags), (flags), EMFILE)
WRAP(int, eventfd, (unsigned value, int flags), (value, flags), EMFILE)
WRAP(int, timerfd_create, (int clock, int flags), (clock, flags), EMFILE)

int __real_epoll_ctl(int ep, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *e)
{
	if (op == EPOLL_CTL_ADD && fails()) {
		errno = ENOSPC;
		return -1;
	}
	return __real_epoll_ctl(ep, op, fd, e);
}

int __real_fcntl(int fd, int cmd, unsigned long arg);
int __wrap_fcntl(int fd, int cmd, unsigned long arg);
int __wrap_fcntl(int fd, int cmd, unsigned long arg)
{
	if ((cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) && fails()) {
		errno = EMFILE;
		return -1;
	}
	return __real_fcntl(fd, cmd, arg);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
	void *q = fails() ? NULL : __real_realloc(p, n);

	heap += !p && q;
	return q;
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	heap -= p != NULL;
	__real_free(p);
}

void *__real_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off)
{
	void *p = MAP_FAILED;

	if (fails())
		errno = ENOMEM;
	else
		p = __real_mmap(addr, n, prot, flags, fd, off);
	if (p != MAP_FAILED && !(flags & MAP_FIXED))
		maps += (long)((n + 4095) & ~4095ul);
	return p;
}

int __real_munmap(void *addr, size_t n);
int __wrap_munmap(void *addr, size_t n);
int __wrap_munmap(void *addr, size_t n)
{
	maps -= (long)((n + 4095) & ~4095ul);
	return __real_munmap(addr, n);
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	return fails() ? EAGAIN : __real_pthread_create(t, a, fn, arg);
}

/* --- what is done meanwhile ---------------------------------------------------------- */

#define RAM 0x40000

static uint8_t *ram;

/* A VM with everything, and a guest of ten bytes.  Each step may fail for want
 * of memory, and the rest goes on without it. */
struct session {
	int sys, vm, vcpu[2];
	long worst; /* an errno that no failed allocation gives */
};

static long step(struct session *s, int fd, unsigned long request, void *arg)
{
	long r = fd < 0 ? -ENODEV : locum_ioctl(fd, request, (unsigned long)arg);

	if (r < 0 && r != -ENODEV && r != -ENOMEM && r != -EAGAIN && r != -EMFILE && r != -ENOSPC)
		s->worst = r;
	return r;
}

/* Eventfds for interrupts and for writes, added, changed and taken away. */
static void connect_eventfds(struct session *s)
{
	int a = __real_eventfd(0, EFD_CLOEXEC), b = __real_eventfd(0, EFD_CLOEXEC);
	struct kvm_irqfd irq = { .fd = (uint32_t)a, .gsi = 1 };
	struct kvm_irqfd level = { .fd = (uint32_t)b, .gsi = 2, .resamplefd = (uint32_t)a,
				   .flags = KVM_IRQFD_FLAG_RESAMPLE };
	struct kvm_ioeventfd io[2] = { { .addr = 0x80, .len = 1, .fd = a,
					 .flags = KVM_IOEVENTFD_FLAG_PIO },
				       { .addr = 0xd0000000, .len = 4, .fd = b } };
	struct kvm_coalesced_mmio_zone zone = { .addr = 0xe0000000, .size = 64 };

	/* Without a controller EAGAIN or EINVAL: that is no matter of memory. */
	if (locum_ioctl(s->vm, KVM_IRQFD, (unsigned long)&irq) != -EINVAL) {
		step(s, s->vm, KVM_IRQFD, &level);
		irq.flags = KVM_IRQFD_FLAG_DEASSIGN;
		step(s, s->vm, KVM_IRQFD, &irq);
	}
	step(s, s->vm, KVM_IOEVENTFD, &io[1]);
	if (!step(s, s->vm, KVM_IOEVENTFD, &io[0])) {
		io[0].flags |= KVM_IOEVENTFD_FLAG_DEASSIGN;
		step(s, s->vm, KVM_IOEVENTFD, &io[0]);
	}
	step(s, s->vm, KVM_REGISTER_COALESCED_MMIO, &zone);
	close(a);
	close(b);
}

static void furnish(struct session *s)
{
	struct kvm_userspace_memory_region slot = { .slot = 1,
						    .flags = KVM_MEM_LOG_DIRTY_PAGES,
						    .guest_phys_addr = 0x100000,
						    .memory_size = RAM,
						    .userspace_addr = (uintptr_t)ram };
	struct kvm_pit_config pit = { 0 };
	uint64_t bits[2] = { 0 };
	struct kvm_dirty_log log = { .slot = 1, .dirty_bitmap = bits };
	uint8_t bitmap[8] = { 0xff };
	struct kvm_msr_filter filter = {
		.ranges = { { .flags = 3, .nmsrs = 64, .base = 0x100, .bitmap = bitmap } }
	};
	struct {
		struct kvm_irq_routing head;
		struct kvm_irq_routing_entry e[2];
	} routes = { .head.nr = 2 };

	for (unsigned i = 0; i < 2; i++)
		routes.e[i] = (struct kvm_irq_routing_entry){
			.gsi = i,
			.type = KVM_IRQ_ROUTING_IRQCHIP,
			.u.irqchip = { .irqchip = 2, .pin = i }
		};
	if (!step(s, s->vm, KVM_CREATE_IRQCHIP, NULL)) {
		step(s, s->vm, KVM_CREATE_PIT2, &pit);
		step(s, s->vm, KVM_SET_GSI_ROUTING, &routes);
	}
	if (!step(s, s->vm, KVM_SET_USER_MEMORY_REGION, &slot)) {
		step(s, s->vm, KVM_GET_DIRTY_LOG, &log);
		slot.guest_phys_addr = 0;
		if (!step(s, s->vm, KVM_SET_USER_MEMORY_REGION, &slot)) {
			slot.flags = 0;
			step(s, s->vm, KVM_SET_USER_MEMORY_REGION, &slot);
		}
	}
	step(s, s->vm, KVM_X86_SET_MSR_FILTER, &filter);
	connect_eventfds(s);
}

static void set_cpuid(struct session *s, int vcpu)
{
	static struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entry[100];
	} id;

	id.head.nent = 100;
	if (!step(s, s->sys, KVM_GET_SUPPORTED_CPUID, &id))
		step(s, vcpu, KVM_SET_CPUID2, &id);
}

/* Real mode: every tenth page read, one byte out. */
static void run(struct session *s, int vcpu)
{
	static const uint8_t code[] = { 0xb0, 0x2a, 0xa2, 0x00, 0x20, 0xa0, 0x00, 0x30,
					0xa0, 0x00, 0x50, 0xe6, 0x10, 0xf4 };
	struct kvm_run *page;
	struct kvm_sregs sregs;
	struct kvm_regs regs = { .rip = 0x1000, .rsp = 0x800, .rflags = 2 };
	long r;

	if (vcpu < 0)
		return;
	memcpy(ram + 0x1000, code, sizeof(code));
	page = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (page == MAP_FAILED)
		return;
	if (!step(s, vcpu, KVM_GET_SREGS, &sregs)) {
		sregs.cs.base = sregs.cs.selector = 0;
		if (!step(s, vcpu, KVM_SET_SREGS, &sregs) && !step(s, vcpu, KVM_SET_REGS, &regs)) {
			r = step(s, vcpu, KVM_RUN, NULL);
			/* A slot that could not be made: no code. */
			if (!r && page->exit_reason != KVM_EXIT_IO &&
			    page->exit_reason != KVM_EXIT_INTERNAL_ERROR)
				s->worst = -1000 - (long)page->exit_reason;
			if (!failed && page->exit_reason != KVM_EXIT_IO)
				s->worst = -1;
		}
	}
	munmap(page, 12288);
}

static struct session session(void)
{
	struct session s = { .vcpu = { -1, -1 }, .vm = -1 };

	s.sys = locum_open(O_RDWR | O_CLOEXEC);
	if (s.sys >= 0)
		s.vm = (int)step(&s, s.sys, KVM_CREATE_VM, NULL);
	if (s.vm >= 0)
		furnish(&s);
	for (unsigned long i = 0; i < 2 && s.vm >= 0; i++) {
		s.vcpu[i] = (int)step(&s, s.vm, KVM_CREATE_VCPU, (void *)i);
		if (s.vcpu[i] >= 0)
			set_cpuid(&s, s.vcpu[i]);
		else if (s.vcpu[i] == -EEXIST)
			s.worst = -EEXIST;
	}
	run(&s, s.vcpu[0]);
	/* libc allocated it. */
	__real_free(s.vm >= 0 ? locum_stats_json(s.vm) : NULL);
	for (int i = 0; i < 2; i++)
		if (s.vcpu[i] >= 0)
			locum_close(s.vcpu[i]);
	if (s.vm >= 0)
		locum_close(s.vm);
	if (s.sys >= 0)
		locum_close(s.sys);
	return s;
}

/* --- the sweep ------------------------------------------------------------------------ */

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void check_nothing_lost(long n, long heap_before, long maps_before, int fds, int threads)
{
	int t = 0;

	/* A joined thread may still be on its way out of /proc. */
	for (int i = 0; i < 2000; i++) {
		t = entries("/proc/self/task");
		if (t <= threads)
			break;
		usleep(1000);
	}
	if (heap != heap_before || maps != maps_before || entries("/proc/self/fd") != fds ||
	    t != threads)
		fail_msg("failing call %ld%s: %ld blocks, %ld bytes mapped, %d descriptors, %d threads lost",
			 n, from_then_on ? " and all after it" : "", heap - heap_before,
			 maps - maps_before, entries("/proc/self/fd") - fds, t - threads);
}

static void sweep(bool all)
{
	long heap_before, maps_before, n;
	int fds, threads;

	session(); /* what the library keeps for good */
	session();
	fds = entries("/proc/self/fd");
	threads = entries("/proc/self/task");
	heap_before = heap;
	maps_before = maps;
	from_then_on = all;
	for (n = 1;; n++) {
		struct session s;

		failed = 0;
		countdown = n;
		s = session();
		countdown = 0;
		if (s.worst)
			fail_msg("failing call %ld%s: an ioctl answers %ld", n,
				 all ? " and all after it" : "", s.worst);
		check_nothing_lost(n, heap_before, maps_before, fds, threads);
		if (!failed)
			break;
		failed = 0;
		s = session();
		if (s.worst || s.vcpu[1] < 0)
			fail_msg("after failing call %ld: nothing works any more (%ld)", n, s.worst);
	}
	from_then_on = false;
	printf("TABLE %ld calls that may fail\n", n - 1);
	assert_true(n > 20);
}

static void one_call_fails(void **state)
{
	(void)state;
	sweep(false);
}

static void all_calls_from_one_on_fail(void **state)
{
	(void)state;
	sweep(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_call_fails),
		cmocka_unit_test(all_calls_from_one_on_fail),
	};

	ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return ram == MAP_FAILED || cmocka_run_group_tests(tests, NULL, NULL);
}
