/* SPDX-License-Identifier: MIT */
/* `locum stat`: counters of running VMs, whatever client they live in. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/counters.h"

#define MAX_PROCESSES 256

/** struct view - what is shown: the processes, as they were read last
 * @only: one process, or 0 for all that can be looked into */
struct view {
	pid_t only;
	unsigned count;
	struct counters_list list[MAX_PROCESSES];
};

static void view_clear(struct view *v)
{
	for (unsigned i = 0; i < v->count; i++)
		counters_free(&v->list[i]);
	v->count = 0;
}

static void view_add(struct view *v, pid_t pid)
{
	if (v->count == MAX_PROCESSES || counters_read(&v->list[v->count], pid))
		return;
	if (v->list[v->count].count)
		v->count++;
}

static void view_read(struct view *v)
{
	struct dirent *e;
	DIR *proc;

	view_clear(v);
	if (v->only) {
		view_add(v, v->only);
		return;
	}
	proc = opendir("/proc");
	while (proc && (e = readdir(proc)))
		if (isdigit((unsigned char)e->d_name[0]))
			view_add(v, (pid_t)atoi(e->d_name));
	if (proc)
		closedir(proc);
}

/* --- JSON ------------------------------------------------------------------- */

static void put_object(const struct counters *c)
{
	for (unsigned k = 0; k < c->count; k++)
		printf("%s\"%s\": %llu", k ? ", " : "{", c->name[k], (unsigned long long)c->value[k]);
	putchar('}');
}

/* One VM: {"pid": N, "id": "kvm-N.1", "vm": {...}, "vcpus": [{...}, ...]}; @i is
 * its place in the list.  Return: the place behind its vCPUs. */
static unsigned put_vm(const struct counters_list *l, unsigned i)
{
	const char *between = "";

	printf("{\"pid\": %d, \"id\": \"%s\", \"vm\": ", (int)l->pid, l->item[i].id);
	put_object(&l->item[i]);
	printf(", \"vcpus\": [");
	for (i++; i < l->count && !counters_is_vm(&l->item[i]); i++, between = ", ") {
		fputs(between, stdout);
		put_object(&l->item[i]);
	}
	fputs("]}", stdout);
	return i;
}

static void put_json(const struct view *v)
{
	const char *between = "";

	putchar('[');
	for (unsigned p = 0; p < v->count; p++)
		for (unsigned i = 0; i < v->list[p].count; between = ",\n ") {
			fputs(between, stdout);
			i = put_vm(&v->list[p], i);
		}
	puts("]");
}

/* --- the table ---------------------------------------------------------------- */

#define MAX_ROWS 256

/** struct row - one counter, summed over everything shown */
struct row {
	const char *name;
	u64 total, before;
};

struct table {
	unsigned rows, vms, vcpus;
	struct row row[MAX_ROWS];
};

static struct row *row_of(struct table *t, const char *name)
{
	for (unsigned i = 0; i < t->rows; i++)
		if (!strcmp(t->row[i].name, name))
			return &t->row[i];
	if (t->rows == MAX_ROWS)
		return NULL;
	t->row[t->rows] = (struct row){ .name = name };
	return &t->row[t->rows++];
}

static void table_add(struct table *t, const struct counters *c)
{
	if (counters_is_vm(c))
		t->vms++;
	else
		t->vcpus++;
	for (unsigned k = 0; k < c->count; k++) {
		struct row *r = row_of(t, c->name[k]);

		if (r)
			r->total += c->value[k];
	}
}

static void table_make(struct table *t, const struct view *v)
{
	memset(t, 0, sizeof(*t));
	for (unsigned p = 0; p < v->count; p++)
		for (unsigned i = 0; i < v->list[p].count; i++)
			table_add(t, &v->list[p].item[i]);
}

/* Busiest first; without a rate, the largest total first. */
static int busier(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	u64 dx = x->total - x->before, dy = y->total - y->before;

	if (dx != dy)
		return dx < dy ? 1 : -1;
	return x->total == y->total ? 0 : x->total < y->total ? 1 : -1;
}

/* @seconds: since the values in row.before; 0 prints no rates.  @lines: at most. */
static void table_print(struct table *t, double seconds, unsigned lines)
{
	qsort(t->row, t->rows, sizeof(t->row[0]), busier);
	printf("%u VM%s, %u vCPU%s\n%-24s %20s", t->vms, t->vms == 1 ? "" : "s", t->vcpus,
	       t->vcpus == 1 ? "" : "s", "counter", "total");
	puts(seconds > 0 ? "          per second" : "");
	for (unsigned i = 0; i < t->rows && i < lines; i++) {
		const struct row *r = &t->row[i];

		if (!r->total)
			continue;
		printf("%-24s %20llu", r->name, (unsigned long long)r->total);
		if (seconds > 0)
			printf(" %19.0f", (double)(r->total - r->before) / seconds);
		putchar('\n');
	}
}

/* --- live ----------------------------------------------------------------------- */

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static unsigned terminal_lines(void)
{
	struct winsize w;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || w.ws_row < 6 ? 24 : w.ws_row;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The totals of @old as what came before; a counter that shrank belongs to a VM
 * that has gone. */
static void take_before(struct table *t, const struct table *old)
{
	for (unsigned i = 0; i < t->rows; i++) {
		t->row[i].before = t->row[i].total;
		for (unsigned k = 0; k < old->rows; k++)
			if (!strcmp(t->row[i].name, old->row[k].name))
				t->row[i].before = MIN(old->row[k].total, t->row[i].total);
	}
}

/* Names in a table point into the view it was made from: two of each. */
static int watch(struct view *v)
{
	static struct table table[2];
	double before = 0;
	unsigned n = 0;

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	for (; !stop; n++) {
		struct table *t = &table[n & 1];
		double now = now_s();

		view_read(&v[n & 1]);
		table_make(t, &v[n & 1]);
		if (n)
			take_before(t, &table[!(n & 1)]);
		fputs("\033[H\033[2J", stdout);
		table_print(t, n ? now - before : 0, terminal_lines() - 3);
		fputs("Ctrl-C ends", stdout);
		fflush(stdout);
		before = now;
		poll(NULL, 0, 1000);
	}
	putchar('\n');
	return 0;
}

static int nothing(pid_t only)
{
	struct counters_list l;
	int r = only ? counters_read(&l, only) : 0;

	if (r)
		fprintf(stderr, "locum stat: process %d: %s\n", (int)only,
			r == -ENOENT ? "no such process" : strerror(-r));
	else if (only)
		fprintf(stderr, "locum stat: process %d has no VM of Locum\n", (int)only);
	else
		fprintf(stderr, "locum stat: no VM of Locum is running, or none may be looked into\n");
	return EXIT_USAGE;
}

int cmd_stat(int argc, char **argv)
{
	static struct view view[2];
	static struct table table;
	bool json = false;

	for (int i = 1; i < argc; i++) {
		char *end;
		long pid = strtol(argv[i], &end, 10);

		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (view[0].only || end == argv[i] || *end || pid <= 0 || pid > INT32_MAX)
			return usage_error("stat", "unexpected argument '%s'", argv[i]);
		else
			view[0].only = view[1].only = (pid_t)pid;
	}
	view_read(&view[0]);
	if (json) {
		put_json(&view[0]);
		return view[0].only && !view[0].count ? nothing(view[0].only) : 0;
	}
	if (!view[0].count)
		return nothing(view[0].only);
	if (isatty(STDOUT_FILENO))
		return watch(view);
	table_make(&table, &view[0]);
	table_print(&table, 0, MAX_ROWS);
	return 0;
}
