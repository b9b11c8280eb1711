/* SPDX-License-Identifier: MIT */
/* Random numbers: a stream per (seed, case number), so that any case replays alone. */
#include "diff.h"

static u64 s[2];

static u64 mix(u64 *x)
{
	u64 z = *x += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void rng_seed(u64 seed, u64 number)
{
	u64 x = seed * 0x2545f4914f6cdd1dull + number;

	s[0] = mix(&x);
	s[1] = mix(&x) | 1;
}

/* xorshift128+ */
u64 rng(void)
{
	u64 a = s[0], b = s[1];

	s[0] = b;
	a ^= a << 23;
	s[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
	return s[1] + b;
}

u64 rng_below(u64 n)
{
	return (u64)(((u128)rng() * n) >> 64);
}
