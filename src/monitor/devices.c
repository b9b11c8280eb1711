/* SPDX-License-Identifier: MIT */
/* Ports and registers of the machine's devices. */
#include <string.h>
#include <time.h>

#include "monitor/machine.h"

#define PM_TIMER_HZ 3579545ull

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

/* --- fw_cfg: what kvm-unit-tests ask of it -------------------------------------- */

static u8 fw_cfg_byte(struct machine *m)
{
	u64 value = 0;
	u32 pos = m->fw_cfg_pos++;

	switch (m->fw_cfg_key) {
	case 0: return pos < 4 ? (u8)"QEMU"[pos] : 0;
	case 1: value = 1; break;		/* interface version */
	case 3: value = m->ram_size; break;	/* RAM size */
	case 5: value = m->ncpus; break;	/* CPUs present */
	case 15: value = m->ncpus; break;	/* CPUs possible */
	}
	return pos < 8 ? (u8)(value >> (8 * pos)) : 0;
}

/* --- CMOS -------------------------------------------------------------------------- */

static u8 bcd(int v)
{
	return (u8)(v / 10 << 4 | v % 10);
}

static u8 cmos_read(struct machine *m)
{
	time_t t = time(NULL);
	struct tm tm;

	gmtime_r(&t, &tm);
	switch (m->cmos_index) {
	case 0: return bcd(tm.tm_sec);
	case 2: return bcd(tm.tm_min);
	case 4: return bcd(tm.tm_hour);
	case 6: return bcd(tm.tm_wday + 1);
	case 7: return bcd(tm.tm_mday);
	case 8: return bcd(tm.tm_mon + 1);
	case 9: return bcd(tm.tm_year % 100);
	case 0xa: return 0x26;
	case 0xb: return 2; /* 24 hours, BCD */
	case 0xd: return 0x80;
	case 0x32: return bcd(tm.tm_year / 100 + 19);
	case 0x5f: return (u8)(m->ncpus - 1);
	}
	return 0;
}

/* --- power ---------------------------------------------------------------------- */

static void pm1_control_write(struct machine *m, u16 v)
{
	m->pm1_control = v & ~0x2000;
	if ((v & 0x2000) && (v >> 10 & 7) == 5)
		machine_stop(m, RUN_OFF);
}

static u32 pm_read(struct machine *m, u16 port)
{
	switch (port) {
	case 0x600: return (u32)m->pm1_enable << 16;
	case 0x602: return m->pm1_enable;
	case 0x604: return m->pm1_control | 1; /* SCI_EN: no SMI to ask */
	case 0x608: return (u32)((unsigned __int128)now_ns() * PM_TIMER_HZ / 1000000000ull);
	}
	return 0;
}

/* --- one access ------------------------------------------------------------------ */

static u32 port_read(struct machine *m, u16 port, unsigned size)
{
	switch (port) {
	case 0x3f8: case 0x3f9: case 0x3fa: case 0x3fb: case 0x3fc: case 0x3fd: case 0x3fe:
	case 0x3ff:
		return uart_read(&m->uart, port & 7);
	case 0x60: return 0;
	case 0x64: return 0; /* i8042: no data, not busy */
	case 0x71: return cmos_read(m);
	case 0x92: return 2; /* A20 is on */
	case 0xe0: case 0xe1: case 0xe2: case 0xe3: {
		u32 v = 0;

		memcpy(&v, m->testdev_io + (port & 3), MIN(size, 4u - (port & 3)));
		return v;
	}
	case 0x510: return m->fw_cfg_key;
	case 0x511: return fw_cfg_byte(m);
	case 0xcf8: return size == 4 ? m->pci_address : ~0u;
	case 0x600: case 0x602: case 0x604: case 0x608:
		return pm_read(m, port);
	}
	return ~0u; /* PCI configuration data too: no device */
}

/* Port 0x80 (delay) and 0xe4 (pc-testdev: drop a page's shadow) do nothing. */
static void port_write(struct machine *m, u16 port, unsigned size, u32 v)
{
	if (port >= 0x2000 && port < 0x2018) {
		machine_irq(m, port - 0x2000u, v & 1);
		return;
	}
	switch (port) {
	case 0x3f8: case 0x3f9: case 0x3fa: case 0x3fb: case 0x3fc: case 0x3fd: case 0x3fe:
	case 0x3ff:
		uart_write(&m->uart, port & 7, (u8)v);
		break;
	case 0x64:
		if ((u8)v == 0xfe)
			machine_stop(m, RUN_OFF);
		break;
	case 0x70: m->cmos_index = v & 0x7f; break;
	case 0xe0: case 0xe1: case 0xe2: case 0xe3:
		memcpy(m->testdev_io + (port & 3), &v, MIN(size, 4u - (port & 3)));
		break;
	case 0xf4: machine_stop(m, (int)((v << 1 | 1) & 0xff)); break;
	case 0x510:
		m->fw_cfg_key = (u16)v;
		m->fw_cfg_pos = 0;
		break;
	case 0x92:
		if (v & 1)
			machine_stop(m, RUN_OFF);
		break;
	case 0xcf8:
		if (size == 4)
			m->pci_address = v;
		break;
	case 0xcf9:
		if (v & 4)
			machine_stop(m, RUN_OFF);
		break;
	case 0x602: m->pm1_enable = (u16)v; break;
	case 0x604: pm1_control_write(m, (u16)v); break;
	}
}

void devices_io(struct machine *m, u16 port, unsigned size, void *data, bool out)
{
	u32 v = 0;

	pthread_mutex_lock(&m->dev_lock);
	if (out) {
		memcpy(&v, data, size);
		port_write(m, port, size, v);
	} else {
		v = port_read(m, port, size);
		memcpy(data, &v, size);
	}
	pthread_mutex_unlock(&m->dev_lock);
}

void devices_mmio(struct machine *m, u64 gpa, unsigned size, u8 *data, bool write)
{
	u64 off = gpa - 0xff000000ull;

	if (off < 0x10000 && size <= 0x10000 - off) {
		pthread_mutex_lock(&m->dev_lock);
		memcpy(write ? m->testdev_mem + off : data, write ? data : m->testdev_mem + off,
		       size);
		pthread_mutex_unlock(&m->dev_lock);
	} else if (!write) {
		memset(data, 0xff, size);
	}
}
