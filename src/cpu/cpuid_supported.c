/* SPDX-License-Identifier: MIT */
/*
 * KVM_GET_SUPPORTED_CPUID: the host's table, filtered to what is executed.
 *
 * At most 80 entries (clients' buffers), the host's own XSAVE layout (clients
 * compute offsets from the host's leaf 0xD).
 */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/cpuid_cache.h"
#include "cpu/fp.h"
#include "cpu/hostcpu.h"

#define F(name) BIT(CPUID_##name % 32)
/* Executed by the host's own instructions. */
#define IF_HOST(name) (hostcpu_runs(FEAT_##name) ? F(name) : 0)

/* Executed for any host: nothing of the host's own is needed. */
/* Not TSC_DEADLINE, which needs the LAPIC in here: as in KVM until 6.13 it is
 * KVM_CAP_TSC_DEADLINE_TIMER alone that says so.  QEMU passes what it finds here
 * on to guests whose LAPIC is its own and has no such mode. */
#define ANY_1_ECX  (F(PCID) | F(X2APIC) | F(MOVBE) | F(POPCNT) | F(HYPERVISOR))
#define ANY_1_EDX                                                                \
	(F(FPU) | F(DE) | F(PSE) | F(TSC) | BIT(5) /* MSR */ | F(PAE) | F(MCE) | \
	 F(CX8) | F(APIC) | F(SEP) | BIT(12) /* MTRR */ | F(PGE) | BIT(14) /* MCA */ |   \
	 BIT(15) /* CMOV */ | BIT(16) /* PAT */ | BIT(17) /* PSE36 */ | F(CLFSH) | F(MMX) | \
	 F(FXSR) | F(SSE) | F(SSE2))
#define ANY_7_EBX                                                                \
	(F(FSGSBASE) | F(TSC_ADJUST) | F(BMI1) | F(SMEP) | F(BMI2) | F(ERMS) | F(INVPCID) | \
	 F(ADX) | F(SMAP))
#define ANY_7_ECX  (F(UMIP) | F(RDPID))
#define ANY_81_ECX (F(LAHF) | F(LZCNT) | BIT(8) /* 3DNOWPREFETCH */)
#define ANY_81_EDX (F(SYSCALL) | F(NX) | F(GBPAGES) | F(RDTSCP) | F(LM))
/* 80000001:EDX repeats these bits of 1:EDX on AMD. */
#define AMD_ALIASES 0x0183f3ffu

#define LAPIC_CLOCK_HZ 1000000000u

struct out {
	struct kvm_cpuid_entry2 *e;
	unsigned n, max;
	u32 ecx_1; /* of leaf 1, once it is put */
	bool amd;
};

static void host(u32 leaf, u32 sub, u32 r[4])
{
	__cpuid_count(leaf, sub, r[0], r[1], r[2], r[3]);
}

static void put(struct out *o, u32 leaf, u32 sub, bool indexed, const u32 r[4])
{
	if (o->n < o->max)
		o->e[o->n] = (struct kvm_cpuid_entry2){
			.function = leaf,
			.index = sub,
			.flags = indexed ? KVM_CPUID_FLAG_SIGNIFCANT_INDEX : 0,
			.eax = r[0],
			.ebx = r[1],
			.ecx = r[2],
			.edx = r[3],
		};
	o->n++;
}

static void leaf_0(struct out *o, const struct cpuid_offer *offer)
{
	int vendor = offer->vendor;
	u32 r[4];

	host(0, 0, r);
	if (vendor == VENDOR_INTEL) {
		r[1] = 0x756e6547; /* GenuineIntel */
		r[3] = 0x49656e69;
		r[2] = 0x6c65746e;
	} else if (vendor == VENDOR_AMD) {
		r[1] = 0x68747541; /* AuthenticAMD */
		r[3] = 0x69746e65;
		r[2] = 0x444d4163;
	}
	o->amd = r[1] == 0x68747541 || r[1] == 0x6f677948;
	r[0] = o->amd || !offer->tsc_khz ? 0xd : 0x16;
	put(o, 0, 0, false, r);
}

/* A processor of the maker that the host's is not of: EPYC 7001; Sapphire Rapids,
 * for which guests know few errata. */
static u32 other_signature(const struct out *o)
{
	return o->amd ? 0x00800f12 : 0x000806f8;
}

