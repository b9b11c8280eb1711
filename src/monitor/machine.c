/* SPDX-License-Identifier: MIT */
/* Making the machine: memory, VM, vCPUs. */
#include "monitor/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/boot.h"
#include "monitor/cpuflags.h"

static int failed(const struct machine *m, const char *what, long err)
{
	return boot_fail(m->be->name, "%s: %s", what, strerror((int)-err));
}

u8 *machine_ram(struct machine *m, u64 gpa, u64 n)
{
	if (gpa < m->low_size)
		return n <= m->low_size - gpa ? m->ram + gpa : NULL;
	u64 high = m->ram_size - m->low_size;

	if (gpa < MACHINE_HIGH || gpa - MACHINE_HIGH >= high || n > high - (gpa - MACHINE_HIGH))
		return NULL;
	return m->ram + m->low_size + (gpa - MACHINE_HIGH);
}

static long set_slot(struct machine *m, u32 slot, u64 gpa, void *hva, u64 size)
{
	struct kvm_userspace_memory_region r = { .slot = slot,
						 .guest_phys_addr = gpa,
						 .memory_size = size,
						 .userspace_addr = (u64)(uintptr_t)hva };

	return m->be->ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, (unsigned long)&r);
}

static int create_memory(struct machine *m)
{
	long err;

	m->ram_size = m->opt->mem_mib << 20;
	m->low_size = MIN(m->ram_size, (u64)MACHINE_LOW_MAX);
	m->ram = mmap(NULL, m->ram_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->ram == MAP_FAILED) {
		m->ram = NULL;
		return boot_fail("-m", "cannot get %llu MiB of memory: %s",
				 (unsigned long long)m->opt->mem_mib, strerror(errno));
	}
	err = set_slot(m, 0, 0, m->ram, m->low_size);
	if (!err && m->ram_size > m->low_size)
		err = set_slot(m, 1, MACHINE_HIGH, m->ram + m->low_size, m->ram_size - m->low_size);
	return err ? failed(m, "memory slot", err) : 0;
}

static int create_vm(struct machine *m)
{
	struct kvm_pit_config pit = { .flags = KVM_PIT_SPEAKER_DUMMY }; /* and port 0x61 */
	long r;

	m->kvm = m->be->open();
	if (m->kvm < 0)
		return failed(m, "open", m->kvm);
	r = m->be->ioctl(m->kvm, KVM_GET_API_VERSION, 0);
	if (r != KVM_API_VERSION)
		return boot_fail(m->be->name, "KVM API version %ld, not 12", r);
	m->vm = (int)m->be->ioctl(m->kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return failed(m, "KVM_CREATE_VM", m->vm);
	r = m->be->ioctl(m->vm, KVM_SET_TSS_ADDR, 0xfffbd000);
	if (r < 0)
		return failed(m, "KVM_SET_TSS_ADDR", r);
	r = m->be->ioctl(m->vm, KVM_CREATE_IRQCHIP, 0);
	if (r < 0)
		return failed(m, "KVM_CREATE_IRQCHIP", r);
	r = m->be->ioctl(m->vm, KVM_CREATE_PIT2, (unsigned long)&pit);
	if (r < 0)
		return failed(m, "KVM_CREATE_PIT2", r);
	r = m->be->ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (r < (long)sizeof(struct kvm_run))
		return failed(m, "KVM_GET_VCPU_MMAP_SIZE", r);
	m->run_size = (size_t)r;
	return 0;
}

static void uart_irq(void *arg, bool level)
{
	machine_irq(arg, 4, level);
}

int machine_create(struct machine *m, const struct run_options *opt)
{
	int r;

	memset(m, 0, sizeof(*m));
	m->opt = opt;
	m->be = opt->backend;
	m->kvm = m->vm = -1;
	m->ncpus = opt->cpus;
	atomic_init(&m->exit_code, -1);
	pthread_mutex_init(&m->dev_lock, NULL);
	m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->wake < 0)
		return boot_fail("eventfd", "%s", strerror(errno));
	m->uart.arg = m;
	m->uart.irq = uart_irq;
	m->testdev_mem = calloc(1, 0x10000);
	if (!m->testdev_mem)
		return boot_fail("-m", "%s", strerror(ENOMEM));
	r = create_vm(m);
	return r ? r : create_memory(m);
}

void machine_destroy(struct machine *m)
{
	for (unsigned i = 0; i < m->ncpus; i++) {
		if (m->cpu[i].run)
			munmap(m->cpu[i].run, m->run_size);
		if (m->cpu[i].m)
			m->be->close(m->cpu[i].fd);
	}
	if (m->vm >= 0)
		m->be->close(m->vm);
	if (m->kvm >= 0)
		m->be->close(m->kvm);
	if (m->ram)
		munmap(m->ram, m->ram_size);
	if (m->wake >= 0)
		close(m->wake);
	free(m->testdev_mem);
}

void machine_stop(struct machine *m, int code)
{
	int running = -1, saved = errno;

	if (atomic_compare_exchange_strong(&m->exit_code, &running, code))
		eventfd_write(m->wake, 1);
	errno = saved;
}

