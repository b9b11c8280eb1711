/* SPDX-License-Identifier: MIT */
/* CPUID: what is offered on this host and with each vendor, the client's table,
 * lookup rules, what follows from state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cpuid.h>
#include <errno.h>

#include "cpu/hostcpu.h"
#include "cpu/msr.h"
#include "unit/cpu/sysmachine.h"

static struct kvm_cpuid_entry2 e[256];

static unsigned offered(int vendor, bool stable)
{
	const struct cpuid_offer o = { .vendor = vendor, .pv_features = 0x1000009,
				       .tsc_stable = stable };
	unsigned n = cpuid_supported(&o, e, 256);

	assert_in_range(n, 10, 80);
	return n;
}

static const struct kvm_cpuid_entry2 *entry(unsigned n, u32 leaf, u32 sub)
{
	for (unsigned i = 0; i < n; i++)
		if (e[i].function == leaf && e[i].index == sub)
			return &e[i];
	return NULL;
}

/* --- what is offered ------------------------------------------------------------------ */

static const int vendors[] = { -1, VENDOR_INTEL, VENDOR_AMD };

static void shape(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 3; k++) {
		unsigned n = offered(vendors[k], true);
		u32 top = entry(n, 0, 0)->eax, ext = entry(n, 0x80000000, 0)->eax;

		for (unsigned i = 0; i < n; i++) {
			u32 f = e[i].function;
			bool indexed = f == 4 || f == 7 || f == 0xb || f == 0xd || f == 0x8000001d;

			/* No leaf beyond what the ranges say, none twice. */
			if (!(f <= top || (f >= 0x40000000 && f <= 0x40000001) ||
			      (f >= 0x80000000 && f <= ext)))
				fail_msg("leaf %#x is beyond its range", f);
			if (!!(e[i].flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) != indexed)
				fail_msg("leaf %#x: flags %#x", f, e[i].flags);
			for (unsigned j = 0; j < i; j++)
				assert_false(e[j].function == f && e[j].index == e[i].index);
		}
		/* Leaves that clients insist on. */
		assert_non_null(entry(n, 1, 0));
		assert_non_null(entry(n, 7, 0));
		assert_non_null(entry(n, 0x80000001, 0));
		assert_non_null(entry(n, 0x80000005, 0));
		assert_non_null(entry(n, 0x80000006, 0));
		assert_non_null(entry(n, 0x80000008, 0));
		assert_int_equal(entry(n, 0xa, 0)->eax, 0); /* no counters */
		assert_non_null(entry(n, 6, 0));
	}
}

