/* SPDX-License-Identifier: MIT */
/*
 * `locum bench peers`: the same kernel and initrd here and under QEMU TCG.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/cli.h"

#define RUN_LIMIT_S 120
#define PARAMS "console=ttyS0 quiet panic=-1 WORK=peers"

enum { LOCUM, TCG, COLUMNS };
static const char *const columns[COLUMNS] = { "locum", "qemu-tcg" };

/* Row 0 is measured from outside; the others are printed by guest/bench.c. */
static const struct bench_row rows[] = {
	{ "boot", "s" },       { "integer", "ns" },    { "sieve", "ns" },   { "getppid", "ns" },
	{ "fork+exec", "ns" }, { "pipe-2p-0k", "ns" }, { "mmap-64", "ns" },
};

struct run {
	struct bench *b;
	unsigned column, round;
};

static void take_line(void *opaque, pid_t pid, const char *line, double elapsed)
{
	struct run *r = opaque;
	char name[32];
	double v;

	(void)pid;
	if (strstr(line, "BENCH-START"))
		r->b->value[0][r->column][r->round] = elapsed;
	if (sscanf(line, "RESULT %31s %lf", name, &v) != 2)
		return;
	for (unsigned i = 1; i < r->b->nrows; i++)
		if (!strcmp(rows[i].name, name))
			r->b->value[i][r->column][r->round] = v;
}

static int run_once(struct bench *b, const char *const *const *argv, unsigned column, unsigned round)
{
	struct run run = { b, column, round };
	char last[256];
	int r;

	bench_progress(b, round, column);
	r = bench_run(argv[column], RUN_LIMIT_S, take_line, &run, last);
	return r ? r : bench_missing(b, column, round, last);
}

int bench_peers(const struct bench_options *o)
{
	static struct bench b = { .name = "peers", .columns = columns, .ncolumns = COLUMNS,
				  .rows = rows, .nrows = ARRAY_SIZE(rows) };
	const char *self = bench_file("locum"), *initrd = bench_file("bench.initrd");
	const char *const ours[] = { self, "run", "-k", o->kernel, "-i", initrd,
			       "-p", PARAMS, "-m", "512", "--timeout", "120", NULL };
	const char *const tcg[] = { "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "512",
			      "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
			      "-kernel", o->kernel, "-initrd", initrd, "-append",
			      PARAMS, NULL };
	const char *const *const argv[COLUMNS] = { ours, tcg };
	int r = 0;

	if (!self || !initrd)
		return EXIT_USAGE;
	if (system("command -v qemu-system-x86_64 >/dev/null 2>&1")) {
		fprintf(stderr, "locum bench: qemu-system-x86_64 is not installed (package "
				"qemu-system-x86)\n");
		return EXIT_USAGE;
	}
	b.rounds = o->quick ? 1 : 5;
	bench_reset(&b);
	printf("plan: boot to init and six workloads, %u round%s of locum and QEMU TCG (-cpu max) "
	       "in turn, one vCPU, 512 MiB; about %u s\n",
	       b.rounds, b.rounds > 1 ? "s" : "", b.rounds * 30);
	fflush(stdout);
	for (unsigned round = 0; !r && round < b.rounds; round++)
		for (unsigned c = 0; !r && c < COLUMNS; c++)
			r = run_once(&b, argv, c, round);
	return r ? r : bench_report(&b, o);
}
