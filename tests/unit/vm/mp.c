/* SPDX-License-Identifier: MIT */
/* Several vCPUs: start-up, halting, waking, kicks; MP states as clients see them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "unit/vm/guest.h"

static struct guest g;

static int set_up(void **state)
{
	(void)state;
	return guest_create(&g, true, 2);
}

static int tear_down(void **state)
{
	(void)state;
	guest_destroy(&g);
	return 0;
}

static u32 mp_state(int n)
{
	struct kvm_mp_state s = { ~0u };

	assert_int_equal(IOCTL(g.vcpu[n], KVM_GET_MP_STATE, &s), 0);
	return s.mp_state;
}

static void put_mp_state(int n, u32 state)
{
	struct kvm_mp_state s = { state };

	assert_int_equal(IOCTL(g.vcpu[n], KVM_SET_MP_STATE, &s), 0);
}

/** struct runner - a thread in KVM_RUN */
struct runner {
	pthread_t thread;
	int vcpu;
	_Atomic int tid;
	_Atomic bool done;
	long result;
};

static void *run_main(void *arg)
{
	struct runner *r = arg;

	atomic_store(&r->tid, gettid());
	r->result = guest_run(&g, r->vcpu);
	atomic_store(&r->done, true);
	return NULL;
}

static void runner_start(struct runner *r, int vcpu)
{
	memset(r, 0, sizeof(*r));
	r->vcpu = vcpu;
	assert_int_equal(pthread_create(&r->thread, NULL, run_main, r), 0);
	while (!atomic_load(&r->tid))
		sched_yield();
}

static long runner_join(struct runner *r)
{
	pthread_join(r->thread, NULL);
	return r->result;
}

static void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* --- APIC by MMIO from guest code ------------------------------------------------ */

/* movl $value, 0xfee00000 + offset (absolute, by %rbx) */
static u8 *apic_write(u8 *p, u32 offset, u32 value)
{
	*p++ = 0xc7; /* movl imm32, disp32(%rbx) */
	*p++ = 0x83;
	memcpy(p, &offset, 4);
	memcpy(p + 4, &value, 4);
	return p + 8;
}

static void with_apic_in_rbx(int n)
{
	struct kvm_regs r = guest_regs(&g, n);

	r.rbx = 0xfee00000;
	IOCTL(g.vcpu[n], KVM_SET_REGS, &r);
}

static void the_first_vcpu_runs_and_others_wait(void **state)
{
	(void)state;
	assert_int_equal(mp_state(0), KVM_MP_STATE_RUNNABLE);
	assert_int_equal(mp_state(1), KVM_MP_STATE_UNINITIALIZED);
}

static void an_uninitialized_vcpu_blocks_until_kicked(void **state)
{
	struct runner r;

	(void)state;
	runner_start(&r, 1);
	sleep_ms(20);
	assert_false(atomic_load(&r.done));
	locum_kick(atomic_load(&r.tid));
	assert_int_equal(runner_join(&r), -EINTR);
	assert_int_equal(g.run[1]->exit_reason, KVM_EXIT_INTR);
	assert_int_equal(mp_state(1), KVM_MP_STATE_UNINITIALIZED);
	g.run[1]->immediate_exit = 1;
	assert_int_equal(guest_run(&g, 1), -EINTR);
}

/* Runs vCPU 0 from CODE: writes ICR low, then asks a port. */
static void boss_sends(u32 icr)
{
	struct kvm_regs r = guest_regs(&g, 0);
	u8 *p = g.ram + CODE;

	p = apic_write(p, 0x310, 1 << 24); /* to APIC 1 */
	p = apic_write(p, 0x300, icr);
	memcpy(p, "\xe4\x80", 2);
	r.rip = CODE;
	r.rbx = 0xfee00000;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	assert_int_equal(guest_run(&g, 0), 0);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_IO);
}

