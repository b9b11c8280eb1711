/* SPDX-License-Identifier: MIT */
/*
 * ACPI tables (ACPI Specification 6.4): RSDP, XSDT, FADT, FACS, MADT, DSDT.
 * They lie in 0xe0000..0xfffff, where an operating system looks for the RSDP.
 */
#include <string.h>

#include "monitor/machine.h"

#define AREA ((u32)ACPI_AREA)

struct header {
	char sig[4];
	u32 length;
	u8 revision, checksum;
	char oem[6], oem_table[8];
	u32 oem_revision;
	char creator[4];
	u32 creator_revision;
} __attribute__((packed));

struct address {
	u8 space, width, offset, access;
	u64 addr;
} __attribute__((packed));

struct fadt {
	struct header h;
	u32 facs, dsdt;
	u8 reserved0, profile;
	u16 sci;
	u32 smi_cmd;
	u8 acpi_enable, acpi_disable, s4bios, pstate;
	u32 pm1a_evt, pm1b_evt, pm1a_cnt, pm1b_cnt, pm2_cnt, pm_tmr, gpe0, gpe1;
	u8 pm1_evt_len, pm1_cnt_len, pm2_cnt_len, pm_tmr_len, gpe0_len, gpe1_len, gpe1_base, cst;
	u16 c2_latency, c3_latency, flush_size, flush_stride;
	u8 duty_offset, duty_width, day_alarm, month_alarm, century;
	u16 boot_arch;
	u8 reserved1;
	u32 flags;
	struct address reset;
	u8 reset_value;
	u16 arm_boot;
	u8 minor;
	u64 x_facs, x_dsdt;
	struct address x_pm1a_evt, x_pm1b_evt, x_pm1a_cnt, x_pm1b_cnt, x_pm2_cnt, x_pm_tmr, x_gpe0,
		x_gpe1, sleep_control, sleep_status;
	u64 hypervisor;
} __attribute__((packed));
_Static_assert(sizeof(struct fadt) == 276, "FADT revision 6");

struct area {
	u8 *base;
	u32 used;
};

static u8 sum(const void *p, unsigned n)
{
	const u8 *b = p;
	u8 s = 0;

	while (n--)
		s += *b++;
	return s;
}

static u32 place(struct area *a, const void *table, u32 n)
{
	u32 at = (a->used + 63) & ~63u;

	memcpy(a->base + at, table, n);
	a->used = at + n;
	return AREA + at;
}

static void header(struct header *h, const char *sig, u32 length, u8 revision)
{
	memcpy(h->sig, sig, 4);
	h->length = length;
	h->revision = revision;
	memcpy(h->oem, "LOCUM ", 6);
	memcpy(h->oem_table, "LOCUMRUN", 8);
	h->oem_revision = 1;
	memcpy(h->creator, "LCUM", 4);
	h->creator_revision = 1;
	h->checksum = 0;
	h->checksum = (u8)-sum(h, length);
}

/* Name(\_S5, Package(4){5, 5, 0, 0}); Scope(\_SB){Device(COM1){_HID PNP0501,
 * _UID 1, _CRS {IO(0x3f8..0x3ff), IRQ 4}}} */
static const u8 aml[] = {
	0x08, '_', 'S', '5', '_', 0x12, 0x08, 0x04, 0x0a, 0x05, 0x0a, 0x05, 0x00, 0x00,
	0x10, 0x33, '\\', '_', 'S', 'B', '_', 0x5b, 0x82, 0x2b, 'C', 'O', 'M', '1',
	0x08, '_', 'H', 'I', 'D', 0x0c, 0x41, 0xd0, 0x05, 0x01, 0x08, '_', 'U', 'I', 'D', 0x01,
	0x08, '_', 'C', 'R', 'S', 0x11, 0x10, 0x0a, 0x0d, 0x47, 0x01, 0xf8, 0x03, 0xf8, 0x03,
	0x01, 0x08, 0x22, 0x10, 0x00, 0x79, 0x00,
};

static u32 build_dsdt(struct area *a)
{
	u8 t[sizeof(struct header) + sizeof(aml)] = { 0 };

	memcpy(t + sizeof(struct header), aml, sizeof(aml));
	header((struct header *)t, "DSDT", sizeof(t), 2);
	return place(a, t, sizeof(t));
}

