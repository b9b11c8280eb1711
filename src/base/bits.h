/* SPDX-License-Identifier: MIT */
/* Bit and field arithmetic on unsigned integers. */
#ifndef LOCUM_BASE_BITS_H
#define LOCUM_BASE_BITS_H

#include "base/types.h"

#define BIT(n) (1u << (n))
#define BIT64(n) (1ull << (n))
/* Bits high..low inclusive, 0 <= low <= high <= 63. */
#define GENMASK64(high, low) ((~0ull >> (63 - (high))) & (~0ull << (low)))

#define IS_ALIGNED(x, a) (((x) & ((__typeof__(x))(a)-1)) == 0)
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))
#define ALIGN_UP(x, a) ALIGN_DOWN((x) + (__typeof__(x))(a)-1, a)

/** bits_sext() - sign-extend the low @n bits of @v, 1 <= n <= 64 */
static inline u64 bits_sext(u64 v, unsigned n)
{
	return (u64)((s64)(v << (64 - n)) >> (64 - n));
}

/** bits_fls64() - index of the highest set bit of @v, -1 for zero */
static inline int bits_fls64(u64 v)
{
	return v ? 63 - __builtin_clzll(v) : -1;
}

/** bits_ffs64() - index of the lowest set bit of @v, -1 for zero */
static inline int bits_ffs64(u64 v)
{
	return v ? __builtin_ctzll(v) : -1;
}

#endif
