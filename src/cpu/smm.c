/* SPDX-License-Identifier: MIT */
#include "cpu/smm.h"

#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/cr.h"
#include "cpu/debug.h"
#include "cpu/flags.h"
#include "cpu/sys.h"

#define REVISION_64 0x20064u /* SMBASE may be moved; AMD64 layout */
#define REVISION_32 0x20000u
#define FLAGS                                                                   \
	(RF_ARITH | RF_TF | RF_IF | RF_DF | RF_IOPL | RF_NT | RF_RF | RF_VM |   \
	 RF_AC | RF_VIF | RF_VIP | RF_ID)

/** struct saved - what an area holds, without its layout
 * @attr: as struct segment's, but a segment that is unusable is not present */
struct saved {
	u64 gpr[R_COUNT];
	u64 rip, rflags, dr6, dr7, cr0, cr3, cr4, efer, smbase, revision;
	struct saved_segment {
		u64 base, limit, attr, sel;
	} seg[SEG_COUNT], gdt, idt;
};

/** struct field - bytes of an area that hold a member of struct saved
 * @at: in the area; @shift: the member is stored shifted left by it */
struct field {
	u16 at;
	u8 bytes, shift;
	u16 member;
};

#define F(at, bytes, member)	    { at, bytes, 0, offsetof(struct saved, member) }
#define REG64(at, reg)		    F(at, 8, gpr[reg])
#define REG32(at, reg)		    F(at, 4, gpr[reg])
#define SEG64(at, s)                                                            \
	F(at, 2, s.sel), F((at) + 2, 2, s.attr), F((at) + 4, 4, s.limit),       \
		F((at) + 8, 8, s.base)
/* Limit and base of a segment follow its attributes, which stand as in a
 * descriptor's second word; the selector stands elsewhere. */
#define SEG32(at, sel_at, s)                                                    \
	F(sel_at, 4, s.sel), { at, 4, 8, offsetof(struct saved, s.attr) },      \
		F((at) + 4, 4, s.limit), F((at) + 8, 4, s.base)

static const struct field layout64[] = {
	SEG64(0x000, seg[SEG_ES]), SEG64(0x010, seg[SEG_CS]),	SEG64(0x020, seg[SEG_SS]),
	SEG64(0x030, seg[SEG_DS]), SEG64(0x040, seg[SEG_FS]),	SEG64(0x050, seg[SEG_GS]),
	F(0x064, 4, gdt.limit),	   F(0x068, 8, gdt.base),	SEG64(0x070, seg[SEG_LDTR]),
	F(0x084, 4, idt.limit),	   F(0x088, 8, idt.base),	SEG64(0x090, seg[SEG_TR]),
	F(0x0d0, 8, efer),	   F(0x0fc, 4, revision),	F(0x100, 4, smbase),
	F(0x148, 8, cr4),	   F(0x150, 8, cr3),		F(0x158, 8, cr0),
	F(0x160, 8, dr7),	   F(0x168, 8, dr6),		F(0x170, 4, rflags),
	F(0x178, 8, rip),	   REG64(0x180, R_R15),		REG64(0x188, R_R14),
	REG64(0x190, R_R13),	   REG64(0x198, R_R12),		REG64(0x1a0, R_R11),
	REG64(0x1a8, R_R10),	   REG64(0x1b0, R_R9),		REG64(0x1b8, R_R8),
	REG64(0x1c0, R_RDI),	   REG64(0x1c8, R_RSI),		REG64(0x1d0, R_RBP),
	REG64(0x1d8, R_RSP),	   REG64(0x1e0, R_RBX),		REG64(0x1e8, R_RDX),
	REG64(0x1f0, R_RCX),	   REG64(0x1f8, R_RAX),
};

static const struct field layout32[] = {
	F(0x0f8, 4, smbase),		       F(0x0fc, 4, revision),
	F(0x114, 4, cr4),		       SEG32(0x12c, 0x1b4, seg[SEG_DS]),
	SEG32(0x138, 0x1b8, seg[SEG_FS]),      SEG32(0x144, 0x1bc, seg[SEG_GS]),
	F(0x154, 4, idt.limit),		       F(0x158, 4, idt.base),
	SEG32(0x15c, 0x1c4, seg[SEG_TR]),      F(0x170, 4, gdt.limit),
	F(0x174, 4, gdt.base),		       SEG32(0x178, 0x1c0, seg[SEG_LDTR]),
	SEG32(0x184, 0x1a8, seg[SEG_ES]),      SEG32(0x190, 0x1ac, seg[SEG_CS]),
	SEG32(0x19c, 0x1b0, seg[SEG_SS]),      F(0x1c8, 4, dr7),
	F(0x1cc, 4, dr6),		       REG32(0x1d0, R_RAX),
	REG32(0x1d4, R_RCX),		       REG32(0x1d8, R_RDX),
	REG32(0x1dc, R_RBX),		       REG32(0x1e0, R_RSP),
	REG32(0x1e4, R_RBP),		       REG32(0x1e8, R_RSI),
	REG32(0x1ec, R_RDI),		       F(0x1f0, 4, rip),
	F(0x1f4, 4, rflags),		       F(0x1f8, 4, cr3),
	F(0x1fc, 4, cr0),
};

