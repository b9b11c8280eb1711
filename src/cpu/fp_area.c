/* SPDX-License-Identifier: MIT */
#include "cpu/fp_area.h"

#include <string.h>

#include "cpu/operand.h"

unsigned fp_area_xmm_bytes(const struct cpu *c)
{
	return c->code_bits == 64 ? 16 * 16 : 8 * 16;
}

enum emul fp_area_linear(struct cpu *c, const struct insn *i, unsigned n, unsigned align,
			 bool write, gva_t *lin)
{
	enum emul r = mem_linear(c, i, n, write, lin);

	if (r != EMUL_CONTINUE)
		return r;
	return *lin & (align - 1) ? cpu_gp(c, 0) : EMUL_CONTINUE;
}

enum emul fp_area_check_ac(struct cpu *c, const struct insn *i, gva_t lin)
{
	if (cpu_long_mode(c) && !(addr_is_canonical(lin) && addr_is_canonical(lin + 7)))
		return cpu_raise(c, i->flags & INSN_STACK ? EXC_SS : EXC_GP, 0);
	return c->mmu.tlb.aligned && (lin & 3) ? cpu_raise(c, EXC_AC, 0) : EMUL_CONTINUE;
}

enum emul fp_area_probe(struct cpu *c, const struct insn *i, unsigned off, bool write)
{
	u64 ea = insn_ea(c, i) + off;
	gva_t at;
	enum emul r;

	if (i->adsize != 8)
		ea &= i->adsize == 4 ? 0xffffffffull : 0xffffull;
	r = mem_linear_at(c, i, ea, 1, write, &at);
	if (r != EMUL_CONTINUE)
		return r;
	return write ? mmu_probe_write(&c->mmu, at, 1, insn_acc(i))
		     : mmu_probe_read(&c->mmu, at, 1, insn_acc(i));
}

void fp_area_compose(struct cpu *c, bool wide, struct fp_image *out)
{
	*out = *cpu_fp(c);
	out->mxcsr_mask = fp_mxcsr_mask(c);
	if (c->vendor == VENDOR_AMD && !(out->fsw & FSW_ES)) {
		out->fip = out->fdp = out->fop = 0;
	} else if (!wide) {
		out->fip = (u32)out->fip;
		out->fdp = (u32)out->fdp;
		if (c->vendor == VENDOR_AMD) { /* Intel's store no selectors */
			out->fip |= (u64)out->fcs << 32;
			out->fdp |= (u64)out->fds << 32;
		}
	}
}

void fp_area_load_x87(struct fp_image *f, const struct fp_image *in, bool wide)
{
	f->fcw = in->fcw;
	f->fsw = in->fsw;
	f->ftw = in->ftw;
	f->fop = in->fop;
	f->fip = wide ? fp_image_pointer(in->fip) : (u32)in->fip;
	f->fdp = wide ? fp_image_pointer(in->fdp) : (u32)in->fdp;
	f->fcs = wide ? 0 : (u16)(in->fip >> 32);
	f->fds = wide ? 0 : (u16)(in->fdp >> 32);
	memcpy(f->st, in->st, sizeof(f->st));
	fp_image_normalise_x87(f);
}
