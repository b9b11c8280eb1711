/* SPDX-License-Identifier: MIT */
/* Loaders: what they put where, and damaged images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>

#include "fake.h"

#define SIZE 0x6000u

static u8 img[SIZE];

static void put(u32 at, u64 v, unsigned n)
{
	memcpy(img + at, &v, n);
}

static u64 get(const u8 *p, unsigned n)
{
	u64 v = 0;

	memcpy(&v, p, n);
	return v;
}

/* Two setup sectors, then the kernel proper up to the end. */
static void make_bzimage(void)
{
	memset(img, 0, sizeof(img));
	put(0x1f1, 1, 1);
	put(0x1f4, (SIZE - 1024) / 16, 4);
	put(0x201, 0x6a, 1);
	memcpy(img + 0x202, "HdrS", 4);
	put(0x206, 0x20f, 2);
	put(0x22c, 0x7fffffff, 4);
	put(0x236, 1, 2);
	put(0x238, 200, 4);
	put(0x258, 0x1000000, 8);
	put(0x260, 0x800000, 4);
	put(1024, 0x1122334455667788, 8);
	put(SIZE - 8, 0x99aabbccddeeff00, 8);
}

static void make_elf64(u32 note)
{
	Elf64_Ehdr e = { .e_phoff = 64,
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 2,
			 .e_machine = EM_X86_64,
			 .e_entry = 0x200000 };
	Elf64_Phdr load = { .p_type = PT_LOAD,
			    .p_offset = 0x1000,
			    .p_paddr = 0x200000,
			    .p_vaddr = 0xffffffff81000000,
			    .p_filesz = 0x2000,
			    .p_memsz = 0x3000 };
	Elf64_Phdr notes = { .p_type = PT_NOTE, .p_offset = 0x400, .p_filesz = 40, .p_align = 4 };

	memset(img, 0, sizeof(img));
	memcpy(e.e_ident, ELFMAG, 4);
	e.e_ident[EI_CLASS] = ELFCLASS64;
	memcpy(img, &e, sizeof(e));
	memcpy(img + 64, &load, sizeof(load));
	memcpy(img + 64 + sizeof(load), &notes, sizeof(notes));
	/* Another note first, then the entry point. */
	put(0x400, 4, 4), put(0x404, 2, 4), put(0x408, 6, 4), memcpy(img + 0x40c, "Xen", 4);
	put(0x414, 4, 4), put(0x418, 4, 4), put(0x41c, note, 4), memcpy(img + 0x420, "Xen", 4);
	put(0x424, 0x200040, 4);
	put(0x1000, 0x1111, 8);
	put(0x2ff8, 0x2222, 8);
}

static void make_multiboot(void)
{
	Elf32_Ehdr e = { .e_phoff = 64,
			 .e_phentsize = sizeof(Elf32_Phdr),
			 .e_phnum = 1,
			 .e_machine = EM_386,
			 .e_entry = 0x400010 };
	Elf32_Phdr load = { .p_type = PT_LOAD,
			    .p_offset = 0x1000,
			    .p_paddr = 0x400000,
			    .p_filesz = 0x1000,
			    .p_memsz = 0x1800 };

	memset(img, 0, sizeof(img));
	memcpy(e.e_ident, ELFMAG, 4);
	e.e_ident[EI_CLASS] = ELFCLASS32;
	memcpy(img, &e, sizeof(e));
	memcpy(img + 64, &load, sizeof(load));
	put(0x1000, 0x1badb002, 4);
	put(0x1008, -0x1badb002u, 4);
}

/* The same by the header's own addresses: no ELF file. */
static void make_multiboot_raw(void)
{
	const u32 h[8] = { 0x1badb002, 0x10000, 0u - 0x1badb002u - 0x10000, 0x300040,
			   0x300000,   0,	0x309000,		    0x300100 };

	memset(img, 0, sizeof(img));
	memcpy(img + 0x80, h, sizeof(h)); /* so the load address is file offset 0x40 */
	put(0x40, 0x3333, 8);
}

