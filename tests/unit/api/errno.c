/* SPDX-License-Identifier: MIT */
/*
 * What each ioctl answers to bad input: the kernel's errno, and never a crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/types.h"
#include "locum/kvm.h"

static int sys_fd, vm_fd, vcpu_fd;
static void *page; /* guest RAM of one page */

/* cmocka takes SIGSEGV and SIGBUS for every test; the library has them from its
 * first open on, and needs them to survive bad pointers. */
static struct sigaction handler[2];

static void take_signals_back(void)
{
	sigaction(SIGSEGV, &handler[0], NULL);
	sigaction(SIGBUS, &handler[1], NULL);
}

static int set_up(void **state)
{
	(void)state;
	sys_fd = locum_open(O_RDWR | O_CLOEXEC);
	if (!handler[0].sa_handler) {
		sigaction(SIGSEGV, NULL, &handler[0]);
		sigaction(SIGBUS, NULL, &handler[1]);
	}
	vm_fd = (int)locum_ioctl(sys_fd, KVM_CREATE_VM, 0);
	vcpu_fd = (int)locum_ioctl(vm_fd, KVM_CREATE_VCPU, 0);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return sys_fd < 0 || vm_fd < 0 || vcpu_fd < 0 || page == MAP_FAILED;
}

static int tear_down(void **state)
{
	(void)state;
	munmap(page, 4096);
	assert_int_equal(locum_close(vcpu_fd), 0);
	assert_int_equal(locum_close(vm_fd), 0);
	assert_int_equal(locum_close(sys_fd), 0);
	return 0;
}

enum where { SYS, VMFD, VCPUFD };

static int fd_of(enum where w)
{
	return w == SYS ? sys_fd : w == VMFD ? vm_fd : vcpu_fd;
}

/* --- whole request space ------------------------------------------------------- */

static void unknown_requests(void **state)
{
	static const struct {
		enum where where;
		unsigned long request;
		long want;
	} rows[] = {
		{ SYS, 0, -EINVAL },
		{ SYS, _IO(KVMIO, 0x3f), -EINVAL },
		{ SYS, KVM_RUN, -EINVAL },
		{ SYS, 0x5401, -EINVAL }, /* TCGETS */
		{ VMFD, 0, -ENOTTY },
		{ VMFD, _IO(KVMIO, 0x3f), -ENOTTY },
		{ VMFD, KVM_RUN, -ENOTTY },
		{ VMFD, KVM_GET_API_VERSION, -ENOTTY },
		{ VCPUFD, 0, -EINVAL },
		{ VCPUFD, 0x5401, -EINVAL },
		{ VCPUFD, KVM_CREATE_VCPU, -EINVAL },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		print_message("%d %#lx\n", rows[i].where, rows[i].request);
		assert_int_equal(locum_ioctl(fd_of(rows[i].where), rows[i].request, 0),
				 rows[i].want);
	}
}

/* Every row that takes a pointer, with pointers that lead nowhere. */
static void bad_pointers(void **state)
{
	static const struct {
		enum where where;
		unsigned long request;
	} rows[] = {
#define SYSTEM(request, how, cap, handler, test) { SYS, request },
#define VM(request, how, cap, handler, test) { VMFD, request },
#define VCPU(request, how, cap, handler, test) { VCPUFD, request },
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU
	};
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const unsigned long bad[] = { 8, (unsigned long)nothing, 1ul << 46, 1ul << 47,
				      1ul << 63, ~0ul - 7 };

	(void)state;
	take_signals_back();
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		/* _IO requests take a number, except the one with a structure. */
		if (!_IOC_SIZE(rows[i].request) && rows[i].request != KVM_REINJECT_CONTROL)
			continue;
		for (unsigned k = 0; k < ARRAY_SIZE(bad); k++) {
			long r = locum_ioctl(fd_of(rows[i].where), rows[i].request, bad[k]);

			if (r != -EFAULT)
				print_message("%d %#lx %#lx: %ld\n", rows[i].where,
					      rows[i].request, bad[k], r);
			/* Some are refused before the pointer is looked at. */
			assert_true(r == -EFAULT || r == -EINVAL || r == -ENXIO);
		}
	}
	munmap(nothing, 4096);
}

/* Random structures: any answer, but an answer. */
static void random_arguments_get_an_answer(void **state)
{
	static const struct {
		enum where where;
		unsigned long request;
	} rows[] = {
#define SYSTEM(request, how, cap, handler, test) { SYS, request },
#define VM(request, how, cap, handler, test) { VMFD, request },
#define VCPU(request, how, cap, handler, test) { VCPUFD, request },
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU
	};
	u64 buf[1024], seed = 1;

	(void)state;
	take_signals_back();
	for (unsigned n = 0; n < 200; n++) {
		for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
			int fd;
			long r;

			if (rows[i].request == KVM_CREATE_VM ||
			    rows[i].request == KVM_SET_USER_MEMORY_REGION)
				continue;
			for (unsigned k = 0; k < ARRAY_SIZE(buf); k++) {
				seed = seed * 6364136223846793005ull + 1442695040888963407ull;
				buf[k] = n % 3 == 0 ? seed : n % 3 == 1 ? seed >> 60 : ~0ull;
			}
			fd = fd_of(rows[i].where);
			r = locum_ioctl(fd, rows[i].request,
					_IOC_SIZE(rows[i].request) ? (unsigned long)buf :
								     buf[0]);
			/* Created descriptors: vCPUs, statistics. */
			if (r > 2 && (rows[i].request == KVM_CREATE_VCPU))
				locum_close((int)r);
			if (r > 2 && rows[i].request == KVM_GET_STATS_FD)
				close((int)r);
			assert_true(r > -4096);
		}
	}
}

