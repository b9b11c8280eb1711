/* SPDX-License-Identifier: MIT */
#include "mmu/walk.h"

#include "mem/access.h"
#include "x86/paging.h"

/* A table outside RAM reads as all ones: reserved bits are set. */
#define NO_ENTRY ~0ull

/** struct step - one entry of a walk
 * @host: where it lies, NULL outside RAM; @slot: of it */
struct step {
	u64 *host;
	struct memslot *slot;
	u64 value;
};

/** struct path - the entries of a walk; the leaf is the last
 * @wide: entries of 8 bytes, else of 4
 * @cached: it began at a table from the page-table cache */
struct path {
	struct step step[4];
	unsigned count;
	bool wide, cached;
};

/** struct table - a paging structure: where it lies */
struct table {
	u8 *host;
	struct memslot *slot;
};

enum outcome { FOUND, FAULTS, CHANGED };

struct memslot *walk_slot(struct mmu *m, gpa_t gpa)
{
	const struct slot_table *t = mem_slots(m->mem, m->space);
	gfn_t gfn = gpa >> PAGE_SHIFT;

	if (m->last_generation == t->generation &&
	    gfn - m->last_slot->gfn < m->last_slot->npages)
		return m->last_slot;
	struct memslot *s = mem_find(t, gfn);

	if (s) {
		m->last_slot = s;
		m->last_generation = t->generation;
	}
	return s;
}

/* Where the table at guest-physical @gpa lies.  A second stage (EPT) translates
 * @gpa here, and here alone. */
static struct table table_at(struct mmu *m, gpa_t gpa)
{
	struct memslot *s = walk_slot(m, gpa);

	if (!s)
		return (struct table){0};
	return (struct table){s->hva + ((gpa & PAGE_MASK) - (s->gfn << PAGE_SHIFT)), s};
}

u64 walk_reserved(const struct mmu *m, unsigned level, u64 pte)
{
	bool lma = m->efer & EFER_LMA;
	u64 rsvd = GENMASK64(51, 12) & ~GENMASK64(m->maxphyaddr - 1, 12);

	if (!(m->efer & EFER_NXE))
		rsvd |= PTE_NX;
	if (!lma)
		rsvd |= GENMASK64(62, 52);
	if (level == 4 || (level == 3 && !m->gbpages))
		rsvd |= PTE_PS;
	if ((pte & PTE_PS) && level == 2)
		rsvd |= GENMASK64(20, 13);
	if ((pte & PTE_PS) && level == 3)
		rsvd |= GENMASK64(29, 13);
	return rsvd;
}

static enum outcome page_fault(struct mmu *m, const struct walk *w, u32 error)
{
	if (w->peek)
		return FAULTS;
	if (w->access == WALK_WRITE)
		error |= PF_W;
	if (w->user)
		error |= PF_U;
	/* The fetch bit exists only where fetches can be told apart. */
	if (w->access == WALK_FETCH &&
	    ((m->cr4 & CR4_SMEP) || ((m->cr4 & CR4_PAE) && (m->efer & EFER_NXE))))
		error |= PF_I;
	m->fault = (struct fault){
		.vector = EXC_PF, .has_error = true, .error = error, .cr2 = w->gva};
	return FAULTS;
}

bool walk_allowed(const struct mmu *m, const struct walk *w, u8 rights)
{
	bool user_page = rights & RIGHT_U;

	if (w->user && !user_page)
		return false;
	if (w->access == WALK_FETCH) {
		if (rights & RIGHT_NX)
			return false;
		return w->user || !user_page || !(m->cr4 & CR4_SMEP);
	}
	if (!w->user && user_page && (m->cr4 & CR4_SMAP) && !w->ac)
		return false;
	if (w->access == WALK_WRITE && !(rights & RIGHT_W))
		return !w->user && !(m->cr0 & CR0_WP);
	return true;
}

static u8 add_rights(u8 rights, u64 pte)
{
	if (!(pte & PTE_W))
		rights &= (u8)~RIGHT_W;
	if (!(pte & PTE_U))
		rights &= (u8)~RIGHT_U;
	if (pte & PTE_NX)
		rights |= RIGHT_NX;
	return rights;
}

/* --- accessed and dirty ------------------------------------------------------ */

static void entry_written(struct mmu *m, const struct step *s, bool wide)
{
	u64 off = (u64)((u8 *)s->host - s->slot->hva);
	struct bpage *bp = mem_bpage(m->mem, s->slot, off >> PAGE_SHIFT);

	mem_mark_dirty(s->slot, off >> PAGE_SHIFT);
	if (bp)
		mem_written(m->mem, bp, off & ~PAGE_MASK, wide ? 8 : 4);
}