bool machine_stopped(struct machine *m)
{
	return atomic_load(&m->exit_code) != -1;
}

#define MAX_CPUID 100
#define VENDOR_AMD_EBX 0x68747541u /* "Auth" */

/* Leaf 0xB: one thread a core, all cores in one package. */
static void set_topology(const struct machine *m, const struct machine_cpu *c,
			 struct kvm_cpuid_entry2 *e)
{
	unsigned shift = 0;

	while ((1u << shift) < m->ncpus)
		shift++;
	e->eax = e->index == 1 ? shift : 0;
	e->ebx = e->index == 1 ? m->ncpus : 1;
	e->edx = c->id;
}

/* Leaves 4 and 8000001D: the third level is shared by all, the others by none. */
static void set_sharing(const struct machine *m, struct kvm_cpuid_entry2 *e)
{
	unsigned level = e->eax >> 5 & 7;

	e->eax &= 0x3fff;
	if ((e->eax & 31) && level >= 3)
		e->eax |= (m->ncpus - 1) << 14;
	if ((e->eax & 31) && e->function == 4)
		e->eax |= (m->ncpus - 1) << 26; /* cores of the package */
}

/* What differs from the backend's table: who the vCPU is, and how many there are. */
static void set_entry(const struct machine *m, const struct machine_cpu *c,
		      struct kvm_cpuid_entry2 *e, bool amd)
{
	switch (e->function) {
	case 1:
		e->ebx = (e->ebx & 0xff00) | c->id << 24 | m->ncpus << 16;
		e->ecx |= 1u << 31;
		/* The LAPIC is the backend's; the table need not say so. */
		if (m->be->ioctl(m->kvm, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0)
			e->ecx |= 1u << 24;
		if (m->ncpus > 1)
			e->edx |= 1u << 28;
		break;
	case 4:
	case 0x8000001d:
		set_sharing(m, e);
		break;
	case 0xb:
		set_topology(m, c, e);
		break;
	case 0x80000001:
		if (amd && m->ncpus > 1)
			e->ecx |= 1u << 1; /* CmpLegacy: processors are cores */
		break;
	case 0x80000008:
		if (amd)
			e->ecx = m->ncpus - 1;
		break;
	case 0x8000001e:
		e->eax = c->id;
		e->ebx = c->id;
		break;
	}
}

static int set_cpuid(struct machine *m, struct machine_cpu *c)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entry[MAX_CPUID];
	} id = { .head.nent = MAX_CPUID };
	long r = m->be->ioctl(m->kvm, KVM_GET_SUPPORTED_CPUID, (unsigned long)&id);

	if (r)
		return failed(m, "KVM_GET_SUPPORTED_CPUID", r);
	for (u32 i = 0; i < id.head.nent; i++)
		set_entry(m, c, &id.entry[i], id.entry[0].ebx == VENDOR_AMD_EBX);
	if (m->opt->cpu && cpuflags_apply(m->opt->cpu, id.entry, id.head.nent))
		return RUN_USAGE;
	r = m->be->ioctl(c->fd, KVM_SET_CPUID2, (unsigned long)&id);
	return r ? failed(m, "KVM_SET_CPUID2", r) : 0;
}

/* LINT0 takes the 8259, LINT1 is NMI, as a BIOS leaves them. */
static int set_lapic(struct machine *m, struct machine_cpu *c)
{
	struct kvm_lapic_state s;
	u32 extint = 0x700, nmi = 0x400;
	long r = m->be->ioctl(c->fd, KVM_GET_LAPIC, (unsigned long)&s);

	if (r)
		return failed(m, "KVM_GET_LAPIC", r);
	memcpy(s.regs + 0x350, &extint, 4);
	memcpy(s.regs + 0x360, &nmi, 4);
	r = m->be->ioctl(c->fd, KVM_SET_LAPIC, (unsigned long)&s);
	return r ? failed(m, "KVM_SET_LAPIC", r) : 0;
}

int machine_create_cpus(struct machine *m)
{
	for (unsigned i = 0; i < m->ncpus; i++) {
		struct machine_cpu *c = &m->cpu[i];
		int r;

		c->id = i;
		c->fd = (int)m->be->ioctl(m->vm, KVM_CREATE_VCPU, i);
		if (c->fd < 0)
			return failed(m, "KVM_CREATE_VCPU", c->fd);
		c->m = m;
		c->run = mmap(NULL, m->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
		if (c->run == MAP_FAILED) {
			c->run = NULL;
			return failed(m, "mapping a vCPU", -errno);
		}
		r = set_cpuid(m, c);
		if (!r)
			r = set_lapic(m, c);
		if (r)
			return r;
	}
	return 0;
}

void machine_irq(struct machine *m, unsigned gsi, bool level)
{
	struct kvm_irq_level l = { .irq = gsi, .level = level };

	m->be->ioctl(m->vm, KVM_IRQ_LINE, (unsigned long)&l);
}
