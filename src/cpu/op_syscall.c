/* SPDX-License-Identifier: MIT */
/*
 * SYSCALL, SYSRET, SYSENTER, SYSEXIT.  The vendors differ: in compatibility
 * mode Intel has SYSENTER alone and AMD SYSCALL alone; SYSRET to a
 * non-canonical RIP faults in ring 0 on Intel, at the target on AMD.
 */
#include "cpu/cr.h"
#include "cpu/flags.h"
#include "cpu/seg.h"
#include "cpu/stack.h"
#include "cpu/sys.h"

static void flat_cs(struct cpu *c, u16 sel, unsigned cpl, bool is64)
{
	c->seg[SEG_CS] = (struct segment){
		.sel = sel,
		.limit = 0xffffffff,
		.attr = 0xb | SEG_S | SEG_P | SEG_G | cpl << SEG_DPL_SHIFT |
			(is64 ? SEG_L : SEG_DB),
	};
	mmu_set_cpl(&c->mmu, cpl);
	cpu_update_mode(c);
}

static void flat_ss(struct cpu *c, u16 sel, unsigned cpl)
{
	c->seg[SEG_SS] = (struct segment){
		.sel = sel,
		.limit = 0xffffffff,
		.attr = 0x3 | SEG_S | SEG_P | SEG_G | SEG_DB | cpl << SEG_DPL_SHIFT,
	};
}

enum emul op_syscall(struct cpu *c, const struct insn *i)
{
	bool from64 = c->code_bits == 64;
	u16 sel = (u16)(c->msr.star >> 32) & 0xfffc;
	u64 next = c->rip + i->len;

	if (!(c->mmu.efer & EFER_SCE) || (c->vendor == VENDOR_INTEL && !from64))
		return cpu_ud(c);
	if (!cpu_long_mode(c)) {
		/* AMD in legacy mode: EIP from STAR, flags IF, RF, VM cleared. */
		c->gpr[R_RCX] = (u32)next;
		c->rip = (u32)c->msr.star;
		cpu_set_rflags(c, cpu_rflags(c) & ~(u64)(RF_IF | RF_RF | RF_VM));
		flat_cs(c, sel, 0, false);
		flat_ss(c, sel + 8, 0);
		return EMUL_END;
	}
	u64 flags = cpu_rflags(c);

	c->gpr[R_RCX] = from64 ? next : (u32)next;
	c->gpr[R_R11] = flags & ~(u64)RF_RF;
	c->rip = from64 ? c->msr.lstar : c->msr.cstar;
	flat_cs(c, sel, 0, true);
	flat_ss(c, sel + 8, 0);
	cpu_set_rflags(c, flags & ~(c->msr.sfmask | RF_RF));
	return EMUL_END;
}

enum emul op_sysret(struct cpu *c, const struct insn *i)
{
	u16 sel = (u16)(c->msr.star >> 48);
	bool to64 = i->opsize == 8;
	u64 rip = to64 ? c->gpr[R_RCX] : (u32)c->gpr[R_RCX];

	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	if (!(c->mmu.efer & EFER_SCE) || (c->vendor == VENDOR_INTEL && c->code_bits != 64))
		return cpu_ud(c);
	if (!(c->mmu.cr0 & CR0_PE))
		return cpu_gp(c, 0);
	if (to64 && c->vendor == VENDOR_INTEL && !addr_is_canonical(rip))
		return cpu_gp(c, 0);
	if (cpu_long_mode(c)) {
		u64 keep = RF_CF | RF_PF | RF_AF | RF_ZF | RF_SF | RF_TF | RF_IF | RF_DF | RF_OF |
			   RF_IOPL | RF_NT | RF_AC | RF_VIF | RF_VIP | RF_ID;

		c->rip = rip;
		flat_cs(c, (u16)((sel + (to64 ? 16 : 0)) | 3), 3, to64);
		cpu_set_rflags(c, c->gpr[R_R11] & keep);
	} else {
		c->rip = rip;
		flat_cs(c, sel | 3, 3, false);
		cpu_set_rflags(c, cpu_rflags(c) | RF_IF);
	}
	if (c->vendor == VENDOR_INTEL)
		flat_ss(c, (u16)((sel + 8) | 3), 3);
	else
		c->seg[SEG_SS].sel = (u16)((sel + 8) | 3); /* AMD leaves the hidden part */
	c->seg[SEG_SS].attr = (c->seg[SEG_SS].attr & ~(u32)SEG_DPL) | SEG_DPL;
	/* TF that SYSRET loads traps before the next instruction, unlike POPF's. */
	if (c->rflags & RF_TF)
		c->pending_dbg |= BIT64(14);
	return EMUL_END;
}

