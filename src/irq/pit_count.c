/* SPDX-License-Identifier: MIT */
#include "irq/pit_count.h"

#include "base/clock.h"

static u32 modulus(const struct pit_channel *c)
{
	return c->s.bcd ? 10000 : 65536;
}

static u16 to_bcd(u32 v)
{
	return (u16)(v % 10 | v / 10 % 10 << 4 | v / 100 % 10 << 8 | v / 1000 % 10 << 12);
}

u32 pit_count_decode(u16 value, bool bcd)
{
	u32 v = value;

	if (bcd)
		v = (v & 15) + (v >> 4 & 15) * 10 + (v >> 8 & 15) * 100 +
		    (v >> 12) * 1000;
	if (!v)
		return bcd ? 10000 : 65536;
	return bcd && v > 10000 ? v % 10000 + 1 : v;
}

/* Mode 3 counts down twice a period, by two; an odd count starts one lower, and
 * its high half is one tick longer. */
static u32 square_count(u32 n, u64 ticks)
{
	u32 in_period = (u32)(ticks % n), high = (n + 1) / 2;
	u32 in_half = in_period < high ? in_period : in_period - high;

	return (n & ~1u) - 2 * in_half;
}

/* Modes 1 and 5 count from the rising gate. */
static bool counting(const struct pit_channel *c)
{
	if (pit_gate_triggers(c))
		return c->loaded && c->triggered;
	return c->loaded;
}

/* Whole ticks since the count was loaded (or triggered); a low gate stops the
 * modes that it does not trigger. */
static u64 elapsed_ticks(const struct pit_channel *c, u64 now_ns)
{
	u64 since = (u64)c->s.count_load_time;
	u64 ns = now_ns > since ? now_ns - since : 0;

	if (!c->s.gate && !pit_gate_triggers(c))
		ns = c->paused_ns;
	return clock_mul_div(ns, PIT_HZ, 1000000000);
}

u16 pit_count_now(const struct pit_channel *c, u64 now_ns)
{
	u32 mod = modulus(c), count = c->s.count;
	u64 ticks = elapsed_ticks(c, now_ns);

	if (counting(c) && count) {
		switch (c->s.mode) {
		case 2:
			count -= (u32)(ticks % count);
			break;
		case 3:
			count = square_count(count, ticks);
			break;
		default:
			count = (count + mod - (u32)(ticks % mod)) % mod;
			break;
		}
	}
	count %= mod;
	return c->s.bcd ? to_bcd(count) : (u16)count;
}

bool pit_out_now(const struct pit_channel *c, u64 now_ns)
{
	u64 ticks = elapsed_ticks(c, now_ns);
	u32 count = c->s.count;

	if (!counting(c) || !count)
		return c->s.mode != 0;
	switch (c->s.mode) {
	case 0: /* interrupt on terminal count */
		return ticks >= count;
	case 1: /* one-shot pulse */
		return ticks >= count;
	case 2: /* rate generator: low for the last tick */
		return !c->s.gate || ticks % count != count - 1;
	case 3: /* square wave */
		return !c->s.gate || ticks % count < (count + 1) / 2;
	default: /* strobes: low for one tick */
		return ticks != count;
	}
}
