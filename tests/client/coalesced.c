/* SPDX-License-Identifier: MIT */
/*
 * Coalesced writes: what goes into the ring, in which order, and what exits;
 * every vCPU's mapping shows one ring; the ring against ioeventfds.
 */
#include "client.h"

#include <sys/eventfd.h>

#define PAGE_SIZE 4096 /* of KVM_COALESCED_MMIO_MAX */
#define MMIO 0x10000000ull
#define PORT 0x3d4u

/* rcx writes of the count to (rdi), then a read. */
GUEST_CODE(guest,
	   ".globl w32, w64, w8, o16, byte\n"
	   "w32: mov %ecx,(%rdi)\n dec %rcx\n jnz w32\n mov (%rdi),%eax\n hlt\n"
	   "w64: mov %rax,(%rdi)\n hlt\n"
	   "w8: mov %al,(%rdi)\n hlt\n"
	   "o16: out %ax,%dx\n hlt\n"
	   "byte: out %al,%dx\n hlt\n");
extern const uint8_t w32[], w64[], w8[], o16[], byte[];

static struct machine m;
static struct kvm_coalesced_mmio_ring *ring;

static int zone(uint64_t addr, unsigned size, unsigned pio, bool add)
{
	struct kvm_coalesced_mmio_zone z = { .addr = addr, .size = size, { .pio = pio } };

	return ioctl(m.vm, add ? KVM_REGISTER_COALESCED_MMIO : KVM_UNREGISTER_COALESCED_MMIO,
		     &z) ?
		       errno :
		       0;
}

static unsigned run_on(int cpu, struct kvm_run *page, const uint8_t *code, uint64_t addr,
		       uint64_t value, uint64_t count)
{
	struct kvm_regs r = { .rip = CODE_GPA + (uint64_t)(code - guest_start), .rax = value,
			      .rdi = addr, .rdx = addr, .rcx = count, .rsp = STACK_GPA,
			      .rflags = 2 };

	CHECK(!ioctl(cpu, KVM_SET_REGS, &r));
	while (ioctl(cpu, KVM_RUN, 0))
		CHECK(errno == EINTR);
	return page->exit_reason;
}

static unsigned run(const uint8_t *code, uint64_t addr, uint64_t value, uint64_t count)
{
	return run_on(m.cpu, m.run, code, addr, value, count);
}

/* The oldest entry, taken out. */
static struct kvm_coalesced_mmio take(void)
{
	struct kvm_coalesced_mmio e = ring->coalesced_mmio[ring->first];

	CHECK(ring->first != ring->last);
	ring->first = (ring->first + 1) % (unsigned)KVM_COALESCED_MMIO_MAX;
	return e;
}

static bool empty(void)
{
	return ring->first == ring->last;
}

static void test_basic(void)
{
	struct kvm_coalesced_mmio e;

	CHECK(zone(MMIO, 0x1000, 2, true) == EINVAL);
	CHECK(!zone(MMIO, 0x1000, 0, true));
	CHECK(run(w32, MMIO + 0x10, 0, 3) == KVM_EXIT_MMIO);
	CHECK(!m.run->mmio.is_write); /* the read exits, the writes did not */
	for (unsigned i = 3; i; i--) {
		uint32_t v;

		e = take();
		memcpy(&v, e.data, 4);
		CHECK(e.phys_addr == MMIO + 0x10 && e.len == 4 && !e.pio && v == i);
	}
	CHECK(empty());
	CHECK(machine_run(&m) == KVM_EXIT_HLT);
	/* Not wholly inside: the client's. */
	CHECK(run(w64, MMIO + 0xffc, ~0ull, 0) == KVM_EXIT_MMIO && m.run->mmio.is_write);
	while (machine_run(&m) != KVM_EXIT_HLT)
		;
	while (!empty()) /* the half inside may be collected */
		take();
	CHECK(run(w8, MMIO + 0xfff, 0x5a, 0) == KVM_EXIT_HLT);
	e = take();
	CHECK(e.len == 1 && e.data[0] == 0x5a);
	/* Ports and addresses are two spaces. */
	CHECK(run(byte, PORT, 1, 0) == KVM_EXIT_IO);
	CHECK(machine_run(&m) == KVM_EXIT_HLT);
	CHECK(!zone(PORT, 2, 1, true));
	CHECK(run(o16, PORT, 0x1234, 0) == KVM_EXIT_HLT);
	e = take();
	CHECK(e.pio == 1 && e.phys_addr == PORT && e.len == 2 && e.data[0] == 0x34 &&
	      e.data[1] == 0x12);
	CHECK(run(o16, PORT + 1, 0, 0) == KVM_EXIT_IO);
	CHECK(machine_run(&m) == KVM_EXIT_HLT && empty());
	CHECK(!zone(PORT, 2, 1, false));
	CHECK(run(o16, PORT, 0, 0) == KVM_EXIT_IO);
	CHECK(machine_run(&m) == KVM_EXIT_HLT);
	/* A part of a zone names the zone. */
	CHECK(!zone(MMIO + 0x20, 4, 0, false));
	CHECK(run(w8, MMIO, 0, 0) == KVM_EXIT_MMIO);
	CHECK(machine_run(&m) == KVM_EXIT_HLT && empty());
}

