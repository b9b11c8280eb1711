/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "locum/kvm.h"

static const char help[] =
	"usage: locum run  -k KERNEL [-i INITRD] [-p PARAMS] [-c VCPUS] [-m MIB]\n"
	"                  [--cpu [vendor=intel|amd,]+FEATURE,-FEATURE...]\n"
	"                  [--backend software|/dev/kvm] [--set KEY=VALUE]...\n"
	"                  [--stats FILE] [--timeout SECONDS] [--time-marker TEXT]\n"
	"       locum exec [--set KEY=VALUE]... [--stats FILE] -- PROGRAM [ARGS]\n"
	"       locum bench [--quick] [--rounds N] [--json FILE] [--picture FILE] [--kernel FILE]\n"
	"                   [--only ROW,...] [--columns COLUMN,...] invlpg|peers\n"
	"       locum stat [--json] [PID]\n"
	"       locum caps [--backend software|/dev/kvm]\n"
	"       locum --help | --version\n"
	"\n"
	"run    boot a Linux bzImage, a PVH ELF or a multiboot 1 image; the console is\n"
	"       COM1 on standard input and output (Ctrl-A x ends it on a terminal)\n"
	"       --time-marker prints how long after the first guest instruction TEXT came\n"
	"       exit: 0 power-off or reset; (value << 1) | 1 from port 0xf4; 2 usage or\n"
	"       cannot start; 4 triple fault; 124 timeout\n"
	"exec   run an unmodified KVM client with liblocum.so preloaded\n"
	"stat   counters of running VMs, whatever client they live in; on a terminal with\n"
	"       rates, every second; otherwise once\n"
	"bench  invlpg: one address or a whole VPID dropped by INVLPG; peers: the same\n"
	"       guest in QEMU on Locum, QEMU TCG, locum run and on the host;\n"
	"       --picture takes a name in .svg or .png\n"
	"caps   what is offered to guests and clients\n"
	"\n"
	"Keys of --set are those of the environment variable LOCUM_SET (comma separated).\n"
	"LOCUM_DEBUG=TOPIC,... logs to standard error.\n";

static const struct {
	const char *name;
	int (*fn)(int argc, char **argv);
} commands[] = {
	{ "run", cmd_run },
	{ "exec", cmd_exec },
	{ "bench", cmd_bench },
	{ "caps", cmd_caps },
	{ "stat", cmd_stat },
};

int usage_error(const char *command, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "locum %s: ", command);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" (try 'locum --help')\n", stderr);
	return EXIT_USAGE;
}

int apply_settings(const char *command, const char *setting)
{
	char error[512];

	if (!locum_configure(setting, error, sizeof(error)))
		return 0;
	fprintf(stderr, "locum %s: --set %s: %s\n", command, setting, error);
	return EXIT_USAGE;
}

const char *self_path(const char *name)
{
	static const char *const dirs[] = { "", "guest/", "../lib/", "../share/locum/" };
	static char path[PATH_MAX + 64];
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return NULL;
	exe[n] = 0;
	*strrchr(exe, '/') = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s%s", exe, dirs[i], name);
		if (!access(path, R_OK))
			return path;
	}
	return NULL;
}

/* "locum COMMAND --help" */
static bool wants_help(int argc, char **argv)
{
	if (argc != 3 || (strcmp(argv[2], "--help") && strcmp(argv[2], "-h")))
		return false;
	fputs(help, stdout);
	return true;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fputs(help, stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		fputs(help, stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("locum " LOCUM_VERSION);
		return 0;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return wants_help(argc, argv) ? 0 : commands[i].fn(argc - 1, argv + 1);
	fprintf(stderr, "locum: no command '%s' (run, exec, stat, bench, caps; try 'locum --help')\n",
		argv[1]);
	return EXIT_USAGE;
}
