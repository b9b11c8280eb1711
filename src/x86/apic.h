/* SPDX-License-Identifier: MIT */
/*
 * Registers and bits of the local APIC and the IOAPIC.
 * SDM Vol. 3A "Advanced Programmable Interrupt Controller (APIC)"; 82093AA.
 */
#ifndef LOCUM_X86_APIC_H
#define LOCUM_X86_APIC_H

#include "base/bits.h"

/* MSRs */
#define MSR_APIC_BASE	 0x1bu
#define MSR_TSC_DEADLINE 0x6e0u
#define MSR_X2APIC_FIRST 0x800u
#define MSR_X2APIC_LAST	 0x8ffu

#define APICBASE_BSP	 BIT64(8)
#define APICBASE_X2APIC	 BIT64(10)
#define APICBASE_ENABLE	 BIT64(11)
#define APICBASE_DEFAULT 0xfee00000ull

/* Register offsets in the MMIO page; MSR = 0x800 + offset / 16. */
#define APIC_ID	      0x020
#define APIC_VERSION  0x030
#define APIC_TPR      0x080
#define APIC_APR      0x090
#define APIC_PPR      0x0a0
#define APIC_EOI      0x0b0
#define APIC_LDR      0x0d0
#define APIC_DFR      0x0e0
#define APIC_SVR      0x0f0
#define APIC_ISR      0x100
#define APIC_TMR      0x180
#define APIC_IRR      0x200
#define APIC_ESR      0x280
#define APIC_LVTCMCI  0x2f0
#define APIC_ICR      0x300
#define APIC_ICR2     0x310
#define APIC_LVTT     0x320
#define APIC_LVTTHMR  0x330
#define APIC_LVTPC    0x340
#define APIC_LVT0     0x350
#define APIC_LVT1     0x360
#define APIC_LVTERR   0x370
#define APIC_TMICT    0x380
#define APIC_TMCCT    0x390
#define APIC_TDCR     0x3e0
#define APIC_SELF_IPI 0x3f0

#define APIC_VERSION_LOW      0x14u
#define APIC_VERSION_DIRECTED BIT(24) /* SVR bit 12 is supported */

#define SVR_ENABLE   BIT(8)
#define SVR_DIRECTED BIT(12)

#define LVT_VECTOR	 0xffu
#define LVT_MODE	 0x700u
#define LVT_POLARITY	 BIT(13)
#define LVT_LEVEL	 BIT(15)
#define LVT_MASKED	 BIT(16)
#define LVTT_MODE	 (BIT(17) | BIT(18))
#define LVTT_ONESHOT	 0u
#define LVTT_PERIODIC	 BIT(17)
#define LVTT_TSCDEADLINE BIT(18)

/* ICR, also the fields of LVTs, redirection entries and MSI data */
#define ICR_MODE_SHIFT	8
#define ICR_LOGICAL	BIT(11)
#define ICR_BUSY	BIT(12)
#define ICR_ASSERT	BIT(14)
#define ICR_LEVEL	BIT(15)
#define ICR_SHORT_SHIFT 18
/* Must be zero in an x2APIC-mode write. */
#define X2APIC_ICR_RESERVED 0xfff32000u

enum apic_mode {
	APIC_MODE_FIXED = 0,
	APIC_MODE_LOWEST = 1,
	APIC_MODE_SMI = 2,
	APIC_MODE_REMOTE_READ = 3, /* KVM: wakes a halted vCPU (PV kick) */
	APIC_MODE_NMI = 4,
	APIC_MODE_INIT = 5,
	APIC_MODE_SIPI = 6,
	APIC_MODE_EXTINT = 7,
};

enum apic_short { APIC_NOSHORT, APIC_SELF, APIC_ALL, APIC_ALLBUT };

#define APIC_BROADCAST	 0xffu
#define X2APIC_BROADCAST 0xffffffffu

#define DFR_FLAT    0xfu /* bits 31:28 */
#define DFR_CLUSTER 0x0u

/** x2apic_ldr() - the logical ID that x2APIC mode derives from the APIC ID */
static inline u32 x2apic_ldr(u32 id)
{
	return (id >> 4) << 16 | BIT(id & 15);
}

/* IOAPIC */
#define IOAPIC_DEFAULT_GPA 0xfec00000ull
#define IOAPIC_SIZE	   0x100u
#define IOAPIC_PINS	   24
#define IOAPIC_REGSEL	   0x00
#define IOAPIC_WINDOW	   0x10
#define IOAPIC_REG_ID	   0x00
#define IOAPIC_REG_VERSION 0x01
#define IOAPIC_REG_ARB	   0x02
#define IOAPIC_REG_REDIR   0x10
#define IOAPIC_VERSION	   0x11u

#define REDIR_STATUS	 BIT64(12) /* read-only */
#define REDIR_POLARITY	 BIT64(13)
#define REDIR_REMOTE_IRR BIT64(14) /* read-only */
#define REDIR_LEVEL	 BIT64(15)
#define REDIR_MASKED	 BIT64(16)
#define REDIR_LOGICAL	 BIT64(11)

#endif
