/* SPDX-License-Identifier: MIT */
#include "mmu/resolve.h"

#include "mem/hostfault.h"

/* --- addresses ------------------------------------------------------------------ */

/* SDM Vol. 3A "Interrupt 17", table of alignments by data type.  Vectors that may
 * be unaligned are checked by AMD's processors alone. */
static bool misaligned(const struct mmu *m, gva_t gva, unsigned n)
{
	switch (n) {
	case 2:
	case 4:
	case 8:
		return gva & (n - 1);
	case 10:
		return gva & 7;
	case 16:
	case 32:
		return m->amd && (gva & 15);
	}
	return false;
}

static enum emul check_alignment(struct mmu *m, gva_t gva, unsigned n, unsigned acc)
{
	if ((acc & (ACC_IMPLICIT | ACC_ANY_ALIGN)) || !misaligned(m, gva, n))
		return EMUL_CONTINUE;
	m->fault = (struct fault){.vector = EXC_AC, .has_error = true};
	return EMUL_FAULT;
}

enum emul resolve_check(struct mmu *m, gva_t gva, unsigned n, unsigned acc)
{
	bool first_ok = !(m->efer & EFER_LMA) || addr_is_canonical(gva);

	if (first_ok && (!(m->efer & EFER_LMA) || addr_is_canonical(gva + n - 1)))
		return unlikely(m->tlb.aligned) ? check_alignment(m, gva, n, acc)
						: EMUL_CONTINUE;
	/* Intel's processors look at the alignment before the last byte. */
	if (first_ok && !m->amd && m->tlb.aligned) {
		enum emul r = check_alignment(m, gva, n, acc);

		if (r != EMUL_CONTINUE)
			return r;
	}
	m->fault = (struct fault){.vector = acc & ACC_SS ? EXC_SS : EXC_GP,
				  .has_error = true};
	return EMUL_FAULT;
}

static gva_t linear(const struct mmu *m, gva_t gva)
{
	return m->efer & EFER_LMA ? gva : gva & 0xffffffff;
}

bool resolve_watched(const struct mmu *m, gva_t gva)
{
	for (unsigned i = 0; i < m->nwatch; i++)
		if (!((m->watch[i].addr ^ gva) & PAGE_MASK))
			return true;
	return false;
}

void resolve_note_watch(struct mmu *m, gva_t gva, unsigned n, bool write)
{
	for (unsigned i = 0; i < m->nwatch; i++) {
		const struct mmu_watch *w = &m->watch[i];

		if (gva < w->addr + w->len && w->addr < gva + n &&
		    (write ? w->writes : w->reads))
			m->watch_hits |= BIT(i);
	}
}

/* --- translation ------------------------------------------------------------------- */

static bool translate(struct mmu *m, struct walk *w)
{
	enum tlb_size size;
	const struct tlb_l2_entry *e = tlb_l2_find(&m->tlb, w->gva, &size);

	m->tlb.stats.tlb_misses++;
	/* What is refused is looked up in the tables: rights may have grown. */
	if (e && walk_allowed(m, w, e->rights) &&
	    (w->access != WALK_WRITE || (e->rights & RIGHT_D))) {
		m->tlb.stats.tlb_l2_hits++;
		w->frame = e->frame;
		w->size = size;
		w->rights = e->rights;
		return true;
	}
	if (!walk_page(m, w))
		return false;
	if (m->cr0 & CR0_PG)
		tlb_l2_add(&m->tlb, w->gva, w->size, w->frame, w->rights);
	return true;
}

static enum tlb_class_id class_for(const struct mmu *m, unsigned acc)
{
	return acc & ACC_IMPLICIT ? CLASS_SUP : m->tlb.class_id;
}

static u8 meta_of(const struct walk *w)
{
	return (u8)(w->size | (w->rights & RIGHT_G ? TLB_GLOBAL : 0));
}

static enum emul resolve(struct mmu *m, gva_t gva, enum walk_access access, unsigned acc,
			 struct target *t)
{
	bool implicit = acc & ACC_IMPLICIT;
	struct walk w = {
		.gva = linear(m, gva),
		.access = access,
		.user = m->cpl == 3 && !implicit,
		.ac = m->ac && !implicit,
	};
	struct memslot *s;

