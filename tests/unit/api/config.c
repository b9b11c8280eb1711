/* SPDX-License-Identifier: MIT */
/* Settings: what is taken, what is refused, and that errors help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "api/config.h"

static void known_settings_are_taken(void **state)
{
	struct vm_config c;
	char error[512];

	(void)state;
	vm_config_default(&c);
	assert_int_equal(config_parse(&c,
				      "engine=interp,tlb.invlpg=context,tlb.size=1,"
				      "tlb.spaces=4,cpu.vendor=intel,sched.policy=host,"
				      "stats.instructions=off",
				      error, sizeof(error)),
			 0);
	assert_int_equal(c.invlpg, VM_INVLPG_CONTEXT);
	assert_int_equal(c.tlb_size, 1);
	assert_int_equal(c.tlb_spaces, 4);
	assert_int_equal(c.vendor, VM_VENDOR_INTEL);
	assert_false(c.count_instructions);
	assert_int_equal(config_parse(&c, "", error, sizeof(error)), 0);
	assert_int_equal(config_parse(&c, ",tlb.size=0,", error, sizeof(error)), 0);
}

static void refusals_name_what_is_valid(void **state)
{
	static const struct {
		const char *text, *hint;
	} rows[] = {
		{ "engine=fast", "interp" },
		{ "engine", "interp" },
		{ "nonsense=1", "tlb.size" },
		{ "tlb.size=3", "power of two" },
		{ "tlb.size=8192", "power of two" },
		{ "tlb.size=", "power of two" },
		{ "tlb.size=-1", "power of two" },
		{ "tlb.spaces=65", "1 to 64" },
		{ "tlb.spaces=99999999999999999999", "1 to 64" },
		{ "tlb.invlpg=Address", "context" },
		{ "cpu.vendor=via", "amd" },
		{ "stats.instructions=1", "on" },
		{ "host.hide=warp", "bmi2" },
		{ "engine=interp,=", "engine" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vm_config c, before;
		char error[512];

		vm_config_default(&c);
		before = c;
		assert_int_equal(config_parse(&c, rows[i].text, error, sizeof(error)), -EINVAL);
		print_message("%s: %s\n", rows[i].text, error);
		assert_non_null(strstr(error, rows[i].hint));
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void a_short_error_buffer_is_respected(void **state)
{
	struct vm_config c;
	char error[8] = "1234567";

	(void)state;
	vm_config_default(&c);
	assert_int_equal(config_parse(&c, "nonsense=1", error, 4), -EINVAL);
	assert_int_equal(strlen(error), 3);
	assert_string_equal(error + 4, "567");
	assert_int_equal(config_parse(&c, "nonsense=1", NULL, 0), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_settings_are_taken),
		cmocka_unit_test(refusals_name_what_is_valid),
		cmocka_unit_test(a_short_error_buffer_is_respected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
