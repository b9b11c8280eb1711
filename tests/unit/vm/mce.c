/* SPDX-License-Identifier: MIT */
/* KVM_X86_SET_MCE: what is recorded in the bank and how the guest hears of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "base/bits.h"
#include "unit/vm/guest.h"
#include "x86/msr.h"

#define VAL	BIT64(63)
#define OVER	BIT64(62)
#define UC	BIT64(61)
#define PCC	BIT64(57)
#define S	BIT64(56)
#define CMCI_P	BIT64(10)
#define CTL_P	BIT64(8)
#define BANK	3
#define STATUS	(MSR_MC0_CTL + 4 * BANK + 1)
#define CTL2	(MSR_MC0_CTL2 + BANK)

static struct guest g;

static int set_up(void **state)
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

static long msr(u32 index, u64 *value, bool set)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e;
	} a = { .head.nmsrs = 1, .e = { .index = index, .data = *value } };
	long r = IOCTL(g.vcpu[0], set ? KVM_SET_MSRS : KVM_GET_MSRS, &a);

	*value = a.e.data;
	return r;
}

static u64 get(u32 index)
{
	u64 v = 0;

	assert_int_equal(msr(index, &v, false), 1);
	return v;
}

static void put(u32 index, u64 v)
{
	assert_int_equal(msr(index, &v, true), 1);
}

static void set_cap(u64 flags)
{
	u64 cap = flags | 8;

	assert_int_equal(IOCTL(g.vcpu[0], KVM_X86_SETUP_MCE, &cap), 0);
}

static void set_cr4_mce(bool on)
{
	struct kvm_sregs s;

	IOCTL(g.vcpu[0], KVM_GET_SREGS, &s);
	s.cr4 = on ? s.cr4 | 0x40 : s.cr4 & ~0x40ull;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_SET_SREGS, &s), 0);
}

enum heard { NOTHING, MACHINE_CHECK, INTERRUPT, SHUTDOWN };

/* What the guest hears of: it stands at a HLT with interrupts on. */
static enum heard hears(void)
{
	struct kvm_vcpu_events e;
	struct kvm_lapic_state l;
	enum heard h = NOTHING;

	IOCTL(g.vcpu[0], KVM_GET_VCPU_EVENTS, &e);
	IOCTL(g.vcpu[0], KVM_GET_LAPIC, &l);
	if (e.exception.injected && e.exception.nr == 18)
		h = MACHINE_CHECK;
	if (*(u32 *)(l.regs + 0x200 + 0x10 * 5) & 1u << 9) /* vector 0xa9 requested */
		h = INTERRUPT;
	g.run[0]->immediate_exit = 0;
	if (h == NOTHING && e.triple_fault.pending)
		h = SHUTDOWN;
	return h;
}

static const struct {
	const char *name;
	u64 cap, before, status, mcg_status, ctl2;
	bool cr4_mce;
	enum heard want;
	u64 after;
} rows[] = {
	{ "corrected", CTL_P, 0, VAL | S, 0, 0, true, NOTHING, VAL | S },
	{ "corrected, a second", CTL_P, VAL | S | 1, VAL | S | 2, 0, 0, true, NOTHING,
	  VAL | OVER | S | 2 },
	{ "corrected after uncorrected", CTL_P, VAL | UC | 1, VAL | S | 2, 0, 0, true, NOTHING,
	  VAL | OVER | UC | 1 },
	{ "uncorrected", CTL_P, 0, VAL | UC | PCC, 5, 0, true, MACHINE_CHECK, VAL | UC | PCC },
	{ "uncorrected, a second", CTL_P, VAL | 1, VAL | UC | PCC, 5, 0, true, MACHINE_CHECK,
	  VAL | OVER | UC | PCC },
	{ "uncorrected, CR4.MCE clear", CTL_P, 0, VAL | UC | PCC, 5, 0, false, SHUTDOWN, 0 },
	{ "no action required", CTL_P, 1, VAL | UC | 1, 0, 0, true, NOTHING, VAL | UC | 1 },
	{ "the same, interrupt on", CTL_P | CMCI_P, 1, VAL | UC | 1, 0, MCI_CTL2_CMCI_EN, true,
	  INTERRUPT, VAL | UC | 1 },
	{ "the same, interrupt off", CTL_P | CMCI_P, 1, VAL | UC | 1, 0, 0, true, NOTHING,
	  VAL | UC | 1 },
};

