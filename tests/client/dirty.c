/* SPDX-License-Identifier: MIT */
/*
 * Which pages the client is told of: exactly those that were written, by bitmap,
 * by bitmap with manual clearing, and by ring.
 */
#include "client.h"

#include <signal.h>

#define PAGES	(RAM_SIZE / 4096)
#define RING	4096u /* bytes: 256 entries, soft limit 192 */
#define ENTRIES (RING / sizeof(struct kvm_dirty_gfn))
#define PAGE(n) ((n) * 0x1000ull)

/* Plain store, REP STOS over three pages, locked exchange, a store across two
 * pages, push, REP MOVS; then a page a step. */
GUEST_CODE(guest,
	   ".globl mixed, sweep, tables\n"
	   "mixed: movb $1,0x100123\n"
	   "mov $0x105ff0,%rdi\n mov $0x1020,%ecx\n cld\n rep stosb\n"
	   "mov $0x10a000,%rdi\n lock xadd %rax,(%rdi)\n"
	   "movups %xmm0,0x10cff8\n"
	   "push %rax\n"
	   "mov $0x100000,%rsi\n mov $0x110000,%rdi\n mov $8,%ecx\n rep movsq\n"
	   "mov 0x120000,%rax\n" /* read: not written */
	   "lock cmpxchg %rbx,0x121000\n"
	   "hlt\n"
	   "sweep: mov %cl,(%rdi)\n add $0x1000,%rdi\n dec %ecx\n jnz sweep\n hlt\n"
	   "tables: movb $1,0x200000\n hlt\n");
extern const uint8_t mixed[], sweep[], tables[];

static const unsigned mixed_pages[] = { 0x100, 0x105, 0x106, 0x107, 0x10a, 0x10c, 0x10d,
					0x7f,  0x110, 0x121 };

static struct machine m;
static struct kvm_dirty_gfn *ring;
static unsigned fetched; /* entries taken from the ring */
static uint64_t seen[PAGES / 64];

static void set_pages(uint64_t *map, const unsigned *page, unsigned n)
{
	memset(map, 0, PAGES / 8);
	for (unsigned i = 0; i < n; i++)
		map[page[i] / 64] |= 1ull << page[i] % 64;
}

static void expect(const uint64_t *got, const uint64_t *want)
{
	for (unsigned i = 0; i < PAGES; i++) {
		bool g = got[i / 64] >> i % 64 & 1, w = want[i / 64] >> i % 64 & 1;

		if (g != w)
			fprintf(stderr, "page %#x: %s\n", i, g ? "reported" : "missing");
	}
	CHECK(!memcmp(got, want, PAGES / 8));
}

/* As machine_init(), with a dirty ring or a mode of the log. */
static void start(unsigned ring_bytes, unsigned manual)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_DIRTY_LOG_RING, .args = { ring_bytes } };
	struct kvm_enable_cap mode = { .cap = KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2,
				       .args = { manual } };
	uint64_t *table;

	memset(&m, 0, sizeof(m));
	CHECK((m.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC)) >= 0);
	CHECK((m.vm = ioctl(m.kvm, KVM_CREATE_VM, 0)) >= 0);
	CHECK(!ring_bytes || !ioctl(m.vm, KVM_ENABLE_CAP, &cap));
	CHECK(!manual || !ioctl(m.vm, KVM_ENABLE_CAP, &mode));
	m.ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(m.ram != MAP_FAILED);
	machine_slot(&m, 0, 0, m.ram, RAM_SIZE, 0);
	table = (void *)m.ram; /* accessed and dirty: no write by the walk */
	table[0x200] = 0x2023;
	table[0x400] = 0x3023;
	for (uint64_t i = 0; i < 512; i++)
		table[0x600 + i] = i << 21 | 0xe3;
	memcpy(m.ram + CODE_GPA, guest_start, (size_t)(guest_end - guest_start));
	CHECK((m.cpu = ioctl(m.vm, KVM_CREATE_VCPU, 0)) >= 0);
	m.run = mmap(NULL, (size_t)ioctl(m.kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
		     PROT_READ | PROT_WRITE, MAP_SHARED, m.cpu, 0);
	CHECK(m.run != MAP_FAILED);
	machine_cpuid(m.kvm, m.cpu);
	machine_long_mode(m.cpu, CODE_GPA, STACK_GPA);
}

static void log_on(void)
{
	machine_slot(&m, 0, 0, m.ram, RAM_SIZE, KVM_MEM_LOG_DIRTY_PAGES);
}

static void finish(void)
{
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
	munmap(m.ram, RAM_SIZE);
}

static void set_code(const uint8_t *code, uint64_t rdi, uint64_t rcx)
{
	struct kvm_regs r = { .rip = CODE_GPA + (uint64_t)(code - guest_start), .rdi = rdi,
			      .rcx = rcx, .rsp = STACK_GPA, .rflags = 2 };

	CHECK(!ioctl(m.cpu, KVM_SET_REGS, &r));
}

static void run(const uint8_t *code)
{
	set_code(code, 0, 0);
	CHECK(machine_run(&m) == KVM_EXIT_HLT);
}

