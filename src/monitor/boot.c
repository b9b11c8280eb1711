/* SPDX-License-Identifier: MIT */
/* Images and the state that the loaders leave vCPU 0 in. */
#include "monitor/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int boot_fail(const char *path, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "locum: %s: ", path);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return RUN_USAGE;
}

bool image_read(const char *path, struct image *img)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO: no wait */

	*img = (struct image){ .path = path };
	if (fd < 0) {
		boot_fail(path, "%s", strerror(errno));
		return false;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size == 0) {
		boot_fail(path, "not a regular file with anything in it");
		close(fd);
		return false;
	}
	img->size = (u64)st.st_size;
	img->data = mmap(NULL, img->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (img->data == MAP_FAILED) {
		boot_fail(path, "%s", strerror(errno));
		return false;
	}
	return true;
}

void image_free(struct image *img)
{
	if (img->data)
		munmap(img->data, img->size);
	img->data = NULL;
}

u8 *boot_place(struct machine *m, u64 gpa, u64 n)
{
	/* What such images are given.  The zero page and page tables are not. */
	static const struct {
		u64 from, to;
	} taken[] = {
		{ BOOT_GDT, BOOT_GDT + 0x100 },
		{ BOOT_INFO, BOOT_INFO + 0x1000 },
		{ BOOT_CMDLINE, BOOT_CMDLINE + BOOT_CMDLINE_MAX },
		{ ACPI_AREA, ACPI_AREA + ACPI_SIZE },
	};
	u8 *to = machine_ram(m, gpa, n);

	for (unsigned i = 0; to && i < ARRAY_SIZE(taken); i++)
		if (gpa < taken[i].to && gpa + n > taken[i].from)
			return NULL;
	return to;
}

int boot_cmdline(struct machine *m, const char *name, u32 max)
{
	const char *params = m->opt->params ? m->opt->params : "";
	u64 len = strlen(params) + (name ? strlen(name) + 1 : 0);

	max = MIN(max, BOOT_CMDLINE_MAX - 1);
	if (len > max)
		return boot_fail("-p", "kernel parameters of %llu bytes, this kernel takes %u",
				 (unsigned long long)len, max);
	snprintf((char *)m->ram + BOOT_CMDLINE, BOOT_CMDLINE_MAX, "%s%s%s", name ? name : "",
		 name ? " " : "", params);
	return 0;
}

int boot_initrd(struct machine *m, u64 lowest, u64 limit, u64 *at, u64 *size)
{
	struct image img;
	u64 top = MIN(m->low_size, limit);

	*at = *size = 0;
	if (!m->opt->initrd)
		return 0;
	if (!image_read(m->opt->initrd, &img))
		return RUN_USAGE;
	*at = top > img.size ? (top - img.size) & ~0xfffull : 0;
	if (*at < lowest) {
		image_free(&img);
		return boot_fail(m->opt->initrd, "too little memory for it (-m %llu)",
				 (unsigned long long)m->opt->mem_mib);
	}
	memcpy(m->ram + *at, img.data, img.size);
	*size = img.size;
	image_free(&img);
	return 0;
}

unsigned boot_e820(struct machine *m, struct boot_range *r)
{
	unsigned n = 0;

	r[n++] = (struct boot_range){ 0, 0x9fc00, 1 };
	r[n++] = (struct boot_range){ 0x9fc00, 0x60400, 2 };
	r[n++] = (struct boot_range){ 0x100000, m->low_size - 0x100000, 1 };
	if (m->ram_size > m->low_size)
		r[n++] = (struct boot_range){ MACHINE_HIGH, m->ram_size - m->low_size, 1 };
	return n;
}

static struct kvm_segment flat(u16 sel, bool code, bool l)
{
	return (struct kvm_segment){ .limit = ~0u,
				     .selector = sel,
				     .type = code ? 11 : 3,
				     .present = 1,
				     .s = 1,
				     .db = !l,
				     .l = l,
				     .g = 1 };
}

/* GDT as Linux expects it: code at 0x10, data at 0x18. */
static void put_gdt(struct machine *m, struct kvm_sregs *s, bool is64)
{
	u64 gdt[4] = { 0, 0, is64 ? 0x00af9b000000ffffull : 0x00cf9b000000ffffull,
		       0x00cf93000000ffffull };

	memcpy(m->ram + BOOT_GDT, gdt, sizeof(gdt));
	s->gdt = (struct kvm_dtable){ .base = BOOT_GDT, .limit = sizeof(gdt) - 1 };
	s->idt = (struct kvm_dtable){ 0 };
	s->cs = flat(0x10, true, is64);
	s->ds = s->es = s->fs = s->gs = s->ss = flat(0x18, false, false);
	s->tr = (struct kvm_segment){ .limit = 0x67, .type = 11, .present = 1 };
}

static int set_state(struct machine *m, struct kvm_sregs *s, struct kvm_regs *r)
{
	long err = m->be->ioctl(m->cpu[0].fd, KVM_SET_SREGS, (unsigned long)s);

	if (!err)
		err = m->be->ioctl(m->cpu[0].fd, KVM_SET_REGS, (unsigned long)r);
	return err ? boot_fail(m->be->name, "setting registers: %s", strerror((int)-err)) : 0;
}

int boot_cpu_64(struct machine *m, u64 rip, u64 rsi)
{
	struct kvm_regs r = { .rip = rip, .rsi = rsi, .rsp = BOOT_STACK, .rflags = 2 };
	u64 *table = (u64 *)(void *)(m->ram + BOOT_TABLES);
	struct kvm_sregs s;
	long err = m->be->ioctl(m->cpu[0].fd, KVM_GET_SREGS, (unsigned long)&s);

	if (err)
		return boot_fail(m->be->name, "KVM_GET_SREGS: %s", strerror((int)-err));
	/* Identity map of 4 GiB by 2M pages: PML4, PDPT, four directories. */
	memset(table, 0, 6 * 4096);
	table[0] = (BOOT_TABLES + 0x1000) | 3;
	for (unsigned i = 0; i < 4; i++)
		table[512 + i] = (BOOT_TABLES + 0x2000 + i * 0x1000) | 3;
	for (u64 i = 0; i < 2048; i++)
		table[1024 + i] = i << 21 | 0x83;
	put_gdt(m, &s, true);
	s.cr3 = BOOT_TABLES;
	s.cr4 = 0x20;
	s.cr0 = 0x80000031;
	s.efer = 0x500;
	return set_state(m, &s, &r);
}

int boot_cpu_32(struct machine *m, u32 eip, u32 eax, u32 ebx)
{
	struct kvm_regs r = { .rip = eip, .rax = eax, .rbx = ebx, .rsp = BOOT_STACK, .rflags = 2 };
	struct kvm_sregs s;
	long err = m->be->ioctl(m->cpu[0].fd, KVM_GET_SREGS, (unsigned long)&s);

	if (err)
		return boot_fail(m->be->name, "KVM_GET_SREGS: %s", strerror((int)-err));
	put_gdt(m, &s, false);
	s.cr0 = 0x11;
	s.cr3 = s.cr4 = s.efer = 0;
	return set_state(m, &s, &r);
}

int boot_load(struct machine *m)
{
	struct image img;
	int r;

	if (!image_read(m->opt->kernel, &img))
		return RUN_USAGE;
	if (multiboot_header(&img) >= 0)
		r = boot_multiboot(m, &img);
	else if (elf_is(&img))
		r = boot_elf_pvh(m, &img);
	else
		r = boot_bzimage(m, &img);
	image_free(&img);
	return r;
}
