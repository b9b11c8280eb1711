/* SPDX-License-Identifier: MIT */
/*
 * Trampoline: load the registers of diff_in, jump to the snippet; the exits
 * store them to diff_out.  No register is free, so everything is reached
 * relative to RIP.  Offsets: struct diff_state.
 */
#define GPR(n) (8 * (n))
#define RIP    128
#define FLAGS  136
#define FSBASE 144
#define GSBASE 152
#define FX     192
#define ENV    704
#define YMMH   768

	.bss
	.balign	64
	.globl	diff_in, diff_out, diff_exit
diff_in:  .skip	1024
diff_out: .skip	1024
diff_exit: .skip 8
host_rsp: .skip	8
host_fs: .skip	8
	.globl	diff_use_fsgs
diff_use_fsgs: .skip 8
	.globl	diff_use_avx
diff_use_avx: .skip 8

	.text
	.globl	diff_enter
	.type	diff_enter, @function
diff_enter:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	sub	$24, %rsp
	stmxcsr	8(%rsp)
	fnstcw	12(%rsp)
	mov	%rsp, host_rsp(%rip)
	fxrstor64 diff_in+FX(%rip)
	cmpl	$0, diff_use_avx(%rip)
	je	3f
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	vinsertf128 $1, diff_in+YMMH+16*\n(%rip), %ymm\n, %ymm\n
	.endr
3:
	cmpl	$0, diff_use_fsgs(%rip)
	je	1f
	rdfsbase %rax
	mov	%rax, host_fs(%rip)
	mov	diff_in+GSBASE(%rip), %rax
	wrgsbase %rax
	mov	diff_in+FSBASE(%rip), %rax
	wrfsbase %rax
1:	pushq	diff_in+FLAGS(%rip)
	popfq
	mov	diff_in+GPR(0)(%rip), %rax
	mov	diff_in+GPR(1)(%rip), %rcx
	mov	diff_in+GPR(2)(%rip), %rdx
	mov	diff_in+GPR(3)(%rip), %rbx
	mov	diff_in+GPR(5)(%rip), %rbp
	mov	diff_in+GPR(6)(%rip), %rsi
	mov	diff_in+GPR(7)(%rip), %rdi
	mov	diff_in+GPR(8)(%rip), %r8
	mov	diff_in+GPR(9)(%rip), %r9
	mov	diff_in+GPR(10)(%rip), %r10
	mov	diff_in+GPR(11)(%rip), %r11
	mov	diff_in+GPR(12)(%rip), %r12
	mov	diff_in+GPR(13)(%rip), %r13
	mov	diff_in+GPR(14)(%rip), %r14
	mov	diff_in+GPR(15)(%rip), %r15
	mov	diff_in+GPR(4)(%rip), %rsp
	jmp	*diff_in+RIP(%rip)

	/* Exit stubs and the signal handler lead here: exit number 0, 1, 2. */
	.globl	diff_exit_a, diff_exit_b, diff_exit_fault
diff_exit_a:
	movl	$0, diff_exit(%rip)
	jmp	leave
diff_exit_b:
	movl	$1, diff_exit(%rip)
	jmp	leave
diff_exit_fault:
	movl	$2, diff_exit(%rip)
leave:
	mov	%rsp, diff_out+GPR(4)(%rip)
	mov	host_rsp(%rip), %rsp
	pushfq
	popq	diff_out+FLAGS(%rip)
	pushq	$0x202
	popfq
	mov	%rax, diff_out+GPR(0)(%rip)
	mov	%rcx, diff_out+GPR(1)(%rip)
	mov	%rdx, diff_out+GPR(2)(%rip)
	mov	%rbx, diff_out+GPR(3)(%rip)
	mov	%rbp, diff_out+GPR(5)(%rip)
	mov	%rsi, diff_out+GPR(6)(%rip)
	mov	%rdi, diff_out+GPR(7)(%rip)
	mov	%r8, diff_out+GPR(8)(%rip)
	mov	%r9, diff_out+GPR(9)(%rip)
	mov	%r10, diff_out+GPR(10)(%rip)
	mov	%r11, diff_out+GPR(11)(%rip)
	mov	%r12, diff_out+GPR(12)(%rip)
	mov	%r13, diff_out+GPR(13)(%rip)
	mov	%r14, diff_out+GPR(14)(%rip)
	mov	%r15, diff_out+GPR(15)(%rip)
	fxsave64 diff_out+FX(%rip)
	cmpl	$0, diff_use_avx(%rip)
	je	4f
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	vextractf128 $1, %ymm\n, diff_out+YMMH+16*\n(%rip)
	.endr
	vzeroupper
4:
	fnstenv	diff_out+ENV(%rip)
	cmpl	$0, diff_use_fsgs(%rip)
	je	2f
	rdfsbase %rax
	mov	%rax, diff_out+FSBASE(%rip)
	rdgsbase %rax
	mov	%rax, diff_out+GSBASE(%rip)
	mov	host_fs(%rip), %rax
	wrfsbase %rax
2:	fninit
	fldcw	12(%rsp)
	ldmxcsr	8(%rsp)
	add	$24, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.size	diff_enter, . - diff_enter

	.section .note.GNU-stack, "", @progbits
