/* SPDX-License-Identifier: MIT */
/* Between gen.c (instructions, state) and arrange.c (operands). */
#ifndef LOCUM_TESTS_DIFF_GEN_H
#define LOCUM_TESTS_DIFF_GEN_H

#include "diff.h"

/** arrange_case() - choose registers, displacements and memory so that the
 * operands of @k's instructions are where they are interesting */
void arrange_case(struct diff_case *k);

#endif
