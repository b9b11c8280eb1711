/* SPDX-License-Identifier: MIT */
/*
 * What the host's processor can do, for instructions that we run on it.
 *
 * Read once from CPUID (and XGETBV); host.hide pretends that features are
 * missing, so that every fallback can be tested on any machine.
 */
#ifndef LOCUM_CPU_HOSTCPU_H
#define LOCUM_CPU_HOSTCPU_H

#include "base/types.h"

#define HOST_FEATURES(X)                                                       \
	X(popcnt) X(movbe) X(lzcnt) X(bmi1) X(bmi2) X(adx) X(sse42) X(cx16)    \
	X(rdrand) X(rdseed) X(rdtscp) X(rdpid) X(fsgsbase) X(avx) X(avx2)      \
	X(fma) X(f16c) X(xsave) X(xsaveopt) X(xsavec) X(xgetbv1) X(xsaves) X(xsaveerptr)  \
	X(sse3) X(ssse3) X(sse41) X(aes) X(pclmul) X(sha) X(gfni) X(vaes)      \
	X(vpclmul) X(fsrm) X(execmem) X(shm)

/** struct hostcpu - one bool a feature, by the names above
 * The last two are the host kernel's, true unless hidden: executable memory for
 * translated code; memory shared with other processes for scheduling. */
struct hostcpu {
#define X(name) bool name;
	HOST_FEATURES(X)
#undef X
	bool amd; /* vendor string is AuthenticAMD or HygonGenuine */
};

/** hostcpu() - the host's features, less the hidden ones; any thread, cheap
 * after the first call; never NULL */
const struct hostcpu *hostcpu(void);

/** hostcpu_runs() - can instructions of feature FEAT_* (decode/features.def) be
 * executed here?  False for those that we run on the host's own and that it lacks. */
bool hostcpu_runs(unsigned feature);

/**
 * hostcpu_hide() - pretend that the host lacks feature @name, for the process
 * Before the first vCPU is created.  "sse42" stands for the CRC32 instruction
 * too; hiding "lzcnt" does not hide "bmi1" (TZCNT).
 * Return: false if there is no such name.
 */
bool hostcpu_hide(const char *name);

#endif