/* Set @bits in an entry if it still is what was read. */
static bool set_bits(struct mmu *m, struct step *s, u64 bits, bool wide)
{
	bool ok;

	if ((s->value & bits) == bits)
		return true;
	/* ROM: the bits stay as they are, and count as set (as in KVM). */
	if (s->slot->flags & KVM_MEM_READONLY)
		return true;
	if (wide) {
		u64 old = s->value;

		ok = __atomic_compare_exchange_n(s->host, &old, old | bits, false,
						 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	} else {
		u32 old = (u32)s->value;

		ok = __atomic_compare_exchange_n((u32 *)(void *)s->host, &old,
						 old | (u32)bits, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST);
	}
	if (ok) {
		s->value |= bits;
		entry_written(m, s, wide);
	}
	return ok;
}

static bool set_accessed(struct mmu *m, const struct walk *w, struct path *p)
{
	for (unsigned i = 0; i < p->count; i++) {
		bool leaf = i + 1 == p->count;
		u64 bits = PTE_A | (leaf && w->access == WALK_WRITE ? PTE_D : 0);

		if (!set_bits(m, &p->step[i], bits, p->wide))
			return false;
	}
	return true;
}

/* The leaf was found: check, set bits, and give the result. */
static enum outcome finish(struct mmu *m, struct walk *w, struct path *p, u8 rights,
			   enum tlb_size size, gpa_t frame)
{
	const struct step *leaf = &p->step[p->count - 1];

	if (!w->peek) {
		if (!walk_allowed(m, w, rights))
			return page_fault(m, w, PF_P);
		if (!set_accessed(m, w, p))
			return CHANGED;
	}
	if ((leaf->value & PTE_D) || (w->access == WALK_WRITE && !w->peek))
		rights |= RIGHT_D;
	if ((leaf->value & PTE_G) && (m->cr4 & CR4_PGE))
		rights |= RIGHT_G;
	w->rights = rights;
	w->size = size;
	w->frame = frame;
	return FOUND;
}

/* --- the page-table cache ------------------------------------------------------ */

static struct psc_entry *psc_pt(struct mmu *m, gva_t gva)
{
	return &m->tlb.space->pt[(gva >> 21) % PSC_PT];
}

static struct psc_entry *psc_pd(struct mmu *m, gva_t gva)
{
	return &m->tlb.space->pd[(gva >> 30) % PSC_PD];
}

static bool psc_hit(const struct mmu *m, const struct psc_entry *e, u64 tag)
{
	return e->tag == tag && e->gen == m->tlb.space->psc_gen;
}

/* Begin at the deepest table known.  Return: its level, 0: none. */
static unsigned psc_find(struct mmu *m, gva_t gva, struct table *t, u8 *rights)
{
	const struct psc_entry *e = psc_pt(m, gva);
	unsigned level = 1;

	if (!psc_hit(m, e, gva >> 21)) {
		e = psc_pd(m, gva);
		level = 2;
		if (!(m->efer & EFER_LMA) || !psc_hit(m, e, gva >> 30))
			return 0;
	}
	*t = (struct table){(u8 *)e->table, e->slot};
	*rights = e->rights;
	m->tlb.stats.psc_hits++;
	return level;
}

static void psc_forget(struct mmu *m, gva_t gva)
{
	psc_pt(m, gva)->gen = 0;
	psc_pd(m, gva)->gen = 0;
}

/* Remember the table of @level; A is set in all entries that lead to it. */
static void psc_add(struct mmu *m, gva_t gva, unsigned level, const struct table *t,
		    u8 rights)
{
	struct psc_entry *e = level == 1 ? psc_pt(m, gva) : psc_pd(m, gva);

	*e = (struct psc_entry){
		.tag = gva >> level_shift(level + 1),
		.gen = m->tlb.space->psc_gen,
		.table = (u64 *)(void *)t->host,
		.slot = t->slot,
		.rights = rights,
	};
}

/* --- 4-level and PAE: 8-byte entries ------------------------------------------- */

/* The topmost table.  Return: its level; 0: the PDPTE is not present. */
static unsigned wide_root(struct mmu *m, gva_t gva, struct table *t)
{
	u64 pdpte;

	if (m->efer & EFER_LMA) {
		*t = table_at(m, pte_frame(m->cr3, m->maxphyaddr));
		return 4;
	}
	pdpte = m->pdptr[gva >> 30 & 3];
	if (!(pdpte & PTE_P))
		return 0;
	*t = table_at(m, pte_frame(pdpte, m->maxphyaddr));
	return 2;
}

static bool is_leaf(unsigned level, u64 pte)
{
	return level == 1 || (pte & PTE_PS);
}

static gpa_t leaf_frame(const struct mmu *m, unsigned level, u64 pte)
{
	return pte_frame(pte, m->maxphyaddr) & ~(BIT64(level_shift(level)) - 1);
}

/* What the walk passed below the root, for psc_add(). */
struct passed {
	struct table table;
	u8 rights;
};

static void remember(struct mmu *m, const struct walk *w, const struct passed *passed,
		     unsigned from, unsigned leaf)
{
	if (w->peek)
		return;
	if (leaf == 1 && from > 1)
		psc_add(m, w->gva, 1, &passed[1].table, passed[1].rights);
	if (leaf <= 2 && from > 2)
		psc_add(m, w->gva, 2, &passed[2].table, passed[2].rights);
}

static enum outcome walk_wide(struct mmu *m, struct walk *w, struct path *p)
{
	static const enum tlb_size sizes[] = {0, TLB_4K, TLB_2M, TLB_1G};
	u8 rights = RIGHT_W | RIGHT_U;
	struct passed passed[5];
	struct table t;
	unsigned level = w->peek ? 0 : psc_find(m, w->gva, &t, &rights), from;

	p->wide = true;
	p->cached = level;
	if (!level)
		level = wide_root(m, w->gva, &t);
	if (!level)
		return page_fault(m, w, 0);
	for (from = level;; level--) {
		u64 *e = (u64 *)(void *)t.host + (w->gva >> level_shift(level) & 511);
		u64 pte = t.host ? access_load64(e) : NO_ENTRY;

		m->tlb.stats.walk_loads++;
		if (!(pte & PTE_P))
			return page_fault(m, w, 0);
		if (pte & walk_reserved(m, level, pte))
			return page_fault(m, w, PF_P | PF_RSVD);
		p->step[p->count++] = (struct step){e, t.slot, pte};
		rights = add_rights(rights, pte);
		if (is_leaf(level, pte))
			break;
		t = table_at(m, pte_frame(pte, m->maxphyaddr));
		passed[level - 1] = (struct passed){t, rights};
	}
	u64 leaf = p->step[p->count - 1].value;
	enum outcome r =
		finish(m, w, p, rights, sizes[level], leaf_frame(m, level, leaf));

	if (r == FOUND)
		remember(m, w, passed, from, level);
	return r;
}

/* --- 32-bit paging: 4-byte entries, two levels ---------------------------------- */

static enum outcome walk_narrow(struct mmu *m, struct walk *w, struct path *p)
{
	struct table t = table_at(m, m->cr3 & 0xfffff000);
	u8 rights = RIGHT_W | RIGHT_U;

	p->wide = false;
	p->cached = false;
	for (unsigned level = 2;; level--) {
		u32 *e =
			(u32 *)(void *)t.host + (w->gva >> (level == 2 ? 22 : 12) & 1023);
		u32 pte = t.host ? access_load32(e) : 0;
		bool big = level == 2 && (pte & PTE_PS) && (m->cr4 & CR4_PSE);

		m->tlb.stats.walk_loads++;
		if (!(pte & PTE_P))
			return page_fault(m, w, 0);
		/* PSE-36: bits 20:13 are address bits 39:32; bit 21 is reserved. */
		if (big && (pte & BIT(21)))
			return page_fault(m, w, PF_P | PF_RSVD);
		p->step[p->count++] = (struct step){(u64 *)(void *)e, t.slot, pte};
		rights = add_rights(rights, pte);
		if (big)
			return finish(m, w, p, rights, TLB_4M,
				      (pte & 0xffc00000) | (u64)(pte >> 13 & 0xff) << 32);
		if (level == 1)
			return finish(m, w, p, rights, TLB_4K, pte & 0xfffff000);
		t = table_at(m, pte & 0xfffff000);
	}
}

bool walk_page(struct mmu *m, struct walk *w)
{
	enum outcome r;
	struct path p;

	if (!(m->cr0 & CR0_PG)) {
		w->frame = w->gva & 0xfffff000;
		w->size = TLB_4K;
		w->rights = RIGHT_W | RIGHT_U | RIGHT_D;
		return true;
	}
	m->tlb.stats.walks += !w->peek;
	for (;;) {
		p.count = 0;
		r = m->cr4 & CR4_PAE ? walk_wide(m, w, &p) : walk_narrow(m, w, &p);
		if (r == FOUND)
			return true;
		/* The cached table may be out of date in the guest's disfavour. */
		if (r == FAULTS && !p.cached)
			return false;
		if (r == FAULTS)
			psc_forget(m, w->gva);
		m->tlb.stats.walk_retries++;
	}
}
