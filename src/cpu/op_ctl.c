/* SPDX-License-Identifier: MIT */
/*
 * Near branches, single flags, and instructions that do nothing.
 *
 * A branch checks its target before it writes anything: the fault is the
 * branch's own (SDM Vol. 2 "JMP", "CALL", "RET"; APM Vol. 3 alike).
 */
#include "cpu/flags.h"
#include "cpu/op_int.h"
#include "cpu/stack.h"

static always_inline bool target_ok(const struct cpu *c, u64 target)
{
	if (likely(c->code_bits == 64))
		return addr_is_canonical(target);
	return target <= c->seg[SEG_CS].limit;
}

/* Address of the next instruction.  It is not cut to 16 bits in 16-bit code: as
 * measured, also on the path of a branch that is not taken. */
static always_inline u64 next_rip(const struct cpu *c, const struct insn *i)
{
	u64 rip = c->rip + i->len;

	return likely(c->code_bits == 64) ? rip : (u32)rip;
}

static always_inline u64 truncate(u64 target, unsigned opsize)
{
	if (likely(opsize == 8))
		return target;
	return opsize == 4 ? (u32)target : (u16)target;
}

static always_inline enum emul jump_to(struct cpu *c, u64 target)
{
	if (unlikely(!target_ok(c, target)))
		return cpu_gp(c, 0);
	c->rip = target;
	return EMUL_CONTINUE;
}

static always_inline u64 rel_target(const struct cpu *c, const struct insn *i)
{
	return truncate(c->rip + i->len + i->imm, i->opsize);
}

static enum emul jmp_rel(struct cpu *c, const struct insn *i)
{
	return jump_to(c, rel_target(c, i));
}

static enum emul jmp_ind(struct cpu *c, const struct insn *i)
{
	u64 t;
	enum emul r = opd_read(c, i, &i->opnd[0], &t);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return jump_to(c, t);
}

/* The stack is checked before the target.  Intel's processors have then written
 * the return address, though RSP stays; AMD's have not. */
static noinline enum emul call_bad_target(struct cpu *c, const struct insn *i)
{
	gva_t lin;
	u64 sp = (c->gpr[R_RSP] - i->opsize) & stack_mask(c);
	enum emul r = seg_linear_slow(c, SEG_SS, sp, i->opsize, true, &lin);

	if (r == EMUL_CONTINUE && c->vendor == VENDOR_INTEL && c->code_bits == 64)
		r = lin_write(c, lin, i->opsize, ACC_SS, next_rip(c, i));
	else if (r == EMUL_CONTINUE)
		r = mmu_probe_write(&c->mmu, lin, i->opsize, ACC_SS);
	return r == EMUL_CONTINUE ? cpu_gp(c, 0) : r;
}

static always_inline enum emul call_to(struct cpu *c, const struct insn *i, u64 target)
{
	enum emul r;

	if (unlikely(!target_ok(c, target)))
		return call_bad_target(c, i);
	r = stack_push(c, i->opsize, next_rip(c, i));
	if (likely(r == EMUL_CONTINUE))
		c->rip = target;
	return r;
}

static enum emul call_rel(struct cpu *c, const struct insn *i)
{
	return call_to(c, i, rel_target(c, i));
}

static enum emul call_rel8(struct cpu *c, const struct insn *i)
{
	u64 next = c->rip + i->len, target = next + i->imm;
	enum emul r;

	if (unlikely(!addr_is_canonical(target)))
		return call_bad_target(c, i);
	r = lin_write(c, c->gpr[R_RSP] - 8, 8, ACC_SS, next);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	c->gpr[R_RSP] -= 8;
	c->rip = target;
	return EMUL_CONTINUE;
}

static enum emul call_ind(struct cpu *c, const struct insn *i)
{
	u64 t;
	enum emul r = opd_read(c, i, &i->opnd[0], &t);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return call_to(c, i, t);
}

static enum emul ret_any(struct cpu *c, const struct insn *i)
{
	u64 t, sp = c->gpr[R_RSP];
	enum emul r = stack_read(c, sp, i->opsize, &t);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (unlikely(!target_ok(c, t)))
		return cpu_gp(c, 0);
	stack_set(c, sp + i->opsize + i->imm);
	c->rip = t;
	return EMUL_CONTINUE;
}

