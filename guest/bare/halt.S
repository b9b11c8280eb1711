/* SPDX-License-Identifier: MIT */
/* Halts with interrupts off: never wakes. */
#include "bare.h"
	cli
1:	hlt
	jmp 1b
