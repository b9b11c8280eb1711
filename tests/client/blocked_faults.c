/* SPDX-License-Identifier: MIT */
/*
 * Guest memory that the client took away gives EFAULT, also in a thread that
 * blocks every signal, and with a KVM_SET_SIGNAL_MASK that does.
 */
#include "client.h"

#include <pthread.h>
#include <signal.h>

GUEST_CODE(touch, "movl $1, 0x200000\n movb $1, %al\n outb %al, $0x10\n hlt");

static struct machine m;

static void expect_efault(void)
{
	CHECK(ioctl(m.cpu, KVM_RUN, 0) < 0 && errno == EFAULT);
}

static void *blocks_all(void *arg)
{
	sigset_t all;

	(void)arg;
	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	expect_efault();
	return NULL;
}

static void *masks_all(void *arg)
{
	struct {
		struct kvm_signal_mask head;
		uint8_t set[8];
	} mask = { .head.len = 8, .set = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } };

	(void)arg;
	CHECK(!ioctl(m.cpu, KVM_SET_SIGNAL_MASK, &mask));
	expect_efault();
	return NULL;
}

int main(void)
{
	void *(*const threads[])(void *) = { blocks_all, masks_all };
	pthread_t thread;

	machine_init(&m, touch_start, touch_end);
	CHECK(!munmap(m.ram + 0x200000, RAM_SIZE - 0x200000));
	for (int i = 0; i < 2; i++) {
		CHECK(!pthread_create(&thread, NULL, threads[i], NULL));
		pthread_join(thread, NULL);
	}
	/* Given back, the access is made. */
	CHECK(mmap(m.ram + 0x200000, RAM_SIZE - 0x200000, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == m.ram + 0x200000);
	CHECK(machine_run(&m) == KVM_EXIT_IO && m.ram[0x200000] == 1);
	return 0;
}