struct call {
	struct fake *f;
	char text[1024];
};

static int load(void *arg)
{
	return boot_load(arg);
}

/* Load the first @n bytes of `img`. */
static int try(struct call *c, size_t n)
{
	const char *path = fake_file(img, n);
	int r;

	c->f->opt.kernel = path;
	r = quietly(load, &c->f->m, c->text, sizeof(c->text));
	unlink(path);
	return r;
}

static void start(struct call *c, u64 mib)
{
	c->f = fake_new(mib, 2);
	c->text[0] = 0;
}

static void test_bzimage(void **state)
{
	struct call c;
	const char *initrd = fake_file("initial RAM file system", 23);
	u8 *ram, *zp;

	(void)state;
	start(&c, 64);
	make_bzimage();
	c.f->opt.params = "console=ttyS0 quiet";
	c.f->opt.initrd = initrd;
	assert_int_equal(try(&c, SIZE), 0);
	unlink(initrd);
	ram = c.f->m.ram;
	zp = ram + BOOT_PARAMS;
	assert_true(get(ram + 0x1000000, 8) == 0x1122334455667788);
	assert_true(get(ram + 0x1000000 + SIZE - 1024 - 8, 8) == 0x99aabbccddeeff00);
	assert_memory_equal(zp + 0x1f1, img + 0x1f1, 0x210 - 0x1f1);
	assert_int_equal(zp[0x210], 0xff);
	assert_int_equal(get(zp + 0x228, 4), BOOT_CMDLINE);
	assert_string_equal((char *)ram + BOOT_CMDLINE, "console=ttyS0 quiet");
	assert_int_equal(get(zp + 0x21c, 4), 23);
	assert_memory_equal(ram + get(zp + 0x218, 4), "initial RAM file system", 23);
	assert_int_equal(get(zp + 0x218, 4) & 0xfff, 0);
	assert_int_equal(get(zp + 0x70, 8), ACPI_AREA);
	assert_memory_equal(ram + ACPI_AREA, "RSD PTR ", 8);
	/* Memory map: RAM, what is reserved, RAM. */
	assert_int_equal(zp[0x1e8], 3);
	assert_int_equal(get(zp + 0x2d0 + 20 + 16, 4), 2);
	assert_int_equal(get(zp + 0x2d0 + 40, 8), 0x100000);
	assert_int_equal(get(zp + 0x2d0 + 40 + 8, 8), (64 << 20) - 0x100000);
	/* Long mode at the 64-bit entry. */
	assert_int_equal(fake_regs.rip, 0x1000200);
	assert_int_equal(fake_regs.rsi, BOOT_PARAMS);
	assert_int_equal(fake_regs.rflags, 2);
	assert_int_equal(fake_sregs.efer, 0x500);
	assert_true(fake_sregs.cs.l && !fake_sregs.cs.db && fake_sregs.cs.selector == 0x10);
	assert_int_equal(fake_sregs.ss.selector, 0x18);
	assert_true(fake_sregs.cr0 == 0x80000031 && fake_sregs.cr4 == 0x20);
	fake_free(c.f);
}

/* Every address below 4 GiB maps to itself. */
static void test_identity_map(void **state)
{
	static const u64 addresses[] = { 0, 0x1fffff, 0x40000000, 0xbfffffff, 0xfee00000,
					 0xffffffff };
	struct call c;

	(void)state;
	start(&c, 64);
	make_bzimage();
	assert_int_equal(try(&c, SIZE), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(addresses); i++) {
		u64 a = addresses[i], e = fake_sregs.cr3;

		for (int shift = 39; shift >= 21; shift -= 9) {
			e = get(c.f->m.ram + (e & ~0xfffull) + (a >> shift & 511) * 8, 8);
			assert_int_equal(e & 3, 3);
		}
		assert_int_equal(e & 0x80, 0x80);
		assert_true((e & ~0x1fffffull) == (a & ~0x1fffffull));
	}
	fake_free(c.f);
}

