/* SPDX-License-Identifier: MIT */
/*
 * bench [NAME,NAME...]: runs workloads of `locum bench peers`, each in a process
 * of its own, and prints for each
 *	RESULT NAME NANOSECONDS-PER-OPERATION CHECKSUM
 *	SKIP NAME REASON	or	FAIL NAME REASON
 * Without names: $WORK, which as process 1 is a parameter of the kernel; "all":
 * every one.  $WORK_DIVIDE: counts are divided by it.  $WORK_ROOT: where the
 * initrd's files lie, if not in the root.  As process 1 with WORK=invlpg it is /flush instead, and it
 * switches the machine off in the end.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

#define ROW_LIMIT_S 120 /* then a workload hangs */

struct row {
	const char *name;
	unsigned processors;
	unsigned long n;
	u64 (*fn)(unsigned long n);
};

static const struct row rows[] = {
#define ROW(name, group, processors, count, fn) { name, processors, count, fn },
#include "cli/bench_rows.def"
#undef ROW
};

static const struct row *current;

void skip(const char *why)
{
	printf("\nSKIP %s %s\n", current->name, why);
	fflush(stdout);
	_exit(0);
}

void fail(const char *what)
{
	printf("\nFAIL %s %s (%s)\n", current->name, what, strerror(errno));
	fflush(stdout);
	_exit(0);
}

void *pages(size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	if (bytes >= 2 << 20)
		madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

void *map_here(unsigned which, size_t bytes)
{
	static u8 *range; /* one page table's */
	void *p;

	if (!range) {
		range = pages(4 << 20, PROT_NONE);
		range = (u8 *)(((uintptr_t)range + (2 << 20) - 1) & ~((2ul << 20) - 1));
		mprotect(range, 4096, PROT_READ | PROT_WRITE);
		*(volatile u8 *)range = 1;
	}
	p = mmap(range + ((which + 1) << 17), bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (p == MAP_FAILED)
		fail("mmap");
	return p;
}

const char *root_path(const char *name)
{
	static char path[2][4096];
	static unsigned turn;
	const char *root = getenv("WORK_ROOT");

	turn ^= 1;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", root ? root : "", name);
	return path[turn];
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Onto the first @n processors that this process may use. */
static void pin(unsigned n)
{
	cpu_set_t have, want;

	CPU_ZERO(&want);
	if (sched_getaffinity(0, sizeof(have), &have))
		fail("sched_getaffinity");
	for (int i = 0; i < CPU_SETSIZE && n; i++)
		if (CPU_ISSET(i, &have)) {
			CPU_SET(i, &want);
			n--;
		}
	if (n)
		skip("needs more processors");
	if (sched_setaffinity(0, sizeof(want), &want))
		fail("sched_setaffinity");
}

static void run_here(const struct row *row, unsigned long divide)
{
	unsigned long n = row->n / divide ? row->n / divide : 1;
	u64 sum;
	double t;

	current = row;
	alarm(ROW_LIMIT_S);
	pin(row->processors);
	sum = row->fn(n / 16 + 1);
	t = now();
	sum = fold(sum, row->fn(n));
	t = now() - t;
	printf("\nRESULT %s %.3f %016llx\n", row->name, t / (double)n, (unsigned long long)sum);
	fflush(stdout);
	_exit(0);
}

static void run(const struct row *row, unsigned long divide)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		run_here(row, divide);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		printf("\nFAIL %s fork: %s\n", row->name, strerror(errno));
	else if (WIFSIGNALED(status))
		printf("\nFAIL %s %s\n", row->name, strsignal(WTERMSIG(status)));
	else if (status)
		printf("\nFAIL %s exit %d\n", row->name, WEXITSTATUS(status));
	fflush(stdout);
}

/* Is @name in the comma-separated @list? */
static int listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, name, n) && (!p[n] || p[n] == ','))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *list = argc > 1 ? argv[1] : getenv("WORK"), *divide = getenv("WORK_DIVIDE");
	char flush[] = "/flush", *flush_argv[] = { flush, NULL };
	unsigned long d = divide ? strtoul(divide, NULL, 10) : 1;

	if (argc > 1 && !strcmp(argv[1], "true"))
		return 0;
	if (!list)
		list = "all";
	if (getpid() == 1) {
		if (!strcmp(list, "invlpg"))
			execv(flush, flush_argv);
		mkdir("/proc", 0755);
		mount("proc", "/proc", "proc", 0, NULL);
	}
	printf("\nBENCH-START\n");
	fflush(stdout);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (listed(list, rows[i].name) || !strcmp(list, "all"))
			run(&rows[i], d ? d : 1);
	printf("\nBENCH-END\n");
	fflush(stdout);
	if (getpid() == 1) {
		sync();
		reboot(RB_POWER_OFF);
	}
	return 0;
}
