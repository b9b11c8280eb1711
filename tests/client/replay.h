/* SPDX-License-Identifier: MIT */
/*
 * What the replays of micro-VM monitors share: a guest that drives a device as
 * virtio drivers do, the device, and the seccomp list on vCPU threads.
 *
 * The guest raises a number in RAM and writes the device's doorbell; the device
 * answers with an interrupt, for which the guest halts; ROUNDS times.
 */
#ifndef TESTS_REPLAY_H
#define TESTS_REPLAY_H

#include "client.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ROUNDS	 200
#define REQUESTS 0x20000 /* raised by the guest */
#define ANSWERS	 0x20004 /* interrupts taken */
#define DOORBELL 0xd0000050ull
#define QUEUE	 0 /* written to the doorbell */
#define DEVICE_GSI 5
#define VECTOR	 0x31

/* --- what vCPU threads may do ---------------------------------------------------- */

#define ALLOW(call)                                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* @call with argument @n one of two values; the number is loaded again after it. */
#define ARG(n) offsetof(struct seccomp_data, args[n])
#define ALLOW_IF(call, n, v1, v2)                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5),                         \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(n)),                    \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v1, 1, 0),                 \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v2, 0, 1),                 \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),                  \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

static void on_forbidden_call(int sig, siginfo_t *info, void *context)
{
	char text[] = "a vCPU thread made the forbidden system call 000\n";
	int nr = info->si_syscall;

	(void)sig;
	(void)context;
	for (char *p = text + sizeof(text) - 3; nr; nr /= 10)
		*p-- = (char)('0' + nr % 10);
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

/* Firecracker's list for vCPU threads, as far as it matters here; a system call
 * that is not in it is answered by SIGSYS. */
static inline void confine_this_thread(void)
{
	struct sock_filter list[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_exit),
		ALLOW(SYS_exit_group),
		ALLOW(SYS_write),
		ALLOW(SYS_open),
		ALLOW(SYS_close),
		ALLOW(SYS_eventfd2),
		ALLOW(SYS_io_uring_enter),
		ALLOW(SYS_epoll_ctl),
		ALLOW(SYS_fstat),
		ALLOW(SYS_brk),
		ALLOW(SYS_gettid),
		ALLOW(SYS_clock_gettime),
		ALLOW(SYS_mremap),
		ALLOW(SYS_munmap),
		ALLOW(SYS_rt_sigprocmask),
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_sigaltstack),
		ALLOW(SYS_timerfd_settime),
		ALLOW(SYS_sched_yield),
		ALLOW(SYS_sendmsg),
		ALLOW(SYS_restart_syscall),
		ALLOW_IF(SYS_futex, 1, 0, 1),
		ALLOW_IF(SYS_futex, 1, 128, 129),
		ALLOW_IF(SYS_futex, 1, 137, 137),
		ALLOW_IF(SYS_madvise, 2, MADV_DONTNEED, MADV_DONTNEED),
		ALLOW_IF(SYS_mmap, 2, PROT_READ | PROT_WRITE, PROT_READ),
		ALLOW_IF(SYS_rt_sigaction, 0, SIGABRT, SIGABRT),
		ALLOW_IF(SYS_tkill, 1, SIGABRT, SIGABRT),
		/* A real KVM's ioctls: type 0xae in bits 15:8. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(1)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff00),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xae00, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = { sizeof(list) / sizeof(list[0]), list };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

/* --- the device -------------------------------------------------------------------- */

struct device {
	struct machine *m;
	int doorbell, irq; /* eventfds; -1: by exits and KVM_IRQ_LINE */
	pthread_t thread;
	int stop;
	unsigned long served, exits;
	unsigned long gate; /* hold the answer after so many; 0: never */
	bool held;
};

/* Any thread: a pulse of the line ends before the next one begins. */
static inline void device_answer(struct device *d)
{
	static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t one = 1;

	if (d->gate && d->served == d->gate) {
		d->held = true;
		return;
	}
	d->served++;
	if (d->irq >= 0) {
		CHECK(write(d->irq, &one, 8) == 8);
		return;
	}
	pthread_mutex_lock(&line_lock);
	for (int level = 1; level >= 0; level--) {
		struct kvm_irq_level line = { .irq = DEVICE_GSI, .level = (unsigned)level };

		CHECK(!ioctl(d->m->vm, KVM_IRQ_LINE, &line));
	}
	pthread_mutex_unlock(&line_lock);
}

static inline void *device_main(void *arg)
{
	struct device *d = arg;

	while (!__atomic_load_n(&d->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd p = { d->doorbell, POLLIN, 0 };
		uint64_t n;

		if (poll(&p, 1, 20) == 1 && read(d->doorbell, &n, 8) == 8)
			device_answer(d);
	}
	return NULL;
}

/* The doorbell's ioeventfd and the interrupt's irqfd, if they are offered. */
static inline void device_connect(struct device *d, struct machine *m)
{
	struct kvm_ioeventfd io = { .addr = DOORBELL, .len = 4, .datamatch = QUEUE,
				    .flags = KVM_IOEVENTFD_FLAG_DATAMATCH };
	struct kvm_irqfd irq = { .gsi = DEVICE_GSI };

	*d = (struct device){ .m = m, .doorbell = -1, .irq = -1 };
	if (ioctl(m->kvm, KVM_CHECK_EXTENSION, KVM_CAP_IRQFD) > 0) {
		CHECK((d->irq = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) >= 0);
		irq.fd = (uint32_t)d->irq;
		CHECK(!ioctl(m->vm, KVM_IRQFD, &irq));
	} else {
		printf("SKIP irqfd: not offered\n");
	}
	if (ioctl(m->kvm, KVM_CHECK_EXTENSION, KVM_CAP_IOEVENTFD) > 0) {
		CHECK((d->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) >= 0);
		io.fd = d->doorbell;
		CHECK(!ioctl(m->vm, KVM_IOEVENTFD, &io));
		CHECK(ioctl(m->vm, KVM_IOEVENTFD, &io) < 0 && errno == EEXIST);
		CHECK(!pthread_create(&d->thread, NULL, device_main, d));
	} else {
		printf("SKIP ioeventfd: not offered\n");
	}
}

static inline void device_disconnect(struct device *d)
{
	if (d->doorbell >= 0) {
		__atomic_store_n(&d->stop, 1, __ATOMIC_RELEASE);
		pthread_join(d->thread, NULL);
		close(d->doorbell);
	}
	if (d->irq >= 0)
		close(d->irq);
}

/* A write that no ioeventfd took. */
static inline void device_exit(struct device *d, const struct kvm_run *run)
{
	CHECK(run->exit_reason == KVM_EXIT_MMIO && run->mmio.is_write && run->mmio.len == 4);
	CHECK(run->mmio.phys_addr == DOORBELL);
	CHECK(d->doorbell < 0);
	d->exits++;
	device_answer(d);
}

#endif
