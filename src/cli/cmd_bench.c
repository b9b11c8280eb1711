/* SPDX-License-Identifier: MIT */
/*
 * `locum bench peers`: the same kernel and initrd here and under QEMU TCG, in
 * turn, medians and ratios.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define MAX_ROUNDS 9
#define RUN_LIMIT_S 120
#define PARAMS "console=ttyS0 quiet panic=-1"

enum { LOCUM, TCG, COLUMNS };
static const char *const column_names[COLUMNS] = { "locum", "qemu-tcg" };

/* Row 0 is measured from outside; the others are printed by guest/bench.c. */
static const struct {
	const char *name, *unit;
} rows[] = {
	{ "boot", "s" },	{ "integer", "ns" },	{ "sieve", "ns" },   { "getppid", "ns" },
	{ "fork+exec", "ns" },	{ "pipe-2p-0k", "ns" }, { "mmap-64", "ns" },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct bench {
	const char *kernel;
	FILE *json;
	char initrd[PATH_MAX], self[PATH_MAX];
	unsigned rounds;
	char last[512]; /* line of the console or of standard error */
	double value[ROWS][COLUMNS][MAX_ROUNDS];
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void take_line(struct bench *b, int column, unsigned round, const char *line,
		      double start)
{
	char name[32];
	double v;

	if (*line)
		snprintf(b->last, sizeof(b->last), "%s", line);
	if (strstr(line, "BENCH-START"))
		b->value[0][column][round] = now_s() - start;
	if (sscanf(line, "RESULT %31s %lf", name, &v) != 2)
		return;
	for (unsigned i = 1; i < ROWS; i++)
		if (!strcmp(rows[i].name, name))
			b->value[i][column][round] = v;
}

static void start_guest(const struct bench *b, int column, int out)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	if (column == LOCUM)
		execl(b->self, "locum", "run", "-k", b->kernel, "-i", b->initrd, "-p", PARAMS, "-m",
		      "512", "--timeout", "120", (char *)NULL);
	else
		execlp("qemu-system-x86_64", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max",
		       "-m", "512", "-nodefaults", "-no-reboot", "-display", "none", "-serial",
		       "stdio", "-kernel", b->kernel, "-initrd", b->initrd, "-append", PARAMS,
		       (char *)NULL);
	_exit(127);
}

/* Read the console until the guest has gone; false after RUN_LIMIT_S. */
static bool read_console(struct bench *b, int column, unsigned round, int fd, double start)
{
	char line[512];
	size_t n = 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char c;

		if (now_s() - start > RUN_LIMIT_S)
			return false;
		if (poll(&p, 1, 1000) <= 0)
			continue;
		if (read(fd, &c, 1) != 1)
			return true;
		if (c == '\n' || n == sizeof(line) - 1) {
			line[n] = 0;
			take_line(b, column, round, line, start);
			n = 0;
		} else if (c != '\r') {
			line[n++] = c;
		}
	}
}