/* --- single rules --------------------------------------------------------------- */

static void values_that_are_refused(void **state)
{
	static const struct {
		const char *name;
		enum where where;
		unsigned long request, arg;
		long want;
	} rows[] = {
		{ "API version takes no argument", SYS, KVM_GET_API_VERSION, 1, -EINVAL },
		{ "API version", SYS, KVM_GET_API_VERSION, 0, 12 },
		{ "mmap size takes no argument", SYS, KVM_GET_VCPU_MMAP_SIZE, 1, -EINVAL },
		{ "mmap size", SYS, KVM_GET_VCPU_MMAP_SIZE, 0, 12288 },
		{ "VM type", SYS, KVM_CREATE_VM, 1, -EINVAL },
		{ "unknown capability", SYS, KVM_CHECK_EXTENSION, 100000, 0 },
		{ "vCPU exists", VMFD, KVM_CREATE_VCPU, 0, -EEXIST },
		{ "vCPU id", VMFD, KVM_CREATE_VCPU, 4096, -EINVAL },
		{ "vCPU id", VMFD, KVM_CREATE_VCPU, ~0ul, -EINVAL },
		{ "irqchip after a vCPU", VMFD, KVM_CREATE_IRQCHIP, 0, -EINVAL },
		{ "boot CPU after a vCPU", VMFD, KVM_SET_BOOT_CPU_ID, 0, -EBUSY },
		{ "run takes no argument", VCPUFD, KVM_RUN, 1, -EINVAL },
		{ "kvmclock is off", VCPUFD, KVM_KVMCLOCK_CTRL, 0, -EINVAL },
		{ "signal mask may go", VCPUFD, KVM_SET_SIGNAL_MASK, 0, 0 },
		{ "TSS beyond 4G", VMFD, KVM_SET_TSS_ADDR, 0xffffe000, -EINVAL },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		print_message("%s\n", rows[i].name);
		assert_int_equal(locum_ioctl(fd_of(rows[i].where), rows[i].request,
					     rows[i].arg),
				 rows[i].want);
	}
}

#define CALL(where, request, ptr) locum_ioctl(fd_of(where), request, (unsigned long)(ptr))

static void without_an_irqchip(void **state)
{
	struct kvm_irq_level level = { .irq = 1, .level = 1 };
	struct kvm_irqchip chip = { .chip_id = 0 };
	struct kvm_lapic_state lapic;
	struct kvm_mp_state mp = { KVM_MP_STATE_HALTED };
	struct kvm_msi msi = { 0 };
	struct kvm_pit_config pit = { 0 };
	struct kvm_pit_state2 pit2;
	struct kvm_irq_routing routing = { 0 };

	(void)state;
	assert_int_equal(CALL(VMFD, KVM_IRQ_LINE, &level), -ENXIO);
	assert_int_equal(CALL(VMFD, KVM_IRQ_LINE_STATUS, &level), -ENXIO);
	assert_int_equal(CALL(VMFD, KVM_GET_IRQCHIP, &chip), -ENXIO);
	assert_int_equal(CALL(VMFD, KVM_SET_IRQCHIP, &chip), -ENXIO);
	assert_int_equal(CALL(VMFD, KVM_SIGNAL_MSI, &msi), -EINVAL);
	assert_int_equal(CALL(VMFD, KVM_CREATE_PIT2, &pit), -ENOENT);
	assert_int_equal(CALL(VMFD, KVM_GET_PIT2, &pit2), -ENXIO);
	assert_int_equal(CALL(VMFD, KVM_SET_GSI_ROUTING, &routing), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_GET_LAPIC, &lapic), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_SET_MP_STATE, &mp), -EINVAL);
}

static void memory_regions(void **state)
{
	struct kvm_userspace_memory_region r = { .slot = 0, .memory_size = 4096 };

	(void)state;
	r.userspace_addr = (u64)(uintptr_t)page;
	r.guest_phys_addr = 1;
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), -EINVAL);
	r.guest_phys_addr = 0;
	r.memory_size = 4095;
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), -EINVAL);
	r.memory_size = 4096;
	r.flags = 4;
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), -EINVAL);
	r.flags = 0;
	r.guest_phys_addr = ~0xfffull;
	r.memory_size = 8192;
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), -EINVAL);
	r.guest_phys_addr = 0x1000;
	r.memory_size = 4096;
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), 0);
	r.slot = 1; /* overlap */
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), -EEXIST);
	r.memory_size = 0; /* not there */
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), -EINVAL);
	r.slot = 0;
	assert_int_equal(CALL(VMFD, KVM_SET_USER_MEMORY_REGION, &r), 0);
}