static void test_high_memory(void **state)
{
	struct boot_range r[4];
	struct fake *f = fake_new(8, 1);

	(void)state;
	f->m.low_size = 6 << 20; /* the rest is at 4 GiB */
	assert_int_equal(boot_e820(&f->m, r), 4);
	assert_true(r[3].addr == MACHINE_HIGH && r[3].size == 2 << 20 && r[3].type == 1);
	assert_ptr_equal(machine_ram(&f->m, MACHINE_HIGH, 2 << 20), f->m.ram + (6 << 20));
	assert_null(machine_ram(&f->m, MACHINE_HIGH, (2 << 20) + 1));
	assert_null(machine_ram(&f->m, MACHINE_HIGH - 1, 1));
	assert_null(machine_ram(&f->m, (6 << 20) - 1, 2));
	assert_null(machine_ram(&f->m, 1, ~0ull));
	assert_null(machine_ram(&f->m, ~0ull, 2));
	assert_non_null(machine_ram(&f->m, (6 << 20) - 1, 1));
	fake_free(f);
}

static void test_pvh(void **state)
{
	struct call c;
	u8 *ram, *info;

	(void)state;
	start(&c, 16);
	make_elf64(18);
	c.f->opt.params = "abc";
	assert_int_equal(try(&c, SIZE), 0);
	ram = c.f->m.ram;
	info = ram + fake_regs.rbx;
	assert_int_equal(fake_regs.rip, 0x200040);
	assert_true(fake_sregs.cr0 == 0x11 && !fake_sregs.efer && fake_sregs.cs.db);
	assert_int_equal(get(info, 4), 0x336ec578);
	assert_int_equal(get(info + 12, 4), 0); /* no module */
	assert_string_equal((char *)ram + get(info + 24, 8), "abc");
	assert_int_equal(get(info + 32, 8), ACPI_AREA);
	assert_int_equal(get(info + 48, 4), 3);
	assert_int_equal(get(ram + get(info + 40, 8) + 48, 8), 0x100000);
	assert_int_equal(get(ram + 0x200000, 8), 0x1111);
	assert_int_equal(get(ram + 0x201ff8, 8), 0x2222);
	assert_int_equal(get(ram + 0x202000, 8), 0);
	fake_free(c.f);
}

static void test_multiboot(void **state)
{
	const char *initrd = fake_file("module", 6);
	struct call c;
	u8 *ram, *info;
	char want[200];

	(void)state;
	start(&c, 16);
	make_multiboot();
	c.f->opt.params = "one two";
	c.f->opt.initrd = initrd;
	assert_int_equal(try(&c, SIZE), 0);
	unlink(initrd);
	ram = c.f->m.ram;
	info = ram + fake_regs.rbx;
	assert_int_equal(fake_regs.rip, 0x400010);
	assert_int_equal(fake_regs.rax, 0x2badb002);
	assert_int_equal(get(info, 4) & 0x4d, 0x4d);
	assert_int_equal(get(info + 8, 4), 15 * 1024);
	/* As boot loaders give it: the image's name comes first. */
	snprintf(want, sizeof(want), "%s one two", c.f->opt.kernel);
	assert_string_equal((char *)ram + get(info + 16, 4), want);
	assert_int_equal(get(info + 20, 4), 1);
	u8 *mod = ram + get(info + 24, 4);

	assert_int_equal(get(mod + 4, 4) - get(mod, 4), 6);
	assert_memory_equal(ram + get(mod, 4), "module", 6);
	assert_int_equal(get(info + 44, 4), 72);
	assert_int_equal(get(ram + get(info + 48, 4), 4), 20);
	assert_int_equal(get(ram + 0x400000, 4), 0x1badb002);
	fake_free(c.f);
}

