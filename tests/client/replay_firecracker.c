/* SPDX-License-Identifier: MIT */
/*
 * Firecracker's ioctls in Firecracker's order (v1.x, without PCI), from the
 * creation of the VM to a guest that drives a virtio-like device, is paused,
 * saved, restored into another VM and goes on to its reset.  The vCPU's
 * descriptor is duplicated and mapped twice, and vCPU threads are confined.
 */
#include "replay.h"

/* 64-bit: LAPIC on, IOAPIC pin DEVICE_GSI to VECTOR, then the rounds. */
GUEST_CODE(guest,
	   "	mov $0xfee00000, %ebx\n"
	   "	movl $0x1ff, 0xf0(%rbx)\n"
	   "	mov $0xfec00000, %edi\n"
	   "	movl $0x1a, (%rdi)\n"
	   "	movl $0x31, 0x10(%rdi)\n"
	   "	movl $0x1b, (%rdi)\n"
	   "	movl $0, 0x10(%rdi)\n"
	   "	mov $0xd0000050, %r14d\n"
	   "	mov $200, %r12d\n"
	   "1:	incl 0x20000\n"
	   "	movl $0, (%r14)\n"
	   "2:	cli\n"
	   "	mov 0x20004, %eax\n"
	   "	cmp 0x20000, %eax\n"
	   "	je 3f\n"
	   "	sti\n"
	   "	hlt\n"
	   "	jmp 2b\n"
	   "3:	dec %r12d\n"
	   "	jnz 1b\n"
	   "	mov $0x3f8, %dx\n"
	   "	mov $75, %al\n"
	   "	out %al, %dx\n"
	   "	mov $0xfe, %al\n"
	   "	out %al, $0x64\n"
	   "	hlt\n"
	   "	.org guest_start + 0x800\n"
	   "	incl 0x20004\n"
	   "	movl $0, 0xb0(%rbx)\n"
	   "	iretq\n");

#define GDT 0x500
#define IDT 0x1000

static const int required[] = {
	KVM_CAP_IRQCHIP,	  KVM_CAP_USER_MEMORY,	KVM_CAP_SET_TSS_ADDR, KVM_CAP_PIT2,
	KVM_CAP_PIT_STATE2,	  KVM_CAP_ADJUST_CLOCK, KVM_CAP_DEBUGREGS,    KVM_CAP_MP_STATE,
	KVM_CAP_VCPU_EVENTS,	  KVM_CAP_XCRS,		KVM_CAP_XSAVE,	      KVM_CAP_EXT_CPUID,
};

static const uint32_t boot_msrs[] = { 0x174,	  0x175,      0x176,	  0xc0000081, 0xc0000083,
				      0xc0000102, 0xc0000084, 0xc0000082, 0x10,	      0x1a0,
				      0x2ff };

static struct {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entry[80];
} cpuid;
static struct {
	struct kvm_msr_list head;
	uint32_t index[1024];
} msr_list;

/* --- a virtual machine ------------------------------------------------------------- */

struct vcpu {
	int fd, handle; /* the handle's is a duplicate, mapped once more */
	struct kvm_run *run, *handle_run;
	struct machine *m;
	struct device *device;
	pthread_t thread;
	int pause, done, started;
	unsigned long serial, interrupted;
};

static struct vcpu vcpus[2];

static void on_kick(int sig)
{
	(void)sig;
}

/* The access of the last exit is over when KVM_RUN is entered again. */
static void complete(struct vcpu *v)
{
	v->run->immediate_exit = 1;
	CHECK(ioctl(v->fd, KVM_RUN, 0) < 0 && errno == EINTR);
	v->run->immediate_exit = 0;
}

