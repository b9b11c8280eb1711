/* SPDX-License-Identifier: MIT */
/* Processes and threads that hand work to each other. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define MAX_PROCESSES 16

/* --- a ring of pipes with a token ---------------------------------------------------------- */

struct ring {
	unsigned processes;
	size_t bytes; /* that each process reads when it has the token */
	int fd[MAX_PROCESSES][2]; /* pipe i leads to process i */
};

static u64 sum_of(const u32 *array, size_t bytes)
{
	u64 sum = 0;

	for (size_t i = 0; i < bytes / sizeof(*array); i++)
		sum += ((const volatile u32 *)array)[i];
	return sum;
}

static u32 *make_array(size_t bytes, unsigned seed)
{
	u32 *array = bytes ? pages(bytes, PROT_READ | PROT_WRITE) : NULL;

	for (size_t i = 0; i < bytes / sizeof(*array); i++)
		array[i] = (u32)(i * seed);
	return array;
}

/* Passes the token on until its end; the token is the sum so far. */
static void member(const struct ring *r, unsigned me)
{
	int in = r->fd[me][0], out = r->fd[(me + 1) % r->processes][1];
	u32 *array = make_array(r->bytes, me + 1);
	u64 token;

	for (unsigned i = 0; i < r->processes; i++) {
		if (i != me)
			close(r->fd[i][0]);
		if (i != (me + 1) % r->processes)
			close(r->fd[i][1]);
	}
	while (read(in, &token, sizeof(token)) == sizeof(token)) {
		token = fold(token, sum_of(array, r->bytes));
		if (write(out, &token, sizeof(token)) != sizeof(token))
			break;
	}
	_exit(0);
}

static u64 ring(unsigned long n, unsigned processes, size_t bytes)
{
	struct ring r = { .processes = processes, .bytes = bytes };
	pid_t pid[MAX_PROCESSES];
	u32 *array = make_array(bytes, 1);
	u64 token = 1;

	for (unsigned i = 0; i < processes; i++)
		if (pipe(r.fd[i]))
			fail("pipe");
	for (unsigned i = 1; i < processes; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			fail("fork");
		if (!pid[i])
			member(&r, i);
	}
	for (unsigned i = 0; i < processes; i++) {
		if (i)
			close(r.fd[i][0]);
		if (i != 1)
			close(r.fd[i][1]);
	}
	for (unsigned long i = 0; i < n; i += processes) {
		token = fold(token, sum_of(array, bytes));
		if (write(r.fd[1][1], &token, sizeof(token)) != sizeof(token) ||
		    read(r.fd[0][0], &token, sizeof(token)) != sizeof(token))
			fail("the ring broke");
	}
	close(r.fd[1][1]);
	close(r.fd[0][0]);
	for (unsigned i = 1; i < processes; i++)
		waitpid(pid[i], NULL, 0);
	if (array)
		munmap(array, bytes);
	return token;
}

#define RING(name, processes, kib)                        \
	u64 name(unsigned long n)                         \
	{                                                 \
		return ring(n, processes, (kib) * 1024ul); \
	}
RING(ctx_2p_0k, 2, 0)
RING(ctx_2p_16k, 2, 16)
RING(ctx_2p_64k, 2, 64)
RING(ctx_8p_0k, 8, 0)
RING(ctx_8p_16k, 8, 16)
RING(ctx_16p_0k, 16, 0)
RING(ctx_16p_64k, 16, 64)

/* --- two threads and a futex ----------------------------------------------------------------- */

struct table_tennis {
	u32 turn;
	unsigned long n;
	u64 hits;
};

static void play(struct table_tennis *t, u32 me)
{
	for (unsigned long i = 0; i < t->n; i++) {
		while (__atomic_load_n(&t->turn, __ATOMIC_ACQUIRE) != me)
			syscall(SYS_futex, &t->turn, FUTEX_WAIT_PRIVATE, !me, NULL, NULL, 0);
		t->hits = t->hits * 3 + me;
		__atomic_store_n(&t->turn, !me, __ATOMIC_RELEASE);
		syscall(SYS_futex, &t->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

static void *opponent(void *t)
{
	play(t, 1);
	return NULL;
}

/* One operation: there and back. */
u64 futex_pingpong(unsigned long n)
{
	struct table_tennis t = { .n = n };
	pthread_t thread;

	errno = pthread_create(&thread, NULL, opponent, &t);
	if (errno)
		fail("pthread_create");
	play(&t, 0);
	pthread_join(thread, NULL);
	return t.hits;
}

/* --- a stream ----------------------------------------------------------------------------------- */

#define BLOCK 65536

/* One operation: a block of 64 KiB from one process to another. */
u64 pipe_64k(unsigned long n)
{
	static u8 block[BLOCK];
	size_t left = n * BLOCK;
	u64 sum = 0;
	ssize_t got;
	int fd[2];
	pid_t pid;

	if (pipe(fd) || (pid = fork()) < 0)
		fail("fork");
	if (!pid) {
		for (unsigned long i = 0; i < n; i++) {
			block[i % BLOCK] = (u8)i;
			if (write(fd[1], block, BLOCK) != BLOCK)
				_exit(1);
		}
		_exit(0);
	}
	close(fd[1]);
	while (left && (got = read(fd[0], block, BLOCK)) > 0) {
		sum = sum * 3 + block[0]; /* the same in each first byte but one */
		left -= (size_t)got;
	}
	close(fd[0]);
	waitpid(pid, NULL, 0);
	if (left)
		fail("the stream ended early");
	return n;
}
