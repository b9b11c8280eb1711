/* SPDX-License-Identifier: MIT */
/*
 * cloud-hypervisor's ioctls in its order: split irqchip, MSI routes for every
 * GSI, guests entered by PVH in 32-bit protected mode, pause and resume by
 * KVM_RUN with immediate_exit, dirty log, KVM_EXIT_IOAPIC_EOI for the level
 * interrupts of its own IOAPIC.  vCPU threads are confined.
 */
#include "replay.h"

#define LEVEL_GSI    10
#define LEVEL_VECTOR 0x42

/* 32-bit, no paging: LAPIC on, the rounds, then one level interrupt. */
GUEST_CODE(guest,
	   "	.code32\n"
	   "	movl $0x1ff, 0xfee000f0\n"
	   "	mov $200, %esi\n"
	   "1:	incl 0x20000\n"
	   "	movl $0, 0xd0000050\n"
	   "2:	cli\n"
	   "	mov 0x20004, %eax\n"
	   "	cmp 0x20000, %eax\n"
	   "	je 3f\n"
	   "	sti\n"
	   "	hlt\n"
	   "	jmp 2b\n"
	   "3:	dec %esi\n"
	   "	jnz 1b\n"
	   "	mov $76, %al\n" /* asks for the level interrupt */
	   "	out %al, $0x80\n"
	   "4:	cli\n"
	   "	cmpl $0, 0x20008\n"
	   "	jne 5f\n"
	   "	sti\n"
	   "	hlt\n"
	   "	jmp 4b\n"
	   "5:	mov $0x3c0, %dx\n" /* its shutdown device */
	   "	mov $0x34, %al\n"
	   "	out %al, %dx\n"
	   "	hlt\n"
	   "	.org guest_start + 0x800\n"
	   "	incl 0x20004\n"
	   "	movl $0, 0xfee000b0\n"
	   "	iret\n"
	   "	.org guest_start + 0x900\n"
	   "	incl 0x20008\n"
	   "	movl $0, 0xfee000b0\n"
	   "	iret\n"
	   "	.code64\n");

#define GDT 0x500
#define IDT 0x1000

static const int required[] = {
	KVM_CAP_ADJUST_CLOCK,  KVM_CAP_EXT_CPUID,	   KVM_CAP_GET_TSC_KHZ,
	KVM_CAP_IMMEDIATE_EXIT, KVM_CAP_IRQCHIP,	   KVM_CAP_IRQ_ROUTING,
	KVM_CAP_MP_STATE,      KVM_CAP_SET_IDENTITY_MAP_ADDR, KVM_CAP_SET_TSS_ADDR,
	KVM_CAP_SPLIT_IRQCHIP, KVM_CAP_TSC_DEADLINE_TIMER, KVM_CAP_USER_MEMORY,
	KVM_CAP_USER_NMI,      KVM_CAP_VCPU_EVENTS,	   KVM_CAP_XSAVE,
};

static struct {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entry[80];
} cpuid;

static struct machine m;
static struct device device;
static pthread_t thread;
static int paused, stopped, started, eois, asked;

static void on_kick(int sig)
{
	(void)sig;
}

/* Return: the guest has ended. */
static bool handle_exit(void)
{
	struct kvm_run *run = m.run;
	uint8_t byte = *((uint8_t *)run + run->io.data_offset);

	switch (run->exit_reason) {
	case KVM_EXIT_MMIO:
		device_exit(&device, run);
		return false;
	case KVM_EXIT_IOAPIC_EOI:
		CHECK(run->eoi.vector == LEVEL_VECTOR);
		__atomic_fetch_add(&eois, 1, __ATOMIC_RELEASE);
		return false;
	case KVM_EXIT_IO:
		CHECK(run->io.direction == KVM_EXIT_IO_OUT);
		if (run->io.port == 0x80 && byte == 76)
			__atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
		return run->io.port == 0x3c0;
	}
	fprintf(stderr, "exit reason %u\n", run->exit_reason);
	exit(1);
}

static void *vcpu_main(void *arg)
{
	(void)arg;
	confine_this_thread();
	for (;;) {
		if (__atomic_load_n(&paused, __ATOMIC_ACQUIRE)) {
			/* Complete the last access, then wait. */
			m.run->immediate_exit = 1;
			CHECK(ioctl(m.cpu, KVM_RUN, 0) < 0 && errno == EINTR);
			m.run->immediate_exit = 0;
			__atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
			while (__atomic_load_n(&paused, __ATOMIC_ACQUIRE))
				sched_yield();
			__atomic_store_n(&stopped, 0, __ATOMIC_RELEASE);
		}
		__atomic_store_n(&started, 1, __ATOMIC_RELEASE);
		if (ioctl(m.cpu, KVM_RUN, 0) < 0) {
			CHECK(errno == EINTR || errno == EAGAIN);
			m.run->immediate_exit = 0;
			continue;
		}
		if (handle_exit())
			return NULL;
	}
}