static void test_multiboot_raw(void **state)
{
	struct call c;

	(void)state;
	start(&c, 16);
	make_multiboot_raw();
	assert_int_equal(try(&c, SIZE), 0);
	assert_int_equal(get(c.f->m.ram + 0x300000, 8), 0x3333);
	assert_int_equal(fake_regs.rip, 0x300100);
	fake_free(c.f);
}

/* One field changed or the file cut: one line, exit code 2, no harm. */
static void test_damage(void **state)
{
	static const struct {
		const char *name;
		int kind; /* 0 bzImage, 1 ELF with PVH, 2 multiboot ELF, 3 multiboot raw */
		u32 at;
		u64 value;
		unsigned n;
		u32 size;
		const char *says;
	} t[] = {
		{ "magic", 0, 0x202, 0, 4, SIZE, "no kernel image" },
		{ "old protocol", 0, 0x206, 0x204, 2, SIZE, "no 64-bit entry" },
		{ "no 64-bit entry", 0, 0x236, 0, 2, SIZE, "no 64-bit entry" },
		{ "cut in the header", 0, 0, 0, 0, 0x300, "no kernel image" },
		{ "cut", 0, 0, 0, 0, SIZE - 64, "truncated" },
		{ "setup beyond the end", 0, 0x1f1, 255, 1, SIZE, "truncated" },
		{ "loads nowhere", 0, 0x258, ~0ull, 8, SIZE, "damaged" },
		{ "loads at 0", 0, 0x258, 0, 8, SIZE, "damaged" },
		{ "loads at 3 GiB", 0, 0x258, 3ull << 30, 8, SIZE, "damaged" },
		{ "too large", 0, 0x260, 0xffffffff, 4, SIZE, "MiB of memory" },
		{ "no PVH note", 1, 0x41c, 19, 4, SIZE, "without a PVH entry" },
		{ "note too long", 1, 0x408 - 4, 0xffffffff, 4, SIZE, "without a PVH entry" },
		{ "note name too long", 1, 0x400, 0xffffffff, 4, SIZE, "without a PVH entry" },
		{ "notes outside the file", 1, 64 + 56 + 8, ~0ull - 8, 8, SIZE, "without a PVH" },
		{ "segment outside the file", 1, 64 + 8, SIZE, 8, SIZE, "truncated" },
		{ "segment far outside", 1, 64 + 8, ~0ull - 0x1000, 8, SIZE, "truncated" },
		{ "segment larger in the file", 1, 64 + 40, 0x1000, 8, SIZE, "truncated" },
		{ "segment outside memory", 1, 64 + 24, 16 << 20, 8, SIZE, "no free memory" },
		{ "segment on boot data", 1, 64 + 24, 0x5000, 8, SIZE, "no free memory" },
		{ "segment on the GDT", 1, 64 + 24, 0x5ff, 8, SIZE, "no free memory" },
		{ "segment on the ACPI tables", 1, 64 + 24, 0xdf000, 8, SIZE, "no free memory" },
		{ "huge segment", 1, 64 + 40, ~0ull, 8, SIZE, "no free memory" },
		{ "program headers outside", 1, 32, SIZE, 8, SIZE, "PVH|damaged" },
		{ "no program headers", 1, 56, 0, 2, SIZE, "without a PVH" },
		{ "cut", 2, 0, 0, 0, 0x1800, "truncated" },
		{ "segment outside memory", 2, 64 + 12, 0xfff00000, 4, SIZE, "no free memory" },
		{ "no program headers", 2, 44, 0, 2, SIZE, "nothing to load" },
		{ "header before the image", 3, 0x80 + 16, 0x310000, 4, SIZE, "damaged" },
		{ "header too far", 3, 0x80 + 12, 0x380000, 4, SIZE, "damaged" },
		{ "end before start", 3, 0x80 + 20, 0x2fffff, 4, SIZE, "damaged" },
		{ "end beyond the file", 3, 0x80 + 20, 0x400000, 4, SIZE, "truncated" },
		{ "bss outside memory", 3, 0x80 + 24, 0xfffffff0, 4, SIZE, "no free memory" },
		{ "cut in the header", 3, 0, 0, 0, 0x90, "truncated" },
	};
	static void (*const make[])(void) = { make_bzimage, NULL, make_multiboot,
					      make_multiboot_raw };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		struct call c;
		u32 w[3];

		start(&c, 16);
		if (make[t[i].kind])
			make[t[i].kind]();
		else
			make_elf64(18);
		put(t[i].at, t[i].value, t[i].n);
		memcpy(w, img + 0x80, sizeof(w));
		if (t[i].kind == 3) /* the checksum of flags stays right */
			put(0x88, 0u - w[0] - w[1], 4);
		int r = try(&c, t[i].size);
		const char *bar = strchr(t[i].says, '|');

		if (r != RUN_USAGE || !(bar ? strlen(c.text) : !!strstr(c.text, t[i].says)) ||
		    strchr(c.text, '\n') != c.text + strlen(c.text) - 1)
			fail_msg("%u %s: returned %d: %s", t[i].kind, t[i].name, r, c.text);
		fake_free(c.f);
	}
}

