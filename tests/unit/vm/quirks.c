/* SPDX-License-Identifier: MIT */
/* What KVM_ENABLE_CAP switches in KVM_RUN: the exit behind OUT 0x7e, HLT that
 * stays inside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "unit/vm/guest.h"

static struct guest g;

static int tear_down(void **state)
{
	(void)state;
	guest_destroy(&g);
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	return guest_create(&g, false, 1);
}

static long enable(int fd, u32 cap, u64 arg)
{
	struct kvm_enable_cap c = { .cap = cap, .args = { arg } };

	return IOCTL(fd, KVM_ENABLE_CAP, &c);
}

static struct kvm_run *run_to(u32 reason)
{
	assert_int_equal(guest_run(&g, 0), 0);
	assert_int_equal(g.run[0]->exit_reason, reason);
	return g.run[0];
}

static void expect_out(u16 port, u64 rip)
{
	struct kvm_run *run = run_to(KVM_EXIT_IO);

	assert_int_equal(run->io.port, port);
	assert_int_equal(run->io.direction, KVM_EXIT_IO_OUT);
	assert_int_equal(guest_regs(&g, 0).rip, rip);
}

static void out_7e(void **state)
{
	struct kvm_regs r;

	(void)state;
	guest_code(&g, "\xe6\x7e" /* out %al, $0x7e */
		       "\xe6\x7f" /* out %al, $0x7f */
		       "\xba\x7e\0\0\0" /* mov $0x7e, %edx */
		       "\xef" /* out %eax, %dx */
		       "\xf4");
	expect_out(0x7e, CODE + 2);
	expect_out(0x7f, CODE + 2); /* not behind it */
	expect_out(0x7e, CODE + 10);
	run_to(KVM_EXIT_HLT);
	/* Once more without the quirk. */
	assert_int_equal(enable(g.vm, KVM_CAP_DISABLE_QUIRKS2, KVM_X86_QUIRK_OUT_7E_INC_RIP), 0);
	r = guest_regs(&g, 0);
	r.rip = CODE;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	expect_out(0x7e, CODE);
	expect_out(0x7f, CODE + 2);
	/* The mask is replaced, not added to. */
	assert_int_equal(enable(g.vm, KVM_CAP_DISABLE_QUIRKS2, 0), 0);
	expect_out(0x7e, CODE + 10);
	assert_int_equal(enable(g.vm, KVM_CAP_DISABLE_QUIRKS2, 1u << 30), -EINVAL);
}

/* With immediate_exit the access is complete, nothing more is executed. */
static void out_7e_is_done(void **state)
{
	(void)state;
	guest_code(&g, "\xe6\x7e\x90\xf4");
	expect_out(0x7e, CODE + 2);
	g.run[0]->immediate_exit = 1;
	assert_int_equal(guest_run(&g, 0), -EINTR);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 2);
	g.run[0]->immediate_exit = 0;
	run_to(KVM_EXIT_HLT);
}

static void capability_rules(void **state)
{
	int vm = (int)IOCTL(g.sys, KVM_CREATE_VM, 0), vcpu;

	(void)state;
	assert_int_equal(IOCTL(g.sys, KVM_CHECK_EXTENSION, KVM_CAP_X86_DISABLE_EXITS),
			 KVM_X86_DISABLE_EXITS_HLT | KVM_X86_DISABLE_EXITS_PAUSE |
				 KVM_X86_DISABLE_EXITS_CSTATE);
	assert_int_equal(enable(vm, KVM_CAP_X86_DISABLE_EXITS, 16), -EINVAL);
	assert_int_equal(enable(vm, KVM_CAP_X86_DISABLE_EXITS, 15), 0);
	assert_int_equal(enable(vm, KVM_CAP_EXIT_ON_EMULATION_FAILURE, 2), -EINVAL);
	assert_int_equal(enable(vm, KVM_CAP_EXIT_ON_EMULATION_FAILURE, 1), 0);
	assert_int_equal(enable(vm, KVM_CAP_X86_BUS_LOCK_EXIT, 1), -EINVAL);
	assert_int_equal(enable(vm, KVM_CAP_X86_NOTIFY_VMEXIT, 1), -EINVAL);
	assert_int_equal(enable(vm, KVM_CAP_SGX_ATTRIBUTE, 0), -EINVAL);
	vcpu = (int)IOCTL(vm, KVM_CREATE_VCPU, 0);
	assert_true(vcpu >= 0);
	assert_int_equal(enable(vm, KVM_CAP_X86_DISABLE_EXITS, 2), -EINVAL);
	locum_close(vcpu);
	locum_close(vm);
}

/* --- HLT inside ------------------------------------------------------------------ */

static void *kick_soon(void *arg)
{
	usleep(20000);
	g.run[0]->immediate_exit = 1;
	locum_kick(*(int *)arg);
	return NULL;
}

static void run_until_kicked(void)
{
	int tid = (int)gettid();
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, kick_soon, &tid), 0);
	assert_int_equal(guest_run(&g, 0), -EINTR);
	pthread_join(t, NULL);
	g.run[0]->immediate_exit = 0;
}

/* The LAPIC is the client's, and still HLT does not leave: an interrupt that the
 * client injects goes on from there, and so does an open window. */
static void hlt_inside(void **state)
{
	struct kvm_interrupt irq = { .irq = 0x40 };
	struct kvm_mp_state mp;

	(void)state;
	guest_code(&g, "\xfb\xf4\xe6\x10\xf4"); /* sti; hlt; out %al, $0x10; hlt */
	memcpy(g.ram + HANDLER + 16 * 0x40, "\x48\xcf", 2); /* iretq */
	run_until_kicked();
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 2);
	assert_int_equal(IOCTL(g.vcpu[0], KVM_GET_MP_STATE, &mp), 0);
	assert_int_equal(mp.mp_state, KVM_MP_STATE_RUNNABLE);
	run_until_kicked(); /* and halted it stays */
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 2);
	assert_int_equal(IOCTL(g.vcpu[0], KVM_INTERRUPT, &irq), 0);
	expect_out(0x10, CODE + 2);
	g.run[0]->request_interrupt_window = 1;
	run_to(KVM_EXIT_IRQ_WINDOW_OPEN);
}

static int set_up_inside(void **state)
{
	struct kvm_userspace_memory_region r = { .memory_size = RAM_BYTES };
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 e[80];
	} cpuid = { .head = { .nent = 80 } };

	if (set_up(state) || IOCTL(g.sys, KVM_GET_SUPPORTED_CPUID, &cpuid))
		return -1;
	/* Another VM, as exits are disabled before vCPUs are made. */
	munmap(g.run[0], 12288);
	locum_close(g.vcpu[0]);
	locum_close(g.vm);
	g.vm = (int)IOCTL(g.sys, KVM_CREATE_VM, 0);
	r.userspace_addr = (u64)(uintptr_t)g.ram;
	if (enable(g.vm, KVM_CAP_X86_DISABLE_EXITS, KVM_X86_DISABLE_EXITS_HLT) ||
	    IOCTL(g.vm, KVM_SET_USER_MEMORY_REGION, &r))
		return -1;
	g.vcpu[0] = (int)IOCTL(g.vm, KVM_CREATE_VCPU, 0);
	if (IOCTL(g.vcpu[0], KVM_SET_CPUID2, &cpuid))
		return -1;
	g.run[0] = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, g.vcpu[0], 0);
	guest_tables(&g);
	guest_long_mode(&g, 0);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(out_7e),
		CASE(out_7e_is_done),
		CASE(capability_rules),
		cmocka_unit_test_setup_teardown(hlt_inside, set_up_inside, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
