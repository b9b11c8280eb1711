/* SPDX-License-Identifier: MIT */
/* Accesses beside the plain hit: page crossings, devices, ROM, two-step RMW. */
#include "fixture.h"

#include <errno.h>
#include <signal.h>

#include "mem/hostfault.h"

/* Pages of the linear space: */
#define RAM_A	0x5000ull /* frame 1 */
#define RAM_B	0x6000ull /* frame 9: not beside frame 1 */
#define NOTHING 0x7000ull /* not present */
#define DEVICE	0x9000ull /* guest-physical 0xfee00000: no slot */
#define AFTER	0xa000ull /* RAM after the device */
#define ROM	0xb000ull /* read-only slot */

struct call {
	gpa_t gpa;
	unsigned n;
	bool write;
	u8 data[8];
};

static struct call calls[64];
static unsigned ncalls, io_at; /* answer EMUL_IO at call number io_at (from 1) */
static u8 *rom;

static enum emul mmio(struct mmu *m, gpa_t gpa, void *data, unsigned n, bool write)
{
	struct call *c = &calls[ncalls++];

	(void)m;
	assert_true(n >= 1 && n <= 8 && (gpa & 4095) + n <= 4096);
	*c = (struct call){.gpa = gpa, .n = n, .write = write};
	if (write)
		memcpy(c->data, data, n);
	else
		for (unsigned i = 0; i < n; i++)
			((u8 *)data)[i] = (u8)(gpa + i);
	return ncalls == io_at ? EMUL_IO : EMUL_CONTINUE;
}

static const struct mmu_ops ops = {.mmio = mmio};

static void map(struct fixture *f, gva_t gva, u64 pte)
{
	table(f, PT)[gva >> 12 & 511] = pte;
}

static u8 *frame(struct fixture *f, unsigned n)
{
	return f->ram + DATA + n * 4096;
}

static int setup(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct kvm_userspace_memory_region r = {.slot = 5,
						.flags = KVM_MEM_READONLY,
						.guest_phys_addr = 0xf0000000,
						.memory_size = 8192};

	fixture_make(f, (struct tlb_config){0});
	f->m.ops = &ops;
	rom = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r.userspace_addr = (u64)(uintptr_t)rom;
	mmu_exit_guest(&f->m);
	assert_int_equal(mem_set_region(f->mem, &r), 0);
	mmu_enter_guest(&f->m);
	map(f, RAM_A, (DATA + 4096) | PTE_P | PTE_W);
	map(f, RAM_B, (DATA + 9 * 4096) | PTE_P | PTE_W);
	map(f, DEVICE - 4096, (DATA + 2 * 4096) | PTE_P | PTE_W);
	map(f, DEVICE, 0xfee00000 | PTE_P | PTE_W);
	map(f, AFTER, (DATA + 3 * 4096) | PTE_P | PTE_W);
	map(f, ROM, 0xf0000000 | PTE_P | PTE_W);
	ncalls = io_at = 0;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture_free(*state);
	munmap(rom, 8192);
	free(*state);
	return 0;
}

/* Every size at every offset around the end of a page, there and back. */
static void test_crossing(void **state)
{
	struct fixture *f = *state;

	for (unsigned n = 1; n <= 64; n++)
		for (gva_t gva = RAM_B - 70; gva < RAM_B + 70; gva++) {
			u8 src[64], dst[64];

			for (unsigned i = 0; i < n; i++)
				src[i] = (u8)rand();
			assert_int_equal(mmu_write(&f->m, gva, src, n, 0), EMUL_CONTINUE);
			assert_int_equal(mmu_read(&f->m, gva, dst, n, 0), EMUL_CONTINUE);
			assert_memory_equal(src, dst, n);
			for (unsigned i = 0; i < n; i++) {
				gva_t at = gva + i;
				u8 *p = at < RAM_B ? frame(f, 1) : frame(f, 9);

				assert_int_equal(p[at & 4095], src[i]);
			}
		}
	assert_int_equal(ncalls, 0);
}