enum emul op_sysenter(struct cpu *c, const struct insn *i)
{
	u16 sel = (u16)c->msr.sysenter_cs & 0xfffc;
	bool lm = cpu_long_mode(c);

	(void)i;
	if (c->vendor == VENDOR_AMD && lm)
		return cpu_ud(c);
	if (!(c->mmu.cr0 & CR0_PE) || !sel)
		return cpu_gp(c, 0);
	cpu_set_rflags(c, cpu_rflags(c) & ~(u64)(RF_VM | RF_IF));
	flat_cs(c, sel, 0, lm);
	flat_ss(c, sel + 8, 0);
	c->gpr[R_RSP] = lm ? c->msr.sysenter_esp : (u32)c->msr.sysenter_esp;
	c->rip = lm ? c->msr.sysenter_eip : (u32)c->msr.sysenter_eip;
	return EMUL_END;
}

enum emul op_sysexit(struct cpu *c, const struct insn *i)
{
	u16 sel = (u16)c->msr.sysenter_cs & 0xfffc;
	bool to64 = i->opsize == 8;

	if (c->vendor == VENDOR_AMD && cpu_long_mode(c))
		return cpu_ud(c);
	if (!sel || c->mmu.cpl || !(c->mmu.cr0 & CR0_PE))
		return cpu_gp(c, 0);
	if (to64 && (!addr_is_canonical(c->gpr[R_RCX]) || !addr_is_canonical(c->gpr[R_RDX])))
		return cpu_gp(c, 0);
	c->rip = to64 ? c->gpr[R_RDX] : (u32)c->gpr[R_RDX];
	c->gpr[R_RSP] = to64 ? c->gpr[R_RCX] : (u32)c->gpr[R_RCX];
	flat_cs(c, (u16)((sel + (to64 ? 32 : 16)) | 3), 3, to64);
	flat_ss(c, (u16)((sel + (to64 ? 40 : 24)) | 3), 3);
	return EMUL_END;
}

enum emul op_swapgs(struct cpu *c, const struct insn *i)
{
	u64 base = c->seg[SEG_GS].base;

	(void)i;
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	c->seg[SEG_GS].base = c->msr.kernel_gs_base;
	c->msr.kernel_gs_base = base;
	return EMUL_CONTINUE;
}

enum emul op_fsgsbase(struct cpu *c, const struct insn *i)
{
	bool gs = i->op == OP_RDGSBASE || i->op == OP_WRGSBASE;
	struct segment *s = &c->seg[gs ? SEG_GS : SEG_FS];
	const struct operand *o = &i->opnd[0];

	if (!(c->mmu.cr4 & CR4_FSGSBASE))
		return cpu_ud(c);
	if (i->op == OP_RDFSBASE || i->op == OP_RDGSBASE) {
		gpr_put(c, o->reg, o->size, s->base);
		return EMUL_CONTINUE;
	}
	u64 v = gpr_get(c, o->reg, o->size);

	if (!addr_is_canonical(v))
		return cpu_gp(c, 0);
	s->base = v;
	return EMUL_CONTINUE;
}
