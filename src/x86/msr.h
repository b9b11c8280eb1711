/* SPDX-License-Identifier: MIT */
/* MSR numbers that code names; the list of all is cpu/msrs.def. */
#ifndef LOCUM_X86_MSR_H
#define LOCUM_X86_MSR_H

#define MSR_EFER	   0xc0000080u
#define MSR_STAR	   0xc0000081u
#define MSR_LSTAR	   0xc0000082u
#define MSR_CSTAR	   0xc0000083u
#define MSR_SFMASK	   0xc0000084u
#define MSR_FS_BASE	   0xc0000100u
#define MSR_GS_BASE	   0xc0000101u
#define MSR_KERNEL_GS_BASE 0xc0000102u
#define MSR_TSC_AUX	   0xc0000103u
#define MSR_SPEC_CTRL	   0x48u
#define MSR_XSS		   0xda0u
#define MSR_PRED_CMD	   0x49u
#define MSR_SMI_COUNT	   0x34u
#define MSR_SMBASE	   0x9eu
#define MSR_MISC_ENABLE	   0x1a0u
#define MISC_ENABLE_MWAIT  0x40000ull
#define MSR_DEBUGCTL	   0x1d9u
#define DEBUGCTL_LBR	   1ull
#define DEBUGCTL_BTF	   2ull
#define MSR_PAT		   0x277u
#define MSR_PERF_CAPABILITIES 0x345u
#define MSR_PLATFORM_INFO  0xceu
#define PLATFORM_INFO_CPUID_FAULT 0x80000000ull
#define MSR_MISC_FEATURES  0x140u /* MISC_FEATURES_ENABLES */
#define MISC_FEATURES_CPUID_FAULT 1ull
#define MSR_MTRR_CAP	   0xfeu
#define MSR_MTRR_VAR0	   0x200u
#define MSR_MTRR_DEF_TYPE  0x2ffu
#define MSR_MCG_CAP	   0x179u
#define MSR_MCG_STATUS	   0x17au
#define MSR_MCG_CTL	   0x17bu
#define MSR_MC0_CTL	   0x400u
#define MSR_MC0_CTL2	   0x280u
#define MCI_CTL2_CMCI_EN   0x40000000ull
#define MCI_CTL2_THRESHOLD 0x7fffull
#define MCE_BANKS	   32

#endif
