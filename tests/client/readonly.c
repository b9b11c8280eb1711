/* SPDX-License-Identifier: MIT */
/*
 * Read-only slots: reads and code come from memory, every write is the client's;
 * nothing else of the slot may change.
 */
#include "client.h"

#define ROM 0x40000000ull - 0x200000 /* the last 2M that are mapped */

GUEST_CODE(guest,
	   ".globl load, store, add, string, cross\n"
	   "load: mov (%rdi),%rax\n hlt\n"
	   "store: mov %rax,(%rdi)\n hlt\n"
	   "add: lock xadd %rax,(%rdi)\n hlt\n"
	   "string: rep stosb\n hlt\n"
	   "cross: mov %rax,-4(%rdi)\n hlt\n");
extern const uint8_t load[], store[], add[], string[], cross[];

static struct machine m;
static struct kvm_regs regs;
static uint64_t *rom;

static unsigned run(const uint8_t *code, uint64_t rdi, uint64_t rax)
{
	regs = (struct kvm_regs){ .rip = CODE_GPA + (uint64_t)(code - guest_start), .rdi = rdi,
				  .rax = rax, .rcx = 2, .rsp = STACK_GPA, .rflags = 2 };
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
	return machine_run(&m);
}

static void check_write(uint64_t gpa, unsigned n, const void *data)
{
	CHECK(m.run->exit_reason == KVM_EXIT_MMIO && m.run->mmio.is_write);
	CHECK(m.run->mmio.phys_addr == gpa && m.run->mmio.len == n);
	CHECK(!memcmp(m.run->mmio.data, data, n));
}

static void end(void)
{
	CHECK(machine_run(&m) == KVM_EXIT_HLT);
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &regs));
}

static int set_slot(unsigned flags, uint64_t gpa, uint64_t size)
{
	struct kvm_userspace_memory_region r = { .slot = 3, .flags = flags,
						 .guest_phys_addr = gpa, .memory_size = size,
						 .userspace_addr = (uintptr_t)rom };

	return ioctl(m.vm, KVM_SET_USER_MEMORY_REGION, &r) ? errno : 0;
}

int main(void)
{
	uint64_t value = 0x1122334455667788, sum = value + 5, bits[1] = { ~0ull };
	struct kvm_dirty_log log = { .slot = 3 };

	machine_init(&m, guest_start, guest_end);
	CHECK(ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_READONLY_MEM) == 1);
	rom = mmap(NULL, 0x2000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rom[0] = value;
	rom[512] = 0xf4; /* hlt */
	CHECK(!mprotect(rom, 0x2000, PROT_READ)); /* as a mapped image of ROM may be */
	CHECK(!set_slot(KVM_MEM_READONLY, ROM, 0x2000));
	CHECK(run(load, ROM, 0) == KVM_EXIT_HLT);
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &regs) && regs.rax == value);
	CHECK(run(store, ROM, ~value) == KVM_EXIT_MMIO);
	check_write(ROM, 8, &(uint64_t){ ~value });
	end();
	CHECK(rom[0] == value);
	/* Read from memory, written to the client. */
	CHECK(run(add, ROM, 5) == KVM_EXIT_MMIO);
	check_write(ROM, 8, &sum);
	end();
	CHECK(regs.rax == value && rom[0] == value);
	CHECK(run(string, ROM + 8, 0x5a) == KVM_EXIT_MMIO);
	check_write(ROM + 8, 1, "\x5a");
	CHECK(machine_run(&m) == KVM_EXIT_MMIO);
	check_write(ROM + 9, 1, "\x5a");
	end();
	CHECK(regs.rdi == ROM + 10 && !regs.rcx);
	/* Code runs from it. */
	regs.rip = ROM + 0x1000;
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
	end();
	CHECK(regs.rip == ROM + 0x1001);
	/* Half behind its end. */
	CHECK(run(cross, ROM + 0x2000, value) == KVM_EXIT_MMIO);
	check_write(ROM + 0x1ffc, 4, &value);
	CHECK(machine_run(&m) == KVM_EXIT_MMIO);
	check_write(ROM + 0x2000, 4, (char *)&value + 4);
	end();
	/* It stays what it is: only the log and the place may change. */
	CHECK(set_slot(0, ROM, 0x2000) == EINVAL);
	CHECK(set_slot(KVM_MEM_READONLY, ROM, 0x1000) == EINVAL);
	CHECK(set_slot(4, ROM, 0x2000) == EINVAL);
	CHECK(!set_slot(KVM_MEM_READONLY | KVM_MEM_LOG_DIRTY_PAGES, ROM, 0x2000));
	CHECK(run(store, ROM, 1) == KVM_EXIT_MMIO);
	end();
	log.dirty_bitmap = bits;
	CHECK(!ioctl(m.vm, KVM_GET_DIRTY_LOG, &log) && !bits[0]);
	CHECK(!set_slot(KVM_MEM_READONLY, ROM + 0x10000, 0x2000));
	CHECK(run(load, ROM + 0x10000, 0) == KVM_EXIT_HLT);
	CHECK(run(load, ROM, 0) == KVM_EXIT_MMIO && !m.run->mmio.is_write);
	end();
	CHECK(!set_slot(0, 0, 0));
	CHECK(set_slot(0, 0, 0) == EINVAL);
	/* The same memory as RAM. */
	CHECK(!mprotect(rom, 0x2000, PROT_READ | PROT_WRITE));
	CHECK(!set_slot(0, ROM, 0x2000));
	CHECK(run(store, ROM, 0x77) == KVM_EXIT_HLT && rom[0] == 0x77);
	printf("CASES 1\n");
	return 0;
}
