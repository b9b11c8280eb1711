/* SPDX-License-Identifier: MIT */
/* --cpu [vendor=intel|amd,]+FEATURE,-FEATURE...: changes to a CPUID table. */
#ifndef LOCUM_MONITOR_CPUFLAGS_H
#define LOCUM_MONITOR_CPUFLAGS_H

#include <linux/kvm.h>

#include "base/types.h"

/**
 * cpuflags_apply() - change the @n entries of @e as @text says
 * A feature that is not offered can be removed but not added.
 * Return: 0; RUN_USAGE after one line that lists the known names.
 */
int cpuflags_apply(const char *text, struct kvm_cpuid_entry2 *e, u32 n);

/** cpuflags_print() - the names of what the @n entries of @e have, to stdout */
void cpuflags_print(struct kvm_cpuid_entry2 *e, u32 n);

#endif