static u32 build_facs(struct area *a)
{
	u8 t[64] = "FACS";

	t[4] = 64;
	t[32] = 2;
	return place(a, t, sizeof(t));
}

static struct address io_address(u16 port, u8 width)
{
	return (struct address){ .space = 1, .width = width, .access = width == 32 ? 3 : width / 8,
				 .addr = port };
}

static u32 build_fadt(struct area *a, u32 facs, u32 dsdt)
{
	struct fadt f = {
		.facs = facs,
		.dsdt = dsdt,
		.profile = 4,
		.sci = 9,
		.pm1a_evt = 0x600,
		.pm1a_cnt = 0x604,
		.pm_tmr = 0x608,
		.pm1_evt_len = 4,
		.pm1_cnt_len = 2,
		.pm_tmr_len = 4,
		.c2_latency = 0xffff,
		.c3_latency = 0xffff,
		.boot_arch = 1 | 4 | 32, /* legacy devices, no VGA, no CMOS clock */
		/* WBINVD, C1, no fixed buttons, 32-bit timer, reset register */
		.flags = 1 | 4 | 16 | 32 | 256 | 1024,
		.reset = { .space = 1, .width = 8, .access = 1, .addr = 0xcf9 },
		.reset_value = 6,
		.minor = 3,
		.x_facs = facs,
		.x_dsdt = dsdt,
		.x_pm1a_evt = io_address(0x600, 32),
		.x_pm1a_cnt = io_address(0x604, 16),
		.x_pm_tmr = io_address(0x608, 32),
	};

	header(&f.h, "FACP", sizeof(f), 6);
	return place(a, &f, sizeof(f));
}

static u32 build_madt(struct area *a, unsigned ncpus)
{
	u8 t[44 + 8 * MACHINE_MAX_CPUS + 12 + 10 * 2 + 6] = { 0 };
	u32 n = 44, lapic = 0xfee00000, flags = 1, ioapic = 0xfec00000;

	memcpy(t + 36, &lapic, 4);
	memcpy(t + 40, &flags, 4);
	for (unsigned i = 0; i < ncpus; i++) {
		const u8 e[8] = { 0, 8, (u8)i, (u8)i, 1, 0, 0, 0 };

		memcpy(t + n, e, 8);
		n += 8;
	}
	u8 io[12] = { 1, 12, 0, 0 };

	memcpy(io + 4, &ioapic, 4);
	memcpy(t + n, io, 12);
	n += 12;
	/* IRQ 0 arrives at pin 2; the SCI is level-triggered, active high. */
	const u8 timer[10] = { 2, 10, 0, 0, 2, 0, 0, 0, 0, 0 };
	const u8 sci[10] = { 2, 10, 0, 9, 9, 0, 0, 0, 0xd, 0 };
	const u8 nmi[6] = { 4, 6, 0xff, 0, 0, 1 };

	memcpy(t + n, timer, 10);
	memcpy(t + n + 10, sci, 10);
	memcpy(t + n + 20, nmi, 6);
	n += 26;
	header((struct header *)t, "APIC", n, 5);
	return place(a, t, n);
}

u64 acpi_build(struct machine *m)
{
	struct area a = { .base = m->ram + AREA, .used = 64 };
	u32 facs = build_facs(&a), dsdt = build_dsdt(&a);
	u64 entry[2] = { build_fadt(&a, facs, dsdt), build_madt(&a, m->ncpus) };
	u8 xsdt[sizeof(struct header) + sizeof(entry)] = { 0 }, rsdp[36] = "RSD PTR ";
	u64 at;
	u32 length = sizeof(rsdp);

	memcpy(xsdt + sizeof(struct header), entry, sizeof(entry));
	header((struct header *)xsdt, "XSDT", sizeof(xsdt), 1);
	at = place(&a, xsdt, sizeof(xsdt));
	memcpy(rsdp + 9, "LOCUM ", 6);
	rsdp[15] = 2;
	memcpy(rsdp + 20, &length, 4);
	memcpy(rsdp + 24, &at, 8);
	rsdp[8] = (u8)-sum(rsdp, 20);
	rsdp[32] = (u8)-sum(rsdp, 36);
	memcpy(a.base, rsdp, sizeof(rsdp));
	return AREA;
}
