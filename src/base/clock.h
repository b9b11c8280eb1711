/* SPDX-License-Identifier: MIT */
/*
 * Time.
 *
 * Every unit takes its time from a struct clock, so that tests can drive a
 * fake one.  Nanoseconds are CLOCK_MONOTONIC's; TSC ticks are the host's.
 */
#ifndef LOCUM_BASE_CLOCK_H
#define LOCUM_BASE_CLOCK_H

#include "base/types.h"

/**
 * struct clock - a source of time
 * @now_ns:     monotonic nanoseconds
 * @real_ns:    nanoseconds since 1970 (UTC)
 * @tsc:        host time-stamp counter, ticks; from now_ns() where the host's
 *              TSC is not trusted
 * @tsc_khz:    frequency of @tsc in kHz, constant
 * @tsc_stable: @tsc is the hardware counter, synchronous on all processors
 * @tsc_host:   @tsc is the host's RDTSC and nothing else
 */
struct clock {
	u64 (*now_ns)(const struct clock *c);
	u64 (*real_ns)(const struct clock *c);
	u64 (*tsc)(const struct clock *c);
	u32 tsc_khz;
	bool tsc_stable, tsc_host;
};

/**
 * clock_host() - the host's clock
 *
 * The first call decides whether the TSC is trusted and calibrates it (up to
 * 20 ms); later calls are cheap.  Any thread.
 * Return: a clock that lives for the process; never NULL.
 */
const struct clock *clock_host(void);

/** clock_hide_tsc() - make clock_host() distrust the TSC (tests, host.hide) */
void clock_hide_tsc(void);

/** clock_mul_div() - @v * @mul / @div with a 128-bit intermediate, @div != 0 */
static inline u64 clock_mul_div(u64 v, u64 mul, u64 div)
{
	return (u64)((u128)v * mul / div);
}

#endif
