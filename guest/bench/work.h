/* SPDX-License-Identifier: MIT */
/*
 * The workloads of `locum bench peers`.  Each does @n operations and returns a
 * checksum that depends on @n alone: another machine gives the same.
 * Called twice, first with few operations to warm up: what is to be prepared is
 * prepared by the first call.
 */
#ifndef LOCUM_GUEST_BENCH_WORK_H
#define LOCUM_GUEST_BENCH_WORK_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define ROW(name, group, processors, count, fn) u64 fn(unsigned long n);
#include "cli/bench_rows.def"
#undef ROW

/** skip() - end this workload: the machine lacks what it needs; @why in words */
void skip(const char *why) __attribute__((noreturn));

/** fail() - end this workload: it went wrong; @what in words */
void fail(const char *what) __attribute__((noreturn));

/** pages() - @bytes of zeroed private memory in pages of 4 KiB, protection @prot */
void *pages(size_t bytes, int prot);

/** map_here() - @bytes of zeroed private memory, to be unmapped, at place @which (0
 * to 14, 128 KiB each) of a range whose page tables other memory keeps alive, as in
 * a program with libraries */
void *map_here(unsigned which, size_t bytes);

/** root_path() - where the initrd's @name lies on this machine */
const char *root_path(const char *name);

/** random64() - the next number of a sequence (xorshift); @x: state, not 0 */
static inline u64 random64(u64 *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/** fold() - @h with @v mixed in */
static inline u64 fold(u64 h, u64 v)
{
	return ((h << 7 | h >> 57) ^ v) * 0x9e3779b97f4a7c15ull;
}

#endif
