/* SPDX-License-Identifier: MIT */
#include "cpu/msr.h"

#include "cpu/cpuid.h"
#include "cpu/cr.h"
#include "cpu/hostcpu.h"

enum check { ANY, CANON, PAT, MTRR };
enum { HIDE, LIST };

/* Nothing of the kind happens on a software processor: RDCL_NO, IBRS_ALL,
 * SKIP_L1DFL_VMENTRY, SSB_NO, MDS_NO, PSCHANGE_MC_NO, TAA_NO; SBDR_SSDP_NO,
 * FBSDP_NO, PSDP_NO; BHI_NO, PBRSB_NO, GDS_NO, RFDS_NO; ITS_NO. */
#define ARCH_CAPS_VALUE                                                          \
	(0x17bull | BIT64(13) | BIT64(14) | BIT64(15) | BIT64(20) | BIT64(24) | \
	 BIT64(26) | BIT64(27) | BIT64(62))

/* Microcode revisions as KVM reports them: Intel's stand in the high half. */
#define UCODE_AMD   0x01000065ull
#define UCODE_INTEL 0x100000000ull

static const struct stored {
	u32 number;
	u32 offset;
	u8 check, listed;
	u64 mask;
} stored[] = {
#define STORED(nr, field, mask_, check_, listed_)                                \
	{ nr, offsetof(struct cpu, msr.field), check_, listed_, mask_ },
#define CONST(nr, value, writes, listed)
#include "cpu/msrs.def"
#undef STORED
#undef CONST
};

static const struct constant {
	u32 number;
	bool writes;
	u8 listed;
	u64 value;
} constants[] = {
#define STORED(nr, field, mask_, check_, listed_)
#define CONST(nr, value_, writes_, listed_) { nr, writes_, listed_, value_ },
#include "cpu/msrs.def"
#undef STORED
#undef CONST
};

/* Listed, but with code of their own. */
static const u32 special[] = {
	0x10, 0x3b, 0x6e0, MSR_TSC_AUX, 0x10a, 0x8b, MSR_MCG_CTL, MSR_MISC_FEATURES,
};
static const u32 feature_list[] = { 0x8b, 0x10a, MSR_PLATFORM_INFO, MSR_PERF_CAPABILITIES };

static const struct stored *find_stored(u32 index)
{
	for (unsigned i = 0; i < ARRAY_SIZE(stored); i++)
		if (stored[i].number == index)
			return &stored[i];
	return NULL;
}

static const struct constant *find_constant(u32 index)
{
	for (unsigned i = 0; i < ARRAY_SIZE(constants); i++)
		if (constants[i].number == index)
			return &constants[i];
	return NULL;
}

static u64 *field(struct cpu *c, const struct stored *s)
{
	return (u64 *)(void *)((u8 *)c + s->offset);
}

static bool memory_type_ok(u8 t)
{
	return t == 0 || t == 1 || t == 4 || t == 5 || t == 6;
}

static bool pat_ok(u64 v)
{
	for (int i = 0; i < 8; i++) {
		u8 t = (u8)(v >> (8 * i));

		if (!memory_type_ok(t) && t != 7)
			return false;
	}
	return true;
}

/* --- memory type ranges ------------------------------------------------------ */

static u64 *mtrr_slot(struct cpu *c, u32 index)
{
	static const u32 fixed[11] = { 0x250, 0x258, 0x259, 0x268, 0x269, 0x26a,
				       0x26b, 0x26c, 0x26d, 0x26e, 0x26f };

	if (index >= MSR_MTRR_VAR0 && index < MSR_MTRR_VAR0 + 16)
		return &c->msr.mtrr_var[index - MSR_MTRR_VAR0];
	for (unsigned i = 0; i < 11; i++)
		if (fixed[i] == index)
			return &c->msr.mtrr_fixed[i];
	return NULL;
}