static void init_and_sipi_start_a_vcpu(void **state)
{
	struct kvm_sregs sregs;
	struct runner r;

	(void)state;
	/* INIT, assert: whether the other is in KVM_RUN already or not. */
	runner_start(&r, 1);
	boss_sends(0x4500);
	assert_int_equal(runner_join(&r), -EAGAIN);
	assert_int_equal(mp_state(1), KVM_MP_STATE_INIT_RECEIVED);
	/* SIPI: vector 0x09 starts real-mode code at 0x9000, which asks a port. */
	memcpy(g.ram + 0x9000, "\xe4\x42\xf4", 3);
	runner_start(&r, 1);
	boss_sends(0x4609);
	assert_int_equal(runner_join(&r), 0);
	assert_int_equal(g.run[1]->exit_reason, KVM_EXIT_IO);
	assert_int_equal(g.run[1]->io.port, 0x42);
	IOCTL(g.vcpu[1], KVM_GET_SREGS, &sregs);
	assert_int_equal(sregs.cs.selector, 0x900);
	assert_int_equal(sregs.cs.base, 0x9000);
	assert_int_equal(sregs.cr0 & 1, 0);
	assert_int_equal(mp_state(1), KVM_MP_STATE_RUNNABLE);
	/* A second start-up IPI finds a running processor and is ignored. */
	boss_sends(0x460a);
	g.run[1]->immediate_exit = 1;
	assert_int_equal(guest_run(&g, 1), -EINTR);
	assert_int_equal(mp_state(1), KVM_MP_STATE_RUNNABLE);
	assert_int_equal(guest_regs(&g, 1).rip, 2);
}

/* Wait until vCPU 0 has executed HLT. */
static void wait_for_halt(void)
{
	bool halted = false;

	while (!halted) {
		char *text = locum_stats_json(g.vm);

		halted = strstr(text, "\"halt_exits\": 1,");
		free(text);
		sleep_ms(1);
	}
}

/* A kick leaves a halted vCPU halted. */
static void a_kick_does_not_wake(void **state)
{
	struct runner r;

	(void)state;
	guest_code(&g, "\xf4");
	runner_start(&r, 0);
	wait_for_halt();
	locum_kick(atomic_load(&r.tid));
	assert_int_equal(runner_join(&r), -EINTR);
	assert_int_equal(mp_state(0), KVM_MP_STATE_HALTED);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 1);
}

/* A halted vCPU is woken by each thing that can wake it, and goes on behind HLT. */
static void send_msi(u8 vector)
{
	struct kvm_msi m = { .address_lo = 0xfee00000, .data = vector };

	assert_int_equal(IOCTL(g.vm, KVM_SIGNAL_MSI, &m), 1);
}

static void enable_apic(int n)
{
	struct kvm_lapic_state s;

	IOCTL(g.vcpu[n], KVM_GET_LAPIC, &s);
	*(u32 *)(void *)(s.regs + 0xf0) |= 0x100;
	IOCTL(g.vcpu[n], KVM_SET_LAPIC, &s);
}

static void a_halted_vcpu_wakes_for_an_interrupt(void **state)
{
	struct runner r;

	(void)state;
	guest_code(&g, "\xfb\xf4\xe4\x80"); /* sti; hlt; in $0x80, %al */
	memcpy(g.ram + HANDLER + 0x44 * 16, "\x48\xcf", 2); /* iretq */
	enable_apic(0);
	runner_start(&r, 0);
	sleep_ms(20);
	assert_false(atomic_load(&r.done));
	send_msi(0x44);
	assert_int_equal(runner_join(&r), 0);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_IO);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 2);
}

static void with_interrupts_off_only_an_nmi_wakes(void **state)
{
	struct runner r;

	(void)state;
	guest_code(&g, "\xf4\xe4\x80"); /* hlt; in $0x80, %al */
	memcpy(g.ram + HANDLER + 2 * 16, "\x48\xcf", 2);
	enable_apic(0);
	runner_start(&r, 0);
	sleep_ms(10);
	send_msi(0x44);
	sleep_ms(20);
	assert_false(atomic_load(&r.done));
	/* KVM_NMI waits for the vCPU's mutex: through the APIC it goes at once. */
	struct kvm_msi m = { .address_lo = 0xfee00000, .data = 4 << 8 };

	IOCTL(g.vm, KVM_SIGNAL_MSI, &m);
	assert_int_equal(runner_join(&r), 0);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_IO);
}

