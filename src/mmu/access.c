/* SPDX-License-Identifier: MIT */
/* Accesses that miss the current tables: resolve, fill, devices, page crossings. */
#include <string.h>

#include "mem/access.h"
#include "mmu/resolve.h"

static unsigned bytes_in_page(gva_t gva, unsigned n)
{
	u64 rest = PAGE_SIZE - (gva & ~PAGE_MASK);

	return n < rest ? n : (unsigned)rest;
}

static enum emul device(struct mmu *m, gpa_t gpa, u8 *data, unsigned n, bool write)
{
	while (n) {
		unsigned part = MIN(n, 8u);
		enum emul r = m->ops->mmio(m, gpa, data, part, write);

		if (r != EMUL_CONTINUE)
			return r;
		gpa += part;
		data += part;
		n -= part;
	}
	return EMUL_CONTINUE;
}

/* --- reads -------------------------------------------------------------------- */

static enum emul read_part(struct mmu *m, gva_t gva, u8 *dst, unsigned n, unsigned acc)
{
	struct target t;
	enum emul r = resolve_read(m, gva, n, acc, &t);

	if (r != EMUL_CONTINUE)
		return r;
	if (!t.hva)
		return device(m, t.gpa, dst, n, false);
	access_read(dst, t.hva, n);
	if (unlikely(m->nwatch))
		resolve_note_watch(m, gva, n, false);
	return EMUL_CONTINUE;
}

enum emul mmu_read_slow(struct mmu *m, gva_t gva, void *dst, unsigned n, unsigned acc)
{
	unsigned first = bytes_in_page(gva, n);
	enum emul r = resolve_check(m, gva, n, acc);

	if (r == EMUL_CONTINUE)
		r = read_part(m, gva, dst, first, acc);
	if (r == EMUL_CONTINUE && first < n)
		r = read_part(m, gva + first, (u8 *)dst + first, n - first, acc);
	return r;
}

/* --- writes ------------------------------------------------------------------- */

/* The store into RAM, and what must be known about it.  An engine leaves the
 * running block when its own code may be what changed. */
static void store(struct mmu *m, struct target *t, gva_t gva, const u8 *src, unsigned n)
{
	resolve_open(m, t);
	access_write(t->hva, src, n);
	resolve_written(m, t, gva, n);
}

static enum emul write_device(struct mmu *m, const struct target *t, const u8 *src,
			      unsigned n)
{
	u8 copy[PAGE_SIZE];

	memcpy(copy, src, n);
	return device(m, t->gpa, copy, n, true);
}

/* One page's part; @devices: only if it goes to a device, else only if to RAM. */
static enum emul write_part(struct mmu *m, struct target *t, gva_t gva, const u8 *src,
			    unsigned n, bool devices)
{
	if (devices != !t->hva)
		return EMUL_CONTINUE;
	if (devices)
		return write_device(m, t, src, n);
	store(m, t, gva, src, n);
	return EMUL_CONTINUE;
}

static enum emul write_crossing(struct mmu *m, gva_t gva, const u8 *src, unsigned first,
				unsigned n, unsigned acc)
{
	struct target t[2];
	enum emul r = resolve_write(m, gva, first, acc, &t[0]);

	if (r == EMUL_CONTINUE)
		r = resolve_write(m, gva + first, n - first, acc, &t[1]);
	for (int devices = 1; devices >= 0 && r == EMUL_CONTINUE; devices--) {
		r = write_part(m, &t[0], gva, src, first, devices);
		if (r == EMUL_CONTINUE)
			r = write_part(m, &t[1], gva + first, src + first, n - first,
				       devices);
	}
	return r;
}

enum emul mmu_write_slow(struct mmu *m, gva_t gva, const void *src, unsigned n,
			 unsigned acc)
{
	unsigned first = bytes_in_page(gva, n);
	enum emul r = resolve_check(m, gva, n, acc);
	struct target t;

	if (r != EMUL_CONTINUE)
		return r;
	if (first < n)
		return write_crossing(m, gva, src, first, n, acc);
	r = resolve_write(m, gva, n, acc, &t);
	if (r != EMUL_CONTINUE)
		return r;
	if (!t.hva)
		return write_device(m, &t, src, n);
	store(m, &t, gva, src, n);
	return EMUL_CONTINUE;
}

