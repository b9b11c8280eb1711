/* SPDX-License-Identifier: MIT */
/*
 * Several vCPUs at once, each a thread with an mmu over the same memory: races
 * on page tables, pages that become tracked while they are written, slots that
 * go away under running vCPUs.
 */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#ifdef LOCUM_SANITIZE
#define ROUNDS(n) ((n) / 10)
#else
#define ROUNDS(n) (n)
#endif
#define MAX_VCPUS 4

/* A slot of its own, mapped by a 2M page. */
#define STORM_GPA 0x10000000ull
#define STORM_GVA (0x40000000ull + STORM_GPA)

struct vcpu {
	struct mmu m;
	_Atomic u32 attn;
	pthread_t thread;
	unsigned id;
	_Atomic u64 steps;
	_Atomic u32 parked;
	u64 value;
};

static struct fixture *f;
static struct vcpu vcpus[MAX_VCPUS];
static unsigned nvcpus;
static _Atomic u32 stop, park, failed;
static _Atomic u64 mmio_calls;

static enum emul mmio(struct mmu *m, gpa_t gpa, void *data, unsigned n, bool write)
{
	(void)m, (void)gpa;
	if (!write)
		memset(data, 0xff, n);
	mmio_calls++;
	return EMUL_CONTINUE;
}

static const struct mmu_ops ops = {.mmio = mmio};

