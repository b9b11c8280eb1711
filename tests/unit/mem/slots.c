/* SPDX-License-Identifier: MIT */
/* KVM_SET_USER_MEMORY_REGION: every rule a row; and which pages are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/mem.h"

#define MIB (1ull << 20)

static u8 *map_private(size_t n)
{
	u8 *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static u8 *map_file(int fd, size_t n, off_t off, int flags)
{
	u8 *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, fd, off);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static int set(struct mem *mem, u32 slot, u32 flags, u64 gpa, u64 size, u64 hva)
{
	struct kvm_userspace_memory_region r = {
		.slot = slot,
		.flags = flags,
		.guest_phys_addr = gpa,
		.memory_size = size,
		.userspace_addr = hva,
	};

	return mem_set_region(mem, &r);
}

static u64 addr(const void *p)
{
	return (u64)(uintptr_t)p;
}

/* Before each row: slot 1 at 1M..2M on `base`, slot 2 read-only at 4M..5M. */
#define BASE 0x100000000000ull /* stands for the address of the client's memory */
#define LOG  KVM_MEM_LOG_DIRTY_PAGES
#define RO   KVM_MEM_READONLY

static const struct {
	const char *name;
	u32 slot, flags;
	u64 gpa, size, hva;
	int want;
} rows[] = {
	{"new slot beside", 3, 0, 2 * MIB, MIB, BASE, 0},
	{"new slot before", 3, 0, 0, MIB, BASE, 0},
	{"same memory at a second address", 3, 0, 8 * MIB, MIB, BASE, 0},
	{"gpa not aligned", 3, 0, 2 * MIB + 1, MIB, BASE, -EINVAL},
	{"size not aligned", 3, 0, 2 * MIB, MIB - 1, BASE, -EINVAL},
	{"hva not aligned", 3, 0, 2 * MIB, MIB, BASE + 2048, -EINVAL},
	{"gpa wraps", 3, 0, -MIB, 2 * MIB, BASE, -EINVAL},
	{"gpa beyond 52 bits", 3, 0, 1ull << 52, MIB, BASE, -EINVAL},
	{"hva wraps", 3, 0, 2 * MIB, MIB, -4096ull, -EINVAL},
	{"hva of the kernel", 3, 0, 2 * MIB, MIB, 0xffff888000000000ull, -EINVAL},
	{"too many pages", 3, 0, 2 * MIB, 1ull << 43, 0, -EINVAL},
	{"unknown flag", 3, 4, 2 * MIB, MIB, BASE, -EINVAL},
	{"all unknown flags", 3, ~3u, 2 * MIB, MIB, BASE, -EINVAL},
	{"third address space", 3 | 2 << 16, 0, 2 * MIB, MIB, BASE, -EINVAL},
	{"slot number too large in the second", MEM_MAX_SLOTS | 1 << 16, 0, 2 * MIB, MIB,
	 BASE, -EINVAL},
	{"last slot number", MEM_MAX_SLOTS - 1, 0, 2 * MIB, MIB, BASE, 0},
	{"slot number too large", MEM_MAX_SLOTS, 0, 2 * MIB, MIB, BASE, -EINVAL},
	{"delete", 1, 0, 0, 0, 0, 0},
	{"delete with other values", 1, 0, 64 * MIB, 0, BASE + 4096, 0},
	{"delete what is not there", 3, 0, 0, 0, 0, -EINVAL},
	{"delete with an unaligned hva", 1, 0, 0, 0, 1, -EINVAL},
	{"overlaps the first page", 3, 0, MIB, 4096, BASE, -EEXIST},
	{"overlaps the last page", 3, 0, 2 * MIB - 4096, 8192, BASE, -EEXIST},
	{"covers another", 3, 0, 0, 4 * MIB, BASE, -EEXIST},
	{"the same again", 1, 0, MIB, MIB, BASE, 0},
	{"log switched on", 1, LOG, MIB, MIB, BASE, 0},
	{"moved", 1, 0, 16 * MIB, MIB, BASE, 0},
	{"moved over itself", 1, 0, MIB + 4096, MIB, BASE, 0},
	{"moved over another", 1, 0, 4 * MIB, MIB, BASE, -EEXIST},
	{"resized", 1, 0, MIB, MIB - 4096, BASE, -EINVAL},
	{"other memory", 1, 0, MIB, MIB, BASE + 4096, -EINVAL},
	{"made read-only", 1, RO, MIB, MIB, BASE, -EINVAL},
	{"made writable", 2, 0, 4 * MIB, MIB, BASE + MIB, -EINVAL},
	{"read-only and logged", 3, RO | LOG, 2 * MIB, MIB, BASE, 0},
};

