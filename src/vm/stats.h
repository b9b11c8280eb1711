/* SPDX-License-Identifier: MIT */
/*
 * Where counters live: a memfd in the layout that KVM_GET_STATS_FD promises
 * (header, id, descriptors, data), with the data updated in place.  Readers
 * need no call of ours: `locum stat` opens the memfd through /proc/PID/fd, and
 * nothing is left behind when the process dies.
 * Source: Linux Documentation/virt/kvm/api.rst "KVM_GET_STATS_FD".
 */
#ifndef LOCUM_VM_STATS_H
#define LOCUM_VM_STATS_H

#include <stdio.h>
#include <sys/types.h>

#include "base/bits.h"
#include "cpu/stats.h"
#include "mmu/tlb.h"

/* Name of every such memfd in /proc/PID/fd: "/memfd:locum-stats". */
#define STATS_MEMFD_NAME "locum-stats"

/** struct vm_stats - counters of a VM; updated atomically */
struct vm_stats {
#define STAT(name, what) u64 name;
#include "vm/stats.def"
#undef STAT
};

/** struct vcpu_counters - everything that is counted per vCPU */
struct vcpu_counters {
	struct vcpu_stats cpu;
	struct tlb_stats tlb; /* copied from cpu.mmu.tlb.stats at KVM_RUN's end */
};

enum stats_kind { STATS_VM, STATS_VCPU };

/** struct stats_area - one memfd
 * @data: struct vm_stats or struct vcpu_counters, in shared memory */
struct stats_area {
	int fd;
	ino_t ino;
	void *map;
	size_t bytes;
	void *data;
};

/**
 * stats_create() - counters at zero
 * @id: what identifies the object, as "kvm-1234/vcpu-0"
 * Return: 0 or -errno.
 */
int stats_create(struct stats_area *a, enum stats_kind kind, const char *id) must_check;
void stats_destroy(struct stats_area *a);

/** stats_reopen() - a descriptor for the client: read-only, with a position of
 * its own.  Return: descriptor or -errno. */
int stats_reopen(const struct stats_area *a);

/** stats_print_json() - "{"name": value, ...}" */
void stats_print_json(FILE *f, enum stats_kind kind, const void *data);

#endif
