/* SPDX-License-Identifier: MIT */
/*
 * KVM_RUN: exits, their completion by running the instruction again, and the
 * fields of the run page.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>

#include "unit/vm/guest.h"

static struct guest g;

static int set_up(void **state)
{
	(void)state;
	return guest_create(&g, false, 1);
}

static int set_up_irqchip(void **state)
{
	(void)state;
	return guest_create(&g, true, 1);
}

static int tear_down(void **state)
{
	(void)state;
	guest_destroy(&g);
	return 0;
}

static struct kvm_run *run_to(u32 reason)
{
	assert_int_equal(guest_run(&g, 0), 0);
	assert_int_equal(g.run[0]->exit_reason, reason);
	return g.run[0];
}

static void expect_mmio(u64 addr, unsigned len, bool write, u64 data)
{
	struct kvm_run *run = run_to(KVM_EXIT_MMIO);
	u64 got = 0;

	assert_int_equal(run->mmio.phys_addr, addr);
	assert_int_equal(run->mmio.len, len);
	assert_int_equal(run->mmio.is_write, write);
	memcpy(&got, run->mmio.data, len);
	if (write)
		assert_int_equal(got, data);
	else
		memcpy(run->mmio.data, &data, 8);
}

/* --- ports ------------------------------------------------------------------ */

static void rip_stays_at_a_port_access_until_the_next_run(void **state)
{
	struct kvm_run *run;

	(void)state;
	guest_code(&g, "\xe4\x80" /* in $0x80, %al */
		       "\xe7\x81" /* out %eax, $0x81 */
		       "\xf4");
	run = run_to(KVM_EXIT_IO);
	assert_int_equal(run->io.port, 0x80);
	assert_int_equal(run->io.direction, KVM_EXIT_IO_IN);
	assert_int_equal(run->io.size, 1);
	assert_int_equal(run->io.count, 1);
	assert_int_equal(guest_regs(&g, 0).rip, CODE);
	*((u8 *)run + run->io.data_offset) = 0x5a;
	run = run_to(KVM_EXIT_IO);
	assert_int_equal(run->io.direction, KVM_EXIT_IO_OUT);
	assert_int_equal(*(u32 *)((u8 *)run + run->io.data_offset), 0x5a);
	assert_int_equal(guest_regs(&g, 0).rax, 0x5a);
	run_to(KVM_EXIT_HLT);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 5);
}

static void immediate_exit_completes_the_access_first(void **state)
{
	struct kvm_run *run;

	(void)state;
	guest_code(&g, "\xe5\x80\xf4"); /* in $0x80, %eax; hlt */
	run = run_to(KVM_EXIT_IO);
	*(u32 *)((u8 *)run + run->io.data_offset) = 0x12345678;
	run->immediate_exit = 1;
	assert_int_equal(guest_run(&g, 0), -EINTR);
	assert_int_equal(guest_regs(&g, 0).rax, 0x12345678);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 2);
	assert_int_equal(guest_run(&g, 0), -EINTR);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 2);
	run->immediate_exit = 0;
	run_to(KVM_EXIT_HLT);
}

static void a_moved_rip_drops_the_answer(void **state)
{
	struct kvm_regs r;
	struct kvm_run *run;

	(void)state;
	guest_code(&g, "\xe4\x80\xf4\x90\xe4\x80\xf4");
	run = run_to(KVM_EXIT_IO);
	*((u8 *)run + run->io.data_offset) = 0x11;
	r = guest_regs(&g, 0);
	r.rip = CODE + 3;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	run = run_to(KVM_EXIT_IO); /* the other IN asks for itself */
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 4);
	*((u8 *)run + run->io.data_offset) = 0x22;
	run_to(KVM_EXIT_HLT);
	assert_int_equal(guest_regs(&g, 0).rax, 0x22);
}

static void string_output_comes_in_batches(void **state)
{
	unsigned total = 0;
	struct kvm_regs r;

	(void)state;
	guest_code(&g, "\xf3\x66\x6f\xf4"); /* rep outsw; hlt */
	for (unsigned i = 0; i < 5000; i++)
		((u16 *)(g.ram + DATA))[i] = (u16)i;
	r = guest_regs(&g, 0);
	r.rcx = 5000;
	r.rsi = DATA;
	r.rdx = 0x300;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	while (assert_int_equal(guest_run(&g, 0), 0), g.run[0]->exit_reason == KVM_EXIT_IO) {
		struct kvm_run *run = g.run[0];
		u16 *data = (u16 *)((u8 *)run + run->io.data_offset);

		assert_in_range(run->io.count, 2, 2048);
		for (unsigned i = 0; i < run->io.count; i++)
			assert_int_equal(data[i], total + i);
		total += run->io.count;
	}
	assert_int_equal(total, 5000);
	r = guest_regs(&g, 0);
	assert_int_equal(r.rcx, 0);
	assert_int_equal(r.rsi, DATA + 10000);
}

/* --- MMIO --------------------------------------------------------------------- */