static void leaf_1(struct out *o, bool host_amd)
{
	const struct hostcpu *h = hostcpu();
	u32 r[4];

	host(1, 0, r);
	if (o->amd != host_amd)
		r[0] = other_signature(o);
	r[1] = (r[1] & 0xff00) | 1u << 16; /* CLFLUSH size; one processor; id 0 */
	r[2] = ANY_1_ECX | (h->xsave ? F(XSAVE) : 0) | (h->rdrand ? F(RDRAND) : 0) |
	       IF_HOST(CX16) | IF_HOST(SSE3) | IF_HOST(PCLMUL) | IF_HOST(SSSE3) |
	       IF_HOST(SSE41) | IF_HOST(SSE42) | IF_HOST(AES) | IF_HOST(AVX) |
	       IF_HOST(FMA) | IF_HOST(F16C);
	r[3] = ANY_1_EDX;
	o->ecx_1 = r[2];
	put(o, 1, 0, false, r);
}

static void leaf_7(struct out *o)
{
	u32 r[4], h[4];

	host(7, 0, h);
	r[0] = o->amd ? 0 : 2;
	r[1] = ANY_7_EBX | (hostcpu()->rdseed ? F(RDSEED) : 0) |
	       (h[1] & (F(CLFLUSHOPT) | F(CLWB))) | IF_HOST(SHA) | IF_HOST(AVX2) |
	       (o->amd ? 0 : F(FDP_EXCPTN_ONLY) | F(ZERO_FCS_FDS));
	r[2] = ANY_7_ECX | IF_HOST(GFNI) | IF_HOST(VAES) | IF_HOST(VPCLMUL);
	/* ARCH_CAPABILITIES says that no mitigation is needed; its IBRS_ALL bit
	 * implies SPEC_CTRL. */
	r[3] = (hostcpu()->fsrm ? F(FSRM) : 0) | F(ARCH_CAPS) | F(SPEC_CTRL);
	put(o, 7, 0, true, r);
	if (o->amd)
		return;
	/* BHI_CTRL: without it Linux clears the history of branches in a loop at
	 * every system call, even where ARCH_CAPABILITIES has BHI_NO. */
	put(o, 7, 1, true, (u32[4]){ 0, 0, 0, 0 });
	put(o, 7, 2, true, (u32[4]){ 0, 0, 0, BIT(4) });
}

/* XSAVE: the host's standard layout.  Component 2 goes with the AVX bit. */
static void leaf_d(struct out *o)
{
	const struct hostcpu *h = hostcpu();
	u32 xcr0 = (u32)fp_supported_xcr0(), size, one, r[4];

	if (!h->xsave)
		return;
	if (!(o->ecx_1 & F(AVX)))
		xcr0 &= ~(u32)XFEATURE_AVX;
	size = fp_xsave_size(xcr0);
	put(o, 0xd, 0, true, (u32[4]){ xcr0, size, size, 0 });
	one = (h->xsaveopt ? F(XSAVEOPT) : 0) | (h->xsavec ? F(XSAVEC) : 0) |
	      (h->xgetbv1 ? F(XGETBV1) : 0) | (h->xsaves ? F(XSAVES) : 0);
	put(o, 0xd, 1, true, (u32[4]){ one, h->xsavec || h->xsaves ? size : 0, 0, 0 });
	if (!(xcr0 & XFEATURE_AVX))
		return;
	host(0xd, 2, r);
	put(o, 0xd, 2, true, r);
}

static void kvm_leaves(struct out *o, u32 pv)
{
	put(o, 0x40000000, 0, false, (u32[4]){ 0x40000001, 0x4b4d564b, 0x564b4d56, 0x4d });
	put(o, 0x40000001, 0, false, (u32[4]){ pv, 0, 0, 0 });
}

static void leaf_81(struct out *o)
{
	u32 r[4], h[4];

	host(0x80000001, 0, h);
	r[0] = !o->amd ? 0 : hostcpu()->amd ? h[0] : other_signature(o);
	r[1] = 0;
	r[2] = ANY_81_ECX | (o->amd ? BIT(4) /* CR8 by LOCK MOV CR0 */ : 0);
	r[3] = ANY_81_EDX | (o->amd ? (ANY_1_EDX & AMD_ALIASES) | F(FFXSR) : 0);
	put(o, 0x80000001, 0, false, r);
}

/* The host's name, unless the guest's processor is another maker's. */
static void brand(struct out *o, u32 tsc_khz)
{
	char text[64] = "";
	u32 r[4], mhz = tsc_khz / 1000;

	host(0x80000000, 0, r);
	bool ours = o->amd != hostcpu()->amd || r[0] < 0x80000004;

	snprintf(text, sizeof(text), "Locum software processor @ %u.%02uGHz", mhz / 1000,
		 mhz % 1000 / 10);
	for (u32 leaf = 0x80000002; leaf <= 0x80000004; leaf++) {
		if (ours)
			memcpy(r, text + (leaf - 0x80000002) * 16, 16);
		else
			host(leaf, 0, r);
		put(o, leaf, 0, false, r);
	}
}

