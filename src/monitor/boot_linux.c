/* SPDX-License-Identifier: MIT */
/* bzImage by its 64-bit entry (Linux Documentation/arch/x86/boot.rst). */
#include <string.h>

#include "monitor/boot.h"

/* Offsets in the image and in the zero page. */
#define HDR_SECTS    0x1f1
#define HDR_MAGIC    0x202 /* "HdrS" */
#define HDR_VERSION  0x206
#define HDR_END      0x290
#define HDR_RDMAX    0x22c /* initrd_addr_max */
#define HDR_XLOAD    0x236 /* xloadflags */
#define HDR_CMDMAX   0x238 /* cmdline_size */
#define HDR_PREF     0x258
#define HDR_INITSIZE 0x260
#define ZP_RSDP	     0x70
#define ZP_E820_N    0x1e8
#define ZP_E820	     0x2d0

static u64 field(const struct image *img, u32 off, unsigned n)
{
	u64 v = 0;

	memcpy(&v, img->data + off, n);
	return v;
}

static void put(u8 *at, u64 v, unsigned n)
{
	memcpy(at, &v, n);
}

static int check(const struct image *img)
{
	if (img->size < 0x400 || memcmp(img->data + HDR_MAGIC, "HdrS", 4))
		return boot_fail(img->path,
				 "no kernel image: not a bzImage, an ELF file or multiboot");
	if (field(img, HDR_VERSION, 2) < 0x20c || !(field(img, HDR_XLOAD, 2) & 1))
		return boot_fail(img->path, "no 64-bit entry (boot protocol %llx, 20c wanted)",
				 (unsigned long long)field(img, HDR_VERSION, 2));
	return 0;
}

static void zero_page(struct machine *m, const struct image *img, u64 initrd, u64 initrd_size)
{
	u8 *zp = m->ram + BOOT_PARAMS;
	struct boot_range r[4];
	u64 len = MIN(0x202u + img->data[0x201], (u64)HDR_END) - HDR_SECTS;

	memset(zp, 0, 4096);
	memcpy(zp + HDR_SECTS, img->data + HDR_SECTS, len);
	zp[0x210] = 0xff;	     /* loader of no known type */
	zp[0x211] |= 0x80;	     /* can use heap */
	put(zp + 0x218, initrd, 4);
	put(zp + 0xc0, initrd >> 32, 4);
	put(zp + 0x21c, initrd_size, 4);
	put(zp + 0xc4, initrd_size >> 32, 4);
	put(zp + 0x228, BOOT_CMDLINE, 4);
	put(zp + ZP_RSDP, acpi_build(m), 8);
	zp[ZP_E820_N] = (u8)boot_e820(m, r);
	memcpy(zp + ZP_E820, r, zp[ZP_E820_N] * sizeof(r[0]));
}

int boot_bzimage(struct machine *m, const struct image *img)
{
	u64 setup, load, need, end, initrd, initrd_size;
	int r = check(img);

	if (r)
		return r;
	setup = (field(img, HDR_SECTS, 1) ? field(img, HDR_SECTS, 1) + 1 : 5) * 512;
	if (setup >= img->size || field(img, 0x1f4, 4) * 16 > img->size - setup + 15)
		return boot_fail(img->path, "truncated: %llu bytes",
				 (unsigned long long)img->size);
	load = field(img, HDR_PREF, 8);
	need = MAX(field(img, HDR_INITSIZE, 4), img->size - setup);
	if (load < 0x100000 || load >= MACHINE_LOW_MAX)
		return boot_fail(img->path, "damaged: wants to be loaded at %#llx",
				 (unsigned long long)load);
	end = load + need;
	if (end > m->low_size)
		return boot_fail(img->path, "needs %llu MiB of memory, has %llu (-m)",
				 (unsigned long long)(end >> 20) + 1,
				 (unsigned long long)(m->low_size >> 20));
	memcpy(m->ram + load, img->data + setup, img->size - setup);
	r = boot_cmdline(m, NULL, (u32)field(img, HDR_CMDMAX, 4));
	if (!r)
		r = boot_initrd(m, end, field(img, HDR_RDMAX, 4), &initrd, &initrd_size);
	if (r)
		return r;
	zero_page(m, img, initrd, initrd_size);
	return boot_cpu_64(m, load + 0x200, BOOT_PARAMS);
}
