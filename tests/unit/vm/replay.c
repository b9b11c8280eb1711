/* SPDX-License-Identifier: MIT */
/* The record of an instruction's questions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "vm/replay.h"

static struct replay r;

static int fresh(void **state)
{
	(void)state;
	memset(&r, 0, sizeof(r));
	return 0;
}

/* A device answers the first question, the client the second: on the second
 * run both come from the record, in order, and the third is new. */
static void answers_repeat_in_order(void **state)
{
	struct replay_entry *e;

	(void)state;
	assert_null(replay_find(&r, REPLAY_MMIO_READ, 0x1000, 4));
	e = replay_add(&r, REPLAY_MMIO_READ, 0x1000, 4);
	e->data = 7;
	assert_null(replay_find(&r, REPLAY_MMIO_WRITE, 0x2000, 8));
	assert_true(replay_open(&r, REPLAY_MMIO_WRITE, 0x2000, 8, 1));
	assert_true(replay_pending(&r));
	assert_non_null(replay_open_entry(&r));

	replay_answered(&r);
	assert_null(replay_open_entry(&r));
	e = replay_find(&r, REPLAY_MMIO_READ, 0x1000, 4);
	assert_non_null(e);
	assert_int_equal(e->data, 7);
	assert_non_null(replay_find(&r, REPLAY_MMIO_WRITE, 0x2000, 8));
	assert_null(replay_find(&r, REPLAY_MMIO_WRITE, 0x2008, 8));
	assert_true(replay_open(&r, REPLAY_MMIO_WRITE, 0x2008, 8, 1));

	/* Third run: all three. */
	replay_answered(&r);
	assert_non_null(replay_find(&r, REPLAY_MMIO_READ, 0x1000, 4));
	assert_non_null(replay_find(&r, REPLAY_MMIO_WRITE, 0x2000, 8));
	assert_non_null(replay_find(&r, REPLAY_MMIO_WRITE, 0x2008, 8));
	replay_reset(&r);
	assert_false(replay_pending(&r));
}

/* The client changed a register: the question differs and the stale answers
 * behind it are gone. */
static void a_different_question_drops_the_rest(void **state)
{
	static const struct {
		enum replay_kind kind;
		u64 addr;
		unsigned size;
	} other[] = {
		{ REPLAY_PIO_OUT, 0x80, 1 },
		{ REPLAY_PIO_IN, 0x81, 1 },
		{ REPLAY_PIO_IN, 0x80, 2 },
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		replay_reset(&r);
		assert_true(replay_open(&r, REPLAY_PIO_IN, 0x80, 1, 1));
		replay_answered(&r);
		assert_non_null(replay_add(&r, REPLAY_MMIO_READ, 1, 1));
		r.cursor = 0;
		assert_null(replay_find(&r, other[i].kind, other[i].addr, other[i].size));
		assert_int_equal(r.n, 0);
		assert_null(replay_find(&r, REPLAY_MMIO_READ, 1, 1));
	}
}

static void another_instruction_starts_afresh(void **state)
{
	(void)state;
	replay_at(&r, 0x100);
	assert_non_null(replay_add(&r, REPLAY_MMIO_READ, 1, 4));
	replay_at(&r, 0x100);
	assert_int_equal(r.n, 1);
	replay_at(&r, 0x104);
	assert_int_equal(r.n, 0);
}

static void a_full_record_is_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < REPLAY_MAX; i++)
		assert_non_null(replay_add(&r, REPLAY_MMIO_READ, i, 8));
	assert_null(replay_add(&r, REPLAY_MMIO_READ, 0, 8));
	assert_false(replay_open(&r, REPLAY_MMIO_READ, 0, 8, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(answers_repeat_in_order, fresh),
		cmocka_unit_test_setup(a_different_question_drops_the_rest, fresh),
		cmocka_unit_test_setup(another_instruction_starts_afresh, fresh),
		cmocka_unit_test_setup(a_full_record_is_refused, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
