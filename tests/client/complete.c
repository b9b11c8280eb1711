/* SPDX-License-Identifier: MIT */
/*
 * What KVM_RUN's exits for ports and device memory say, and how the instruction
 * is completed: pieces of wide accesses, strings, immediate_exit, registers that
 * the client changed.
 */
#include "client.h"

#define MMIO 0x10000000ull
#define PORT 0x1234

GUEST_CODE(guest,
	   ".globl r32, r64, w64, r128, w128, stos, movs, xadd, in32, out16, outsb, insb\n"
	   ".globl insd, pushm, xchg\n"
	   "r32: mov (%rdi),%eax\n hlt\n"
	   "r64: mov (%rdi),%rax\n hlt\n"
	   "w64: mov %rax,(%rdi)\n hlt\n"
	   "r128: movups (%rdi),%xmm1\n movups %xmm1,0x30000\n hlt\n"
	   "w128: movups 0x30000,%xmm0\n movups %xmm0,(%rdi)\n hlt\n"
	   "stos: rep stosl\n hlt\n"
	   "movs: rep movsb\n hlt\n"
	   "xadd: lock xadd %eax,(%rdi)\n hlt\n"
	   "in32: in %dx,%eax\n hlt\n"
	   "out16: out %ax,%dx\n hlt\n"
	   "outsb: rep outsb\n hlt\n"
	   "insb: rep insb\n hlt\n"
	   "insd: rep insl\n hlt\n"
	   "pushm: push (%rdi)\n hlt\n"
	   "xchg: xchg %al,(%rdi)\n hlt\n");
extern const uint8_t r32[], r64[], w64[], r128[], w128[], stos[], movs[], xadd[], in32[],
	out16[], outsb[], insb[], insd[], pushm[], xchg[];

static struct machine m;
static struct kvm_regs regs;

static uint64_t rip_of(const uint8_t *code)
{
	return CODE_GPA + (uint64_t)(code - guest_start);
}

static void set(const uint8_t *code, uint64_t rdi, uint64_t rax, uint64_t rcx)
{
	regs = (struct kvm_regs){ .rip = rip_of(code), .rdi = rdi, .rsi = 0x40000, .rax = rax,
				  .rcx = rcx, .rdx = PORT, .rsp = STACK_GPA, .rflags = 2 };
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
}

static void get(void)
{
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &regs));
}

/* The next exit is MMIO as described; a read is answered from @data, which for a
 * write is what must be there. */
static void piece(uint64_t gpa, unsigned n, bool write, const void *data)
{
	CHECK(machine_run(&m) == KVM_EXIT_MMIO);
	if (m.run->mmio.phys_addr != gpa || m.run->mmio.len != n)
		fprintf(stderr, "%u bytes at %#llx\n", m.run->mmio.len,
			m.run->mmio.phys_addr);
	CHECK(m.run->mmio.phys_addr == gpa && m.run->mmio.len == n &&
	      m.run->mmio.is_write == write);
	if (write)
		CHECK(!memcmp(m.run->mmio.data, data, n));
	else
		memcpy(m.run->mmio.data, data, n);
}

static void done(void)
{
	CHECK(machine_run(&m) == KVM_EXIT_HLT);
	get();
}