static enum emul ret8(struct cpu *c, const struct insn *i)
{
	u64 t;
	enum emul r = lin_read(c, c->gpr[R_RSP], 8, ACC_SS, &t);

	(void)i;
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (unlikely(!addr_is_canonical(t)))
		return cpu_gp(c, 0);
	c->gpr[R_RSP] += 8;
	c->rip = t;
	return EMUL_CONTINUE;
}

/* clang-format off */
#define JCC(cc)                                                                \
	static enum emul jcc8_##cc(struct cpu *c, const struct insn *i)        \
	{                                                                      \
		u64 next = c->rip + i->len;                                    \
		if (flags_cond(c->aflags, cc)) {                               \
			next += i->imm;                                        \
			if (unlikely(!addr_is_canonical(next)))                \
				return cpu_gp(c, 0);                           \
		}                                                              \
		c->rip = next;                                                 \
		return EMUL_CONTINUE;                                          \
	}
#define JCC_ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)                     \
	X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
JCC_ALL(JCC)
#define JCC_NAME(cc) jcc8_##cc,
static const op_fn jcc8[16] = { JCC_ALL(JCC_NAME) };
/* clang-format on */

static always_inline enum emul branch_if(struct cpu *c, const struct insn *i, bool taken)
{
	if (taken)
		return jump_to(c, rel_target(c, i));
	c->rip = next_rip(c, i);
	return EMUL_CONTINUE;
}

static enum emul jcc_any(struct cpu *c, const struct insn *i)
{
	return branch_if(c, i, flags_cond(c->aflags, i->cond));
}

static enum emul jrcxz(struct cpu *c, const struct insn *i)
{
	return branch_if(c, i, gpr_get(c, R_RCX, i->adsize) == 0);
}

/* The count is committed only when the branch does not fault. */
static enum emul loop(struct cpu *c, const struct insn *i)
{
	u64 count = gpr_get(c, R_RCX, i->adsize) - 1;
	bool zf = c->aflags & RF_ZF;
	bool taken = (i->adsize == 8   ? count :
		      i->adsize == 4   ? (u32)count :
					 (u16)count) != 0;
	enum emul r;

	if (i->op == OP_LOOPE)
		taken = taken && zf;
	else if (i->op == OP_LOOPNE)
		taken = taken && !zf;
	r = branch_if(c, i, taken);
	if (r == EMUL_CONTINUE)
		gpr_put(c, R_RCX, i->adsize, count);
	return r;
}

/* --- flags ------------------------------------------------------------------- */

static enum emul clc(struct cpu *c, const struct insn *i)
{
	(void)i;
	c->aflags &= ~(u64)RF_CF;
	return EMUL_CONTINUE;
}

static enum emul stc(struct cpu *c, const struct insn *i)
{
	(void)i;
	c->aflags |= RF_CF;
	return EMUL_CONTINUE;
}

static enum emul cmc(struct cpu *c, const struct insn *i)
{
	(void)i;
	c->aflags ^= RF_CF;
	return EMUL_CONTINUE;
}

static enum emul cld(struct cpu *c, const struct insn *i)
{
	(void)i;
	c->rflags &= ~(u64)RF_DF;
	return EMUL_CONTINUE;
}

static enum emul std(struct cpu *c, const struct insn *i)
{
	(void)i;
	c->rflags |= RF_DF;
	return EMUL_CONTINUE;
}

/* AH whatever REX says. */
static enum emul lahf(struct cpu *c, const struct insn *i)
{
	u64 ah = (c->aflags & 0xd5) | RF_ONE;

	(void)i;
	c->gpr[R_RAX] = (c->gpr[R_RAX] & ~0xff00ull) | ah << 8;
	return EMUL_CONTINUE;
}

static enum emul sahf(struct cpu *c, const struct insn *i)
{
	(void)i;
	c->aflags = (c->aflags & RF_OF) | ((c->gpr[R_RAX] >> 8) & 0xd5);
	return EMUL_CONTINUE;
}

enum if_way { IF_REAL, IF_VIRTUAL, IF_FAULT };

/* CLI and STI: IF itself, VIF, or #GP (SDM Vol. 2A "CLI", table of decisions). */
static enum if_way if_way(const struct cpu *c)
{
	unsigned iopl = (c->rflags & RF_IOPL) >> RF_IOPL_SHIFT;