static void create(void)
{
	struct kvm_enable_cap split = { .cap = KVM_CAP_SPLIT_IRQCHIP, .args = { 24 } };
	uint64_t identity = 0xfeffc000;

	CHECK((m.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC)) >= 0);
	CHECK(ioctl(m.kvm, KVM_GET_API_VERSION, 0) == 12);
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (ioctl(m.kvm, KVM_CHECK_EXTENSION, required[i]) <= 0) {
			fprintf(stderr, "capability %d is missing\n", required[i]);
			exit(1);
		}
	CHECK((m.vm = ioctl(m.kvm, KVM_CREATE_VM, 0)) >= 0);
	CHECK(!ioctl(m.vm, KVM_SET_IDENTITY_MAP_ADDR, &identity));
	CHECK(!ioctl(m.vm, KVM_SET_TSS_ADDR, 0xfeffd000));
	CHECK(!ioctl(m.vm, KVM_ENABLE_CAP, &split));
	m.ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(m.ram != MAP_FAILED);
	machine_slot(&m, 0, 0, m.ram, RAM_SIZE, 0);
	CHECK((m.cpu = ioctl(m.vm, KVM_CREATE_VCPU, 0)) >= 0);
	m.run = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, m.cpu, 0);
	CHECK(m.run != MAP_FAILED);
}

/* Every GSI in use has an MSI; the client's IOAPIC writes them. */
static void set_routing(void)
{
	struct {
		struct kvm_irq_routing head;
		struct kvm_irq_routing_entry e[2];
	} t = { .head.nr = 2 };

	t.e[0] = (struct kvm_irq_routing_entry){
		.gsi = DEVICE_GSI,
		.type = KVM_IRQ_ROUTING_MSI,
		.u.msi = { .address_lo = 0xfee00000, .data = VECTOR }
	};
	t.e[1] = (struct kvm_irq_routing_entry){
		.gsi = LEVEL_GSI,
		.type = KVM_IRQ_ROUTING_MSI,
		.u.msi = { .address_lo = 0xfee00000, .data = LEVEL_VECTOR | 1 << 15 | 1 << 14 }
	};
	CHECK(!ioctl(m.vm, KVM_SET_GSI_ROUTING, &t));
}

static void write_tables(void)
{
	uint64_t *gdt = (void *)(m.ram + GDT), *idt = (void *)(m.ram + IDT);
	uint64_t a = CODE_GPA + 0x800, b = CODE_GPA + 0x900;

	gdt[1] = 0x00cf9b000000ffff;
	gdt[2] = 0x00cf93000000ffff;
	gdt[3] = 0x00008b0000000067;
	idt[VECTOR] = (a & 0xffff) | 8 << 16 | 0x8eull << 40 | (a >> 16) << 48;
	idt[LEVEL_VECTOR] = (b & 0xffff) | 8 << 16 | 0x8eull << 40 | (b >> 16) << 48;
	memcpy(m.ram + CODE_GPA, guest_start, (size_t)(guest_end - guest_start));
}

static void configure(void)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e[4];
	} msrs = { .head.nmsrs = 4,
		   .e = { { .index = 0x174 }, { .index = 0x1a0, .data = 1 },
			  { .index = 0x2ff, .data = 0x806 }, { .index = 0x10 } } };
	struct kvm_regs regs = { .rflags = 2, .rip = CODE_GPA, .rbx = 0x6000, .rsp = 0x8ff0 };
	struct kvm_fpu fpu = { .fcw = 0x37f, .mxcsr = 0x1f80 };
	struct kvm_lapic_state lapic;
	struct kvm_sregs s;

	cpuid.head.nent = 80;
	CHECK(!ioctl(m.kvm, KVM_GET_SUPPORTED_CPUID, &cpuid));
	CHECK(!ioctl(m.cpu, KVM_SET_CPUID2, &cpuid));
	CHECK(ioctl(m.cpu, KVM_SET_MSRS, &msrs) == 4);
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
	CHECK(!ioctl(m.cpu, KVM_SET_FPU, &fpu));
	CHECK(!ioctl(m.cpu, KVM_GET_SREGS, &s));
	s.gdt.base = GDT;
	s.gdt.limit = 31;
	s.idt.base = IDT;
	s.idt.limit = 0x7ff;
	s.cs = (struct kvm_segment){ .limit = ~0u, .selector = 8, .type = 11, .present = 1,
				     .s = 1, .db = 1, .g = 1 };
	s.ds = (struct kvm_segment){ .limit = ~0u, .selector = 16, .type = 3, .present = 1,
				     .s = 1, .db = 1, .g = 1 };
	s.es = s.fs = s.gs = s.ss = s.ds;
	s.tr = (struct kvm_segment){ .limit = 0x67, .selector = 24, .type = 11, .present = 1 };
	s.cr0 = 1;
	s.cr4 = 0;
	CHECK(!ioctl(m.cpu, KVM_SET_SREGS, &s));
	CHECK(!ioctl(m.cpu, KVM_GET_LAPIC, &lapic));
	lapic.regs[0x351] = 7; /* LINT0: ExtINT */
	lapic.regs[0x361] = 4; /* LINT1: NMI */
	CHECK(!ioctl(m.cpu, KVM_SET_LAPIC, &lapic));
}

