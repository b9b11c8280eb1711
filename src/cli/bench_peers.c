/* SPDX-License-Identifier: MIT */
/*
 * `locum bench peers`: the workloads of guest/bench in the same machine of QEMU on
 * Locum and on its own translator, in `locum run`'s machine, and on the host.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/cli.h"

#define ROUNDS	    5
#define BUDGET_S    1190.0
#define QUICK_S	    175.0
#define QUICK_DIVIDE 5
#define BASE_PARAMS "console=ttyS0 quiet panic=-1"

enum column { LOCUM, TCG, RUN, NATIVE, COLUMNS };
static const char *const names[COLUMNS] = { "locum", "qemu-tcg", "locum-run", "native" };

struct workload {
	struct bench_row row;
	unsigned vcpus;
	bool boot; /* measured from outside: the program's start to the guest's first line */
};

static const struct workload workloads[] = {
	{ { "boot", "s", "boot" }, 1, true },
	{ { "boot/2", "s", "boot" }, 2, true },
#define ROW(name, group, processors, count, fn) { { name, "ns", group }, processors, false },
#include "cli/bench_rows.def"
#undef ROW
};

/* What the console says about one cell beside its figure. */
struct cell {
	bool summed;
	unsigned long long sum;
	char note[100]; /* why there is no figure */
};

struct peers {
	struct bench b;
	const struct bench_options *o;
	struct bench_row rows[BENCH_MAX_ROWS];
	unsigned vcpus[BENCH_MAX_ROWS];
	bool boot[BENCH_MAX_ROWS];
	struct cell cell[BENCH_MAX_ROWS][COLUMNS];
	const char *columns[COLUMNS];
	enum column kind[COLUMNS]; /* of each chosen column */
	struct bench_ratio ratios[2];
	const char *self, *initrd;
	char dir[PATH_MAX]; /* the initrd's files, for the native column */
	double deadline;    /* bench_now() at which the last program is ended */
	bool wrong;	    /* a checksum differs or a workload failed */
};

/* --- what is asked for ------------------------------------------------------------ */

/* Is @name one of @list (commas between)?  NULL lists everything. */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	if (!list)
		return true;
	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, name, n) && (!p[n] || p[n] == ','))
			return true;
	return false;
}

/* How many names @list has. */
static unsigned count(const char *list)
{
	unsigned n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

static int choose_rows(struct peers *p)
{
	const char *only = p->o->only;
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(workloads); i++)
		if (listed(only, workloads[i].row.name)) {
			p->rows[n] = workloads[i].row;
			p->vcpus[n] = workloads[i].vcpus;
			p->boot[n++] = workloads[i].boot;
		}
	p->b.rows = p->rows;
	p->b.nrows = n;
	if (!only || n == count(only))
		return 0;
	fprintf(stderr, "locum bench: --only %s: names of rows with commas; there are:", only);
	for (unsigned i = 0; i < ARRAY_SIZE(workloads); i++)
		fprintf(stderr, " %s", workloads[i].row.name);
	fputc('\n', stderr);
	return EXIT_USAGE;
}

/* QEMU's translator over Locum and Locum over the host, as far as they are there;
 * Locum in QEMU's machine if that runs, else in its own. */
static void choose_ratios(struct peers *p)
{
	int at[COLUMNS] = { -1, -1, -1, -1 }, locum;
	unsigned n = 0;

	for (unsigned c = 0; c < p->b.ncolumns; c++)
		at[p->kind[c]] = (int)c;
	locum = at[LOCUM] >= 0 ? at[LOCUM] : at[RUN];
	if (locum >= 0 && at[TCG] >= 0)
		p->ratios[n++] = (struct bench_ratio){ (unsigned)at[TCG], (unsigned)locum };
	if (locum >= 0 && at[NATIVE] >= 0)
		p->ratios[n++] = (struct bench_ratio){ (unsigned)locum, (unsigned)at[NATIVE] };
	p->b.ratios = p->ratios;
	p->b.nratios = n;
}

static int choose_columns(struct peers *p)
{
	const char *with = p->o->with;
	unsigned n = 0;

	for (unsigned c = 0; c < COLUMNS; c++)
		if (listed(with, names[c])) {
			p->columns[n] = names[c];
			p->kind[n++] = (enum column)c;
		}
	p->b.columns = p->columns;
	p->b.ncolumns = n;
	choose_ratios(p);
	if (!with || n == count(with))
		return 0;
	fprintf(stderr, "locum bench: --columns %s: some of locum,qemu-tcg,locum-run,native\n", with);
	return EXIT_USAGE;
}

static bool has(const struct peers *p, enum column kind)
{
	for (unsigned c = 0; c < p->b.ncolumns; c++)
		if (p->kind[c] == kind)
			return true;
	return false;
}