	if (!(c->mmu.cr0 & CR0_PE))
		return IF_REAL;
	if (c->rflags & RF_VM) {
		if (iopl == 3)
			return IF_REAL;
		return c->mmu.cr4 & CR4_VME ? IF_VIRTUAL : IF_FAULT;
	}
	if (c->mmu.cpl <= iopl)
		return IF_REAL;
	return c->mmu.cpl == 3 && (c->mmu.cr4 & CR4_PVI) ? IF_VIRTUAL : IF_FAULT;
}

static enum emul cli(struct cpu *c, const struct insn *i)
{
	(void)i;
	switch (if_way(c)) {
	case IF_REAL:
		c->rflags &= ~(u64)RF_IF;
		return EMUL_CONTINUE;
	case IF_VIRTUAL:
		c->rflags &= ~(u64)RF_VIF;
		return EMUL_CONTINUE;
	default:
		return cpu_gp(c, 0);
	}
}

static enum emul sti(struct cpu *c, const struct insn *i)
{
	(void)i;
	switch (if_way(c)) {
	case IF_REAL:
		if (c->rflags & RF_IF)
			return EMUL_CONTINUE;
		c->rflags |= RF_IF;
		cpu_set_shadow(c, SHADOW_STI);
		return EMUL_END;
	case IF_VIRTUAL:
		if (c->rflags & RF_VIP)
			return cpu_gp(c, 0);
		c->rflags |= RF_VIF;
		return EMUL_CONTINUE;
	default:
		return cpu_gp(c, 0);
	}
}

/* --- nothing ----------------------------------------------------------------- */

static enum emul nop(struct cpu *c, const struct insn *i)
{
	(void)c, (void)i;
	return EMUL_CONTINUE;
}

static enum emul pause_hint(struct cpu *c, const struct insn *i)
{
	(void)c, (void)i;
	__builtin_ia32_pause();
	return EMUL_CONTINUE;
}

static enum emul ud(struct cpu *c, const struct insn *i)
{
	(void)i;
	return cpu_ud(c);
}

static enum emul fence(struct cpu *c, const struct insn *i)
{
	(void)c, (void)i;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return EMUL_CONTINUE;
}

/* CLFLUSH, CLFLUSHOPT, CLWB: checked like a read of the byte. */
static enum emul flush_line(struct cpu *c, const struct insn *i)
{
	gva_t lin;
	enum emul r = mem_linear(c, i, 1, false, &lin);

	if (r != EMUL_CONTINUE)
		return r;
	return mmu_probe_read(&c->mmu, lin, 1, insn_acc(i));
}

static op_fn branch_select(const struct insn *i)
{
	switch (i->op) {
	case OP_JMP:
		return i->opnd[0].kind == OPD_REL ? jmp_rel : jmp_ind;
	case OP_CALL:
		if (i->opnd[0].kind != OPD_REL)
			return call_ind;
		return i->opsize == 8 ? call_rel8 : call_rel;
	case OP_RET:
		return i->opsize == 8 && i->nopnd == 0 ? ret8 : ret_any;
	case OP_JCC:
		return i->opsize == 8 ? jcc8[i->cond & 15] : jcc_any;
	case OP_JRCXZ:
		return jrcxz;
	default:
		return loop;
	}
}

op_fn ctl_select(const struct insn *i)
{
	switch (i->op) {
	case OP_JMP:
	case OP_CALL:
	case OP_RET:
	case OP_JCC:
	case OP_JRCXZ:
	case OP_LOOP:
	case OP_LOOPE:
	case OP_LOOPNE:
		return branch_select(i);
	case OP_CLC:
		return clc;
	case OP_STC:
		return stc;
	case OP_CMC:
		return cmc;
	case OP_CLD:
		return cld;
	case OP_STD:
		return std;
	case OP_CLI:
		return cli;
	case OP_STI:
		return sti;
	case OP_LAHF:
		return lahf;
	case OP_SAHF:
		return sahf;
	case OP_NOP:
		return nop;
	case OP_PAUSE:
		return pause_hint;
	case OP_UD0:
	case OP_UD1:
	case OP_UD2:
		return ud;
	case OP_LFENCE:
	case OP_MFENCE:
	case OP_SFENCE:
		return fence;
	case OP_CLFLUSH:
	case OP_CLFLUSHOPT:
	case OP_CLWB:
		return flush_line;
	default:
		return NULL;
	}
}