/* What Firecracker's templates look up, by vendor; a missing one is its error. */
static void firecracker_leaves(void **state)
{
	static const struct {
		int vendor;
		u32 leaf;
	} rows[] = {
		{ VENDOR_INTEL, 0 },	      { VENDOR_INTEL, 1 },	    { VENDOR_INTEL, 4 },
		{ VENDOR_INTEL, 6 },	      { VENDOR_INTEL, 7 },	    { VENDOR_INTEL, 0xa },
		{ VENDOR_INTEL, 0xb },	      { VENDOR_INTEL, 0x80000005 }, { VENDOR_INTEL, 0x80000006 },
		{ VENDOR_AMD, 0 },	      { VENDOR_AMD, 1 },	    { VENDOR_AMD, 7 },
		{ VENDOR_AMD, 0x80000000 },   { VENDOR_AMD, 0x80000001 },   { VENDOR_AMD, 0x80000002 },
		{ VENDOR_AMD, 0x80000003 },   { VENDOR_AMD, 0x80000004 },   { VENDOR_AMD, 0x80000005 },
		{ VENDOR_AMD, 0x80000006 },   { VENDOR_AMD, 0x80000008 },   { VENDOR_AMD, 0x8000001d },
		{ VENDOR_AMD, 0x8000001e },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (!entry(offered(rows[i].vendor, true), rows[i].leaf, 0))
			fail_msg("vendor %d: no leaf %#x", rows[i].vendor, rows[i].leaf);
}

/* Bytes of the cache that an entry of leaf 4 or 8000001D describes. */
static u32 cache_bytes(const struct kvm_cpuid_entry2 *k)
{
	return ((k->ebx >> 22) + 1) * ((k->ebx >> 12 & 0x3ff) + 1) * ((k->ebx & 0xfff) + 1) *
	       (k->ecx + 1);
}

/* The same caches in either maker's words: one each of level 1, closed by a
 * subleaf of zeros, shared by nobody; sizes in 80000005 and 80000006 agree. */
static void caches(void **state)
{
	u32 seen[2][4] = { { 0 } };

	(void)state;
	for (int vendor = VENDOR_INTEL; vendor <= VENDOR_AMD; vendor++) {
		unsigned n = offered(vendor, true), sub;
		u32 leaf = vendor == VENDOR_AMD ? 0x8000001d : 4, l1 = 0, l2 = 0, l3 = 0;
		const struct kvm_cpuid_entry2 *k;

		assert_null(entry(n, vendor == VENDOR_AMD ? 4 : 0x8000001d, 0));
		for (sub = 0; (k = entry(n, leaf, sub)) && (k->eax & 31); sub++) {
			u32 level = k->eax >> 5 & 7;

			assert_in_range(level, 1, 4);
			assert_int_equal(k->eax >> 14, 0);
			if (level == 1 && (k->eax & 31) == 1)
				l1 = cache_bytes(k);
			else if (level == 2)
				l2 = cache_bytes(k);
			else if (level == 3)
				l3 = cache_bytes(k);
			seen[vendor == VENDOR_AMD][sub] = cache_bytes(k);
		}
		assert_non_null(k);
		assert_in_range(sub, 2, 4);
		assert_in_range(l1, 8 << 10, 1 << 20);
		k = entry(n, 0x80000006, 0);
		assert_int_equal(k->ecx >> 16, l2 >> 10);
		assert_int_equal(k->ecx & 0xff, 64);
		if (vendor == VENDOR_AMD) {
			assert_int_equal(entry(n, 0x80000005, 0)->ecx >> 24, l1 >> 10);
			assert_int_equal(k->edx >> 18, l3 >> 19);
			/* 9 would refer to 8000001D, which needs a feature bit that
			 * is not offered. */
			assert_int_not_equal(k->edx >> 12 & 15, 9);
		} else {
			assert_int_equal(entry(n, 0x80000005, 0)->ecx | k->edx | k->eax, 0);
		}
	}
	assert_memory_equal(seen[0], seen[1], sizeof(seen[0]));
}

/* Another maker's processor is not called by the host's name; Intel's tells the
 * counter's rate. */
static void other_maker(void **state)
{
	const struct hostcpu *h = hostcpu();

	(void)state;
	for (int vendor = VENDOR_INTEL; vendor <= VENDOR_AMD; vendor++) {
		const struct cpuid_offer o = { .vendor = vendor, .tsc_khz = 2596123 };
		unsigned n = cpuid_supported(&o, e, 256);
		char name[49] = "";

		for (u32 k = 0; k < 3; k++)
			memcpy(name + 16 * k, &entry(n, 0x80000002 + k, 0)->eax, 16);
		if ((vendor == VENDOR_AMD) != h->amd)
			assert_string_equal(name, "Locum software processor @ 2.59GHz");
		assert_int_equal(entry(n, 0, 0)->eax, vendor == VENDOR_AMD ? 0xd : 0x16);
		assert_int_equal(!!entry(n, 0x15, 0), vendor == VENDOR_INTEL);
		if (vendor == VENDOR_AMD) {
			assert_int_equal(entry(n, 0x80000001, 0)->eax, entry(n, 1, 0)->eax);
			continue;
		}
		const struct kvm_cpuid_entry2 *k = entry(n, 0x15, 0);

		assert_int_equal((u64)k->ecx * k->ebx / k->eax, 2596123000ull);
		assert_int_equal(entry(n, 0x16, 0)->eax, 2596);
		assert_int_equal(entry(n, 0x80000008, 0)->ebx, 0);
	}
}

/* What the vendor and the signature decide elsewhere. */
static void table_reaches_registers(void **state)
{
	struct kvm_cpuid_entry2 t[2] = { { .function = 0 },
					 { .function = 1, .eax = 0x12345 } };
	u64 value;

	(void)state;
	again();
	for (unsigned k = 0; k < 4; k++) {
		memcpy(&t[0].ebx, k & 1 ? "Auth" : "Genu", 4);
		assert_int_equal(cpuid_set(c, t, 2), 0);
		assert_int_equal(cpu_msr_read(c, 0x8b, &value, false), CPU_MSR_OK);
		assert_int_equal(value, k & 1 ? 0x01000065 : 0x100000000);
	}
	assert_int_equal(cpu_msr_write(c, 0x8b, 77, true), CPU_MSR_OK); /* the client's stays */
	assert_int_equal(cpuid_set(c, t, 1), 0);
	cpu_reset(c, true);
	assert_int_equal(c->gpr[R_RDX], 0x600);
	assert_int_equal(cpuid_set(c, t, 2), 0);
	assert_int_equal(cpu_msr_read(c, 0x8b, &value, false), CPU_MSR_OK);
	assert_int_equal(value, 77);
	cpu_reset(c, true);
	assert_int_equal(c->gpr[R_RDX], 0x12345);
}

static void vendor_strings(void **state)
{
	static const char *const names[] = { [VENDOR_INTEL] = "GenuineIntel",
					     [VENDOR_AMD] = "AuthenticAMD" };

	(void)state;
	for (int vendor = VENDOR_INTEL; vendor <= VENDOR_AMD; vendor++) {
		unsigned n = offered(vendor, true);
		const struct kvm_cpuid_entry2 *z = entry(n, 0, 0);
		u32 name[3] = { z->ebx, z->edx, z->ecx };

		assert_memory_equal(name, names[vendor], 12);
		assert_int_equal(cpuid_set(c, e, n), 0);
		assert_int_equal(c->vendor, vendor);
		/* Leaves of one maker alone. */
		assert_int_equal(!!entry(n, 0x8000001e, 0), vendor == VENDOR_AMD);
		assert_int_equal(!!entry(n, 2, 0), vendor == VENDOR_INTEL);
	}
}

/* Each feature bit: must be there, may be (the host decides), must not be. */
static void features(void **state)
{
	static const struct {
		const char *name;
		u32 leaf;
		u8 reg;
		u32 must, may;
	} rows[] = {
		/* PCID x2APIC MOVBE POPCNT TSC-deadline HYPERVISOR; CX16 XSAVE RDRAND,
		 * SSE3 PCLMUL SSSE3 FMA SSE4.1 SSE4.2 AES AVX F16C */
		{ "1.ECX", 1, 2, BIT(17) | BIT(21) | BIT(22) | BIT(23) | BIT(31),
		  BIT(13) | BIT(26) | BIT(30) | BIT(0) | BIT(1) | BIT(9) | BIT(12) | BIT(19) |
			  BIT(20) | BIT(25) | BIT(28) | BIT(29) },
		/* all to SSE2 but VME, PSN, DS, ACPI, SS, HTT, TM, PBE */
		{ "1.EDX", 1, 3, 0x078bfbfd, 0 },
		/* FSGSBASE TSC_ADJUST BMI1 SMEP BMI2 ERMS INVPCID ADX SMAP; RDSEED CLFLUSHOPT CLWB
		 * AVX2 SHA; FDP_EXCPTN_ONLY and ZERO_FCS_FDS (Intel, below) */
		{ "7.EBX", 7, 1, BIT(0) | BIT(1) | BIT(3) | BIT(7) | BIT(8) | BIT(9) | BIT(10) |
					 BIT(19) | BIT(20), BIT(18) | BIT(23) | BIT(24) | BIT(5) | BIT(29) |
					 BIT(6) | BIT(13) },
		/* UMIP RDPID; GFNI VAES VPCLMULQDQ: no PKU, LA57, CET */
		{ "7.ECX", 7, 2, BIT(2) | BIT(22), BIT(8) | BIT(9) | BIT(10) },
		{ "7.EDX", 7, 3, BIT(26) | BIT(29), BIT(4) }, /* SPEC_CTRL ARCH_CAPS; FSRM */
		/* LAHF LZCNT PREFETCHW; CR8 by LOCK (AMD) */
		{ "80000001.ECX", 0x80000001, 2, BIT(0) | BIT(5) | BIT(8), BIT(4) },
		{ "80000008.EBX", 0x80000008, 1, 0, BIT(2) },
	};

	(void)state;
	for (unsigned k = 0; k < 3; k++) {
		unsigned n = offered(vendors[k], true);

		for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
			u32 r = (&entry(n, rows[i].leaf, 0)->eax)[rows[i].reg];

			if ((r & rows[i].must) != rows[i].must)
				fail_msg("%s lacks %#x", rows[i].name, rows[i].must & ~r);
			if (r & ~(rows[i].must | rows[i].may))
				fail_msg("%s has %#x", rows[i].name, r & ~(rows[i].must | rows[i].may));
		}
		/* SYSCALL NX 1G RDTSCP LM, and on AMD the copies of 1.EDX. */
		u32 d = entry(n, 0x80000001, 0)->edx, own = 0x2c100800;
		bool amd = !!entry(n, 0x8000001e, 0);

		assert_int_equal(d & own, own);
		/* x87 pointers: each maker keeps them in its way. */
		assert_int_equal(entry(n, 7, 0)->ebx & (BIT(6) | BIT(13)),
				 amd ? 0 : BIT(6) | BIT(13));
		/* ... and FFXSR */
		assert_int_equal(d & ~own, amd ? (0x078bfbfd & 0x0183f3ff) | BIT(25) : 0);
	}
	/* From the host, never more than it has. */
	unsigned n = offered(-1, true), a, b, cx, dx;

	__cpuid(1, a, b, cx, dx);
	assert_int_equal(entry(n, 1, 0)->ecx & (BIT(30) | BIT(26)) & ~cx, 0);
	assert_int_equal(entry(n, 1, 0)->edx & BIT(26) & ~dx, 0);
}