static void fail_once(const char *what, u64 a, u64 b)
{
	if (!failed++)
		fprintf(stderr, "%s (%llx, %llx)\n", what, a, b);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* As an engine does between instructions. */
static void boundary(struct vcpu *v)
{
	if (v->attn & ATTN_MEM)
		mmu_poll(&v->m);
	v->attn &= ATTN_MEM; /* atomic: a request may come just now */
	v->steps++;
	if (!park)
		return;
	mmu_exit_guest(&v->m);
	v->parked = 1;
	while (park && !stop)
		sched_yield();
	v->parked = 0;
	mmu_enter_guest(&v->m);
}

static void start(unsigned n, void *(*fn)(void *))
{
	static struct fixture storage;
	static const struct tlb_config config = {0};

	f = &storage;
	fixture_make(f, config);
	mmu_exit_guest(&f->m); /* its vCPU stays outside */
	for (unsigned i = 0; i < 512; i++)
		table(f, PT)[i] = (DATA + i * 4096) | PTE_P | PTE_W;
	memset(table(f, DATA + 32 * 4096), 0, 4096); /* vCPUs count from 0 in it */
	table(f, PDPT)[1] = 0x9000 | PTE_P | PTE_W;
	table(f, 0x9000)[STORM_GPA >> 21] = STORM_GPA | PTE_P | PTE_W | PTE_PS;
	stop = park = failed = 0;
	nvcpus = n;
	for (unsigned i = 0; i < n; i++) {
		struct vcpu *v = &vcpus[i];

		memset((void *)v, 0, sizeof(*v));
		v->id = i;
		assert_int_equal(mmu_init(&v->m, f->mem, &ops, &v->attn, &config), 0);
		mmu_set_efer(&v->m, EFER_LME | EFER_LMA | EFER_NXE);
		mmu_set_cr4(&v->m, CR4_PAE);
		mmu_set_cr3(&v->m, PML4);
		mmu_set_cr0(&v->m, CR0_PE | CR0_PG | CR0_WP);
		assert_int_equal(pthread_create(&v->thread, NULL, fn, v), 0);
	}
	for (unsigned i = 0; i < n; i++)
		while (!vcpus[i].steps)
			sched_yield();
}

static void finish(void)
{
	stop = 1;
	for (unsigned i = 0; i < nvcpus; i++) {
		pthread_join(vcpus[i].thread, NULL);
		mmu_fini(&vcpus[i].m);
	}
	mmu_enter_guest(&f->m);
	fixture_free(f);
	assert_int_equal(failed, 0);
}

static void wait_parked(void)
{
	park = 1;
	for (unsigned i = 0; i < nvcpus; i++)
		while (!vcpus[i].parked)
			sched_yield();
}

static void wait_resumed(void)
{
	park = 0;
	for (unsigned i = 0; i < nvcpus; i++)
		while (vcpus[i].parked)
			sched_yield();
}

/* --- accessed and dirty bits ----------------------------------------------------- */

#define AD_PAGES 4

static void *ad_vcpu(void *arg)
{
	struct vcpu *v = arg;
	unsigned r = v->id;

	mmu_enter_guest(&v->m);
	while (!stop) {
		gva_t gva = 0x10000 +
			    (r = r * 1103515245 + 12345) / 65536 % AD_PAGES * 4096 +
			    v->id * 8;
		enum emul e;
		u64 x;

		mmu_invlpg(&v->m, gva);
		e = r & 0x40 ? mmu_write64(&v->m, gva, r, 0)
			     : mmu_read64(&v->m, gva, &x, 0);
		if (e == EMUL_FAULT && v->m.fault.error != (r & 0x40 ? PF_W : 0))
			fail_once("fault", v->m.fault.error, gva);
		boundary(v);
	}
	mmu_exit_guest(&v->m);
	return NULL;
}

/*
 * The guest's kernel takes a PTE away with an exchange: what it gets has all A
 * and D bits, and afterwards no walk brings the entry back to life.
 */
static void test_ad_race(void **state)
{
	u64 seen = 0, cleared = 0;

	(void)state;
	start(2, ad_vcpu);
	for (int i = 0; (i < ROUNDS(200000) || seen != (PTE_A | PTE_D)) && !failed; i++) {
		unsigned k = (unsigned)i % AD_PAGES;
		u64 *pte = &table(f, PT)[16 + k],
		    clean = (DATA + k * 4096) | PTE_P | PTE_W, old;

		__atomic_store_n(pte, clean, __ATOMIC_SEQ_CST);
		for (volatile int d = 0; d < (i & 63); d++)
			;
		old = __atomic_exchange_n(pte, 0, __ATOMIC_SEQ_CST);
		if ((old & ~(PTE_A | PTE_D)) != clean ||
		    ((old & PTE_D) && !(old & PTE_A)))
			fail_once("PTE changed", old, clean);
		seen |= old & (PTE_A | PTE_D);
		for (volatile int d = 0; d < (i & 31); d++)
			;
		if (__atomic_load_n(pte, __ATOMIC_SEQ_CST))
			fail_once("PTE came back to life", *pte, old);
		cleared++;
		if ((i & 1023) == 0)
			sched_yield();
	}
	finish();
	printf("CASES %llu\n", cleared);
	assert_int_equal(seen, PTE_A | PTE_D);
}

/* --- pages that become tracked ------------------------------------------------------ */

#define TRACKED 0x20000ull /* page 32 of the tables, frame 32 */

static _Atomic u64 reports[MAX_VCPUS];

static void code_write(void *opaque, struct bpage *bp, unsigned off, unsigned n)
{
	(void)opaque, (void)bp, (void)n;
	reports[off / 64 % MAX_VCPUS]++;
}

static const struct mem_ops mem_ops = {.code_write = code_write};

static void *writing_vcpu(void *arg)
{
	struct vcpu *v = arg;
	gva_t gva = TRACKED + v->id * 64;

	mmu_enter_guest(&v->m);
	while (!stop) {
		if (mmu_write64(&v->m, gva, ++v->value, 0) != EMUL_CONTINUE)
			fail_once("write", v->id, 0);
		boundary(v);
	}
	mmu_exit_guest(&v->m);
	return NULL;
}

static u64 word(unsigned i)
{
	return __atomic_load_n(&table(f, DATA + 32 * 4096)[i * 8], __ATOMIC_SEQ_CST);
}

/* From the moment that mem_flag_page() returns every store is reported. */
static void one_tracking_round(struct bpage *bp)
{
	u64 value[MAX_VCPUS], before[MAX_VCPUS], after[MAX_VCPUS];

	mem_flag_page(f->mem, bp, BP_CODE, NULL, NULL, NULL);
	for (unsigned i = 0; i < nvcpus; i++) {
		before[i] = reports[i];
		value[i] = word(i);
		after[i] = reports[i];
	}
	for (volatile int d = 0; d < 3000; d++)
		;
	wait_parked();
	for (unsigned i = 0; i < nvcpus; i++) {
		u64 stores = word(i) - value[i];

		/* A store is seen before it is reported. */
		if (reports[i] - before[i] < stores)
			fail_once("stores not reported", stores, reports[i] - before[i]);
		if (reports[i] - after[i] > stores + 1)
			fail_once("more reports than stores", stores,
				  reports[i] - after[i]);
	}
	__atomic_fetch_and((u32 *)(void *)&bp->flags, ~(u32)BP_CODE, __ATOMIC_SEQ_CST);
	wait_resumed();
	for (unsigned i = 0; i < nvcpus; i++) {
		u64 steps = vcpus[i].steps;

		while (vcpus[i].steps < steps + 5)
			sched_yield();
	}
}

static void test_tracking(void **state)
{
	struct bpage *bp;

	(void)state;
	start(2, writing_vcpu);
	f->mem->ops = &mem_ops;
	bp = mem_bpage(f->mem, mem_slots(f->mem, 0)->slot[0], (DATA >> 12) + 32);
	for (int i = 0; i < ROUNDS(2000) && !failed; i++)
		one_tracking_round(bp);
	finish();
}

/* --- vCPUs that make each other wait --------------------------------------------------
 */

static void *mutual_vcpu(void *arg)
{
	struct vcpu *v = arg;
	unsigned r = v->id * 77;

	mmu_enter_guest(&v->m);
	while (!stop) {
		gva_t gva = 0x40000 + (r = r * 1103515245 + 12345) / 65536 % 8 * 4096;
		struct mmu_code code;

		if (mmu_write64(&v->m, gva + v->id * 64, r, 0) != EMUL_CONTINUE)
			fail_once("write", gva, 0);
		if (r >> 24 & 3) {
			boundary(v);
			continue;
		}
		if (mmu_fetch(&v->m, gva, &code) != EMUL_CONTINUE)
			fail_once("fetch", gva, 0);
		mmu_track_page(&v->m, &code, BP_WATCH);
		/* Nobody holds an entry: only we can have one made, and do not. */
		if (code.bp->writers & v->m.tlb.writer)
			fail_once("own entry left", gva, code.bp->writers);
		__atomic_fetch_and((u32 *)(void *)&code.bp->flags, ~(u32)BP_WATCH,
				   __ATOMIC_SEQ_CST);
		boundary(v);
	}
	mmu_exit_guest(&v->m);
	return NULL;
}

/* Twice as many vCPUs as processors, all revoking each other's entries: it goes
 * on, and nobody starves. */
static void test_mutual(void **state)
{
	u64 waits = 0, ns = 0, least = ~0ull;
	double end = now() + 2;

	(void)state;
	start(4, mutual_vcpu);
	while (now() < end && !failed)
		usleep(1000);
	stop = 1;
	for (unsigned i = 0; i < nvcpus; i++) {
		pthread_join(vcpus[i].thread, NULL);
		waits += vcpus[i].m.tlb.stats.track_waits;
		ns += vcpus[i].m.tlb.stats.track_wait_ns;
		least = MIN(least, vcpus[i].steps);
		mmu_fini(&vcpus[i].m);
	}
	printf("TABLE mutual tracking: least %llu steps a vCPU, %llu waits, %llu ns "
	       "each\n",
	       least, waits, waits ? ns / waits : 0);
	nvcpus = 0;
	finish();
	assert_true(least > 100);
}

/* --- slots under running vCPUs --------------------------------------------------------
 */

static void *storm_vcpu(void *arg)
{
	struct vcpu *v = arg;
	gva_t gva = STORM_GVA + v->id * 64;
	u64 x;

	mmu_enter_guest(&v->m);
	while (!stop) {
		v->value++;
		if (mmu_write64(&v->m, gva, v->value, 0) != EMUL_CONTINUE ||
		    mmu_read64(&v->m, gva, &x, 0) != EMUL_CONTINUE)
			fail_once("access", v->id, v->value);
		/* What was read is what we wrote, or no memory, or new memory. */
		if (x != v->value && x != ~0ull && x != 0)
			fail_once("read", x, v->value);
		boundary(v);
	}
	mmu_exit_guest(&v->m);
	return NULL;
}

static int set_storm(u8 *hva, u64 size)
{
	struct kvm_userspace_memory_region r = {.slot = 9,
						.guest_phys_addr = STORM_GPA,
						.memory_size = size,
						.userspace_addr = (u64)(uintptr_t)hva};

	return mem_set_region(f->mem, &r);
}

static void on_segv(int sig)
{
	static const char text[] = "a vCPU used memory of a slot that was deleted\n";

	(void)sig;
	_exit(write(2, text, sizeof(text) - 1) ? 1 : 2);
}

/* After each change the memory that was in use is made inaccessible: whoever
 * still held it would die of SIGSEGV. */
static void test_slot_storm(void **state)
{
	double worst = 0, begin = now();
	u8 *page[2];
	int i;

	(void)state;
	signal(SIGSEGV, on_segv); /* cmocka's jumps, from whatever thread */
	for (i = 0; i < 2; i++)
		page[i] = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	start(2, storm_vcpu);
	for (i = 0; i < ROUNDS(10000) && !failed; i++) {
		u8 *new = page[i & 1];
		double t;

		mprotect(new, 4096, PROT_READ | PROT_WRITE);
		memset(new, 0, 4096);
		t = now();
		if (set_storm(new, 4096))
			fail_once("set", (u64)i, 0);
		worst = MAX(worst, now() - t);
		for (volatile int d = 0; d < 500; d++)
			;
		if ((i & 7) == 0)
			sched_yield();
		t = now();
		if (set_storm(NULL, 0))
			fail_once("delete", (u64)i, 0);
		worst = MAX(worst, now() - t);
		mprotect(new, 4096, PROT_NONE);
	}
	printf("TABLE slot storm: %d replacements in %.2f s, worst %.2f ms, %llu MMIO "
	       "accesses\n",
	       i, now() - begin, worst * 1e3, (u64)mmio_calls);
	finish();
	assert_true(now() - begin < 60);
	for (i = 0; i < 2; i++)
		munmap(page[i], 4096);
}

/* --- read-modify-write by both ways
 * ------------------------------------------------------ */

#define COUNTER 0x30040ull

static void *counting_vcpu(void *arg)
{
	struct vcpu *v = arg;

	mmu_enter_guest(&v->m);
	for (int i = 0; i < ROUNDS(100000); i++) {
		enum emul r;
		u64 x;
		void *hva;

		do {
			r = mmu_rmw(&v->m, COUNTER, 8, ACC_LOCKED, &hva);
			if (hva) {
				__atomic_fetch_add((u64 *)hva, 1, __ATOMIC_SEQ_CST);
				break;
			}
			r = mmu_rmw_begin(&v->m, COUNTER, 8, ACC_LOCKED, &x);
			if (r == EMUL_CONTINUE) {
				x++;
				r = mmu_rmw_end(&v->m, &x);
			}
		} while (r == EMUL_RETRY);
		if (r != EMUL_CONTINUE)
			fail_once("rmw", r, 0);
		boundary(v);
	}
	mmu_exit_guest(&v->m);
	v->parked = 2;
	return NULL;
}

/* The page is tracked and released while both count: no increment is lost. */
static void test_rmw_race(void **state)
{
	struct bpage *bp;
	bool done = false;
	u64 toggles = 0;

	(void)state;
	start(2, counting_vcpu);
	bp = mem_bpage(f->mem, mem_slots(f->mem, 0)->slot[0],
		       (DATA >> 12) + (COUNTER >> 12));
	while (!done) {
		mem_flag_page(f->mem, bp, BP_WATCH, NULL, NULL, NULL);
		for (volatile int d = 0; d < 200; d++)
			;
		__atomic_fetch_and((u32 *)(void *)&bp->flags, ~(u32)BP_WATCH,
				   __ATOMIC_SEQ_CST);
		for (volatile int d = 0; d < 200; d++)
			;
		toggles++;
		done = vcpus[0].parked == 2 && vcpus[1].parked == 2;
		if ((toggles & 15) == 0)
			sched_yield();
	}
	/* The frame's words began as its number. */
	u64 end = table(f, DATA + (COUNTER & PAGE_MASK))[8];

	printf("CASES %d (%llu times tracked)\n", 2 * ROUNDS(100000), toggles);
	finish();
	assert_int_equal(end, (COUNTER >> 12) + 2 * ROUNDS(100000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ad_race),	 cmocka_unit_test(test_tracking),
		cmocka_unit_test(test_mutual),	 cmocka_unit_test(test_slot_storm),
		cmocka_unit_test(test_rmw_race),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
