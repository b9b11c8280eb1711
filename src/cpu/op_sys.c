/* SPDX-License-Identifier: MIT */
/* Control and debug registers, TLB, MSRs, time, CPUID, HLT. */
#include "cpu/cpuid.h"
#include "cpu/cr.h"
#include "cpu/debug.h"
#include "cpu/flags.h"
#include "cpu/msr.h"
#include "cpu/operand.h"
#include "cpu/sys.h"

static enum emul ended(enum emul r)
{
	return r == EMUL_CONTINUE ? EMUL_END : r;
}

enum emul op_ud(struct cpu *c, const struct insn *i)
{
	(void)i;
	return cpu_ud(c);
}

/* --- control registers ---------------------------------------------------------- */

static enum emul read_cr(struct cpu *c, unsigned n, u64 *v)
{
	switch (n) {
	case 0: *v = c->mmu.cr0; break;
	case 2: *v = c->cr2; break;
	case 3: *v = c->mmu.cr3; break;
	case 4: *v = c->mmu.cr4; break;
	case 8: *v = c->ops->get_cr8 ? c->ops->get_cr8(c) : c->cr8; break;
	default: return cpu_ud(c);
	}
	return EMUL_CONTINUE;
}

static enum emul write_cr8(struct cpu *c, u64 v)
{
	if (v & ~0xfull)
		return cpu_gp(c, 0);
	if (c->ops->set_cr8)
		c->ops->set_cr8(c, v);
	else
		c->cr8 = v;
	return EMUL_CONTINUE;
}

static enum emul write_cr(struct cpu *c, unsigned n, u64 v)
{
	switch (n) {
	case 0: return cr_write0(c, v);
	case 2: c->cr2 = v; cpu_fence(); return EMUL_CONTINUE;
	case 3: return cr_write3(c, v);
	case 4: return cr_write4(c, v);
	case 8: return write_cr8(c, v);
	}
	return cpu_ud(c);
}

enum emul op_mov_cr(struct cpu *c, const struct insn *i)
{
	bool to_cr = i->opnd[0].kind == OPD_CR;
	const struct operand *cr = &i->opnd[!to_cr], *gpr = &i->opnd[to_cr];
	u64 v;
	enum emul r;

	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	if (to_cr)
		return ended(write_cr(c, cr->reg, gpr_get(c, gpr->reg, gpr->size)));
	r = read_cr(c, cr->reg, &v);
	if (r == EMUL_CONTINUE)
		gpr_put(c, gpr->reg, gpr->size, v);
	return r;
}

enum emul op_mov_dr(struct cpu *c, const struct insn *i)
{
	bool to_dr = i->opnd[0].kind == OPD_DR;
	const struct operand *dr = &i->opnd[!to_dr], *gpr = &i->opnd[to_dr];
	u64 v;
	enum emul r;

	if (to_dr) {
		r = debug_write(c, dr->reg, gpr_get(c, gpr->reg, gpr->size));
		cpu_fence();
		return ended(r);
	}
	r = debug_read(c, dr->reg, &v);
	if (r == EMUL_CONTINUE)
		gpr_put(c, gpr->reg, gpr->size, v);
	return r;
}

enum emul op_clts(struct cpu *c, const struct insn *i)
{
	(void)i;
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	c->mmu.cr0 &= ~CR0_TS;
	return EMUL_END;
}

enum emul op_lmsw(struct cpu *c, const struct insn *i)
{
	u64 v;
	enum emul r;

	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	r = opd_read(c, i, &i->opnd[0], &v);
	if (r != EMUL_CONTINUE)
		return r;
	/* PE can be set, not cleared. */
	v = (v & 0xf) | (c->mmu.cr0 & CR0_PE);
	return ended(cr_write0(c, (c->mmu.cr0 & ~0xfull) | v));
}

static bool umip(const struct cpu *c)
{
	return (c->mmu.cr4 & CR4_UMIP) && c->mmu.cpl;
}

enum emul op_smsw(struct cpu *c, const struct insn *i)
{
	return umip(c) ? cpu_gp(c, 0) : opd_write(c, i, &i->opnd[0], c->mmu.cr0);
}

