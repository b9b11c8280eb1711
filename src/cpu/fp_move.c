/* SPDX-License-Identifier: MIT */
/*
 * Vector instructions that only move bytes, and hints: no host instruction is
 * needed for those.  Non-temporal stores are plain stores here.
 */
#include <string.h>

#include "cpu/fp_check.h"
#include "cpu/fp_vec.h"
#include "cpu/operand.h"

static always_inline u8 *move_reg(struct cpu *c, const struct insn *i)
{
	return cpu_fp(c)->xmm[((i->modrm >> 3) & 7) | ((i->rex & 4) << 1)];
}

static always_inline u8 *move_rm(struct cpu *c, const struct insn *i)
{
	return cpu_fp(c)->xmm[(i->modrm & 7) | ((i->rex & 1) << 3)];
}

static always_inline enum emul move_linear(struct cpu *c, const struct insn *i,
					   bool aligned, bool write, gva_t *lin)
{
	enum emul r = fp_check_sse(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = mem_linear(c, i, 16, write, lin);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return unlikely(aligned && (*lin & 15)) ? cpu_gp(c, 0) : EMUL_CONTINUE;
}

static always_inline enum emul move_load(struct cpu *c, const struct insn *i,
					 bool aligned)
{
	u8 tmp[16];
	gva_t lin;
	enum emul r = move_linear(c, i, aligned, false, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = mmu_read(&c->mmu, lin, tmp, 16, insn_acc(i));
	if (likely(r == EMUL_CONTINUE))
		memcpy(move_reg(c, i), tmp, 16);
	return r;
}

static always_inline enum emul move_store(struct cpu *c, const struct insn *i,
					  bool aligned)
{
	gva_t lin;
	enum emul r = move_linear(c, i, aligned, true, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return mmu_write(&c->mmu, lin, move_reg(c, i), 16, insn_acc(i));
}

static enum emul op_mova_load(struct cpu *c, const struct insn *i)
{
	return move_load(c, i, true);
}

static enum emul op_movu_load(struct cpu *c, const struct insn *i)
{
	return move_load(c, i, false);
}

static enum emul op_mova_store(struct cpu *c, const struct insn *i)
{
	return move_store(c, i, true);
}

static enum emul op_movu_store(struct cpu *c, const struct insn *i)
{
	return move_store(c, i, false);
}

static enum emul op_mov16_reg(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_sse(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (i->opnd[0].reg == (((i->modrm >> 3) & 7) | ((i->rex & 4) << 1)))
		memmove(move_reg(c, i), move_rm(c, i), 16);
	else
		memmove(move_rm(c, i), move_reg(c, i), 16);
	return EMUL_CONTINUE;
}

static enum emul op_movnti(struct cpu *c, const struct insn *i)
{
	return memop_write(c, i, i->opnd[0].size,
			   gpr_get(c, i->opnd[1].reg, i->opnd[1].size));
}

static enum emul op_movntq(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_mmx(c);
	struct fp_image *f = cpu_fp(c);
	u64 v;

	if (r != EMUL_CONTINUE)
		return r;
	memcpy(&v, fp_mm(f, i->opnd[1].reg), 8);
	r = memop_write(c, i, 8, v);
	if (r == EMUL_CONTINUE)
		fp_enter_mmx(f);
	else if (r == EMUL_FAULT)
		fp_mmx_store_faults(c);
	return r;
}

/* --- masked stores --------------------------------------------------------------- */

static enum emul mask_quadword(struct cpu *c, const struct insn *i, unsigned q, gva_t *lin)
{
	u64 ea = insn_ea(c, i) + 8 * q;

	if (i->adsize != 8)
		ea &= i->adsize == 4 ? 0xffffffffull : 0xffffull;
	return mem_linear_at(c, i, ea, 8, true, lin);
}

/* Store the bytes of @src whose byte in @mask has its top bit set.  The whole
 * operand must be writable, whatever the mask (seen on AMD's processors; the
 * SDM leaves it open). */
static enum emul mask_store(struct cpu *c, const struct insn *i, const u8 *src,
			    const u8 *mask, unsigned n)
{
	gva_t lin[2];
	enum emul r = EMUL_CONTINUE;

	/* By quadwords: so is alignment checked, where it is.  Intel's begin at the end. */
	for (unsigned k = 0; k < n / 8 && r == EMUL_CONTINUE; k++) {
		unsigned q = c->vendor == VENDOR_AMD ? k : n / 8 - 1 - k;

		r = mask_quadword(c, i, q, &lin[q]);
		if (r == EMUL_CONTINUE)
			r = mmu_probe_write(&c->mmu, lin[q], 8, insn_acc(i));
	}
	for (unsigned k = 0; k < n && r == EMUL_CONTINUE; k++)
		if (mask[k] & 0x80)
			r = mmu_write(&c->mmu, lin[k / 8] + k % 8, src + k, 1, insn_acc(i));
	return r;
}

static enum emul op_maskmovdqu(struct cpu *c, const struct insn *i)
{
	enum emul r = vec_check_vex(c, i);

	return r == EMUL_CONTINUE ? mask_store(c, i, move_reg(c, i), move_rm(c, i), 16)
				  : r;
}

static enum emul op_maskmovq(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_mmx(c);
	struct fp_image *f = cpu_fp(c);

	if (r != EMUL_CONTINUE)
		return r;
	fp_enter_mmx(f); /* even if the store faults, unlike other MMX stores */
	return mask_store(c, i, fp_mm(f, (i->modrm >> 3) & 7), fp_mm(f, i->modrm & 7), 8);
}

/* --- cache and ordering ------------------------------------------------------------ */

static enum emul op_fence(struct cpu *c, const struct insn *i)
{
	(void)c;
	(void)i;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return EMUL_CONTINUE;
}

/* CLFLUSH, CLFLUSHOPT, CLWB: the caches are coherent; faults like a load. */
static enum emul op_clflush(struct cpu *c, const struct insn *i)
{
	gva_t lin;
	enum emul r = mem_linear(c, i, 1, false, &lin);

	if (r != EMUL_CONTINUE)
		return r;
	return mmu_probe_read(&c->mmu, lin, 1, insn_acc(i));
}

static op_fn move16(const struct insn *i, op_fn load, op_fn store)
{
	if (!(i->flags & INSN_MEM))
		return op_mov16_reg;
	return i->opnd[0].kind == OPD_MEM ? store : load;
}

op_fn move_select(const struct insn *i)
{
	switch (i->op) {
	case OP_MOVAPS:
	case OP_MOVAPD:
	case OP_MOVDQA:
		return move16(i, op_mova_load, op_mova_store);
	case OP_MOVUPS:
	case OP_MOVUPD:
	case OP_MOVDQU:
		return move16(i, op_movu_load, op_movu_store);
	case OP_LDDQU:
		return op_movu_load;
	case OP_MOVNTDQA:
		return op_mova_load;
	case OP_MOVNTPS:
	case OP_MOVNTPD:
	case OP_MOVNTDQ:
		return op_mova_store;
	case OP_MOVNTQ:
		return op_movntq;
	case OP_MOVNTI:
		return op_movnti;
	case OP_MASKMOVDQU:
	case OP_VMASKMOVDQU:
		return op_maskmovdqu;
	case OP_MASKMOVQ:
		return op_maskmovq;
	case OP_LFENCE:
	case OP_SFENCE:
	case OP_MFENCE:
		return op_fence;
	case OP_CLFLUSH:
	case OP_CLFLUSHOPT:
	case OP_CLWB:
		return op_clflush;
	default:
		return NULL;
	}
}
