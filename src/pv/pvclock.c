/* SPDX-License-Identifier: MIT */
#include "pv/pvclock.h"

struct pvclock_scale pvclock_scale_from_khz(u32 khz)
{
	struct pvclock_scale s = { 0, 0 };
	u64 rate = khz;

	/* ns per tick = 1e6 / khz = mul * 2^(shift - 32).  Find the shift that
	 * brings the rate just above 1e6, so that mul nearly fills 32 bits. */
	while (rate > 2000000) {
		rate >>= 1;
		s.shift--;
	}
	while (rate <= 1000000) {
		rate <<= 1;
		s.shift++;
	}
	s.mul = (u32)(((u128)1000000 << (32 - s.shift)) / khz);
	return s;
}