static void test_pieces(void)
{
	static const uint8_t bytes[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
					   16 };
	uint64_t v;

	memcpy(&v, bytes, 8);
	/* Across a page: one exit a page. */
	set(w64, MMIO + 0xffc, v, 0);
	piece(MMIO + 0xffc, 4, true, bytes);
	piece(MMIO + 0x1000, 4, true, bytes + 4);
	done();
	set(r64, MMIO + 0xffd, 0, 0);
	piece(MMIO + 0xffd, 3, false, bytes);
	get();
	CHECK(regs.rip == rip_of(r64)); /* not done: at the instruction */
	piece(MMIO + 0x1000, 5, false, bytes + 3);
	done();
	CHECK(regs.rax == v);
	/* More than 8 bytes: pieces of 8. */
	memcpy(m.ram + 0x30000, bytes, 16);
	set(w128, MMIO, 0, 0);
	piece(MMIO, 8, true, bytes);
	piece(MMIO + 8, 8, true, bytes + 8);
	done();
	set(w128, MMIO + 0xff4, 0, 0);
	piece(MMIO + 0xff4, 8, true, bytes);
	piece(MMIO + 0xffc, 4, true, bytes + 8);
	piece(MMIO + 0x1000, 4, true, bytes + 12);
	done();
	memset(m.ram + 0x30000, 0, 16);
	set(r128, MMIO + 0xff4, 0, 0);
	piece(MMIO + 0xff4, 8, false, bytes);
	piece(MMIO + 0xffc, 4, false, bytes + 8);
	piece(MMIO + 0x1000, 4, false, bytes + 12);
	done();
	CHECK(!memcmp(m.ram + 0x30000, bytes, 16));
	/* Half in memory. */
	set(w64, RAM_SIZE - 3, v, 0);
	piece(RAM_SIZE, 5, true, bytes + 3);
	done();
	CHECK(!memcmp(m.ram + RAM_SIZE - 3, bytes, 3));
	set(r64, RAM_SIZE - 3, 0, 0);
	piece(RAM_SIZE, 5, false, bytes + 3);
	done();
	CHECK(regs.rax == v);
}

static void test_instructions(void)
{
	uint32_t v = 0x11223344, sum = 0x11223345;
	uint64_t q = 0x8877665544332211;

	set(stos, MMIO, v, 3);
	for (int i = 0; i < 3; i++)
		piece(MMIO + 4 * (unsigned)i, 4, true, &v);
	done();
	CHECK(!regs.rcx && regs.rdi == MMIO + 12);
	memcpy(m.ram + 0x40000, "abc", 3);
	set(movs, MMIO, 0, 3);
	for (int i = 0; i < 3; i++)
		piece(MMIO + (unsigned)i, 1, true, "abc" + i);
	done();
	/* Read, then write. */
	set(xadd, MMIO + 8, 1, 0);
	piece(MMIO + 8, 4, false, &v);
	piece(MMIO + 8, 4, true, &sum);
	done();
	CHECK(regs.rax == v);
	set(xchg, MMIO + 8, 0x5a, 0);
	piece(MMIO + 8, 1, false, "\x77");
	piece(MMIO + 8, 1, true, "\x5a");
	done();
	CHECK(regs.rax == 0x77);
	set(pushm, MMIO, 0, 0);
	piece(MMIO, 8, false, &q);
	done();
	CHECK(regs.rsp == STACK_GPA - 8 && !memcmp(m.ram + STACK_GPA - 8, &q, 8));
}

/* The data of a port exit. */
static uint8_t *port_data(unsigned size, bool out)
{
	CHECK(m.run->exit_reason == KVM_EXIT_IO && m.run->io.port == PORT);
	CHECK(m.run->io.size == size && m.run->io.direction == out);
	CHECK(m.run->io.count && m.run->io.count * size <= 4096);
	return (uint8_t *)m.run + m.run->io.data_offset;
}

