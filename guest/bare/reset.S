/* SPDX-License-Identifier: MIT */
/* Resets the machine through port 0xcf9. */
#include "bare.h"
	movb $6, %al
	movw $0xcf9, %dx
	outb %al, %dx
1:	jmp 1b
