/* SPDX-License-Identifier: MIT */
#include "cpu/cr.h"

#include "cpu/cpuid.h"
#include "cpu/hostcpu.h"

#define CR0_KNOWN                                                                \
	(CR0_PE | CR0_MP | CR0_EM | CR0_TS | CR0_ET | CR0_NE | CR0_WP | CR0_AM | CR0_NW | \
	 CR0_CD | CR0_PG)

u64 cr4_allowed(const struct cpu *c)
{
	static const struct {
		u64 bit;
		u16 feature;
	} rows[] = {
		{ CR4_UMIP, CPUID_UMIP },   { CR4_FSGSBASE, CPUID_FSGSBASE },
		{ CR4_PCIDE, CPUID_PCID },  { CR4_OSXSAVE, CPUID_XSAVE },
		{ CR4_SMEP, CPUID_SMEP },   { CR4_SMAP, CPUID_SMAP },
	};
	/* KVM leaves these to the guest whatever CPUID says. */
	u64 bits = CR4_VME | CR4_PVI | CR4_TSD | CR4_DE | CR4_PSE | CR4_PAE | CR4_MCE | CR4_PGE |
		   CR4_PCE | CR4_OSFXSR | CR4_OSXMMEXCPT;

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		/* Before the client says what the processor has, it has what we offer. */
		bool unset = !c->cpuid->n && (rows[i].bit != CR4_OSXSAVE || hostcpu()->xsave);

		if (unset || cpuid_has(c->cpuid, rows[i].feature))
			bits |= rows[i].bit;
	}
	return bits;
}

u64 efer_allowed(const struct cpu *c)
{
	u64 bits = EFER_SCE;

	if (cpuid_has(c->cpuid, CPUID_LM))
		bits |= EFER_LME | EFER_LMA;
	if (cpuid_has(c->cpuid, CPUID_NX))
		bits |= EFER_NXE;
	if (cpuid_has(c->cpuid, CPUID_FFXSR))
		bits |= EFER_FFXSR;
	return bits;
}

void cpu_update_mode(struct cpu *c)
{
	if (!(c->mmu.cr0 & CR0_PE) || (c->rflags & RF_VM))
		c->code_bits = 16;
	else if ((c->mmu.efer & EFER_LMA) && (c->seg[SEG_CS].attr & SEG_L))
		c->code_bits = 64;
	else
		c->code_bits = c->seg[SEG_CS].attr & SEG_DB ? 32 : 16;
}

static bool cr0_consistent(u64 v)
{
	return !((v & CR0_PG) && !(v & CR0_PE)) && !((v & CR0_NW) && !(v & CR0_CD));
}

/* Paging goes on with EFER.LME set: long mode begins.  False: not allowed. */
static bool enter_long_mode_ok(const struct cpu *c, u64 cr0)
{
	bool starts = (cr0 & CR0_PG) && !(c->mmu.cr0 & CR0_PG);

	if (!starts || !(c->mmu.efer & EFER_LME))
		return true;
	return (c->mmu.cr4 & CR4_PAE) && !(c->seg[SEG_CS].attr & SEG_L);
}

enum emul cr_write0(struct cpu *c, u64 v)
{
	u64 old = c->mmu.cr0, changed;

	if (v >> 32)
		return cpu_gp(c, 0);
	v = (v & CR0_KNOWN) | CR0_ET;
	if (!cr0_consistent(v) || !enter_long_mode_ok(c, v))
		return cpu_gp(c, 0);
	changed = v ^ old;
	if (!(v & CR0_PG) && (old & CR0_PG) &&
	    ((c->mmu.cr4 & CR4_PCIDE) || c->code_bits == 64))
		return cpu_gp(c, 0);
	if ((v & CR0_PG) && (c->mmu.cr4 & CR4_PAE) && !(c->mmu.efer & EFER_LME) &&
	    (changed & (CR0_PG | CR0_CD | CR0_NW)) && !mmu_load_pdptrs(&c->mmu, c->mmu.cr3))
		return cpu_gp(c, 0);
	if (changed & CR0_PG) {
		u64 efer = c->mmu.efer & ~EFER_LMA;

		if ((v & CR0_PG) && (efer & EFER_LME))
			efer |= EFER_LMA;
		mmu_set_efer(&c->mmu, efer);
	}
	mmu_set_cr0(&c->mmu, v);
	/* Protection goes on with the CS of real mode: CPL 0 until the far jump. */
	cpu_update_mode(c);
	cpu_fence();
	return EMUL_CONTINUE;
}

