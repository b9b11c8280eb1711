/* SPDX-License-Identifier: MIT */
/*
 * The machine of `locum run`: memory, vCPUs and a handful of devices.
 *
 *   0            ... low RAM, up to 3 GiB
 *   0x000e0000   ... ACPI tables (reserved)
 *   4 GiB        ... the rest of RAM
 *
 * Interrupt controllers and the 8254 are the backend's.  Devices here: 16550 on
 * COM1, ACPI power management, reset ports, debug exit, what kvm-unit-tests ask
 * of QEMU's pc-testdev and fw_cfg, CMOS.
 */
#ifndef LOCUM_MONITOR_MACHINE_H
#define LOCUM_MONITOR_MACHINE_H

#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>

#include "monitor/backend.h"
#include "monitor/console.h"
#include "monitor/uart.h"

#define MACHINE_MAX_CPUS 64
#define MACHINE_LOW_MAX	 (3ull << 30)
#define MACHINE_HIGH	 (4ull << 30)
#define ACPI_AREA	 0xe0000ull
#define ACPI_SIZE	 0x2000ull

/* Exit codes of `locum run`. */
enum {
	RUN_OFF = 0,	   /* power-off or reset */
	RUN_USAGE = 2,	   /* usage, or cannot start */
	RUN_TRIPLE = 4,	   /* triple fault, or the backend gave up */
	RUN_TIMEOUT = 124,
};

/** struct run_options - what the command line says; strings live long enough
 * @cpu: feature changes of --cpu, NULL: none; @marker: --time-marker */
struct run_options {
	const char *kernel, *initrd, *params, *cpu, *stats, *marker;
	unsigned cpus;
	u64 mem_mib;
	unsigned timeout_s;
	const struct backend *backend;
};

struct machine_cpu {
	struct machine *m;
	unsigned id;
	int fd;
	struct kvm_run *run;
	pthread_t thread;
	bool started;
};

struct machine {
	const struct run_options *opt;
	const struct backend *be;
	int kvm, vm;
	u8 *ram; /* one mapping; guest-physical 4 GiB is at offset low_size */
	u64 ram_size, low_size;
	size_t run_size;
	unsigned ncpus;
	struct machine_cpu cpu[MACHINE_MAX_CPUS];
	struct uart uart;
	struct console console;

	pthread_mutex_t dev_lock; /* devices below and the UART */
	u32 pci_address;
	u8 cmos_index;
	u16 fw_cfg_key;
	u32 fw_cfg_pos;
	u16 pm1_enable, pm1_control;
	u8 testdev_io[4];
	u8 *testdev_mem; /* 64 KiB at 0xff000000 */
	u64 start_ns;	 /* first KVM_RUN */

	int wake;	      /* eventfd: the machine has ended */
	atomic_int exit_code; /* -1 while running */
};

/** machine_create() - memory, VM and interrupt controllers; prints one line and
 * returns RUN_USAGE if that fails, else 0 */
int machine_create(struct machine *m, const struct run_options *opt);
void machine_destroy(struct machine *m);

/** machine_ram() - host address of [@gpa, @gpa + n), NULL if it is not all RAM */
u8 *machine_ram(struct machine *m, u64 gpa, u64 n);

/** machine_create_cpus() - vCPUs with CPUID; state as the backend resets it */
int machine_create_cpus(struct machine *m);

/** machine_run() - run until @m ends; returns the exit code */
int machine_run(struct machine *m);

/** machine_stop() - the machine ends with @code; the first caller decides;
 * async-signal-safe */
void machine_stop(struct machine *m, int code);
bool machine_stopped(struct machine *m);

/** vcpus_start(), vcpus_join() - a thread a vCPU; vcpus_start() returns 0 or
 * RUN_USAGE after one line, and then too vcpus_join() ends what was started */
int vcpus_start(struct machine *m);
void vcpus_join(struct machine *m);

/** triple_fault_report() - one line: where, why the double fault had no
 * handler, and the registers */
void triple_fault_report(struct machine_cpu *c);

/** machine_irq() - set the level of GSI @gsi */
void machine_irq(struct machine *m, unsigned gsi, bool level);

/** devices_io(), devices_mmio() - one access of a vCPU; any thread */
void devices_io(struct machine *m, u16 port, unsigned size, void *data, bool out);
void devices_mmio(struct machine *m, u64 gpa, unsigned size, u8 *data, bool write);

/** boot_load() - find out what the kernel image is, load it and set vCPU 0 up;
 * prints one line and returns RUN_USAGE if it cannot, else 0 */
int boot_load(struct machine *m);

/** acpi_build() - write the tables to ACPI_AREA; returns the RSDP's address */
u64 acpi_build(struct machine *m);

#endif
