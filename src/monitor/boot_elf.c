/* SPDX-License-Identifier: MIT */
/*
 * ELF images: vmlinux by its PVH note (Xen's "HVM start info"), and the
 * multiboot 1 images that kvm-unit-tests build.
 */
#include <elf.h>
#include <string.h>

#include "monitor/boot.h"

#define MULTIBOOT_MAGIC 0x1badb002u
#define MULTIBOOT_TAKEN 0x2badb002u
#define PVH_MAGIC	0x336ec578u
#define NOTE_PHYS32	18

bool elf_is(const struct image *img)
{
	return img->size >= sizeof(Elf64_Ehdr) && !memcmp(img->data, ELFMAG, SELFMAG);
}

/* One program header, of either class, as the 64-bit one. */
static bool program_header(const struct image *img, unsigned n, Elf64_Phdr *p)
{
	const Elf64_Ehdr *e = (const void *)img->data;
	u64 at;

	if (img->data[EI_CLASS] == ELFCLASS64) {
		at = e->e_phoff + (u64)n * e->e_phentsize;
		if (n >= e->e_phnum || at > img->size || img->size - at < sizeof(*p))
			return false;
		memcpy(p, img->data + at, sizeof(*p));
		return true;
	}
	const Elf32_Ehdr *e32 = (const void *)img->data;
	Elf32_Phdr p32;

	at = e32->e_phoff + (u64)n * e32->e_phentsize;
	if (n >= e32->e_phnum || at > img->size || img->size - at < sizeof(p32))
		return false;
	memcpy(&p32, img->data + at, sizeof(p32));
	*p = (Elf64_Phdr){ .p_type = p32.p_type,
			   .p_offset = p32.p_offset,
			   .p_vaddr = p32.p_vaddr,
			   .p_paddr = p32.p_paddr,
			   .p_filesz = p32.p_filesz,
			   .p_memsz = p32.p_memsz,
			   .p_align = p32.p_align };
	return true;
}

static unsigned header_count(const struct image *img)
{
	return img->data[EI_CLASS] == ELFCLASS64 ? ((const Elf64_Ehdr *)(void *)img->data)->e_phnum :
						   ((const Elf32_Ehdr *)(void *)img->data)->e_phnum;
}

int elf_load(struct machine *m, const struct image *img, u64 *entry, u64 *end)
{
	Elf64_Phdr p;
	u64 total = 0;

	*end = 0;
	*entry = img->data[EI_CLASS] == ELFCLASS64 ? ((const Elf64_Ehdr *)(void *)img->data)->e_entry :
						     ((const Elf32_Ehdr *)(void *)img->data)->e_entry;
	for (unsigned n = 0; n < header_count(img); n++) {
		if (!program_header(img, n, &p))
			return boot_fail(img->path, "damaged ELF file: program header %u", n);
		if (p.p_type != PT_LOAD || !p.p_memsz)
			continue;
		if (p.p_offset > img->size || p.p_filesz > img->size - p.p_offset ||
		    p.p_filesz > p.p_memsz)
			return boot_fail(img->path, "truncated: segment %u is not there", n);
		u8 *to = boot_place(m, p.p_paddr, p.p_memsz);

		if (!to)
			return boot_fail(img->path,
					 "segment at %#llx of %llu bytes: no free memory there",
					 (unsigned long long)p.p_paddr, (unsigned long long)p.p_memsz);
		total += p.p_memsz;
		if (total > m->ram_size)
			return boot_fail(img->path, "damaged ELF file: segments overlap");
		memcpy(to, img->data + p.p_offset, p.p_filesz);
		memset(to + p.p_filesz, 0, p.p_memsz - p.p_filesz);
		*end = MAX(*end, p.p_paddr + p.p_memsz);
	}
	return *end ? 0 : boot_fail(img->path, "ELF file with nothing to load");
}

/* --- PVH --------------------------------------------------------------------------- */

struct pvh_info {
	u32 magic, version, flags, nr_modules;
	u64 modlist, cmdline, rsdp, memmap;
	u32 memmap_entries, reserved;
};

struct pvh_module {
	u64 addr, size, cmdline, reserved;
};

struct pvh_range {
	u64 addr, size;
	u32 type, reserved;
};

static bool find_note(const struct image *img, const Elf64_Phdr *p, u32 *entry)
{
	u64 at = p->p_offset, stop = p->p_offset + p->p_filesz;
	u64 align = p->p_align == 8 ? 8 : 4;

	while (at + 12 <= stop) {
		Elf64_Nhdr h;

		memcpy(&h, img->data + at, sizeof(h));
		u64 name = at + 12, desc = name + ((h.n_namesz + align - 1) & ~(align - 1));

		if (desc + h.n_descsz > stop)
			return false;
		if (h.n_type == NOTE_PHYS32 && h.n_namesz == 4 &&
		    !memcmp(img->data + name, "Xen", 4) && h.n_descsz >= 4) {
			memcpy(entry, img->data + desc, 4);
			return true;
		}
		at = desc + ((h.n_descsz + align - 1) & ~(align - 1));
	}
	return false;
}

static bool pvh_entry(const struct image *img, u32 *entry)
{
	Elf64_Phdr p;

	for (unsigned n = 0; n < header_count(img); n++)
		if (program_header(img, n, &p) && p.p_type == PT_NOTE &&
		    p.p_offset <= img->size && p.p_filesz <= img->size - p.p_offset &&
		    find_note(img, &p, entry))
			return true;
	return false;
}