	if (!translate(m, &w))
		return EMUL_FAULT;
	*t = (struct target){
		.gpa = walk_gpa(w.gva, w.size, w.frame),
		.page_gva = w.gva & PAGE_MASK,
		.meta = meta_of(&w),
		.class = class_for(m, acc),
	};
	s = walk_slot(m, t->gpa);
	if (!s || (access == WALK_WRITE && (s->flags & KVM_MEM_READONLY)))
		return EMUL_CONTINUE;
	t->slot = s;
	t->page = (t->gpa >> PAGE_SHIFT) - s->gfn;
	t->bp = mem_bpage(m->mem, s, t->page);
	if (!t->bp) {
		m->starved = true;
		return EMUL_RETRY;
	}
	t->hva = s->hva + (t->page << PAGE_SHIFT) + (t->gpa & ~PAGE_MASK);
	return EMUL_CONTINUE;
}

static void enter(struct mmu *m, const struct target *t, enum tlb_kind kind)
{
	struct tlb_class *c = tlb_class_of(&m->tlb, t->class);

	tlb_fill(&m->tlb, c, kind, t->page_gva, t->hva - (t->gpa & ~PAGE_MASK), t->meta,
		 t->bp);
}

/* A hit in the table of the access's own class: the inline path has looked in
 * the current class alone, and not for implicit accesses. */
static bool hit(struct mmu *m, enum tlb_kind kind, gva_t gva, unsigned n, unsigned acc,
		struct target *t)
{
	const struct tlb_class *c = tlb_class_of(&m->tlb, class_for(m, acc));
	const struct tlb_table *tab = &c->table[kind];
	u8 *p = mmu_hit(tab->entry, tab->mask, gva, n);

	if (!p)
		return false;
	*t = (struct target){.hva = p};
	if (kind == TLB_WRITE)
		t->bp = tab->bp[tlb_index(gva, tab->mask)];
	return true;
}

enum emul resolve_read(struct mmu *m, gva_t gva, unsigned n, unsigned acc,
		       struct target *t)
{
	enum emul r;

	if (hit(m, TLB_READ, gva, n, acc, t))
		return EMUL_CONTINUE;
	r = resolve(m, gva, WALK_READ, acc, t);
	if (r == EMUL_CONTINUE && t->hva && !resolve_watched(m, gva))
		enter(m, t, TLB_READ);
	return r;
}

enum emul resolve_write(struct mmu *m, gva_t gva, unsigned n, unsigned acc,
			struct target *t)
{
	if (hit(m, TLB_WRITE, gva, n, acc, t))
		return EMUL_CONTINUE;
	return resolve(m, gva, WALK_WRITE, acc, t);
}

enum emul resolve_fetch(struct mmu *m, gva_t rip, struct target *t)
{
	enum emul r = resolve_check(m, rip, 1, 0);

	if (r == EMUL_CONTINUE)
		r = resolve(m, rip, WALK_FETCH, 0, t);
	if (r == EMUL_CONTINUE && t->hva)
		enter(m, t, TLB_CODE);
	return r;
}

bool resolve_open(struct mmu *m, struct target *t)
{
	if (!t->slot)
		return true;
	/* Marked before the entry exists: the next clearing of the log revokes it. */
	mem_mark_dirty(t->slot, t->page);
	if (resolve_watched(m, t->page_gva))
		return false;
	enter(m, t, TLB_READ);
	if (!tlb_may_write(&m->tlb, t->bp))
		return false;
	enter(m, t, TLB_WRITE);
	return true;
}

void resolve_written(struct mmu *m, const struct target *t, gva_t gva, unsigned n)
{
	unsigned off = (unsigned)((uintptr_t)t->hva & (PAGE_SIZE - 1));

	if (mem_written(m->mem, t->bp, off, n) & BP_CODE)
		atomic_fetch_or_explicit(m->track->attn, ATTN_CODE, memory_order_relaxed);
	if (unlikely(m->nwatch))
		resolve_note_watch(m, gva, n, true);
}

struct peek {
	struct mmu *m;
	struct walk *w;
};

static int peek(void *arg)
{
	struct peek *p = arg;

	return walk_page(p->m, p->w);
}

bool resolve_peek(struct mmu *m, struct walk *w)
{
	struct peek p = {m, w};
	int r;

	pthread_rwlock_rdlock(&m->mem->users);
	r = hostfault_try(m->mem, peek, &p);
	pthread_rwlock_unlock(&m->mem->users);
	return r > 0;
}
