/* SPDX-License-Identifier: MIT */
/* A multiboot 1 image of one file: entered at `start` in flat 32-bit mode. */
	.section .multiboot, "a"
	.align 4
	.long 0x1badb002, 0, -0x1badb002
	.text
	.globl start
start:
