/* SPDX-License-Identifier: MIT */
/* Results of a benchmark: a table to read, JSON for programs, a picture. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/cli.h"

/* --- ratios and their means ------------------------------------------------------ */

static unsigned ratio_count(const struct bench *b)
{
	return b->ratios ? b->nratios : b->ncolumns - 1;
}

static struct bench_ratio ratio_at(const struct bench *b, unsigned i)
{
	return b->ratios ? b->ratios[i] : (struct bench_ratio){ i + 1, 0 };
}

/* "OVER/UNDER" */
static const char *ratio_name(const struct bench *b, unsigned i)
{
	static char name[64];
	struct bench_ratio r = ratio_at(b, i);

	snprintf(name, sizeof(name), "%s/%s", b->columns[r.over], b->columns[r.under]);
	return name;
}

/* Of one row; -1: a column has no value. */
static double ratio_of(const struct bench *b, unsigned row, unsigned i)
{
	struct bench_ratio r = ratio_at(b, i);
	double over = bench_median(b, row, r.over), under = bench_median(b, row, r.under);

	return over >= 0 && under > 0 ? over / under : -1;
}

/* Geometric mean of ratio @i over the rows of @group that have it; -1: none has. */
static double group_mean(const struct bench *b, const char *group, unsigned i)
{
	double sum = 0;
	unsigned n = 0;

	for (unsigned row = 0; row < b->nrows; row++) {
		double v = ratio_of(b, row, i);

		if (b->rows[row].group && !strcmp(b->rows[row].group, group) && v > 0) {
			sum += log(v);
			n++;
		}
	}
	return n ? exp(sum / n) : -1;
}

/* The group that row @row is the first of; NULL: of none. */
static const char *group_begun(const struct bench *b, unsigned row)
{
	const char *group = b->rows[row].group;

	if (!group || !*group)
		return NULL;
	for (unsigned i = 0; i < row; i++)
		if (b->rows[i].group && !strcmp(b->rows[i].group, group))
			return NULL;
	return group;
}

/* --- the table -------------------------------------------------------------------- */

static void print_cell(int width, double v)
{
	if (v < 0)
		printf(" %*s", width, "-");
	else
		printf(" %*.2f", width, v);
}

static void print_groups(const struct bench *b)
{
	bool headed = false;

	for (unsigned row = 0; ratio_count(b) && row < b->nrows; row++) {
		const char *group = group_begun(b, row);

		if (!group)
			continue;
		if (!headed)
			printf("geometric means:\n");
		headed = true;
		printf("%-33s %*s", group, 15 * (int)b->ncolumns - 1, "");
		for (unsigned i = 0; i < ratio_count(b); i++)
			print_cell(16, group_mean(b, group, i));
		putchar('\n');
	}
}

static void print_table(const struct bench *b)
{
	printf("%-24s %-8s", "", "unit");
	for (unsigned c = 0; c < b->ncolumns; c++)
		printf(" %14s", b->columns[c]);
	for (unsigned i = 0; i < ratio_count(b); i++)
		printf(" %16s", ratio_name(b, i));
	putchar('\n');
	for (unsigned row = 0; row < b->nrows; row++) {
		printf("%-24s %-8s", b->rows[row].name, b->rows[row].unit);
		for (unsigned c = 0; c < b->ncolumns; c++)
			print_cell(14, bench_median(b, row, c));
		for (unsigned i = 0; i < ratio_count(b); i++)
			print_cell(16, ratio_of(b, row, i));
		putchar('\n');
	}
	print_groups(b);
	if (b->caption)
		printf("%s\n", b->caption);
}

/* --- JSON -------------------------------------------------------------------------- */

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

/* ", "groups": [...]" if the rows have groups */
static void put_groups(const struct bench *b, FILE *f)
{
	const char *before = ", \"groups\": [";
	bool any = false;

	for (unsigned row = 0; row < b->nrows; row++) {
		const char *group = group_begun(b, row), *comma = "";

		if (!group)
			continue;
		fprintf(f, "%s\n {\"name\": \"%s\", \"ratios\": {", before, group);
		for (unsigned i = 0; i < ratio_count(b); i++)
			if (group_mean(b, group, i) > 0) {
				fprintf(f, "%s\"%s\": %.4f", comma, ratio_name(b, i),
					group_mean(b, group, i));
				comma = ", ";
			}
		fprintf(f, "}}");
		before = ",";
		any = true;
	}
	if (any)
		fputc(']', f);
}

