/* SPDX-License-Identifier: MIT */
/*
 * Loaders: operands into fixed registers, the body, the result back.
 * Contract in cpu/fp_stub.h.  fp_load_RMD: reg kind, r/m kind, destination.
 *   x  XMM      m  MMX      g  general      p  memory at (rsi)     n  none
 *   destination: r  reg field, m  r/m field, f  RFLAGS, n  memory, v  VEX.vvvv,
 *   s  reg field, with a third source at %r9: XMM0 or the register of imm8[7:4]
 * fp_avx_RMD: likewise with whole vector registers; VEX.vvvv's is always loaded.
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
	.ifc \dst,s
	movups	(%r9), %xmm0
	.endif
	call	*%r11
	.ifc \dst,r
	store	\reg, %rdi, 2, %rdx
	.endif
	.ifc \dst,s
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
	.irp	rm, x, p
	loader	x, \rm, f
	loader	x, \rm, s
	.endr
	loader	n, x, m
	loader	n, m, m

#define HIGH 416 /* STUB_HIGH */

	.macro load_avx kind, ptr, num, gpr
	.ifc \kind,x
	vmovups	(\ptr), %xmm\num
	vinsertf128 $1, HIGH(\ptr), %ymm\num, %ymm\num
	.endif
	.ifc \kind,g
	mov	(\ptr), \gpr
	.endif
	.endm

	.macro store_avx kind, ptr, num, gpr
	.ifc \kind,x
	vmovups	%xmm\num, (\ptr)
	vextractf128 $1, %ymm\num, HIGH(\ptr)
	.endif
	.ifc \kind,g
	mov	\gpr, (\ptr)
	.endif
	.endm

	/* The upper halves are zeroed at the end: dirty ones would slow down SSE code. */
	.macro loader_avx reg, rm, dst
	.globl	fp_avx_\reg\rm\dst
	.hidden	fp_avx_\reg\rm\dst
	.type	fp_avx_\reg\rm\dst, @function
	.balign	16
fp_avx_\reg\rm\dst:
	.cfi_startproc
	mov	%rdx, %r11
	mov	%rcx, %r10
	load_avx \reg, %rdi, 2, %rdx
	load_avx \rm, %rsi, 1, %rcx
	load_avx x, %r8, 3, %rax
	.ifc \dst,s
	load_avx x, %r9, 4, %rax
	.endif
	call	*%r11
	.ifc \dst,r
	store_avx \reg, %rdi, 2, %rdx
	.endif
	.ifc \dst,s
	store_avx \reg, %rdi, 2, %rdx
	.endif
	.ifc \dst,m
	store_avx \rm, %rsi, 1, %rcx
	.endif
	.ifc \dst,v
	store_avx x, %r8, 3, %rax
	.endif
	.ifc \dst,f
	pushfq
	.cfi_adjust_cfa_offset 8
	popq	(%r10)
	.cfi_adjust_cfa_offset -8
	.endif
	vzeroupper
	ret
	.cfi_endproc
	.size	fp_avx_\reg\rm\dst, . - fp_avx_\reg\rm\dst
	.endm

	.irp	rm, x, p
	.irp	dst, r, n, f, s
	loader_avx x, \rm, \dst
	.endr
	loader_avx g, \rm, r
	.endr
	.irp	dst, r, m
	loader_avx x, g, \dst
	.endr
	loader_avx x, x, m
	loader_avx g, x, m
	loader_avx n, x, v

/*
 * void fp_string_call(const void *a, const void *b, const u8 *body, struct fp_string *s)
 */
	.globl	fp_string_call
	.hidden	fp_string_call
	.type	fp_string_call, @function
	.balign	16
fp_string_call:
	.cfi_startproc
	mov	%rdx, %r11
	mov	%rcx, %r10
	movups	(%rdi), %xmm2
	movups	(%rsi), %xmm1
	movups	32(%r10), %xmm0
	mov	(%r10), %rax
	mov	8(%r10), %rdx
	call	*%r11
	mov	%rcx, 16(%r10)
	pushfq
	.cfi_adjust_cfa_offset 8
	popq	24(%r10)
	.cfi_adjust_cfa_offset -8
	movups	%xmm0, 32(%r10)
	ret
	.cfi_endproc
	.size	fp_string_call, . - fp_string_call

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
