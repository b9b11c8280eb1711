/* SPDX-License-Identifier: MIT */
/* 16550 (PC16550D data sheet): COM1, on standard input and output. */
#ifndef LOCUM_MONITOR_UART_H
#define LOCUM_MONITOR_UART_H

#include "base/types.h"

#define UART_FIFO 64

/** struct uart - @irq is called with the new level of the interrupt line, @out
 * with each transmitted byte; the owner serialises all calls */
struct uart {
	u8 ier, lcr, mcr, scr, fcr, dll, dlm;
	bool thr_pending; /* THR empty interrupt not yet acknowledged */
	u8 rx[UART_FIFO];
	unsigned rx_head, rx_count;
	bool level;
	void (*irq)(void *arg, bool level);
	void (*out)(void *arg, u8 byte);
	void *arg;
};

u8 uart_read(struct uart *u, unsigned reg);
void uart_write(struct uart *u, unsigned reg, u8 v);
/** uart_room() - how many bytes uart_receive() can still take */
unsigned uart_room(const struct uart *u);
void uart_receive(struct uart *u, u8 byte);

#endif
