/* SPDX-License-Identifier: MIT */
/*
 * KVM_GET_SUPPORTED_CPUID: the host's table, filtered to what is executed.
 *
 * At most 80 entries (clients' buffers), the host's own XSAVE layout (clients
 * compute offsets from the host's leaf 0xD).
 */
#include <cpuid.h>
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/fp.h"
#include "cpu/hostcpu.h"

#define F(name) BIT(CPUID_##name % 32)

/* Executed for any host: nothing of the host's own is needed. */
#define ANY_1_ECX  (F(PCID) | F(X2APIC) | F(MOVBE) | F(POPCNT) | F(TSC_DEADLINE) | F(HYPERVISOR))
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

static void leaf_0(struct out *o, int vendor)
{
	u32 r[4];

	host(0, 0, r);
	r[0] = 0xd;
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
	put(o, 0, 0, false, r);
}

static void leaf_1(struct out *o, bool host_amd)
{
	const struct hostcpu *h = hostcpu();
	u32 r[4];

	host(1, 0, r);
	if (o->amd != host_amd)
		r[0] = o->amd ? 0x00800f12 : 0x000506e3; /* EPYC 7001, Skylake */
	r[1] = (r[1] & 0xff00) | 1u << 16; /* CLFLUSH size; one processor; id 0 */
	r[2] = ANY_1_ECX | (h->cx16 ? F(CX16) : 0) | (h->xsave ? F(XSAVE) : 0) | (h->rdrand ? F(RDRAND) : 0);
	r[3] = ANY_1_EDX;
	o->ecx_1 = r[2];
	put(o, 1, 0, false, r);
}

static void leaf_7(struct out *o)
{
	u32 r[4], h[4];

	host(7, 0, h);
	r[0] = 0;
	r[1] = ANY_7_EBX | (hostcpu()->rdseed ? F(RDSEED) : 0) |
	       (h[1] & (F(CLFLUSHOPT) | F(CLWB)));
	r[2] = ANY_7_ECX;
	/* ARCH_CAPABILITIES says that no mitigation is needed; its IBRS_ALL bit
	 * implies SPEC_CTRL. */
	r[3] = (hostcpu()->fsrm ? F(FSRM) : 0) | F(ARCH_CAPS) | F(SPEC_CTRL);
	put(o, 7, 0, true, r);
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
	r[0] = o->amd ? h[0] : 0;
	r[1] = 0;
	r[2] = ANY_81_ECX | (o->amd ? BIT(4) /* CR8 by LOCK MOV CR0 */ : 0);
	r[3] = ANY_81_EDX | (o->amd ? (ANY_1_EDX & AMD_ALIASES) | F(FFXSR) : 0);
	put(o, 0x80000001, 0, false, r);
}

static void brand(struct out *o)
{
	static const char text[48] = "Locum software processor @ 1.00GHz";
	u32 r[4], first[4];

	host(0x80000000, 0, first);
	for (u32 leaf = 0x80000002; leaf <= 0x80000004; leaf++) {
		if (first[0] >= 0x80000004)
			host(leaf, 0, r);
		else
			memcpy(r, text + (leaf - 0x80000002) * 16, 16);
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
		      hostcpu()->xsaveerptr ? F(XSAVEERPTR) : 0, 0, 0 });
}

static void extended(struct out *o, const struct cpuid_offer *offer)
{
	static const u32 none[4];
	u32 h[4], max[4] = { o->amd ? 0x80000021 : 0x80000008, 0, 0, 0 };

	put(o, 0x80000000, 0, false, max);
	leaf_81(o);
	brand(o);
	host(0x80000005, 0, h);
	put(o, 0x80000005, 0, false, o->amd ? h : none);
	host(0x80000006, 0, h);
	put(o, 0x80000006, 0, false, h);
	put(o, 0x80000007, 0, false, (u32[4]){ 0, 0, 0, offer->tsc_stable ? F(INVTSC) : 0 });
	address_sizes(o);
	if (!o->amd)
		return;
	for (u32 sub = 0; sub < 5; sub++) {
		host(0x8000001d, sub, h);
		put(o, 0x8000001d, sub, true, h);
		if (!(h[0] & 31))
			break;
	}
	put(o, 0x8000001e, 0, false, none);
	put(o, 0x80000021, 0, false, (u32[4]){ BIT(0) | BIT(6), 0, 0, 0 });
}

/* Deterministic cache parameters, where the host is an Intel too. */
static void leaf_4(struct out *o, bool host_amd)
{
	u32 r[4];

	for (u32 sub = 0; sub < 8 && !host_amd && !o->amd; sub++) {
		host(4, sub, r);
		r[0] &= 0x3fff; /* sharing: one processor */
		put(o, 4, sub, true, r);
		if (!(r[0] & 31))
			return;
	}
}

unsigned cpuid_supported(const struct cpuid_offer *offer, struct kvm_cpuid_entry2 *out,
			 unsigned max)
{
	struct out o = { .e = out, .max = max };
	bool host_amd = hostcpu()->amd;

	leaf_0(&o, offer->vendor);
	leaf_1(&o, host_amd);
	if (!o.amd)
		put(&o, 2, 0, false, (u32[4]){ 0x00feff01, 0, 0, 0 });
	leaf_4(&o, host_amd);
	put(&o, 6, 0, false, (u32[4]){ BIT(2) /* ARAT */, 0, 0, 0 });
	leaf_7(&o);
	put(&o, 0xa, 0, false, (u32[4]){ 0 });
	/* Topology: the levels, which the client fills in. */
	put(&o, 0xb, 0, true, (u32[4]){ 0, 0, 1 << 8, 0 });
	put(&o, 0xb, 1, true, (u32[4]){ 0, 0, 1 | 2 << 8, 0 });
	leaf_d(&o);
	kvm_leaves(&o, offer->pv_features);
	extended(&o, offer);
	return o.n;
}
