/* SPDX-License-Identifier: MIT */
/*
 * VMASKMOV, VPMASKMOV and the gathers: memory element by element.
 *
 * The top bit of a mask element decides.  What is masked off is not touched and
 * cannot fault.  A gather that faults keeps what it has: the elements before the
 * faulting one are in the destination and their masks are clear, so that the
 * instruction goes on there when it is run again.  Intel's processors have then
 * filled each element of the mask with its top bit.
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

/*
 * Intel's processors take the chosen elements for one access.  Where it crosses a
 * page, stores look at the first one, then at the last byte of the last.
 */
static enum emul probe_sides(struct cpu *c, const struct insn *i, const struct ymm *mask,
			     unsigned size, bool write)
{
	unsigned n = i->vl / size, first = 0, last = n;
	gva_t begin, end;
	enum emul r;

	if (c->vendor != VENDOR_INTEL)
		return EMUL_CONTINUE;
	while (first < n && !chosen(mask, first, size))
		first++;
	if (first == n)
		return EMUL_CONTINUE;
	while (!chosen(mask, last - 1, size))
		last--;
	r = element_linear(c, i, first * size, 1, write, &begin);
	if (r == EMUL_CONTINUE)
		r = element_linear(c, i, last * size - 1, 1, write, &end);
	if (r != EMUL_CONTINUE || !((begin ^ end) & PAGE_MASK))
		return r;
	if (cpu_long_mode(c) && !(addr_is_canonical(begin) && addr_is_canonical(end)))
		return cpu_raise(c, i->flags & INSN_STACK ? EXC_SS : EXC_GP, 0);
	if (!write)
		return EMUL_CONTINUE;
	r = mmu_probe_write(&c->mmu, begin, 1, element_acc(i));
	return r == EMUL_CONTINUE ? mmu_probe_write(&c->mmu, end, 1, element_acc(i)) : r;
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
	r = probe_sides(c, i, &mask, size, false);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
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
	r = probe_sides(c, i, &mask, size, true);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
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

/* What a faulting gather of Intel's leaves besides: the mask's elements from @k on
 * filled, and the upper halves cleared of what VEX.128 has written: the mask, and
 * after an element was @loaded the destination. */
static void gather_faults(const struct insn *i, struct ymm *v, struct ymm *mask, unsigned k,
			  unsigned size, bool loaded)
{
	for (; k < i->vl / size; k++)
		memset(mask->b + k * size, chosen(mask, k, size) ? 0xff : 0, size);
	if (loaded)
		memset(v->b + i->vl, 0, sizeof(v->b) - i->vl);
	memset(mask->b + i->vl, 0, sizeof(mask->b) - i->vl);
}

static enum emul op_gather(struct cpu *c, const struct insn *i)
{
	unsigned size, index_size, n;
	struct ymm indices, mask, v;
	bool loaded = false;
	enum emul r = fp_check_avx(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	gather_sizes(i, &size, &index_size);
	n = i->vl / MAX(size, index_size);
	vec_get(c, i->index, indices.b, 32);
	vec_get(c, i->opnd[0].reg, v.b, 32);
	vec_get(c, i->opnd[2].reg, mask.b, 32);
	for (unsigned k = 0; k < n; k++) {
		u64 element;
		gva_t lin;

		if (chosen(&mask, k, size)) {
			r = mem_linear_at(c, i, gather_ea(c, i, &indices, k, index_size), size,
					  false, &lin);
			if (r == EMUL_CONTINUE)
				r = lin_read(c, lin, size, element_acc(i), &element);
			if (r == EMUL_CONTINUE) {
				memcpy(v.b + k * size, &element, size);
				loaded = true;
			}
		}
		if (r == EMUL_FAULT && c->vendor == VENDOR_INTEL)
			gather_faults(i, &v, &mask, k, size, loaded);
		if (r != EMUL_CONTINUE)
			break;
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
