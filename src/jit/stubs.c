/* SPDX-License-Identifier: MIT */
/* Code at the start of every arena: into translated code and out of it. */
#include "jit/jit_int.h"

const u8 jit_home[R_COUNT] = {
	[R_RAX] = H_AX, [R_RCX] = H_8,	   [R_RDX] = H_DX,     [R_RBX] = H_BX,
	[R_RSP] = H_9,	[R_RBP] = H_12,	   [R_RSI] = H_SI,     [R_RDI] = H_DI,
	[R_R8] = H_NONE, [R_R9] = H_NONE,  [R_R10] = H_NONE,   [R_R11] = H_NONE,
	[R_R12] = H_13, [R_R13] = H_14,	   [R_R14] = H_15,     [R_R15] = H_NONE,
};

static const u8 callee_saved[] = { H_BX, H_BP, H_12, H_13, H_14, H_15 };

static void push(struct emitter *e, unsigned r)
{
	if (r >= 8)
		emit8(e, 0x41);
	emit8(e, 0x50 | (r & 7));
}

static void pop(struct emitter *e, unsigned r)
{
	if (r >= 8)
		emit8(e, 0x41);
	emit8(e, 0x58 | (r & 7));
}

static void bytes(struct emitter *e, const char *hex, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		emit8(e, (u8)hex[i]);
}
#define BYTES(e, s) bytes(e, s, sizeof(s) - 1)

static void byte_op(struct emitter *e, unsigned opcode, unsigned reg, struct host_mem m)
{
	struct host_insn i = { .opcode = (u8)opcode, .reg = (u8)reg, .modrm = true,
			       .is_mem = true, .mem = m, .plus = H_NONE };

	emit_insn(e, &i);
}

/* Registers and arithmetic flags into struct cpu.  rax, rcx are lost. */
static void spill(struct emitter *e)
{
	for (unsigned r = 0; r < R_COUNT; r++)
		if (jit_home[r] != H_NONE)
			emit_mov_store(e, state_gpr(r), jit_home[r]);
	BYTES(e, "\x9f");			  /* lahf */
	BYTES(e, "\x0f\x90\xc0");		  /* seto al */
	BYTES(e, "\x0f\xb6\xcc");		  /* movzx ecx, ah */
	BYTES(e, "\x0f\xb6\xc0");		  /* movzx eax, al */
	BYTES(e, "\xc1\xe0\x0b");		  /* shl eax, 11 */
	BYTES(e, "\x09\xc1");			  /* or ecx, eax */
	BYTES(e, "\x81\xe1\xd5\x08\x00\x00");	  /* and ecx, 0x8d5 */
	emit_mov_store(e, STATE(aflags), H_CX);
}

/* Flags and registers out of struct cpu. */
static void forget_stack(struct emitter *e);

static void reload(struct emitter *e)
{
	struct host_mem high = STATE(aflags);

	high.disp++;
	forget_stack(e);
	emit_movzx8(e, H_AX, high);	  /* OF is its bit 3 */
	BYTES(e, "\xc1\xe8\x03");	  /* shr eax, 3 */
	byte_op(e, 0x8a, 4, STATE(aflags)); /* mov ah, aflags */
	BYTES(e, "\x04\x7f");		  /* add al, 0x7f: OF */
	BYTES(e, "\x9e");		  /* sahf */
	for (unsigned r = 0; r < R_COUNT; r++)
		if (jit_home[r] != H_NONE)
			emit_mov_load(e, jit_home[r], state_gpr(r));
}

/* No stack window is known: its page is one that no address lies in, and an
 * access of a guest that tries faults in the host's first page. */
static void forget_stack(struct emitter *e)
{
	emit_mov_imm(e, H_AX, BIT64(63));
	emit_mov_store(e, STATE(jit.stack_neg), H_AX);
	emit_mov_store(e, STATE(jit.stack_add), H_AX);
}

/* To r10, the entry of the code at c->rip. */
static void jump_in(struct emitter *e)
{
	reload(e);
	emit_mov_load(e, H_11, STATE(rip));
	BYTES(e, "\x41\xff\xe2"); /* jmp r10 */
}

/* u64 enter(struct cpu *c, const void *code) */
static void stub_enter(struct jit *j, struct emitter *e)
{
	j->enter = (u64 (*)(struct cpu *, const void *))(uintptr_t)arena_code(&j->arena, e->at);
	for (unsigned i = 0; i < sizeof(callee_saved); i++)
		push(e, callee_saved[i]);
	BYTES(e, "\x48\x83\xec\x08"); /* sub rsp, 8: a multiple of 16 */
	emit_lea(e, H_BP, at_reg(H_DI, STATE_BIAS));
	emit_mov_rr(e, H_10, H_SI);
	jump_in(e);
}

/* With the result in rax: back to who called enter(). */
static void leave(struct emitter *e)
{
	BYTES(e, "\x48\x83\xc4\x08"); /* add rsp, 8 */
	for (unsigned i = sizeof(callee_saved); i-- > 0;)
		pop(e, callee_saved[i]);
	emit8(e, 0xc3);
}

/* After a call that returned struct jit_go.  @depth: bytes on the stack, the
 * return address lowest of what is above 8 bytes of filling; 0: none. */