static void *vcpu_main(void *arg)
{
	struct vcpu *v = arg;

	confine_this_thread();
	__atomic_store_n(&v->started, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&v->pause, __ATOMIC_ACQUIRE)) {
		int r = ioctl(v->fd, KVM_RUN, 0);

		if (r < 0) {
			CHECK(errno == EINTR || errno == EAGAIN);
			v->interrupted++;
			v->run->immediate_exit = 0;
			continue;
		}
		if (v->run->exit_reason == KVM_EXIT_MMIO) {
			device_exit(v->device, v->run);
			continue;
		}
		CHECK(v->run->exit_reason == KVM_EXIT_IO);
		CHECK(v->run->io.direction == KVM_EXIT_IO_OUT && v->run->io.size == 1);
		uint8_t byte = *((uint8_t *)v->run + v->run->io.data_offset);

		if (v->run->io.port == 0x3f8 && byte == 'K')
			v->serial++;
		else if (v->run->io.port == 0x64 && byte == 0xfe)
			break; /* the i8042 resets the machine */
		else
			CHECK(!"a port that nobody has");
	}
	complete(v);
	__atomic_store_n(&v->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void open_kvm(struct machine *m)
{
	CHECK((m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC)) >= 0);
	CHECK(ioctl(m->kvm, KVM_GET_API_VERSION, 0) == 12);
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (ioctl(m->kvm, KVM_CHECK_EXTENSION, required[i]) <= 0) {
			fprintf(stderr, "capability %d is missing\n", required[i]);
			exit(1);
		}
	cpuid.head.nent = 80;
	CHECK(!ioctl(m->kvm, KVM_GET_SUPPORTED_CPUID, &cpuid));
	CHECK(cpuid.head.nent > 10 && cpuid.head.nent <= 80);
}

static void create(struct machine *m)
{
	struct kvm_pit_config pit = { .flags = KVM_PIT_SPEAKER_DUMMY };

	CHECK((m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0)) >= 0);
	CHECK(ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0) == 12288);
	CHECK(ioctl(m->kvm, KVM_CHECK_EXTENSION, KVM_CAP_NR_MEMSLOTS) > 1);
	msr_list.head.nmsrs = 0;
	CHECK(ioctl(m->kvm, KVM_GET_MSR_INDEX_LIST, &msr_list) < 0 && errno == E2BIG);
	CHECK(msr_list.head.nmsrs <= 1024);
	CHECK(!ioctl(m->kvm, KVM_GET_MSR_INDEX_LIST, &msr_list));
	CHECK(ioctl(m->vm, KVM_CHECK_EXTENSION, KVM_CAP_XSAVE2) >= 0);
	CHECK(!ioctl(m->vm, KVM_SET_TSS_ADDR, 0xfffbd000));
	CHECK(!ioctl(m->vm, KVM_CREATE_IRQCHIP, 0));
	CHECK(!ioctl(m->vm, KVM_CREATE_PIT2, &pit));
	for (int i = 0; i < 2; i++) {
		struct vcpu *v = &vcpus[i];

		memset(v, 0, sizeof(*v));
		v->m = m;
		CHECK((v->fd = ioctl(m->vm, KVM_CREATE_VCPU, i)) >= 0);
		v->run = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
		CHECK(v->run != MAP_FAILED);
	}
	machine_slot(m, 0, 0, m->ram, RAM_SIZE, 0);
}

static void set_routing(struct machine *m)
{
	struct {
		struct kvm_irq_routing head;
		struct kvm_irq_routing_entry e[24];
	} t = { .head.nr = 24 };

	for (unsigned i = 0; i < 24; i++)
		t.e[i] = (struct kvm_irq_routing_entry){ .gsi = i,
							 .type = KVM_IRQ_ROUTING_IRQCHIP,
							 .u.irqchip = { .irqchip = 2, .pin = i } };
	CHECK(!ioctl(m->vm, KVM_SET_GSI_ROUTING, &t));
}

/* Second descriptor, second mapping: both show one page. */
static void make_handle(struct vcpu *v)
{
	CHECK((v->handle = dup(v->fd)) >= 0);
	v->handle_run = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, v->handle, 0);
	CHECK(v->handle_run != MAP_FAILED && v->handle_run != v->run);
	v->handle_run->immediate_exit = 1;
	CHECK(v->run->immediate_exit == 1);
	v->run->immediate_exit = 0;
}

static void close_all(struct machine *m)
{
	for (int i = 0; i < 2; i++) {
		munmap(vcpus[i].run, 12288);
		munmap(vcpus[i].handle_run, 12288);
		close(vcpus[i].fd);
		close(vcpus[i].handle);
	}
	close(m->vm);
	close(m->kvm);
}

/* --- the state at boot --------------------------------------------------------------- */