/* --- the area and struct saved ------------------------------------------------- */

static bool has_long_mode(const struct cpu *c)
{
	return cpuid_has(c->cpuid, CPUID_LM);
}

static const struct field *layout_of(const struct cpu *c, unsigned *n)
{
	bool wide = has_long_mode(c);

	*n = wide ? ARRAY_SIZE(layout64) : ARRAY_SIZE(layout32);
	return wide ? layout64 : layout32;
}

static void encode(const struct cpu *c, const struct saved *s, u8 *area)
{
	unsigned n;
	const struct field *f = layout_of(c, &n);

	for (; n--; f++) {
		u64 v;

		memcpy(&v, (const u8 *)s + f->member, 8);
		v <<= f->shift;
		memcpy(area + f->at, &v, f->bytes);
	}
}

static void decode_area(const struct cpu *c, const u8 *area, struct saved *s)
{
	unsigned n;
	const struct field *f = layout_of(c, &n);

	for (; n--; f++) {
		u64 v = 0;

		memcpy(&v, area + f->at, f->bytes);
		v >>= f->shift;
		memcpy((u8 *)s + f->member, &v, 8);
	}
}

/* --- entry ----------------------------------------------------------------------- */

static void save_state(const struct cpu *c, struct saved *s)
{
	memcpy(s->gpr, c->gpr, sizeof(s->gpr));
	s->rip = c->rip;
	s->rflags = cpu_rflags(c);
	s->dr6 = c->dr6;
	s->dr7 = c->dr7;
	s->cr0 = c->mmu.cr0;
	s->cr3 = c->mmu.cr3;
	s->cr4 = c->mmu.cr4;
	s->efer = c->mmu.efer;
	s->smbase = c->msr.smbase;
	s->revision = has_long_mode(c) ? REVISION_64 : REVISION_32;
	for (unsigned i = 0; i < SEG_COUNT; i++) {
		const struct segment *seg = &c->seg[i];
		u32 attr = seg->attr & 0xf0ffu;

		if (seg->attr & SEG_UNUSABLE)
			attr &= ~(u32)SEG_P;
		s->seg[i] = (struct saved_segment){ seg->base, seg->limit, attr, seg->sel };
	}
	s->gdt.base = c->gdtr.base;
	s->gdt.limit = c->gdtr.limit;
	s->idt.base = c->idtr.base;
	s->idt.limit = c->idtr.limit;
}

static void flat_segments(struct cpu *c)
{
	for (unsigned i = SEG_ES; i <= SEG_GS; i++)
		c->seg[i] = (struct segment){
			.limit = 0xffffffff, .attr = 0x3 | SEG_S | SEG_P | SEG_G
		};
	c->seg[SEG_CS].sel = (u16)(c->msr.smbase >> 4);
	c->seg[SEG_CS].base = (u32)c->msr.smbase;
}

void smm_enter(struct cpu *c)
{
	u8 area[SMM_AREA_BYTES] = { 0 };
	struct saved s = { 0 };

	save_state(c, &s);
	encode(c, &s, area);
	smm_set(c, true, c->nmi_blocked);
	/* Without memory there the area is lost, as on hardware. */
	(void)!mem_write_in(c->mmu.mem, MEM_SMM, (u32)c->msr.smbase + SMM_AREA, area,
			    sizeof(area));
	c->nmi_blocked = true;
	c->msr.smi_count++;
	c->halted = false;
	cpu_set_rflags(c, RF_ONE);
	c->rip = SMM_ENTRY;
	flat_segments(c);
	c->idtr = (struct desc_table){ 0 };
	c->dr7 = DR7_FIXED_1;
	mmu_set_cpl(&c->mmu, 0);
	cr_load_sregs(c, c->mmu.cr0 & ~(CR0_PE | CR0_EM | CR0_TS | CR0_PG), c->mmu.cr3, 0,
		      has_long_mode(c) ? 0 : c->mmu.efer);
	debug_update(c);
}

