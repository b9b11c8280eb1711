/* SPDX-License-Identifier: MIT */
/* Console escapes, and the terminal on every way out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>

#include "fake.h"
#include "monitor/console.h"
#include "monitor/term.h"

static void test_escape(void **state)
{
	static const struct {
		const char *typed, *seen; /* seen NULL: the end */
	} t[] = {
		{ "hello", "hello" },	  { "\1x", NULL },	  { "abc\1xdef", NULL },
		{ "\1a", "\1" },	  { "\1\1", "\1" },	  { "\1\1x", "\1x" },
		{ "\1bx", "\1bx" },	  { "x\1a\1ax", "x\1\1x" }, { "\1", "" },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		for (int split = 0; split < 2; split++) {
			struct console c = { .escape = false };
			u8 out[40];
			int n = 0, r = 0, len = (int)strlen(t[i].typed);

			/* At once, and byte by byte. */
			for (int k = 0; k < len && r >= 0; k += split ? 1 : len) {
				r = console_escape(&c, (const u8 *)t[i].typed + k,
						   split ? 1u : (unsigned)len, out + n);
				n += r;
			}
			if (!t[i].seen) {
				assert_int_equal(r, -1);
				continue;
			}
			assert_int_equal(n, strlen(t[i].seen));
			assert_memory_equal(out, t[i].seen, n);
		}
}

static int print(void *arg)
{
	struct fake *f = arg;
	const char *s = "ab MARMARK\nMARK";
	int saved = dup(STDOUT_FILENO), null = open("/dev/null", O_WRONLY);

	dup2(null, STDOUT_FILENO);
	while (*s)
		console_out(&f->m, (u8)*s++);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(null);
	return 0;
}

static void test_marker(void **state)
{
	struct fake *f = fake_new(4, 1);
	char said[512];

	(void)state;
	f->opt.marker = "MARK";
	quietly(print, f, said, sizeof(said));
	assert_ptr_equal(strstr(said, "locum: \"MARK\" "), said);
	assert_non_null(strstr(said + 1, "locum: \"MARK\" "));
	fake_free(f);
}

/* A full pipe that nobody reads does not hold up the end. */
static void test_stuck_output(void **state)
{
	struct fake *f = fake_new(4, 1);
	int p[2], saved = dup(STDOUT_FILENO);
	char fill[4096] = { 0 };

	(void)state;
	assert_int_equal(pipe(p), 0);
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	while (write(p[1], fill, sizeof(fill)) > 0)
		;
	machine_stop(&f->m, 0);
	dup2(p[1], STDOUT_FILENO);
	alarm(20);
	console_out(&f->m, 'x');
	alarm(0);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(p[0]);
	close(p[1]);
	fake_free(f);
}

/* --- the terminal -------------------------------------------------------------- */

/* Child: raw terminal on @fd, then out by @way: a signal, or 0 for exit(). */
static void child(int fd, int way, bool fault)
{
	struct termios t;

	dup2(fd, STDIN_FILENO);
	dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
	for (int s = 1; s < 32; s++)
		signal(s, SIG_DFL); /* cmocka's handlers */
	term_guard();
	term_raw();
	tcgetattr(STDIN_FILENO, &t);
	if (!term_is_raw() || (t.c_lflag & (ICANON | ECHO | ISIG)))
		_exit(99);
	if (fault)
		__builtin_trap();
	if (way)
		raise(way);
	exit(0);
}

static void test_restored(void **state)
{
	static const int ways[] = { 0,	     SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE,
				    SIGABRT, SIGSEGV, SIGBUS,  SIGFPE, SIGILL };
	int master, slave, status;
	struct termios before, after;

	(void)state;
	if (openpty(&master, &slave, NULL, NULL, NULL)) {
		print_message("SKIP no pseudo-terminal here\n");
		skip();
	}
	tcgetattr(slave, &before);
	assert_true(before.c_lflag & ICANON);
	for (unsigned i = 0; i <= ARRAY_SIZE(ways); i++) {
		bool fault = i == ARRAY_SIZE(ways);
		int way = fault ? SIGILL : ways[i];
		pid_t pid = fork();

		if (!pid)
			child(slave, way, fault);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (way)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == way);
		else
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		tcgetattr(slave, &after);
		assert_memory_equal(&before, &after, sizeof(before));
	}
	close(master);
	close(slave);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_marker),
		cmocka_unit_test(test_stuck_output),
		cmocka_unit_test(test_restored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