static void write_tables(uint8_t *ram)
{
	uint64_t *pml4 = (void *)(ram + 0x9000), *pdpt = (void *)(ram + 0xa000),
		 *pd = (void *)(ram + 0xb000), *high = (void *)(ram + 0xc000),
		 *gdt = (void *)(ram + GDT), *idt = (void *)(ram + IDT);
	uint64_t handler = CODE_GPA + 0x800;

	pml4[0] = 0xa003;
	pdpt[0] = 0xb003;
	pdpt[3] = 0xc003;
	for (uint64_t i = 0; i < 512; i++) {
		pd[i] = i << 21 | 0x83;
		high[i] = i << 21 | 0xc0000083;
	}
	gdt[1] = 0x00af9b000000ffff;
	gdt[2] = 0x00cf93000000ffff;
	gdt[3] = 0x008f8b000000ffff;
	idt[2 * VECTOR] = (handler & 0xffff) | 8 << 16 | 0x8eull << 40 | (handler >> 16 & 0xffff) << 48;
	memcpy(ram + CODE_GPA, guest_start, (size_t)(guest_end - guest_start));
}

static void set_lvt(struct vcpu *v)
{
	struct kvm_lapic_state lapic;
	uint32_t *lint0 = (void *)(lapic.regs + 0x350), *lint1 = (void *)(lapic.regs + 0x360);

	CHECK(!ioctl(v->fd, KVM_GET_LAPIC, &lapic));
	*lint0 = (*lint0 & ~0x700u) | 0x700; /* ExtINT */
	*lint1 = (*lint1 & ~0x700u) | 0x400; /* NMI */
	CHECK(!ioctl(v->fd, KVM_SET_LAPIC, &lapic));
}

static void configure(struct vcpu *v, unsigned id)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e[11];
	} msrs = { .head.nmsrs = 11 };
	struct kvm_regs regs = { .rflags = 2, .rip = CODE_GPA, .rsp = 0x8ff0, .rbp = 0x8ff0,
				 .rsi = 0x7000 };
	struct kvm_fpu fpu = { .fcw = 0x37f, .mxcsr = 0x1f80 };
	struct kvm_sregs s;

	for (unsigned i = 0; i < cpuid.head.nent; i++) {
		struct kvm_cpuid_entry2 *e = &cpuid.entry[i];

		if (e->function == 1) {
			e->ebx = (e->ebx & 0xffff) | id << 24 | 2 << 16;
			e->ecx |= 1u << 31 | 1u << 24; /* hypervisor, TSC deadline */
		}
		if (e->function == 0xb)
			e->edx = id;
	}
	CHECK(!ioctl(v->fd, KVM_SET_CPUID2, &cpuid));
	for (unsigned i = 0; i < 11; i++)
		msrs.e[i] = (struct kvm_msr_entry){ .index = boot_msrs[i] };
	msrs.e[9].data = 1;	/* MISC_ENABLE: fast strings */
	msrs.e[10].data = 0x806; /* MTRRs on, write-back */
	CHECK(ioctl(v->fd, KVM_SET_MSRS, &msrs) == 11);
	CHECK(!ioctl(v->fd, KVM_SET_REGS, &regs));
	CHECK(!ioctl(v->fd, KVM_SET_FPU, &fpu));
	CHECK(!ioctl(v->fd, KVM_GET_SREGS, &s));
	s.gdt.base = GDT;
	s.gdt.limit = 31;
	s.idt.base = IDT;
	s.idt.limit = 0xfff;
	s.cs = (struct kvm_segment){ .limit = 0xfffff, .selector = 8, .type = 11, .present = 1,
				     .s = 1, .l = 1, .g = 1 };
	s.ds = (struct kvm_segment){ .limit = 0xfffff, .selector = 16, .type = 3, .present = 1,
				     .s = 1, .db = 1, .g = 1 };
	s.es = s.fs = s.gs = s.ss = s.ds;
	s.tr = (struct kvm_segment){ .limit = 0xfffff, .selector = 24, .type = 11, .present = 1,
				     .g = 1 };
	s.cr0 |= 0x80000001;
	s.cr3 = 0x9000;
	s.cr4 |= 0x20;
	s.efer |= 0x500;
	CHECK(!ioctl(v->fd, KVM_SET_SREGS, &s));
	set_lvt(v);
}

/* --- running --------------------------------------------------------------------------- */

