/* SPDX-License-Identifier: MIT */
/*
 * One 8254 counter as a function of time: its count and its output.
 * 8254 data sheet (231164), "Mode Definitions".
 */
#ifndef LOCUM_IRQ_PIT_COUNT_H
#define LOCUM_IRQ_PIT_COUNT_H

#include "irq/pit.h"

/** pit_ticks_to_ns() - @ticks of 1193182 Hz, rounded up */
static inline u64 pit_ticks_to_ns(u64 ticks)
{
	return (ticks * 1000000000ull + PIT_HZ - 1) / PIT_HZ;
}

/** pit_gate_triggers() - modes 1 and 5: the rising gate starts the count */
static inline bool pit_gate_triggers(const struct pit_channel *c)
{
	return c->s.mode == 1 || c->s.mode == 5;
}

/** pit_count_now() - what a read of the count gives, binary or BCD; under pit.lock */
u16 pit_count_now(const struct pit_channel *c, u64 now_ns);

/** pit_out_now() - level of OUT; under pit.lock */
bool pit_out_now(const struct pit_channel *c, u64 now_ns);

/** pit_count_decode() - the effective count of the 16 bits a guest wrote
 * Return: 1..65536 (binary) or 1..10000 (BCD). */
u32 pit_count_decode(u16 value, bool bcd);

#endif