static void go_on(struct emitter *e, unsigned depth)
{
	u8 *out, *go = NULL;

	BYTES(e, "\x48\x85\xc0"); /* test rax, rax */
	out = emit_jcc(e, COND_NE);
	if (depth) {
		BYTES(e, "\x48\x85\xd2"); /* test rdx, rdx */
		go = emit_jcc(e, COND_NE);
		BYTES(e, "\x48\x83\xc4\x08"); /* add rsp, 8 */
		reload(e);
		emit8(e, 0xc3);
		emit_link(e, go, e->at);
		BYTES(e, "\x48\x83\xc4\x10"); /* add rsp, 16 */
	}
	emit_mov_rr(e, H_10, H_DX);
	jump_in(e);
	emit_link(e, out, e->at);
	if (depth)
		BYTES(e, "\x48\x83\xc4\x10"); /* add rsp, 16 */
	leave(e);
}

/* r10: offset of the distance field of the jump to be linked */
static u8 *stub_link(struct emitter *e, enum jit_exit kind)
{
	u8 *start = e->at;

	spill(e);
	emit_mov_rr(e, H_AX, H_10);
	BYTES(e, "\x48\xc1\xe0\x20"); /* shl rax, 32 */
	BYTES(e, "\x48\x83\xc8");     /* or rax, kind */
	emit8(e, kind);
	leave(e);
	return start;
}

static void stub_exits(struct jit *j, struct emitter *e)
{
	j->exit_miss = e->at; /* r11: rip */
	emit_mov_store(e, STATE(rip), H_11);
	j->exit_lookup = e->at;
	spill(e);
	emit_lea(e, H_DI, at_reg(H_BP, -STATE_BIAS));
	emit_mov_imm(e, H_AX, (u64)(uintptr_t)jit_native_lookup);
	BYTES(e, "\xff\xd0"); /* call rax */
	go_on(e, 0);

	j->exit_link = stub_link(e, JIT_LINK);
	j->exit_plain = stub_link(e, JIT_PLAIN);

	j->exit_fault = e->at;
	spill(e);
	emit_mov_imm(e, H_AX, JIT_FAULT);
	leave(e);
}

/*
 * Called with r11: the struct icode, rcx: its offset in the page.  Runs @fn
 * with all state in struct cpu, and does as it says.
 */
static u8 *stub_call(struct emitter *e,
		     struct jit_go (*fn)(struct cpu *c, const struct icode *i))
{
	u8 *start = e->at;

	emit_mov_load(e, H_10, STATE(jit.rip_page));
	emit_lea(e, H_10, (struct host_mem){ .base = H_10, .index = H_CX });
	emit_mov_store(e, STATE(rip), H_10);
	spill(e);
	emit_lea(e, H_DI, at_reg(H_BP, -STATE_BIAS));
	emit_mov_rr(e, H_SI, H_11);
	BYTES(e, "\x48\x83\xec\x08"); /* sub rsp, 8 */
	emit_mov_imm(e, H_AX, (u64)(uintptr_t)fn);
	BYTES(e, "\xff\xd0");	      /* call rax */
	go_on(e, 16);
	return start;
}

/*
 * Called with r10, r11: first and last byte of a stack window.  Makes its page
 * the known one if the first byte has an entry for writing; rcx is 0 if the last
 * byte lies there, too.  r10 and r11 are lost, flags stay.
 */
static u8 *stub_find_stack(struct emitter *e)
{
	u8 *start = e->at, *hit;

	emit_mov_store(e, STATE(jit.tmp[3]), H_11);
	emit_pext(e, H_11, H_10, STATE(mmu.tlb.wr_bits));
	emit_mov_load(e, H_CX, STATE(mmu.tlb.wr));
	emit_lea(e, H_11, (struct host_mem){ .base = H_11, .index = H_11 });
	emit_lea(e, H_11, (struct host_mem){ .base = H_CX, .index = H_11, .scale = 3 });
	emit_mov_load(e, H_CX, at_reg(H_11, offsetof(struct tlb_entry, negtag)));
	emit_lea(e, H_CX, (struct host_mem){ .base = H_CX, .index = H_10 });
	emit_pext(e, H_CX, H_CX, STATE(jit.page_bits));
	hit = emit_jrcxz(e);
	emit8(e, 0xc3);
	emit_link8(e, hit);
	emit_mov_load(e, H_CX, at_reg(H_11, offsetof(struct tlb_entry, negtag)));
	emit_mov_load(e, H_10, at_reg(H_11, offsetof(struct tlb_entry, addend)));
	emit_mov_store(e, STATE(jit.stack_neg), H_CX);
	emit_mov_store(e, STATE(jit.stack_add), H_10);
	emit_mov_load(e, H_11, STATE(jit.tmp[3]));
	emit_lea(e, H_CX, (struct host_mem){ .base = H_CX, .index = H_11 });
	emit_pext(e, H_CX, H_CX, STATE(jit.page_bits));
	emit8(e, 0xc3);
	return start;
}

void jit_stubs(struct jit *j)
{
	struct emitter e = { j->arena.rw, j->arena.rw + j->arena.bytes };

	stub_enter(j, &e);
	stub_exits(j, &e);
	j->slow = stub_call(&e, jit_native_slow);
	j->vector = stub_call(&e, jit_native_vector);
	j->x87 = stub_call(&e, jit_native_x87);
	j->find_stack = stub_find_stack(&e);
	j->arena.used = (size_t)(e.at - j->arena.rw);
	j->stubs_end = e.at;
}
