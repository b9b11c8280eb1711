/* SPDX-License-Identifier: MIT */
/* KVM_GET/SET_VCPU_EVENTS and what is delivered because of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "unit/vm/guest.h"

static struct guest g;

static int set_up(void **state)
{
	(void)state;
	return guest_create(&g, false, 1);
}

static int tear_down(void **state)
{
	(void)state;
	guest_destroy(&g);
	return 0;
}

static struct kvm_vcpu_events get(void)
{
	struct kvm_vcpu_events e;

	assert_int_equal(IOCTL(g.vcpu[0], KVM_GET_VCPU_EVENTS, &e), 0);
	return e;
}

static long set(struct kvm_vcpu_events *e)
{
	return IOCTL(g.vcpu[0], KVM_SET_VCPU_EVENTS, e);
}

static void enable(u32 cap)
{
	struct kvm_enable_cap c = { .cap = cap, .args = { 1 } };

	assert_int_equal(IOCTL(g.vm, KVM_ENABLE_CAP, &c), 0);
}

/* Runs to the HLT in the handler of @vector. */
static void expect_handler(u8 vector)
{
	assert_int_equal(guest_run(&g, 0), 0);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_HLT);
	assert_int_equal(guest_regs(&g, 0).rip, HANDLER + vector * 16u + 1);
}

static void an_injected_exception_is_delivered(void **state)
{
	struct kvm_vcpu_events e = get();

	(void)state;
	e.exception.injected = 1;
	e.exception.nr = 13;
	e.exception.has_error_code = 1;
	e.exception.error_code = 0x1230;
	assert_int_equal(set(&e), 0);
	e = get();
	assert_int_equal(e.exception.injected, 1);
	assert_int_equal(e.exception.nr, 13);
	assert_int_equal(e.exception.error_code, 0x1230);
	expect_handler(13);
	/* Error code, RIP, CS, RFLAGS, RSP, SS. */
	assert_int_equal(*(u64 *)(g.ram + STACK - 48), 0x1230);
	assert_int_equal(*(u64 *)(g.ram + STACK - 40), CODE);
	assert_int_equal(get().exception.injected, 0);
}

static void a_payload_is_applied_when_the_exception_is_taken(void **state)
{
	struct kvm_vcpu_events e = get();
	struct kvm_sregs s;

	(void)state;
	e.flags |= KVM_VCPUEVENT_VALID_PAYLOAD;
	e.exception.pending = 1;
	e.exception.nr = 14;
	e.exception.has_error_code = 1;
	e.exception.error_code = 2;
	e.exception_has_payload = 1;
	e.exception_payload = 0xabcd000;
	assert_int_equal(set(&e), -EINVAL); /* not enabled */
	enable(KVM_CAP_EXCEPTION_PAYLOAD);
	assert_int_equal(set(&e), 0);
	e = get();
	assert_int_equal(e.exception.pending, 1);
	assert_int_equal(e.exception.injected, 0);
	assert_int_equal(e.exception_payload, 0xabcd000);
	IOCTL(g.vcpu[0], KVM_GET_SREGS, &s);
	assert_int_equal(s.cr2, 0);
	expect_handler(14);
	IOCTL(g.vcpu[0], KVM_GET_SREGS, &s);
	assert_int_equal(s.cr2, 0xabcd000);
}

static void set_regs_drops_a_pending_exception(void **state)
{
	struct kvm_guest_debug d = { .control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_INJECT_DB };
	struct kvm_regs r = guest_regs(&g, 0);

	(void)state;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_SET_GUEST_DEBUG, &d), 0);
	assert_int_equal(IOCTL(g.vcpu[0], KVM_SET_GUEST_DEBUG, &d), -EBUSY);
	assert_int_equal(get().exception.injected, 1);
	IOCTL(g.vcpu[0], KVM_SET_REGS, &r);
	assert_int_equal(get().exception.injected, 0);
}

static void the_shadow_survives_and_delays_an_nmi(void **state)
{
	struct kvm_vcpu_events e = get();

	(void)state;
	guest_code(&g, "\x90\xeb\xfe"); /* nop; jmp . */
	e.interrupt.shadow = KVM_X86_SHADOW_INT_STI;
	e.nmi.pending = 1;
	assert_int_equal(set(&e), 0);
	e = get();
	assert_int_equal(e.interrupt.shadow, KVM_X86_SHADOW_INT_STI);
	assert_int_equal(e.nmi.pending, 1);
	expect_handler(2);
	/* Taken after the NOP, not before it. */
	assert_int_equal(*(u64 *)(g.ram + STACK - 40), CODE + 1);
	assert_int_equal(get().nmi.masked, 1);
}

static void an_interrupt_is_injected_whatever_if_says(void **state)
{
	struct kvm_vcpu_events e = get();

	(void)state;
	e.interrupt.injected = 1;
	e.interrupt.nr = 0x77;
	assert_int_equal(set(&e), 0);
	assert_int_equal(get().interrupt.injected, 1);
	expect_handler(0x77);
}

static void a_pending_triple_fault_is_a_shutdown(void **state)
{
	struct kvm_vcpu_events e = get();

	(void)state;
	assert_int_equal(e.flags & KVM_VCPUEVENT_VALID_TRIPLE_FAULT, 0);
	e.flags |= KVM_VCPUEVENT_VALID_TRIPLE_FAULT;
	e.triple_fault.pending = 1;
	assert_int_equal(set(&e), -EINVAL);
	enable(KVM_CAP_X86_TRIPLE_FAULT_EVENT);
	assert_int_equal(set(&e), 0);
	assert_int_equal(get().triple_fault.pending, 1);
	assert_int_equal(guest_run(&g, 0), 0);
	assert_int_equal(g.run[0]->exit_reason, KVM_EXIT_SHUTDOWN);
	assert_int_equal(get().triple_fault.pending, 0);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_injected_exception_is_delivered),
		CASE(a_payload_is_applied_when_the_exception_is_taken),
		CASE(set_regs_drops_a_pending_exception),
		CASE(the_shadow_survives_and_delays_an_nmi),
		CASE(an_interrupt_is_injected_whatever_if_says),
		CASE(a_pending_triple_fault_is_a_shutdown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
