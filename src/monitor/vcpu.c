/* SPDX-License-Identifier: MIT */
/* A thread a vCPU, and what it does when KVM_RUN returns. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "monitor/machine.h"

#define KICK SIGUSR1

static __thread const struct backend *kicked; /* of the vCPU that this thread runs */

static void give_up(struct machine_cpu *c, const char *what, unsigned long long detail)
{
	struct kvm_regs r = { 0 };

	if (machine_stopped(c->m))
		return;
	c->m->be->ioctl(c->fd, KVM_GET_REGS, (unsigned long)&r);
	fprintf(stderr, "locum: vCPU %u: %s %#llx at rip %#llx\n", c->id, what, detail,
		(unsigned long long)r.rip);
	machine_stop(c->m, RUN_TRIPLE);
}

static void triple_fault(struct machine_cpu *c)
{
	if (machine_stopped(c->m))
		return;
	triple_fault_report(c);
	machine_stop(c->m, RUN_TRIPLE);
}

static void io_exit(struct machine_cpu *c)
{
	struct kvm_run *run = c->run;
	u8 *data = (u8 *)run + run->io.data_offset;

	for (u32 i = 0; i < run->io.count; i++)
		devices_io(c->m, run->io.port, run->io.size, data + i * run->io.size,
			   run->io.direction == KVM_EXIT_IO_OUT);
}

static void handle_exit(struct machine_cpu *c)
{
	struct kvm_run *run = c->run;

	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		io_exit(c);
		break;
	case KVM_EXIT_MMIO:
		devices_mmio(c->m, run->mmio.phys_addr, run->mmio.len, run->mmio.data,
			     run->mmio.is_write);
		break;
	case KVM_EXIT_INTR:
		break;
	case KVM_EXIT_SHUTDOWN:
		triple_fault(c);
		break;
	case KVM_EXIT_SYSTEM_EVENT:
		machine_stop(c->m, RUN_OFF);
		break;
	case KVM_EXIT_FAIL_ENTRY:
		give_up(c, "the processor refused to enter the guest, reason",
			run->fail_entry.hardware_entry_failure_reason);
		break;
	case KVM_EXIT_INTERNAL_ERROR:
		give_up(c, "the backend cannot go on, internal error", run->internal.suberror);
		break;
	default:
		give_up(c, "unexpected exit reason", run->exit_reason);
		break;
	}
}

static void *vcpu_thread(void *arg)
{
	struct machine_cpu *c = arg;

	kicked = c->m->be;
	while (!machine_stopped(c->m)) {
		long r = c->m->be->ioctl(c->fd, KVM_RUN, 0);

		if (r == -EINTR || r == -EAGAIN)
			continue;
		if (r < 0)
			give_up(c, "KVM_RUN failed, errno", (unsigned long long)-r);
		else
			handle_exit(c);
	}
	return NULL;
}

static void on_kick(int sig)
{
	(void)sig;
	if (kicked)
		kicked->kick((int)syscall(SYS_gettid));
}

int vcpus_start(struct machine *m)
{
	struct sigaction act = { .sa_handler = on_kick };

	sigaction(KICK, &act, NULL);
	for (unsigned i = 0; i < m->ncpus; i++) {
		int err = pthread_create(&m->cpu[i].thread, NULL, vcpu_thread, &m->cpu[i]);

		if (err) {
			fprintf(stderr, "locum: no thread for vCPU %u: %s\n", i, strerror(err));
			machine_stop(m, RUN_USAGE);
			return RUN_USAGE;
		}
		m->cpu[i].started = true;
	}
	return 0;
}

/* immediate_exit ends the next KVM_RUN, the signal the present one; it may come
 * just before KVM_RUN looks, so it is sent until the thread has gone. */
void vcpus_join(struct machine *m)
{
	for (unsigned i = 0; i < m->ncpus; i++) {
		struct machine_cpu *c = &m->cpu[i];

		while (c->started) {
			struct timespec until;

			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_nsec += 20000000;
			if (until.tv_nsec >= 1000000000) {
				until.tv_sec++;
				until.tv_nsec -= 1000000000;
			}
			__atomic_store_n(&c->run->immediate_exit, 1, __ATOMIC_RELAXED);
			pthread_kill(c->thread, KICK);
			if (!pthread_timedjoin_np(c->thread, NULL, &until))
				c->started = false;
		}
	}
}
