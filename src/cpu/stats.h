/* SPDX-License-Identifier: MIT */
/*
 * Counters of a vCPU, from stats.def.  Written by the vCPU's thread alone,
 * read by anyone (plain 64-bit loads).
 */
#ifndef LOCUM_CPU_STATS_H
#define LOCUM_CPU_STATS_H

#include "base/types.h"

struct vcpu_stats {
#define STAT(name, what) u64 name;
#include "cpu/stats.def"
#undef STAT
};

#endif
