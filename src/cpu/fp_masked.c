/* SPDX-License-Identifier: MIT */
/*
 * VMASKMOV, VPMASKMOV and the gathers: memory element by element.
 *
 * The top bit of a mask element decides.  What is masked off is not touched and
 * cannot fault.  A gather that faults keeps what it has: the elements before the
 * faulting one are in the destination and their masks are clear, so that the
 * instruction goes on there when it is run again.
 * Source: SDM Vol. 2C "VMASKMOV", "VPGATHERDD/VPGATHERQD".
 */
#include <string.h>

#include "cpu/fp_vec.h"
#include "cpu/operand.h"

struct ymm {
	u8 b[32];
} __attribute__((aligned(32)));

static bool chosen(const struct ymm *mask, unsigned k, unsigned size)
{
	return mask->b[k * size + size - 1] & 0x80;
}

/* --- VMASKMOV --------------------------------------------------------------------- */

static unsigned mask_element(const struct insn *i)
{
	return i->op == OP_VMASKMOVPS || i->op == OP_VPMASKMOVD ? 4 : 8;
}

/* The address of the whole operand wraps in the address size, not those of the
 * elements. */
static enum emul element_linear(struct cpu *c, const struct insn *i, unsigned off,
				unsigned size, bool write, gva_t *lin)
{
	return mem_linear_at(c, i, insn_ea(c, i) + off, size, write, lin);
}

/* Zen 5 checks the alignment neither of masked vectors nor of gathered elements. */
static unsigned element_acc(const struct insn *i)
{
	return insn_acc(i) | ACC_ANY_ALIGN;
}

static enum emul op_vmaskmov_load(struct cpu *c, const struct insn *i)
{
	unsigned size = mask_element(i);
	struct ymm mask, v;
	enum emul r = fp_check_avx(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_get(c, i->opnd[1].reg, mask.b, i->vl);
	memset(&v, 0, sizeof(v));
	for (unsigned k = 0; k < i->vl / size; k++) {
		gva_t lin;

		if (!chosen(&mask, k, size))
			continue;
		r = element_linear(c, i, k * size, size, false, &lin);
		if (r == EMUL_CONTINUE)
			r = mmu_read(&c->mmu, lin, v.b + k * size, size, element_acc(i));
		if (unlikely(r != EMUL_CONTINUE))
			return r;
	}
	vec_put(c, i->opnd[0].reg, v.b, i->vl);
	return EMUL_CONTINUE;
}

/* All elements that will be written are probed first. */
static enum emul op_vmaskmov_store(struct cpu *c, const struct insn *i)
{
	unsigned size = mask_element(i), n = i->vl / size;
	struct ymm mask, v;
	gva_t lin[8];
	enum emul r = fp_check_avx(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_get(c, i->opnd[1].reg, mask.b, i->vl);
	vec_get(c, i->opnd[2].reg, v.b, i->vl);
	for (unsigned k = 0; k < n; k++) {
		if (!chosen(&mask, k, size))
			continue;
		r = element_linear(c, i, k * size, size, true, &lin[k]);
		if (r == EMUL_CONTINUE)
			r = mmu_probe_write(&c->mmu, lin[k], size, element_acc(i));
		if (unlikely(r != EMUL_CONTINUE))
			return r;
	}
	for (unsigned k = 0; k < n && r == EMUL_CONTINUE; k++)
		if (chosen(&mask, k, size))
			r = mmu_write(&c->mmu, lin[k], v.b + k * size, size, element_acc(i));
	return r;
}

/* --- gathers ---------------------------------------------------------------------- */

/* What the mnemonic says: bytes of an element, bytes of an index. */
static void gather_sizes(const struct insn *i, unsigned *size, unsigned *index)
{
	*size = i->rex & 8 ? 8 : 4;
	*index = i->opcode & 1 ? 8 : 4;
}

static u64 gather_ea(const struct cpu *c, const struct insn *i, const struct ymm *indices,
		     unsigned k, unsigned index_size)
{
	u64 index = 0, ea = (u64)i->disp;

	memcpy(&index, indices->b + k * index_size, index_size);
	if (index_size == 4)
		index = (u64)(s64)(s32)index;
	if (i->base < R_COUNT)
		ea += c->gpr[i->base];
	ea += index << i->scale;
	return i->adsize == 8 ? ea : (u32)ea; /* there is no 16-bit form */
}

static enum emul op_gather(struct cpu *c, const struct insn *i)
{
	unsigned size, index_size, n;
	struct ymm indices, mask, v;
	enum emul r = fp_check_avx(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	gather_sizes(i, &size, &index_size);
	n = i->vl / MAX(size, index_size);
	vec_get(c, i->index, indices.b, 32);
	vec_get(c, i->opnd[0].reg, v.b, 32);
	vec_get(c, i->opnd[2].reg, mask.b, 32);
	for (unsigned k = 0; k < n && r == EMUL_CONTINUE; k++) {
		u64 element;
		gva_t lin;

		if (chosen(&mask, k, size)) {
			r = mem_linear_at(c, i, gather_ea(c, i, &indices, k, index_size), size,
					  false, &lin);
			if (r == EMUL_CONTINUE)
				r = lin_read(c, lin, size, element_acc(i), &element);
			if (r == EMUL_CONTINUE)
				memcpy(v.b + k * size, &element, size);
		}
		if (r == EMUL_CONTINUE)
			memset(mask.b + k * size, 0, size);
	}
	/* What the client must answer is asked again from the start. */
	if (r != EMUL_CONTINUE && r != EMUL_FAULT)
		return r;
	/* The rest of the registers is zeroed at the end alone. */
	if (r == EMUL_CONTINUE) {
		memset(v.b + n * size, 0, 32 - n * size);
		memset(mask.b + n * size, 0, 32 - n * size);
	}
	vec_put(c, i->opnd[0].reg, v.b, 32);
	vec_put(c, i->opnd[2].reg, mask.b, 32);
	return r;
}

op_fn masked_select(const struct insn *i)
{
	if (insn_row(i->row)->attr & ROW_VSIB)
		return op_gather;
	switch (i->op) {
	case OP_VMASKMOVPS:
	case OP_VMASKMOVPD:
	case OP_VPMASKMOVD:
	case OP_VPMASKMOVQ:
		return i->opnd[0].kind == OPD_MEM ? op_vmaskmov_store : op_vmaskmov_load;
	default:
		return NULL;
	}
}
