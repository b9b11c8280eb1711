/* SPDX-License-Identifier: MIT */
/* Kernel images: what the loaders share. */
#ifndef LOCUM_MONITOR_BOOT_H
#define LOCUM_MONITOR_BOOT_H

#include "monitor/machine.h"

/** struct image - a file in memory, read-only */
struct image {
	const char *path;
	u8 *data;
	u64 size;
};

/* Guest-physical layout of the boot data. */
#define BOOT_GDT     0x500ull
#define BOOT_INFO    0x6000ull	/* PVH start info, multiboot information */
#define BOOT_PARAMS  0x7000ull	/* Linux' zero page */
#define BOOT_TABLES  0x9000ull	/* page tables: 6 pages */
#define BOOT_CMDLINE 0x20000ull
#define BOOT_CMDLINE_MAX 4096u
#define BOOT_STACK   0x8ff0ull

/** image_read() - @path whole; prints one line and returns false on failure */
bool image_read(const char *path, struct image *img);
void image_free(struct image *img);

/** boot_fail() - "locum: PATH: MESSAGE"; returns RUN_USAGE */
int boot_fail(const char *path, const char *fmt, ...) printf_like(2, 3);

/** boot_initrd() - place the initrd at the top of RAM below @limit
 * Return: 0 and where and how long (0: none), or RUN_USAGE. */
int boot_initrd(struct machine *m, u64 lowest, u64 limit, u64 *at, u64 *size);

/** boot_place() - host address for @n bytes of an ELF image at @gpa; NULL if they
 * are not in memory or meet the boot data or the ACPI tables */
u8 *boot_place(struct machine *m, u64 gpa, u64 n);

/** boot_cmdline() - copy the parameters to BOOT_CMDLINE, after @name and a blank
 * if @name is not NULL; at most @max bytes.  Return: 0 or RUN_USAGE */
int boot_cmdline(struct machine *m, const char *name, u32 max);

/** boot_e820() - up to 4 ranges of RAM and reserved memory; returns how many */
struct boot_range {
	u64 addr, size;
	u32 type; /* 1 RAM, 2 reserved */
} __attribute__((packed));
unsigned boot_e820(struct machine *m, struct boot_range *r);

/** boot_cpu_64() - vCPU 0 in long mode, identity-mapped: Linux' 64-bit entry */
int boot_cpu_64(struct machine *m, u64 rip, u64 rsi);
/** boot_cpu_32() - vCPU 0 in flat protected mode without paging */
int boot_cpu_32(struct machine *m, u32 eip, u32 eax, u32 ebx);

/* Loaders: 0, or RUN_USAGE after one line. */
int boot_bzimage(struct machine *m, const struct image *img);
int boot_elf_pvh(struct machine *m, const struct image *img);
int boot_multiboot(struct machine *m, const struct image *img);
/** multiboot_header() - offset of a valid header in @img, or -1 */
long multiboot_header(const struct image *img);

/** elf_load() - copy the PT_LOAD segments of an ELF32 or ELF64 image to their
 * physical addresses; *@entry and *@end (highest address used) are set */
int elf_load(struct machine *m, const struct image *img, u64 *entry, u64 *end);
bool elf_is(const struct image *img);

#endif
