/* SPDX-License-Identifier: MIT */
/*
 * The life of a struct cpu; power-on and INIT state.
 * Source: SDM Vol. 3A "Processor State After Reset".
 */
#ifndef LOCUM_CPU_RESET_H
#define LOCUM_CPU_RESET_H

#include "cpu/state.h"

/**
 * cpu_init() - allocate what @c owns (its CPUID table) and reset it
 * After mmu_init(); ops, clock and stats are set.  Return: 0 or -ENOMEM.
 */
int cpu_init(struct cpu *c) must_check;
/** cpu_fini() - release it; harmless if cpu_init() failed */
void cpu_fini(struct cpu *c);

/**
 * cpu_reset() - power-on state, or after INIT
 * @init: keep what INIT keeps: x87/SSE state, MSRs, TSC, CR0.CD and NW.
 * The CPUID table stays.  On the vCPU's thread or with it stopped.
 */
void cpu_reset(struct cpu *c, bool init);

#endif
