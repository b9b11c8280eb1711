/* SPDX-License-Identifier: MIT */
/*
 * `locum bench invlpg`: what it costs a guest when INVLPG of one address drops
 * everything of its VPID, as KVM without EPT did in 2012 (context), against
 * dropping that address (address).
 */
#include <string.h>

#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/counters.h"

#define RUN_LIMIT_S 150
#define PARAMS "console=ttyS0 quiet panic=-1 WORK=invlpg"

enum { ADDRESS, CONTEXT, COLUMNS };
static const char *const columns[COLUMNS] = { "address", "context" };

/* Of each workload of guest/flush.c, in this order. */
static const struct bench_row rows[] = {
	{ "gc-heap", "walks", NULL },	     { "gc-heap", "dropped", NULL },	    { "gc-heap", "ms", NULL },
	{ "small-munmap", "walks", NULL }, { "small-munmap", "dropped", NULL }, { "small-munmap", "ms", NULL },
	{ "fork+exec", "walks", NULL },    { "fork+exec", "dropped", NULL },    { "fork+exec", "ms", NULL },
};

struct run {
	struct bench *b;
	unsigned column, round;
	u64 walks, dropped; /* at the last BEGIN */
};

static void put(struct run *r, const char *name, const char *unit, double v)
{
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].name, name) && !strcmp(rows[i].unit, unit))
			r->b->value[i][r->column][r->round] = v;
}

/* "BEGIN NAME" and "END NAME NANOSECONDS"; the guest is idle around both, so
 * that the counters read now are those of the work between them. */
static void take_line(void *opaque, pid_t pid, const char *line, double elapsed)
{
	struct run *r = opaque;
	struct counters_list l;
	char name[32];
	double ns;
	int n = sscanf(line, "END %31s %lf", name, &ns);

	(void)elapsed;
	if (n != 2 && sscanf(line, "BEGIN %31s", name) != 1)
		return;
	if (counters_read(&l, pid))
		return;
	if (n == 2) {
		put(r, name, "walks", (double)(counters_get(&l, "walks") - r->walks));
		put(r, name, "dropped",
		    (double)(counters_get(&l, "tlb_entries_dropped") - r->dropped));
		put(r, name, "ms", ns * 1e-6);
	}
	r->walks = counters_get(&l, "walks");
	r->dropped = counters_get(&l, "tlb_entries_dropped");
	counters_free(&l);
}

static int run_once(struct bench *b, const struct bench_options *o, unsigned column,
		    unsigned round)
{
	static const char *self, *initrd;
	struct run run = { .b = b, .column = column, .round = round };
	char last[256], set[64];
	int r;

	if (!self)
		self = bench_file("locum");
	if (!initrd)
		initrd = bench_file("bench.initrd");
	if (!self || !initrd)
		return EXIT_USAGE;
	snprintf(set, sizeof(set), "tlb.invlpg=%s", columns[column]);
	const char *const argv[] = { self, "run", "-k", o->kernel, "-i", initrd,
			       "-p", PARAMS, "-m", "512", "--set", set, "--timeout", "140", NULL };

	bench_progress(b, round, column, "");
	r = bench_run(argv, RUN_LIMIT_S, take_line, &run, last);
	return r ? r : bench_missing(b, column, round, last);
}

int bench_invlpg(const struct bench_options *o)
{
	static struct bench b = {
		.name = "invlpg", .columns = columns, .ncolumns = COLUMNS,
		.rows = rows, .nrows = ARRAY_SIZE(rows),
		.caption = "address: INVLPG drops one address; context: it drops everything of the "
			   "VPID, all PCIDs and globals\nincluded, as KVM without EPT did in 2012. "
			   "walks: page walks; dropped: valid first-level entries.",
	};
	int r = 0;

	b.rounds = o->rounds ? o->rounds : o->quick ? 1 : 5;
	bench_reset(&b);
	printf("plan: a heap with page-protection barriers, small munmaps and fork+exec, %u "
	       "round%s of tlb.invlpg=address and context in turn, one vCPU; about %u s\n",
	       b.rounds, b.rounds > 1 ? "s" : "", b.rounds * 25);
	fflush(stdout);
	for (unsigned round = 0; !r && round < b.rounds; round++)
		for (unsigned c = 0; !r && c < COLUMNS; c++)
			r = run_once(&b, o, c, round);
	return r ? r : bench_report(&b, o);
}