/* pause: a signal until the thread is out; then state may be read. */
static void pause_and_resume(void)
{
	struct kvm_vcpu_events events;
	struct kvm_mp_state mp;
	struct kvm_regs regs;
	struct kvm_clock_data clock;

	__atomic_store_n(&paused, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE)) {
		m.run->immediate_exit = 1;
		pthread_kill(thread, SIGRTMIN);
		usleep(200);
	}
	CHECK(!ioctl(m.vm, KVM_GET_CLOCK, &clock));
	CHECK(!ioctl(m.cpu, KVM_GET_MP_STATE, &mp));
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &regs));
	CHECK(!ioctl(m.cpu, KVM_GET_VCPU_EVENTS, &events));
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
	CHECK(!ioctl(m.cpu, KVM_SET_MP_STATE, &mp));
	CHECK(!ioctl(m.cpu, KVM_SET_VCPU_EVENTS, &events));
	clock.flags = 0;
	CHECK(!ioctl(m.vm, KVM_SET_CLOCK, &clock));
	m.run->immediate_exit = 0;
	__atomic_store_n(&paused, 0, __ATOMIC_RELEASE);
	while (__atomic_load_n(&stopped, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* Live migration's first step, while the guest runs. */
static void dirty_log(void)
{
	uint64_t bitmap[RAM_SIZE / 4096 / 64] = { 0 };
	struct kvm_dirty_log log = { .slot = 0, .dirty_bitmap = bitmap };

	machine_slot(&m, 0, 0, m.ram, RAM_SIZE, KVM_MEM_LOG_DIRTY_PAGES);
	device_answer(&device);
	for (int i = 0; i < 20000 && !(bitmap[0] >> 32 & 1); i++) {
		CHECK(!ioctl(m.vm, KVM_GET_DIRTY_LOG, &log));
		usleep(100);
	}
	CHECK(bitmap[0] >> 32 & 1); /* 0x20000: the guest counts there */
	machine_slot(&m, 0, 0, m.ram, RAM_SIZE, 0);
}

static uint32_t guest_word(unsigned gpa)
{
	return __atomic_load_n((uint32_t *)(m.ram + gpa), __ATOMIC_ACQUIRE);
}

int main(void)
{
	struct sigaction kick = { .sa_handler = on_kick },
			 trap = { .sa_sigaction = on_forbidden_call, .sa_flags = SA_SIGINFO };
	struct kvm_irq_level line = { .irq = LEVEL_GSI, .level = 1 };
	int pauses = 0;

	alarm(200);
	CHECK(!sigaction(SIGRTMIN, &kick, NULL));
	CHECK(!sigaction(SIGSYS, &trap, NULL));
	create();
	write_tables();
	device_connect(&device, &m);
	device.gate = 10;
	set_routing();
	configure();
	CHECK(!pthread_create(&thread, NULL, vcpu_main, NULL));
	while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
		usleep(100);
	for (;; pauses += 2) {
		/* Once while it waits for the device, once anywhere. */
		while (!__atomic_load_n(&device.held, __ATOMIC_ACQUIRE))
			usleep(100);
		pause_and_resume();
		if (device.gate >= ROUNDS / 2)
			break;
		device.gate += 10;
		device.held = false;
		device_answer(&device);
		pause_and_resume();
	}
	device.gate = 0;
	dirty_log();
	while (!__atomic_load_n(&asked, __ATOMIC_ACQUIRE))
		usleep(100);
	CHECK(!ioctl(m.vm, KVM_IRQ_LINE, &line));
	pthread_join(thread, NULL);
	CHECK(guest_word(REQUESTS) == ROUNDS && guest_word(ANSWERS) == ROUNDS);
	CHECK(guest_word(0x20008) == 1 && eois == 1);
	device_disconnect(&device);
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
	printf("TABLE %d rounds of doorbell and interrupt, %lu exits for them, %d pauses\n", ROUNDS,
	       device.exits, pauses);
	return 0;
}
