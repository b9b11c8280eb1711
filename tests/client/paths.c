/* SPDX-License-Identifier: MIT */
/* Every way to open, look at, duplicate and close /dev/kvm. */
#include "client.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static void expect_kvm(int fd)
{
	CHECK(fd >= 0);
	CHECK(ioctl(fd, KVM_GET_API_VERSION, 0) == 12);
	CHECK(close(fd) == 0);
	CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
}

static void test_open(void)
{
	expect_kvm(open("/dev/kvm", O_RDWR));
	expect_kvm(open("/dev/kvm", O_RDONLY | O_CLOEXEC));
	expect_kvm(open64("/dev/kvm", O_RDWR | O_CLOEXEC));
	expect_kvm(openat(AT_FDCWD, "/dev/kvm", O_RDWR));
	expect_kvm(openat64(AT_FDCWD, "/dev/kvm", O_RDWR));
	expect_kvm((int)syscall(SYS_openat, AT_FDCWD, "/dev/kvm", O_RDWR));
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
	CHECK(close(fd) == 0 && close(fd) == -1 && errno == EBADF);
	/* Ordinary files are none of our business. */
	CHECK((fd = open("/dev/null", O_RDWR)) >= 0);
	CHECK(ioctl(fd, KVM_GET_API_VERSION, 0) == -1 && errno == ENOTTY);
	CHECK(close(fd) == 0);
}

static void expect_device(const struct stat *st)
{
	CHECK(S_ISCHR(st->st_mode) && st->st_rdev == makedev(10, 232));
}

static void test_stat(void)
{
	struct stat st;
	struct statx stx;
	int fd = open("/dev/kvm", O_RDWR);

	CHECK(!stat("/dev/kvm", &st));
	expect_device(&st);
	CHECK(!lstat("/dev/kvm", &st));
	expect_device(&st);
	CHECK(!fstat(fd, &st));
	expect_device(&st);
	CHECK(!fstatat(AT_FDCWD, "/dev/kvm", &st, 0));
	expect_device(&st);
	CHECK(!statx(AT_FDCWD, "/dev/kvm", 0, STATX_BASIC_STATS, &stx));
	CHECK(S_ISCHR(stx.stx_mode) && stx.stx_rdev_major == 10 && stx.stx_rdev_minor == 232);
	CHECK(!access("/dev/kvm", R_OK | W_OK) && !access("/dev/kvm", F_OK));
	CHECK(access("/dev/kvm", X_OK) == -1 && errno == EACCES);
	CHECK(!faccessat(AT_FDCWD, "/dev/kvm", R_OK | W_OK, 0));
	close(fd);
}

static void test_dup(void)
{
	int fd = open("/dev/kvm", O_RDWR), vm = ioctl(fd, KVM_CREATE_VM, 0);
	int cpu = ioctl(vm, KVM_CREATE_VCPU, 0), copy = dup(cpu);
	struct kvm_regs regs;

	CHECK(fd >= 0 && vm >= 0 && cpu >= 0 && copy >= 0);
	CHECK(!close(cpu) && !ioctl(copy, KVM_GET_REGS, &regs));
	/* The run page is one page however it is mapped. */
	char *a = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
	int third = fcntl(copy, F_DUPFD_CLOEXEC, 100);
	char *b = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, third, 0);

	CHECK(a != MAP_FAILED && b != MAP_FAILED && third >= 100);
	a[4096] = 77;
	CHECK(b[4096] == 77);
	/* The vCPU lives on without the VM's and the system's descriptor. */
	CHECK(!close(vm) && !close(fd) && !ioctl(third, KVM_GET_REGS, &regs));
	CHECK(dup2(third, copy) == copy && !ioctl(copy, KVM_GET_REGS, &regs));
	CHECK(!close_range((unsigned)copy, (unsigned)copy, 0));
	CHECK(ioctl(copy, KVM_GET_REGS, &regs) == -1 && errno == EBADF);
	CHECK(!ioctl(third, KVM_GET_REGS, &regs) && !close(third));
	munmap(a, 12288);
	munmap(b, 12288);
}

static void test_fork(void)
{
	int fd = open("/dev/kvm", O_RDWR), vm = ioctl(fd, KVM_CREATE_VM, 0), status;
	int cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	struct kvm_regs regs;
	pid_t child = fork();

	if (!child) {
		CHECK(ioctl(vm, KVM_CREATE_VCPU, 1) == -1 && errno == EIO);
		CHECK(ioctl(cpu, KVM_GET_REGS, &regs) == -1 && errno == EIO);
		int mine = open("/dev/kvm", O_RDWR), vm2 = ioctl(mine, KVM_CREATE_VM, 0);

		CHECK(mine >= 0 && vm2 >= 0 && ioctl(vm2, KVM_CREATE_VCPU, 0) >= 0);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!ioctl(cpu, KVM_GET_REGS, &regs));
	close(cpu);
	close(vm);
	close(fd);
}

int main(void)
{
	test_open();
	test_stat();
	test_dup();
	test_fork();
	return 0;
}
