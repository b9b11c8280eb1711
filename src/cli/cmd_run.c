/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "monitor/run.h"

enum { OPT_CPU = 256, OPT_BACKEND, OPT_SET, OPT_STATS, OPT_TIMEOUT, OPT_MARKER };

static const struct option options[] = {
	{ "kernel", required_argument, NULL, 'k' },
	{ "initrd", required_argument, NULL, 'i' },
	{ "params", required_argument, NULL, 'p' },
	{ "cpus", required_argument, NULL, 'c' },
	{ "mem", required_argument, NULL, 'm' },
	{ "cpu", required_argument, NULL, OPT_CPU },
	{ "backend", required_argument, NULL, OPT_BACKEND },
	{ "set", required_argument, NULL, OPT_SET },
	{ "stats", required_argument, NULL, OPT_STATS },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "time-marker", required_argument, NULL, OPT_MARKER },
	{ 0 },
};

/* Decimal @text in [@min, @max] into *@v. */
static int number(const char *name, const char *text, u64 min, u64 max, u64 *v)
{
	char *end;

	errno = 0;
	*v = strtoull(text, &end, 10);
	if (!errno && end != text && !*end && text[0] != '-' && *v >= min && *v <= max)
		return 0;
	return usage_error("run", "%s %s: a number from %llu to %llu is wanted", name, text,
			   (unsigned long long)min, (unsigned long long)max);
}

static int take(struct run_options *o, const char **set, int c)
{
	u64 v = 0;
	int r = 0;

	switch (c) {
	case 'k': o->kernel = optarg; break;
	case 'i': o->initrd = optarg; break;
	case 'p': o->params = optarg; break;
	case 'c':
		r = number("-c", optarg, 1, MACHINE_MAX_CPUS, &v);
		o->cpus = (unsigned)v;
		break;
	case 'm':
		r = number("-m", optarg, 2, 1 << 20, &v);
		o->mem_mib = v;
		break;
	case OPT_CPU: o->cpu = optarg; break;
	case OPT_BACKEND:
		o->backend = backend_find(optarg);
		if (!o->backend)
			r = usage_error("run", "--backend %s: software or /dev/kvm is wanted", optarg);
		break;
	case OPT_SET:
		*set = optarg;
		r = apply_settings("run", optarg);
		break;
	case OPT_STATS: o->stats = optarg; break;
	case OPT_TIMEOUT:
		r = number("--timeout", optarg, 1, 1000000, &v);
		o->timeout_s = (unsigned)v;
		break;
	case OPT_MARKER:
		o->marker = optarg;
		if (!*optarg || strlen(optarg) > CONSOLE_MARKER_MAX)
			r = usage_error("run", "--time-marker: 1 to %u bytes are wanted",
					CONSOLE_MARKER_MAX);
		break;
	default: r = EXIT_USAGE; break; /* getopt has said why */
	}
	return r;
}

/* --cpu vendor=: the whole table is that maker's, not its name alone. */
static int take_vendor(const char *cpu)
{
	if (strstr(cpu, "vendor=intel"))
		return apply_settings("run", "cpu.vendor=intel");
	if (strstr(cpu, "vendor=amd"))
		return apply_settings("run", "cpu.vendor=amd");
	return 0;
}

int cmd_run(int argc, char **argv)
{
	struct run_options o = { .cpus = 1, .mem_mib = 512, .backend = &backend_software };
	const char *set = NULL;
	char name[] = "locum run";
	int c;

	argv[0] = name;
	while ((c = getopt_long(argc, argv, "k:i:p:c:m:", options, NULL)) != -1) {
		int r = take(&o, &set, c);

		if (r)
			return r;
	}
	if (optind < argc)
		return usage_error("run", "unexpected argument '%s'", argv[optind]);
	if (!o.kernel)
		return usage_error("run", "-k KERNEL is missing");
	if (!o.backend->ours && (set || o.stats))
		return usage_error("run", "%s: not with --backend %s", set ? "--set" : "--stats",
				   o.backend->name);
	if (o.cpu && o.backend->ours && take_vendor(o.cpu))
		return EXIT_USAGE;
	return run_guest(&o);
}
