/* SPDX-License-Identifier: MIT */
#include "cli/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

double bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void bench_reset(struct bench *b)
{
	for (unsigned r = 0; r < BENCH_MAX_ROWS; r++)
		for (unsigned c = 0; c < BENCH_MAX_COLUMNS; c++)
			for (unsigned i = 0; i < BENCH_MAX_ROUNDS; i++)
				b->value[r][c][i] = -1;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(const struct bench *b, unsigned row, unsigned column)
{
	double s[BENCH_MAX_ROUNDS];
	unsigned n = 0;

	for (unsigned i = 0; i < b->rounds; i++)
		if (b->value[row][column][i] >= 0)
			s[n++] = b->value[row][column][i];
	if (!n)
		return -1;
	qsort(s, n, sizeof(*s), compare);
	return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

/* --- signals ------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void on_stop(int sig)
{
	(void)sig;
	stopped = 1;
}

void bench_stoppable(void)
{
	struct sigaction sa = { .sa_handler = on_stop };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

bool bench_stopped(void)
{
	return stopped;
}

/* --- running ------------------------------------------------------------------ */

static void exec_child(const char *const argv[], int out)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execvp(argv[0], (char *const *)(uintptr_t)argv); /* it writes none */
	dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

struct reader {
	bench_line_fn fn;
	void *opaque;
	pid_t pid;
	double start;
	char *last;
	char line[512];
	size_t n;
};

static void take_bytes(struct reader *r, const char *buf, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] != '\n' && r->n < sizeof(r->line) - 1) {
			if (buf[i] != '\r')
				r->line[r->n++] = buf[i];
			continue;
		}
		r->line[r->n] = 0;
		if (r->n)
			snprintf(r->last, 256, "%.255s", r->line);
		r->n = 0;
		r->fn(r->opaque, r->pid, r->line, bench_now() - r->start);
	}
}

/* Lines until the program has closed its output; kills it after @limit_s. */
static void read_lines(struct reader *r, int fd, unsigned limit_s)
{
	char buf[512];
	ssize_t n;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (stopped || bench_now() - r->start > limit_s) {
			kill(r->pid, SIGKILL);
			return;
		}
		if (poll(&p, 1, 500) <= 0)
			continue;
		n = read(fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		take_bytes(r, buf, n);
	}
}

int bench_run(const char *const argv[], unsigned limit_s, bench_line_fn fn, void *opaque, char last[256])
{
	struct reader r = { .fn = fn, .opaque = opaque, .start = bench_now(), .last = last };
	int fd[2], status;

	last[0] = 0;
	if (pipe2(fd, O_CLOEXEC) || (r.pid = fork()) < 0) {
		fprintf(stderr, "locum bench: %s\n", strerror(errno));
		return EXIT_USAGE;
	}
	if (!r.pid)
		exec_child(argv, fd[1]);
	close(fd[1]);
	read_lines(&r, fd[0], limit_s);
	close(fd[0]);
	while (waitpid(r.pid, &status, 0) < 0 && errno == EINTR)
		;
	return 0;
}

int bench_missing(const struct bench *b, unsigned column, unsigned round, const char *last)
{
	for (unsigned i = 0; i < b->nrows; i++)
		if (b->value[i][column][round] < 0) {
			fprintf(stderr, "locum bench: %s gave no figure for %s; it said last: %s\n",
				b->columns[column], b->rows[i].name, last);
			return EXIT_USAGE;
		}
	return 0;
}

void bench_progress(const struct bench *b, unsigned round, unsigned column, const char *what)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%s: round %u of %u: %-10s %-24s\r", b->name, round + 1,
			b->rounds, b->columns[column], what);
}

const char *bench_file(const char *name)
{
	const char *path = self_path(name);

	if (path)
		return strdup(path);
	fprintf(stderr, "locum bench: %s not found beside locum: run make\n", name);
	return NULL;
}
