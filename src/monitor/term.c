/* SPDX-License-Identifier: MIT */
#include "monitor/term.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t raw;

void term_restore(void)
{
	if (raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raw = 0;
}

bool term_is_raw(void)
{
	return raw;
}

/* The signal is blocked here: raised again, it ends the process on return. */
static void on_deadly(int sig)
{
	term_restore();
	signal(sig, SIG_DFL);
	raise(sig);
}

void term_guard(void)
{
	static const int deadly[] = { SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGABRT,
				      SIGSEGV, SIGBUS,	SIGFPE, SIGILL,	 SIGXCPU };
	struct sigaction act = { .sa_handler = on_deadly }, old;

	atexit(term_restore);
	for (unsigned i = 0; i < ARRAY_SIZE(deadly); i++)
		if (!sigaction(deadly[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(deadly[i], &act, NULL);
}

void term_raw(void)
{
	struct termios t;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before))
		return;
	t = before;
	cfmakeraw(&t);
	t.c_oflag |= OPOST | ONLCR;
	raw = 1; /* first: a signal may come right after */
	if (tcsetattr(STDIN_FILENO, TCSANOW, &t))
		raw = 0;
}