static void start(struct vcpu *v, struct device *d)
{
	v->device = d;
	CHECK(!pthread_create(&v->thread, NULL, vcpu_main, v));
	while (!__atomic_load_n(&v->started, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void stop(struct vcpu *v)
{
	__atomic_store_n(&v->pause, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&v->done, __ATOMIC_ACQUIRE)) {
		v->handle_run->immediate_exit = 1;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		pthread_kill(v->thread, SIGRTMIN);
		usleep(500);
	}
	pthread_join(v->thread, NULL);
	v->run->immediate_exit = 0;
}

static uint32_t guest_word(struct machine *m, unsigned gpa)
{
	return __atomic_load_n((uint32_t *)(m->ram + gpa), __ATOMIC_ACQUIRE);
}

static void wait_for_round(struct machine *m, uint32_t n)
{
	for (int i = 0; guest_word(m, ANSWERS) < n; i++) {
		CHECK(i < 60000);
		usleep(1000);
	}
}

/* --- snapshots --------------------------------------------------------------------------- */

struct saved_vcpu {
	struct kvm_mp_state mp;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct kvm_xsave xsave;
	struct kvm_xcrs xcrs;
	struct kvm_debugregs debug;
	struct kvm_lapic_state lapic;
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e[1024];
	} msrs;
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 e[80];
	} cpuid;
	struct kvm_vcpu_events events;
	int tsc_khz;
};

static struct {
	struct saved_vcpu vcpu[2];
	struct kvm_pit_state2 pit;
	struct kvm_clock_data clock;
	struct kvm_irqchip chip[3];
} saved;

/* As many at a time as one call takes, each read in full. */
static void get_msrs(struct vcpu *v, struct saved_vcpu *s)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e[64];
	} chunk;

	s->msrs.head.nmsrs = 0;
	for (unsigned at = 0; at < msr_list.head.nmsrs; at += chunk.head.nmsrs) {
		chunk.head.nmsrs = msr_list.head.nmsrs - at < 64 ? msr_list.head.nmsrs - at : 64;
		for (unsigned i = 0; i < chunk.head.nmsrs; i++)
			chunk.e[i] = (struct kvm_msr_entry){ .index = msr_list.index[at + i] };
		CHECK(ioctl(v->fd, KVM_GET_MSRS, &chunk) == (int)chunk.head.nmsrs);
		memcpy(s->msrs.e + at, chunk.e, chunk.head.nmsrs * sizeof(chunk.e[0]));
		s->msrs.head.nmsrs += chunk.head.nmsrs;
	}
}

static void save_vcpu(struct vcpu *v, struct saved_vcpu *s)
{
	CHECK(!ioctl(v->fd, KVM_GET_MP_STATE, &s->mp));
	CHECK(!ioctl(v->fd, KVM_GET_REGS, &s->regs));
	CHECK(!ioctl(v->fd, KVM_GET_SREGS, &s->sregs));
	CHECK(!ioctl(v->fd, KVM_GET_XSAVE, &s->xsave));
	CHECK(!ioctl(v->fd, KVM_GET_XCRS, &s->xcrs));
	CHECK(!ioctl(v->fd, KVM_GET_DEBUGREGS, &s->debug));
	CHECK(!ioctl(v->fd, KVM_GET_LAPIC, &s->lapic));
	CHECK((s->tsc_khz = ioctl(v->fd, KVM_GET_TSC_KHZ, 0)) > 0);
	s->cpuid.head.nent = 80;
	CHECK(!ioctl(v->fd, KVM_GET_CPUID2, &s->cpuid));
	get_msrs(v, s);
	CHECK(!ioctl(v->fd, KVM_GET_VCPU_EVENTS, &s->events));
}

