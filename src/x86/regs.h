/* SPDX-License-Identifier: MIT */
/* Register numbers, RFLAGS, control registers, EFER and segment attributes. */
#ifndef LOCUM_X86_REGS_H
#define LOCUM_X86_REGS_H

#include "base/bits.h"

enum gpr {
	R_RAX, R_RCX, R_RDX, R_RBX, R_RSP, R_RBP, R_RSI, R_RDI,
	R_R8, R_R9, R_R10, R_R11, R_R12, R_R13, R_R14, R_R15,
	R_COUNT
};

/* Encoding order of the instruction set; LDTR and TR follow. */
enum seg_reg { SEG_ES, SEG_CS, SEG_SS, SEG_DS, SEG_FS, SEG_GS, SEG_LDTR, SEG_TR, SEG_COUNT };

#define RF_CF	BIT(0)
#define RF_ONE	BIT(1) /* always set */
#define RF_PF	BIT(2)
#define RF_AF	BIT(4)
#define RF_ZF	BIT(6)
#define RF_SF	BIT(7)
#define RF_TF	BIT(8)
#define RF_IF	BIT(9)
#define RF_DF	BIT(10)
#define RF_OF	BIT(11)
#define RF_IOPL 0x3000u
#define RF_IOPL_SHIFT 12
#define RF_NT	BIT(14)
#define RF_RF	BIT(16)
#define RF_VM	BIT(17)
#define RF_AC	BIT(18)
#define RF_VIF	BIT(19)
#define RF_VIP	BIT(20)
#define RF_ID	BIT(21)
#define RF_ARITH (RF_CF | RF_PF | RF_AF | RF_ZF | RF_SF | RF_OF)

#define CR0_PE BIT64(0)
#define CR0_MP BIT64(1)
#define CR0_EM BIT64(2)
#define CR0_TS BIT64(3)
#define CR0_ET BIT64(4)
#define CR0_NE BIT64(5)
#define CR0_WP BIT64(16)
#define CR0_AM BIT64(18)
#define CR0_NW BIT64(29)
#define CR0_CD BIT64(30)
#define CR0_PG BIT64(31)

#define CR3_NOFLUSH BIT64(63)
#define CR3_PCID    0xfffull

#define CR4_VME	       BIT64(0)
#define CR4_PVI	       BIT64(1)
#define CR4_TSD	       BIT64(2)
#define CR4_DE	       BIT64(3)
#define CR4_PSE	       BIT64(4)
#define CR4_PAE	       BIT64(5)
#define CR4_MCE	       BIT64(6)
#define CR4_PGE	       BIT64(7)
#define CR4_PCE	       BIT64(8)
#define CR4_OSFXSR     BIT64(9)
#define CR4_OSXMMEXCPT BIT64(10)
#define CR4_UMIP       BIT64(11)
#define CR4_LA57       BIT64(12)
#define CR4_VMXE       BIT64(13)
#define CR4_SMXE       BIT64(14)
#define CR4_FSGSBASE   BIT64(16)
#define CR4_PCIDE      BIT64(17)
#define CR4_OSXSAVE    BIT64(18)
#define CR4_SMEP       BIT64(20)
#define CR4_SMAP       BIT64(21)
#define CR4_PKE	       BIT64(22)

#define EFER_SCE  BIT64(0)
#define EFER_LME  BIT64(8)
#define EFER_LMA  BIT64(10)
#define EFER_NXE  BIT64(11)
#define EFER_SVME BIT64(12)
#define EFER_FFXSR BIT64(14)

/* struct seg attr: the descriptor's bits 8..15 and 20..23 as bits 0..15, the
 * layout of the second descriptor word >> 8 (and of a VMCS access-rights
 * field), with bit 16 = unusable. */
#define SEG_TYPE     0x000f
#define SEG_S	     BIT(4) /* code or data, not system */
#define SEG_DPL_SHIFT 5
#define SEG_DPL	     0x0060
#define SEG_P	     BIT(7)
#define SEG_AVL	     BIT(12)
#define SEG_L	     BIT(13)
#define SEG_DB	     BIT(14)
#define SEG_G	     BIT(15)
#define SEG_UNUSABLE BIT(16)
/* Type bits of code and data segments. */
#define SEG_T_ACCESSED BIT(0)
#define SEG_T_WRITE    BIT(1) /* data: writable; code: readable */
#define SEG_T_EXPAND   BIT(2) /* data: expand-down; code: conforming */
#define SEG_T_CODE     BIT(3)

/** addr_is_canonical() - true if @a is sign-extended from bit 47 */
static inline bool addr_is_canonical(u64 a)
{
	return bits_sext(a, 48) == a;
}

#endif
