/* SPDX-License-Identifier: MIT */
/*
 * PID 1 of the benchmarks.  With WORK=invlpg in the kernel's parameters it is
 * /flush instead.  Else it runs each workload of `locum bench peers` once, prints
 * "RESULT NAME NANOSECONDS-PER-OPERATION", and switches the machine off.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static volatile uint64_t sink;

static void integer_mix(unsigned long n)
{
	uint64_t a = 88172645463325252ull, b = 12345, c = 1;
	static uint32_t table[1024];

	for (unsigned long i = 0; i < n; i++) {
		a ^= a << 13;
		a ^= a >> 7;
		a ^= a << 17;
		b = b * 6364136223846793005ull + a;
		table[a & 1023] += (uint32_t)b;
		c += table[b & 1023] % 7 ? c >> 3 : a;
	}
	sink = a + b + c;
}

static void sieve(unsigned long n)
{
	static uint8_t flag[1 << 20];

	while (n--) {
		memset(flag, 1, sizeof(flag));
		for (unsigned i = 2; i * i < sizeof(flag); i++)
			if (flag[i])
				for (unsigned k = i * i; k < sizeof(flag); k += i)
					flag[k] = 0;
		sink += flag[n & 1023];
	}
}

static void getppids(unsigned long n)
{
	while (n--)
		sink += (uint64_t)syscall(SYS_getppid);
}

static void fork_exec(unsigned long n)
{
	char self[] = "/init", arg[] = "true";
	char *argv[] = { self, arg, NULL };

	while (n--) {
		pid_t pid = fork();

		if (!pid) {
			execv("/init", argv);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
	}
}

static void pipe_ring(unsigned long n)
{
	int there[2], back[2];
	char c = 0;

	if (pipe(there) || pipe(back))
		return;
	pid_t pid = fork();

	if (!pid) {
		for (unsigned long i = 0; i < n; i++)
			if (read(there[0], &c, 1) != 1 || write(back[1], &c, 1) != 1)
				_exit(1);
		_exit(0);
	}
	for (unsigned long i = 0; i < n; i++)
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			break;
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
}

static void map_touch(unsigned long n)
{
	while (n--) {
		char *p = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (int i = 0; i < 64; i++)
			p[i * 4096] = 1;
		munmap(p, 64 * 4096);
	}
}

static const struct {
	const char *name;
	void (*fn)(unsigned long n);
	unsigned long n;
} work[] = {
	{ "integer", integer_mix, 5000000 }, { "sieve", sieve, 8 },
	{ "getppid", getppids, 200000 },     { "fork+exec", fork_exec, 60 },
	{ "pipe-2p-0k", pipe_ring, 10000 },  { "mmap-64", map_touch, 200 },
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "true"))
		return 0;
	const char *wanted = getenv("WORK");
	char flush[] = "/flush", *flush_argv[] = { flush, NULL };

	if (wanted && !strcmp(wanted, "invlpg"))
		execv(flush, flush_argv);
	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	printf("\nBENCH-START\n");
	fflush(stdout);
	for (unsigned i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
		work[i].fn(work[i].n / 10 + 1); /* warm */
		double t = now();

		work[i].fn(work[i].n);
		printf("\nRESULT %s %.1f\n", work[i].name, (now() - t) / (double)work[i].n);
		fflush(stdout);
	}
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
