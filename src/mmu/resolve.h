/* SPDX-License-Identifier: MIT */
/*
 * From a linear address to the RAM or device behind it: second level of the TLB
 * or walk, slot, backing page, and the entries that spare it the next time.
 */
#ifndef LOCUM_MMU_RESOLVE_H
#define LOCUM_MMU_RESOLVE_H

#include "mmu/walk.h"

/** struct target - where one page's part of an access goes
 * @hva:  host address of the byte, NULL: device
 * @slot, @page: where in RAM; NULL when an entry of the TLB answered
 * @bp:   backing page, of RAM (reads: only when @slot)
 * @page_gva, @meta, @class: of the entry that may be made */
struct target {
	gpa_t gpa;
	u8 *hva;
	struct bpage *bp;
	struct memslot *slot;
	u64 page;
	gva_t page_gva;
	u8 meta;
	enum tlb_class_id class;
};

/** resolve_check() - is the whole of [gva, gva+n) canonical?
 * Return: EMUL_CONTINUE, or EMUL_FAULT with #GP(0), ACC_SS: #SS(0) */
enum emul resolve_check(struct mmu *m, gva_t gva, unsigned n, unsigned acc) must_check;

/**
 * resolve_read(), resolve_write(), resolve_fetch() - the page of @gva for an
 * access of @n bytes that does not leave it
 * Nothing is written, and the page does not count as written.  Reads and fetches
 * enter what they find into the tables, writes do so in resolve_open().
 * Return: EMUL_CONTINUE, EMUL_FAULT, EMUL_RETRY (no memory for a moment).
 */
enum emul resolve_read(struct mmu *m, gva_t gva, unsigned n, unsigned acc,
		       struct target *t) must_check;
enum emul resolve_write(struct mmu *m, gva_t gva, unsigned n, unsigned acc,
			struct target *t) must_check;
enum emul resolve_fetch(struct mmu *m, gva_t rip, struct target *t) must_check;

/** resolve_open() - @t, of resolve_write(), will be written now: mark it dirty and
 * make a write entry if there may be one.  Return: true if there is one. */
bool resolve_open(struct mmu *m, struct target *t);

/** resolve_written() - @n bytes at @t (linear @gva) were stored */
void resolve_written(struct mmu *m, const struct target *t, gva_t gva, unsigned n);

/** resolve_watched() - the page of @gva has a data breakpoint: no entries */
bool resolve_watched(const struct mmu *m, gva_t gva);
/** resolve_note_watch() - an access to a watched page */
void resolve_note_watch(struct mmu *m, gva_t gva, unsigned n, bool write);

/** resolve_peek() - walk_page() with @w->peek, from any state */
bool resolve_peek(struct mmu *m, struct walk *w);

#endif
