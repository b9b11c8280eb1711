/* SPDX-License-Identifier: MIT */
/* Loops that the compiler vectorises: AVX2 where the processor has it, else SSE2.
 * No sum is reordered, so both give the same. */
#include <string.h>

#include "work.h"

#define LEN 4096

static float fx[LEN], fy[LEN], fz[LEN];
static u32 ix[LEN], iy[LEN], iz[LEN];

static inline __attribute__((always_inline)) void float_pass(float c)
{
	for (int i = 0; i < LEN; i++) {
		float v = fx[i] * c + fy[i] * 0.25f + 1.0f; /* never denormal */

		v = v > 100.0f ? v - 100.0f : v;
		fz[i] = v / (1.0f + fy[i]);
	}
	for (int i = 0; i < LEN; i++)
		fy[i] = fy[i] * 0.5f + fz[i];
}

static inline __attribute__((always_inline)) void int_pass(u32 c)
{
	for (int i = 0; i < LEN; i++) {
		u32 v = ix[i] * c + (iy[i] >> 3), low = v < iz[i] ? v : iz[i];

		iz[i] = (v ^ iy[i] << 5) + low;
	}
	for (int i = 0; i < LEN; i++)
		iy[i] = (iy[i] & 0xff00ff00) - (iz[i] ^ ix[i]);
}

#define PASSES(name, type)                                                                   \
	static __attribute__((noinline, target("avx2"))) void name##_avx2(type c) { name(c); } \
	static __attribute__((noinline)) void name##_sse2(type c) { name(c); }
PASSES(float_pass, float)
PASSES(int_pass, u32)

u64 vec_float(unsigned long n)
{
	void (*pass)(float) = __builtin_cpu_supports("avx2") ? float_pass_avx2 : float_pass_sse2;
	u64 sum = 0;

	for (int i = 0; i < LEN; i++) {
		fx[i] = (float)(i % 97) * 0.5f;
		fy[i] = (float)(i % 89) * 0.25f;
	}
	for (unsigned long i = 0; i < n; i++)
		pass(1.0f + (float)(i & 7) * 0.125f);
	for (int i = 0; i < LEN; i++) {
		u32 v;

		memcpy(&v, &fy[i], sizeof(v));
		sum = fold(sum, v);
	}
	return sum;
}

u64 vec_int(unsigned long n)
{
	void (*pass)(u32) = __builtin_cpu_supports("avx2") ? int_pass_avx2 : int_pass_sse2;
	u64 x = 1, sum = 0;

	for (int i = 0; i < LEN; i++) {
		ix[i] = (u32)random64(&x);
		iy[i] = (u32)random64(&x);
		iz[i] = (u32)i;
	}
	for (unsigned long i = 0; i < n; i++)
		pass((u32)i * 2654435761u);
	for (int i = 0; i < LEN; i++)
		sum = fold(sum, iy[i]);
	return sum;
}
