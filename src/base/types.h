/* SPDX-License-Identifier: MIT */
/*
 * Scalar types and small macros that every layer uses.
 *
 * u8..u64 are the kernel's __u8..__u64, so that a `u64 *` is what
 * <linux/kvm.h> expects and %llx prints both.
 */
#ifndef LOCUM_BASE_TYPES_H
#define LOCUM_BASE_TYPES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef unsigned __int128 u128;

typedef u64 gva_t; /* guest linear (virtual) address, bytes */
typedef u64 gpa_t; /* guest-physical address, bytes */
typedef u64 gfn_t; /* guest frame number: gpa >> 12 */
typedef u64 hva_t; /* address in the client's process, bytes */

#define PAGE_SHIFT 12
#define PAGE_SIZE 4096ull
#define PAGE_MASK (~(PAGE_SIZE - 1))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CONTAINER_OF(ptr, type, member)                                        \
	((type *)((char *)(ptr)-offsetof(type, member)))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define must_check __attribute__((warn_unused_result))
#define noinline __attribute__((noinline))
#define always_inline inline __attribute__((always_inline))
#define cold __attribute__((cold))
#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))

/**
 * enum emul - how a step of guest execution ended (KVM's own words)
 * @EMUL_CONTINUE:  done, go on.
 * @EMUL_FAULT:     a guest fault; its record is in struct mmu's `fault`.
 *                  Nothing architectural was written by the instruction.
 * @EMUL_RETRY:     nothing was done; run the same instruction again.
 * @EMUL_IO:        the client must act first (port, MMIO, MSR exit); the
 *                  instruction is run again, with the client's answer, at
 *                  the next entry.
 * @EMUL_INTERCEPT: an intercept of an enclosing hypervisor was hit.
 * @EMUL_END:       done, and the current block must not be continued
 *                  (mode, mapping or code may have changed; events to see).
 */
enum emul {
	EMUL_CONTINUE = 0,
	EMUL_FAULT,
	EMUL_RETRY,
	EMUL_IO,
	EMUL_INTERCEPT,
	EMUL_END,
};

#endif
