/* SPDX-License-Identifier: MIT */
/*
 * KVM_IOEVENTFD: which guest writes signal which eventfd, without an exit, and
 * which still reach the client; errno.
 */
#include "client.h"

#include <poll.h>
#include <sys/eventfd.h>

#define MMIO 0x10000000ull
#define PORT 0xc050u

/* One write each; HLT ends KVM_RUN (no interrupt controller here). */
GUEST_CODE(guest,
	   ".globl w8, w16, w32, w64, w128, r32, o8, o16, o32, i8, outs\n"
	   "w8: mov %al,(%rdi)\n hlt\n"
	   "w16: mov %ax,(%rdi)\n hlt\n"
	   "w32: mov %eax,(%rdi)\n hlt\n"
	   "w64: mov %rax,(%rdi)\n hlt\n"
	   "w128: movups %xmm0,(%rdi)\n hlt\n"
	   "r32: mov (%rdi),%eax\n hlt\n"
	   "o8: out %al,%dx\n hlt\n"
	   "o16: out %ax,%dx\n hlt\n"
	   "o32: out %eax,%dx\n hlt\n"
	   "i8: in %dx,%al\n hlt\n"
	   "outs: cld\n rep outsb\n hlt\n");
extern const uint8_t w8[], w16[], w32[], w64[], w128[], r32[], o8[], o16[], o32[], i8[],
	outs[];

static struct machine m;
static int event[8];

static int ioeventfd(int fd, uint64_t addr, unsigned len, unsigned flags, uint64_t match)
{
	struct kvm_ioeventfd a = { .datamatch = match, .addr = addr, .len = len, .fd = fd,
				   .flags = flags };

	return ioctl(m.vm, KVM_IOEVENTFD, &a) ? errno : 0;
}

/* How often @fd was signalled since the last look. */
static uint64_t taken(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, 8) == 8 ? n : 0;
}

/* Run @code with the registers; returns the first exit, and goes on to HLT. */
static unsigned run(const uint8_t *code, uint64_t addr, uint64_t value)
{
	struct kvm_regs r = { .rip = CODE_GPA + (uint64_t)(code - guest_start), .rax = value,
			      .rdi = addr, .rdx = addr, .rsi = 0x30000, .rcx = 3,
			      .rsp = STACK_GPA, .rflags = 2 };
	unsigned first, reason;

	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &r));
	first = reason = machine_run(&m);
	for (int i = 0; reason != KVM_EXIT_HLT && i < 8; i++)
		reason = machine_run(&m);
	CHECK(reason == KVM_EXIT_HLT);
	return first;
}

static void test_errno(void)
{
	int pipes[2];

	CHECK(!pipe(pipes));
	CHECK(ioeventfd(event[0], MMIO, 3, 0, 0) == EINVAL);
	CHECK(ioeventfd(event[0], MMIO, 16, 0, 0) == EINVAL);
	CHECK(ioeventfd(event[0], MMIO, 4, 0x80, 0) == EINVAL);
	CHECK(ioeventfd(event[0], MMIO, 0, KVM_IOEVENTFD_FLAG_DATAMATCH, 0) == EINVAL);
	CHECK(ioeventfd(event[0], ~0ull, 2, 0, 0) == EINVAL);
	CHECK(ioeventfd(-1, MMIO, 4, 0, 0) == EBADF);
	CHECK(ioeventfd(pipes[1], MMIO, 4, 0, 0) == EINVAL);
	CHECK(ioeventfd(event[0], MMIO, 4, KVM_IOEVENTFD_FLAG_DEASSIGN, 0) == ENOENT);
	CHECK(!ioeventfd(event[0], MMIO, 4, 0, 0));
	CHECK(ioeventfd(event[0], MMIO, 4, 0, 0) == EEXIST);
	CHECK(ioeventfd(event[1], MMIO, 4, KVM_IOEVENTFD_FLAG_DATAMATCH, 7) == EEXIST);
	CHECK(ioeventfd(event[1], MMIO, 0, 0, 0) == EEXIST);
	CHECK(!ioeventfd(event[1], MMIO, 2, 0, 0));
	CHECK(!ioeventfd(event[1], MMIO, 4, KVM_IOEVENTFD_FLAG_PIO, 0));
	/* Every detail must be the same to take it away; another descriptor of
	 * the same eventfd is. */
	CHECK(ioeventfd(event[1], MMIO, 4, KVM_IOEVENTFD_FLAG_DEASSIGN, 0) == ENOENT);
	CHECK(ioeventfd(event[0], MMIO, 8, KVM_IOEVENTFD_FLAG_DEASSIGN, 0) == ENOENT);
	CHECK(ioeventfd(event[0], MMIO, 4,
			KVM_IOEVENTFD_FLAG_DEASSIGN | KVM_IOEVENTFD_FLAG_DATAMATCH,
			0) == ENOENT);
	CHECK(!ioeventfd(dup(event[0]), MMIO, 4, KVM_IOEVENTFD_FLAG_DEASSIGN, 0));
	CHECK(!ioeventfd(event[1], MMIO, 2, KVM_IOEVENTFD_FLAG_DEASSIGN, 0));
	CHECK(!ioeventfd(event[1], MMIO, 4,
			 KVM_IOEVENTFD_FLAG_DEASSIGN | KVM_IOEVENTFD_FLAG_PIO, 0));
	CHECK(run(w32, MMIO, 0) == KVM_EXIT_MMIO);
}

