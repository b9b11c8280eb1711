/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "monitor/uart.h"

enum { RBR, IER, IIR, LCR, MCR, LSR, MSR, SCR };

struct line {
	struct uart u;
	bool level;
	unsigned edges;
	u8 sent[16];
	unsigned n;
};

static void on_irq(void *arg, bool level)
{
	struct line *l = arg;

	assert_int_not_equal(l->level, level); /* called on changes only */
	l->level = level;
	l->edges += level;
}

static void on_out(void *arg, u8 byte)
{
	struct line *l = arg;

	l->sent[l->n++ % sizeof(l->sent)] = byte;
}

static void reset(struct line *l)
{
	memset(l, 0, sizeof(*l));
	l->u.irq = on_irq;
	l->u.out = on_out;
	l->u.arg = l;
}

/* Interrupts on: OUT2, and @ier. */
static void enable(struct line *l, u8 ier)
{
	uart_write(&l->u, MCR, 8 | 2 | 1);
	uart_write(&l->u, IER, ier);
}

static void test_transmit(void **state)
{
	struct line l;

	(void)state;
	reset(&l);
	assert_int_equal(uart_read(&l.u, LSR), 0x60);
	uart_write(&l.u, RBR, 'a');
	uart_write(&l.u, LCR, 0x83); /* divisor latch */
	uart_write(&l.u, RBR, 1);
	uart_write(&l.u, IER, 2);
	assert_int_equal(uart_read(&l.u, RBR), 1);
	assert_int_equal(uart_read(&l.u, IER), 2);
	uart_write(&l.u, LCR, 3);
	assert_int_equal(uart_read(&l.u, IER), 0);
	uart_write(&l.u, RBR, 'b');
	assert_int_equal(l.n, 2);
	assert_memory_equal(l.sent, "ab", 2);
	assert_int_equal(uart_read(&l.u, LSR), 0x60);
}

static void test_thre_interrupt(void **state)
{
	struct line l;

	(void)state;
	reset(&l);
	enable(&l, 2);
	assert_true(l.level); /* enabled while empty */
	assert_int_equal(uart_read(&l.u, IIR), 2);
	assert_false(l.level); /* reading it acknowledges */
	assert_int_equal(uart_read(&l.u, IIR), 1);
	uart_write(&l.u, RBR, 'x');
	assert_true(l.level);
	uart_write(&l.u, IER, 0);
	assert_false(l.level);
	assert_int_equal(l.edges, 2);
}

static void test_receive_interrupt(void **state)
{
	struct line l;

	(void)state;
	reset(&l);
	enable(&l, 3);
	uart_receive(&l.u, 'q');
	uart_receive(&l.u, 'r');
	assert_true(l.level);
	assert_int_equal(uart_read(&l.u, IIR), 4); /* received data before THR empty */
	assert_int_equal(uart_read(&l.u, IIR), 4); /* reading does not acknowledge it */
	assert_int_equal(uart_read(&l.u, LSR), 0x61);
	assert_int_equal(uart_read(&l.u, RBR), 'q');
	assert_true(l.level);
	assert_int_equal(uart_read(&l.u, RBR), 'r');
	assert_int_equal(uart_read(&l.u, LSR), 0x60);
	assert_int_equal(uart_read(&l.u, IIR), 2);
	assert_false(l.level);
	assert_int_equal(uart_read(&l.u, RBR), 0); /* nothing there */
}

static void test_out2_gates_the_interrupt(void **state)
{
	struct line l;

	(void)state;
	reset(&l);
	uart_write(&l.u, IER, 3);
	uart_receive(&l.u, 'q');
	assert_false(l.level);
	uart_write(&l.u, MCR, 8);
	assert_true(l.level);
	uart_write(&l.u, MCR, 0);
	assert_false(l.level);
}

static void test_loop_back(void **state)
{
	static const struct {
		u8 mcr, msr;
	} t[] = { { 0x10, 0 }, { 0x11, 0x20 }, { 0x12, 0x10 }, { 0x14, 0x40 },
		  { 0x18, 0x80 }, { 0x1a, 0x90 }, { 0x1f, 0xf0 } };
	struct line l;

	(void)state;
	reset(&l);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		uart_write(&l.u, MCR, t[i].mcr);
		assert_int_equal(uart_read(&l.u, MSR), t[i].msr);
	}
	uart_write(&l.u, RBR, 'z');
	assert_int_equal(l.n, 0);
	assert_int_equal(uart_read(&l.u, RBR), 'z');
	uart_write(&l.u, MCR, 0);
	assert_int_equal(uart_read(&l.u, MSR) & 0xb0, 0xb0); /* DCD, DSR, CTS */
}

static void test_fifo(void **state)
{
	struct line l;

	(void)state;
	reset(&l);
	assert_int_equal(uart_read(&l.u, IIR) & 0xc0, 0);
	uart_write(&l.u, IIR, 1);
	assert_int_equal(uart_read(&l.u, IIR), 0xc1); /* a 16550A */
	for (unsigned i = 0; i < UART_FIFO + 5; i++)
		uart_receive(&l.u, (u8)i);
	assert_int_equal(uart_room(&l.u), 0);
	for (unsigned i = 0; i < UART_FIFO; i++)
		assert_int_equal(uart_read(&l.u, RBR), (u8)i);
	uart_receive(&l.u, 1);
	uart_write(&l.u, IIR, 3); /* clear the receive FIFO */
	assert_int_equal(uart_read(&l.u, LSR), 0x60);
	uart_receive(&l.u, 1);
	uart_write(&l.u, IIR, 0); /* switching it off empties it too */
	assert_int_equal(uart_read(&l.u, LSR), 0x60);
}

static void test_plain_registers(void **state)
{
	static const struct {
		unsigned reg;
		u8 in, out;
	} t[] = { { SCR, 0x5a, 0x5a }, { LCR, 0x1b, 0x1b }, { MCR, 0xff, 0x1f }, { IER, 0xff, 0xf } };
	struct line l;

	(void)state;
	reset(&l);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		uart_write(&l.u, t[i].reg, t[i].in);
		assert_int_equal(uart_read(&l.u, t[i].reg), t[i].out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transmit),
		cmocka_unit_test(test_thre_interrupt),
		cmocka_unit_test(test_receive_interrupt),
		cmocka_unit_test(test_out2_gates_the_interrupt),
		cmocka_unit_test(test_loop_back),
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_plain_registers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
