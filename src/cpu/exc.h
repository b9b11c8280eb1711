/* SPDX-License-Identifier: MIT */
/*
 * Delivery of exceptions and interrupts through the IDT (or the real-mode
 * vector table), double and triple faults, IRET.
 */
#ifndef LOCUM_CPU_EXC_H
#define LOCUM_CPU_EXC_H

#include "cpu/state.h"

/**
 * exc_deliver_fault() - deliver c->mmu.fault, the fault of the instruction at c->rip
 *
 * A fault during delivery becomes a second fault or #DF by the manual's table;
 * a fault during #DF sets c->shutdown.  Fault-like exceptions push RF=1.
 *
 * Return: EMUL_CONTINUE: delivered (or c->shutdown set).  EMUL_IO: a stack or
 * table access needs the client; c->event holds the event, to be delivered
 * again at the next entry by exc_deliver_event().
 */
enum emul exc_deliver_fault(struct cpu *c) must_check;

/** exc_soft_int() - INT n, INT3, INTO, ICEBP by the instruction at c->rip
 * @kind: the opcode's rules: 0xCD, 0xCC, 0xCE or 0xF1
 * Return: EMUL_CONTINUE (rip set), EMUL_FAULT (fault of the instruction itself,
 * IDT error code with EXT=0), EMUL_IO */
enum emul exc_soft_int(struct cpu *c, u8 vector, unsigned kind, unsigned insn_len) must_check;

/** exc_interrupt() - deliver an external interrupt at an instruction boundary;
 * the caller has checked IF and the shadow.  Clears c->halted.
 * Return: as exc_deliver_fault(). */
enum emul exc_interrupt(struct cpu *c, u8 vector) must_check;

/** exc_nmi() - deliver an NMI; sets nmi_blocked */
enum emul exc_nmi(struct cpu *c) must_check;

/** exc_inject() - deliver the exception that the client injected or that
 * exc_deliver_event() is to repeat: c->event */
enum emul exc_deliver_event(struct cpu *c) must_check;

#endif