static void test_fault_position(void **state)
{
	static const struct {
		const char *name;
		gva_t gva;
		unsigned n;
		bool write;
		u32 error;
		gva_t cr2;
	} rows[] = {
		{"read crossing into nothing", NOTHING - 1, 2, false, 0, NOTHING},
		{"write crossing into nothing", NOTHING - 1, 2, true, PF_W, NOTHING},
		{"read crossing out of nothing", NOTHING + 4095, 2, false, 0,
		 NOTHING + 4095},
		{"64 bytes crossing into nothing", NOTHING - 63, 64, true, PF_W, NOTHING},
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		u8 buf[64] = {0}, before[4096];
		enum emul r;

		memcpy(before, frame(f, 9), 4096);
		memset(&f->m.fault, 0, sizeof(f->m.fault));
		r = rows[i].write ? mmu_write(&f->m, rows[i].gva, buf, rows[i].n, 0)
				  : mmu_read(&f->m, rows[i].gva, buf, rows[i].n, 0);
		if (r != EMUL_FAULT || f->m.fault.error != rows[i].error ||
		    f->m.fault.cr2 != rows[i].cr2)
			fail_msg("%s: %d, error %x, cr2 %llx", rows[i].name, r,
				 f->m.fault.error, f->m.fault.cr2);
		assert_memory_equal(before, frame(f, 9), 4096);
	}
}

/* The address is looked at as a whole before any page is. */
static void test_non_canonical(void **state)
{
	struct fixture *f = *state;
	u64 v = 0;

	assert_int_equal(mmu_read64(&f->m, 0x7ffffffffffc, &v, 0), EMUL_FAULT);
	assert_int_equal(f->m.fault.vector, EXC_GP);
	assert_int_equal(f->m.fault.error, 0);
	assert_true(f->m.fault.has_error);
	assert_int_equal(mmu_write64(&f->m, 0x7ffffffffffc, v, ACC_SS), EMUL_FAULT);
	assert_int_equal(f->m.fault.vector, EXC_SS);
	assert_int_equal(mmu_probe_write(&f->m, 0xffff7fffffffffff, 1, 0), EMUL_FAULT);
	assert_int_equal(f->m.fault.vector, EXC_GP);
	/* -1: the last byte of the space; with two bytes it wraps to 0. */
	assert_int_equal(mmu_read16(&f->m, ~0ull, &(u16){0}, 0), EMUL_FAULT);
	assert_int_equal(f->m.fault.vector, EXC_PF);
	assert_int_equal(f->m.fault.cr2, ~0ull);
}

static void check_call(unsigned i, gpa_t gpa, unsigned n, bool write)
{
	if (i >= ncalls || calls[i].gpa != gpa || calls[i].n != n ||
	    calls[i].write != write)
		fail_msg("call %u of %u: %llx, %u, %d", i, ncalls, calls[i].gpa,
			 calls[i].n, calls[i].write);
}

static void test_device(void **state)
{
	struct fixture *f = *state;
	u8 buf[20];
	u32 v;

	assert_int_equal(mmu_read32(&f->m, DEVICE + 0x30, &v, 0), EMUL_CONTINUE);
	check_call(0, 0xfee00030, 4, false);
	assert_int_equal(v, 0x33323130);
	/* Larger accesses go in pieces of eight bytes, in order. */
	ncalls = 0;
	memset(buf, 0x11, sizeof(buf));
	assert_int_equal(mmu_write(&f->m, DEVICE + 4, buf, 20, 0), EMUL_CONTINUE);
	check_call(0, 0xfee00004, 8, true);
	check_call(1, 0xfee0000c, 8, true);
	check_call(2, 0xfee00014, 4, true);
	assert_int_equal(ncalls, 3);
	/* The client must act: the second piece is asked again by a second run. */
	ncalls = 0;
	io_at = 2;
	assert_int_equal(mmu_write(&f->m, DEVICE + 4, buf, 20, 0), EMUL_IO);
	assert_int_equal(ncalls, 2);
	/* There is no entry for a device: each access asks. */
	ncalls = io_at = 0;
	for (int i = 0; i < 5; i++)
		assert_int_equal(mmu_read32(&f->m, DEVICE, &v, 0), EMUL_CONTINUE);
	assert_int_equal(ncalls, 5);
}

