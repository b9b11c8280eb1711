/* SPDX-License-Identifier: MIT */
/*
 * runner [--cases N] [--seed S] [--case K] [--op NAME] [--coverage]
 *        [--max-failures N] [--no-shrink] [--verbose]
 *        [--guest-only] [--regress FILE]
 *
 * Runs cases 0..N-1 of seed S (random if not given) on the host and in the
 * interpreter.  --case K runs one case and prints it.  Prints "SEED s" and
 * "CASES n"; exit 1 if a case differed.  HIDE=FEATURES: as in hide.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "diff.h"
#include "../hide.h"

static struct {
	u64 cases, seed, one;
	bool has_one, coverage, no_shrink, verbose;
	unsigned max_failures;
} opt = {.cases = 100000, .max_failures = 5};

static void usage(void)
{
	fprintf(stderr, "usage: runner [--cases N] [--seed S] [--case K] [--op NAME] "
			"[--coverage] [--max-failures N] [--no-shrink] [--verbose] "
			"[--guest-only] [--regress FILE]\n");
	exit(2);
}

static u64 number(const char *s)
{
	char *end;
	u64 v = strtoull(s ? s : "", &end, 0);

	if (!s || !*s || *end)
		usage();
	return v;
}

static const char *select_op, *regress;
static bool hiding; /* HIDE is set */

static void parse(char **argv)
{
	if (getrandom(&opt.seed, sizeof(opt.seed), 0) != sizeof(opt.seed))
		opt.seed = (u64)time(NULL);
	opt.seed &= 0xffffffff;
	for (argv++; *argv; argv++) {
		if (!strcmp(*argv, "--coverage")) {
			opt.coverage = true;
		} else if (!strcmp(*argv, "--guest-only")) {
			compare_guest_only = true;
		} else if (!strcmp(*argv, "--verbose")) {
			opt.verbose = true;
		} else if (!strcmp(*argv, "--no-shrink")) {
			opt.no_shrink = true;
		} else if (!strcmp(*argv, "--cases")) {
			opt.cases = number(*++argv);
		} else if (!strcmp(*argv, "--seed")) {
			opt.seed = number(*++argv);
		} else if (!strcmp(*argv, "--case")) {
			opt.one = number(*++argv);
			opt.has_one = true;
		} else if (!strcmp(*argv, "--max-failures")) {
			opt.max_failures = (unsigned)number(*++argv);
		} else if (!strcmp(*argv, "--regress") && argv[1]) {
			regress = *++argv;
		} else if (!strcmp(*argv, "--jit")) {
			guest_jit = true;
		} else if (!strcmp(*argv, "--op") && argv[1]) {
			select_op = *++argv;
		} else {
			usage();
		}
	}
}

static void make_case(struct diff_case *k, u64 n)
{
	rng_seed(opt.seed, n);
	memset(k, 0, offsetof(struct diff_case, in));
	k->seed = opt.seed;
	k->number = n;
	gen_case(k);
}

/* Which instructions got how far, by the guest's count of completed steps. */
static void count(const struct diff_case *k, const struct diff_outcome *g)
{
	unsigned n;

	for (n = 0; n < k->ninsn && n < g->steps; n++)
		rows_count(k->insn[n].row, false);
	if (g->how == DIFF_FAULT && n < k->ninsn)
		rows_count(k->insn[n].row, true);
}

/* Undefined flags are the host's, where its own instruction is executed.  Without
 * that they are anything: not compared, and nothing may come after them.  False:
 * this case cannot be compared. */
static bool undefined_ok(const struct diff_case *k)
{
	compare_undefined = 0;
	for (unsigned n = 0; n < k->ninsn && hiding; n++) {
		if (compare_undefined)
			return false;
		compare_undefined = insn_row(k->insn[n].row)->flags_undef;
	}
	return true;
}

/* @retried: counts differences in x87 pointers that the host's kernel may have
 * lost between two instructions, and that do not show again. */
static bool differs(const struct diff_case *k, struct diff_outcome *g, unsigned *retried)
{
	for (unsigned n = 0; n < 4; n++) {
		if (compare_run(k, opt.verbose, g)) {
			*retried += n > 0;
			return false;
		}
		if (!compare_lost_pointers)
			break;
	}
	return true;
}

static void report(struct diff_case *k)
{
	if (!opt.no_shrink)
		shrink(k);
	shrink_print(k);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct diff_case k;
	struct diff_outcome g;
	unsigned failures = 0, retried = 0;
	struct timespec t0, t1;
	u64 n;

	(void)argc;
	parse(argv);
	test_hide();
	hiding = getenv("HIDE");
	native_init();
	guest_init();
	native_handlers();
	rows_init();
	gen_init();
	compare_init(opt.seed);
	if (select_op && !rows_select(select_op))
		usage();
	printf("SEED %llu\n", opt.seed);
	fflush(stdout);
	if (regress)
		return regress_file(regress, opt.seed, !opt.no_shrink);
	if (opt.has_one) {
		make_case(&k, opt.one);
		shrink_print(&k);
		return 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (n = 0; n < opt.cases && failures < opt.max_failures; n++) {
		make_case(&k, n);
		if (!undefined_ok(&k))
			continue;
		if (differs(&k, &g, &retried)) {
			failures++;
			report(&k);
		}
		count(&k, &g);
	}
	clock_gettime(CLOCK_MONOTONIC, &t1);
	double s =
		(double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;

	if (opt.coverage)
		rows_print();
	rows_summary();
	printf("CASES %llu\n%u differences, %u retried, %.0f cases/s\n", n, failures,
	       retried, (double)n / s);
	return failures ? 1 : 0;
}