static bool mtrr_ok(const struct cpu *c, u32 index, u64 v)
{
	if (index < MSR_MTRR_VAR0 + 16) {
		u64 rsvd = GENMASK64(63, c->mmu.maxphyaddr);

		if (index & 1) /* mask: bit 11 valid */
			return !(v & (rsvd | GENMASK64(10, 0)));
		return !(v & (rsvd | GENMASK64(11, 8))) && memory_type_ok((u8)v);
	}
	for (int i = 0; i < 8; i++)
		if (!memory_type_ok((u8)(v >> (8 * i))))
			return false;
	return true;
}

/* --- machine check ------------------------------------------------------------ */

static u64 *mce_slot(struct cpu *c, u32 index)
{
	unsigned banks = c->msr.mcg_cap & 0xff;

	if (index >= MSR_MC0_CTL && index < MSR_MC0_CTL + 4 * MCE_BANKS &&
	    (index - MSR_MC0_CTL) / 4 < banks)
		return &c->msr.mc_bank[index - MSR_MC0_CTL];
	return NULL;
}

/* MCi_CTL2, or NULL; without MCG_CAP.CMCI_P a guest has none. */
static u64 *ctl2_slot(struct cpu *c, u32 index, bool host)
{
	if (index < MSR_MC0_CTL2 || index - MSR_MC0_CTL2 >= MIN(c->msr.mcg_cap & 0xff, MCE_BANKS))
		return NULL;
	return host || (c->msr.mcg_cap & BIT(10)) ? &c->msr.mc_ctl2[index - MSR_MC0_CTL2] : NULL;
}

static enum cpu_msr write_ctl2(struct cpu *c, u64 *slot, u64 v)
{
	if ((v & ~(MCI_CTL2_CMCI_EN | MCI_CTL2_THRESHOLD)) ||
	    (v && !(c->msr.mcg_cap & BIT(10))))
		return CPU_MSR_INVALID;
	*slot = v;
	return CPU_MSR_OK;
}

static bool mce_ok(u32 index, u64 v, bool host)
{
	switch (index & 3) {
	case 0: /* CTL: all ones or zero, as KVM wants it; Linux clears bit 10 of bank 4 */
		return v == 0 || (v | BIT64(10) | 1) == ~0ull;
	case 1: /* STATUS: the guest may only clear */
		return host || v == 0;
	}
	return true;
}

/* --- reading ------------------------------------------------------------------- */

static bool guest_lacks(const struct cpu *c, bool host, unsigned feature)
{
	return !host && !cpuid_has(c->cpuid, feature);
}

/* A row of msrs.def that a guest has by its CPUID alone, or not at all. */
static bool row_absent(const struct cpu *c, u32 index, bool host)
{
	if (index == MSR_SMBASE)
		return !host;
	return index == MSR_SPEC_CTRL && guest_lacks(c, host, CPUID_SPEC_CTRL);
}

static enum cpu_msr read_special(struct cpu *c, u32 index, u64 *v, bool host)
{
	u64 *slot;

	switch (index) {
	case MSR_EFER: *v = c->mmu.efer; return CPU_MSR_OK;
	case MSR_FS_BASE: *v = c->seg[SEG_FS].base; return CPU_MSR_OK;
	case MSR_GS_BASE: *v = c->seg[SEG_GS].base; return CPU_MSR_OK;
	case MSR_TSC_AUX:
		if (guest_lacks(c, host, CPUID_RDTSCP) && !cpuid_has(c->cpuid, CPUID_RDPID))
			return CPU_MSR_UNKNOWN;
		*v = c->msr.tsc_aux;
		return CPU_MSR_OK;
	case 0x8b: *v = c->msr.ucode_rev; return CPU_MSR_OK;
	case 0x10a:
		if (guest_lacks(c, host, CPUID_ARCH_CAPS))
			return CPU_MSR_UNKNOWN;
		*v = c->msr.arch_capabilities;
		return CPU_MSR_OK;
	case MSR_MISC_FEATURES: *v = c->msr.misc_features; return CPU_MSR_OK;
	case MSR_XSS:
		if (guest_lacks(c, host, CPUID_XSAVES))
			return CPU_MSR_UNKNOWN;
		*v = c->msr.xss;
		return CPU_MSR_OK;
	case MSR_MCG_CAP: *v = c->msr.mcg_cap; return CPU_MSR_OK;
	case MSR_MCG_CTL:
		*v = c->msr.mcg_ctl;
		return host || (c->msr.mcg_cap & BIT(8)) ? CPU_MSR_OK : CPU_MSR_UNKNOWN;
	}
	slot = mtrr_slot(c, index);
	if (!slot)
		slot = mce_slot(c, index);
	if (!slot)
		slot = ctl2_slot(c, index, host);
	if (!slot)
		return CPU_MSR_UNKNOWN;
	*v = *slot;
	return CPU_MSR_OK;
}