/* --- probes, bulk ---------------------------------------------------------------- */

enum emul mmu_probe_write(struct mmu *m, gva_t gva, unsigned n, unsigned acc)
{
	unsigned first = bytes_in_page(gva, n);
	enum emul r = resolve_check(m, gva, n, acc);
	struct target t;

	if (r == EMUL_CONTINUE)
		r = resolve_write(m, gva, first, acc, &t);
	if (r == EMUL_CONTINUE && first < n)
		r = resolve_write(m, gva + first, n - first, acc, &t);
	return r;
}

enum emul mmu_probe_read(struct mmu *m, gva_t gva, unsigned n, unsigned acc)
{
	unsigned first = bytes_in_page(gva, n);
	enum emul r = resolve_check(m, gva, n, acc);
	struct target t;

	if (r == EMUL_CONTINUE)
		r = resolve_read(m, gva, first, acc, &t);
	if (r == EMUL_CONTINUE && first < n)
		r = resolve_read(m, gva + first, n - first, acc, &t);
	return r;
}

enum emul mmu_page(struct mmu *m, gva_t gva, unsigned n, bool write, unsigned acc,
		   void **hva)
{
	struct target t;
	enum emul r;

	*hva = NULL;
	if (bytes_in_page(gva, n) < n || m->tlb.aligned)
		return EMUL_CONTINUE;
	if (write)
		return mmu_rmw(m, gva, n, acc, hva);
	r = resolve_check(m, gva, n, acc);
	if (r == EMUL_CONTINUE)
		r = resolve_read(m, gva, n, acc, &t);
	if (r == EMUL_CONTINUE && !resolve_watched(m, gva))
		*hva = t.hva;
	return r;
}

/* --- code ------------------------------------------------------------------------- */

enum emul mmu_fetch(struct mmu *m, gva_t rip, struct mmu_code *code)
{
	const struct tlb_table *tab = &m->tlb.class->table[TLB_CODE];
	const struct tlb_code_entry *e = tab->entry;
	struct target t;
	enum emul r;

	code->gva = rip;
	e += tlb_index(rip, tab->mask);
	if (likely(rip + e->negtag < PAGE_SIZE)) {
		code->bp = e->bp;
		code->hva = e->hva;
		return EMUL_CONTINUE;
	}
	r = resolve_fetch(m, rip, &t);
	if (r != EMUL_CONTINUE)
		return r;
	code->bp = t.bp;
	code->hva = t.hva ? t.hva - (rip & ~PAGE_MASK) : NULL;
	return EMUL_CONTINUE;
}

static enum emul fetch_part(struct mmu *m, gva_t rip, u8 *dst, unsigned n)
{
	struct mmu_code code;
	enum emul r = mmu_fetch(m, rip, &code);

	if (r != EMUL_CONTINUE)
		return r;
	/* Code in devices is not executed, as on KVM. */
	if (!code.hva)
		return EMUL_INTERCEPT;
	access_read(dst, code.hva + (rip & ~PAGE_MASK), n);
	return EMUL_CONTINUE;
}

enum emul mmu_fetch_bytes(struct mmu *m, gva_t rip, u8 *dst, unsigned n)
{
	unsigned first = bytes_in_page(rip, n);
	enum emul r = fetch_part(m, rip, dst, first);

	if (r == EMUL_CONTINUE && first < n)
		r = fetch_part(m, rip + first, dst + first, n - first);
	return r;
}

bool mmu_translate(struct mmu *m, gva_t gva, gpa_t *gpa, bool *writable, bool *user)
{
	struct walk w = {.gva = gva, .access = WALK_READ, .peek = true};

	if (!(m->efer & EFER_LMA))
		w.gva &= 0xffffffff;
	else if (!addr_is_canonical(gva))
		return false;
	if (!resolve_peek(m, &w))
		return false;
	*gpa = walk_gpa(w.gva, w.size, w.frame);
	*writable = w.rights & RIGHT_W;
	*user = w.rights & RIGHT_U;
	return true;
}
