/* SPDX-License-Identifier: MIT */
/* Far JMP and CALL through call gates. */
#ifndef LOCUM_CPU_CALLGATE_H
#define LOCUM_CPU_CALLGATE_H

#include "cpu/seg.h"

/**
 * callgate_enter() - far JMP or CALL by an instruction of @len bytes to @sel, whose
 * descriptor @gate is a call gate of a type that the mode knows
 * @call: CALL: pushes the return address, may go to more privilege
 * Return: EMUL_END with CS, rIP and stack committed; EMUL_FAULT and nothing
 * changed.
 */
enum emul callgate_enter(struct cpu *c, u16 sel, const struct descriptor *gate, bool call,
			 unsigned len) must_check;

#endif