enum cpu_msr cpu_msr_read(struct cpu *c, u32 index, u64 *value, bool host)
{
	const struct stored *s = find_stored(index);
	const struct constant *k;

	*value = 0;
	if (row_absent(c, index, host))
		return CPU_MSR_UNKNOWN;
	if (s) {
		*value = *field(c, s);
		return CPU_MSR_OK;
	}
	k = find_constant(index);
	if (k) {
		*value = k->value;
		return CPU_MSR_OK;
	}
	return read_special(c, index, value, host);
}

/* --- writing ------------------------------------------------------------------- */

static enum cpu_msr write_base(struct cpu *c, unsigned seg, u64 v)
{
	if (!addr_is_canonical(v))
		return CPU_MSR_INVALID;
	c->seg[seg].base = v;
	return CPU_MSR_OK;
}

static enum cpu_msr write_slot(struct cpu *c, u32 index, u64 v, bool host)
{
	u64 *slot = mtrr_slot(c, index);

	if (slot) {
		if (!mtrr_ok(c, index, v))
			return CPU_MSR_INVALID;
		*slot = v;
		return CPU_MSR_OK;
	}
	slot = ctl2_slot(c, index, host);
	if (slot)
		return write_ctl2(c, slot, v);
	slot = mce_slot(c, index);
	if (!slot)
		return CPU_MSR_UNKNOWN;
	if (!mce_ok(index, v, host))
		return CPU_MSR_INVALID;
	*slot = v;
	return CPU_MSR_OK;
}

static enum cpu_msr write_special(struct cpu *c, u32 index, u64 v, bool host)
{
	switch (index) {
	case MSR_EFER: return cr_write_efer(c, v, host) ? CPU_MSR_OK : CPU_MSR_INVALID;
	case MSR_FS_BASE: return write_base(c, SEG_FS, v);
	case MSR_GS_BASE: return write_base(c, SEG_GS, v);
	case MSR_TSC_AUX:
		if (guest_lacks(c, host, CPUID_RDTSCP) && !cpuid_has(c->cpuid, CPUID_RDPID))
			return CPU_MSR_UNKNOWN;
		if (v >> 32)
			return CPU_MSR_INVALID;
		c->msr.tsc_aux = v;
		return CPU_MSR_OK;
	case 0x8b: /* the guest writes 0 before it reads */
		if (host)
			c->msr.ucode_rev = v;
		return CPU_MSR_OK;
	case 0x10a:
		if (!host)
			return CPU_MSR_INVALID;
		c->msr.arch_capabilities = v;
		return CPU_MSR_OK;
	case MSR_PRED_CMD: /* write-only; nothing to flush */
		if (guest_lacks(c, host, CPUID_SPEC_CTRL))
			return CPU_MSR_UNKNOWN;
		return v & ~1ull ? CPU_MSR_INVALID : CPU_MSR_OK;
	case MSR_MISC_FEATURES:
		if (v & ~(c->msr.platform_info & PLATFORM_INFO_CPUID_FAULT ?
				  MISC_FEATURES_CPUID_FAULT : 0))
			return CPU_MSR_INVALID;
		c->msr.misc_features = v;
		return CPU_MSR_OK;
	case MSR_XSS: /* no supervisor component exists: 0 alone */
		if (guest_lacks(c, host, CPUID_XSAVES))
			return CPU_MSR_UNKNOWN;
		if (v)
			return CPU_MSR_INVALID;
		c->msr.xss = v;
		return CPU_MSR_OK;
	case MSR_MCG_CAP: return CPU_MSR_INVALID;
	case MSR_MCG_CTL:
		if (!host && !(c->msr.mcg_cap & BIT(8)))
			return CPU_MSR_UNKNOWN;
		if (v && v != ~0ull)
			return CPU_MSR_INVALID;
		c->msr.mcg_ctl = v;
		return CPU_MSR_OK;
	}
	return write_slot(c, index, v, host);
}

