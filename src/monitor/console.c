/* SPDX-License-Identifier: MIT */
#include "monitor/console.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "monitor/machine.h"
#include "monitor/term.h"

#define CTRL_A 1

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

/* The text of --time-marker is looked for in what the guest prints. */
static void watch_marker(struct machine *m, u8 byte)
{
	char *tail = m->console.tail;
	size_t size = sizeof(m->console.tail), len = m->opt->marker ? strlen(m->opt->marker) : 0;

	if (!len || len > size)
		return;
	memmove(tail, tail + 1, size - 1);
	tail[size - 1] = (char)byte;
	if (memcmp(tail + size - len, m->opt->marker, len))
		return;
	fprintf(stderr, "locum: \"%s\" %.3f s after the first guest instruction\n",
		m->opt->marker, (double)(now_ns() - m->start_ns) * 1e-9);
}

/* Nobody may read the other end: a machine that has ended waits no longer. */
void console_out(void *machine, u8 byte)
{
	struct machine *m = machine;
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

	watch_marker(m, byte);
	while (!m->console.lost && write(STDOUT_FILENO, &byte, 1) < 0) {
		if (errno != EINTR && errno != EAGAIN) {
			fprintf(stderr, "locum: the console's output is lost: %s\n",
				strerror(errno));
			m->console.lost = true;
		} else if (machine_stopped(m)) {
			break;
		} else if (errno == EAGAIN) {
			poll(&p, 1, 100);
		}
	}
}

int console_escape(struct console *c, const u8 *in, unsigned n, u8 *out)
{
	int len = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!c->escape) {
			c->escape = in[i] == CTRL_A;
			if (!c->escape)
				out[len++] = in[i];
			continue;
		}
		c->escape = false;
		if (in[i] == 'x')
			return -1;
		out[len++] = CTRL_A;
		if (in[i] != CTRL_A && in[i] != 'a')
			out[len++] = in[i];
	}
	return len;
}

void console_feed(struct machine *m)
{
	u8 in[16], out[sizeof(in) * 2];
	unsigned room;
	ssize_t n;

	pthread_mutex_lock(&m->dev_lock);
	room = uart_room(&m->uart) / 2;
	pthread_mutex_unlock(&m->dev_lock);
	if (!room) {
		usleep(1000);
		return;
	}
	n = read(STDIN_FILENO, in, MIN(room, (unsigned)sizeof(in)));
	if (n <= 0) {
		m->console.closed = n == 0 || (errno != EINTR && errno != EAGAIN);
		return;
	}
	if (term_is_raw())
		n = console_escape(&m->console, in, (unsigned)n, out);
	else
		memcpy(out, in, (size_t)n);
	if (n < 0)
		machine_stop(m, RUN_OFF);
	pthread_mutex_lock(&m->dev_lock);
	for (ssize_t i = 0; i < n; i++)
		uart_receive(&m->uart, out[i]);
	pthread_mutex_unlock(&m->dev_lock);
}