/* --- descriptor tables ------------------------------------------------------------ */

enum emul op_lgdt(struct cpu *c, const struct insn *i)
{
	unsigned n = c->code_bits == 64 ? 8 : 4;
	struct desc_table *t = i->op == OP_LGDT ? &c->gdtr : &c->idtr;
	u64 limit, base;
	gva_t at;
	enum emul r;

	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	r = mem_linear(c, i, n + 2, false, &at);
	if (r == EMUL_CONTINUE)
		r = lin_read(c, at, 2, insn_acc(i), &limit);
	if (r == EMUL_CONTINUE)
		r = lin_read(c, at + 2, n, insn_acc(i), &base);
	if (r != EMUL_CONTINUE)
		return r;
	if (n == 8 && !addr_is_canonical(base))
		return cpu_gp(c, 0);
	t->limit = (u16)limit;
	t->base = i->opsize == 2 && n == 4 ? base & 0xffffff : base;
	cpu_fence();
	return EMUL_END;
}

enum emul op_sgdt(struct cpu *c, const struct insn *i)
{
	unsigned n = c->code_bits == 64 ? 8 : 4;
	const struct desc_table *t = i->op == OP_SGDT ? &c->gdtr : &c->idtr;
	u8 image[10];
	gva_t at;
	enum emul r;

	if (umip(c))
		return cpu_gp(c, 0);
	memcpy(image, &t->limit, 2);
	memcpy(image + 2, &t->base, n);
	r = mem_linear(c, i, n + 2, true, &at);
	return r == EMUL_CONTINUE ? mmu_write(&c->mmu, at, image, n + 2, insn_acc(i)) : r;
}

/* --- TLB, caches ------------------------------------------------------------------- */

enum emul op_invlpg(struct cpu *c, const struct insn *i)
{
	u64 ea = insn_ea(c, i);

	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	if (c->code_bits != 64 || i->seg >= SEG_FS)
		ea += c->seg[i->seg].base;
	c->stats->invlpg++;
	mmu_invlpg(&c->mmu, c->code_bits == 64 ? ea : (u32)ea);
	cpu_fence();
	return EMUL_END;
}

enum emul op_invpcid(struct cpu *c, const struct insn *i)
{
	u64 type = gpr_get(c, i->opnd[0].reg, i->opnd[0].size), desc[2];
	bool pcide = c->mmu.cr4 & CR4_PCIDE;
	gva_t at;
	enum emul r;

	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	r = mem_linear(c, i, 16, false, &at);
	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, at, desc, 16, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	if (type > 3 || desc[0] >> 12 || (type < 2 && !pcide && desc[0]) ||
	    (type == 0 && !addr_is_canonical(desc[1])))
		return cpu_gp(c, 0);
	mmu_invpcid(&c->mmu, (unsigned)type, (unsigned)desc[0], desc[1]);
	cpu_fence();
	return EMUL_END;
}

enum emul op_wbinvd(struct cpu *c, const struct insn *i)
{
	(void)i;
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	cpu_fence();
	return EMUL_CONTINUE;
}

/* --- MSRs ---------------------------------------------------------------------------- */

static enum emul refused(struct cpu *c, u32 index, u64 *v, bool write)
{
	return c->ops->msr_refused ? c->ops->msr_refused(c, index, v, write) : cpu_gp(c, 0);
}

static enum emul rdmsr(struct cpu *c, u32 index, u64 *v)
{
	if (c->ops->msr_filtered && c->ops->msr_filtered(c, index, false))
		return c->ops->rdmsr(c, index, v);
	switch (cpu_msr_read(c, index, v, false)) {
	case CPU_MSR_OK: return EMUL_CONTINUE;
	case CPU_MSR_INVALID: return refused(c, index, v, false);
	case CPU_MSR_UNKNOWN: break;
	}
	return c->ops->rdmsr ? c->ops->rdmsr(c, index, v) : cpu_gp(c, 0);
}