static void injection(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kvm_enable_cap cap = { .cap = KVM_CAP_X86_TRIPLE_FAULT_EVENT, .args = { 1 } };
		struct kvm_x86_mce mce = { .status = rows[i].status, .bank = BANK, .addr = 0x1234,
					   .misc = 0x8c, .mcg_status = rows[i].mcg_status };
		struct kvm_lapic_state l;
		enum heard h;

		assert_int_equal(set_up(state), 0);
		assert_int_equal(IOCTL(g.vm, KVM_ENABLE_CAP, &cap), 0);
		set_cap(rows[i].cap);
		set_cr4_mce(rows[i].cr4_mce);
		put(STATUS, rows[i].before);
		if (rows[i].cap & CMCI_P)
			put(CTL2, rows[i].ctl2);
		IOCTL(g.vcpu[0], KVM_GET_LAPIC, &l);
		*(u32 *)(l.regs + 0xf0) |= 0x100; /* APIC on, CMCI at vector 0xa9 */
		*(u32 *)(l.regs + 0x2f0) = 0xa9;
		assert_int_equal(IOCTL(g.vcpu[0], KVM_SET_LAPIC, &l), 0);
		assert_int_equal(IOCTL(g.vcpu[0], KVM_X86_SET_MCE, &mce), 0);
		h = hears();
		if (h != rows[i].want)
			fail_msg("%s: heard %d", rows[i].name, h);
		if (get(STATUS) != rows[i].after)
			fail_msg("%s: status %#llx", rows[i].name, (unsigned long long)get(STATUS));
		if (rows[i].want != SHUTDOWN && !(rows[i].after & OVER && rows[i].after & 1))
			assert_int_equal(get(STATUS + 1), 0x1234);
		tear_down(state);
	}
}

static void reporting_off(void **state)
{
	struct kvm_x86_mce mce = { .status = VAL | UC | PCC, .bank = BANK, .mcg_status = 5 };

	(void)state;
	set_cap(CTL_P);
	set_cr4_mce(true);
	put(MSR_MC0_CTL + 4 * BANK, 0);
	assert_int_equal(IOCTL(g.vcpu[0], KVM_X86_SET_MCE, &mce), 0);
	assert_int_equal(hears(), NOTHING);
	assert_int_equal(get(STATUS), 0);
	mce.bank = 8;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_X86_SET_MCE, &mce), -EINVAL);
	mce.bank = BANK;
	mce.status &= ~VAL;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_X86_SET_MCE, &mce), -EINVAL);
}

static void second_control_register(void **state)
{
	u64 v;

	(void)state;
	set_cap(CTL_P);
	assert_int_equal(get(CTL2), 0);
	put(CTL2, 0);
	v = MCI_CTL2_CMCI_EN;
	assert_int_equal(msr(CTL2, &v, true), 0);
	set_cap(CTL_P | CMCI_P);
	put(CTL2, MCI_CTL2_CMCI_EN | 0x7fff);
	v = BIT64(29);
	assert_int_equal(msr(CTL2, &v, true), 0);
	assert_int_equal(get(CTL2), MCI_CTL2_CMCI_EN | 0x7fff);
	v = 0;
	assert_int_equal(msr(MSR_MC0_CTL2 + 8, &v, false), 0); /* no such bank */
	set_cap(CTL_P | CMCI_P);
	assert_int_equal(get(CTL2), 0);
}

static void tsc_offset(void **state)
{
	s64 offset = 0, far = -123456789;
	struct kvm_device_attr a = { .group = KVM_VCPU_TSC_CTRL, .attr = KVM_VCPU_TSC_OFFSET,
				     .addr = (u64)(uintptr_t)&offset };

	(void)state;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_HAS_DEVICE_ATTR, &a), 0);
	assert_int_equal(IOCTL(g.vcpu[0], KVM_GET_DEVICE_ATTR, &a), 0);
	a.addr = (u64)(uintptr_t)&far;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_SET_DEVICE_ATTR, &a), 0);
	a.addr = (u64)(uintptr_t)&offset;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_GET_DEVICE_ATTR, &a), 0);
	assert_int_equal(offset, far);
	a.attr = 1;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_HAS_DEVICE_ATTR, &a), -ENXIO);
	a.group = 1;
	a.attr = 0;
	assert_int_equal(IOCTL(g.vcpu[0], KVM_GET_DEVICE_ATTR, &a), -ENXIO);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(injection),
		CASE(reporting_off),
		CASE(second_control_register),
		CASE(tsc_offset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
