/* SPDX-License-Identifier: MIT */
/*
 * A guest of a few instructions in 64-bit mode, through the public calls.
 *
 * Guest-physical = linear: RAM at 0..1M (code at CODE, stack below STACK, page
 * tables at 0x1000), 1G pages over the first 4G, nothing else mapped to RAM.
 */
#ifndef TESTS_UNIT_VM_GUEST_H
#define TESTS_UNIT_VM_GUEST_H

#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/types.h"
#include "locum/kvm.h"

#define RAM_BYTES 0x100000
#define CODE	  0x10000
#define DATA	  0x20000
#define STACK	  0x30000
#define IDT	  0x40000
#define HANDLER	  0x50000 /* every vector's: HANDLER + 16 * vector */
#define DEVICE	  0x40000000ull /* no RAM here */

struct guest {
	int sys, vm, vcpu[4];
	u8 *ram;
	struct kvm_run *run[4];
};

#define IOCTL(fd, request, arg) locum_ioctl(fd, request, (unsigned long)(arg))

static inline void guest_tables(struct guest *g)
{
	u64 *pml4 = (u64 *)(g->ram + 0x1000), *pdpt = (u64 *)(g->ram + 0x2000);

	pml4[0] = 0x2000 | 7;
	for (u64 i = 0; i < 4; i++)
		pdpt[i] = i << 30 | 0x87; /* writable, user, 1G */
	for (unsigned v = 0; v < 256; v++) {
		u64 *gate = (u64 *)(g->ram + IDT + v * 16), at = HANDLER + v * 16;

		gate[0] = (at & 0xffff) | 8 << 16 | 0x8eull << 40 | (at >> 16 & 0xffff) << 48;
		gate[1] = 0;
		/* hlt; iretq */
		memcpy(g->ram + at, "\xf4\x48\xcf", 3);
	}
	/* GDT for returns from handlers: null, 64-bit code, data. */
	((u64 *)(g->ram + 0x3000))[1] = 0x00209b0000000000ull;
	((u64 *)(g->ram + 0x3000))[2] = 0x0000930000000000ull;
}

/* 64-bit mode with the APIC enabled, interrupts off. */
static inline void guest_long_mode(struct guest *g, int n)
{
	struct kvm_sregs s;
	struct kvm_regs r = { .rip = CODE, .rsp = STACK, .rflags = 2, .rdi = DEVICE };
	struct kvm_segment data = { .limit = ~0u, .selector = 16, .type = 3, .present = 1,
				    .s = 1, .db = 1, .g = 1 };

	IOCTL(g->vcpu[n], KVM_GET_SREGS, &s);
	s.cs = (struct kvm_segment){ .limit = ~0u, .selector = 8, .type = 11, .present = 1,
				     .s = 1, .l = 1, .g = 1 };
	s.ss = s.ds = s.es = s.fs = s.gs = data;
	s.gdt.base = 0x3000;
	s.gdt.limit = 23;
	s.idt.base = IDT;
	s.idt.limit = 0xfff;
	s.cr0 = 0x80000011;
	s.cr3 = 0x1000;
	s.cr4 = 0x620; /* PAE, SSE */
	s.efer = 0x500;
	IOCTL(g->vcpu[n], KVM_SET_SREGS, &s);
	IOCTL(g->vcpu[n], KVM_SET_REGS, &r);
}

/* @irqchip: create the in-kernel one; @vcpus 1..4.  Returns 0 when all is well. */
static inline int guest_create(struct guest *g, bool irqchip, int vcpus)
{
	struct kvm_userspace_memory_region r = { .memory_size = RAM_BYTES };
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 e[80];
	} cpuid = { .head = { .nent = 80 } };

	memset(g, 0, sizeof(*g));
	g->sys = locum_open(O_RDWR | O_CLOEXEC);
	g->vm = (int)IOCTL(g->sys, KVM_CREATE_VM, 0);
	g->ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r.userspace_addr = (u64)(uintptr_t)g->ram;
	if (g->vm < 0 || g->ram == MAP_FAILED ||
	    IOCTL(g->vm, KVM_SET_USER_MEMORY_REGION, &r) ||
	    (irqchip && IOCTL(g->vm, KVM_CREATE_IRQCHIP, 0)) ||
	    IOCTL(g->sys, KVM_GET_SUPPORTED_CPUID, &cpuid))
		return -1;
	guest_tables(g);
	for (int i = 0; i < vcpus; i++) {
		g->vcpu[i] = (int)IOCTL(g->vm, KVM_CREATE_VCPU, i);
		if (g->vcpu[i] < 0 || IOCTL(g->vcpu[i], KVM_SET_CPUID2, &cpuid))
			return -1;
		g->run[i] = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, g->vcpu[i], 0);
		guest_long_mode(g, i);
	}
	return 0;
}

static inline void guest_destroy(struct guest *g)
{
	for (int i = 0; i < 4; i++)
		if (g->run[i]) {
			munmap(g->run[i], 12288);
			locum_close(g->vcpu[i]);
		}
	locum_close(g->vm);
	locum_close(g->sys);
	munmap(g->ram, RAM_BYTES);
}

#define guest_code(g, bytes) memcpy((g)->ram + CODE, bytes, sizeof(bytes) - 1)

static inline struct kvm_regs guest_regs(struct guest *g, int n)
{
	struct kvm_regs r;

	IOCTL(g->vcpu[n], KVM_GET_REGS, &r);
	return r;
}

static inline long guest_run(struct guest *g, int n)
{
	return IOCTL(g->vcpu[n], KVM_RUN, 0);
}

#endif