static enum emul wrmsr(struct cpu *c, u32 index, u64 v)
{
	if (c->ops->msr_filtered && c->ops->msr_filtered(c, index, true))
		return c->ops->wrmsr(c, index, v);
	switch (cpu_msr_write(c, index, v, false)) {
	case CPU_MSR_OK: return EMUL_CONTINUE;
	case CPU_MSR_INVALID: return refused(c, index, &v, true);
	case CPU_MSR_UNKNOWN: break;
	}
	return c->ops->wrmsr ? c->ops->wrmsr(c, index, v) : cpu_gp(c, 0);
}

enum emul op_rdmsr(struct cpu *c, const struct insn *i)
{
	u64 v;
	enum emul r;

	(void)i;
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	r = rdmsr(c, (u32)c->gpr[R_RCX], &v);
	if (r != EMUL_CONTINUE)
		return r;
	c->gpr[R_RAX] = (u32)v;
	c->gpr[R_RDX] = v >> 32;
	return EMUL_CONTINUE;
}

enum emul op_wrmsr(struct cpu *c, const struct insn *i)
{
	u32 index = (u32)c->gpr[R_RCX];
	enum emul r;

	(void)i;
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	r = wrmsr(c, index, c->gpr[R_RDX] << 32 | (u32)c->gpr[R_RAX]);
	/* Not serialising: x2APIC and TSC-deadline. */
	if (index >> 8 != 8 && index != 0x6e0)
		cpu_fence();
	return ended(r);
}

/* --- time, identity -------------------------------------------------------------------- */

static u64 guest_tsc(const struct cpu *c)
{
	return c->clock->tsc(c->clock) + (u64)c->tsc_offset;
}

enum emul op_rdtsc(struct cpu *c, const struct insn *i)
{
	u64 v;

	(void)i;
	if ((c->mmu.cr4 & CR4_TSD) && c->mmu.cpl)
		return cpu_gp(c, 0);
	v = guest_tsc(c);
	c->gpr[R_RAX] = (u32)v;
	c->gpr[R_RDX] = v >> 32;
	return EMUL_CONTINUE;
}

enum emul op_rdtscp(struct cpu *c, const struct insn *i)
{
	enum emul r;

	if (!cpuid_has(c->cpuid, CPUID_RDTSCP))
		return cpu_ud(c);
	r = op_rdtsc(c, i);
	if (r == EMUL_CONTINUE)
		c->gpr[R_RCX] = (u32)c->msr.tsc_aux;
	return r;
}

enum emul op_rdpid(struct cpu *c, const struct insn *i)
{
	gpr_put(c, i->opnd[0].reg, c->code_bits == 64 ? 8 : 4, (u32)c->msr.tsc_aux);
	return EMUL_CONTINUE;
}

/* No performance counters are offered: every index is invalid. */
enum emul op_rdpmc(struct cpu *c, const struct insn *i)
{
	(void)i;
	return cpu_gp(c, 0);
}

enum emul op_cpuid(struct cpu *c, const struct insn *i)
{
	u32 reg[4];

	(void)i;
	if ((c->msr.misc_features & MISC_FEATURES_CPUID_FAULT) && c->mmu.cpl)
		return cpu_gp(c, 0);
	cpuid_query(c, (u32)c->gpr[R_RAX], (u32)c->gpr[R_RCX], reg);
	c->gpr[R_RAX] = reg[0];
	c->gpr[R_RBX] = reg[1];
	c->gpr[R_RCX] = reg[2];
	c->gpr[R_RDX] = reg[3];
	cpu_fence();
	return EMUL_CONTINUE;
}

enum emul op_hlt(struct cpu *c, const struct insn *i)
{
	(void)i;
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	c->halted = true;
	return EMUL_END;
}

enum emul op_clac(struct cpu *c, const struct insn *i)
{
	bool set = i->op == OP_STAC;

	if (!cpuid_has(c->cpuid, CPUID_SMAP) || c->mmu.cpl)
		return cpu_ud(c);
	c->rflags = (c->rflags & ~(u64)RF_AC) | (set ? RF_AC : 0);
	mmu_set_ac(&c->mmu, set);
	return EMUL_CONTINUE;
}

enum emul op_vmcall(struct cpu *c, const struct insn *i)
{
	(void)i;
	if (!c->ops->hypercall)
		return cpu_ud(c);
	c->stats->hypercalls++;
	return ended(c->ops->hypercall(c));
}
