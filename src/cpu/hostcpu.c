/* SPDX-License-Identifier: MIT */
/*
 * Host features.  The one file-scope object is a fact about the machine, not
 * about a VM; it is filled once and then read-only but for hostcpu_hide().
 */
#include "cpu/hostcpu.h"

#include <cpuid.h>
#include <pthread.h>
#include <string.h>

#include "decode/decode.h"

static struct hostcpu host;
static pthread_once_t host_once = PTHREAD_ONCE_INIT;

struct leaf {
	u32 a, b, c, d;
};

static struct leaf cpuid_leaf(u32 leaf, u32 sub)
{
	struct leaf l = { 0, 0, 0, 0 };

	__get_cpuid_count(leaf, sub, &l.a, &l.b, &l.c, &l.d);
	return l;
}

static u64 xgetbv0(void)
{
	u32 lo, hi;

	asm volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return ((u64)hi << 32) | lo;
}

static void read_extended(void)
{
	struct leaf l = cpuid_leaf(0x80000001, 0);

	host.lzcnt = l.c & (1u << 5);
	host.rdtscp = l.d & (1u << 27);
	if (cpuid_leaf(0x80000000, 0).a >= 0x80000008)
		host.xsaveerptr = cpuid_leaf(0x80000008, 0).b & (1u << 2);
}

static void read_leaf7(void)
{
	struct leaf l = cpuid_leaf(7, 0);

	host.fsgsbase = l.b & (1u << 0);
	host.bmi1 = l.b & (1u << 3);
	host.avx2 = host.avx && (l.b & (1u << 5));
	host.bmi2 = l.b & (1u << 8);
	host.rdseed = l.b & (1u << 18);
	host.adx = l.b & (1u << 19);
	host.sha = l.b & (1u << 29);
	host.gfni = l.c & (1u << 8);
	host.vaes = host.avx && (l.c & (1u << 9));
	host.vpclmul = host.avx && (l.c & (1u << 10));
	host.rdpid = l.c & (1u << 22);
	host.fsrm = l.d & (1u << 4);
}

static void read_leaf1(void)
{
	struct leaf l = cpuid_leaf(1, 0);
	bool ymm;

	host.sse3 = l.c & 1;
	host.pclmul = l.c & (1u << 1);
	host.ssse3 = l.c & (1u << 9);
	host.cx16 = l.c & (1u << 13);
	host.sse41 = l.c & (1u << 19);
	host.sse42 = l.c & (1u << 20);
	host.movbe = l.c & (1u << 22);
	host.popcnt = l.c & (1u << 23);
	host.aes = l.c & (1u << 25);
	host.rdrand = l.c & (1u << 30);
	host.xsave = l.c & (1u << 27); /* OSXSAVE: enabled by the host's kernel */
	ymm = host.xsave && (xgetbv0() & 6) == 6;
	host.avx = ymm && (l.c & (1u << 28));
	host.fma = host.avx && (l.c & (1u << 12));
	host.f16c = host.avx && (l.c & (1u << 29));
	if (host.xsave) {
		struct leaf x = cpuid_leaf(0xd, 1);

		host.xsaveopt = x.a & 1;
		host.xsavec = x.a & 2;
		host.xgetbv1 = x.a & 4;
		host.xsaves = x.a & 8;
	}
}

static void host_read(void)
{
	struct leaf v = cpuid_leaf(0, 0);
	char name[13] = "";

	memcpy(name, &v.b, 4);
	memcpy(name + 4, &v.d, 4);
	memcpy(name + 8, &v.c, 4);
	host.amd = !strcmp(name, "AuthenticAMD") || !strcmp(name, "HygonGenuine");
	read_leaf1();
	read_leaf7();
	read_extended();
	host.execmem = host.shm = true;
}

const struct hostcpu *hostcpu(void)
{
	pthread_once(&host_once, host_read);
	return &host;
}

bool hostcpu_runs(unsigned feature)
{
	const struct hostcpu *h = hostcpu();
	bool avx = h->xsave && h->avx;

	switch (feature) {
	case FEAT_CX16: return h->cx16;
	case FEAT_SSE3: return h->sse3;
	case FEAT_SSSE3: return h->ssse3;
	case FEAT_SSE41: return h->sse41;
	case FEAT_SSE42: return h->sse42;
	case FEAT_AES: return h->aes;
	case FEAT_PCLMUL: return h->pclmul;
	case FEAT_SHA: return h->sha;
	case FEAT_GFNI: return h->gfni;
	case FEAT_AVX: return avx;
	case FEAT_AVX2: return avx && h->avx2;
	case FEAT_FMA: return avx && h->fma;
	case FEAT_F16C: return avx && h->f16c;
	case FEAT_VAES: return avx && h->aes && h->vaes;
	case FEAT_VPCLMUL: return avx && h->pclmul && h->vpclmul;
	default: return true;
	}
}

bool hostcpu_hide(const char *name)
{
	hostcpu();
#define X(feature)                                                             \
	if (!strcmp(name, #feature)) {                                         \
		host.feature = false;                                          \
		return true;                                                   \
	}
	HOST_FEATURES(X)
#undef X
	return false;
}
