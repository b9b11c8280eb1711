/* SPDX-License-Identifier: MIT */
#include "cpu/cpuid.h"

#include <errno.h>
#include <string.h>

#include "cpu/fp.h"
#include "cpu/msr.h"

/* Where each feature word stands.  ORDER: enum cpuid_word. */
static const struct {
	u32 leaf, subleaf;
	u8 reg; /* 0..3: EAX EBX ECX EDX */
} words[CW_COUNT] = {
	[CW_1_ECX] = { 1, 0, 2 },	    [CW_1_EDX] = { 1, 0, 3 },
	[CW_7_EBX] = { 7, 0, 1 },	    [CW_7_ECX] = { 7, 0, 2 },
	[CW_7_EDX] = { 7, 0, 3 },	    [CW_81_ECX] = { 0x80000001, 0, 2 },
	[CW_81_EDX] = { 0x80000001, 0, 3 }, [CW_87_EDX] = { 0x80000007, 0, 3 },
	[CW_88_EBX] = { 0x80000008, 0, 1 }, [CW_D1_EAX] = { 0xd, 1, 0 },
};

static const u16 features[FEAT_COUNT] = {
	[FEAT_FPU] = CPUID_FPU,		[FEAT_MMX] = CPUID_MMX,
	[FEAT_FXSR] = CPUID_FXSR,	[FEAT_SSE] = CPUID_SSE,
	[FEAT_SSE2] = CPUID_SSE2,	[FEAT_SSE3] = CPUID_SSE3,
	[FEAT_SSSE3] = CPUID_SSSE3,	[FEAT_SSE41] = CPUID_SSE41,
	[FEAT_SSE42] = CPUID_SSE42,	[FEAT_AES] = CPUID_AES,
	[FEAT_PCLMUL] = CPUID_PCLMUL,	[FEAT_SHA] = CPUID_SHA,
	[FEAT_GFNI] = CPUID_GFNI,	[FEAT_AVX] = CPUID_AVX,
	[FEAT_AVX2] = CPUID_AVX2,	[FEAT_FMA] = CPUID_FMA,
	[FEAT_F16C] = CPUID_F16C,	[FEAT_VAES] = CPUID_VAES,
	[FEAT_VPCLMUL] = CPUID_VPCLMUL,
	[FEAT_CLFSH] = CPUID_CLFSH,	[FEAT_POPCNT] = CPUID_POPCNT,
	[FEAT_MOVBE] = CPUID_MOVBE,	[FEAT_RDRAND] = CPUID_RDRAND,
	[FEAT_RDSEED] = CPUID_RDSEED,	[FEAT_RDPID] = CPUID_RDPID,
	[FEAT_FSGSBASE] = CPUID_FSGSBASE, [FEAT_INVPCID] = CPUID_INVPCID,
	[FEAT_BMI1] = CPUID_BMI1,	[FEAT_BMI2] = CPUID_BMI2,
	[FEAT_ADX] = CPUID_ADX,		[FEAT_CLFLUSHOPT] = CPUID_CLFLUSHOPT,
	[FEAT_CLWB] = CPUID_CLWB,	[FEAT_XSAVE] = CPUID_XSAVE,
	[FEAT_XSAVEOPT] = CPUID_XSAVEOPT, [FEAT_XSAVEC] = CPUID_XSAVEC,
	[FEAT_XSAVES] = CPUID_XSAVES,	[FEAT_VMX] = CPUID_VMX,
	[FEAT_CX16] = CPUID_CX16,
};

bool cpuid_has_feature(const struct cpuid_table *t, unsigned feature)
{
	return feature == FEAT_BASE || cpuid_has(t, features[feature]);
}

unsigned cpuid_entries(const struct cpuid_table *t, const struct kvm_cpuid_entry2 **entries)
{
	*entries = t->entry;
	return t->n;
}

static const struct kvm_cpuid_entry2 *find(const struct cpuid_table *t, u32 leaf, u32 subleaf)
{
	for (u32 i = 0; i < t->n; i++) {
		const struct kvm_cpuid_entry2 *e = &t->entry[i];

		if (e->function == leaf && (!(e->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) ||
					    e->index == subleaf))
			return e;
	}
	return NULL;
}

static u32 reg_of(const struct kvm_cpuid_entry2 *e, unsigned reg)
{
	const u32 r[4] = { e->eax, e->ebx, e->ecx, e->edx };

	return r[reg];
}

static u8 vendor_of(const struct cpuid_table *t)
{
	const struct kvm_cpuid_entry2 *e = find(t, 0, 0);

	/* AuthenticAMD, HygonGenuine */
	return e && (e->ebx == 0x68747541 || e->ebx == 0x6f677948) ? VENDOR_AMD : VENDOR_INTEL;
}

static u8 address_bits(const struct cpuid_table *t)
{
	const struct kvm_cpuid_entry2 *e = find(t, 0x80000008, 0), *max = find(t, 0x80000000, 0);
	u32 bits = 36;

	if (e && max && max->eax >= 0x80000008)
		bits = e->eax & 0xff;
	return bits < 32 ? 32 : bits > 52 ? 52 : (u8)bits;
}

static bool virtual_width_ok(const struct kvm_cpuid_entry2 *entry, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (entry[i].function == 0x80000008) {
			u32 width = entry[i].eax >> 8 & 0xff;

			return width == 0 || width == 48 || width == 57;
		}
	return true;
}

