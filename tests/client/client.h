/* SPDX-License-Identifier: MIT */
/*
 * A minimal KVM client for the tests in this folder: plain open, ioctl and
 * mmap, so that the programs run under `locum exec` and on a real /dev/kvm.
 *
 * The guest is one flat long-mode machine: RAM at 0, identity-mapped by 2M
 * pages (page tables at 0x1000..0x3fff), code at CODE_GPA.
 */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_GPA  0x10000ull
#define STACK_GPA 0x80000ull
#define RAM_SIZE  0x400000ull

#define CHECK(cond)                                                            \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "%s:%d: failed: %s (errno %d: %s)\n", __FILE__, \
				__LINE__, #cond, errno, strerror(errno));      \
			exit(1);                                               \
		}                                                              \
	} while (0)

/* Guest code between two labels of one asm block, copied as bytes. */
#define GUEST_CODE(name, text)                                                 \
	__asm__(".section .rodata\n.globl " #name "_start, " #name "_end\n" #name \
		"_start:\n" text "\n" #name "_end:\n.previous\n");            \
	extern const uint8_t name##_start[], name##_end[]

struct machine {
	int kvm, vm, cpu;
	uint8_t *ram;
	struct kvm_run *run;
};

static inline void machine_slot(struct machine *m, unsigned id, uint64_t gpa, void *hva,
				uint64_t size, unsigned flags)
{
	struct kvm_userspace_memory_region r = { .slot = id,
						 .flags = flags,
						 .guest_phys_addr = gpa,
						 .memory_size = size,
						 .userspace_addr = (uintptr_t)hva };

	CHECK(!ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &r));
}

static inline void machine_cpuid(int kvm, int cpu)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entry[128];
	} *id = calloc(1, sizeof(*id));

	id->head.nent = 100;
	CHECK(!ioctl(kvm, KVM_GET_SUPPORTED_CPUID, id));
	CHECK(!ioctl(cpu, KVM_SET_CPUID2, id));
	free(id);
}

/* Put @cpu into 64-bit mode at @rip, stack at @rsp, interrupts off. */
static inline void machine_long_mode(int cpu, uint64_t rip, uint64_t rsp)
{
	struct kvm_regs regs = { .rip = rip, .rsp = rsp, .rflags = 2 };
	struct kvm_sregs s;
	struct kvm_segment code = { .limit = ~0u, .selector = 8, .type = 11, .present = 1,
				    .s = 1, .l = 1, .g = 1 };
	struct kvm_segment data = { .limit = ~0u, .selector = 16, .type = 3, .present = 1,
				    .s = 1, .db = 1, .g = 1 };

	CHECK(!ioctl(cpu, KVM_GET_SREGS, &s));
	s.cs = code;
	s.ds = s.es = s.fs = s.gs = s.ss = data;
	s.cr0 = 0x80050033;
	s.cr3 = 0x1000;
	s.cr4 = 0x620; /* PAE, OSFXSR, OSXMMEXCPT */
	s.efer = 0x500;
	CHECK(!ioctl(cpu, KVM_SET_SREGS, &s));
	CHECK(!ioctl(cpu, KVM_SET_REGS, &regs));
}

static inline void machine_init_with(struct machine *m, const uint8_t *start,
				     const uint8_t *end, bool irqchip)
{
	m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	CHECK(m->kvm >= 0);
	CHECK((m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0)) >= 0);
	m->ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(m->ram != MAP_FAILED);
	machine_slot(m, 0, 0, m->ram, RAM_SIZE, 0);
	uint64_t *pml4 = (void *)(m->ram + 0x1000), *pdpt = (void *)(m->ram + 0x2000),
		 *pd = (void *)(m->ram + 0x3000);

	pml4[0] = 0x2003;
	pdpt[0] = 0x3003;
	for (uint64_t i = 0; i < 512; i++)
		pd[i] = i << 21 | 0x83;
	memcpy(m->ram + CODE_GPA, start, (size_t)(end - start));
	if (irqchip)
		CHECK(!ioctl(m->vm, KVM_CREATE_IRQCHIP, 0));
	CHECK((m->cpu = ioctl(m->vm, KVM_CREATE_VCPU, 0)) >= 0);
	int size = ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	CHECK(size >= 4096);
	m->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, m->cpu, 0);
	CHECK(m->run != MAP_FAILED);
	machine_cpuid(m->kvm, m->cpu);
	machine_long_mode(m->cpu, CODE_GPA, STACK_GPA);
}

static inline void machine_init(struct machine *m, const uint8_t *start, const uint8_t *end)
{
	machine_init_with(m, start, end, false);
}

/* KVM_RUN until it is not interrupted; returns the exit reason. */
static inline unsigned machine_run(struct machine *m)
{
	while (ioctl(m->cpu, KVM_RUN, 0) < 0)
		CHECK(errno == EINTR || errno == EAGAIN);
	return m->run->exit_reason;
}

#endif
