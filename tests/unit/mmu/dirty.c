/* SPDX-License-Identifier: MIT */
/*
 * Dirty logs: the pages reported are the pages written, neither more nor less,
 * whoever writes them and by which way.
 */
#include "fixture.h"

#include <errno.h>

#define DATA_GPA  0x800000ull /* logged slot, 200 pages, mapped at DATA_GVA */
#define DATA_GVA  0x200000ull
#define NPAGES	  200
#define LOG_WORDS ((NPAGES + 63) / 64)

static int set_slot(struct fixture *f, u32 slot, u32 flags, u64 gpa, u64 size, u8 *hva)
{
	struct kvm_userspace_memory_region r = {
		.slot = slot,
		.flags = flags,
		.guest_phys_addr = gpa,
		.memory_size = size,
		.userspace_addr = (u64)(uintptr_t)hva,
	};
	int err;

	mmu_exit_guest(&f->m); /* the test is client and vCPU at once */
	err = mem_set_region(f->mem, &r);
	mmu_enter_guest(&f->m);
	return err;
}

static void make(struct fixture *f, struct tlb_config config, u64 mode)
{
	fixture_make(f, config);
	assert_int_equal(mem_set_dirty_mode(f->mem, mode), 0);
	assert_int_equal(set_slot(f, 0, 0, 0, 0, NULL), 0);
	assert_int_equal(set_slot(f, 0, 0, 0, DATA_GPA, f->ram), 0);
	assert_int_equal(set_slot(f, 1, KVM_MEM_LOG_DIRTY_PAGES, DATA_GPA, NPAGES * 4096,
				  f->ram + DATA_GPA),
			 0);
	table(f, PD)[1] = 0x5000 | PTE_P | PTE_W | PTE_U;
	for (u64 i = 0; i < NPAGES; i++)
		table(f, 0x5000)[i] = (DATA_GPA + i * 4096) | PTE_P | PTE_W | PTE_U;
}

static int out(void *arg, size_t off, const void *src, size_t n)
{
	memcpy((u8 *)arg + off, src, n);
	return 0;
}

static int in(void *arg, size_t off, void *dst, size_t n)
{
	memcpy(dst, (u8 *)arg + off, n);
	return 0;
}

/* As an ioctl does it: the vCPU is not in guest mode, or acknowledges. */
static void get_log(struct fixture *f, u64 *log)
{
	mmu_exit_guest(&f->m);
	memset(log, 0xa5, LOG_WORDS * 8);
	assert_int_equal(mem_get_dirty_log(f->mem, 1, out, log), 0);
	mmu_enter_guest(&f->m);
}

static void clear_log(struct fixture *f, u64 first, u32 n, u64 *bits)
{
	mmu_exit_guest(&f->m);
	assert_int_equal(mem_clear_dirty_log(f->mem, 1, first, n, in, bits), 0);
	mmu_enter_guest(&f->m);
}

static void mark(u64 *want, unsigned page)
{
	want[page / 64] |= BIT64(page % 64);
}