/* Leaf 0xD has a component that a process must ask the kernel for (tile data),
 * which it is never given here. */
static bool wants_permission(const struct kvm_cpuid_entry2 *entry, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (entry[i].function == 0xd && entry[i].index == 0)
			return entry[i].eax & BIT(18);
	return false;
}

int cpuid_set(struct cpu *c, const struct kvm_cpuid_entry2 *entry, unsigned n)
{
	struct cpuid_table *t = c->cpuid;
	const struct kvm_cpuid_entry2 *e;

	if (n > CPUID_MAX_ENTRIES)
		return -E2BIG;
	if (!virtual_width_ok(entry, n))
		return -EINVAL;
	if (wants_permission(entry, n))
		return -EPERM;
	t->n = n;
	memcpy(t->entry, entry, n * sizeof(*entry));
	for (unsigned w = 0; w < CW_COUNT; w++) {
		e = find(t, words[w].leaf, words[w].subleaf);
		t->word[w] = e ? reg_of(e, words[w].reg) : 0;
	}
	e = find(t, 0xd, 0);
	t->xcr0 = e && cpuid_has(t, CPUID_XSAVE) ? e->eax & (u32)fp_supported_xcr0() : 0;
	c->vendor = vendor_of(t);
	cpu_msr_vendor(c);
	c->mmu.maxphyaddr = address_bits(t);
	c->mmu.amd = c->vendor == VENDOR_AMD;
	c->mmu.gbpages = cpuid_has(t, CPUID_GBPAGES);
	return 0;
}

u32 cpuid_signature(const struct cpuid_table *t)
{
	const struct kvm_cpuid_entry2 *e = find(t, 1, 0);

	return e ? e->eax : 0x600;
}

bool cpuid_xcr0_ok(const struct cpuid_table *t, u64 v)
{
	if (!(v & XFEATURE_X87) || ((v & XFEATURE_AVX) && !(v & XFEATURE_SSE)))
		return false;
	return !(v & ~(t->xcr0 | XFEATURE_X87));
}

static void set_bit(u32 *reg, unsigned bit, bool on)
{
	*reg = (*reg & ~BIT(bit)) | (on ? BIT(bit) : 0);
}

bool cpuid_has_mwait(const struct cpu *c)
{
	if (cpu_disabled_quirks(c) & KVM_X86_QUIRK_MISC_ENABLE_NO_MWAIT)
		return c->msr.misc_enable & MISC_ENABLE_MWAIT;
	return cpuid_has(c->cpuid, CPUID_MONITOR);
}

void cpuid_dynamic(const struct cpu *c, struct kvm_cpuid_entry2 *e)
{
	switch (e->function) {
	case 1:
		if (e->ecx & BIT(26))
			set_bit(&e->ecx, 27, c->mmu.cr4 & CR4_OSXSAVE);
		set_bit(&e->ecx, 3, cpuid_has_mwait(c));
		if (c->ops && c->ops->apic_base)
			set_bit(&e->edx, 9, c->ops->apic_base((struct cpu *)(uintptr_t)c) & BIT(11));
		break;
	case 0xd:
		if (e->index == 0)
			e->ebx = fp_xsave_size(c->xcr0);
		else if (e->index == 1 && (e->eax & (BIT(1) | BIT(3))))
			e->ebx = fp_xsave_size(c->xcr0 | c->msr.xss);
		break;
	}
}

/* Intel answers a leaf beyond the end of its range with the highest basic one. */
static const struct kvm_cpuid_entry2 *redirected(const struct cpu *c, u32 leaf, u32 subleaf)
{
	const struct cpuid_table *t = c->cpuid;
	const struct kvm_cpuid_entry2 *basic = find(t, 0, 0), *range;
	u32 first = leaf & 0x80000000;

	if (leaf >= 0x40000000 && leaf <= 0x4fffffff)
		first = leaf & 0xffffff00;
	else if (leaf >= 0xc0000000)
		first = 0xc0000000;
	range = find(t, first, 0);
	if (c->vendor != VENDOR_INTEL || !basic || (range && leaf <= range->eax))
		return NULL;
	return find(t, basic->eax, subleaf);
}

/* A topology level that is not there still names itself and the x2APIC ID. */
static void absent_level(const struct cpuid_table *t, u32 leaf, u32 subleaf, u32 reg[4])
{
	const struct kvm_cpuid_entry2 *level = find(t, leaf, 1);

	if ((leaf == 0xb || leaf == 0x1f) && level) {
		reg[2] = subleaf & 0xff;
		reg[3] = level->edx;
	}
}

void cpuid_query(const struct cpu *c, u32 leaf, u32 subleaf, u32 reg[4])
{
	const struct kvm_cpuid_entry2 *e = find(c->cpuid, leaf, subleaf);
	struct kvm_cpuid_entry2 copy;

	memset(reg, 0, 4 * sizeof(reg[0]));
	if (!e)
		e = redirected(c, leaf, subleaf);
	if (!e) {
		absent_level(c->cpuid, leaf, subleaf, reg);
		return;
	}
	copy = *e;
	cpuid_dynamic(c, &copy);
	for (unsigned r = 0; r < 4; r++)
		reg[r] = reg_of(&copy, r);
}