/* INVTSC only with a TSC that can be passed on. */
static void invariant_tsc(void **state)
{
	(void)state;
	for (int stable = 0; stable < 2; stable++)
		assert_int_equal(entry(offered(-1, stable), 0x80000007, 0)->edx, stable ? BIT(8) : 0);
}

static void kvm_leaves(void **state)
{
	unsigned n = offered(-1, true);
	const struct kvm_cpuid_entry2 *k = entry(n, 0x40000000, 0);

	(void)state;
	assert_int_equal(k->eax, 0x40000001);
	assert_memory_equal(&k->ebx, "KVMKVMKVM\0\0\0", 12);
	assert_int_equal(entry(n, 0x40000001, 0)->eax, 0x1000009);
}

/* Leaf 0xD: the host's own layout, for what is offered of it. */
static void xsave_layout(void **state)
{
	unsigned n = offered(-1, true), a, b, cx, dx;
	const struct kvm_cpuid_entry2 *d = entry(n, 0xd, 0);

	(void)state;
	if (!hostcpu()->xsave) {
		assert_null(d);
		return;
	}
	__cpuid_count(0xd, 0, a, b, cx, dx);
	assert_int_equal(d->eax & ~a, 0);
	assert_int_equal(d->edx, 0);
	assert_int_equal(d->eax & 3, 3);
	assert_true(d->ecx <= cx && d->ecx <= 4096);
	u32 size = 576;

	for (unsigned i = 2; i < 32; i++) {
		const struct kvm_cpuid_entry2 *s = entry(n, 0xd, i);

		assert_int_equal(!!s, d->eax >> i & 1);
		if (!s)
			continue;
		__cpuid_count(0xd, i, a, b, cx, dx);
		assert_int_equal(s->eax, a);
		assert_int_equal(s->ebx, b);
		size = MAX(size, a + b);
	}
	assert_int_equal(d->ecx, size);
	__cpuid_count(0xd, 1, a, b, cx, dx);
	assert_int_equal(entry(n, 0xd, 1)->eax & ~a, 0);
}