/* Half RAM, half device: RAM is not written while the client must act. */
static void test_device_crossing(void **state)
{
	struct fixture *f = *state;
	u64 v = 0x8877665544332211;

	memset(frame(f, 2), 0, 4096);
	io_at = 1;
	assert_int_equal(mmu_write64(&f->m, DEVICE - 4, v, 0), EMUL_IO);
	check_call(0, 0xfee00000, 4, true);
	assert_int_equal(*(u32 *)(void *)(frame(f, 2) + 4092), 0);
	ncalls = io_at = 0;
	assert_int_equal(mmu_write64(&f->m, DEVICE - 4, v, 0), EMUL_CONTINUE);
	assert_int_equal(*(u32 *)(void *)(frame(f, 2) + 4092), 0x44332211);
	assert_memory_equal(calls[0].data, &(u32){0x88776655}, 4);
	/* Device first, RAM behind it. */
	ncalls = 0;
	assert_int_equal(mmu_write64(&f->m, AFTER - 2, v, 0), EMUL_CONTINUE);
	check_call(0, 0xfee00ffe, 2, true);
	assert_memory_equal(frame(f, 3), "\x33\x44\x55\x66\x77\x88", 6);
	/* Device, and behind it nothing: it must not have been asked. */
	ncalls = 0;
	map(f, AFTER, 0);
	mmu_invlpg(&f->m, AFTER);
	assert_int_equal(mmu_write64(&f->m, AFTER - 2, v, 0), EMUL_FAULT);
	assert_int_equal(ncalls, 0);
}

/* A read-only slot: reads are RAM, writes are the device's. */
static void test_rom(void **state)
{
	struct fixture *f = *state;
	void *hva;
	u64 v = 1;

	assert_int_equal(mmu_read64(&f->m, ROM + 8, &v, 0), EMUL_CONTINUE);
	assert_int_equal(v, 0);
	assert_int_equal(ncalls, 0);
	assert_int_equal(mmu_write64(&f->m, ROM + 8, 5, 0), EMUL_CONTINUE);
	check_call(0, 0xf0000008, 8, true);
	assert_int_equal(mmu_rmw(&f->m, ROM + 8, 8, 0, &hva), EMUL_CONTINUE);
	assert_null(hva);
	assert_int_equal(mmu_page(&f->m, ROM, 4096, false, 0, &hva), EMUL_CONTINUE);
	assert_ptr_equal(hva, rom);
	assert_int_equal(mmu_page(&f->m, ROM, 4096, true, 0, &hva), EMUL_CONTINUE);
	assert_null(hva);
	/* Both halves of a read-modify-write. */
	ncalls = 0;
	assert_int_equal(mmu_rmw_begin(&f->m, ROM + 8, 4, 0, &v), EMUL_CONTINUE);
	assert_int_equal(mmu_rmw_end(&f->m, &v), EMUL_CONTINUE);
	assert_int_equal(ncalls, 1);
	check_call(0, 0xf0000008, 4, true);
}

/* --- read-modify-write ---------------------------------------------------------- */

static void test_rmw_pointer(void **state)
{
	struct fixture *f = *state;
	void *hva;

	assert_int_equal(mmu_rmw(&f->m, RAM_A + 16, 8, 0, &hva), EMUL_CONTINUE);
	assert_ptr_equal(hva, frame(f, 1) + 16);
	assert_int_equal(mmu_rmw(&f->m, RAM_B - 4, 8, 0, &hva), EMUL_CONTINUE);
	assert_null(hva);
	assert_int_equal(mmu_rmw(&f->m, DEVICE, 4, 0, &hva), EMUL_CONTINUE);
	assert_null(hva);
	/* The fault of a read-modify-write is that of a write. */
	assert_int_equal(mmu_rmw(&f->m, NOTHING, 4, 0, &hva), EMUL_FAULT);
	assert_int_equal(f->m.fault.error, PF_W);
	map(f, RAM_A, (DATA + 4096) | PTE_P);
	mmu_invlpg(&f->m, RAM_A);
	assert_int_equal(mmu_rmw(&f->m, RAM_A, 4, 0, &hva), EMUL_FAULT);
	assert_int_equal(f->m.fault.error, PF_W | PF_P);
}

