/* SPDX-License-Identifier: MIT */
/* The MSR filter against the rules of KVM_X86_SET_MSR_FILTER. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "vm/filter.h"

static u8 bits[4] = { 0x05, 0, 0, 0x80 }; /* 0, 2 and 31 allowed */

static struct kvm_msr_filter one_range(u32 flags, u32 base, u32 n, u32 filter_flags)
{
	struct kvm_msr_filter f = { .flags = filter_flags };

	f.ranges[3].flags = flags;
	f.ranges[3].base = base;
	f.ranges[3].nmsrs = n;
	f.ranges[3].bitmap = bits;
	return f;
}

static void bad_descriptions_are_refused(void **state)
{
	struct kvm_msr_filter f;
	struct msr_filter *out;

	(void)state;
	f = one_range(KVM_MSR_FILTER_READ, 0, 32, 2);
	assert_int_equal(msr_filter_create(&f, &out), -EINVAL);
	f = one_range(4, 0, 32, 0);
	assert_int_equal(msr_filter_create(&f, &out), -EINVAL);
	f = one_range(KVM_MSR_FILTER_READ, 0, 0x600 * 8 + 1, 0);
	assert_int_equal(msr_filter_create(&f, &out), -EINVAL);
	f = one_range(0, 0, 0, KVM_MSR_FILTER_DEFAULT_DENY);
	assert_int_equal(msr_filter_create(&f, &out), -EINVAL);
}

static void no_ranges_allow_everything(void **state)
{
	struct kvm_msr_filter f = { 0 };
	struct msr_filter *out;

	(void)state;
	assert_int_equal(msr_filter_create(&f, &out), 0);
	assert_null(out);
	assert_true(msr_filter_allows(out, 0x10, true));
}

static void ranges_decide_by_bit_and_direction(void **state)
{
	struct kvm_msr_filter f = one_range(KVM_MSR_FILTER_READ, 0x100, 32, 0);
	struct msr_filter *out;

	(void)state;
	assert_int_equal(msr_filter_create(&f, &out), 0);
	assert_true(msr_filter_allows(out, 0x100, false));
	assert_false(msr_filter_allows(out, 0x101, false));
	assert_true(msr_filter_allows(out, 0x102, false));
	assert_true(msr_filter_allows(out, 0x11f, false));
	assert_false(msr_filter_allows(out, 0x11e, false));
	/* Outside the range, and for writes, the default holds. */
	assert_true(msr_filter_allows(out, 0x120, false));
	assert_true(msr_filter_allows(out, 0xff, false));
	assert_true(msr_filter_allows(out, 0x101, true));
	msr_filter_destroy(out);
}

static void x2apic_is_never_filtered(void **state)
{
	struct kvm_msr_filter f =
		one_range(KVM_MSR_FILTER_READ, 0, 32, KVM_MSR_FILTER_DEFAULT_DENY);
	struct msr_filter *out;

	(void)state;
	assert_int_equal(msr_filter_create(&f, &out), 0);
	assert_true(msr_filter_allows(out, 0x800, false));
	assert_true(msr_filter_allows(out, 0x8ff, true));
	assert_false(msr_filter_allows(out, 0x7ff, false));
	assert_false(msr_filter_allows(out, 0x900, true));
	msr_filter_destroy(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_descriptions_are_refused),
		cmocka_unit_test(no_ranges_allow_everything),
		cmocka_unit_test(ranges_decide_by_bit_and_direction),
		cmocka_unit_test(x2apic_is_never_filtered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
