/* SPDX-License-Identifier: MIT */
/*
 * Accesses to MSRs that end in user space: which reason each has, and what the
 * client's answer makes of it.
 */
#include "client.h"

#define GP_RIP (CODE_GPA + (uint64_t)(on_gp - guest_start))

GUEST_CODE(guest,
	   ".globl do_read, do_write, on_gp\n"
	   "do_read: rdmsr\n hlt\n"
	   "do_write: wrmsr\n hlt\n"
	   "on_gp: hlt\n");
extern const uint8_t do_read[], do_write[], on_gp[];

static struct machine m;

static void set_exits(uint64_t mask)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_X86_USER_SPACE_MSR, .args = { mask } };

	CHECK(!ioctl(m.vm, KVM_ENABLE_CAP, &cap));
}

static void set_regs(const uint8_t *code, uint32_t index, uint64_t value)
{
	struct kvm_regs r = { .rip = CODE_GPA + (uint64_t)(code - guest_start), .rcx = index,
			      .rax = (uint32_t)value, .rdx = value >> 32, .rsp = STACK_GPA,
			      .rflags = 2 };

	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &r));
}

static bool at_gp(struct kvm_regs *r)
{
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, r));
	return r->rip == GP_RIP + 1;
}

struct access {
	const char *name;
	uint32_t index;
	bool write;
	uint64_t value;
	uint32_t reason;
};

static const struct access accesses[] = {
	{ "LSTAR, not canonical", 0xc0000082, true, 1ull << 60, KVM_MSR_EXIT_REASON_INVAL },
	{ "EFER, reserved bit", 0xc0000080, true, 1ull << 40, KVM_MSR_EXIT_REASON_INVAL },
	{ "PAT, no memory type", 0x277, true, 2, KVM_MSR_EXIT_REASON_INVAL },
	{ "MTRR capabilities, read-only", 0xfe, true, 1, KVM_MSR_EXIT_REASON_INVAL },
	{ "no such, read", 0xdead0001, false, 0, KVM_MSR_EXIT_REASON_UNKNOWN },
	{ "no such, write", 0xdead0001, true, 0x1234, KVM_MSR_EXIT_REASON_UNKNOWN },
	{ "filtered, read", 0x174, false, 0, KVM_MSR_EXIT_REASON_FILTER },
	{ "filtered, write", 0x174, true, 8, KVM_MSR_EXIT_REASON_FILTER },
};

static void check_exit(const struct access *a, uint64_t rip)
{
	struct kvm_regs r;

	if (m.run->exit_reason != (a->write ? KVM_EXIT_X86_WRMSR : KVM_EXIT_X86_RDMSR) ||
	    m.run->msr.reason != a->reason)
		fprintf(stderr, "%s: exit %u, reason %u\n", a->name, m.run->exit_reason,
			m.run->msr.reason);
	CHECK(m.run->exit_reason == (a->write ? KVM_EXIT_X86_WRMSR : KVM_EXIT_X86_RDMSR));
	CHECK(m.run->msr.reason == a->reason && m.run->msr.index == a->index);
	CHECK(!m.run->msr.error);
	CHECK(!a->write || m.run->msr.data == a->value);
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &r) && r.rip == rip);
}

static void test(const struct access *a)
{
	const uint8_t *code = a->write ? do_write : do_read;
	uint64_t rip = CODE_GPA + (uint64_t)(code - guest_start);
	struct kvm_regs r;

	/* Not asked for: the guest's fault. */
	set_exits(0);
	set_regs(code, a->index, a->value);
	CHECK(machine_run(&m) == KVM_EXIT_HLT && at_gp(&r));
	/* Answered with an error: likewise. */
	set_exits(a->reason);
	set_regs(code, a->index, a->value);
	machine_run(&m);
	check_exit(a, rip);
	m.run->msr.error = 1;
	CHECK(machine_run(&m) == KVM_EXIT_HLT && at_gp(&r));
	/* Done: the instruction is over, with the client's data. */
	set_regs(code, a->index, a->value);
	machine_run(&m);
	check_exit(a, rip);
	m.run->msr.data = 0x1122334455667788;
	m.run->immediate_exit = 1;
	CHECK(ioctl(m.cpu, KVM_RUN, 0) && errno == EINTR);
	m.run->immediate_exit = 0;
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &r) && r.rip == rip + 2);
	if (!a->write)
		CHECK(r.rax == 0x55667788 && r.rdx == 0x11223344);
	CHECK(machine_run(&m) == KVM_EXIT_HLT && !at_gp(&r) && r.rip == rip + 3);
}

int main(void)
{
	uint8_t none = 0;
	struct kvm_msr_filter f = {
		.ranges[0] = { .flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE,
			       .nmsrs = 1, .base = 0x174, .bitmap = &none },
	};
	uint64_t *gdt, *gate;
	struct kvm_sregs s;

	machine_init(&m, guest_start, guest_end);
	gdt = (void *)(m.ram + 0x4000);
	gdt[1] = 0xaf9b000000ffff;
	gdt[2] = 0xcf93000000ffff;
	gate = (void *)(m.ram + 0x20000 + 13 * 16);
	gate[0] = (GP_RIP & 0xffff) | 8 << 16 | 0x8eull << 40 | (GP_RIP >> 16 & 0xffff) << 48;
	CHECK(!ioctl(m.cpu, KVM_GET_SREGS, &s));
	s.gdt.base = 0x4000;
	s.gdt.limit = 23;
	s.idt.base = 0x20000;
	s.idt.limit = 0xfff;
	CHECK(!ioctl(m.cpu, KVM_SET_SREGS, &s));
	CHECK(!ioctl(m.vm, KVM_X86_SET_MSR_FILTER, &f));
	for (unsigned i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
		test(&accesses[i]);
	printf("CASES %u\n", (unsigned)(sizeof(accesses) / sizeof(accesses[0])));
	return 0;
}
