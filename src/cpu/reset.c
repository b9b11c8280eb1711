/* SPDX-License-Identifier: MIT */
#include "cpu/reset.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/cr.h"
#include "cpu/debug.h"
#include "cpu/fp.h"
#include "cpu/msr.h"
#include "cpu/smm.h"

int cpu_init(struct cpu *c)
{
	c->cpuid = calloc(1, sizeof(*c->cpuid));
	if (!c->cpuid)
		return -ENOMEM;
	cpu_reset(c, false);
	return 0;
}

void cpu_fini(struct cpu *c)
{
	free(c->cpuid);
	c->cpuid = NULL;
}

static void reset_segments(struct cpu *c)
{
	for (unsigned s = SEG_ES; s <= SEG_GS; s++)
		c->seg[s] = (struct segment){ .limit = 0xffff, .attr = 0x3 | SEG_S | SEG_P };
	c->seg[SEG_CS].sel = 0xf000;
	c->seg[SEG_CS].base = 0xffff0000;
	c->seg[SEG_CS].attr = 0xb | SEG_S | SEG_P;
	c->seg[SEG_LDTR] = (struct segment){ .limit = 0xffff, .attr = 0x2 | SEG_P };
	c->seg[SEG_TR] = (struct segment){ .limit = 0xffff, .attr = 0xb | SEG_P };
	c->gdtr = c->idtr = (struct desc_table){ .limit = 0xffff };
}

static void reset_msrs(struct cpu *c)
{
	memset(&c->msr, 0, sizeof(c->msr));
	c->msr.pat = 0x0007040600070406ull;
	c->msr.misc_enable = BIT64(0); /* fast strings */
	c->msr.mcg_cap = 10;
	(void)cpu_msr_feature(0x8b, &c->msr.ucode_rev);
	(void)cpu_msr_feature(0x10a, &c->msr.arch_capabilities);
	(void)cpu_msr_feature(0xce, &c->msr.platform_info);
	c->msr.smbase = SMM_SMBASE_RESET;
}

/* FNINIT's values and MXCSR's default; registers zero. */
static void reset_fpu(struct cpu *c)
{
	struct fp_image *f = cpu_fp(c);

	memset(c->fpu, 0, sizeof(c->fpu));
	f->fcw = 0x40;
	f->ftw = 0xff; /* after reset all are valid zeros; FNINIT empties them */
	f->mxcsr = 0x1f80;
	f->mxcsr_mask = 0xffff;
	c->xcr0 = 1;
}

void cpu_reset(struct cpu *c, bool init)
{
	u64 cd = CR0_CD | CR0_NW, cr0 = CR0_ET | (init ? c->mmu.cr0 & cd : cd);

	memset(c->gpr, 0, sizeof(c->gpr));
	c->gpr[R_RDX] = cpuid_signature(c->cpuid);
	c->rip = 0xfff0;
	cpu_put_rflags(c, RF_ONE);
	c->shadow = 0;
	c->nmi_blocked = c->halted = c->shutdown = false;
	smm_set(c, false, false);
	c->pending_dbg = 0;
	memset(&c->event, 0, sizeof(c->event));
	reset_segments(c);
	c->cr2 = c->cr8 = 0;
	memset(c->dr, 0, sizeof(c->dr));
	c->dr6 = DR6_FIXED_1;
	c->dr7 = DR7_FIXED_1;
	if (!init) {
		reset_msrs(c);
		reset_fpu(c);
	}
	mmu_set_cpl(&c->mmu, 0);
	mmu_set_ac(&c->mmu, false);
	cr_load_sregs(c, cr0, 0, 0, 0);
	debug_update(c);
}
