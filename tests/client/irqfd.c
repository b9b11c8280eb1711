/* SPDX-License-Identifier: MIT */
/*
 * KVM_IRQFD: message, IOAPIC pin and 8259 pin; resampling; routes that change
 * while assigned; split irqchip; errno.  The vCPU is in KVM_RUN all the time:
 * no interrupt may end it.
 */
#include "client.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#define IDT_GPA	  0x20000
#define COUNT_GPA 0x30000 /* u64 a vector */
#define MSI	  0x40
#define MSI_OTHER 0x41
#define LEVEL	  0x50
#define PIC	  0x25 /* base 0x20, pin 5 */
#define GSI_MSI	  30
#define GSI_LEVEL 20
#define GSI_PIC	  5

/* x2APIC on, SVR, LINT0 = ExtINT; then sleep.  Handlers count and end. */
GUEST_CODE(guest,
	   "mov $0x1b,%ecx\n rdmsr\n or $0xc00,%eax\n wrmsr\n"
	   "xor %edx,%edx\n mov $0x80f,%ecx\n mov $0x1ff,%eax\n wrmsr\n"
	   "mov $0x835,%ecx\n mov $0x700,%eax\n wrmsr\n"
	   "incq 0x30000\n sti\n 1: hlt\n jmp 1b\n"
	   ".globl on_msi, on_other, on_level, on_pic\n"
	   "on_msi: incq 0x30000+8*0x40\n jmp eoi\n"
	   "on_other: incq 0x30000+8*0x41\n jmp eoi\n"
	   "on_level: incq 0x30000+8*0x50\n"
	   "eoi: push %rax\n push %rcx\n push %rdx\n xor %eax,%eax\n xor %edx,%edx\n"
	   "mov $0x80b,%ecx\n wrmsr\n pop %rdx\n pop %rcx\n pop %rax\n iretq\n"
	   "on_pic: incq 0x30000+8*0x25\n push %rax\n mov $0x20,%al\n out %al,$0x20\n"
	   "pop %rax\n iretq\n");
extern const uint8_t on_msi[], on_other[], on_level[], on_pic[];

static void on_signal(int sig)
{
	(void)sig;
}

struct guest {
	struct machine m;
	pthread_t thread;
	volatile int stop;
	volatile unsigned returns; /* of KVM_RUN */
};

static void *vcpu_thread(void *arg)
{
	struct guest *g = arg;

	while (!g->stop) {
		int r = ioctl(g->m.cpu, KVM_RUN, 0);

		CHECK(!r || errno == EINTR);
		g->returns++;
	}
	return NULL;
}

static void gate(uint8_t *ram, unsigned vector, const uint8_t *label)
{
	uint64_t at = CODE_GPA + (uint64_t)(label - guest_start);
	uint64_t *g = (void *)(ram + IDT_GPA + 16 * vector);

	g[0] = (at & 0xffff) | 8 << 16 | 0x8eull << 40 | (at >> 16 & 0xffff) << 48;
	g[1] = at >> 32;
}

