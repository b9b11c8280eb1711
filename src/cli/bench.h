/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks share: columns that are compared, rounds in which the
 * columns take turns, medians, and the table, JSON and picture of them.
 */
#ifndef LOCUM_CLI_BENCH_H
#define LOCUM_CLI_BENCH_H

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/types.h"

#define BENCH_MAX_ROUNDS  9
#define BENCH_MAX_ROWS	  64
#define BENCH_MAX_COLUMNS 8

/** struct bench_options - the command line
 * @kernel: path of the guest kernel
 * @json, @picture: open file, path; NULL: not wanted
 * @quick: at most 3 minutes
 * @only, @with: of peers: names of rows and of columns with commas between them;
 * NULL: all
 * @rounds: at most so many; 0: each benchmark's own number */
struct bench_options {
	const char *kernel;
	FILE *json;
	const char *picture, *only, *with;
	unsigned rounds;
	bool quick;
};

/** struct bench_row - @group: whose mean it counts for; NULL or "": none */
struct bench_row {
	const char *name, *unit, *group;
};

/** struct bench_ratio - column @over divided by column @under */
struct bench_ratio {
	unsigned over, under;
};

/** struct bench - results as they come in
 * @columns: names, @ncolumns of them
 * @ratios: @nratios of them; none: each other column over the first
 * @value: a negative value is one that is missing */
struct bench {
	const char *name, *caption;
	const char *const *columns;
	unsigned ncolumns, nrows, rounds;
	const struct bench_row *rows;
	const struct bench_ratio *ratios;
	unsigned nratios;
	double value[BENCH_MAX_ROWS][BENCH_MAX_COLUMNS][BENCH_MAX_ROUNDS];
};

/** bench_reset() - every value missing */
void bench_reset(struct bench *b);

/** bench_median() - of the rounds of one cell that have a value; -1: none has */
double bench_median(const struct bench *b, unsigned row, unsigned column);

/**
 * bench_line_fn - a line of the guest's console or of the program's messages
 * @pid: the running program; @elapsed: seconds since its start
 */
typedef void (*bench_line_fn)(void *opaque, pid_t pid, const char *line, double elapsed);

/**
 * bench_run() - run one program to its end, standard input closed
 * @limit_s: then it is killed
 * @last: receives the last line that was not empty, 256 bytes
 * Return: 0, or 2 after a line on standard error.
 */
int bench_run(const char *const argv[], unsigned limit_s, bench_line_fn fn, void *opaque,
	      char last[256]);

/** bench_missing() - name the first cell that column @column has no value for in
 * @round; @last: what the program said last.  Return: 0 none, 2 after a line. */
int bench_missing(const struct bench *b, unsigned column, unsigned round, const char *last);

/** bench_progress() - on a terminal, say which run this is
 * @what: and what it does now; "" for nothing */
void bench_progress(const struct bench *b, unsigned round, unsigned column, const char *what);

/** bench_now() - seconds of the monotonic clock */
double bench_now(void);

/** bench_stoppable() - from now on SIGINT and SIGTERM end the running program and
 * set a flag, so that the caller can clean up */
void bench_stoppable(void);

/** bench_stopped() - has such a signal come? */
bool bench_stopped(void);

/** bench_report() - table on standard output, and what @o asks for
 * Return: 0, or 2 after a line */
int bench_report(const struct bench *b, const struct bench_options *o);

/** bench_file() - path of a file of the build (self_path()), checked
 * Return: a copy that lives as long as the process; NULL after a line */
const char *bench_file(const char *name);

/**
 * bench_unpack() - the files of an initrd (newc, as tools/mkinitrd writes it)
 * into a new folder for temporary files
 * @dir: receives its path, PATH_MAX bytes; bench_unpack_end() removes it
 * Return: 0, or 2 after a line (then nothing is left).
 */
int bench_unpack(const char *initrd, char *dir);
void bench_unpack_end(const char *dir);

/* The benchmarks: 0, or 2 after a line. */
int bench_peers(const struct bench_options *o);
int bench_invlpg(const struct bench_options *o);

#endif