static void test_rmw_halves(void **state)
{
	static const unsigned sizes[] = {1, 2, 4, 8, 16};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
		for (gva_t gva = RAM_B - 32; gva < RAM_B + 16; gva++) {
			unsigned n = sizes[i];
			u8 before[16], old[16], new[16], now[16];

			assert_int_equal(mmu_read(&f->m, gva, before, n, 0),
					 EMUL_CONTINUE);
			assert_int_equal(mmu_rmw_begin(&f->m, gva, n, 0, old),
					 EMUL_CONTINUE);
			assert_memory_equal(old, before, n);
			for (unsigned k = 0; k < n; k++)
				new[k] = (u8)(old[k] * 3 + k + 1);
			assert_int_equal(mmu_rmw_end(&f->m, new), EMUL_CONTINUE);
			assert_int_equal(mmu_read(&f->m, gva, now, n, 0), EMUL_CONTINUE);
			assert_memory_equal(now, new, n);
			/* The lock is free again, also without a write. */
			assert_int_equal(mmu_rmw_begin(&f->m, gva, n, 0, old),
					 EMUL_CONTINUE);
			assert_int_equal(mmu_rmw_end(&f->m, NULL), EMUL_CONTINUE);
			assert_int_equal(pthread_mutex_trylock(&f->mem->rmw), 0);
			pthread_mutex_unlock(&f->mem->rmw);
		}
	assert_int_equal(mmu_rmw_begin(&f->m, NOTHING - 4, 8, 0, calls), EMUL_FAULT);
	assert_int_equal(pthread_mutex_trylock(&f->mem->rmw), 0);
	pthread_mutex_unlock(&f->mem->rmw);
}

/* Somebody else wrote in between: the second half asks for another run. */
static void test_rmw_lost(void **state)
{
	static const unsigned sizes[] = {1, 2, 4, 8, 16};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		u8 old[16], new[16] = {1};
		u8 *p = frame(f, 1) + 64;

		memset(p, 0, 16);
		assert_int_equal(mmu_rmw_begin(&f->m, RAM_A + 64, sizes[i], 0, old),
				 EMUL_CONTINUE);
		p[sizes[i] - 1] = 0x77;
		assert_int_equal(mmu_rmw_end(&f->m, new), EMUL_RETRY);
		assert_int_equal(p[sizes[i] - 1], 0x77);
		assert_int_equal(p[0], sizes[i] == 1 ? 0x77 : 0);
	}
}

/* Implicit accesses at CPL 3 are the supervisor's, and leave no way in. */
static void test_implicit(void **state)
{
	struct fixture *f = *state;
	u64 v;

	table(f, PT)[5] &= ~PTE_U; /* supervisor page */
	mmu_set_cpl(&f->m, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(mmu_read64(&f->m, RAM_A, &v, ACC_IMPLICIT),
				 EMUL_CONTINUE);
		assert_int_equal(mmu_write64(&f->m, RAM_A, v, ACC_IMPLICIT),
				 EMUL_CONTINUE);
		assert_int_equal(mmu_read64(&f->m, RAM_A, &v, 0), EMUL_FAULT);
		assert_int_equal(f->m.fault.error, PF_P | PF_U);
		assert_int_equal(mmu_write64(&f->m, RAM_A, v, 0), EMUL_FAULT);
	}
}