/* As machine_init(), with @split 0: PIC and IOAPIC too, 1: LAPIC alone. */
static void start(struct guest *g, int split)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_SPLIT_IRQCHIP, .args = { 24 } };
	struct machine *m = &g->m;
	struct kvm_sregs s;
	uint64_t *gdt, *table;

	memset(g, 0, sizeof(*g));
	CHECK((m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC)) >= 0);
	CHECK((m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0)) >= 0);
	m->ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	CHECK(m->ram != MAP_FAILED);
	machine_slot(m, 0, 0, m->ram, RAM_SIZE, 0);
	table = (void *)m->ram;
	table[0x200] = 0x2003;
	table[0x400] = 0x3003;
	for (uint64_t i = 0; i < 512; i++)
		table[0x600 + i] = i << 21 | 0x83;
	memcpy(m->ram + CODE_GPA, guest_start, (size_t)(guest_end - guest_start));
	gdt = (void *)(m->ram + 0x4000);
	gdt[1] = 0xaf9b000000ffff;
	gdt[2] = 0xcf93000000ffff;
	gate(m->ram, MSI, on_msi);
	gate(m->ram, MSI_OTHER, on_other);
	gate(m->ram, LEVEL, on_level);
	gate(m->ram, PIC, on_pic);
	CHECK(!(split ? ioctl(m->vm, KVM_ENABLE_CAP, &cap) :
			ioctl(m->vm, KVM_CREATE_IRQCHIP, 0)));
	CHECK((m->cpu = ioctl(m->vm, KVM_CREATE_VCPU, 0)) >= 0);
	m->run = mmap(NULL, (size_t)ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
		      PROT_READ | PROT_WRITE, MAP_SHARED, m->cpu, 0);
	CHECK(m->run != MAP_FAILED);
	machine_cpuid(m->kvm, m->cpu);
	machine_long_mode(m->cpu, CODE_GPA, STACK_GPA);
	CHECK(!ioctl(m->cpu, KVM_GET_SREGS, &s));
	s.gdt.base = 0x4000;
	s.gdt.limit = 23;
	s.idt.base = IDT_GPA;
	s.idt.limit = 0xfff;
	CHECK(!ioctl(m->cpu, KVM_SET_SREGS, &s));
	CHECK(!pthread_create(&g->thread, NULL, vcpu_thread, g));
}

static void stop(struct guest *g)
{
	g->stop = 1;
	while (pthread_tryjoin_np(g->thread, NULL)) {
		pthread_kill(g->thread, SIGUSR1);
		usleep(1000);
	}
	close(g->m.cpu);
	close(g->m.vm);
	close(g->m.kvm);
}

static uint64_t count(struct guest *g, unsigned vector)
{
	return __atomic_load_n((uint64_t *)(void *)(g->m.ram + COUNT_GPA + 8 * vector),
			       __ATOMIC_ACQUIRE);
}

/* Wait until the guest has counted @want at @vector. */
static void await(struct guest *g, unsigned vector, uint64_t want)
{
	for (int i = 0; i < 20000 && count(g, vector) < want; i++)
		usleep(500);
	if (count(g, vector) != want)
		fprintf(stderr, "vector %#x: %llu, not %llu\n", vector,
			(unsigned long long)count(g, vector), (unsigned long long)want);
	CHECK(count(g, vector) == want);
}

static int irqfd(struct guest *g, int fd, unsigned gsi, unsigned flags, int resample)
{
	struct kvm_irqfd a = { .fd = (unsigned)fd, .gsi = gsi, .flags = flags,
			       .resamplefd = (unsigned)resample };

	return ioctl(g->m.vm, KVM_IRQFD, &a) ? errno : 0;
}