static void lists_that_are_too_small(void **state)
{
	struct {
		struct kvm_msr_list head;
		u32 room[256];
	} list = { .head = { .nmsrs = 0 } };
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 room[100];
	} cpuid = { .head = { .nent = 1 } };
	u32 n;

	(void)state;
	assert_int_equal(CALL(SYS, KVM_GET_MSR_INDEX_LIST, &list), -E2BIG);
	n = list.head.nmsrs;
	assert_in_range(n, 10, 256);
	list.head.nmsrs = n - 1;
	assert_int_equal(CALL(SYS, KVM_GET_MSR_INDEX_LIST, &list), -E2BIG);
	assert_int_equal(CALL(SYS, KVM_GET_MSR_INDEX_LIST, &list), 0);
	assert_int_equal(CALL(SYS, KVM_GET_SUPPORTED_CPUID, &cpuid), -E2BIG);
	cpuid.head.nent = 80;
	assert_int_equal(CALL(SYS, KVM_GET_SUPPORTED_CPUID, &cpuid), 0);
	assert_in_range(cpuid.head.nent, 5, 80);
	cpuid.head.nent = 257;
	assert_int_equal(CALL(VCPUFD, KVM_SET_CPUID2, &cpuid), -E2BIG);
}

static void msr_arrays(void **state)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e[3];
	} m = { .head = { .nmsrs = 3 } };

	(void)state;
	m.e[0].index = 0x174;
	m.e[1].index = 0xdeadbeef; /* no such MSR: one was done */
	m.e[2].index = 0x175;
	assert_int_equal(CALL(VCPUFD, KVM_GET_MSRS, &m), 1);
	assert_int_equal(CALL(VCPUFD, KVM_SET_MSRS, &m), 1);
	m.head.nmsrs = 256;
	assert_int_equal(CALL(VCPUFD, KVM_GET_MSRS, &m), -E2BIG);
	m.head.nmsrs = 0;
	assert_int_equal(CALL(VCPUFD, KVM_GET_MSRS, &m), 0);
}

static void state_that_is_refused(void **state)
{
	struct kvm_vcpu_events ev = { .flags = 0x80000000 };
	struct kvm_debugregs db = { .dr7 = 1ull << 32 };
	struct kvm_signal_mask mask = { .len = 4 };
	struct kvm_interrupt irq = { .irq = 256 };
	struct kvm_enable_cap cap = { .cap = 9999 };
	struct kvm_clock_data clock = { .flags = 1 };
	struct kvm_xcrs xcrs = { .nr_xcrs = 17 };
	struct kvm_mp_state mp = { 99 };

	(void)state;
	assert_int_equal(CALL(VCPUFD, KVM_SET_VCPU_EVENTS, &ev), -EINVAL);
	ev.flags = 0;
	ev.exception.injected = 1;
	ev.exception.nr = 32;
	assert_int_equal(CALL(VCPUFD, KVM_SET_VCPU_EVENTS, &ev), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_SET_DEBUGREGS, &db), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_SET_SIGNAL_MASK, &mask), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_INTERRUPT, &irq), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_ENABLE_CAP, &cap), -EINVAL);
	assert_int_equal(CALL(VMFD, KVM_ENABLE_CAP, &cap), -EINVAL);
	assert_int_equal(CALL(VMFD, KVM_SET_CLOCK, &clock), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_SET_XCRS, &xcrs), -EINVAL);
	assert_int_equal(CALL(VCPUFD, KVM_SET_MP_STATE, &mp), -EINVAL);
}

static void descriptors_that_are_not_ours(void **state)
{
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	assert_int_equal(locum_ioctl(fd, KVM_GET_API_VERSION, 0), -ENOTTY);
	assert_int_equal(locum_ioctl(-1, KVM_GET_API_VERSION, 0), -ENOTTY);
	assert_int_equal(locum_ioctl(1 << 30, KVM_GET_API_VERSION, 0), -ENOTTY);
	assert_int_equal(locum_close(fd), -EBADF);
	assert_int_equal(locum_owns(fd), 0);
	assert_int_equal(locum_dup(fd, 100), -EBADF);
	assert_null(locum_stats_json(fd));
	assert_null(locum_stats_json(sys_fd));
	close(fd);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(unknown_requests),
		CASE(bad_pointers),
		CASE(random_arguments_get_an_answer),
		CASE(values_that_are_refused),
		CASE(without_an_irqchip),
		CASE(memory_regions),
		CASE(lists_that_are_too_small),
		CASE(msr_arrays),
		CASE(state_that_is_refused),
		CASE(descriptors_that_are_not_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
