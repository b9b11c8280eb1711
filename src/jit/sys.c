/* SPDX-License-Identifier: MIT */
/*
 * What kernels do all the time: interrupt flag, GS, time, flags on the stack,
 * bits and double words in memory.  What is unusual about one, privilege first of
 * all, is the interpreter's.
 */
#include "cpu/cpuid.h"
#include "jit/class.h"
#include "jit/jit_int.h"

static const struct host_mem checked = { .base = H_10, .index = H_11 };

/* rcx is 0: go on; else to @slow. */
static void unless_zero(struct trans *t, struct fix *slow)
{
	u8 *ok = emit_jrcxz(&t->e);

	trans_fix_from(slow, emit_jmp(&t->e));
	emit_link8(&t->e, ok);
}

static void require_cpl0(struct trans *t, struct fix *slow)
{
	emit_movzx8(&t->e, H_CX, STATE(mmu.cpl));
	unless_zero(t, slow);
}

static struct host_mem segment_base(unsigned seg)
{
	struct host_mem m = STATE(seg);

	m.disp += (s32)(seg * sizeof(struct segment) + offsetof(struct segment, base));
	return m;
}

static void trans_swapgs(struct trans *t)
{
	struct emitter *e = &t->e;

	require_cpl0(t, trans_fix(t, FIX_SLOW));
	emit_mov_load(e, H_10, segment_base(SEG_GS));
	emit_mov_load(e, H_11, STATE(msr.kernel_gs_base));
	emit_mov_store(e, STATE(msr.kernel_gs_base), H_10);
	emit_mov_store(e, segment_base(SEG_GS), H_11);
}

/* to = from & mask, with flags as they are */
static void and_quiet(struct emitter *e, unsigned to, unsigned from, unsigned mask)
{
	emit_pext_rr(e, to, from, mask);
	emit_pdep_rr(e, to, to, mask);
}

/* At CPL 0 IOPL does not matter. */
static void trans_cli(struct trans *t)
{
	struct emitter *e = &t->e;

	require_cpl0(t, trans_fix(t, FIX_SLOW));
	emit_mov_imm(e, H_10, ~(u64)RF_IF);
	emit_mov_load(e, H_CX, STATE(rflags));
	and_quiet(e, H_CX, H_CX, H_10);
	emit_mov_store(e, STATE(rflags), H_CX);
}

/*
 * No shadow is noted: nothing is looked at between STI and the instruction
 * behind it, which is in the same block.  Where an event waits for IF, the
 * interpreter does it.
 */
static void trans_sti(struct trans *t)
{
	struct fix *slow = trans_fix(t, FIX_SLOW);
	struct emitter *e = &t->e;
	u8 *clear, *done;

	require_cpl0(t, slow);
	emit_mov_load(e, H_10, STATE(rflags));
	emit_mov_imm(e, H_11, RF_IF);
	emit_pext_rr(e, H_CX, H_10, H_11);
	clear = emit_jrcxz(e);
	done = emit_jmp(e);
	emit_link8(e, clear);
	emit_movzx8(e, H_CX, STATE(quiet));
	emit_lea(e, H_CX, at_reg(H_CX, -1));
	unless_zero(t, slow);
	emit_lea(e, H_10, at_reg(H_10, RF_IF));
	emit_mov_store(e, STATE(rflags), H_10);
	emit_link(e, done, e->at);
}

/* rdx:rax from the host's counter and the guest's offset. */
static void trans_rdtsc(struct trans *t)
{
	struct emitter *e = &t->e;

	emit_movzx8(e, H_CX, STATE(jit.tsc_off));
	unless_zero(t, trans_fix(t, FIX_SLOW));
	if (trans_insn(t)->op == OP_RDTSCP) {
		emit8(e, 0x0f); /* lfence */
		emit8(e, 0xae);
		emit8(e, 0xe8);
		emit_mov_load32(e, jit_home[R_RCX], STATE(msr.tsc_aux));
	}
	emit8(e, 0x0f); /* rdtsc */
	emit8(e, 0x31);
	emit_rorx(e, H_DX, H_DX, 32);
	emit_mov_load(e, H_CX, STATE(tsc_offset));
	emit_lea(e, H_AX, (struct host_mem){ .base = H_AX, .index = H_DX });
	emit_lea(e, H_AX, (struct host_mem){ .base = H_AX, .index = H_CX });
	emit_rorx(e, H_DX, H_AX, 32);
	emit_lea32(e, H_DX, at_reg(H_DX, 0));
	emit_lea32(e, H_AX, at_reg(H_AX, 0));
}

