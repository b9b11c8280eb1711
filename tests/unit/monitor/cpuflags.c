/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake.h"
#include "monitor/cpuflags.h"

#define N 4

static struct kvm_cpuid_entry2 entry[N];
static const char *text;

static void fill(void)
{
	memset(entry, 0, sizeof(entry));
	entry[0].function = 0;
	entry[1].function = 1;
	entry[1].ecx = 1u << 17 | 1u << 21 | 1u << 31;
	entry[1].edx = 1u << 13;
	entry[2].function = 7;
	entry[2].ebx = 1u << 20;
	entry[3].function = 0x40000001;
	entry[3].eax = 1 | 1 << 3 | 1 << 11;
}

static int apply(void *unused)
{
	(void)unused;
	return cpuflags_apply(text, entry, N);
}

static void test_apply(void **state)
{
	static const struct {
		const char *text;
		int result;
		u32 ecx, edx, ebx7, pv;
		const char *says;
	} t[] = {
		{ "", 0, 0x80220000, 0x2000, 0x100000, 0x809, "" },
		{ "-pcid", 0, 0x80200000, 0x2000, 0x100000, 0x809, "" },
		{ "-pcid,-pge,-smap", 0, 0x80200000, 0, 0, 0x809, "" },
		{ "+x2apic", 0, 0x80220000, 0x2000, 0x100000, 0x809, "" },
		{ "-kvmclock", 0, 0x80220000, 0x2000, 0x100000, 0x800, "" },
		{ "-avx,-rdpid", 0, 0x80220000, 0x2000, 0x100000, 0x809, "" },
		{ "-rdtscp", 0, 0x80220000, 0x2000, 0x100000, 0x809, "" }, /* no such leaf */
		{ "+smep", 2, 0, 0, 0, 0, "smep is not offered" },
		{ "+rdtscp", 2, 0, 0, 0, 0, "rdtscp is not offered" },
		{ "+nonsense", 2, 0, 0, 0, 0, "one of: sse3 " },
		{ "pcid", 2, 0, 0, 0, 0, "pcid is not vendor=" },
		{ "vendor=via", 2, 0, 0, 0, 0, "vendor=via is not" },
		{ "+", 2, 0, 0, 0, 0, "is not vendor=" },
		{ "-pcid,,-pge", 2, 0, 0, 0, 0, "is not vendor=" },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		char said[2048];
		int r;

		fill();
		text = t[i].text;
		r = quietly(apply, NULL, said, sizeof(said));
		if (r != t[i].result || !strstr(said, t[i].says) || (!r && said[0]))
			fail_msg("\"%s\": %d, %s", text, r, said);
		if (r) {
			assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
			continue;
		}
		assert_int_equal(entry[1].ecx, t[i].ecx);
		assert_int_equal(entry[1].edx, t[i].edx);
		assert_int_equal(entry[2].ebx, t[i].ebx7);
		assert_int_equal(entry[3].eax, t[i].pv);
	}
}

static void test_vendor(void **state)
{
	(void)state;
	fill();
	assert_int_equal(cpuflags_apply("vendor=intel,-pcid", entry, N), 0);
	assert_memory_equal(&entry[0].ebx, "Genu", 4);
	assert_memory_equal(&entry[0].edx, "ineI", 4);
	assert_memory_equal(&entry[0].ecx, "ntel", 4);
	assert_int_equal(cpuflags_apply("vendor=amd", entry, N), 0);
	assert_memory_equal(&entry[0].ebx, "Auth", 4);
	assert_memory_equal(&entry[0].edx, "enti", 4);
	assert_memory_equal(&entry[0].ecx, "cAMD", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apply),
		cmocka_unit_test(test_vendor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
