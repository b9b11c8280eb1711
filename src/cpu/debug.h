/* SPDX-License-Identifier: MIT */
/*
 * Debug registers: the guest's, or those that the client's debugger put in
 * their place (KVM_SET_GUEST_DEBUG with KVM_GUESTDBG_USE_HW_BP).
 * Source: SDM Vol. 3B "Debug, Branch Profile, TSC, and Intel RDT Features".
 */
#ifndef LOCUM_CPU_DEBUG_H
#define LOCUM_CPU_DEBUG_H

#include "cpu/state.h"

#define DR6_FIXED_1 0xffff0ff0ull
#define DR6_B	    0xfull
#define DR6_BD	    BIT64(13)
#define DR6_BS	    BIT64(14)
#define DR7_FIXED_1 BIT64(10)
#define DR7_GD	    BIT64(13)

/** debug_update() - DR0-3, DR7 or the client's debug state changed: set the
 * memory watch accordingly */
void debug_update(struct cpu *c);

/** debug_has_insn_bp() - some instruction breakpoint is enabled: the engine
 * asks debug_insn_hits() before each instruction */
bool debug_has_insn_bp(const struct cpu *c);

/** debug_insn_hits() - DR6 bits of enabled instruction breakpoints at @lin */
u32 debug_insn_hits(const struct cpu *c, gva_t lin);

/** debug_data_hits() - DR6 bits of data breakpoints hit since the last call */
u32 debug_data_hits(struct cpu *c);

/** debug_io_hits() - DR6 bits of I/O breakpoints (CR4.DE) for a port access */
u32 debug_io_hits(const struct cpu *c, u16 port, unsigned size);

/** debug_client_owns() - hits go to the client (KVM_EXIT_DEBUG), not the guest */
static inline bool debug_client_owns(const struct cpu *c)
{
	return c->gdb.enabled && c->gdb.hw_bp;
}

/** debug_read(), debug_write() - MOV from and to DR @n; checks DE, GD, bits
 * Return: EMUL_CONTINUE or EMUL_FAULT (#UD, #GP, #DB for GD). */
enum emul debug_read(struct cpu *c, unsigned n, u64 *v) must_check;
enum emul debug_write(struct cpu *c, unsigned n, u64 v) must_check;

#endif