/* One access by one of the ways there are; @want learns what was written. */
static void access_page(struct fixture *f, unsigned page, u64 *want)
{
	gva_t gva = DATA_GVA + page * 4096ull + (unsigned)rand() % 500 * 8;
	gva_t end = DATA_GVA + page * 4096ull + 4092;
	struct mmu *m = &f->m;
	bool next = page + 1 < NPAGES;
	u64 v = 0;
	void *hva;

	switch (rand() % 9) {
	case 0:
		assert_int_equal(mmu_read64(m, gva, &v, 0), EMUL_CONTINUE);
		return;
	case 1:
		assert_int_equal(mmu_probe_write(m, gva, 8, 0), EMUL_CONTINUE);
		return;
	case 2: /* crosses into the next page, or faults there and writes nothing */
		assert_int_equal(mmu_write64(m, end, 1, 0),
				 next ? EMUL_CONTINUE : EMUL_FAULT);
		if (!next)
			return;
		mark(want, page + 1);
		break;
	case 3:
		assert_int_equal(mmu_rmw(m, gva, 8, 0, &hva), EMUL_CONTINUE);
		assert_non_null(hva);
		__atomic_fetch_add((u64 *)hva, 1, __ATOMIC_SEQ_CST);
		break;
	case 4:
		assert_int_equal(mmu_rmw_begin(m, gva, 8, 0, &v), EMUL_CONTINUE);
		if (rand() & 1) {
			assert_int_equal(mmu_rmw_end(m, NULL), EMUL_CONTINUE);
			return;
		}
		assert_int_equal(mmu_rmw_end(m, &v), EMUL_CONTINUE);
		break;
	case 5:
		assert_int_equal(mem_write(f->mem, DATA_GPA + page * 4096ull, &v, 3), 0);
		break;
	default:
		assert_int_equal(mmu_write32(m, gva, 3, 0), EMUL_CONTINUE);
		break;
	}
	mark(want, page);
}

static void compare(const u64 *want, const u64 *got, const char *what)
{
	for (unsigned i = 0; i < NPAGES; i++)
		if ((want[i / 64] ^ got[i / 64]) >> (i % 64) & 1)
			fail_msg("%s: page %u %s", what, i,
				 want[i / 64] >> (i % 64) & 1
					 ? "was written, not reported"
					 : "was reported, not written");
	assert_int_equal(want[NPAGES / 64], got[NPAGES / 64]); /* and no bits beyond */
}

static void random_rounds(struct tlb_config config)
{
	struct fixture f;
	u64 log[LOG_WORDS];

	make(&f, config, 0);
	for (int round = 0; round < 300; round++) {
		u64 want[LOG_WORDS] = {0};

		for (int i = rand() % 200; i > 0; i--)
			access_page(&f, (unsigned)rand() % NPAGES, want);
		get_log(&f, log);
		compare(want, log, "GET_DIRTY_LOG");
	}
	fixture_free(&f);
}

static void test_automatic(void **state)
{
	unsigned seed =
		getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : (unsigned)getpid();

	(void)state;
	printf("SEED %u\n", seed);
	srand(seed);
	random_rounds((struct tlb_config){0});
	random_rounds((struct tlb_config){.size = 1});
}

/* KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2: reading clears nothing, CLEAR clears. */
static void test_manual(void **state)
{
	u64 want[LOG_WORDS] = {0}, log[LOG_WORDS];
	struct fixture f;

	(void)state;
	make(&f, (struct tlb_config){0}, KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE);
	for (int round = 0; round < 300; round++) {
		u64 bits[LOG_WORDS], first = 64ull * ((unsigned)rand() % LOG_WORDS);
		u32 n = rand() & 1 ? 64 : (u32)(NPAGES - first);

		n = first + n > NPAGES ? (u32)(NPAGES - first) : n;
		for (int i = rand() % 50; i > 0; i--)
			access_page(&f, (unsigned)rand() % NPAGES, want);
		get_log(&f, log);
		compare(want, log, "read without clearing");
		for (unsigned i = 0; i < LOG_WORDS; i++)
			bits[i] = ((u64)rand() << 32 | (u32)rand()) &
				  log[first / 64 + i < LOG_WORDS ? first / 64 + i : 0];
		clear_log(&f, first, n, bits);
		for (unsigned i = 0; i < (n + 63) / 64; i++)
			want[first / 64 + i] &= ~bits[i];
		get_log(&f, log);
		compare(want, log, "after CLEAR_DIRTY_LOG");
	}
	fixture_free(&f);
}

