/* SPDX-License-Identifier: MIT */
/* Results of a benchmark: a table to read, JSON for programs, a picture. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/cli.h"

static void print_table(const struct bench *b)
{
	char ratio[64];

	printf("%-24s %-8s", "", "unit");
	for (unsigned c = 0; c < b->ncolumns; c++)
		printf(" %14s", b->columns[c]);
	for (unsigned c = 1; c < b->ncolumns; c++) {
		snprintf(ratio, sizeof(ratio), "%s/%s", b->columns[c], b->columns[0]);
		printf(" %16s", ratio);
	}
	putchar('\n');
	for (unsigned i = 0; i < b->nrows; i++) {
		double first = bench_median(b, i, 0);

		printf("%-24s %-8s", b->rows[i].name, b->rows[i].unit);
		for (unsigned c = 0; c < b->ncolumns; c++)
			printf(" %14.2f", bench_median(b, i, c));
		for (unsigned c = 1; c < b->ncolumns; c++)
			if (first > 0)
				printf(" %16.2f", bench_median(b, i, c) / first);
			else
				printf(" %16s", "-");
		putchar('\n');
	}
	if (b->caption)
		printf("%s\n", b->caption);
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

static int write_json(const struct bench *b, FILE *f)
{
	fprintf(f, "{\"name\": \"%s\", \"host\": ", b->name);
	put_host(f);
	fprintf(f, ", \"rounds\": %u, \"columns\": [", b->rounds);
	for (unsigned c = 0; c < b->ncolumns; c++)
		fprintf(f, "%s\"%s\"", c ? ", " : "", b->columns[c]);
	fprintf(f, "], \"rows\": [");
	for (unsigned i = 0; i < b->nrows; i++) {
		fprintf(f, "%s\n {\"name\": \"%s\", \"unit\": \"%s\", \"values\": {", i ? "," : "",
			b->rows[i].name, b->rows[i].unit);
		for (unsigned c = 0; c < b->ncolumns; c++)
			fprintf(f, "%s\"%s\": %.3f", c ? ", " : "", b->columns[c],
				bench_median(b, i, c));
		fprintf(f, "}}");
	}
	fprintf(f, "]}\n");
	if (!fflush(f))
		return 0;
	fprintf(stderr, "locum bench: --json: %s\n", strerror(errno));
	return EXIT_USAGE;
}

/* Bars for every row, each row relative to its first column. */
static void put_gnuplot(const struct bench *b, FILE *g, const char *path)
{
	bool png = strlen(path) > 4 && !strcmp(path + strlen(path) - 4, ".png");

	fprintf(g, "set terminal %s size 1000,500\nset output '%s'\n", png ? "png" : "svg", path);
	fprintf(g, "set title 'locum bench %s: relative to %s, medians of %u'\n", b->name,
		b->columns[0], b->rounds);
	fprintf(g, "set style data histograms\nset style fill solid 0.7\nset key top left\n"
		   "set logscale y\nset grid y\nset xtics rotate by -30 noenhanced\n"
		   "$data << END\n");
	for (unsigned i = 0; i < b->nrows; i++) {
		fprintf(g, "\"%s %s\"", b->rows[i].name, b->rows[i].unit);
		for (unsigned c = 0; c < b->ncolumns; c++)
			fprintf(g, " %g", bench_median(b, i, c) / bench_median(b, i, 0));
		fputc('\n', g);
	}
	fprintf(g, "END\nplot ");
	for (unsigned c = 0; c < b->ncolumns; c++)
		fprintf(g, "%s$data using %u:xtic(1) title '%s' noenhanced", c ? ", " : "", c + 2,
			b->columns[c]);
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