static void get_log(uint64_t *map)
{
	struct kvm_dirty_log log = { .slot = 0 };

	log.dirty_bitmap = map;
	memset(map, 0xee, PAGES / 8);
	CHECK(!ioctl(m.vm, KVM_GET_DIRTY_LOG, &log));
}

static void clear_log(uint64_t *map, unsigned first, unsigned n)
{
	struct kvm_clear_dirty_log log = { .slot = 0, .first_page = first, .num_pages = n };

	log.dirty_bitmap = map;
	CHECK(!ioctl(m.vm, KVM_CLEAR_DIRTY_LOG, &log));
}

static void set_clock(uint64_t value)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e;
	} msr = { .head = { .nmsrs = 1 }, .e = { .index = 0x4b564d01, .data = value } };

	CHECK(ioctl(m.cpu, KVM_SET_MSRS, &msr) == 1);
}

static void test_bitmap(void)
{
	uint64_t map[PAGES / 64], want[PAGES / 64], none[PAGES / 64] = { 0 };
	struct kvm_dirty_log log = { .slot = 7 };

	log.dirty_bitmap = map;
	start(0, 0);
	run(mixed); /* write entries exist before logging starts */
	log_on();
	get_log(map);
	expect(map, none);
	set_pages(want, mixed_pages, 10);
	for (int i = 0; i < 3; i++) {
		run(mixed);
		run(mixed);
		get_log(map);
		expect(map, want);
		get_log(map);
		expect(map, none);
	}
	CHECK(ioctl(m.vm, KVM_GET_DIRTY_LOG, &log) && errno == ENOENT);
	/* The walk's own writes: the directory gets a dirty bit. */
	((uint64_t *)(void *)m.ram)[0x601] &= ~0x40ull;
	machine_long_mode(m.cpu, CODE_GPA, STACK_GPA);
	run(tables);
	get_log(map);
	CHECK(map[0] & 1 << 3);
	map[0] &= ~(1ull << 3);
	set_pages(want, (const unsigned[]){ 0x200 }, 1);
	expect(map, want);
	/* The clock structure of KVM's guest interface. */
	set_clock(0x130001);
	run(mixed);
	set_pages(want, mixed_pages, 10);
	want[0x130 / 64] |= 1ull << 0x130 % 64;
	get_log(map);
	expect(map, want);
	set_clock(0);
	/* A slot that moves keeps its log. */
	run(mixed);
	machine_slot(&m, 0, 0x40000000, m.ram, RAM_SIZE, KVM_MEM_LOG_DIRTY_PAGES);
	machine_slot(&m, 0, 0, m.ram, RAM_SIZE, KVM_MEM_LOG_DIRTY_PAGES);
	set_pages(want, mixed_pages, 10);
	get_log(map);
	expect(map, want);
	finish();
}

static void test_manual(void)
{
	uint64_t map[PAGES / 64], want[PAGES / 64], bits[PAGES / 64];
	int modes = ioctl(open("/dev/kvm", O_RDWR), KVM_CHECK_EXTENSION,
			  KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2);

	start(0, KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE);
	log_on();
	run(mixed);
	set_pages(want, mixed_pages, 10);
	get_log(map);
	get_log(map); /* getting clears nothing */
	expect(map, want);
	set_pages(bits, mixed_pages, 3);
	clear_log(&bits[0x100 / 64], 0x100, 64);
	get_log(map);
	set_pages(want, mixed_pages + 3, 7);
	expect(map, want);
	run(mixed);
	set_pages(want, mixed_pages, 10);
	get_log(map);
	expect(map, want);
	clear_log(map, 0, PAGES);
	memset(want, 0, sizeof(want));
	get_log(map);
	expect(map, want);
	finish();
	if (!(modes & KVM_DIRTY_LOG_INITIALLY_SET))
		return;
	start(0, KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET);
	log_on();
	memset(want, 0xff, sizeof(want));
	get_log(map);
	expect(map, want);
	finish();
}

/* Take what is in the ring; returns how many entries. */
static unsigned harvest(void)
{
	unsigned n = 0;

	for (;; n++) {
		struct kvm_dirty_gfn *e = &ring[fetched % ENTRIES];

		if (__atomic_load_n(&e->flags, __ATOMIC_ACQUIRE) != KVM_DIRTY_GFN_F_DIRTY)
			return n;
		CHECK(e->slot == 0 && e->offset < PAGES);
		CHECK(!(seen[e->offset / 64] >> e->offset % 64 & 1));
		seen[e->offset / 64] |= 1ull << e->offset % 64;
		__atomic_store_n(&e->flags, KVM_DIRTY_GFN_F_RESET, __ATOMIC_RELEASE);
		fetched++;
	}
}

static void expect_ring(const uint64_t *want)
{
	unsigned n = harvest();

	expect(seen, want);
	CHECK(ioctl(m.vm, KVM_RESET_DIRTY_RINGS, 0) == (int)n);
	memset(seen, 0, sizeof(seen));
}

