/* SPDX-License-Identifier: MIT */
/* `locum bench`: the options, and which benchmarks there are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/cli.h"

static const struct {
	const char *name;
	int (*fn)(const struct bench_options *o);
} benches[] = {
	{ "invlpg", bench_invlpg },
	{ "peers", bench_peers },
};

static int find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(benches); i++)
		if (!strcmp(benches[i].name, name))
			return (int)i;
	return -1;
}

/* Options into @o and @json; names of benchmarks into @wanted, a bit each. */
static int parse(int argc, char **argv, struct bench_options *o, const char **json, u32 *wanted)
{
	for (int i = 1; i < argc; i++) {
		int k = find(argv[i]);
		char *end;

		if (!strcmp(argv[i], "--quick"))
			o->quick = true;
		else if (!strcmp(argv[i], "--json") && i + 1 < argc)
			*json = argv[++i];
		else if (!strcmp(argv[i], "--picture") && i + 1 < argc)
			o->picture = argv[++i];
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc) {
			o->rounds = (unsigned)strtoul(argv[++i], &end, 10);
			if (*end || o->rounds < 1 || o->rounds > BENCH_MAX_ROUNDS)
				return usage_error("bench", "--rounds: 1 to %u", BENCH_MAX_ROUNDS);
		} else if (!strcmp(argv[i], "--only") && i + 1 < argc)
			o->only = argv[++i];
		else if (!strcmp(argv[i], "--columns") && i + 1 < argc)
			o->with = argv[++i];
		else if (!strcmp(argv[i], "--kernel") && i + 1 < argc)
			o->kernel = argv[++i];
		else if (k >= 0)
			*wanted |= 1u << k;
		else
			return usage_error("bench", "unexpected argument '%s'", argv[i]);
	}
	if (!*wanted)
		return usage_error("bench", "which benchmark? there are: invlpg, peers");
	if ((o->only || o->with) && *wanted != 1u << find("peers"))
		return usage_error("bench", "--only and --columns: of peers");
	if ((*wanted & (*wanted - 1)) && (*json || o->picture))
		return usage_error("bench", "--json and --picture: of one benchmark at a time");
	return 0;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_options o = { .kernel = "build/kernel/vmlinuz" };
	const char *json = NULL;
	u32 wanted = 0;
	int r = parse(argc, argv, &o, &json, &wanted);

	if (r)
		return r;
	if (access(o.kernel, R_OK)) {
		fprintf(stderr, "locum bench: no kernel: run ./demo once, or give --kernel FILE\n");
		return EXIT_USAGE;
	}
	if (json) {
		o.json = fopen(json, "w");
		if (!o.json)
			return usage_error("bench", "--json %s: %s", json, strerror(errno));
	}
	for (unsigned i = 0; !r && i < ARRAY_SIZE(benches); i++)
		if (wanted & (1u << i))
			r = benches[i].fn(&o);
	if (o.json)
		fclose(o.json);
	return r;
}