static void test_fetch_bytes(void **state)
{
	struct fixture *f = *state;
	u8 buf[15];

	memset(frame(f, 1) + 4090, 0x90, 6);
	memset(frame(f, 9), 0x91, 16);
	assert_int_equal(mmu_fetch_bytes(&f->m, RAM_B - 6, buf, 15), EMUL_CONTINUE);
	assert_memory_equal(
		buf, "\x90\x90\x90\x90\x90\x90\x91\x91\x91\x91\x91\x91\x91\x91\x91", 15);
	assert_int_equal(mmu_fetch_bytes(&f->m, NOTHING - 3, buf, 3), EMUL_CONTINUE);
	assert_int_equal(mmu_fetch_bytes(&f->m, NOTHING - 3, buf, 4), EMUL_FAULT);
	assert_int_equal(f->m.fault.cr2, NOTHING);
	assert_int_equal(f->m.fault.error, PF_I);
	/* Code in a device is not executed: nothing is read there. */
	struct mmu_code code;

	assert_int_equal(mmu_fetch(&f->m, DEVICE, &code), EMUL_CONTINUE);
	assert_null(code.bp);
	assert_int_equal(mmu_fetch_bytes(&f->m, DEVICE + 1, buf, 2), EMUL_INTERCEPT);
	assert_int_equal(ncalls, 0);
}

/* --- memory that the client takes away ------------------------------------------- */

static void on_fault(int sig, siginfo_t *info, void *uc)
{
	if (!hostfault_handle(sig, info, uc))
		abort();
}

static int read_it(void *arg)
{
	struct fixture *f = arg;

	return mmu_read64(&f->m, RAM_A, &(u64){0}, 0) == EMUL_CONTINUE;
}

static int write_it(void *arg)
{
	struct fixture *f = arg;

	return mmu_write64(&f->m, RAM_A, 7, 0) == EMUL_CONTINUE;
}

static int rmw_it(void *arg)
{
	struct fixture *f = arg;
	u64 old;
	enum emul r = mmu_rmw_begin(&f->m, RAM_A, 8, 0, &old);

	return r == EMUL_CONTINUE && mmu_rmw_end(&f->m, &old) == EMUL_CONTINUE;
}

static int walk_it(void *arg)
{
	struct fixture *f = arg;

	return mmu_read64(&f->m, 0x40000000, &(u64){0}, 0) == EMUL_CONTINUE;
}

/* Inside an attempt the access ends it with -EFAULT; the mmu is as before, no
 * lock is held, and the memory can come back. */
static void test_host_faults(void **state)
{
	static int (*const ways[])(void *) = {read_it, write_it, rmw_it, walk_it};
	struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	struct fixture *f = *state;

	sigaction(SIGSEGV, &act, NULL);
	table(f, PDPT)[1] = 0x9000 | PTE_P | PTE_W;
	table(f, 0x9000)[0] = PT | PTE_P | PTE_W;
	table(f, PT)[0] = DATA | PTE_P;
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++)
		for (int cached = 0; cached < 2; cached++) {
			u8 *page = ways[i] == walk_it ? f->ram + 0x9000 : frame(f, 1);

			mmu_flush_guest(&f->m);
			if (cached && ways[i] != walk_it)
				assert_int_equal(hostfault_try(f->mem, ways[i], f), 1);
			assert_int_equal(mprotect(page, 4096, PROT_NONE), 0);
			assert_int_equal(hostfault_try(f->mem, ways[i], f), -EFAULT);
			assert_int_equal(pthread_mutex_trylock(&f->mem->rmw), 0);
			pthread_mutex_unlock(&f->mem->rmw);
			assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
			assert_int_equal(hostfault_try(f->mem, ways[i], f), 1);
		}
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_crossing),	    TEST(test_fault_position),
		TEST(test_non_canonical),   TEST(test_device),
		TEST(test_device_crossing), TEST(test_rom),
		TEST(test_rmw_pointer),	    TEST(test_rmw_halves),
		TEST(test_rmw_lost),	    TEST(test_implicit),
		TEST(test_fetch_bytes),	    TEST(test_host_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