static void put_row(const struct bench *b, unsigned row, FILE *f)
{
	const char *comma = "";

	fprintf(f, "\n {\"name\": \"%s\", \"unit\": \"%s\", \"values\": {", b->rows[row].name,
		b->rows[row].unit);
	for (unsigned c = 0; c < b->ncolumns; c++)
		if (bench_median(b, row, c) >= 0) {
			fprintf(f, "%s\"%s\": %.3f", comma, b->columns[c], bench_median(b, row, c));
			comma = ", ";
		}
	fprintf(f, "}}");
}

static int write_json(const struct bench *b, FILE *f)
{
	fprintf(f, "{\"name\": \"%s\", \"host\": ", b->name);
	put_host(f);
	fprintf(f, ", \"rounds\": %u, \"columns\": [", b->rounds);
	for (unsigned c = 0; c < b->ncolumns; c++)
		fprintf(f, "%s\"%s\"", c ? ", " : "", b->columns[c]);
	fprintf(f, "], \"rows\": [");
	for (unsigned row = 0; row < b->nrows; row++) {
		fputs(row ? "," : "", f);
		put_row(b, row, f);
	}
	fputc(']', f);
	put_groups(b, f);
	fprintf(f, "}\n");
	if (!fflush(f))
		return 0;
	fprintf(stderr, "locum bench: --json: %s\n", strerror(errno));
	return EXIT_USAGE;
}

/* --- the picture -------------------------------------------------------------------- */

/* What a bar is: a ratio where the benchmark names them, else a column over the first. */
static unsigned bar_count(const struct bench *b)
{
	return b->ratios ? b->nratios : b->ncolumns;
}

static double bar(const struct bench *b, unsigned row, unsigned i)
{
	if (b->ratios)
		return ratio_of(b, row, i);
	return bench_median(b, row, 0) > 0 ? bench_median(b, row, i) / bench_median(b, row, 0) : -1;
}

static void put_value(FILE *g, double v)
{
	if (v > 0)
		fprintf(g, " %g", v);
	else
		fprintf(g, " ?");
}

/* Bars for every row, and for the means of the groups. */
static void put_data(const struct bench *b, FILE *g)
{
	fprintf(g, "set datafile missing '?'\n$data << END\n");
	for (unsigned row = 0; row < b->nrows; row++) {
		fprintf(g, "\"%s %s\"", b->rows[row].name, b->ratios ? "" : b->rows[row].unit);
		for (unsigned i = 0; i < bar_count(b); i++)
			put_value(g, bar(b, row, i));
		fputc('\n', g);
	}
	for (unsigned row = 0; b->ratios && row < b->nrows; row++) {
		const char *group = group_begun(b, row);

		if (!group)
			continue;
		fprintf(g, "\"mean: %s\"", group);
		for (unsigned i = 0; i < bar_count(b); i++)
			put_value(g, group_mean(b, group, i));
		fputc('\n', g);
	}
	fprintf(g, "END\n");
}

static void put_gnuplot(const struct bench *b, FILE *g, const char *path)
{
	bool png = strlen(path) > 4 && !strcmp(path + strlen(path) - 4, ".png");
	const char *title;

	fprintf(g, "set terminal %s size %u,500\nset output '%s'\n", png ? "png" : "svg",
		b->nrows > 24 ? 400 + 30 * b->nrows : 1000, path);
	fprintf(g, "set title 'locum bench %s: %s, medians of %u'\n", b->name,
		b->ratios ? "ratios" : "relative to the first column", b->rounds);
	fprintf(g, "set style data histograms\nset style fill solid 0.7\nset key top left\n"
		   "set logscale y\nset grid y\nset xtics rotate by -45 noenhanced\n"
		   "set rmargin 12\n");
	put_data(b, g);
	fprintf(g, "plot ");
	for (unsigned i = 0; i < bar_count(b); i++) {
		title = b->ratios ? ratio_name(b, i) : b->columns[i];
		fprintf(g, "%s$data using %u:xtic(1) title '%s' noenhanced", i ? ", " : "", i + 2, title);
	}
	fputc('\n', g);
}

static int draw(const struct bench *b, const char *path)
{
	FILE *g = popen("gnuplot", "w");
	int r = -1;

	if (g) {
		put_gnuplot(b, g, path);
		r = pclose(g);
	}
	if (!r)
		return 0;
	fprintf(stderr, "locum bench: --picture %s: gnuplot failed (package gnuplot-nox)\n", path);
	return EXIT_USAGE;
}

int bench_report(const struct bench *b, const struct bench_options *o)
{
	int r = 0;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%60s\r", "");
	print_table(b);
	fflush(stdout);
	if (o->json)
		r = write_json(b, o->json);
	if (!r && o->picture)
		r = draw(b, o->picture);
	return r;
}