static void kick(int fd)
{
	uint64_t one = 1;

	CHECK(write(fd, &one, 8) == 8);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static uint64_t drain(int fd)
{
	uint64_t n = 0;

	CHECK(readable(fd, 10000));
	CHECK(read(fd, &n, 8) == 8);
	return n;
}

static void set_routes(struct guest *g, unsigned vector, bool chips)
{
	struct {
		struct kvm_irq_routing head;
		struct kvm_irq_routing_entry e[3];
	} r = { .head = { .nr = chips ? 3 : 1 } };

	r.e[0].gsi = GSI_MSI;
	r.e[0].type = KVM_IRQ_ROUTING_MSI;
	r.e[0].u.msi.address_lo = 0xfee00000;
	r.e[0].u.msi.data = vector;
	r.e[1].gsi = GSI_LEVEL;
	r.e[1].type = KVM_IRQ_ROUTING_IRQCHIP;
	r.e[1].u.irqchip.irqchip = KVM_IRQCHIP_IOAPIC;
	r.e[1].u.irqchip.pin = GSI_LEVEL;
	r.e[2].gsi = GSI_PIC;
	r.e[2].type = KVM_IRQ_ROUTING_IRQCHIP;
	r.e[2].u.irqchip.irqchip = KVM_IRQCHIP_PIC_MASTER;
	r.e[2].u.irqchip.pin = GSI_PIC;
	CHECK(!ioctl(g->m.vm, KVM_SET_GSI_ROUTING, &r));
}

static void set_pins(struct guest *g)
{
	struct kvm_irqchip c = { .chip_id = KVM_IRQCHIP_IOAPIC };

	CHECK(!ioctl(g->m.vm, KVM_GET_IRQCHIP, &c));
	c.chip.ioapic.redirtbl[GSI_LEVEL].bits = LEVEL | 1 << 15;
	CHECK(!ioctl(g->m.vm, KVM_SET_IRQCHIP, &c));
	c = (struct kvm_irqchip){ .chip_id = KVM_IRQCHIP_PIC_MASTER };
	CHECK(!ioctl(g->m.vm, KVM_GET_IRQCHIP, &c));
	c.chip.pic.irq_base = 0x20;
	c.chip.pic.imr = (uint8_t)~(1 << 5);
	CHECK(!ioctl(g->m.vm, KVM_SET_IRQCHIP, &c));
}

/* --- cases --------------------------------------------------------------------- */

static void test_errno(void)
{
	struct guest g = { 0 };
	int e = eventfd(0, EFD_CLOEXEC), other = eventfd(0, EFD_CLOEXEC), pipes[2];

	CHECK(!pipe(pipes));
	CHECK((g.m.kvm = open("/dev/kvm", O_RDWR)) >= 0);
	CHECK((g.m.vm = ioctl(g.m.kvm, KVM_CREATE_VM, 0)) >= 0);
	CHECK(irqfd(&g, e, 3, 0, 0)); /* no interrupt controller */
	CHECK(!ioctl(g.m.vm, KVM_CREATE_IRQCHIP, 0));
	CHECK(irqfd(&g, -1, 3, 0, 0) == EBADF);
	CHECK(irqfd(&g, 9999, 3, 0, 0) == EBADF);
	CHECK(irqfd(&g, pipes[0], 3, 0, 0) == EINVAL);
	CHECK(irqfd(&g, e, 3, 4, 0) == EINVAL);
	CHECK(irqfd(&g, e, 3, KVM_IRQFD_FLAG_RESAMPLE, 9999) == EBADF);
	CHECK(irqfd(&g, e, 3, KVM_IRQFD_FLAG_RESAMPLE, pipes[1]) == EINVAL);
	CHECK(!irqfd(&g, e, 3, 0, 0));
	CHECK(irqfd(&g, e, 3, 0, 0) == EBUSY);
	CHECK(irqfd(&g, dup(e), 4, 0, 0) == EBUSY);
	CHECK(!irqfd(&g, other, 3, 0, 0));
	CHECK(!irqfd(&g, e, 9, KVM_IRQFD_FLAG_DEASSIGN, 0)); /* none such: no error */
	CHECK(irqfd(&g, e, 3, 0, 0) == EBUSY);
	CHECK(!irqfd(&g, dup(e), 3, KVM_IRQFD_FLAG_DEASSIGN, 0));
	CHECK(!irqfd(&g, e, 3, 0, 0));
	CHECK(irqfd(&g, pipes[0], 3, KVM_IRQFD_FLAG_DEASSIGN, 0) == EINVAL);
	CHECK(irqfd(&g, 9999, 3, KVM_IRQFD_FLAG_DEASSIGN, 0) == EBADF);
	/* The other VM with the same eventfd is no conflict. */
	close(g.m.vm);
	close(g.m.kvm);
	close(e);
	close(other);
}

static void test_edges(struct guest *g, int msi, int pic)
{
	struct timespec a, b;

	for (unsigned i = 1; i <= 200; i++) {
		kick(msi);
		await(g, MSI, i);
	}
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (unsigned i = 1; i <= 500; i++) {
		kick(msi);
		while (count(g, MSI) < 200 + i)
			sched_yield();
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("TABLE irqfd to handler of a halted guest: %.1f us\n",
	       ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 5e5);
	for (unsigned i = 1; i <= 100; i++) {
		kick(pic);
		await(g, PIC, i);
	}
	/* Another vector, the irqfd as it is; and none at all. */
	set_routes(g, MSI_OTHER, true);
	kick(msi);
	await(g, MSI_OTHER, 1);
	CHECK(count(g, MSI) == 700);
	set_routes(g, MSI, true);
	CHECK(!irqfd(g, msi, GSI_MSI, KVM_IRQFD_FLAG_DEASSIGN, 0));
	kick(msi);
	usleep(20000);
	CHECK(count(g, MSI) == 700);
	/* What was signalled before is delivered when it is assigned. */
	CHECK(!irqfd(g, msi, GSI_MSI, 0, 0));
	await(g, MSI, 701);
	CHECK(!readable(msi, 0)); /* the counter was consumed */
}

static void test_resample(struct guest *g)
{
	int e[2], back[2];

	for (int i = 0; i < 2; i++) {
		CHECK((e[i] = eventfd(0, EFD_CLOEXEC)) >= 0);
		CHECK((back[i] = eventfd(0, EFD_CLOEXEC)) >= 0);
		CHECK(!irqfd(g, e[i], GSI_LEVEL, KVM_IRQFD_FLAG_RESAMPLE, back[i]));
	}
	for (unsigned i = 1; i <= 200; i++) {
		kick(e[i & 1]);
		/* Every client of the line is asked. */
		CHECK(drain(back[0]) == 1 && drain(back[1]) == 1);
		await(g, LEVEL, i);
	}
	/* Nobody raises it again: silence. */
	usleep(20000);
	CHECK(count(g, LEVEL) == 200);
	CHECK(!readable(back[0], 0) && !readable(back[1], 0));
	/* One leaves, the other goes on. */
	CHECK(!irqfd(g, e[0], GSI_LEVEL, KVM_IRQFD_FLAG_DEASSIGN, 0));
	kick(e[1]);
	CHECK(drain(back[1]) == 1);
	await(g, LEVEL, 201);
	CHECK(!readable(back[0], 0));
	CHECK(!irqfd(g, e[1], GSI_LEVEL, KVM_IRQFD_FLAG_DEASSIGN, 0));
	for (int i = 0; i < 2; i++) {
		close(e[i]);
		close(back[i]);
	}
}

int main(void)
{
	struct sigaction act = { .sa_handler = on_signal };
	int msi = eventfd(0, EFD_CLOEXEC), pic = eventfd(0, EFD_CLOEXEC);
	struct guest g;

	CHECK(!sigaction(SIGUSR1, &act, NULL));
	test_errno();
	start(&g, 0);
	set_routes(&g, MSI, true);
	set_pins(&g);
	CHECK(!irqfd(&g, msi, GSI_MSI, 0, 0));
	CHECK(!irqfd(&g, pic, GSI_PIC, 0, 0));
	await(&g, 0, 1);
	test_edges(&g, msi, pic);
	test_resample(&g);
	CHECK(!g.returns);
	stop(&g);

	start(&g, 1);
	await(&g, 0, 1);
	set_routes(&g, MSI, false);
	CHECK(irqfd(&g, msi, GSI_MSI, KVM_IRQFD_FLAG_RESAMPLE, pic) == EINVAL);
	CHECK(!irqfd(&g, msi, GSI_MSI, 0, 0));
	for (unsigned i = 1; i <= 100; i++) {
		kick(msi);
		await(&g, MSI, i);
	}
	/* The client's descriptor is its own: the eventfd lives on in the VM. */
	CHECK(!g.returns);
	close(msi);
	stop(&g);
	printf("CASES 4\n");
	return 0;
}
