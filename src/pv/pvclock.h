/* SPDX-License-Identifier: MIT */
/*
 * The clock structure that a guest shares with its hypervisor, and its maths.
 *
 * time = system_time + (((TSC - tsc_timestamp) << shift) * mul >> 32), where a
 * negative shift means a right shift.  Source: Linux
 * Documentation/virt/kvm/x86/msr.rst.
 */
#ifndef LOCUM_PV_PVCLOCK_H
#define LOCUM_PV_PVCLOCK_H

#include "base/types.h"

/* Little-endian, in guest memory. */
struct pvclock_vcpu_time_info {
	u32 version; /* odd while being updated */
	u32 pad0;
	u64 tsc_timestamp;
	u64 system_time; /* ns */
	u32 tsc_to_system_mul;
	s8 tsc_shift;
	u8 flags; /* PVCLOCK_* */
	u8 pad[2];
};

struct pvclock_wall_clock {
	u32 version;
	u32 sec;
	u32 nsec;
};

#define PVCLOCK_TSC_STABLE    0x01
#define PVCLOCK_GUEST_STOPPED 0x02

/** struct pvclock_scale - ticks to nanoseconds */
struct pvclock_scale {
	u32 mul;
	s8 shift;
};

/** pvclock_scale_from_khz() - scale of a counter of @khz kHz, @khz > 0
 * @mul uses all its 32 bits: the error is below 2^-31. */
struct pvclock_scale pvclock_scale_from_khz(u32 khz);

/** pvclock_ticks_to_ns() - nanoseconds of @ticks, truncated as guests do */
static inline u64 pvclock_ticks_to_ns(struct pvclock_scale s, u64 ticks)
{
	ticks = s.shift < 0 ? ticks >> -s.shift : ticks << s.shift;
	return (u64)((u128)ticks * s.mul >> 32);
}

/** pvclock_read() - what a guest computes from @i when its TSC is @tsc */
static inline u64 pvclock_read(const struct pvclock_vcpu_time_info *i, u64 tsc)
{
	struct pvclock_scale s = { i->tsc_to_system_mul, i->tsc_shift };

	return i->system_time + pvclock_ticks_to_ns(s, tsc - i->tsc_timestamp);
}

#endif