static void address_sizes(struct out *o)
{
	u32 h[4];

	host(0x80000008, 0, h);
	u32 phys = h[0] & 0xff;

	put(o, 0x80000008, 0, false,
	    (u32[4]){ (phys > 48 ? 48 : phys < 36 ? 36 : phys) | 48u << 8,
		      o->amd && hostcpu()->xsaveerptr ? F(XSAVEERPTR) : 0, 0, 0 });
}

/* One cache a subleaf, then one of zeros. */
static void cache_leaf(struct out *o, u32 leaf, const struct host_caches *caches)
{
	static const u32 none[4];

	for (unsigned n = 0; n < caches->n; n++)
		put(o, leaf, n, true, caches->reg[n]);
	put(o, leaf, caches->n, true, none);
}

/* 80000005 and 80000006: caches, and on AMD TLBs, the host's where it is one. */
static void cache_sizes(struct out *o, const struct host_caches *caches)
{
	u32 l1[4] = { 0 }, l2[4], h[4];

	if (o->amd)
		cpuid_cache_l1(caches, l1);
	cpuid_cache_l2(caches, o->amd, l2);
	if (o->amd && hostcpu()->amd) {
		host(0x80000005, 0, h);
		memcpy(l1, h, 8);
		host(0x80000006, 0, h);
		memcpy(l2, h, 8);
	}
	put(o, 0x80000005, 0, false, l1);
	put(o, 0x80000006, 0, false, l2);
}

static void extended(struct out *o, const struct cpuid_offer *offer,
		     const struct host_caches *caches)
{
	static const u32 none[4];
	u32 max[4] = { o->amd ? 0x80000021 : 0x80000008, 0, 0, 0 };

	put(o, 0x80000000, 0, false, max);
	leaf_81(o);
	brand(o, offer->tsc_khz);
	cache_sizes(o, caches);
	put(o, 0x80000007, 0, false, (u32[4]){ 0, 0, 0, offer->tsc_stable ? F(INVTSC) : 0 });
	address_sizes(o);
	if (!o->amd)
		return;
	cache_leaf(o, 0x8000001d, caches);
	put(o, 0x8000001e, 0, false, none);
	/* No nested data breakpoints, LFENCE serialises, a null selector clears the
	 * base. */
	put(o, 0x80000021, 0, false, (u32[4]){ BIT(0) | BIT(2) | BIT(6), 0, 0, 0 });
}

/* Leaves 0x15 and 0x16 of Intel: the counter's rate, in terms of a crystal that
 * is the LAPIC timer's clock too (1 GHz, as KVM's), and the processor's. */
static void frequencies(struct out *o, u32 tsc_khz)
{
	if (o->amd || !tsc_khz)
		return;
	put(o, 0x15, 0, false, (u32[4]){ 1000000, tsc_khz, LAPIC_CLOCK_HZ, 0 });
	put(o, 0x16, 0, false, (u32[4]){ tsc_khz / 1000, tsc_khz / 1000, 100, 0 });
}

unsigned cpuid_supported(const struct cpuid_offer *offer, struct kvm_cpuid_entry2 *out,
			 unsigned max)
{
	struct out o = { .e = out, .max = max };
	bool host_amd = hostcpu()->amd;
	struct host_caches caches;

	cpuid_host_caches(&caches);
	leaf_0(&o, offer);
	leaf_1(&o, host_amd);
	if (!o.amd) {
		/* Prefetching of 64 bytes; caches: leaf 4. */
		put(&o, 2, 0, false, (u32[4]){ 0x00f0ff01, 0, 0, 0 });
		cache_leaf(&o, 4, &caches);
	}
	put(&o, 6, 0, false, (u32[4]){ BIT(2) /* ARAT */, 0, 0, 0 });
	leaf_7(&o);
	put(&o, 0xa, 0, false, (u32[4]){ 0 });
	/* Topology: the levels, which the client fills in. */
	put(&o, 0xb, 0, true, (u32[4]){ 0, 0, 1 << 8, 0 });
	put(&o, 0xb, 1, true, (u32[4]){ 0, 0, 1 | 2 << 8, 0 });
	leaf_d(&o);
	frequencies(&o, offer->tsc_khz);
	kvm_leaves(&o, offer->pv_features);
	extended(&o, offer, &caches);
	return o.n;
}
