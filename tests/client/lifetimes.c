/* SPDX-License-Identifier: MIT */
/*
 * Objects come and go: descriptors closed in every order and in every way,
 * under running vCPUs, in forked and executed children; many VMs at once and
 * one after another.  After each, descriptors, threads and mappings of the
 * process are what they were.
 */
#include "client.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

GUEST_CODE(spin, "1: incq 0x20000\n jmp 1b");
GUEST_CODE(answer, "mov $0x2a, %al\n out %al, $0x10\n hlt");

/* --- what the process has ---------------------------------------------------- */

struct usage {
	int fds, threads, maps;
	long pages;
};

static int count_dir(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct usage usage_now(void)
{
	struct usage u = { .fds = count_dir("/proc/self/fd"),
			   .threads = count_dir("/proc/self/task") };
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		u.maps++;
	fclose(f);
	f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%*d %ld", &u.pages) == 1);
	fclose(f);
	return u;
}

/* An ended thread leaves /proc a moment after pthread_join() returns. */
static void usage_back_to(const char *what, struct usage before, long pages)
{
	struct usage now = usage_now();

	for (int i = 0; i < 200 && now.threads > before.threads; i++) {
		usleep(10000);
		now = usage_now();
	}
	if (now.fds == before.fds && now.threads == before.threads &&
	    now.maps <= before.maps + 8 && now.pages <= before.pages + pages)
		return;
	fprintf(stderr, "%s leaks: fds %d -> %d, threads %d -> %d, maps %d -> %d, pages %ld -> %ld\n",
		what, before.fds, now.fds, before.threads, now.threads, before.maps, now.maps,
		before.pages, now.pages);
	exit(1);
}

/* --- closing in every order and way -------------------------------------------- */

enum { VM, VCPU, COPY, COPY_OF_VM, MAPPING, THINGS };

static void close_by_dup2(int fd)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(dup2(null, fd) == fd);
	CHECK(ioctl(fd, KVM_GET_API_VERSION, 0) < 0 && errno == ENOTTY);
	close(fd);
	close(null);
}

static void close_by_dup3(int fd)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(dup3(null, fd, O_CLOEXEC) == fd);
	close(fd);
	close(null);
}

static void close_by_range(int fd)
{
	CHECK(!close_range((unsigned)fd, (unsigned)fd, 0));
}

static void close_plainly(int fd)
{
	CHECK(!close(fd));
}

static void (*const ways[])(int) = { close_plainly, close_by_dup2, close_by_dup3,
				     close_by_range };

static void close_in_order(const int *order, unsigned way)
{
	struct machine m;
	int fd[THINGS];

	machine_init(&m, answer_start, answer_end);
	fd[VM] = m.vm;
	fd[VCPU] = m.cpu;
	CHECK((fd[COPY] = fcntl(m.cpu, F_DUPFD_CLOEXEC, 100)) >= 100);
	CHECK((fd[COPY_OF_VM] = dup(m.vm)) >= 0);
	for (int i = 0; i < THINGS; i++) {
		int last = fd[COPY] >= 0 ? fd[COPY] : fd[VCPU];

		if (last >= 0 && i < 3) {
			struct kvm_regs regs;

			CHECK(!ioctl(last, KVM_GET_REGS, &regs) && regs.rip == CODE_GPA);
		}
		if (order[i] == MAPPING)
			CHECK(!munmap(m.run, 12288));
		else
			ways[(way + (unsigned)i) % 4](fd[order[i]]);
		if (order[i] != MAPPING) {
			CHECK(ioctl(fd[order[i]], KVM_GET_API_VERSION, 0) < 0);
			fd[order[i]] = -1;
		}
	}
	close(m.kvm);
	munmap(m.ram, RAM_SIZE);
}

/* All permutations, by Heap's method. */
static unsigned permute(int *order, int n, unsigned count)
{
	if (n == 1) {
		close_in_order(order, count);
		return count + 1;
	}
	for (int i = 0; i < n; i++) {
		int k = n % 2 ? 0 : i, t;

		count = permute(order, n - 1, count);
		t = order[k];
		order[k] = order[n - 1];
		order[n - 1] = t;
	}
	return count;
}

static void every_order(void)
{
	int order[THINGS] = { 0, 1, 2, 3, 4 };
	struct usage before;

	close_in_order(order, 0);
	before = usage_now();
	printf("TABLE %u orders of closing\n", permute(order, THINGS, 0));
	usage_back_to("closing", before, 1024);
}

/* --- under running vCPUs --------------------------------------------------------- */

struct runner {
	struct machine m;
	pthread_t thread;
	int stop, error;
};

static void on_signal(int sig)
{
	(void)sig;
}

static void *run_vcpu(void *arg)
{
	struct runner *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE))
		if (ioctl(r->m.cpu, KVM_RUN, 0) < 0 && errno != EINTR) {
			r->error = errno;
			break;
		}
	return NULL;
}

static void start(struct runner *r)
{
	volatile uint64_t *count;

	memset(r, 0, sizeof(*r));
	machine_init(&r->m, spin_start, spin_end);
	count = (void *)(r->m.ram + 0x20000);
	CHECK(!pthread_create(&r->thread, NULL, run_vcpu, r));
	for (int i = 0; i < 20000 && !*count; i++)
		usleep(1000);
	CHECK(*count);
}

static void finish(struct runner *r)
{
	__atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
	while (pthread_tryjoin_np(r->thread, NULL)) {
		pthread_kill(r->thread, SIGUSR1);
		usleep(1000);
	}
	munmap(r->m.run, 12288);
	munmap(r->m.ram, RAM_SIZE);
	close(r->m.kvm);
}