static void an_access_across_a_page_end_has_two_fragments(void **state)
{
	(void)state;
	guest_code(&g, "\x48\x8b\x87\xfd\x0f\x00\x00" /* mov 0xffd(%rdi), %rax */
		       "\x48\x89\x87\xff\x0f\x00\x00" /* mov %rax, 0xfff(%rdi) */
		       "\xf4");
	expect_mmio(DEVICE + 0xffd, 3, false, 0x332211);
	expect_mmio(DEVICE + 0x1000, 5, false, 0x8877665544);
	expect_mmio(DEVICE + 0xfff, 1, true, 0x11);
	assert_int_equal(guest_regs(&g, 0).rax, 0x8877665544332211);
	expect_mmio(DEVICE + 0x1000, 7, true, 0x88776655443322);
	run_to(KVM_EXIT_HLT);
}

static void sixteen_bytes_are_two_exits(void **state)
{
	(void)state;
	guest_code(&g, "\x0f\x10\x07"	  /* movups (%rdi), %xmm0 */
		       "\x0f\x11\x47\x20" /* movups %xmm0, 0x20(%rdi) */
		       "\xf4");
	expect_mmio(DEVICE, 8, false, 0x1111);
	expect_mmio(DEVICE + 8, 8, false, 0x2222);
	expect_mmio(DEVICE + 0x20, 8, true, 0x1111);
	expect_mmio(DEVICE + 0x28, 8, true, 0x2222);
	run_to(KVM_EXIT_HLT);
}

static void read_modify_write_asks_twice(void **state)
{
	(void)state;
	guest_code(&g, "\xf0\x0f\xc1\x07" /* lock xadd %eax, (%rdi) */
		       "\xf4");
	struct kvm_regs r = guest_regs(&g, 0);

	r.rax = 5;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	expect_mmio(DEVICE, 4, false, 100);
	expect_mmio(DEVICE, 4, true, 105);
	run_to(KVM_EXIT_HLT);
	assert_int_equal(guest_regs(&g, 0).rax, 100);
}

static void repeated_moves_from_a_device(void **state)
{
	struct kvm_regs r = guest_regs(&g, 0);

	(void)state;
	guest_code(&g, "\xf3\xa5\xf4"); /* rep movsd; hlt */
	r.rsi = DEVICE;
	r.rdi = DATA;
	r.rcx = 3;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	for (u32 i = 0; i < 3; i++)
		expect_mmio(DEVICE + 4 * i, 4, false, 7 + i);
	run_to(KVM_EXIT_HLT);
	for (u32 i = 0; i < 3; i++)
		assert_int_equal(((u32 *)(g.ram + DATA))[i], 7 + i);
	assert_int_equal(guest_regs(&g, 0).rcx, 0);
}

/* One question is answered by a device of ours, the next by the client: the
 * first is not asked again when the instruction runs again. */
static void a_device_of_ours_and_one_of_the_client(void **state)
{
	struct kvm_regs r = guest_regs(&g, 0);

	(void)state;
	guest_code(&g, "\xa5\xf4"); /* movsd; hlt */
	r.rsi = 0xfee00030;	    /* LAPIC version */
	r.rdi = DEVICE;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	assert_int_equal(guest_run(&g, 0), 0);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_MMIO);
	assert_int_equal(g.run[0]->mmio.is_write, 1);
	assert_int_equal(g.run[0]->mmio.data[0], 0x14);
	assert_int_equal(guest_regs(&g, 0).rip, CODE);
	g.run[0]->immediate_exit = 1;
	assert_int_equal(guest_run(&g, 0), -EINTR);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 1);
	assert_int_equal(guest_regs(&g, 0).rsi, 0xfee00034);
}

/* --- interrupts without our controllers ------------------------------------------ */

static void windows_and_injection(void **state)
{
	struct kvm_interrupt irq = { .irq = 0x33 };
	struct kvm_run *run = g.run[0];

	(void)state;
	guest_code(&g, "\x90\xfb\x90\x90\xeb\xfe"); /* nop; sti; nop; nop; jmp . */
	run->request_interrupt_window = 1;
	run_to(KVM_EXIT_IRQ_WINDOW_OPEN);
	/* One instruction after STI. */
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 3);
	assert_int_equal(run->if_flag, 1);
	assert_int_equal(run->ready_for_interrupt_injection, 1);
	run->request_interrupt_window = 0;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_INTERRUPT, &irq), 0);
	run_to(KVM_EXIT_HLT); /* in the handler */
	assert_int_equal(guest_regs(&g, 0).rip, HANDLER + 0x33 * 16 + 1);
	assert_int_equal(run->if_flag, 0);
	assert_int_equal(run->ready_for_interrupt_injection, 0);
}

static void lowering_cr8_leaves_to_the_client(void **state)
{
	struct kvm_run *run = g.run[0];

	(void)state;
	guest_code(&g, "\x44\x0f\x22\xc0\xf4"); /* mov %rax, %cr8; hlt */
	run->cr8 = 5;
	run_to(KVM_EXIT_SET_TPR);
	assert_int_equal(run->cr8, 0);
	assert_int_equal(guest_regs(&g, 0).rip, CODE + 4);
	run_to(KVM_EXIT_HLT);
	run->cr8 = 16;
	assert_int_equal(guest_run(&g, 0), -EINVAL);
}