static void test_rules(void **state)
{
	u8 *ram = map_private(2 * MIB);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mem *mem = mem_create(NULL, NULL);
		u64 gen, hva = rows[i].hva;
		int got;

		if (hva >> 44 == BASE >> 44)
			hva = hva - BASE + addr(ram);
		assert_int_equal(set(mem, 1, 0, MIB, MIB, addr(ram)), 0);
		assert_int_equal(set(mem, 2, RO, 4 * MIB, MIB, addr(ram) + MIB), 0);
		gen = mem_slots(mem, 0)->generation;
		got = set(mem, rows[i].slot, rows[i].flags, rows[i].gpa, rows[i].size,
			  hva);
		if (got != rows[i].want)
			fail_msg("%s: want %d, got %d", rows[i].name, rows[i].want, got);
		if (got && mem_slots(mem, 0)->generation != gen)
			fail_msg("%s: refused, but the table changed", rows[i].name);
		mem_destroy(mem);
	}
	munmap(ram, 2 * MIB);
}

static void test_find(void **state)
{
	struct mem *mem = mem_create(NULL, NULL);
	u8 *ram = map_private(MIB);

	(void)state;
	/* Every other page of 2 MiB, entered from the middle outwards. */
	for (unsigned i = 0; i < 256; i++) {
		unsigned page = i & 1 ? 256 + i / 2 * 2 : 254 - i / 2 * 2;

		assert_int_equal(
			set(mem, i, 0, page * 4096, 4096, addr(ram) + page / 2 * 4096),
			0);
	}
	for (unsigned page = 0; page < 520; page++) {
		const struct memslot *s = mem_find(mem_slots(mem, 0), page);

		if (page & 1 || page >= 512)
			assert_null(s);
		else
			assert_ptr_equal(s->hva, ram + page / 2 * 4096);
	}
	/* And away again. */
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(set(mem, i, 0, 0, 0, 0), 0);
	assert_int_equal(mem_slots(mem, 0)->count, 0);
	mem_destroy(mem);
	munmap(ram, MIB);
}

/* --- identity of pages --------------------------------------------------------- */

static struct bpage *page_of(struct mem *mem, gpa_t gpa)
{
	struct memslot *s = mem_find(mem_slots(mem, 0), gpa >> PAGE_SHIFT);

	assert_non_null(s);
	return mem_bpage(mem, s, (gpa >> PAGE_SHIFT) - s->gfn);
}

static void test_aliases(void **state)
{
	struct mem *mem = mem_create(NULL, NULL);
	int fd = memfd_create("ram", 0), other = memfd_create("other", 0);
	u8 *priv = map_private(MIB), *a, *b, *c, *d;

	(void)state;
	assert_int_equal(ftruncate(fd, MIB), 0);
	assert_int_equal(ftruncate(other, MIB), 0);
	a = map_file(fd, MIB, 0, MAP_SHARED);
	b = map_file(fd, MIB / 2, MIB / 2, MAP_SHARED);
	c = map_file(other, MIB, 0, MAP_SHARED);
	d = map_file(fd, MIB, 0, MAP_PRIVATE);
	assert_int_equal(set(mem, 1, 0, 0, MIB, addr(priv)), 0);
	assert_int_equal(set(mem, 2, 0, 2 * MIB, MIB / 2, addr(priv) + MIB / 2), 0);
	assert_int_equal(set(mem, 3, 0, 4 * MIB, MIB, addr(a)), 0);
	assert_int_equal(set(mem, 4, 0, 6 * MIB, MIB / 2, addr(b)), 0);
	assert_int_equal(set(mem, 5, 0, 8 * MIB, MIB, addr(c)), 0);
	assert_int_equal(set(mem, 6, 0, 10 * MIB, MIB, addr(d)), 0);

	/* One private page at two guest addresses. */
	assert_ptr_equal(page_of(mem, MIB / 2 + 0x3000), page_of(mem, 2 * MIB + 0x3000));
	assert_ptr_not_equal(page_of(mem, 0x3000), page_of(mem, 2 * MIB + 0x3000));
	/* One page of a file mapped twice, at different offsets. */
	assert_ptr_equal(page_of(mem, 4 * MIB + MIB / 2 + 0x7000),
			 page_of(mem, 6 * MIB + 0x7000));
	assert_ptr_not_equal(page_of(mem, 4 * MIB + 0x7000),
			     page_of(mem, 6 * MIB + 0x7000));
	/* Same offset of another file; a private mapping of the same file. */
	assert_ptr_not_equal(page_of(mem, 4 * MIB), page_of(mem, 8 * MIB));
	assert_ptr_not_equal(page_of(mem, 4 * MIB), page_of(mem, 10 * MIB));
	/* It really is one page. */
	a[MIB / 2 + 0x7000] = 0x5a;
	assert_int_equal(b[0x7000], 0x5a);
	/* A slot that moves keeps its pages. */
	struct bpage *before = page_of(mem, 0x9000);

	assert_int_equal(set(mem, 1, 0, 32 * MIB, MIB, addr(priv)), 0);
	assert_ptr_equal(page_of(mem, 32 * MIB + 0x9000), before);
	mem_destroy(mem);
	munmap(priv, MIB);
	munmap(a, MIB);
	munmap(b, MIB / 2);
	munmap(c, MIB);
	munmap(d, MIB);
	close(fd);
	close(other);
}

