/* SPDX-License-Identifier: MIT */
/*
 * The host's caches in each maker's leaves.
 *
 * Both makers describe a cache with the same four registers (leaf 4 of Intel,
 * 8000001D of AMD); AMD also has sizes in 80000005 and 80000006.  All are made
 * from one list, so that a guest of the other maker sees the same caches.
 */
#ifndef LOCUM_CPU_CPUID_CACHE_H
#define LOCUM_CPU_CPUID_CACHE_H

#include "base/types.h"

#define CACHES_MAX 4

/** struct host_caches - registers as leaf 4 has them, shared by one processor */
struct host_caches {
	unsigned n;
	u32 reg[CACHES_MAX][4];
};

/** cpuid_host_caches() - read them; where the host does not tell, plain ones */
void cpuid_host_caches(struct host_caches *h);

/** cpuid_cache_l1() - 80000005 for AMD: TLBs and first-level caches */
void cpuid_cache_l1(const struct host_caches *h, u32 r[4]);

/** cpuid_cache_l2() - 80000006; @amd: also TLBs and the third level */
void cpuid_cache_l2(const struct host_caches *h, bool amd, u32 r[4]);

#endif