static bool value_ok(enum check check, u64 v)
{
	switch (check) {
	case CANON: return addr_is_canonical(v);
	case PAT: return pat_ok(v);
	case MTRR: return !(v & ~0xcffull) && memory_type_ok((u8)v);
	case ANY: break;
	}
	return true;
}

/* MWAIT may be switched when that shows in CPUID; a processor without SSE3 has
 * none. */
static bool misc_enable_ok(const struct cpu *c, u64 v)
{
	bool shows = cpu_disabled_quirks(c) & KVM_X86_QUIRK_MISC_ENABLE_NO_MWAIT;

	return !shows || !((c->msr.misc_enable ^ v) & MISC_ENABLE_MWAIT) ||
	       cpuid_has(c->cpuid, CPUID_SSE3);
}

enum cpu_msr cpu_msr_write(struct cpu *c, u32 index, u64 value, bool host)
{
	const struct stored *s = find_stored(index);
	const struct constant *k;

	if (row_absent(c, index, host))
		return CPU_MSR_UNKNOWN;
	if (s) {
		/* A mask of 0: read-only for the guest. */
		if (!host && (!s->mask || (value & ~s->mask)))
			return CPU_MSR_INVALID;
		if (!value_ok(s->check, value))
			return CPU_MSR_INVALID;
		if (index == MSR_MISC_ENABLE && !misc_enable_ok(c, value))
			return CPU_MSR_INVALID;
		*field(c, s) = value;
		return CPU_MSR_OK;
	}
	k = find_constant(index);
	if (k)
		return k->writes || (host && value == k->value) ? CPU_MSR_OK : CPU_MSR_INVALID;
	return write_special(c, index, value, host);
}

void cpu_msr_vendor(struct cpu *c)
{
	bool amd = c->vendor == VENDOR_AMD;

	if (c->msr.ucode_rev == (amd ? UCODE_INTEL : UCODE_AMD))
		c->msr.ucode_rev = amd ? UCODE_AMD : UCODE_INTEL;
}

/* --- lists -------------------------------------------------------------------- */

static void add(u32 *out, unsigned *n, unsigned max, u32 index)
{
	if (*n < max)
		out[*n] = index;
	++*n;
}

unsigned cpu_msr_list(u32 *out, unsigned max)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(stored); i++)
		if (stored[i].listed)
			add(out, &n, max, stored[i].number);
	for (unsigned i = 0; i < ARRAY_SIZE(constants); i++)
		if (constants[i].listed)
			add(out, &n, max, constants[i].number);
	for (unsigned i = 0; i < ARRAY_SIZE(special); i++)
		add(out, &n, max, special[i]);
	if (hostcpu()->xsaves)
		add(out, &n, max, MSR_XSS);
	return n;
}

unsigned cpu_msr_feature_list(u32 *out, unsigned max)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(feature_list); i++)
		add(out, &n, max, feature_list[i]);
	return n;
}

bool cpu_msr_feature(u32 index, u64 *value)
{
	switch (index) {
	case 0x8b: *value = hostcpu()->amd ? UCODE_AMD : UCODE_INTEL; return true;
	case 0x10a: *value = ARCH_CAPS_VALUE; return true;
	case MSR_PLATFORM_INFO: *value = PLATFORM_INFO_CPUID_FAULT; return true;
	case MSR_PERF_CAPABILITIES: *value = 0; return true; /* no PMU */
	}
	return false;
}
