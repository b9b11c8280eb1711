/* SPDX-License-Identifier: MIT */
/* Prints without end. */
#include "bare.h"
	movw $0x3f8, %dx
	movb $'x', %al
1:	outb %al, %dx
	jmp 1b