/* The flags in r11: the host's arithmetic ones and struct cpu's others, which
 * have no bit in common. */
static void load_flags(struct trans *t)
{
	struct emitter *e = &t->e;

	emit8(e, 0x9c); /* pushfq */
	emit8(e, 0x41);
	emit8(e, 0x5b); /* pop r11 */
	emit_mov_imm(e, H_CX, RF_ARITH);
	and_quiet(e, H_11, H_11, H_CX);
	emit_mov_load(e, H_CX, STATE(rflags));
	emit_lea(e, H_11, (struct host_mem){ .base = H_11, .index = H_CX });
}

static void trans_pushf(struct trans *t)
{
	load_flags(t);
	emit_mov_store(&t->e, STATE(jit.tmp[0]), H_11);
	trans_push_tmp(t, trans_fix(t, FIX_SLOW));
}

static void trans_cmpxchg16b(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct host_insn op = { .lock = i->flags & INSN_LOCK, .w = true, .map = 1, .opcode = 0xc7,
				.reg = 1, .modrm = true, .is_mem = true, .mem = checked,
				.plus = H_NONE };

	trans_ea(t);
	trans_access(t, trans_fix(t, FIX_SLOW), 16, true, 16);
	emit_mov_rr(&t->e, H_CX, jit_home[R_RCX]);
	emit_insn(&t->e, &op);
}

/*
 * A bit of memory by a register's signed number, which moves the address by whole
 * operands: what it moves to is checked, the host's instruction moves it again.
 */
static void trans_bit(struct trans *t)
{
	const struct insn *i = trans_insn(t);
	struct emitter *e = &t->e;
	bool wide = i->opsize == 8;
	struct host_insn op = { .lock = i->flags & INSN_LOCK, .w = wide, .map = 1,
				.opcode = i->opcode, .modrm = true, .is_mem = true,
				.mem = checked, .plus = H_NONE };
	/* sarx rcx, number, r11 */
	struct host_insn shift = { .vex = true, .w = wide, .pp = 0xf3, .map = 2, .opcode = 0xf7,
				   .reg = H_CX, .vvvv = H_11, .modrm = true, .plus = H_NONE };

	trans_ea(t);
	emit_mov_store(e, STATE(jit.tmp[0]), H_10);
	shift.rm = (u8)trans_reg(t, i->opnd[1].reg, H_CX);
	emit_mov_imm(e, H_11, wide ? 6 : 5);
	emit_insn(e, &shift);
	if (!wide)
		emit_movsxd(e, H_CX, H_CX);
	emit_lea(e, H_10, (struct host_mem){ .base = H_10, .index = H_CX, .scale = wide ? 3 : 2 });
	trans_access(t, trans_fix(t, FIX_SLOW), i->opsize, i->op != OP_BT, 1);
	emit_mov_load(e, H_10, STATE(jit.tmp[0]));
	op.reg = (u8)trans_reg(t, i->opnd[1].reg, H_CX);
	emit_insn(e, &op);
}

void trans_system(struct trans *t)
{
	switch (trans_insn(t)->op) {
	case OP_PAUSE:
		emit8(&t->e, 0xf3);
		emit8(&t->e, 0x90);
		break;
	case OP_SWAPGS: trans_swapgs(t); break;
	case OP_CLI: trans_cli(t); break;
	case OP_STI:
		if (t->insn + 1 < t->n)
			trans_sti(t);
		else
			trans_slow(t);
		break;
	case OP_RDTSC: trans_rdtsc(t); break;
	case OP_RDTSCP:
		if (cpuid_has(t->c->cpuid, CPUID_RDTSCP))
			trans_rdtsc(t);
		else
			trans_slow(t);
		break;
	case OP_PUSHF: trans_pushf(t); break;
	case OP_CMPXCHG16B: trans_cmpxchg16b(t); break;
	default: trans_bit(t); break;
	}
}
