/* SPDX-License-Identifier: MIT */
/* Faults of the host in guest memory end an attempt; others reach the client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/hostfault.h"
#include "mem/mem.h"

static struct mem *mem;
static u8 *ram; /* 4 pages, slot 0 at 0 */

static int set(u32 slot, u64 gpa, u64 size, void *p)
{
	struct kvm_userspace_memory_region r = {
		.slot = slot,
		.guest_phys_addr = gpa,
		.memory_size = size,
		.userspace_addr = (u64)(uintptr_t)p,
	};

	return mem_set_region(mem, &r);
}

/* cmocka puts handlers of its own around each test. */
static void handler(int sig, siginfo_t *info, void *uc)
{
	if (!hostfault_handle(sig, info, uc))
		abort();
}

static void take_signals(void)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);
}

static int setup(void **state)
{
	(void)state;
	ram = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	mem = mem_create(NULL, NULL);
	return set(0, 0, 4 * 4096, ram);
}

static int teardown(void **state)
{
	(void)state;
	mem_destroy(mem);
	munmap(ram, 4 * 4096);
	return 0;
}

static int touch(void *p)
{
	*(volatile u8 *)p += 1;
	return 7;
}

static void test_slot_memory(void **state)
{
	u8 buf[8192];

	(void)state;
	take_signals();
	assert_int_equal(hostfault_try(mem, touch, ram), 7);
	assert_int_equal(mprotect(ram + 4096, 4096, PROT_NONE), 0);
	assert_int_equal(hostfault_try(mem, touch, ram + 4096), -EFAULT);
	assert_int_equal(munmap(ram + 8192, 4096), 0);
	assert_int_equal(hostfault_try(mem, touch, ram + 8192), -EFAULT);
	/* A thousand times: nothing stays behind, no signal stays blocked. */
	for (int i = 0; i < 1000; i++)
		assert_int_equal(hostfault_try(mem, touch, ram + 4096 + (i & 1) * 4096),
				 -EFAULT);
	assert_false(hostfault_active());
	assert_int_equal(mem_read(mem, 4000, buf, sizeof(buf)), -EFAULT);
	assert_int_equal(mem_write(mem, 4000, buf, sizeof(buf)), -EFAULT);
	assert_int_equal(mem_read(mem, 0, buf, 4096), 0);
	/* No lock was kept. */
	assert_int_equal(set(1, 1 << 20, 4096, ram), 0);
}

static void test_truncated_file(void **state)
{
	int fd = memfd_create("ram", 0);
	u8 *p;

	(void)state;
	take_signals();
	assert_int_equal(ftruncate(fd, 8192), 0);
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(set(2, 1 << 21, 8192, p), 0);
	assert_int_equal(hostfault_try(mem, touch, p + 4096), 7);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(hostfault_try(mem, touch, p + 4096), -EFAULT); /* SIGBUS */
	assert_int_equal(hostfault_try(mem, touch, p), 7);
	munmap(p, 8192);
	close(fd);
}

static int nested(void *p)
{
	int r = hostfault_try(NULL, touch, p); /* ends there */

	if (r != -EFAULT)
		return 1;
	return touch(p); /* and this one here */
}

static int with_lock(void *lock)
{
	pthread_mutex_lock(lock);
	hostfault_hold(lock);
	return touch(ram + 4096);
}

static void test_nesting_and_lock(void **state)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	(void)state;
	take_signals();
	assert_int_equal(mprotect(ram + 4096, 4096, PROT_NONE), 0);
	assert_int_equal(hostfault_try(mem, nested, ram + 4096), -EFAULT);
	assert_int_equal(hostfault_try(mem, with_lock, &lock), -EFAULT);
	assert_int_equal(pthread_mutex_trylock(&lock), 0);
	pthread_mutex_unlock(&lock);
}

static void *many(void *p)
{
	for (int i = 0; i < 2000; i++)
		if (hostfault_try(mem, touch, p) != -EFAULT)
			return p;
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t t[2];
	void *r;

	(void)state;
	take_signals();
	assert_int_equal(mprotect(ram + 4096, 4096, PROT_NONE), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, many, ram + 4096), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &r);
		assert_null(r);
	}
}

/* --- hostfault_install(), before cmocka touches the handlers ----------------------- */

static sigjmp_buf escape;
static volatile int caught;

static void client_handler(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	caught = info->si_code > 0 ? sig : -1;
	siglongjmp(escape, 1);
}

static int escaping(void *p)
{
	if (!sigsetjmp(escape, 1))
		touch(p);
	return 3;
}

/* Ours come first; a fault in no slot goes to the handler that was there. */
static bool chains(void)
{
	struct sigaction act = {.sa_sigaction = client_handler, .sa_flags = SA_SIGINFO};
	u8 *outside = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok;

	ram = mmap(NULL, 4 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &act, NULL);
	mem = mem_create(NULL, NULL); /* installs */
	ok = !set(0, 0, 4 * 4096, ram);
	ok = ok && hostfault_try(mem, touch, ram) == -EFAULT && !caught;
	ok = ok && hostfault_try(mem, escaping, outside) == 3 && caught == SIGSEGV;
	caught = 0;
	ok = ok && escaping(ram) == 3 && caught == SIGSEGV; /* outside an attempt */
	mem_destroy(mem);
	munmap(ram, 4 * 4096);
	munmap(outside, 4096);
	return ok;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_slot_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truncated_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nesting_and_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	if (!chains()) {
		fprintf(stderr, "faults of others do not reach the client's handler\n");
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