/* Nobody empties the ring: the write that finds no room exits, none is lost. */
static void test_full(void)
{
	unsigned n = 0;

	CHECK(!zone(MMIO, 0x1000, 0, true));
	CHECK(run(w32, MMIO, 0, 1000) == KVM_EXIT_MMIO);
	for (unsigned left = 1000; left;) {
		uint32_t v;

		while (!empty()) {
			struct kvm_coalesced_mmio e = take();

			memcpy(&v, e.data, 4);
			CHECK(v == left--);
			n++;
		}
		if (!m.run->mmio.is_write)
			break;
		memcpy(&v, m.run->mmio.data, 4);
		CHECK(v == left--);
		CHECK(machine_run(&m) == KVM_EXIT_MMIO);
	}
	CHECK(n > 900 && !m.run->mmio.is_write);
	CHECK(machine_run(&m) == KVM_EXIT_HLT);
	printf("TABLE coalesced: %u of 1000 writes without an exit\n", n);
	/* Indices that no client writes must do no harm. */
	for (unsigned bad = 0; bad < 4; bad++) {
		static const unsigned value[] = { 169, 170, 0x7fffffff, ~0u };

		ring->first = 0;
		ring->last = value[bad];
		run(w8, MMIO, 1, 0);
		while (m.run->exit_reason != KVM_EXIT_HLT)
			machine_run(&m);
		ring->last = 0;
		ring->first = value[bad];
		run(w8, MMIO, 1, 0);
		while (m.run->exit_reason != KVM_EXIT_HLT)
			machine_run(&m);
	}
	ring->first = ring->last = 0;
	CHECK(!zone(MMIO, 0x1000, 0, false));
}

/* The zone, being first by address, hides the eventfd until the ring is full. */
static void test_order(void)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	struct kvm_ioeventfd a = { .addr = MMIO + 8, .len = 1, .fd = fd };
	uint64_t n;

	CHECK(!zone(MMIO, 0x1000, 0, true));
	CHECK(!ioctl(m.vm, KVM_IOEVENTFD, &a));
	CHECK(run(w8, MMIO + 8, 1, 0) == KVM_EXIT_HLT);
	CHECK(!empty() && read(fd, &n, 8) < 0);
	take();
	a.flags = KVM_IOEVENTFD_FLAG_DEASSIGN;
	CHECK(!ioctl(m.vm, KVM_IOEVENTFD, &a));
	/* At one address the narrower one is first. */
	a.flags = 0;
	a.addr = MMIO;
	CHECK(!ioctl(m.vm, KVM_IOEVENTFD, &a));
	CHECK(run(w8, MMIO, 1, 0) == KVM_EXIT_HLT);
	CHECK(empty() && read(fd, &n, 8) == 8 && n == 1);
	a.flags = KVM_IOEVENTFD_FLAG_DEASSIGN;
	CHECK(!ioctl(m.vm, KVM_IOEVENTFD, &a));
	CHECK(!zone(MMIO, 0x1000, 0, false));
}

static void test_shared(int size)
{
	int cpu = ioctl(m.vm, KVM_CREATE_VCPU, 1), copy;
	struct kvm_coalesced_mmio_ring *alone;
	struct kvm_run *page;

	CHECK(cpu >= 0);
	page = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	CHECK(page != MAP_FAILED);
	machine_cpuid(m.kvm, cpu);
	machine_long_mode(cpu, CODE_GPA, STACK_GPA);
	CHECK(!zone(MMIO, 0x1000, 0, true));
	CHECK(run_on(cpu, page, w8, MMIO + 1, 0x77, 0) == KVM_EXIT_HLT);
	CHECK(((char *)page)[0x2000] == ((char *)m.run)[0x2000]);
	CHECK(take().data[0] == 0x77 && empty());
	/* The page alone, through a duplicate, read only. */
	copy = dup(cpu);
	alone = mmap(NULL, 4096, PROT_READ, MAP_SHARED, copy,
		     ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_COALESCED_MMIO) * 4096);
	CHECK(alone != MAP_FAILED);
	CHECK(run_on(cpu, page, w8, MMIO + 2, 0x78, 0) == KVM_EXIT_HLT);
	CHECK(alone->last == ring->last && alone->first == ring->first);
	CHECK(alone->coalesced_mmio[alone->first].data[0] == 0x78);
	take();
	/* Other pages are the vCPU's own. */
	page->request_interrupt_window = 1;
	CHECK(!m.run->request_interrupt_window);
	CHECK(!munmap(page, (size_t)size) && !munmap(alone, 4096));
	close(copy);
	close(cpu);
}

int main(void)
{
	int page, size;

	machine_init(&m, guest_start, guest_end);
	page = ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_COALESCED_MMIO);
	size = ioctl(m.kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	CHECK(page > 0 && (page + 1) * 4096 <= size);
	CHECK(ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_COALESCED_PIO) == 1);
	ring = (void *)((char *)m.run + page * 4096);
	test_basic();
	test_full();
	test_order();
	test_shared(size);
	printf("CASES 4\n");
	return 0;
}