enum emul cr_write3(struct cpu *c, u64 v)
{
	if (c->mmu.efer & EFER_LMA) {
		u64 noflush = c->mmu.cr4 & CR4_PCIDE ? CR3_NOFLUSH : 0;

		if (v & ~noflush & GENMASK64(63, c->mmu.maxphyaddr))
			return cpu_gp(c, 0);
	} else {
		v = (u32)v;
		if ((c->mmu.cr0 & CR0_PG) && (c->mmu.cr4 & CR4_PAE) &&
		    !mmu_load_pdptrs(&c->mmu, v))
			return cpu_gp(c, 0);
	}
	mmu_set_cr3(&c->mmu, v);
	cpu_fence();
	return EMUL_CONTINUE;
}

enum emul cr_write4(struct cpu *c, u64 v)
{
	u64 old = c->mmu.cr4, changed = v ^ old;
	bool lma = c->mmu.efer & EFER_LMA;

	if (v & ~cr4_allowed(c))
		return cpu_gp(c, 0);
	if (lma && !(v & CR4_PAE))
		return cpu_gp(c, 0);
	if ((changed & v & CR4_PCIDE) && (!lma || (c->mmu.cr3 & CR3_PCID)))
		return cpu_gp(c, 0);
	if (!lma && (v & CR4_PAE) && (c->mmu.cr0 & CR0_PG) &&
	    (changed & (CR4_PAE | CR4_PSE | CR4_PGE | CR4_SMEP)) &&
	    !mmu_load_pdptrs(&c->mmu, c->mmu.cr3))
		return cpu_gp(c, 0);
	mmu_set_cr4(&c->mmu, v);
	cpu_fence();
	return EMUL_CONTINUE;
}

bool cr_write_efer(struct cpu *c, u64 v, bool host)
{
	u64 old = c->mmu.efer;

	if (host) {
		if (v & ~(EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE | EFER_FFXSR | EFER_SVME))
			return false;
	} else if (v & ~efer_allowed(c)) {
		return false;
	}
	if ((c->mmu.cr0 & CR0_PG) && ((v ^ old) & EFER_LME))
		return false;
	mmu_set_efer(&c->mmu, (v & ~EFER_LMA) | (old & EFER_LMA));
	cpu_fence();
	return true;
}

bool cr_valid_sregs(const struct cpu *c, u64 cr0, u64 cr3, u64 cr4, u64 efer, bool cs_l)
{
	if (cr4 & ~cr4_allowed(c))
		return false;
	if (cr0 >> 32 || !cr0_consistent(cr0))
		return false;
	if ((efer & EFER_LME) && (cr0 & CR0_PG)) {
		/* Long mode is on: everything must say so. */
		if (!(cr4 & CR4_PAE) || !(efer & EFER_LMA))
			return false;
		if (cr3 & GENMASK64(63, c->mmu.maxphyaddr))
			return false;
		return true;
	}
	return !(efer & EFER_LMA) && !cs_l;
}

void cr_load_sregs(struct cpu *c, u64 cr0, u64 cr3, u64 cr4, u64 efer)
{
	struct mmu *m = &c->mmu;

	mmu_set_efer(m, efer);
	mmu_set_cr0(m, cr0 | CR0_ET);
	mmu_set_cr4(m, cr4);
	mmu_set_cr3(m, cr3);
	if ((cr0 & CR0_PG) && (cr4 & CR4_PAE) && !(efer & EFER_LMA))
		(void)mmu_load_pdptrs(m, cr3);
	mmu_flush_guest(m);
	cpu_update_mode(c);
}
