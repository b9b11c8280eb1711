/* SPDX-License-Identifier: MIT */
/* Descriptors: duplicates, lifetimes, aliases of the run page, forked children. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locum/kvm.h"

static int make_vm(void)
{
	int sys = locum_open(O_RDWR | O_CLOEXEC);
	int vm = (int)locum_ioctl(sys, KVM_CREATE_VM, 0);

	assert_true(sys >= 0 && vm >= 0);
	assert_int_equal(locum_close(sys), 0);
	return vm;
}

static void close_on_exec_as_asked(void **state)
{
	int plain = locum_open(O_RDWR), cloexec = locum_open(O_RDWR | O_CLOEXEC);
	int vm = (int)locum_ioctl(plain, KVM_CREATE_VM, 0);

	(void)state;
	assert_int_equal(fcntl(plain, F_GETFD), 0);
	assert_int_equal(fcntl(cloexec, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(vm, F_GETFD), FD_CLOEXEC);
	locum_close(plain);
	locum_close(cloexec);
	locum_close(vm);
	assert_int_equal(fcntl(vm, F_GETFD), -1);
}

/* The VM's descriptor goes first: its vCPU still works. */
static void a_vcpu_keeps_its_vm_alive(void **state)
{
	int vm = make_vm(), vcpu = (int)locum_ioctl(vm, KVM_CREATE_VCPU, 0);
	struct kvm_regs regs;

	(void)state;
	assert_int_equal(locum_close(vm), 0);
	assert_int_equal(locum_owns(vm), 0);
	assert_int_equal(locum_ioctl(vcpu, KVM_GET_REGS, (unsigned long)&regs), 0);
	assert_int_equal(locum_close(vcpu), 0);
	assert_int_equal(locum_close(vcpu), -EBADF);
}

static void a_duplicate_is_the_same_object(void **state)
{
	int vm = make_vm(), vcpu = (int)locum_ioctl(vm, KVM_CREATE_VCPU, 0);
	int copy = dup(vcpu);
	struct kvm_regs regs;

	(void)state;
	assert_int_equal(locum_owns(copy), 0);
	assert_int_equal(locum_dup(vcpu, copy), 0);
	assert_int_equal(locum_owns(copy), 1);
	locum_close(vcpu);
	locum_close(vm);
	assert_int_equal(locum_ioctl(copy, KVM_GET_REGS, (unsigned long)&regs), 0);
	locum_close(copy);
}

static void mappings_of_the_run_page_alias(void **state)
{
	int vm = make_vm(), vcpu = (int)locum_ioctl(vm, KVM_CREATE_VCPU, 0);
	int copy = dup(vcpu);
	struct kvm_run *a = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	struct kvm_run *b = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);

	(void)state;
	assert_true(a != MAP_FAILED && b != MAP_FAILED && a != b);
	a->immediate_exit = 1;
	assert_int_equal(b->immediate_exit, 1);
	a->exit_reason = 99;
	assert_int_equal(locum_ioctl(vcpu, KVM_RUN, 0), -EINTR);
	assert_int_equal(b->exit_reason, 99); /* left as it was */
	munmap(a, 12288);
	munmap(b, 12288);
	close(copy);
	locum_close(vcpu);
	locum_close(vm);
}

static void a_forked_child_gets_eio_and_may_open_anew(void **state)
{
	int vm = make_vm(), vcpu = (int)locum_ioctl(vm, KVM_CREATE_VCPU, 0);
	struct kvm_regs regs;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		int sys, vm2;

		if (locum_ioctl(vcpu, KVM_GET_REGS, (unsigned long)&regs) != -EIO)
			_exit(1);
		if (locum_ioctl(vm, KVM_CREATE_VCPU, 1) != -EIO)
			_exit(2);
		if (locum_close(vcpu) || locum_close(vm))
			_exit(3);
		sys = locum_open(O_RDWR);
		vm2 = (int)locum_ioctl(sys, KVM_CREATE_VM, 0);
		if (sys < 0 || vm2 < 0 || locum_ioctl(vm2, KVM_CREATE_VCPU, 0) < 0)
			_exit(4);
		_exit(locum_close(vm2) ? 5 : 0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* The parent's are untouched. */
	assert_int_equal(locum_ioctl(vcpu, KVM_GET_REGS, (unsigned long)&regs), 0);
	locum_close(vcpu);
	locum_close(vm);
}

static void *hammer(void *arg)
{
	int fd = *(int *)arg;
	long r;

	do
		r = locum_ioctl(fd, KVM_CHECK_EXTENSION, KVM_CAP_IRQCHIP);
	while (r == 1);
	return (void *)r; /* -ENOTTY when it is closed */
}

/* A descriptor closed under a thread that uses it: no crash, no leak of use. */
static void closing_under_a_user_is_safe(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		int vm = make_vm();
		pthread_t t[2];
		void *r;

		for (int k = 0; k < 2; k++)
			assert_int_equal(pthread_create(&t[k], NULL, hammer, &vm), 0);
		if (i & 1)
			sched_yield();
		locum_close(vm);
		for (int k = 0; k < 2; k++) {
			pthread_join(t[k], &r);
			assert_int_equal((long)r, -ENOTTY);
		}
	}
}

static void a_hundred_vms_come_and_go(void **state)
{
	int vm[100];

	(void)state;
	for (int i = 0; i < 100; i++) {
		vm[i] = make_vm();
		assert_true(locum_ioctl(vm[i], KVM_CREATE_VCPU, 0) >= 0);
	}
	/* The vCPUs' descriptors stay open on purpose: close them by number. */
	for (int i = 0; i < 100; i++)
		locum_close(vm[i]);
	for (int fd = 3; fd < 1000; fd++)
		if (locum_owns(fd))
			locum_close(fd);
}

static void statistics_are_json_and_a_kvm_stats_file(void **state)
{
	int vm = make_vm(), vcpu = (int)locum_ioctl(vm, KVM_CREATE_VCPU, 0), fd;
	char *text = locum_stats_json(vm), id[48];
	struct kvm_stats_header h;

	(void)state;
	assert_non_null(text);
	assert_memory_equal(text, "{\"vm\": {", 8);
	assert_non_null(strstr(text, "\"vcpus\": [{"));
	assert_non_null(strstr(text, "\"req_event\": 0"));
	assert_non_null(strstr(text, "\"walks\": 0"));
	free(text);
	fd = (int)locum_ioctl(vcpu, KVM_GET_STATS_FD, 0);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, &h, sizeof(h)), sizeof(h));
	assert_int_equal(pread(fd, id, sizeof(id), h.id_offset), sizeof(id));
	assert_memory_equal(id, "kvm-", 4);
	close(fd);
	locum_close(vcpu);
	locum_close(vm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_on_exec_as_asked),
		cmocka_unit_test(a_vcpu_keeps_its_vm_alive),
		cmocka_unit_test(a_duplicate_is_the_same_object),
		cmocka_unit_test(mappings_of_the_run_page_alias),
		cmocka_unit_test(a_forked_child_gets_eio_and_may_open_anew),
		cmocka_unit_test(closing_under_a_user_is_safe),
		cmocka_unit_test(a_hundred_vms_come_and_go),
		cmocka_unit_test(statistics_are_json_and_a_kvm_stats_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