static void test_initially_set(void **state)
{
	struct fixture f;
	u64 log[LOG_WORDS];

	(void)state;
	make(&f, (struct tlb_config){0},
	     KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET);
	get_log(&f, log);
	for (unsigned i = 0; i < NPAGES; i++)
		assert_true(log[i / 64] >> (i % 64) & 1);
	assert_int_equal(log[NPAGES / 64] >> (NPAGES % 64), 0);
	/* Moving the slot keeps its log; it does not start full again. */
	clear_log(&f, 0, NPAGES, (u64[LOG_WORDS]){~0ull, ~0ull, ~0ull, ~1ull});
	assert_int_equal(set_slot(&f, 1, KVM_MEM_LOG_DIRTY_PAGES, 64 << 20, NPAGES * 4096,
				  f.ram + DATA_GPA),
			 0);
	get_log(&f, log);
	assert_int_equal(log[0] | log[1] | log[2], 0);
	assert_int_equal(log[3], 1);
	fixture_free(&f);
}

/* Switching the log on while write entries exist: the next writes are seen. */
static void test_switch_on(void **state)
{
	struct fixture f;
	u64 log[LOG_WORDS], want[LOG_WORDS] = {0};

	(void)state;
	make(&f, (struct tlb_config){0}, 0);
	assert_int_equal(set_slot(&f, 1, 0, DATA_GPA, NPAGES * 4096, f.ram + DATA_GPA),
			 0);
	for (u64 i = 0; i < NPAGES; i++)
		assert_int_equal(mmu_write64(&f.m, DATA_GVA + i * 4096, i, 0),
				 EMUL_CONTINUE);
	mmu_exit_guest(&f.m);
	assert_int_equal(mem_get_dirty_log(f.mem, 1, out, log), -ENOENT);
	mmu_enter_guest(&f.m);
	assert_int_equal(set_slot(&f, 1, KVM_MEM_LOG_DIRTY_PAGES, DATA_GPA, NPAGES * 4096,
				  f.ram + DATA_GPA),
			 0);
	assert_int_equal(mmu_write64(&f.m, DATA_GVA + 77 * 4096, 1, 0), EMUL_CONTINUE);
	mark(want, 77);
	get_log(&f, log);
	compare(want, log, "log switched on");
	fixture_free(&f);
}

static void test_errors(void **state)
{
	struct fixture f;
	u64 log[LOG_WORDS] = {0};

	(void)state;
	make(&f, (struct tlb_config){0}, 0);
	mmu_exit_guest(&f.m);
	assert_int_equal(mem_get_dirty_log(f.mem, 0, out, log), -ENOENT);
	assert_int_equal(mem_get_dirty_log(f.mem, 9, out, log), -ENOENT);
	assert_int_equal(mem_get_dirty_log(f.mem, 1 | 2 << 16, out, log), -EINVAL);
	assert_int_equal(mem_get_dirty_log(f.mem, MEM_MAX_SLOTS, out, log), -EINVAL);
	assert_int_equal(mem_clear_dirty_log(f.mem, 1, 1, 64, in, log), -EINVAL);
	assert_int_equal(mem_clear_dirty_log(f.mem, 1, 0, 63, in, log), -EINVAL);
	assert_int_equal(mem_clear_dirty_log(f.mem, 1, 64, NPAGES, in, log), -EINVAL);
	assert_int_equal(mem_clear_dirty_log(f.mem, 1, 256, 64, in, log), -EINVAL);
	assert_int_equal(mem_clear_dirty_log(f.mem, 1, ~0ull & ~63ull, 64, in, log),
			 -EINVAL);
	assert_int_equal(mem_clear_dirty_log(f.mem, 1, 192, NPAGES - 192, in, log), 0);
	assert_int_equal(mem_clear_dirty_log(f.mem, 0, 0, 64, in, log), -ENOENT);
	assert_int_equal(mem_set_dirty_mode(f.mem, KVM_DIRTY_LOG_INITIALLY_SET), -EINVAL);
	assert_int_equal(mem_set_dirty_mode(f.mem, 4), -EINVAL);
	mmu_enter_guest(&f.m);
	fixture_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_automatic),     cmocka_unit_test(test_manual),
		cmocka_unit_test(test_initially_set), cmocka_unit_test(test_switch_on),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