/* Short of room: counted, nothing written beyond. */
static void little_room(void **state)
{
	const struct cpuid_offer o = { .vendor = -1 };
	unsigned n = cpuid_supported(&o, e, 256);

	(void)state;
	memset(e, 0x55, sizeof(e));
	assert_int_equal(cpuid_supported(&o, e, 3), n);
	assert_int_equal(e[3].function, 0x55555555);
	assert_int_equal(cpuid_supported(&o, NULL, 0), n);
}

/* --- the client's table -------------------------------------------------------------------- */

static void table_limits(void **state)
{
	static struct kvm_cpuid_entry2 many[257];

	(void)state;
	for (u32 i = 0; i < 257; i++)
		many[i] = (struct kvm_cpuid_entry2){ .function = i, .eax = i };
	assert_int_equal(cpuid_set(c, many, 257), -E2BIG);
	assert_int_equal(cpuid_set(c, many, 256), 0);
	assert_int_equal(cpuid_set(c, many, 0), 0);
	/* Tile data needs the kernel's permission, which is not had. */
	for (u32 bit = 0; bit < 32; bit++) {
		struct kvm_cpuid_entry2 d = { .function = 0xd, .flags = 1, .eax = BIT(bit) };

		assert_int_equal(cpuid_set(c, &d, 1), bit == 18 ? -EPERM : 0);
		d.index = 1;
		assert_int_equal(cpuid_set(c, &d, 1), 0);
	}
	/* The width of virtual addresses: 48, 57 or none given. */
	for (u32 bits = 0; bits < 64; bits++) {
		struct kvm_cpuid_entry2 w = { .function = 0x80000008, .eax = bits << 8 | 40 };
		bool ok = bits == 0 || bits == 48 || bits == 57;

		assert_int_equal(cpuid_set(c, &w, 1), ok ? 0 : -EINVAL);
	}
}

