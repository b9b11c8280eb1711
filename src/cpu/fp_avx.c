/* SPDX-License-Identifier: MIT */
/*
 * VEX-encoded moves of whole registers, and VZEROUPPER, VZEROALL: no host
 * instruction is needed for those.  A destination register's upper half is
 * zeroed by the 128-bit forms.
 */
#include <string.h>

#include "cpu/fp_vec.h"
#include "cpu/operand.h"

struct ymm {
	u8 b[32];
} __attribute__((aligned(32)));

static always_inline enum emul avx_linear(struct cpu *c, const struct insn *i, bool aligned,
					  bool write, gva_t *lin)
{
	enum emul r = fp_check_avx(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = mem_linear(c, i, i->vl, write, lin);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return unlikely(aligned && (*lin & (i->vl - 1))) ? cpu_gp(c, 0) : EMUL_CONTINUE;
}

static always_inline enum emul avx_load(struct cpu *c, const struct insn *i, bool aligned)
{
	struct ymm v;
	gva_t lin;
	enum emul r = avx_linear(c, i, aligned, false, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = mmu_read(&c->mmu, lin, v.b, i->vl, insn_acc(i));
	if (likely(r == EMUL_CONTINUE))
		vec_put(c, i->opnd[0].reg, v.b, i->vl);
	return r;
}

static always_inline enum emul avx_store(struct cpu *c, const struct insn *i, bool aligned)
{
	struct ymm v;
	gva_t lin;
	enum emul r = avx_linear(c, i, aligned, true, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_get(c, i->opnd[1].reg, v.b, i->vl);
	return mmu_write(&c->mmu, lin, v.b, i->vl, insn_acc(i));
}

static enum emul op_vmova_load(struct cpu *c, const struct insn *i)
{
	return avx_load(c, i, true);
}

static enum emul op_vmovu_load(struct cpu *c, const struct insn *i)
{
	return avx_load(c, i, false);
}

static enum emul op_vmova_store(struct cpu *c, const struct insn *i)
{
	return avx_store(c, i, true);
}

static enum emul op_vmovu_store(struct cpu *c, const struct insn *i)
{
	return avx_store(c, i, false);
}

static enum emul op_vmov_reg(struct cpu *c, const struct insn *i)
{
	struct ymm v;
	enum emul r = fp_check_avx(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_get(c, i->opnd[1].reg, v.b, i->vl);
	vec_put(c, i->opnd[0].reg, v.b, i->vl);
	return EMUL_CONTINUE;
}

/* Outside 64-bit mode registers 8 to 15 stay as they are. */
static size_t register_bytes(const struct cpu *c)
{
	return c->code_bits == 64 ? 16 * 16 : 8 * 16;
}

static enum emul op_vzeroupper(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_avx(c);

	(void)i;
	if (likely(r == EMUL_CONTINUE))
		memset(cpu_fp(c)->ymmh, 0, register_bytes(c));
	return r;
}

static enum emul op_vzeroall(struct cpu *c, const struct insn *i)
{
	enum emul r = op_vzeroupper(c, i);

	if (likely(r == EMUL_CONTINUE))
		memset(cpu_fp(c)->xmm, 0, register_bytes(c));
	return r;
}

static op_fn move(const struct insn *i, op_fn load, op_fn store)
{
	if (!(i->flags & INSN_MEM))
		return op_vmov_reg;
	return i->opnd[0].kind == OPD_MEM ? store : load;
}

op_fn avx_select(const struct insn *i)
{
	switch (i->op) {
	case OP_VMOVAPS:
	case OP_VMOVAPD:
	case OP_VMOVDQA:
	case OP_VMOVNTPS:
	case OP_VMOVNTPD:
	case OP_VMOVNTDQ:
	case OP_VMOVNTDQA:
		return move(i, op_vmova_load, op_vmova_store);
	case OP_VMOVUPS:
	case OP_VMOVUPD:
	case OP_VMOVDQU:
	case OP_VLDDQU:
		return move(i, op_vmovu_load, op_vmovu_store);
	case OP_VZEROUPPER:
		return op_vzeroupper;
	case OP_VZEROALL:
		return op_vzeroall;
	default:
		return NULL;
	}
}