static void test_lengths(void)
{
	static const uint8_t *const code[] = { w8, w16, w32, w64 };

	for (int bits = 0; bits < 4; bits++)
		CHECK(!ioeventfd(event[bits], MMIO, 1u << bits, 0, 0));
	for (int i = 0; i < 4; i++) {
		CHECK(run(code[i], MMIO, 0x123456789) == KVM_EXIT_HLT);
		for (int k = 0; k < 4; k++)
			CHECK(taken(event[k]) == (k == i));
		CHECK(run(code[i], MMIO + 8, 0) == KVM_EXIT_MMIO);
	}
	CHECK(run(r32, MMIO, 0) == KVM_EXIT_MMIO);
	/* 16 bytes are two writes of 8. */
	CHECK(run(w128, MMIO, 0) == KVM_EXIT_MMIO);
	CHECK(taken(event[3]) == 1);
	for (int bits = 0; bits < 4; bits++)
		CHECK(!ioeventfd(event[bits], MMIO, 1u << bits, KVM_IOEVENTFD_FLAG_DEASSIGN,
				 0));
	/* Length 0: any. */
	CHECK(!ioeventfd(event[0], MMIO, 0, 0, 0));
	for (int i = 0; i < 4; i++)
		CHECK(run(code[i], MMIO, 5) == KVM_EXIT_HLT);
	CHECK(taken(event[0]) == 4);
	CHECK(run(w8, MMIO + 1, 5) == KVM_EXIT_MMIO);
	CHECK(!ioeventfd(event[0], MMIO, 0, KVM_IOEVENTFD_FLAG_DEASSIGN, 0));
	CHECK(run(w8, MMIO, 5) == KVM_EXIT_MMIO);
	CHECK(!taken(event[0]));
}

static void test_datamatch(void)
{
	unsigned f = KVM_IOEVENTFD_FLAG_DATAMATCH;

	for (int i = 0; i < 4; i++) /* as queue numbers of one notify register */
		CHECK(!ioeventfd(event[i], MMIO, 2, f, (uint64_t)i));
	for (int i = 0; i < 4; i++) {
		CHECK(run(w16, MMIO, 0xabc0000u | (unsigned)i) == KVM_EXIT_HLT);
		for (int k = 0; k < 4; k++)
			CHECK(taken(event[k]) == (k == i));
	}
	CHECK(run(w16, MMIO, 4) == KVM_EXIT_MMIO);
	CHECK(m.run->exit_reason == KVM_EXIT_HLT);
	/* A wildcard next to them is refused; elsewhere it takes all. */
	CHECK(ioeventfd(event[4], MMIO, 2, 0, 0) == EEXIST);
	CHECK(!ioeventfd(event[4], MMIO + 2, 2, 0, 0));
	CHECK(run(w16, MMIO + 2, 4) == KVM_EXIT_HLT && taken(event[4]) == 1);
	/* 8 bytes are compared whole. */
	CHECK(!ioeventfd(event[5], MMIO + 8, 8, f, 0x8000000000000001));
	CHECK(run(w64, MMIO + 8, 0x8000000000000001) == KVM_EXIT_HLT && taken(event[5]) == 1);
	CHECK(run(w64, MMIO + 8, 1) == KVM_EXIT_MMIO && !taken(event[5]));
	for (int i = 0; i < 4; i++)
		CHECK(!ioeventfd(event[i], MMIO, 2, f | KVM_IOEVENTFD_FLAG_DEASSIGN,
				 (uint64_t)i));
	CHECK(!ioeventfd(event[4], MMIO + 2, 2, KVM_IOEVENTFD_FLAG_DEASSIGN, 0));
	CHECK(!ioeventfd(event[5], MMIO + 8, 8, f | KVM_IOEVENTFD_FLAG_DEASSIGN,
			 0x8000000000000001));
}