static void address_width(void **state)
{
	static const struct {
		u32 max, eax;
		u8 want;
	} rows[] = {
		{ 0x80000008, 40, 40 }, { 0x80000008, 52, 52 }, { 0x80000008, 60, 52 },
		{ 0x80000008, 20, 32 }, { 0x80000004, 40, 36 }, { 0, 40, 36 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct kvm_cpuid_entry2 t[] = {
			{ .function = 0x80000000, .eax = rows[i].max },
			{ .function = 0x80000008, .eax = rows[i].eax },
		};

		assert_int_equal(cpuid_set(c, t, 2), 0);
		assert_int_equal(c->mmu.maxphyaddr, rows[i].want);
	}
}

/* --- lookup ---------------------------------------------------------------------------------- */

static void query(u32 leaf, u32 sub, u32 reg[4])
{
	cpuid_query(c, leaf, sub, reg);
}

static void significant_index(void **state)
{
	static const struct kvm_cpuid_entry2 t[] = {
		{ .function = 0, .eax = 0xd },
		{ .function = 2, .index = 7, .eax = 0x222 },
		{ .function = 4, .index = 0, .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX, .eax = 0x40 },
		{ .function = 4, .index = 1, .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX, .eax = 0x41 },
	};
	u32 reg[4];

	(void)state;
	assert_int_equal(cpuid_set(c, t, 4), 0);
	query(2, 99, reg); /* the index does not count */
	assert_int_equal(reg[0], 0x222);
	query(4, 1, reg);
	assert_int_equal(reg[0], 0x41);
	query(4, 2, reg);
	assert_int_equal(reg[0], 0);
}

/* A leaf beyond its range: Intel answers with the highest basic leaf, AMD with 0. */
static void beyond_the_range(void **state)
{
	static const struct {
		const char *name;
		u32 leaf;
		bool redirected;
	} rows[] = {
		{ "basic", 0x77, true },
		{ "inside the basic range, absent", 3, false },
		{ "extended", 0x80000099, true },
		{ "inside the extended range, absent", 0x80000003, false },
		{ "hypervisor", 0x40000055, true },
		{ "inside the hypervisor range", 0x40000001, false },
		{ "another hypervisor", 0x40000100, true },
		{ "Centaur's", 0xc0000001, true },
	};

	(void)state;
	for (int amd = 0; amd < 2; amd++) {
		struct kvm_cpuid_entry2 t[] = {
			{ .function = 0, .eax = 5, .ebx = amd ? 0x68747541 : 0x756e6547 },
			{ .function = 5, .eax = 0x5555 },
			{ .function = 0x40000000, .eax = 0x40000001 },
			{ .function = 0x80000000, .eax = 0x80000008 },
		};

		assert_int_equal(cpuid_set(c, t, ARRAY_SIZE(t)), 0);
		for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
			u32 reg[4];

			query(rows[i].leaf, 0, reg);
			if (reg[0] != (rows[i].redirected && !amd ? 0x5555u : 0))
				fail_msg("%s: %#x", rows[i].name, reg[0]);
		}
	}
}

/* A topology level that is not there: its number and the x2APIC ID all the same. */
static void absent_topology_level(void **state)
{
	static const struct kvm_cpuid_entry2 t[] = {
		{ .function = 0, .eax = 0xd, .ebx = 0x68747541 },
		{ .function = 0xb, .index = 0, .flags = 1, .ecx = 0x100, .edx = 3 },
		{ .function = 0xb, .index = 1, .flags = 1, .ecx = 0x201, .edx = 3 },
	};
	u32 reg[4];

	(void)state;
	assert_int_equal(cpuid_set(c, t, 3), 0);
	query(0xb, 0x105, reg);
	assert_int_equal(reg[0] | reg[1], 0);
	assert_int_equal(reg[2], 5);
	assert_int_equal(reg[3], 3);
}

