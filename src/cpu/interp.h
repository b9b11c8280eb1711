/* SPDX-License-Identifier: MIT */
/*
 * The interpreter: complete, exact, and the slow path of every other engine.
 */
#ifndef LOCUM_CPU_INTERP_H
#define LOCUM_CPU_INTERP_H

#include "cpu/engine.h"
#include "cpu/icache.h"
#include "cpu/state.h"

/**
 * interp_init() - give @c its decoded-block cache and the interpreter's state
 * After mmu_init(), before the first engine_interp.run().  Sets c->icache and
 * c->interp.
 * Return: 0 or -ENOMEM.
 */
int interp_init(struct cpu *c, const struct icache_config *config) must_check;

/** interp_fini() - release what interp_init() made; harmless if it failed */
void interp_fini(struct cpu *c);

/**
 * interp_step() - execute one instruction, and deliver its fault if it has one
 * The unit of step mode, of lock-step tests and of an engine that refuses an
 * instruction.  Traps that became due after the instruction are delivered too.
 * Between mmu_enter_guest() and mmu_exit_guest(), on the vCPU's thread.
 * Return: true to go on; false: *@exit is why the engine must return.
 */
bool interp_step(struct cpu *c, enum engine_exit *exit);

/**
 * interp_loop() - the run loop of an engine
 * @blocks: executes guest code from c->rip until an instruction does not simply
 *          continue or attention is wanted, with c->rip exact; returns that
 *          instruction's outcome.  It is called when nothing asks for one
 *          instruction at a time.  EMUL_INTERCEPT without cpu_refuse() means
 *          that the instruction at c->rip is to be run by interp_step().
 * Delivers what is due at entry and between calls.  Return: as struct engine.run.
 */
enum engine_exit interp_loop(struct cpu *c, enum emul (*blocks)(struct cpu *c));

/** interp_block() - run the block @b, which icache_lookup() gave for c->rip
 * Return: as @blocks above; EMUL_CONTINUE at its end. */
enum emul interp_block(struct cpu *c, const struct block *b);

/** interp_error_text() - after ENGINE_ERROR: what could not be executed; a
 * string that lives until the next run */
const char *interp_error_text(const struct cpu *c);

#endif