/* Random damage: whatever it does to the guest, the loader survives. */
static void test_random_damage(void **state)
{
	unsigned seed = 12345;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		struct call c;
		void (*const make[])(void) = { make_bzimage, make_multiboot, make_multiboot_raw };

		start(&c, 4);
		if (i % 4 == 3)
			make_elf64(18);
		else
			make[i % 4]();
		for (unsigned k = 0; k < 1 + i % 5; k++) {
			u32 at = (u32)rand_r(&seed) % (i % 3 ? 0x500 : SIZE);

			img[at] = (u8)(rand_r(&seed) % 3 ? rand_r(&seed) : 0xff);
		}
		int r = try(&c, i % 7 ? SIZE : (size_t)rand_r(&seed) % SIZE + 1);

		assert_true(r == 0 || r == RUN_USAGE);
		assert_true((r != 0) == (c.text[0] != 0));
		fake_free(c.f);
	}
}

static void test_limits(void **state)
{
	struct call c;
	char params[300];
	const char *big;

	(void)state;
	start(&c, 16);
	make_bzimage();
	assert_int_equal(try(&c, SIZE), RUN_USAGE);
	assert_non_null(strstr(c.text, "needs 25 MiB of memory, has 16"));
	fake_free(c.f);

	start(&c, 64); /* longer than this kernel's cmdline_size */
	memset(params, 'a', sizeof(params));
	params[201] = 0;
	c.f->opt.params = params;
	assert_int_equal(try(&c, SIZE), RUN_USAGE);
	assert_non_null(strstr(c.text, "201 bytes"));
	params[200] = 0;
	assert_int_equal(try(&c, SIZE), 0);
	fake_free(c.f);

	start(&c, 24); /* the kernel fits, the initrd does not */
	big = fake_file(img, SIZE);
	c.f->opt.initrd = big;
	assert_int_equal(try(&c, SIZE), RUN_USAGE);
	assert_non_null(strstr(c.text, "too little memory"));
	unlink(big);
	fake_free(c.f);
}

static void test_files(void **state)
{
	static const char *const names[] = { "/nonexistent", "/", "/dev/null", "/proc/self/mem" };
	struct call c;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		start(&c, 4);
		c.f->opt.kernel = names[i];
		assert_int_equal(quietly(load, &c.f->m, c.text, sizeof(c.text)), RUN_USAGE);
		assert_non_null(strstr(c.text, names[i]));
		fake_free(c.f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bzimage),	      cmocka_unit_test(test_identity_map),
		cmocka_unit_test(test_high_memory),   cmocka_unit_test(test_pvh),
		cmocka_unit_test(test_multiboot),     cmocka_unit_test(test_multiboot_raw),
		cmocka_unit_test(test_damage),	      cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_limits),	      cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