/* --- what follows from state ------------------------------------------------------------------- */

static void dynamic_bits(void **state)
{
	unsigned n = offered(-1, true);
	u32 reg[4];

	(void)state;
	assert_int_equal(cpuid_set(c, e, n), 0);
	for (int on = 0; on < 2 && hostcpu()->xsave; on++) {
		mmu_set_cr4(&c->mmu, CR4_PAE | (on ? CR4_OSXSAVE : 0));
		query(1, 0, reg);
		assert_int_equal(reg[2] >> 27 & 1, on);
	}
	query(1, 0, reg);
	assert_int_equal(reg[3] >> 9 & 1, 1); /* the APIC base of the machine is enabled */
	/* Size of the XSAVE area by XCR0, here with a client's third component. */
	struct kvm_cpuid_entry2 t[] = {
		{ .function = 1, .ecx = BIT(26) },
		{ .function = 0xd, .index = 0, .flags = 1, .eax = 7, .ebx = 99, .ecx = 832 },
		{ .function = 0xd, .index = 2, .flags = 1, .eax = 256, .ebx = 576 },
	};

	assert_int_equal(cpuid_set(c, t, 3), 0);
	for (u64 xcr0 = 1; xcr0 < 8; xcr0 += 2) {
		c->xcr0 = xcr0;
		query(0xd, 0, reg);
		assert_int_equal(reg[1], xcr0 & 4 ? 832 : 576);
	}
	assert_int_equal(c->cpuid->xcr0, hostcpu()->avx ? 7 : 3);
}

/* Features that instructions ask for follow the client's table. */
static void features_gate_instructions(void **state)
{
	static const struct {
		const char *name;
		u8 code[6];
		u32 leaf;
		u8 reg, bit;
	} rows[] = {
		{ "POPCNT", { 0xf3, 0x0f, 0xb8, 0xc1 }, 1, 2, 23 },
		{ "MOVBE", { 0x0f, 0x38, 0xf0, 0x03 }, 1, 2, 22 },
		{ "ANDN", { 0xc4, 0xe2, 0x70, 0xf2, 0xc0 }, 7, 1, 3 },
		{ "RORX", { 0xc4, 0xe3, 0x7b, 0xf0, 0xc1, 0x05 }, 7, 1, 8 },
		{ "ADCX", { 0x66, 0x0f, 0x38, 0xf6, 0xc1 }, 7, 1, 19 },
		{ "RDPID", { 0xf3, 0x0f, 0xc7, 0xf8 }, 7, 2, 22 },
		{ "INVPCID", { 0x66, 0x0f, 0x38, 0x82, 0x03 }, 7, 1, 10 },
		{ "RDTSCP", { 0x0f, 0x01, 0xf9 }, 0x80000001, 3, 27 },
		{ "CLAC", { 0x0f, 0x01, 0xca }, 7, 1, 20 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows) * 2; i++) {
		unsigned k = i / 2, n;
		bool has = i & 1;

		again();
		n = offered(-1, true);
		for (unsigned j = 0; j < n; j++)
			if (e[j].function == rows[k].leaf && e[j].index == 0 && !has)
				(&e[j].eax)[rows[k].reg] &= ~BIT(rows[k].bit);
		assert_int_equal(cpuid_set(c, e, n), 0);
		c->gpr[R_RBX] = M_DATA;
		machine_code(&m, M_CODE, rows[k].code, 6);
		int got = machine_step(v);

		if (got != (has ? M_EVENT : EXC_UD))
			fail_msg("%s %s its feature: %d", rows[k].name, has ? "with" : "without", got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(firecracker_leaves), CASE(caches),		  CASE(other_maker),
		CASE(table_reaches_registers),
		CASE(shape),		  CASE(vendor_strings),	  CASE(features),
		CASE(invariant_tsc),	  CASE(kvm_leaves),	  CASE(xsave_layout),
		CASE(little_room),	  CASE(table_limits),	  CASE(address_width),
		CASE(significant_index),  CASE(beyond_the_range), CASE(absent_topology_level),
		CASE(dynamic_bits),	  CASE(features_gate_instructions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
