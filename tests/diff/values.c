/* SPDX-License-Identifier: MIT */
/* Operand values: the edges of each type, and uniform ones between. */
#include <string.h>

#include "diff.h"

u64 value_int(void)
{
	static const u64 edges[] = {
		0,
		1,
		2,
		7,
		8,
		0xf,
		0x10,
		0x1f,
		0x20,
		0x3f,
		0x40,
		0x7f,
		0x80,
		0xff,
		0x100,
		0x7fff,
		0x8000,
		0xffff,
		0x10000,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		0x7fffffffffffffff,
		0x8000000000000000,
		~0ull,
		~1ull,
	};

	switch (rng_below(6)) {
	case 0:
		return edges[rng_below(ARRAY_SIZE(edges))];
	case 1:
		return rng() >> rng_below(64);
	case 2:
		return ~(rng() >> rng_below(64));
	case 3:
		return (u64)(s64)(s32)rng();
	default:
		return rng();
	}
}

/* Sign, exponent and fraction each from the values that matter. */
static u64 value_float(unsigned exp_bits, unsigned frac_bits)
{
	u64 top = (1ull << exp_bits) - 1, bias = top >> 1, exp, frac;

	switch (rng_below(10)) {
	case 0:
		exp = 0;
		break;
	case 1:
		exp = top;
		break;
	case 2:
		exp = rng_below(4);
		break;
	case 3:
		exp = top - rng_below(4);
		break;
	case 4:
		exp = rng_below(top + 1);
		break;
	default:
		exp = bias - 4 + rng_below(70);
		break;
	}
	switch (rng_below(6)) {
	case 0:
		frac = 0;
		break;
	case 1:
		frac = 1ull << rng_below(frac_bits);
		break;
	case 2:
		frac = ~0ull >> rng_below(frac_bits);
		break;
	case 3:
		frac = rng() << rng_below(frac_bits);
		break;
	default:
		frac = rng();
		break;
	}
	frac &= (1ull << frac_bits) - 1;
	return (rng() & 1) << (exp_bits + frac_bits) | (exp & top) << frac_bits | frac;
}

u64 value_f32(void)
{
	return value_float(8, 23);
}

u64 value_f64(void)
{
	return value_float(11, 52);
}

void value_f80(u8 *out10)
{
	u64 v = value_float(15, 48), frac = rng();
	u16 head = (u16)(v >> 48);

	switch (rng_below(8)) {
	case 0:
		frac = 0;
		break;
	case 1:
		frac = rng() << rng_below(64);
		break;
	case 2:
		frac = 1ull << 63;
		break;
	case 3:
		break; /* may be an unnormal */
	default:
		frac |= 1ull << 63;
		break;
	}
	if ((head & 0x7fff) == 0 && rng_chance(80))
		frac &= ~0ull >> 1;
	memcpy(out10, &frac, 8);
	memcpy(out10 + 8, &head, 2);
}

void value_vector(u8 *out16)
{
	unsigned kind = (unsigned)rng_below(4);

	for (unsigned k = 0; k < 16; k += kind == 0 ? 4 : 8) {
		u64 v = kind == 0   ? value_f32()
			: kind == 1 ? value_f64()
			: kind == 2 ? value_int()
				    : rng();

		memcpy(out16 + k, &v, kind == 0 ? 4 : 8);
	}
}
