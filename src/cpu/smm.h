/* SPDX-License-Identifier: MIT */
/*
 * System management mode: entry, state-save area, RSM.
 * Source: APM Vol. 2 "System-Management Mode", tables of the AMD64 and the
 * legacy state-save area; SDM Vol. 3C "System Management Mode".
 *
 * The area has the 64-bit layout when the vCPU's CPUID has long mode, else the
 * 32-bit one, whatever the vendor: as under KVM.  Neither the restart of an I/O
 * instruction nor that of HLT is offered: their fields are zero and not read.
 */
#ifndef LOCUM_CPU_SMM_H
#define LOCUM_CPU_SMM_H

#include "cpu/state.h"

#define SMM_SMBASE_RESET 0x30000u
#define SMM_ENTRY	 0x8000u /* rip of the handler; CS.base is SMBASE */
#define SMM_AREA	 0xfe00u /* the state-save area, from SMBASE */
#define SMM_AREA_BYTES	 512u

/**
 * smm_enter() - take a system management interrupt at an instruction boundary
 *
 * Saves the state in guest memory, as far as there is memory, and makes it
 * that of the handler's first instruction; NMIs are blocked.  The caller has
 * checked that the vCPU is not in SMM, and that no event, shadow or trap is
 * under way.  The vCPU's thread, out of guest mode.
 */
void smm_enter(struct cpu *c);

/** smm_set() - be in SMM or not, with no other state changed: what the client
 * restores (KVM_SET_VCPU_EVENTS), and INIT */
void smm_set(struct cpu *c, bool on, bool in_nmi);

#endif