static void test_ports(void)
{
	static const uint8_t *const code[] = { o8, o16, o32 };
	unsigned f = KVM_IOEVENTFD_FLAG_PIO;

	for (int bits = 0; bits < 3; bits++)
		CHECK(!ioeventfd(event[bits], PORT, 1u << bits, f, 0));
	for (int i = 0; i < 3; i++) {
		CHECK(run(code[i], PORT, 9) == KVM_EXIT_HLT);
		for (int k = 0; k < 3; k++)
			CHECK(taken(event[k]) == (k == i));
		CHECK(run(code[i], PORT + 1, 9) == KVM_EXIT_IO);
	}
	CHECK(run(i8, PORT, 0) == KVM_EXIT_IO);
	/* A string is as many writes. */
	CHECK(run(outs, PORT, 0) == KVM_EXIT_HLT);
	CHECK(taken(event[0]) == 3);
	for (int bits = 0; bits < 3; bits++)
		CHECK(!ioeventfd(event[bits], PORT, 1u << bits,
				 f | KVM_IOEVENTFD_FLAG_DEASSIGN, 0));
	/* Some elements of a string match, each one a write of its own. */
	CHECK(!ioeventfd(event[0], PORT, 1, f | KVM_IOEVENTFD_FLAG_DATAMATCH, 'b'));
	memcpy(m.ram + 0x30000, "bbb", 3);
	CHECK(run(outs, PORT, 0) == KVM_EXIT_HLT && taken(event[0]) == 3);
	CHECK(!ioeventfd(event[0], PORT, 1,
			 f | KVM_IOEVENTFD_FLAG_DATAMATCH | KVM_IOEVENTFD_FLAG_DEASSIGN, 'b'));
	/* Length 0. */
	CHECK(!ioeventfd(event[0], PORT, 0, f, 0));
	for (int i = 0; i < 3; i++)
		CHECK(run(code[i], PORT, 9) == KVM_EXIT_HLT);
	CHECK(taken(event[0]) == 3);
	CHECK(!ioeventfd(event[0], PORT, 0, f | KVM_IOEVENTFD_FLAG_DEASSIGN, 0));
}

int main(void)
{
	machine_init(&m, guest_start, guest_end);
	for (int i = 0; i < 8; i++)
		CHECK((event[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0);
	CHECK(ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_IOEVENTFD) == 1);
	CHECK(ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_IOEVENTFD_ANY_LENGTH) == 1);
	test_errno();
	test_lengths();
	test_datamatch();
	test_ports();
	/* Many of them, in and out of order. */
	for (unsigned i = 0; i < 300; i++)
		CHECK(!ioeventfd(event[0], MMIO + (i * 7 % 300) * 16, 4, 0, 0));
	for (unsigned i = 0; i < 300; i++)
		CHECK(run(w32, MMIO + i * 16, i) == KVM_EXIT_HLT);
	CHECK(taken(event[0]) == 300);
	for (unsigned i = 0; i < 300; i++)
		CHECK(!ioeventfd(event[0], MMIO + i * 16, 4, KVM_IOEVENTFD_FLAG_DEASSIGN, 0));
	CHECK(run(w32, MMIO, 0) == KVM_EXIT_MMIO);
	printf("CASES 5\n");
	return 0;
}
