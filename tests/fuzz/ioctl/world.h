/* SPDX-License-Identifier: MIT */
/*
 * What a sequence of ioctls acts on: a few VMs and vCPUs, an arena of client
 * memory that slots may show, threads that sit in KVM_RUN, and a watchdog that
 * ends those and aborts when one does not end.
 */
#ifndef TESTS_FUZZ_IOCTL_WORLD_H
#define TESTS_FUZZ_IOCTL_WORLD_H

#include <linux/kvm.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/types.h"

/* --- input ------------------------------------------------------------------- */

/** struct input - the bytes that decide everything; zeros once they are used up */
struct input {
	const u8 *p;
	size_t left;
};

u8 in8(struct input *in);
u32 in32(struct input *in);
u64 in64(struct input *in);
/** in_below() - 0..n-1; n <= 65536 */
u32 in_below(struct input *in, u32 n);
/** in_value() - a number that is likely to be a limit of something */
u64 in_value(struct input *in);
void in_bytes(struct input *in, void *buf, size_t n);

/* --- memory -------------------------------------------------------------------- */

/* Areas of the arena, apart by guard pages; all hold a pattern at first. */
#define AREAS	   3
#define AREA_PAGES 128u
#define AREA_SIZE  ((u64)AREA_PAGES * 4096)

/** arena_area() - start of area @i */
u8 *arena_area(unsigned i);
/** arena_may_change() - the pages of [@p, @p + @n) may be written from now on */
void arena_may_change(const void *p, u64 n);
/** arena_check() - abort if a page was written that no one may have; then
 * everything holds the pattern again */
void arena_check(void);

/* --- objects --------------------------------------------------------------------- */

#define VMS   3
#define VCPUS 6

struct fuzz_vcpu {
	int fd; /* -1: none */
	int vm; /* index of its VM, which may have another descriptor by now */
	struct kvm_run *run;
};

struct world {
	int sys;
	int vm[VMS];
	struct fuzz_vcpu vcpu[VCPUS];
	int eventfd[4];
	unsigned long ioctls, runs;
};

extern struct world world;

void world_init(void);
/** world_pick_vm(), world_pick_vcpu() - an index, of one that exists if any does */
unsigned world_pick_vm(struct input *in);
unsigned world_pick_vcpu(struct input *in);
void world_close_vm(unsigned i);
void world_close_vcpu(unsigned i);
/** world_add_vcpu() - a KVM_CREATE_VCPU on VM @vm gave @fd */
void world_add_vcpu(unsigned vm, int fd);
/** world_end() - the sequence is over: everything is closed and checked */
void world_end(void);

/* --- calls ----------------------------------------------------------------------- */

/** world_ioctl() - locum_ioctl() under the watchdog's eyes, traced */
long world_ioctl(int fd, u32 request, const char *name, u64 arg);

/** world_run() - KVM_RUN on vCPU @i, @times times, kicked after @us each; by
 * this thread (@worker < 0) or by a worker, if it is idle */
void world_run(unsigned i, unsigned times, unsigned us, int worker, u64 seed);

/** world_trace() - to stderr if FUZZ_TRACE is set */
__attribute__((format(printf, 1, 2))) void world_trace(const char *format, ...);

/** world_fail() - say why, and abort */
__attribute__((noreturn, format(printf, 1, 2))) void world_fail(const char *format, ...);

/* --- requests (requests.c) --------------------------------------------------------- */

/** request_any() - one request of the table, plausible or absurd */
void request_any(struct input *in);
/** request_change() - get a structure, change a little, set it */
void request_change(struct input *in);
/** request_slot() - KVM_SET_USER_MEMORY_REGION */
void request_slot(struct input *in);
/** request_vm() - a new VM, with controllers or without */
void request_vm(struct input *in);
/** request_vcpu() - a new vCPU, perhaps with a CPUID */
void request_vcpu(struct input *in);
/** request_msrs() - KVM_SET_MSRS of MSRs that exist */
void request_msrs(struct input *in);
/** request_event() - signal or read an eventfd that may be an irqfd's */
void request_event(struct input *in);
/** request_routing() - KVM_SET_GSI_ROUTING */
void request_routing(struct input *in);

/* --- guests (guest.c) --------------------------------------------------------------- */

/** guest_load() - put code into an area and a vCPU in front of it; run it a bit */
void guest_load(struct input *in);
/** guest_answer() - what a client does between two KVM_RUNs, or should not */
void guest_answer(struct kvm_run *run, u64 *seed);

#endif