int boot_elf_pvh(struct machine *m, const struct image *img)
{
	struct pvh_info *info = (void *)(m->ram + BOOT_INFO);
	struct pvh_module *mod = (void *)(m->ram + BOOT_INFO + 0x100);
	struct pvh_range *map = (void *)(m->ram + BOOT_INFO + 0x200);
	struct boot_range range[4];
	u64 entry64, end, initrd, size;
	u32 entry;
	int r;

	if (!pvh_entry(img, &entry))
		return boot_fail(img->path, "ELF file without a PVH entry or a multiboot header");
	r = elf_load(m, img, &entry64, &end);
	if (!r)
		r = boot_cmdline(m, NULL, ~0u);
	if (!r)
		r = boot_initrd(m, end, 0x7fffffff, &initrd, &size);
	if (r)
		return r;
	*info = (struct pvh_info){ .magic = PVH_MAGIC,
				   .version = 1,
				   .nr_modules = size != 0,
				   .modlist = BOOT_INFO + 0x100,
				   .cmdline = BOOT_CMDLINE,
				   .rsdp = acpi_build(m),
				   .memmap = BOOT_INFO + 0x200,
				   .memmap_entries = boot_e820(m, range) };
	*mod = (struct pvh_module){ .addr = initrd, .size = size };
	for (u32 n = 0; n < info->memmap_entries; n++)
		map[n] = (struct pvh_range){ range[n].addr, range[n].size, range[n].type, 0 };
	return boot_cpu_32(m, entry, 0, BOOT_INFO);
}

/* --- multiboot 1 ------------------------------------------------------------------- */

long multiboot_header(const struct image *img)
{
	u64 limit = MIN(img->size, 8192ull);

	for (u64 at = 0; at + 12 <= limit; at += 4) {
		u32 w[3];

		memcpy(w, img->data + at, 12);
		if (w[0] == MULTIBOOT_MAGIC && w[0] + w[1] + w[2] == 0)
			return (long)at;
	}
	return -1;
}

/* The header's own addresses (flag 16), for images that are no ELF files. */
static int load_by_header(struct machine *m, const struct image *img, long at, u64 *entry,
			  u64 *end)
{
	u32 w[8];

	if ((u64)at + 32 > img->size)
		return boot_fail(img->path, "truncated multiboot header");
	memcpy(w, img->data + at, 32);
	u32 header = w[3], load = w[4], load_end = w[5], bss_end = w[6];

	if (header < load || header - load > (u64)at || (load_end && load_end < load))
		return boot_fail(img->path, "damaged multiboot header");
	u64 from = (u64)at - (header - load), n = load_end ? load_end - load : img->size - from;
	u64 total = bss_end > load ? MAX((u64)(bss_end - load), n) : n;
	u8 *to = boot_place(m, load, total);

	if (n > img->size - from)
		return boot_fail(img->path, "truncated: its header promises %llu bytes more",
				 (unsigned long long)(n - (img->size - from)));
	if (!to)
		return boot_fail(img->path, "%llu bytes at %#x: no free memory there",
				 (unsigned long long)total, load);
	memcpy(to, img->data + from, n);
	memset(to + n, 0, total - n);
	*entry = w[7];
	*end = load + total;
	return 0;
}

int boot_multiboot(struct machine *m, const struct image *img)
{
	long at = multiboot_header(img);
	u32 *info = (u32 *)(void *)(m->ram + BOOT_INFO), flags;
	u64 entry, end, initrd, size;
	int r;

	memcpy(&flags, img->data + at + 4, 4);
	if (elf_is(img) && !(flags & 0x10000))
		r = elf_load(m, img, &entry, &end);
	else if (flags & 0x10000)
		r = load_by_header(m, img, at, &entry, &end);
	else
		r = boot_fail(img->path, "multiboot image that says not where to load it");
	if (!r)
		r = boot_cmdline(m, img->path, ~0u); /* as boot loaders do: image, parameters */
	if (!r)
		r = boot_initrd(m, end, 0x7fffffff, &initrd, &size);
	if (r)
		return r;
	memset(info, 0, 128);
	info[0] = 1 | 4 | (size ? 8 : 0) | 64; /* memory, command line, modules, map */
	info[1] = 639;
	info[2] = (u32)((m->low_size >> 10) - 1024);
	info[4] = BOOT_CMDLINE;
	if (size) {
		u32 *mod = info + 64;

		info[5] = 1;
		info[6] = (u32)BOOT_INFO + 256;
		mod[0] = (u32)initrd;
		mod[1] = (u32)(initrd + size);
		mod[2] = (u32)BOOT_CMDLINE;
	}
	/* Memory map: each entry preceded by its size. */
	struct boot_range range[4];
	unsigned n = boot_e820(m, range);
	u8 *map = m->ram + BOOT_INFO + 512;

	for (unsigned i = 0; i < n; i++) {
		u32 len = 20;

		memcpy(map + i * 24, &len, 4);
		memcpy(map + i * 24 + 4, &range[i], 20);
	}
	info[11] = n * 24;
	info[12] = (u32)BOOT_INFO + 512;
	acpi_build(m);
	return boot_cpu_32(m, (u32)entry, MULTIBOOT_TAKEN, BOOT_INFO);
}
