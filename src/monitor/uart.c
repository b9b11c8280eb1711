/* SPDX-License-Identifier: MIT */
#include "monitor/uart.h"

#include "base/bits.h"

enum { IER_RX = 1, IER_THR = 2 };
enum { LCR_DLAB = 0x80, MCR_LOOP = 0x10, MCR_OUT2 = 8 };
enum { LSR_DR = 1, LSR_THRE = 0x20, LSR_TEMT = 0x40 };

static void update(struct uart *u)
{
	bool level = ((u->ier & IER_RX) && u->rx_count) || ((u->ier & IER_THR) && u->thr_pending);

	level = level && (u->mcr & MCR_OUT2) && !(u->mcr & MCR_LOOP);
	if (level == u->level)
		return;
	u->level = level;
	u->irq(u->arg, level);
}

static u8 read_iir(struct uart *u)
{
	u8 fifo = u->fcr & 1 ? 0xc0 : 0;

	if ((u->ier & IER_RX) && u->rx_count)
		return fifo | 4;
	if ((u->ier & IER_THR) && u->thr_pending) {
		u->thr_pending = false;
		return fifo | 2;
	}
	return fifo | 1;
}

static u8 read_rx(struct uart *u)
{
	u8 v;

	if (!u->rx_count)
		return 0;
	v = u->rx[u->rx_head];
	u->rx_head = (u->rx_head + 1) % UART_FIFO;
	u->rx_count--;
	return v;
}

static u8 read_msr(const struct uart *u)
{
	if (!(u->mcr & MCR_LOOP))
		return 0xb0; /* DCD, DSR, CTS */
	/* Loop-back: RTS->CTS, DTR->DSR, OUT1->RI, OUT2->DCD */
	return (u8)((u->mcr & 2) << 3 | (u->mcr & 1) << 5 | (u->mcr & 4) << 4 |
		    (u->mcr & 8) << 4);
}

u8 uart_read(struct uart *u, unsigned reg)
{
	u8 v = 0;

	switch (reg) {
	case 0: v = u->lcr & LCR_DLAB ? u->dll : read_rx(u); break;
	case 1: v = u->lcr & LCR_DLAB ? u->dlm : u->ier; break;
	case 2: v = read_iir(u); break;
	case 3: v = u->lcr; break;
	case 4: v = u->mcr; break;
	case 5: v = (u8)(LSR_THRE | LSR_TEMT | (u->rx_count ? LSR_DR : 0)); break;
	case 6: v = read_msr(u); break;
	case 7: v = u->scr; break;
	}
	update(u);
	return v;
}

static void transmit(struct uart *u, u8 v)
{
	if (u->mcr & MCR_LOOP)
		uart_receive(u, v);
	else
		u->out(u->arg, v);
	u->thr_pending = true; /* sent at once: the register is empty again */
}

void uart_write(struct uart *u, unsigned reg, u8 v)
{
	switch (reg) {
	case 0:
		if (u->lcr & LCR_DLAB)
			u->dll = v;
		else
			transmit(u, v);
		break;
	case 1:
		if (u->lcr & LCR_DLAB) {
			u->dlm = v;
			break;
		}
		/* Enabling the interrupt with the register empty raises it. */
		if ((v & IER_THR) && !(u->ier & IER_THR))
			u->thr_pending = true;
		u->ier = v & 0xf;
		break;
	case 2:
		/* Bit 1, and switching the FIFOs on or off, empties the receiver. */
		if ((v & 2) || ((u->fcr ^ v) & 1))
			u->rx_count = 0;
		u->fcr = v & 0xc9;
		break;
	case 3: u->lcr = v; break;
	case 4: u->mcr = v & 0x1f; break;
	case 7: u->scr = v; break;
	}
	update(u);
}

unsigned uart_room(const struct uart *u)
{
	return UART_FIFO - u->rx_count;
}

void uart_receive(struct uart *u, u8 byte)
{
	if (u->rx_count == UART_FIFO)
		return;
	u->rx[(u->rx_head + u->rx_count++) % UART_FIFO] = byte;
	update(u);
}
