/* SPDX-License-Identifier: MIT */
/* An empty IDT and an exception: triple fault. */
#include "bare.h"
	lidt none
	ud2
none:	.word 0
	.long 0
