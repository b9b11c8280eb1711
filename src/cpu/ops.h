/* SPDX-License-Identifier: MIT */
/*
 * Calls from the processor to whoever owns it (vm/, or a test).
 *
 * Each may return EMUL_IO: the client must act first.  The instruction is
 * then run again from its start at the next entry and asks the same questions
 * in the same order; the owner answers those that were answered before from
 * its record (vm/replay.h).  `commit` drops the record.
 */
#ifndef LOCUM_CPU_OPS_H
#define LOCUM_CPU_OPS_H

#include "base/types.h"

struct cpu;

struct cpu_ops {
	/* @count elements of @size (1, 2, 4) bytes at @data.  IN may be served
	 * with fewer elements than asked: *@count is what was done, >= 1. */
	enum emul (*pio)(struct cpu *c, u16 port, unsigned size, void *data,
			 unsigned *count, bool out);
	/* MSRs that the processor layer does not own (APIC, KVM, x2APIC) and
	 * those that a filter or the client wants to see.  EMUL_FAULT: #GP(0). */
	enum emul (*rdmsr)(struct cpu *c, u32 index, u64 *value);
	enum emul (*wrmsr)(struct cpu *c, u32 index, u64 value);
	/* True if @index is filtered away from the processor's own handling:
	 * then rdmsr/wrmsr above is called even for an MSR that cpu/ owns. */
	bool (*msr_filtered)(struct cpu *c, u32 index, bool write);
	/* The processor refuses the access: a value that it does not take, a
	 * write to what can only be read.  NULL: #GP(0); else the owner's
	 * answer, which may be that it is done, *@value read. */
	enum emul (*msr_refused)(struct cpu *c, u32 index, u64 *value, bool write);
	enum emul (*hypercall)(struct cpu *c);
	/* CR8 was written or read: the task priority lives in the LAPIC. */
	u64 (*get_cr8)(struct cpu *c);
	void (*set_cr8)(struct cpu *c, u64 value);
	/* Something that may make an event deliverable happened: IF 0->1,
	 * shadow over, IRET unblocked NMI. */
	void (*event_check)(struct cpu *c);
	/* The instruction (or one iteration of a REP) is done: forget answers. */
	void (*commit)(struct cpu *c);
	/* APIC base MSR for CPUID.1:EDX[9] */
	u64 (*apic_base)(struct cpu *c);
	/* KVM_X86_QUIRK_* that the client has disabled; NULL: none. */
	u64 (*disabled_quirks)(const struct cpu *c);
};

#endif
