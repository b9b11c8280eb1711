/* SPDX-License-Identifier: MIT */
/* `locum run`: the main thread, from the options to the exit code. */
#include "monitor/run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "monitor/boot.h"
#include "monitor/term.h"

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

/* Console input and the time limit, until the machine has ended. */
static void supervise(struct machine *m)
{
	u64 limit = m->opt->timeout_s ? m->start_ns + m->opt->timeout_s * 1000000000ull : ~0ull;

	while (!machine_stopped(m)) {
		struct pollfd p[2] = { { .fd = m->wake, .events = POLLIN },
				       { .fd = STDIN_FILENO, .events = POLLIN } };
		u64 now = now_ns(), ms = (limit - now + 999999) / 1000000;

		if (now >= limit) {
			fprintf(stderr, "locum: still running after %u seconds\n",
				m->opt->timeout_s);
			machine_stop(m, RUN_TIMEOUT);
			return;
		}
		if (m->console.closed)
			p[1].fd = -1;
		if (poll(p, 2, (int)MIN(ms, 1000ull)) > 0 && p[1].revents)
			console_feed(m);
	}
}

int machine_run(struct machine *m)
{
	m->uart.out = console_out;
	term_raw();
	m->start_ns = now_ns();
	if (!vcpus_start(m))
		supervise(m);
	vcpus_join(m);
	term_restore();
	return atomic_load(&m->exit_code);
}

static void write_stats(struct machine *m, FILE *f)
{
	char *json = m->be->stats(m->vm);

	if (!json || fprintf(f, "%s\n", json) < 0 || fflush(f))
		boot_fail(m->opt->stats, "%s", json ? strerror(errno) : "out of memory");
	free(json);
}

static int run_machine(struct machine *m, const struct run_options *opt, FILE *stats)
{
	int r = machine_create(m, opt);

	if (!r)
		r = machine_create_cpus(m);
	if (!r)
		r = boot_load(m);
	if (!r) {
		r = machine_run(m);
		if (stats)
			write_stats(m, stats);
	}
	machine_destroy(m);
	return r;
}

int run_guest(const struct run_options *opt)
{
	static struct machine m; /* large */
	FILE *stats = NULL;
	int r;

	if (opt->stats) {
		stats = fopen(opt->stats, "w");
		if (!stats)
			return boot_fail(opt->stats, "%s", strerror(errno));
	}
	term_guard();
	r = run_machine(&m, opt, stats);
	if (stats)
		fclose(stats);
	return r;
}
