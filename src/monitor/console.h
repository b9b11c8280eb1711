/* SPDX-License-Identifier: MIT */
/* The console: COM1's bytes from and to standard input and output. */
#ifndef LOCUM_MONITOR_CONSOLE_H
#define LOCUM_MONITOR_CONSOLE_H

#include "base/types.h"

#define CONSOLE_MARKER_MAX 100

struct machine;

/** struct console - the first two by the owner of the UART, the others by the
 * main thread
 * @tail: what was printed last, for --time-marker
 * @lost: output failed, and that was said
 * @escape: Ctrl-A was typed
 * @closed: no more input */
struct console {
	char tail[CONSOLE_MARKER_MAX];
	bool lost;
	bool escape, closed;
};

/** console_out() - one byte that the guest transmits; @machine is the machine */
void console_out(void *machine, u8 byte);

/** console_feed() - take what standard input has, without waiting; call it when
 * poll(2) says that it has something */
void console_feed(struct machine *m);

/**
 * console_escape() - Ctrl-A sequences in @n bytes typed on a terminal
 * Ctrl-A x is the end, Ctrl-A a or Ctrl-A Ctrl-A one Ctrl-A.
 * @out: receives what is left for the guest: up to 2 * @n bytes
 * Return: how many bytes that is, or -1: end the machine
 */
int console_escape(struct console *c, const u8 *in, unsigned n, u8 *out);

#endif
