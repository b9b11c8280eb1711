/* SPDX-License-Identifier: MIT */
/* Prints what it receives; leaves with 0 through port 0xf4 on a 'q'. */
#include "bare.h"
1:	movw $0x3fd, %dx
	inb %dx, %al
	testb $1, %al
	jz 1b
	movw $0x3f8, %dx
	inb %dx, %al
	cmpb $'q', %al
	je 2f
	outb %al, %dx
	jmp 1b
2:	xorl %eax, %eax
	outb %al, $0xf4
3:	hlt
	jmp 3b
