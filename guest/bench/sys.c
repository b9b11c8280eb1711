/* SPDX-License-Identifier: MIT */
/* The kernel's services: calls, signals, mappings, processes. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

u64 getppids(unsigned long n)
{
	long first = syscall(SYS_getppid);

	for (unsigned long i = 0; i < n; i++)
		if (syscall(SYS_getppid) != first)
			fail("getppid");
	return n;
}

u64 clock_gettimes(unsigned long n)
{
	struct timespec last = { 0, 0 }, ts;

	for (unsigned long i = 0; i < n; i++) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		if (ts.tv_sec < last.tv_sec ||
		    (ts.tv_sec == last.tv_sec && ts.tv_nsec < last.tv_nsec))
			fail("the clock went backwards");
		last = ts;
	}
	return n;
}

static volatile unsigned long handled;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

u64 signals(unsigned long n)
{
	pid_t pid = getpid();

	handled = 0;
	signal(SIGUSR1, on_signal);
	for (unsigned long i = 0; i < n; i++)
		kill(pid, SIGUSR1);
	if (handled != n)
		fail("a signal was lost");
	return n;
}

/* --- mappings ----------------------------------------------------------------------------- */

static u64 map_touch(unsigned long n, unsigned long count)
{
	u64 sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		u8 *p = map_here(0, count * 4096);

		for (unsigned long k = 0; k < count; k++) {
			sum = sum * 3 + p[k * 4096];
			p[k * 4096] = (u8)(i + k);
			sum += p[k * 4096];
		}
		munmap(p, count * 4096);
	}
	return sum;
}

u64 mmap_1(unsigned long n)
{
	return map_touch(n, 1);
}

u64 mmap_64(unsigned long n)
{
	return map_touch(n, 64);
}

/* One operation: read-only, read, writable again, written. */
u64 mprotects(unsigned long n)
{
	static volatile u8 *p;
	u64 sum = 0;

	if (!p)
		p = pages(4096, PROT_READ | PROT_WRITE);
	for (unsigned long i = 0; i < n; i++) {
		if (mprotect((void *)(uintptr_t)p, 4096, PROT_READ))
			fail("mprotect");
		sum += *p;
		if (mprotect((void *)(uintptr_t)p, 4096, PROT_READ | PROT_WRITE))
			fail("mprotect");
		*p = (u8)i;
	}
	return sum;
}

/* --- processes ----------------------------------------------------------------------------- */

static u64 status_of(pid_t pid)
{
	int status;

	if (pid < 0)
		fail("fork");
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		fail("a child died");
	return (u64)WEXITSTATUS(status);
}

u64 fork_exit(unsigned long n)
{
	u64 sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit((int)(i & 63));
		sum += status_of(pid);
	}
	return sum;
}

u64 fork_exec(unsigned long n)
{
	char self[] = "/proc/self/exe", arg[] = "true", *argv[] = { self, arg, NULL };
	u64 sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			execv(self, argv);
			_exit(1);
		}
		sum += status_of(pid) + 1;
	}
	return sum;
}

/* What @argv prints, folded together; its exit must be 0. */
static u64 output_of(char *const argv[])
{
	int fd[2];
	pid_t pid;
	u8 byte;
	u64 sum = 0;

	if (pipe(fd) || (pid = fork()) < 0)
		fail("fork");
	if (!pid) {
		dup2(fd[1], STDOUT_FILENO);
		close(fd[0]);
		close(fd[1]);
		execv(argv[0], argv);
		_exit(127);
	}
	close(fd[1]);
	while (read(fd[0], &byte, 1) == 1)
		sum = fold(sum, byte);
	close(fd[0]);
	if (status_of(pid))
		fail(argv[0]);
	return sum;
}

/* One operation: one turn of a loop with arithmetic, text and a subshell. */
u64 shell(unsigned long n)
{
	char busybox[4096], script[512], sh[] = "sh", c[] = "-c";
	char *argv[] = { busybox, sh, c, script, NULL };

	snprintf(busybox, sizeof(busybox), "%s", root_path("bin/busybox"));
	if (access(busybox, X_OK))
		skip("no static busybox when the initrd was built (package busybox-static)");
	snprintf(script, sizeof(script),
		 "i=0; s=1; while [ $i -lt %lu ]; do i=$((i + 1)); s=$(((s * 31 + i) %% 65521)); "
		 "t=a${s}b; case $t in *1*b) s=$((s + 3));; *) t=${t#a};; esac; "
		 "s=$(echo $s); done; echo $s $t",
		 n);
	return output_of(argv);
}

/* --- a compiler ------------------------------------------------------------------------------ */

/* 200 functions; the compiler needs no header for them. */
static void write_source(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		fail(path);
	fprintf(f, "struct node { struct node *next; int key; double weight; };\n");
	for (int i = 0; i < 200; i++)
		fprintf(f,
			"static int step%d(struct node *list, int n, const char *text)\n{\n"
			"\tint sum = %d, i;\n\tfor (i = 0; i < n; i++) {\n"
			"\t\tswitch (text[i] & 7) {\n\t\tcase 0: sum += i * %d; break;\n"
			"\t\tcase 1: sum ^= list->key << (i & 15); break;\n"
			"\t\tcase 2: if (list->next) list = list->next; else sum--; break;\n"
			"\t\tdefault: sum = sum > %d ? sum / 3 : sum * 5 + (int)list->weight;\n"
			"\t\t}\n\t}\n\treturn sum;\n}\n",
			i, i * 7, i + 3, i * 100);
	fprintf(f, "int all(struct node *list, int n, const char *text)\n{\n\tint sum = 0;\n");
	for (int i = 0; i < 200; i++)
		fprintf(f, "\tsum += step%d(list, n, text);\n", i);
	fprintf(f, "\treturn sum;\n}\n");
	if (fclose(f))
		fail(path);
}

static u64 sum_of_file(const char *path)
{
	FILE *f = fopen(path, "r");
	u64 sum = 0;
	int c;

	if (!f)
		fail(path);
	while ((c = getc(f)) != EOF)
		sum = fold(sum, (u64)c);
	fclose(f);
	return sum;
}

/* One operation: a file of 3000 lines becomes an object file. */
u64 tcc(unsigned long n)
{
	char loader[4096], libraries[4096], compiler[4096], dir[] = "/tmp/locum-bench-XXXXXX";
	char option[] = "--library-path", c[] = "-c", o[] = "-o", in[] = "work.c", out[] = "work.o";
	char *argv[] = { loader, option, libraries, compiler, c, o, out, in, NULL };
	u64 sum = 0;

	snprintf(loader, sizeof(loader), "%s", root_path("tcc/ld.so"));
	snprintf(libraries, sizeof(libraries), "%s", root_path("tcc"));
	snprintf(compiler, sizeof(compiler), "%s", root_path("tcc/tcc"));
	if (access(compiler, R_OK))
		skip("no tcc when the initrd was built (./check downloads the package; then make)");
	if (!mkdtemp(dir) || chdir(dir)) /* the file's name is in the object file */
		fail(dir);
	write_source(in);
	while (n--) {
		output_of(argv);
		sum = fold(sum, sum_of_file(out));
	}
	unlink(in);
	unlink(out);
	rmdir(dir);
	return sum;
}
