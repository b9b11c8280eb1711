/* SPDX-License-Identifier: MIT */
/* Features, MSR numbers and hypercall dispatch of KVM's guest interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "pv/pv.h"

static struct kvm_cpuid_entry2 signature(u32 leaf)
{
	struct kvm_cpuid_entry2 e = { .function = leaf, .eax = leaf + 1 };

	memcpy(&e.ebx, "KVMK", 4);
	memcpy(&e.ecx, "VMKV", 4);
	memcpy(&e.edx, "M\0\0\0", 4);
	return e;
}

static void features_are_found_behind_the_signature(void **state)
{
	struct kvm_cpuid_entry2 e[3] = { signature(0x40000000), { 0 }, { 0 } };

	(void)state;
	e[1].function = 0x40000001;
	e[1].eax = 0x9;
	assert_int_equal(pv_features_of(e, 2), 0x9);
	e[0].ebx++; /* another hypervisor's */
	assert_int_equal(pv_features_of(e, 2), 0);
	assert_int_equal(pv_features_of(e, 0), 0);
	/* A client may put Hyper-V first and KVM at 0x40000100. */
	e[2] = signature(0x40000100);
	e[1].function = 0x40000101;
	assert_int_equal(pv_features_of(e, 3), 0x9);
}

static void stable_bit_follows_the_clock(void **state)
{
	(void)state;
	assert_int_equal(pv_features(true) ^ pv_features(false),
			 BIT(KVM_FEATURE_CLOCKSOURCE_STABLE_BIT));
}

static void every_msr_of_kvm_names_its_feature(void **state)
{
	static const struct {
		u32 msr;
		int feature;
	} rows[] = {
		{ 0x11, 0 }, { 0x12, 0 }, { 0x4b564d00, 3 }, { 0x4b564d01, 3 },
		{ 0x4b564d02, 4 }, { 0x4b564d03, 5 }, { 0x4b564d04, 6 }, { 0x4b564d05, 12 },
		{ 0x4b564d06, 14 }, { 0x4b564d07, 14 }, { 0x4b564d08, 17 },
		{ 0x4b564d09, -1 }, { 0x10, -1 }, { 0x13, -1 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(pv_msr_feature(rows[i].msr), rows[i].feature);
}

static s64 fake_ipi(void *opaque, u64 low, u64 high, u32 min, u32 icr, bool long_mode)
{
	(void)opaque;
	return (s64)(low + high + min + icr + long_mode);
}

static void hypercalls_answer_as_kvm_does(void **state)
{
	static const struct {
		const char *name;
		u64 nr, a0;
		unsigned cpl;
		bool long_mode;
		u32 features;
		u64 want;
	} rows[] = {
		{ "unknown number", 99, 0, 0, true, ~0u, (u64)-1000 },
		{ "unknown number, 32 bits", 99, 0, 0, false, ~0u, (u32)-1000 },
		{ "user mode", 1, 0, 3, true, ~0u, (u64)-EPERM },
		{ "poll", 1, 0, 0, true, 0, 0 },
		{ "upper half ignored in 32-bit code", 0x100000001, 0, 0, false, 0, 0 },
		{ "upper half counts in 64-bit code", 0x100000001, 0, 0, true, 0, (u64)-1000 },
		{ "IPI", 10, 4, 0, true, ~0u, 5 },
		{ "IPI not offered", 10, 4, 0, true, 0, (u64)-1000 },
		{ "kick without a handler", 5, 0, 0, true, ~0u, (u64)-1000 },
		{ "MMU_OP", 2, 0, 0, true, ~0u, (u64)-1000 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pv_call c = {
			.nr = rows[i].nr,
			.a0 = rows[i].a0,
			.cpl = rows[i].cpl,
			.long_mode = rows[i].long_mode,
			.features = rows[i].features,
			.send_ipi = fake_ipi,
		};

		print_message("%s\n", rows[i].name);
		assert_int_equal(pv_hypercall(&c), rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features_are_found_behind_the_signature),
		cmocka_unit_test(stable_bit_follows_the_clock),
		cmocka_unit_test(every_msr_of_kvm_names_its_feature),
		cmocka_unit_test(hypercalls_answer_as_kvm_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