static int prepare(struct peers *p)
{
	p->self = bench_file("locum");
	p->initrd = bench_file("bench.initrd");
	if (!p->self || !p->initrd)
		return EXIT_USAGE;
	if ((has(p, LOCUM) || has(p, TCG)) &&
	    system("command -v qemu-system-x86_64 >/dev/null 2>&1")) {
		fprintf(stderr, "locum bench: qemu-system-x86_64 is not installed (package "
				"qemu-system-x86); without it: --columns locum-run,native\n");
		return EXIT_USAGE;
	}
	if (has(p, NATIVE)) {
		bench_stoppable();
		return bench_unpack(p->initrd, p->dir);
	}
	return 0;
}

/* --- one machine -------------------------------------------------------------------- */

struct run {
	struct peers *p;
	unsigned column, round, vcpus, done;
};

static int find_row(const struct run *run, const char *name)
{
	const struct peers *p = run->p;

	for (unsigned i = 0; i < p->b.nrows; i++)
		if (p->vcpus[i] == run->vcpus && !strcmp(p->rows[i].name, name))
			return (int)i;
	return -1;
}

/* The checksum of row @i must be what every column and round had. */
static void compare_sum(struct run *run, unsigned i, unsigned long long sum)
{
	struct peers *p = run->p;

	for (unsigned c = 0; c < p->b.ncolumns; c++)
		if (p->cell[i][c].summed && p->cell[i][c].sum != sum) {
			fprintf(stderr, "locum bench: %s: checksum %016llx in %s, %016llx in %s\n",
				p->rows[i].name, sum, p->columns[run->column], p->cell[i][c].sum,
				p->columns[c]);
			p->wrong = true;
			break;
		}
	p->cell[i][run->column].summed = true;
	p->cell[i][run->column].sum = sum;
}

static void take_line(void *opaque, pid_t pid, const char *line, double elapsed)
{
	struct run *run = opaque;
	struct peers *p = run->p;
	unsigned long long sum;
	char name[32], kind[8];
	int i, at = 0;
	double v;

	(void)pid;
	if (strstr(line, "BENCH-START"))
		for (unsigned k = 0; k < p->b.nrows; k++)
			if (p->boot[k] && p->vcpus[k] == run->vcpus && p->kind[run->column] != NATIVE)
				p->b.value[k][run->column][run->round] = elapsed;
	if (sscanf(line, "RESULT %31s %lf %llx", name, &v, &sum) == 3) {
		i = find_row(run, name);
		if (i < 0)
			return;
		p->b.value[i][run->column][run->round] = v;
		compare_sum(run, (unsigned)i, sum);
		bench_progress(&p->b, run->round, run->column, name);
		return;
	}
	if (sscanf(line, "%7s %31s %n", kind, name, &at) != 2 || !at)
		return;
	if ((strcmp(kind, "SKIP") && strcmp(kind, "FAIL")) || (i = find_row(run, name)) < 0)
		return;
	snprintf(p->cell[i][run->column].note, sizeof(p->cell[i][0].note), "%.90s", line + at);
	if (!strcmp(kind, "FAIL")) {
		fprintf(stderr, "locum bench: %s in %s: %s\n", name, p->columns[run->column], line + at);
		p->wrong = true;
	}
}

/* The names of the rows for a machine of @vcpus; false: there is none for it. */
static bool make_list(const struct peers *p, unsigned vcpus, char *list, size_t size)
{
	bool any = false;

	snprintf(list, size, "none");
	for (unsigned i = 0, n = 0; i < p->b.nrows; i++) {
		if (p->vcpus[i] != vcpus)
			continue;
		any = true;
		if (!p->boot[i])
			n += (unsigned)snprintf(list + n, size - n, "%s%s", n ? "," : "", p->rows[i].name);
	}
	return any;
}

/* Seconds until the deadline; 0: it has passed. */
static unsigned time_left(const struct peers *p)
{
	double left = p->deadline - bench_now();

	return left > 0 ? (unsigned)left : 0;
}