/* The call under way keeps the vCPU; the next one finds no descriptor. */
static void closed_while_running(void)
{
	struct usage before = { 0 };

	for (int i = 0; i < 20; i++) {
		struct runner r;
		uint64_t seen;

		if (i == 1)
			before = usage_now();
		start(&r);
		if (i & 1) {
			close(r.m.vm);
			close(r.m.cpu);
		} else {
			close(r.m.cpu);
			close(r.m.vm);
		}
		seen = *(volatile uint64_t *)(r.m.ram + 0x20000);
		for (int k = 0; k < 20000 && *(volatile uint64_t *)(r.m.ram + 0x20000) == seen; k++)
			usleep(1000);
		CHECK(*(volatile uint64_t *)(r.m.ram + 0x20000) != seen);
		if (i % 3 == 0)
			r.stop = 1;
		finish(&r);
		CHECK(!r.error || r.error == EBADF);
	}
	usage_back_to("closing under a running vCPU", before, 1024);
}

static void eight_at_once(void)
{
	static struct runner r[8];
	struct usage before = usage_now();
	uint64_t at[8];

	for (int i = 0; i < 8; i++)
		start(&r[i]);
	for (int i = 0; i < 8; i++)
		at[i] = *(volatile uint64_t *)(r[i].m.ram + 0x20000);
	for (int i = 0; i < 8; i++)
		for (int k = 0; *(volatile uint64_t *)(r[i].m.ram + 0x20000) == at[i]; k++) {
			CHECK(k < 20000);
			usleep(1000);
		}
	for (int i = 0; i < 8; i++) {
		finish(&r[(i * 3) % 8]);
		close(r[(i * 3) % 8].m.cpu);
		close(r[(i * 3) % 8].m.vm);
	}
	usage_back_to("eight VMs", before, 2048);
}

static void one_after_another(int n)
{
	struct usage before = { 0 };
	struct machine m;

	for (int i = 0; i < n; i++) {
		int more;

		if (i == n / 4)
			before = usage_now();
		machine_init(&m, answer_start, answer_end);
		CHECK((more = ioctl(m.vm, KVM_CREATE_VCPU, 1)) >= 0);
		CHECK(machine_run(&m) == KVM_EXIT_IO && m.run->io.port == 0x10);
		munmap(m.run, 12288);
		munmap(m.ram, RAM_SIZE);
		close(m.vm);
		close(i & 1 ? more : m.cpu);
		close(i & 1 ? m.cpu : more);
		close(m.kvm);
	}
	usage_back_to("one VM after another", before, 512);
	printf("TABLE %d VMs made and destroyed\n", n);
}

/* --- children ----------------------------------------------------------------------- */

static void must_exit_with_0(pid_t pid, const char *what)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	fprintf(stderr, "%s: status %#x\n", what, status);
	exit(1);
}

/* As a client that becomes a daemon before it opens the device. */
static void forked_child(struct machine *m)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		struct kvm_regs regs;
		struct machine own;
		struct usage before = { 0 };

		CHECK(ioctl(m->cpu, KVM_GET_REGS, &regs) < 0 && errno == EIO);
		CHECK(ioctl(m->vm, KVM_CREATE_VCPU, 1) < 0 && errno == EIO);
		CHECK(!close(m->cpu));
		CHECK(!close(m->vm));
		CHECK(ioctl(m->vm, KVM_CREATE_VCPU, 1) < 0 && errno == EBADF);
		for (int i = 0; i < 4; i++) {
			if (i == 1)
				before = usage_now();
			machine_init(&own, answer_start, answer_end);
			CHECK(machine_run(&own) == KVM_EXIT_IO);
			munmap(own.run, 12288);
			munmap(own.ram, RAM_SIZE);
			close(own.cpu);
			close(own.vm);
			close(own.kvm);
		}
		usage_back_to("a forked child", before, 512);
		_exit(0);
	}
	must_exit_with_0(pid, "forked child");
}

/* vfork(2): what the child closes stays open here. */
static void vforked_child(struct machine *m)
{
	pid_t pid = vfork();

	CHECK(pid >= 0);
	if (!pid) {
		close(m->cpu);
		close(m->vm);
		_exit(0);
	}
	must_exit_with_0(pid, "vforked child");
}

static void executed_child(struct machine *m, char *self)
{
	char vm[16], cpu[16];
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		snprintf(vm, sizeof(vm), "%d", m->vm);
		snprintf(cpu, sizeof(cpu), "%d", m->cpu);
		execl(self, self, "--closed", vm, cpu, (char *)NULL);
		_exit(1);
	}
	must_exit_with_0(pid, "executed child");
}

static void children(char *self)
{
	struct usage before;
	struct machine m;

	before = usage_now();
	machine_init(&m, answer_start, answer_end);
	forked_child(&m);
	vforked_child(&m);
	executed_child(&m, self);
	CHECK(machine_run(&m) == KVM_EXIT_IO && m.run->io.port == 0x10);
	munmap(m.run, 12288);
	munmap(m.ram, RAM_SIZE);
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
	usage_back_to("children", before, 1024);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--closed")) {
		for (int i = 2; i < argc; i++)
			CHECK(fcntl(atoi(argv[i]), F_GETFD) < 0 && errno == EBADF);
		return 0;
	}
	mallopt(M_ARENA_MAX, 1); /* arenas of threads are no leak */
	signal(SIGUSR1, on_signal);
	every_order();
	closed_while_running();
	eight_at_once();
	one_after_another(argc > 1 ? atoi(argv[1]) : 200);
	children(argv[0]);
	return 0;
}