void smm_set(struct cpu *c, bool on, bool in_nmi)
{
	c->smm = on;
	c->smm_in_nmi = on && in_nmi;
	mmu_set_space(&c->mmu, on ? MEM_SMM : 0);
}

/* --- RSM ------------------------------------------------------------------------- */

/* EFER as it will be: LMA follows from LME and paging. */
static u64 efer_of(const struct cpu *c, const struct saved *s)
{
	u64 efer = (has_long_mode(c) ? s->efer : c->mmu.efer) & ~EFER_LMA;

	return (efer & EFER_LME) && (s->cr0 & CR0_PG) ? efer | EFER_LMA : efer;
}

/* Return: what is wrong with the state, NULL if nothing. */
static const char *inconsistent(struct cpu *c, const struct saved *s)
{
	u64 efer = efer_of(c, s);
	bool pae = (s->cr0 & CR0_PG) && (s->cr4 & CR4_PAE) && !(efer & EFER_LMA);

	if ((s->dr6 | s->dr7) >> 32)
		return "RSM: upper half of DR6 or DR7";
	if (efer & ~efer_allowed(c))
		return "RSM: EFER";
	if (!cr_valid_sregs(c, s->cr0, s->cr3, s->cr4, efer, false))
		return "RSM: control registers";
	if ((s->cr4 & CR4_PCIDE) && !(efer & EFER_LMA))
		return "RSM: CR4.PCIDE outside long mode";
	if ((s->rflags & RF_VM) && (!(s->cr0 & CR0_PE) || (efer & EFER_LMA)))
		return "RSM: EFLAGS.VM";
	if (pae && !mmu_load_pdptrs(&c->mmu, s->cr3))
		return "RSM: reserved bits in a PDPTE";
	return NULL;
}

static void load_segment(struct segment *to, const struct saved_segment *from)
{
	*to = (struct segment){
		.base = from->base,
		.limit = (u32)from->limit,
		.attr = (u32)from->attr & 0xf0ff,
		.sel = (u16)from->sel,
	};
	if (!(to->attr & SEG_P))
		to->attr |= SEG_UNUSABLE;
}

static void load_state(struct cpu *c, const struct saved *s)
{
	unsigned cpl;

	if (has_long_mode(c))
		memcpy(c->gpr, s->gpr, sizeof(c->gpr));
	else
		memcpy(c->gpr, s->gpr, 8 * sizeof(c->gpr[0]));
	c->rip = s->rip;
	c->dr6 = s->dr6 | DR6_FIXED_1;
	c->dr7 = s->dr7 | DR7_FIXED_1;
	c->msr.smbase = s->smbase;
	for (unsigned i = 0; i < SEG_COUNT; i++)
		load_segment(&c->seg[i], &s->seg[i]);
	c->gdtr = (struct desc_table){ s->gdt.base, (u16)s->gdt.limit };
	c->idtr = (struct desc_table){ s->idt.base, (u16)s->idt.limit };
	cr_load_sregs(c, s->cr0, s->cr3, s->cr4, efer_of(c, s));
	cpu_set_rflags(c, s->rflags & FLAGS);
	cpl = (c->seg[SEG_SS].attr & SEG_DPL) >> SEG_DPL_SHIFT;
	if (!(s->cr0 & CR0_PE))
		cpl = 0;
	else if (s->rflags & RF_VM)
		cpl = 3;
	mmu_set_cpl(&c->mmu, cpl);
	cpu_update_mode(c);
	debug_update(c);
}

static enum emul shut_down(struct cpu *c, const char *why)
{
	c->shutdown = true;
	c->shutdown_cause = why;
	return EMUL_END;
}

enum emul op_rsm(struct cpu *c, const struct insn *i)
{
	u8 area[SMM_AREA_BYTES];
	bool in_nmi = c->smm_in_nmi;
	struct saved s = { 0 };
	const char *wrong;

	(void)i;
	if (!c->smm)
		return cpu_ud(c);
	if (mem_read_in(c->mmu.mem, MEM_SMM, (u32)c->msr.smbase + SMM_AREA, area,
			sizeof(area)))
		return shut_down(c, "RSM: no memory at the state-save area");
	decode_area(c, area, &s);
	smm_set(c, false, false);
	wrong = inconsistent(c, &s);
	if (wrong)
		return shut_down(c, wrong);
	if (!in_nmi)
		c->nmi_blocked = false;
	load_state(c, &s);
	cpu_fence();
	/* NMIs, SMIs, INIT and interrupts may have waited for this. */
	if (c->ops->event_check)
		c->ops->event_check(c);
	return EMUL_END;
}
