/* SPDX-License-Identifier: MIT */
/* Descriptors and task-state segments (SDM Vol. 3A "Segment Descriptors",
 * "Gate Descriptors", "Task-State Segment (TSS)", "TSS Format in 64-bit Mode"). */
#ifndef LOCUM_X86_DESC_H
#define LOCUM_X86_DESC_H

#include "x86/regs.h"

/* System descriptor types. */
#define DESC_TSS16	0x1
#define DESC_LDT	0x2
#define DESC_TSS16_BUSY 0x3
#define DESC_CALL16	0x4
#define DESC_TASK_GATE	0x5
#define DESC_INT16	0x6
#define DESC_TRAP16	0x7
#define DESC_TSS32	0x9
#define DESC_TSS32_BUSY 0xb
#define DESC_CALL32	0xc
#define DESC_INT32	0xe
#define DESC_TRAP32	0xf

/** desc_base(), desc_limit(), desc_attr() - fields of an 8-byte descriptor;
 * the limit in bytes, the attributes as struct segment has them */
static inline u64 desc_base(u64 d)
{
	return (d >> 16 & 0xffffff) | (d >> 56) << 24;
}

static inline u32 desc_attr(u64 d)
{
	return (u32)(d >> 40) & 0xf0ff;
}

static inline u32 desc_limit(u64 d)
{
	u32 limit = (u32)(d & 0xffff) | (u32)(d >> 32 & 0xf0000);

	return d >> 55 & 1 ? limit << 12 | 0xfff : limit;
}

static inline unsigned desc_dpl(u64 d)
{
	return (unsigned)(d >> 45) & 3;
}

static inline unsigned desc_type(u64 d)
{
	return (unsigned)(d >> 40) & 15;
}

/** gate_offset() - 32-bit offset of a gate's first 8 bytes */
static inline u32 gate_offset(u64 d)
{
	return (u32)(d & 0xffff) | (u32)(d >> 32 & 0xffff0000);
}

#define DESC_P BIT64(47)
#define DESC_S BIT64(44)

/* 64-bit TSS: offsets of RSP0 and IST1. */
#define TSS64_RSP0 4
#define TSS64_IST1 36
/* 32-bit TSS: ESP0 at 4, SS0 at 8, the next level 8 further. */
#define TSS32_ESP0 4
#define TSS_IOMAP  0x66

#endif
