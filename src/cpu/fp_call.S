/* SPDX-License-Identifier: MIT */
/*
 * Loaders: operands into fixed registers, the body, the result back.
 * Contract in cpu/fp_stub.h.  fp_load_RMD: reg kind, r/m kind, destination.
 *   x  XMM      m  MMX      g  general      p  memory at (rsi)     n  none
 *   destination: r  reg field, m  r/m field, f  RFLAGS, n  memory
 */
	.text

	.macro load kind, ptr, num, gpr
	.ifc \kind,x
	movups	(\ptr), %xmm\num
	.endif
	.ifc \kind,m
	movq	(\ptr), %mm\num
	.endif
	.ifc \kind,g
	mov	(\ptr), \gpr
	.endif
	.endm

	.macro store kind, ptr, num, gpr
	.ifc \kind,x
	movups	%xmm\num, (\ptr)
	.endif
	.ifc \kind,m
	movq	%mm\num, (\ptr)
	.endif
	.ifc \kind,g
	mov	\gpr, (\ptr)
	.endif
	.endm

	.macro loader reg, rm, dst
	.globl	fp_load_\reg\rm\dst
	.hidden	fp_load_\reg\rm\dst
	.type	fp_load_\reg\rm\dst, @function
	.balign	16
fp_load_\reg\rm\dst:
	.cfi_startproc
	mov	%rdx, %r11
	mov	%rcx, %r10
	load	\reg, %rdi, 2, %rdx
	load	\rm, %rsi, 1, %rcx
	call	*%r11
	.ifc \dst,r
	store	\reg, %rdi, 2, %rdx
	.endif
	.ifc \dst,m
	store	\rm, %rsi, 1, %rcx
	.endif
	.ifc \dst,f
	pushfq
	.cfi_adjust_cfa_offset 8
	popq	(%r10)
	.cfi_adjust_cfa_offset -8
	.endif
	.ifc \reg,m
	emms
	.else
	.ifc \rm,m
	emms
	.endif
	.endif
	ret
	.cfi_endproc
	.size	fp_load_\reg\rm\dst, . - fp_load_\reg\rm\dst
	.endm

	.irp	reg, x, m, g
	.irp	rm, x, m, g
	loader	\reg, \rm, r
	loader	\reg, \rm, m
	.endr
	loader	\reg, p, r
	loader	\reg, p, n
	.endr
	loader	x, x, f
	loader	x, p, f
	loader	n, x, m
	loader	n, m, m

/*
 * u64 fp_x87_call(void *image, const u8 *body, void *mem, u64 *rflags)
 *
 * FXRSTOR and FXSAVE, not XRSTOR with the x87 bit: every host has them, and
 * the vector registers, which come from the image too, are the caller's to lose.
 */
	.globl	fp_x87_call
	.hidden	fp_x87_call
	.type	fp_x87_call, @function
	.balign	16
fp_x87_call:
	.cfi_startproc
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	fnstcw	8(%rsp)
	stmxcsr	12(%rsp)
	mov	%rsi, %r8
	mov	%rdx, %rsi
	mov	%rcx, %r9
	fxrstor64 (%rdi)
	pushfq
	.cfi_adjust_cfa_offset 8
	andq	$~0x8d5, (%rsp)
	mov	(%r9), %rcx
	and	$0x8d5, %ecx
	or	%rcx, (%rsp)
	popfq
	.cfi_adjust_cfa_offset -8
	call	*%r8
	pushfq
	.cfi_adjust_cfa_offset 8
	popq	(%r9)
	.cfi_adjust_cfa_offset -8
	fxsave64 (%rdi)
	/* After the save nothing pending may stay behind. */
	fninit
	fldcw	8(%rsp)
	ldmxcsr	12(%rsp)
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size	fp_x87_call, . - fp_x87_call

	.section .note.GNU-stack, "", @progbits