static int run_once(struct bench *b, int column, unsigned round)
{
	double start = now_s();
	int fd[2], status;
	pid_t pid;

	b->last[0] = 0;
	if (pipe2(fd, O_CLOEXEC) || (pid = fork()) < 0) {
		fprintf(stderr, "locum bench: %s\n", strerror(errno));
		return EXIT_USAGE;
	}
	if (!pid)
		start_guest(b, column, fd[1]);
	close(fd[1]);
	if (!read_console(b, column, round, fd[0], start))
		kill(pid, SIGKILL);
	close(fd[0]);
	waitpid(pid, &status, 0);
	for (unsigned i = 0; i < ROWS; i++)
		if (b->value[i][column][round] <= 0) {
			fprintf(stderr, "locum bench: %s gave no figure for %s; it said last: %s\n",
				column_names[column], rows[i].name, b->last);
			return EXIT_USAGE;
		}
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *v, unsigned n)
{
	double s[MAX_ROUNDS];

	memcpy(s, v, n * sizeof(*v));
	qsort(s, n, sizeof(*s), compare);
	return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

static void print_table(const struct bench *b)
{
	printf("%-12s %-4s %14s %14s %10s\n", "workload", "unit", column_names[0], column_names[1],
	       "tcg/locum");
	for (unsigned i = 0; i < ROWS; i++) {
		double l = median(b->value[i][LOCUM], b->rounds),
		       t = median(b->value[i][TCG], b->rounds);

		printf("%-12s %-4s %14.2f %14.2f %10.2f\n", rows[i].name, rows[i].unit, l, t, t / l);
	}
}

/* @text as the inside of a JSON string. */
static void put_string(FILE *f, const char *text)
{
	for (; *text && *text != '\n'; text++)
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else if ((unsigned char)*text >= ' ')
			fputc(*text, f);
}

static void put_host(FILE *f)
{
	char line[256], *model = NULL;
	FILE *info = fopen("/proc/cpuinfo", "r");
	struct utsname u;

	while (info && !model && fgets(line, sizeof(line), info))
		if (!strncmp(line, "model name", 10) && (model = strchr(line, ':')))
			model += 2;
	if (info)
		fclose(info);
	uname(&u);
	fprintf(f, "{\"processor\": \"");
	put_string(f, model ? model : "unknown");
	fprintf(f, "\", \"processors\": %ld, \"kernel\": \"", sysconf(_SC_NPROCESSORS_ONLN));
	put_string(f, u.release);
	fprintf(f, "\"}");
}

static int write_json(const struct bench *b)
{
	FILE *f = b->json;

	fprintf(f, "{\"name\": \"peers\", \"host\": ");
	put_host(f);
	fprintf(f, ", \"columns\": [\"%s\", \"%s\"], \"rows\": [", column_names[LOCUM],
		column_names[TCG]);
	for (unsigned i = 0; i < ROWS; i++)
		fprintf(f,
			"%s\n {\"name\": \"%s\", \"unit\": \"%s\", \"values\": {\"%s\": %.3f, "
			"\"%s\": %.3f}}",
			i ? "," : "", rows[i].name, rows[i].unit, column_names[LOCUM],
			median(b->value[i][LOCUM], b->rounds), column_names[TCG],
			median(b->value[i][TCG], b->rounds));
	fprintf(f, "]}\n");
	if (!fclose(f))
		return 0;
	fprintf(stderr, "locum bench: --json: %s\n", strerror(errno));
	return EXIT_USAGE;
}

static int missing(const char *what)
{
	fprintf(stderr, "locum bench: %s\n", what);
	return EXIT_USAGE;
}

static int run_peers(struct bench *b)
{
	bool tty = isatty(STDERR_FILENO);

	printf("plan: boot to init and six workloads, %u round%s of locum and QEMU TCG (-cpu max) "
	       "in turn, one vCPU, 512 MiB; about %u s\n",
	       b->rounds, b->rounds > 1 ? "s" : "", b->rounds * 30);
	fflush(stdout);
	for (unsigned r = 0; r < b->rounds; r++)
		for (int c = 0; c < COLUMNS; c++) {
			if (tty)
				fprintf(stderr, "\rround %u of %u: %-10s", r + 1, b->rounds,
					column_names[c]);
			int err = run_once(b, c, r);

			if (err)
				return err;
		}
	if (tty)
		fputs("\r                              \r", stderr);
	print_table(b);
	return b->json ? write_json(b) : 0;
}

int cmd_bench(int argc, char **argv)
{
	static struct bench b = { .rounds = 5, .kernel = "build/kernel/vmlinuz" };
	const char *what = NULL, *json = NULL, *initrd;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--quick"))
			b.rounds = 1;
		else if (!strcmp(argv[i], "--json") && i + 1 < argc)
			json = argv[++i];
		else if (!strcmp(argv[i], "--kernel") && i + 1 < argc)
			b.kernel = argv[++i];
		else if (argv[i][0] == '-' || what)
			return usage_error("bench", "unexpected argument '%s'", argv[i]);
		else
			what = argv[i];
	}
	if (!what || strcmp(what, "peers"))
		return usage_error("bench", "which benchmark? there is: peers");
	if (access(b.kernel, R_OK))
		return missing("no kernel: run ./demo once, or give --kernel FILE");
	if (system("command -v qemu-system-x86_64 >/dev/null 2>&1"))
		return missing("qemu-system-x86_64 is not installed (package qemu-system-x86)");
	initrd = self_path("bench.initrd");
	if (!initrd)
		return missing("bench.initrd not found beside locum: run make");
	snprintf(b.initrd, sizeof(b.initrd), "%s", initrd);
	snprintf(b.self, sizeof(b.self), "%s", self_path("locum"));
	if (json) {
		b.json = fopen(json, "w");
		if (!b.json)
			return usage_error("bench", "--json %s: %s", json, strerror(errno));
	}
	return run_peers(&b);
}