static void restore_vcpu(struct vcpu *v, struct saved_vcpu *s)
{
	CHECK(!ioctl(v->fd, KVM_SET_CPUID2, &s->cpuid));
	CHECK(!ioctl(v->fd, KVM_SET_MP_STATE, &s->mp));
	CHECK(!ioctl(v->fd, KVM_SET_REGS, &s->regs));
	CHECK(!ioctl(v->fd, KVM_SET_SREGS, &s->sregs));
	CHECK(!ioctl(v->fd, KVM_SET_XSAVE, &s->xsave));
	CHECK(!ioctl(v->fd, KVM_SET_XCRS, &s->xcrs));
	CHECK(!ioctl(v->fd, KVM_SET_DEBUGREGS, &s->debug));
	CHECK(!ioctl(v->fd, KVM_SET_LAPIC, &s->lapic));
	for (unsigned i = 0; i < s->msrs.head.nmsrs; i++) {
		struct {
			struct kvm_msrs head;
			struct kvm_msr_entry e;
		} one = { .head.nmsrs = 1, .e = s->msrs.e[i] };

		if (ioctl(v->fd, KVM_SET_MSRS, &one) != 1) {
			fprintf(stderr, "MSR %#x was saved as %#llx and cannot be set\n", one.e.index,
				(unsigned long long)one.e.data);
			exit(1);
		}
	}
	CHECK(!ioctl(v->fd, KVM_SET_VCPU_EVENTS, &s->events));
}

static void save(struct machine *m)
{
	CHECK(!ioctl(m->vm, KVM_GET_PIT2, &saved.pit));
	CHECK(!ioctl(m->vm, KVM_GET_CLOCK, &saved.clock));
	saved.clock.flags &= ~(uint32_t)KVM_CLOCK_TSC_STABLE;
	for (unsigned i = 0; i < 3; i++) {
		saved.chip[i].chip_id = i;
		CHECK(!ioctl(m->vm, KVM_GET_IRQCHIP, &saved.chip[i]));
	}
	for (int i = 0; i < 2; i++)
		save_vcpu(&vcpus[i], &saved.vcpu[i]);
}

static void restore(struct machine *m)
{
	for (int i = 0; i < 2; i++)
		restore_vcpu(&vcpus[i], &saved.vcpu[i]);
	CHECK(!ioctl(m->vm, KVM_SET_PIT2, &saved.pit));
	CHECK(!ioctl(m->vm, KVM_SET_CLOCK, &saved.clock));
	for (unsigned i = 0; i < 3; i++)
		CHECK(!ioctl(m->vm, KVM_SET_IRQCHIP, &saved.chip[i]));
}

int main(void)
{
	unsigned long served, exits;
	bool held;
	struct sigaction kick = { .sa_handler = on_kick },
			 trap = { .sa_sigaction = on_forbidden_call, .sa_flags = SA_SIGINFO };
	struct machine m;
	struct device d;

	alarm(200);
	CHECK(!sigaction(SIGRTMIN, &kick, NULL));
	CHECK(!sigaction(SIGSYS, &trap, NULL));
	m.ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(m.ram != MAP_FAILED);
	open_kvm(&m);
	create(&m);
	write_tables(m.ram);
	device_connect(&d, &m);
	d.gate = ROUNDS / 2; /* it cannot be ready before it is saved */
	set_routing(&m);
	for (unsigned i = 0; i < 2; i++) {
		configure(&vcpus[i], i);
		make_handle(&vcpus[i]);
	}
	/* The second one waits to be started, for ever. */
	for (int i = 0; i < 2; i++)
		start(&vcpus[i], &d);
	wait_for_round(&m, ROUNDS / 4);
	for (int i = 0; i < 2; i++)
		stop(&vcpus[i]);
	CHECK(vcpus[1].interrupted >= 1 && !vcpus[0].serial);
	usleep(50000); /* the device finishes */
	save(&m);
	device_disconnect(&d);
	served = d.served;
	exits = d.exits;
	held = d.held;
	close_all(&m);

	open_kvm(&m);
	create(&m);
	device_connect(&d, &m);
	set_routing(&m);
	for (int i = 0; i < 2; i++)
		make_handle(&vcpus[i]);
	restore(&m);
	for (int i = 0; i < 2; i++)
		start(&vcpus[i], &d);
	if (held)
		device_answer(&d);
	pthread_join(vcpus[0].thread, NULL);
	stop(&vcpus[1]);
	CHECK(vcpus[0].serial == 1);
	CHECK(guest_word(&m, REQUESTS) == ROUNDS && guest_word(&m, ANSWERS) == ROUNDS);
	device_disconnect(&d);
	CHECK(served + d.served == ROUNDS);
	close_all(&m);
	printf("TABLE %d rounds of doorbell and interrupt, %lu exits for them, one snapshot\n",
	       ROUNDS, exits + d.exits);
	return 0;
}
