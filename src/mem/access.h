/* SPDX-License-Identifier: MIT */
/*
 * Loads and stores in guest RAM.
 *
 * Guest RAM is written by other vCPUs and by the client at any moment.  Every
 * access of 1, 2, 4 or 8 bytes is one host instruction, so an aligned one does
 * not tear; the order is the host's (TSO) and the compiler invents, merges and
 * repeats nothing.  Sanitizer builds use atomics, bytewise where unaligned, so
 * that races of the guest are not reported as ours.
 */
#ifndef LOCUM_MEM_ACCESS_H
#define LOCUM_MEM_ACCESS_H

#include <stdint.h>

#include "base/bits.h"

static inline u8 access_load8(const void *p)
{
	return __atomic_load_n((const u8 *)p, __ATOMIC_RELAXED);
}

static inline void access_store8(void *p, u8 v)
{
	__atomic_store_n((u8 *)p, v, __ATOMIC_RELAXED);
}

#ifdef LOCUM_SANITIZE
#define ACCESS_TYPE(bits)                                                             \
	static inline u##bits access_load##bits(const void *p)                        \
	{                                                                             \
		u##bits v = 0;                                                        \
                                                                                      \
		if (IS_ALIGNED((uintptr_t)p, bits / 8))                               \
			return __atomic_load_n((const u##bits *)p, __ATOMIC_RELAXED); \
		for (unsigned i = 0; i < bits / 8; i++)                               \
			v |= (u##bits)((u##bits)access_load8((const u8 *)p + i)       \
				       << 8 * i);                                     \
		return v;                                                             \
	}                                                                             \
	static inline void access_store##bits(void *p, u##bits v)                     \
	{                                                                             \
		if (IS_ALIGNED((uintptr_t)p, bits / 8))                               \
			__atomic_store_n((u##bits *)p, v, __ATOMIC_RELAXED);          \
		else                                                                  \
			for (unsigned i = 0; i < bits / 8; i++)                       \
				access_store8((u8 *)p + i, (u8)(v >> 8 * i));         \
	}
#else
/* A volatile member of a packed struct: one mov of any alignment. */
#define ACCESS_TYPE(bits)                                              \
	struct access_u##bits {                                        \
		u##bits v;                                             \
	} __attribute__((packed, may_alias));                          \
	static inline u##bits access_load##bits(const void *p)         \
	{                                                              \
		return ((const volatile struct access_u##bits *)p)->v; \
	}                                                              \
	static inline void access_store##bits(void *p, u##bits v)      \
	{                                                              \
		((volatile struct access_u##bits *)p)->v = v;          \
	}
#endif
ACCESS_TYPE(16)
ACCESS_TYPE(32)
ACCESS_TYPE(64)
#undef ACCESS_TYPE

/** access_read() - @n bytes from guest RAM at @src; 1, 2, 4, 8 are one load */
static inline void access_read(void *dst, const void *src, size_t n)
{
	u8 *d = dst;
	const u8 *s = src;

	for (; n >= 8; n -= 8, d += 8, s += 8) {
		u64 v = access_load64(s);

		__builtin_memcpy(d, &v, 8);
	}
	if (n & 4) {
		u32 v = access_load32(s);

		__builtin_memcpy(d, &v, 4);
		d += 4;
		s += 4;
	}
	if (n & 2) {
		u16 v = access_load16(s);

		__builtin_memcpy(d, &v, 2);
		d += 2;
		s += 2;
	}
	if (n & 1)
		*d = access_load8(s);
}

/** access_write() - @n bytes to guest RAM at @dst; 1, 2, 4, 8 are one store */
static inline void access_write(void *dst, const void *src, size_t n)
{
	u8 *d = dst;
	const u8 *s = src;

	for (; n >= 8; n -= 8, d += 8, s += 8) {
		u64 v;

		__builtin_memcpy(&v, s, 8);
		access_store64(d, v);
	}
	if (n & 4) {
		u32 v;

		__builtin_memcpy(&v, s, 4);
		access_store32(d, v);
		d += 4;
		s += 4;
	}
	if (n & 2) {
		u16 v;

		__builtin_memcpy(&v, s, 2);
		access_store16(d, v);
		d += 2;
		s += 2;
	}
	if (n & 1)
		access_store8(d, *s);
}

#endif
