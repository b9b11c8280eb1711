/* SPDX-License-Identifier: MIT */
#include "cpu/cpuid_cache.h"

#include <cpuid.h>
#include <string.h>

#include "base/bits.h"
#include "cpu/hostcpu.h"

enum { DATA = 1, CODE = 2, UNIFIED = 3 };

#define AMD_TOPOEXT BIT(22) /* 80000001.ECX: 8000001D is there */

struct geometry {
	u32 bytes, ways, line;
};

static u32 type_of(const u32 r[4])
{
	return r[0] & 31;
}

static u32 level_of(const u32 r[4])
{
	return r[0] >> 5 & 7;
}

static struct geometry geometry_of(const u32 r[4])
{
	struct geometry g = { .ways = (r[1] >> 22) + 1, .line = (r[1] & 0xfff) + 1 };

	g.bytes = g.ways * g.line * ((r[1] >> 12 & 0x3ff) + 1) * (r[2] + 1);
	return g;
}

/* Where nothing is told: 32K + 32K, 512K, 8M. */
static void plain_caches(struct host_caches *h)
{
	static const struct host_caches plain = {
		.n = 4,
		.reg = { { 0x121, 7u << 22 | 63, 63, 0 },
			 { 0x122, 7u << 22 | 63, 63, 0 },
			 { 0x143, 7u << 22 | 63, 1023, 0 },
			 { 0x163, 15u << 22 | 63, 8191, 0 } },
	};

	*h = plain;
}

void cpuid_host_caches(struct host_caches *h)
{
	u32 leaf = hostcpu()->amd ? 0x8000001d : 4, r[4], max[4];

	memset(h, 0, sizeof(*h));
	__cpuid(leaf & 0x80000000, max[0], max[1], max[2], max[3]);
	__cpuid(0x80000001, r[0], r[1], r[2], r[3]);
	if (max[0] >= leaf && (leaf == 4 || (r[2] & AMD_TOPOEXT)))
		for (; h->n < CACHES_MAX; h->n++) {
			__cpuid_count(leaf, h->n, r[0], r[1], r[2], r[3]);
			if (!type_of(r))
				break;
			r[0] &= 0x3fff; /* sharing: one processor */
			memcpy(h->reg[h->n], r, sizeof(r));
		}
	if (!h->n)
		plain_caches(h);
}

static struct geometry find(const struct host_caches *h, u32 level, u32 type)
{
	for (unsigned n = 0; n < h->n; n++)
		if (level_of(h->reg[n]) == level &&
		    (type_of(h->reg[n]) == type || type_of(h->reg[n]) == UNIFIED))
			return geometry_of(h->reg[n]);
	return (struct geometry){ 0 };
}

/* APM Vol. 3 "CPUID Fn8000_0006": associativity is a code; between two of them
 * the lower one is told. */
static u32 ways_code(u32 ways)
{
	static const struct {
		u8 ways, code;
	} t[] = { { 128, 14 }, { 96, 13 }, { 64, 12 }, { 48, 11 }, { 32, 10 }, { 16, 8 },
		  { 8, 6 },    { 6, 5 },   { 4, 4 },   { 3, 3 },   { 2, 2 } };

	for (unsigned n = 0; n < ARRAY_SIZE(t); n++)
		if (ways >= t[n].ways)
			return t[n].code;
	return ways;
}

void cpuid_cache_l1(const struct host_caches *h, u32 r[4])
{
	struct geometry d = find(h, 1, DATA), i = find(h, 1, CODE);

	r[0] = r[1] = 0xff40ff40; /* 64 entries each, fully associative */
	r[2] = (d.bytes >> 10) << 24 | (d.ways & 0xff) << 16 | 1 << 8 | d.line;
	r[3] = (i.bytes >> 10) << 24 | (i.ways & 0xff) << 16 | 1 << 8 | i.line;
}

void cpuid_cache_l2(const struct host_caches *h, bool amd, u32 r[4])
{
	struct geometry l2 = find(h, 2, UNIFIED), l3 = find(h, 3, UNIFIED);

	r[0] = r[1] = r[3] = 0;
	r[2] = (l2.bytes >> 10) << 16 | ways_code(l2.ways) << 12 | (amd ? 1 << 8 : 0) |
	       l2.line;
	if (!amd)
		return;
	r[0] = r[1] = 0x64006400; /* TLBs: 1024 entries, 8 ways each */
	if (l3.bytes)
		r[3] = (l3.bytes >> 19) << 18 | ways_code(l3.ways) << 12 | 1 << 8 | l3.line;
}