static void test_strings(void)
{
	unsigned n = 0, exits = 0;
	uint8_t *d;

	for (unsigned i = 0; i < 9000; i++)
		m.ram[0x40000 + i] = (uint8_t)(i * 7 + i / 256);
	set(outsb, 0, 0, 9000);
	regs.rsi = 0x40123;
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
	for (exits = 0; machine_run(&m) != KVM_EXIT_HLT; exits++) {
		d = port_data(1, true);
		CHECK(!memcmp(d, m.ram + 0x40123 + n, m.run->io.count));
		n += m.run->io.count;
	}
	get();
	CHECK(n == 9000 && !regs.rcx && regs.rsi == 0x40123 + 9000);
	printf("TABLE rep outsb of 9000 bytes: %u exits\n", exits);
	n = 0;
	set(insb, 0x50ff0, 0, 5000);
	for (exits = 0; machine_run(&m) != KVM_EXIT_HLT; exits++) {
		d = port_data(1, false);
		for (unsigned i = 0; i < m.run->io.count; i++, n++)
			d[i] = (uint8_t)(n * 13 + n / 256);
	}
	get();
	CHECK(n == 5000 && !regs.rcx && regs.rdi == 0x50ff0 + 5000);
	for (n = 0; n < 5000; n++)
		CHECK(m.ram[0x50ff0 + n] == (uint8_t)(n * 13 + n / 256));
	printf("TABLE rep insb of 5000 bytes: %u exits\n", exits);
	/* Elements across a page; then into device memory. */
	n = 0;
	set(insd, 0x50ffe, 0, 3);
	while (machine_run(&m) != KVM_EXIT_HLT) {
		d = port_data(4, false);
		for (unsigned i = 0; i < m.run->io.count * 4; i++)
			d[i] = (uint8_t)(0xa0 + n++);
	}
	for (n = 0; n < 12; n++)
		CHECK(m.ram[0x50ffe + n] == 0xa0 + n);
	set(insd, MMIO, 0, 1);
	CHECK(machine_run(&m) == KVM_EXIT_IO);
	memcpy(port_data(4, false), "wxyz", 4);
	piece(MMIO, 4, true, "wxyz");
	done();
}

static void expect_eintr(void)
{
	m.run->immediate_exit = 1;
	CHECK(ioctl(m.cpu, KVM_RUN, 0) && errno == EINTR);
	m.run->immediate_exit = 0;
	get();
}

static void test_immediate(void)
{
	uint32_t v = 0xcafe0123;

	set(r32, MMIO, ~0ull, 0);
	piece(MMIO, 4, false, &v);
	expect_eintr();
	CHECK(regs.rax == v && regs.rip == rip_of(r32) + 2);
	done();
	set(in32, 0, ~0ull, 0);
	CHECK(machine_run(&m) == KVM_EXIT_IO);
	memcpy(port_data(4, false), &v, 4);
	get();
	CHECK(regs.rip == rip_of(in32) && regs.rax == ~0ull);
	expect_eintr();
	CHECK(regs.rax == v && regs.rip == rip_of(in32) + 1);
	done();
	set(out16, 0, 0xbeef, 0);
	CHECK(machine_run(&m) == KVM_EXIT_IO);
	CHECK(!memcmp(port_data(2, true), "\xef\xbe", 2));
	expect_eintr();
	CHECK(regs.rip == rip_of(out16) + 2);
	done();
	/* Two pieces: the first answer does not end the instruction. */
	set(r64, MMIO + 0xffc, 0, 0);
	piece(MMIO + 0xffc, 4, false, &v);
	m.run->immediate_exit = 1;
	CHECK(!ioctl(m.cpu, KVM_RUN, 0) && m.run->exit_reason == KVM_EXIT_MMIO);
	CHECK(m.run->mmio.phys_addr == MMIO + 0x1000 && m.run->mmio.len == 4);
	memcpy(m.run->mmio.data, &v, 4);
	expect_eintr();
	CHECK(regs.rax == ((uint64_t)v << 32 | v));
	done();
}

static void test_changed(void)
{
	/* Elsewhere when the answer comes: it is dropped. */
	set(in32, 0, 0x1111, 0);
	CHECK(machine_run(&m) == KVM_EXIT_IO);
	memset(port_data(4, false), 0xee, 4);
	get();
	regs.rip++;
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
	done();
	CHECK(regs.rax == 0x1111);
	/* Other registers: the instruction goes on with them. */
	set(in32, 0, 0x1111, 0);
	CHECK(machine_run(&m) == KVM_EXIT_IO);
	memset(port_data(4, false), 0xee, 4);
	get();
	regs.rbx = 77;
	regs.rax = ~0ull;
	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &regs));
	done();
	CHECK(regs.rax == 0xeeeeeeee && regs.rbx == 77);
}

int main(void)
{
	machine_init(&m, guest_start, guest_end);
	test_pieces();
	test_instructions();
	test_strings();
	test_immediate();
	test_changed();
	printf("CASES 5\n");
	return 0;
}
