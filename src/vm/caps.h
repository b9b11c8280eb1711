/* SPDX-License-Identifier: MIT */
/* Masks of what clients may turn on: named once, checked and reported alike. */
#ifndef LOCUM_VM_CAPS_H
#define LOCUM_VM_CAPS_H

#include <linux/kvm.h>

#include "base/bits.h"

/* Machine checks: MCG_CTL, corrected-error interrupts, software error recovery. */
#define MCG_CTL_P  BIT64(8)
#define MCG_CMCI_P BIT64(10)
#define MCG_SER_P  BIT64(24)
#define CAPS_MCG   (MCG_CTL_P | MCG_CMCI_P | MCG_SER_P)
#define MCG_BANKS  0xffu

#define CAPS_MSR_EXITS                                                         \
	(KVM_MSR_EXIT_REASON_INVAL | KVM_MSR_EXIT_REASON_UNKNOWN |             \
	 KVM_MSR_EXIT_REASON_FILTER)
#define CAPS_QUIRKS                                                            \
	(KVM_X86_QUIRK_LINT0_REENABLED | KVM_X86_QUIRK_CD_NW_CLEARED |         \
	 KVM_X86_QUIRK_LAPIC_MMIO_HOLE | KVM_X86_QUIRK_OUT_7E_INC_RIP |        \
	 KVM_X86_QUIRK_MISC_ENABLE_NO_MWAIT | KVM_X86_QUIRK_FIX_HYPERCALL_INSN | \
	 KVM_X86_QUIRK_MWAIT_NEVER_UD_FAULTS)
/* MWAIT is not executed in a way that idling could use; the rest never exits. */
#define CAPS_NO_EXITS                                                          \
	(KVM_X86_DISABLE_EXITS_HLT | KVM_X86_DISABLE_EXITS_PAUSE |             \
	 KVM_X86_DISABLE_EXITS_CSTATE)
#define CAPS_MANUAL_DIRTY                                                      \
	(KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET)
#define CAPS_X2APIC                                                            \
	(KVM_X2APIC_API_USE_32BIT_IDS | KVM_X2APIC_API_DISABLE_BROADCAST_QUIRK)
#define CAPS_GUEST_DEBUG                                                       \
	(KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP | KVM_GUESTDBG_USE_HW_BP | \
	 KVM_GUESTDBG_USE_SW_BP | KVM_GUESTDBG_INJECT_BP | KVM_GUESTDBG_INJECT_DB | \
	 KVM_GUESTDBG_BLOCKIRQ)

#endif