/* A slot over several mappings: private, shared, private. */
static void test_mixed_slot(void **state)
{
	struct mem *mem = mem_create(NULL, NULL);
	int fd = memfd_create("ram", 0);
	u8 *ram = map_private(16 * 4096), *alias;

	(void)state;
	assert_int_equal(ftruncate(fd, 16 * 4096), 0);
	for (unsigned i = 4; i < 12; i += 2)
		assert_ptr_equal(mmap(ram + i * 4096, 4096, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, (16 - i) * 4096 - 4096),
				 ram + i * 4096);
	alias = map_file(fd, 16 * 4096, 0, MAP_SHARED);
	assert_int_equal(set(mem, 0, 0, 0, 16 * 4096, addr(ram)), 0);
	assert_int_equal(set(mem, 1, 0, MIB, 16 * 4096, addr(alias)), 0);
	for (unsigned i = 0; i < 16; i++) {
		bool shared = i >= 4 && i < 12 && !(i & 1);
		struct bpage *bp = page_of(mem, i * 4096);

		for (unsigned k = 0; k < 16; k++) {
			bool same = bp == page_of(mem, MIB + k * 4096);

			if (same != (shared && k == 15 - i))
				fail_msg("slot page %u and file page %u: %d", i, k, same);
		}
	}
	mem_destroy(mem);
	munmap(ram, 16 * 4096);
	munmap(alias, 16 * 4096);
	close(fd);
}

/* --- guest-physical copies ------------------------------------------------------- */

static void test_copies(void **state)
{
	struct mem *mem = mem_create(NULL, NULL);
	u8 *ram = map_private(4 * 4096), in[10000], out[10000];

	(void)state;
	/* Two slots that adjoin in guest-physical space but not in the client. */
	assert_int_equal(set(mem, 0, 0, 0, 4096, addr(ram) + 3 * 4096), 0);
	assert_int_equal(set(mem, 1, 0, 4096, 8192, addr(ram)), 0);
	assert_int_equal(set(mem, 2, RO, 12288, 4096, addr(ram) + 8192), 0);
	for (unsigned i = 0; i < sizeof(in); i++)
		in[i] = (u8)(i * 7 + i / 251);
	assert_int_equal(mem_write(mem, 1001, in, sizeof(in)), 0);
	assert_int_equal(mem_read(mem, 1001, out, sizeof(out)), 0);
	assert_memory_equal(in, out, sizeof(in));
	assert_memory_equal(ram + 3 * 4096 + 1001, in, 4096 - 1001);
	assert_memory_equal(ram, in + 4096 - 1001, sizeof(in) - (4096 - 1001));
	assert_int_equal(mem_read(mem, 12288, out, 4096), 0);
	assert_int_equal(mem_write(mem, 12288, in, 1), -EFAULT);
	assert_int_equal(mem_write(mem, 16384, in, 1), -EFAULT);
	assert_int_equal(mem_read(mem, 16380, out, 8), -EFAULT);
	assert_int_equal(mem_read(mem, ~0ull - 3, out, 8), -EFAULT);
	mem_destroy(mem);
	munmap(ram, 4 * 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),	cmocka_unit_test(test_find),
		cmocka_unit_test(test_aliases), cmocka_unit_test(test_mixed_slot),
		cmocka_unit_test(test_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
