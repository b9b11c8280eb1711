/* SPDX-License-Identifier: MIT */
/*
 * The translator: guest instructions run as host instructions.
 *
 * It translates the interpreter's blocks (cpu/icache.h) at their second
 * execution.  A translation lives and dies with its block, so what is known of
 * changed code holds for it as well.  Guest registers have fixed homes in host
 * registers or in struct cpu, arithmetic flags are the host's, vector registers
 * are the host's; an instruction is copied with its registers renamed and its
 * memory operand replaced by a checked host address.  Whatever is unusual, an
 * instruction that is not copied or an access that misses the TLB, is given to
 * the interpreter as one instruction, with all state in struct cpu.
 *
 * All of it belongs to the vCPU's thread.
 */
#ifndef LOCUM_JIT_JIT_H
#define LOCUM_JIT_JIT_H

#include "cpu/engine.h"

struct cpu;

/** jit_supported() - the host has what emitted code uses (BMI2, XSAVE ...) */
bool jit_supported(void);

/**
 * jit_init() - give @c a translator; after interp_init()
 * @exact: arithmetic flags are right at every fault, also those that the block
 *         overwrites before anybody can read them (jit.flags=exact)
 * @count: count retired instructions (stats.instructions=on)
 * Return: 0; -ENOMEM; -ENOSYS: !jit_supported(); another -errno where the host
 * allows no executable memory.
 */
int jit_init(struct cpu *c, bool exact, bool count) must_check;

/** jit_fini() - harmless without jit_init() */
void jit_fini(struct cpu *c);

/**
 * jit_step() - for tests: translate the next @limit instructions at most, as one
 * block, and run them; one at least
 * Between mmu_enter_guest() and mmu_exit_guest().  What asks for one instruction
 * at a time is left to interp_step().
 * Return: as interp_step().
 */
bool jit_step(struct cpu *c, unsigned limit, enum engine_exit *exit);

/** jit_fault() - a SIGSEGV or SIGBUS at host address @pc of the calling thread
 * If @pc is in translated code of @c: where to go on instead, with the registers
 * as they are; the access is made again by the interpreter.  Else 0. */
u64 jit_fault(struct cpu *c, u64 pc);

/* Needs jit_init(). */
extern const struct engine engine_jit;

#endif
