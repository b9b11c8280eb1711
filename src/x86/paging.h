/* SPDX-License-Identifier: MIT */
/*
 * Paging-structure entries (SDM Vol. 3A "4-Level Paging", "PAE Paging").
 *
 *  63  62..52  51..M  M-1..12          11..9  8  7    6  5  4   3   2   1   0
 *  NX  ignored rsvd   frame or table   ign.   G  PS/  D  A  PCD PWT U/S R/W P
 *                                               PAT
 */
#ifndef LOCUM_X86_PAGING_H
#define LOCUM_X86_PAGING_H

#include "base/bits.h"

#define PTE_P  BIT64(0)
#define PTE_W  BIT64(1)
#define PTE_U  BIT64(2)
#define PTE_A  BIT64(5)
#define PTE_D  BIT64(6)
#define PTE_PS BIT64(7)
#define PTE_G  BIT64(8)
#define PTE_NX BIT64(63)

/** pte_frame() - physical address bits of an entry, maxphyaddr 32..52 */
static inline u64 pte_frame(u64 pte, unsigned maxphyaddr)
{
	return pte & GENMASK64(maxphyaddr - 1, 12);
}

/** level_shift() - address bits below an entry of level 1 (PT) .. 4 (PML4) */
static inline unsigned level_shift(unsigned level)
{
	return 12 + 9 * (level - 1);
}

#endif
