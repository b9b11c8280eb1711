/* SPDX-License-Identifier: MIT */
/* What the files of the interpreter share. */
#ifndef LOCUM_CPU_INTERP_INT_H
#define LOCUM_CPU_INTERP_INT_H

#include "cpu/engine.h"
#include "cpu/icache.h"

/** struct interp - the interpreter's private state (cpu.interp)
 * @redo: the instruction at rip asked its owner something and must run again;
 *        the answers are on record until it is done */
struct interp {
	bool redo;
};

static inline struct interp *cpu_interp(const struct cpu *c)
{
	return c->interp;
}

/** interp_missing() - op_fn of a form that nobody executes: ENGINE_ERROR */
enum emul interp_missing(struct cpu *c, const struct insn *i);

/** interp_pc() - linear address of the next instruction */
static always_inline gva_t interp_pc(const struct cpu *c)
{
	if (likely(c->code_bits == 64))
		return c->rip;
	return (u32)(c->seg[SEG_CS].base + c->rip);
}

/** interp_rip_mask() - the bits of rip in the current mode.  16-bit code too goes
 * on beyond 64 KiB if its segment does; branches with 16-bit operands do not. */
static always_inline u64 interp_rip_mask(const struct cpu *c)
{
	return likely(c->code_bits == 64) ? ~0ull : 0xffffffffull;
}

static always_inline u32 interp_attn(const struct cpu *c)
{
	return __atomic_load_n((const u32 *)&c->attn, __ATOMIC_RELAXED);
}

static inline void interp_attn_clear(struct cpu *c, u32 bits)
{
	__atomic_fetch_and((u32 *)&c->attn, ~bits, __ATOMIC_RELAXED);
}

/**
 * interp_settle() - an instruction ended with @r: deliver its fault, drop or
 * keep the owner's record of answers
 * Return: true to go on; false: *@exit.
 */
bool interp_settle(struct cpu *c, enum emul r, enum engine_exit *exit);

/** interp_trap() - raise the debug traps in c->pending_dbg, in the guest or to
 * the client.  Return: as interp_settle(). */
bool interp_trap(struct cpu *c, enum engine_exit *exit);

/** interp_wants_step() - something asks for one instruction at a time */
static always_inline bool interp_wants_step(const struct cpu *c)
{
	return c->rflags & (RF_TF | RF_RF) || c->shadow || c->gdb.enabled || c->dr7 & 0xff ||
	       cpu_interp(c)->redo;
}

#endif