/* Processors that log writes by themselves reserve 512 entries more. */
static bool can_be(unsigned bytes)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_DIRTY_LOG_RING, .args = { bytes } };
	int kvm = open("/dev/kvm", O_RDWR), vm = ioctl(kvm, KVM_CREATE_VM, 0);
	bool ok = !ioctl(vm, KVM_ENABLE_CAP, &cap);

	close(vm);
	close(kvm);
	return ok;
}

static void test_ring_errno(void)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_DIRTY_LOG_RING };
	struct kvm_dirty_log log = { .slot = 0 };
	static const struct {
		uint64_t bytes;
		int error;
	} bad[] = { { 0, EINVAL }, { 4095, EINVAL }, { 2048, EINVAL }, { 1ull << 40, E2BIG } };
	int kvm = open("/dev/kvm", O_RDWR), vm = ioctl(kvm, KVM_CREATE_VM, 0);

	CHECK(ioctl(vm, KVM_RESET_DIRTY_RINGS, 0) && errno == EINVAL);
	for (unsigned i = 0; i < 4; i++) {
		cap.args[0] = bad[i].bytes;
		CHECK(ioctl(vm, KVM_ENABLE_CAP, &cap) && errno == bad[i].error);
	}
	cap.args[0] = RING;
	CHECK(!ioctl(vm, KVM_ENABLE_CAP, &cap));
	CHECK(ioctl(vm, KVM_ENABLE_CAP, &cap) && errno == EINVAL);
	CHECK(ioctl(vm, KVM_GET_DIRTY_LOG, &log) && errno == ENXIO);
	CHECK(ioctl(vm, KVM_RESET_DIRTY_RINGS, 0) == 0);
	close(vm);
	CHECK((vm = ioctl(kvm, KVM_CREATE_VM, 0)) >= 0);
	CHECK(ioctl(vm, KVM_CREATE_VCPU, 0) >= 0);
	CHECK(ioctl(vm, KVM_ENABLE_CAP, &cap) && errno == EINVAL);
	close(vm);
	close(kvm);
}

static void test_ring(void)
{
	uint64_t want[PAGES / 64], none[PAGES / 64] = { 0 };
	unsigned full = 0, reason;

	if (ioctl(open("/dev/kvm", O_RDWR), KVM_CHECK_EXTENSION, KVM_CAP_DIRTY_LOG_RING) <= 0) {
		printf("SKIP dirty ring: not offered\n");
		return;
	}
	if (!can_be(RING)) {
		printf("SKIP dirty ring: this KVM wants a larger one\n");
		return;
	}
	test_ring_errno();
	start(RING, 0);
	CHECK(mmap(NULL, RING, PROT_READ, MAP_PRIVATE, m.cpu,
		   KVM_DIRTY_LOG_PAGE_OFFSET * 4096) == MAP_FAILED);
	CHECK(mmap(NULL, RING, PROT_READ | PROT_EXEC, MAP_SHARED, m.cpu,
		   KVM_DIRTY_LOG_PAGE_OFFSET * 4096) == MAP_FAILED);
	ring = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED, m.cpu,
		    KVM_DIRTY_LOG_PAGE_OFFSET * 4096);
	CHECK(ring != MAP_FAILED);
	run(mixed);
	log_on();
	expect_ring(none);
	set_pages(want, mixed_pages, 10);
	for (int i = 0; i < 3; i++) {
		run(mixed);
		run(mixed);
		expect_ring(want);
		expect_ring(none);
	}
	/* What the client has taken but not given back is not named again. */
	run(mixed);
	CHECK(harvest() == 10);
	run(mixed);
	CHECK(!harvest());
	CHECK(ioctl(m.vm, KVM_RESET_DIRTY_RINGS, 0) == 10);
	memset(seen, 0, sizeof(seen));
	/* More pages than the ring holds: KVM_RUN ends at the soft limit, and again
	 * at once while nothing is given back. */
	memset(want, 0, sizeof(want));
	for (unsigned i = 0x100; i < 0x100 + 700; i++)
		want[i / 64] |= 1ull << i % 64;
	set_code(sweep, PAGE(0x100), 700);
	while ((reason = machine_run(&m)) == KVM_EXIT_DIRTY_RING_FULL) {
		CHECK(machine_run(&m) == KVM_EXIT_DIRTY_RING_FULL);
		CHECK(harvest() >= ENTRIES - 64);
		CHECK(ioctl(m.vm, KVM_RESET_DIRTY_RINGS, 0) > 0);
		full++;
	}
	CHECK(reason == KVM_EXIT_HLT && full >= 2);
	harvest();
	expect(seen, want);
	printf("TABLE dirty ring of %u entries, 700 pages: full %u times\n", (unsigned)ENTRIES,
	       full);
	/* Rubbish in the ring. */
	for (unsigned i = 0; i < ENTRIES; i++)
		ring[i] = (struct kvm_dirty_gfn){ .flags = KVM_DIRTY_GFN_F_RESET,
						  .slot = ~0u, .offset = ~0ull };
	ioctl(m.vm, KVM_RESET_DIRTY_RINGS, 0);
	munmap(ring, RING);
	finish();
}

int main(void)
{
	test_bitmap();
	test_manual();
	test_ring();
	printf("CASES 3\n");
	return 0;
}