static int start(struct run *run, char *list, char last[256])
{
	struct peers *p = run->p;
	char params[2048], cpus[12], init[PATH_MAX + 8], divide[12];
	const char *kernel = p->o->kernel;

	snprintf(divide, sizeof(divide), "%u", p->o->quick ? QUICK_DIVIDE : 1);
	snprintf(params, sizeof(params), BASE_PARAMS " WORK_DIVIDE=%s WORK=%s", divide, list);
	snprintf(cpus, sizeof(cpus), "%u", run->vcpus);
	snprintf(init, sizeof(init), "%s/init", p->dir);
	setenv("WORK_DIVIDE", divide, 1);
	setenv("WORK_ROOT", p->dir, 1);
#define MACHINE "-cpu", "max", "-smp", cpus, "-m", "512", "-nodefaults", "-no-reboot", "-display", "none", \
		"-serial", "stdio", "-kernel", kernel, "-initrd", p->initrd, "-append", params, NULL
	const char *const locum[] = { p->self, "exec", "--", "qemu-system-x86_64", "-accel", "kvm", MACHINE };
	const char *const tcg[] = { "qemu-system-x86_64", "-accel", "tcg", MACHINE };
#undef MACHINE
	const char *const ours[] = { p->self, "run", "-c", cpus, "-m", "512", "-k", kernel,
				     "-i", p->initrd, "-p", params, NULL };
	const char *const native[] = { init, list, NULL };
	const char *const *const argv[COLUMNS] = { locum, tcg, ours, native };

	return bench_run(argv[p->kind[run->column]], time_left(p), take_line, run, last);
}

/* Rows without a figure and without a reason: the machine did not get there. */
static void explain(struct run *run, const char *last)
{
	struct peers *p = run->p;
	bool told = false;

	for (unsigned i = 0; i < p->b.nrows; i++) {
		char *note = p->cell[i][run->column].note;

		if (p->vcpus[i] != run->vcpus || p->b.value[i][run->column][run->round] >= 0 || *note)
			continue;
		if (p->boot[i] && p->kind[run->column] == NATIVE)
			continue;
		p->wrong = true;
		if (!told)
			fprintf(stderr, "locum bench: %s, %u vCPU: no figure for %s; it said last: %s\n",
				p->columns[run->column], run->vcpus, p->rows[i].name, last);
		told = true;
	}
}

static int run_round(struct peers *p, unsigned round)
{
	char list[1536], last[256];

	for (unsigned vcpus = 1; vcpus <= 2; vcpus++) {
		if (!make_list(p, vcpus, list, sizeof(list)))
			continue;
		for (unsigned c = 0; c < p->b.ncolumns; c++) {
			struct run run = { .p = p, .column = c, .round = round, .vcpus = vcpus };
			int r;

			if (p->kind[c] == NATIVE && !strcmp(list, "none"))
				continue;
			bench_progress(&p->b, round, c, vcpus == 1 ? "boot" : "boot/2");
			r = start(&run, list, last);
			if (r || bench_stopped())
				return EXIT_USAGE;
			if (round && !time_left(p))
				return 0; /* this round does not count */
			explain(&run, last);
		}
	}
	return 0;
}

/* --- all of it ------------------------------------------------------------------------ */

static void print_plan(const struct peers *p)
{
	printf("plan: %u workload%s in", p->b.nrows, p->b.nrows > 1 ? "s" : "");
	for (unsigned c = 0; c < p->b.ncolumns; c++)
		printf("%s %s", c ? "," : "", p->columns[c]);
	printf(" in turn; 512 MiB, 1 vCPU (/2: 2); up to %u rounds, at most %u minutes\n",
	       p->b.rounds, p->o->quick ? 3 : 20);
	printf("locum: QEMU's machine with -accel kvm on Locum; qemu-tcg: the same with -accel tcg; both -cpu max;\n"
	       "locum-run: the machine of `locum run`; native: the same static program on this host\n");
	fflush(stdout);
}

static void print_notes(const struct peers *p)
{
	for (unsigned i = 0; i < p->b.nrows; i++)
		for (unsigned c = 0; c < p->b.ncolumns; c++)
			if (*p->cell[i][c].note)
				printf("no %s in %s: %s\n", p->rows[i].name, p->columns[c],
				       p->cell[i][c].note);
}

/* As many rounds as there is time for, one at least. */
static int run_rounds(struct peers *p)
{
	double longest = 0;
	unsigned round = 0;

	p->deadline = bench_now() + (p->o->quick ? QUICK_S : BUDGET_S);
	while (round < p->b.rounds && time_left(p) > longest) {
		double t = bench_now();
		int r = run_round(p, round);

		if (r)
			return r;
		t = bench_now() - t;
		longest = t > longest ? t : longest;
		if (!round || time_left(p))
			round++;
	}
	p->b.rounds = round;
	return 0;
}

int bench_peers(const struct bench_options *o)
{
	static struct peers p;
	int r;

	p = (struct peers){ .o = o, .b = { .name = "peers", .rounds = o->rounds ? o->rounds : ROUNDS } };
	bench_reset(&p.b);
	r = choose_rows(&p);
	if (!r)
		r = choose_columns(&p);
	if (!r)
		r = prepare(&p);
	if (!r) {
		print_plan(&p);
		r = run_rounds(&p);
	}
	if (*p.dir)
		bench_unpack_end(p.dir);
	if (r)
		return r;
	r = bench_report(&p.b, o);
	print_notes(&p);
	return r ? r : p.wrong;
}