static void nmi_is_taken_once_and_masks_others(void **state)
{
	struct kvm_vcpu_events e;

	(void)state;
	guest_code(&g, "\xeb\xfe");
	IOCTL(g.vcpu[0], KVM_NMI, 0);
	IOCTL(g.vcpu[0], KVM_NMI, 0);
	IOCTL(g.vcpu[0], KVM_NMI, 0);
	run_to(KVM_EXIT_HLT);
	assert_int_equal(guest_regs(&g, 0).rip, HANDLER + 2 * 16 + 1);
	IOCTL(g.vcpu[0], KVM_GET_VCPU_EVENTS, &e);
	assert_int_equal(e.nmi.masked, 1);
	assert_int_equal(e.nmi.pending, 1); /* two at most were kept */
	run_to(KVM_EXIT_HLT); /* IRETQ, then the second one */
	IOCTL(g.vcpu[0], KVM_GET_VCPU_EVENTS, &e);
	assert_int_equal(e.nmi.pending, 0);
}

/* --- the ends ------------------------------------------------------------------------ */

static void a_triple_fault_is_a_shutdown(void **state)
{
	struct kvm_sregs s;

	(void)state;
	guest_code(&g, "\x0f\x0b"); /* ud2 */
	IOCTL(g.vcpu[0], KVM_GET_SREGS, &s);
	s.idt.limit = 0;
	IOCTL(g.vcpu[0], KVM_SET_SREGS, &s);
	run_to(KVM_EXIT_SHUTDOWN);
}

static void code_outside_memory_is_an_internal_error(void **state)
{
	struct kvm_regs r = guest_regs(&g, 0);

	(void)state;
	r.rip = DEVICE;
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	run_to(KVM_EXIT_INTERNAL_ERROR);
	assert_int_equal(g.run[0]->internal.suberror, KVM_INTERNAL_ERROR_EMULATION);
	assert_int_equal(guest_regs(&g, 0).rip, DEVICE);
}

/* The library's handlers of SIGSEGV and SIGBUS: cmocka takes both for every test. */
static struct sigaction ours[2];

static void memory_that_the_client_took_away_is_efault(void **state)
{
	(void)state;
	sigaction(SIGSEGV, &ours[0], NULL);
	sigaction(SIGBUS, &ours[1], NULL);
	guest_code(&g, "\x8b\x04\x25\x00\x00\x02\x00\xf4"); /* mov DATA, %eax; hlt */
	mprotect(g.ram + DATA, 4096, PROT_NONE);
	assert_int_equal(guest_run(&g, 0), -EFAULT);
	assert_int_equal(guest_regs(&g, 0).rip, CODE);
	/* Given back, the instruction works as if nothing had happened. */
	mprotect(g.ram + DATA, 4096, PROT_READ | PROT_WRITE);
	run_to(KVM_EXIT_HLT);
}

static void sync_registers_are_checked(void **state)
{
	struct kvm_run *run = g.run[0];

	(void)state;
	guest_code(&g, "\xf4");
	run->kvm_valid_regs = 8;
	assert_int_equal(guest_run(&g, 0), -EINVAL);
	run->kvm_valid_regs = KVM_SYNC_X86_REGS;
	run->kvm_dirty_regs = 1ull << 63;
	assert_int_equal(guest_run(&g, 0), -EINVAL);
	run->s.regs.regs = guest_regs(&g, 0);
	run->s.regs.regs.rbx = 42;
	run->kvm_dirty_regs = KVM_SYNC_X86_REGS;
	run_to(KVM_EXIT_HLT);
	assert_int_equal(guest_regs(&g, 0).rbx, 42);
	assert_int_equal(run->s.regs.regs.rip, CODE + 1);
	assert_int_equal(run->kvm_dirty_regs, 0);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
#define CASE_CHIP(fn) cmocka_unit_test_setup_teardown(fn, set_up_irqchip, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rip_stays_at_a_port_access_until_the_next_run),
		CASE(immediate_exit_completes_the_access_first),
		CASE(a_moved_rip_drops_the_answer),
		CASE(string_output_comes_in_batches),
		CASE(an_access_across_a_page_end_has_two_fragments),
		CASE(sixteen_bytes_are_two_exits),
		CASE(read_modify_write_asks_twice),
		CASE(repeated_moves_from_a_device),
		CASE_CHIP(a_device_of_ours_and_one_of_the_client),
		CASE(windows_and_injection),
		CASE(lowering_cr8_leaves_to_the_client),
		CASE(nmi_is_taken_once_and_masks_others),
		CASE(a_triple_fault_is_a_shutdown),
		CASE(code_outside_memory_is_an_internal_error),
		CASE(memory_that_the_client_took_away_is_efault),
		CASE(sync_registers_are_checked),
	};

	locum_close(locum_open(O_RDWR));
	sigaction(SIGSEGV, NULL, &ours[0]);
	sigaction(SIGBUS, NULL, &ours[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
