/* SPDX-License-Identifier: MIT */
/*
 * Page walks: linear address -> guest-physical, with rights.
 */
#ifndef LOCUM_MMU_WALK_H
#define LOCUM_MMU_WALK_H

#include "mmu/mmu.h"

enum walk_access { WALK_READ, WALK_WRITE, WALK_FETCH };

/** struct walk - request and result
 * In: @gva, @access, @user (privilege of the access), @ac (SMAP lifted),
 *     @peek: read the tables themselves, without side effects, faults or checks
 * Out: @frame: guest-physical address of the page, aligned to its @size;
 *     @rights: RIGHT_* */
struct walk {
	gva_t gva;
	enum walk_access access;
	bool user, ac, peek;

	gpa_t frame;
	enum tlb_size size;
	u8 rights;
};

/**
 * walk_page() - walk the tables of @m for @w
 *
 * Sets A (and D for a write) by compare-and-exchange, and starts again when an
 * entry changed meanwhile.  Uses and fills the space's page-table cache; a fault
 * found that way is looked for again from the root.  Guest mode, or with the
 * read side of mem->users held and @peek.
 * Return: true; false: m->fault is the #PF (peek: not mapped, no fault).
 * Source: SDM Vol. 3A "4-Level Paging and 5-Level Paging", "PAE Paging", "32-Bit
 * Paging", "Access Rights", "Page-Fault Exceptions".
 */
bool walk_page(struct mmu *m, struct walk *w) must_check;

/** walk_allowed() - may @w->access happen with @rights? */
bool walk_allowed(const struct mmu *m, const struct walk *w, u8 rights);

/** walk_gpa() - of the byte at @gva in a page of @size at @frame */
static inline gpa_t walk_gpa(gva_t gva, enum tlb_size size, gpa_t frame)
{
	static const u64 mask[TLB_SIZES] = {0xfff, 0x1fffff, 0x3fffff, 0x3fffffff};

	return frame | (gva & mask[size]);
}

/** walk_slot() - slot of @gpa; remembers the last one found */
struct memslot *walk_slot(struct mmu *m, gpa_t gpa);

/** walk_reserved() - reserved bits of @pte at @level (1..4) under 4-level or PAE
 * rules */
u64 walk_reserved(const struct mmu *m, unsigned level, u64 pte);

#endif