static void the_apic_timer_wakes_a_halted_vcpu(void **state)
{
	u8 *p = g.ram + CODE;
	struct timespec a, b;

	(void)state;
	memcpy(g.ram + HANDLER + 0x55 * 16, "\x48\xcf", 2);
	p = apic_write(p, 0xf0, 0x1ff);
	p = apic_write(p, 0x3e0, 0xb);	    /* divide by 1 */
	p = apic_write(p, 0x320, 0x55);	    /* one-shot */
	p = apic_write(p, 0x380, 30000000); /* 30 ms */
	memcpy(p, "\xfb\xf4\xe4\x80", 4);
	with_apic_in_rbx(0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(guest_run(&g, 0), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_IO);
	assert_true((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 >= 29);
}

/* The same for one that spins: the VM's timer thread draws its attention. */
static void the_apic_timer_interrupts_a_busy_vcpu(void **state)
{
	u8 *p = g.ram + CODE;

	(void)state;
	memcpy(g.ram + HANDLER + 0x55 * 16, "\xe4\x81", 2); /* in $0x81, %al */
	p = apic_write(p, 0xf0, 0x1ff);
	p = apic_write(p, 0x3e0, 0xb);
	p = apic_write(p, 0x320, 0x55);
	p = apic_write(p, 0x380, 5000000);
	memcpy(p, "\xfb\xeb\xfe", 3); /* sti; jmp . */
	with_apic_in_rbx(0);
	assert_int_equal(guest_run(&g, 0), 0);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_IO);
	assert_int_equal(g.run[0]->io.port, 0x81);
}

/* Kicks at all times into a vCPU that halts, spins and exits: each ends a KVM_RUN. */
static void no_kick_is_lost(void **state)
{
	static const char *const codes[] = { "\xf4", "\xeb\xfe" };

	(void)state;
	for (int i = 0; i < 400; i++) {
		struct kvm_regs r = guest_regs(&g, 0);
		struct runner t;

		r.rip = CODE;
		IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
		put_mp_state(0, KVM_MP_STATE_RUNNABLE);
		memcpy(g.ram + CODE, codes[i & 1], 2);
		runner_start(&t, 0);
		for (int k = 0; k < i % 50 * 20; k++)
			__builtin_ia32_pause();
		/* The thread may not be inside yet: kick until it is out, but a
		 * kick that found it inside is enough. */
		while (!atomic_load(&t.done)) {
			locum_kick(atomic_load(&t.tid));
			for (int k = 0; k < 200 && !atomic_load(&t.done); k++)
				sched_yield();
		}
		assert_int_equal(runner_join(&t), -EINTR);
	}
}

static void mp_states_are_checked(void **state)
{
	struct kvm_mp_state s = { KVM_MP_STATE_STOPPED };

	(void)state;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_SET_MP_STATE, &s), -EINVAL);
	for (u32 v = KVM_MP_STATE_RUNNABLE; v <= KVM_MP_STATE_HALTED; v++) {
		put_mp_state(1, v);
		assert_int_equal(mp_state(1), v);
	}
	/* Waiting for SIPI, and it has come. */
	put_mp_state(1, KVM_MP_STATE_SIPI_RECEIVED);
	assert_int_equal(mp_state(1), KVM_MP_STATE_RUNNABLE);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_first_vcpu_runs_and_others_wait),
		CASE(an_uninitialized_vcpu_blocks_until_kicked),
		CASE(init_and_sipi_start_a_vcpu),
		CASE(a_kick_does_not_wake),
		CASE(a_halted_vcpu_wakes_for_an_interrupt),
		CASE(with_interrupts_off_only_an_nmi_wakes),
		CASE(the_apic_timer_wakes_a_halted_vcpu),
		CASE(the_apic_timer_interrupts_a_busy_vcpu),
		CASE(no_kick_is_lost),
		CASE(mp_states_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
