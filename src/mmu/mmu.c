/* SPDX-License-Identifier: MIT */
/* Paging registers, what their changes flush, and guest mode. */
#include "mmu/mmu.h"

#include <string.h>

#include "mmu/walk.h"
#include "x86/paging.h"

int mmu_init(struct mmu *m, struct mem *mem, const struct mmu_ops *ops, _Atomic u32 *attn,
	     const struct tlb_config *config)
{
	int r;

	memset(m, 0, sizeof(*m));
	m->mem = mem;
	m->ops = ops;
	m->cr0 = CR0_ET;
	m->maxphyaddr = 40;
	r = track_attach(mem, attn, &m->track);
	if (r)
		return r;
	r = tlb_init(&m->tlb, config, BIT64(m->track->id));
	if (r) {
		track_detach(m->track);
		m->track = NULL;
	}
	return r;
}

void mmu_fini(struct mmu *m)
{
	if (!m->track)
		return;
	/* Entries go while our bit in bpage.writers is still ours. */
	tlb_fini(&m->tlb);
	track_detach(m->track);
	m->track = NULL;
}

static struct tlb_key current_key(const struct mmu *m)
{
	return (struct tlb_key){.pcid = m->cr4 & CR4_PCIDE ? (u32)(m->cr3 & CR3_PCID)
							   : 0};
}

static enum tlb_class_id current_class(const struct mmu *m)
{
	if (m->cpl == 3)
		return CLASS_USER;
	return (m->cr4 & CR4_SMAP) && m->ac ? CLASS_SUP_AC : CLASS_SUP;
}

/* SDM Vol. 3A "Interrupt 17": CR0.AM, RFLAGS.AC, privilege 3. */
static void check_aligned(struct mmu *m)
{
	bool on = m->cpl == 3 && m->ac && (m->cr0 & CR0_AM);

	if (unlikely(on != m->tlb.aligned))
		tlb_set_aligned(&m->tlb, on);
}

static void select_tables(struct mmu *m)
{
	struct tlb_key key = current_key(m);

	tlb_select(&m->tlb, &key, current_class(m));
}

/* Everything of the guest, globals too or not. */
static void flush_vpid(struct mmu *m, bool globals)
{
	m->tlb.stats.tlb_flush_all++;
	tlb_drop_vpid(&m->tlb, current_key(m).vpid, globals);
}

static void flush_pcid(struct mmu *m, const struct tlb_key *key)
{
	m->tlb.stats.tlb_flush_context++;
	tlb_drop_pcid(&m->tlb, key);
}

/*
 * Entries hold the verdict of the rights, so what the verdict depends on (WP,
 * SMEP, SMAP, NXE) flushes every space when it changes; PG, PAE and LMA change
 * what the tables mean.
 */
void mmu_set_cr0(struct mmu *m, u64 cr0)
{
	u64 changed = m->cr0 ^ cr0;

	m->cr0 = cr0;
	check_aligned(m);
	if (changed & (CR0_PG | CR0_WP)) {
		m->tlb.stats.flush_cr0++;
		flush_vpid(m, true);
	}
}

void mmu_set_cr3(struct mmu *m, u64 cr3)
{
	bool keep = (m->cr4 & CR4_PCIDE) && (cr3 & CR3_NOFLUSH);
	struct tlb_key key;

	m->cr3 = cr3 & ~CR3_NOFLUSH;
	key = current_key(m);
	if (!keep) {
		m->tlb.stats.flush_cr3++;
		flush_pcid(m, &key);
	}
	select_tables(m);
}

void mmu_set_cr4(struct mmu *m, u64 cr4)
{
	u64 changed = m->cr4 ^ cr4;
	u64 all = CR4_PGE | CR4_PAE | CR4_PSE | CR4_SMEP | CR4_SMAP | CR4_LA57;

	m->cr4 = cr4;
	/* PCIDE 0->1 keeps what there is: it is PCID 0's, and CR3[11:0] is 0. */
	if ((changed & all) || (changed & ~cr4 & CR4_PCIDE)) {
		m->tlb.stats.flush_cr4++;
		flush_vpid(m, true);
	}
	select_tables(m);
}

void mmu_set_efer(struct mmu *m, u64 efer)
{
	u64 changed = m->efer ^ efer;

	m->efer = efer;
	if (changed & (EFER_NXE | EFER_LMA)) {
		m->tlb.stats.flush_efer++;
		flush_vpid(m, true);
	}
}

void mmu_set_cpl(struct mmu *m, unsigned cpl)
{
	m->cpl = (u8)cpl;
	check_aligned(m);
	if (current_class(m) != m->tlb.class_id)
		select_tables(m);
}

void mmu_set_ac(struct mmu *m, bool ac)
{
	m->ac = ac;
	check_aligned(m);
	if (current_class(m) != m->tlb.class_id)
		select_tables(m);
}

bool mmu_load_pdptrs(struct mmu *m, u64 cr3)
{
	u64 rsvd = GENMASK64(63, m->maxphyaddr) | GENMASK64(8, 5) | GENMASK64(2, 1);
	u64 pdpte[4];

	/* mem_read(): also called by state ioctls, outside guest mode. */
	if (mem_read_in(m->mem, m->space, cr3 & 0xffffffe0, pdpte, sizeof(pdpte)))
		memset(pdpte, 0, sizeof(pdpte));
	for (int i = 0; i < 4; i++)
		if ((pdpte[i] & PTE_P) && (pdpte[i] & rsvd))
			return false;
	memcpy(m->pdptr, pdpte, sizeof(pdpte));
	return true;
}

/* --- invalidation by the guest -------------------------------------------- */

/* Baseline of S0: KVM without EPT before 2018 dropped the whole VPID for one
 * address: all PCIDs, globals, structure caches, jump caches. */
static void flush_address(struct mmu *m, const struct tlb_key *key, gva_t gva,
			  bool globals)
{
	if (m->tlb.config.invlpg_context) {
		m->tlb.stats.tlb_flush_context++;
		tlb_drop_vpid(&m->tlb, key->vpid, true);
		return;
	}
	m->tlb.stats.tlb_flush_address++;
	tlb_drop_address(&m->tlb, key, gva, globals);
}

void mmu_invlpg(struct mmu *m, gva_t gva)
{
	struct tlb_key key = current_key(m);

	if (!(m->efer & EFER_LMA))
		gva &= 0xffffffff;
	else if (!addr_is_canonical(gva))
		return;
	m->tlb.stats.flush_invlpg++;
	flush_address(m, &key, gva, true);
}

void mmu_invpcid(struct mmu *m, unsigned type, unsigned pcid, gva_t gva)
{
	struct tlb_key key = current_key(m);

	key.pcid = pcid;
	m->tlb.stats.flush_invpcid++;
	switch (type) {
	case 0:
		flush_address(m, &key, gva, false);
		break;
	case 1:
		flush_pcid(m, &key);
		break;
	default:
		flush_vpid(m, type == 2);
		break;
	}
}

void mmu_flush_guest(struct mmu *m)
{
	m->tlb.stats.flush_guest++;
	flush_vpid(m, true);
}

void mmu_set_space(struct mmu *m, unsigned space)
{
	if (m->space == space)
		return;
	m->space = (u8)space;
	/* Every PCID, untranslated addresses and page-table caches among them. */
	mmu_flush_guest(m);
}

void mmu_set_watch(struct mmu *m, unsigned n)
{
	if (!n && !m->nwatch)
		return;
	m->nwatch = (u8)n;
	m->watch_hits = 0;
	mmu_flush_guest(m);
}

/* --- guest mode ----------------------------------------------------------- */

static void serve(void *arg)
{
	struct mmu *m = arg;
	struct track_work w;

	track_take(m->track, &w);
	if (w.kinds & TRACK_ALL) {
		m->tlb.stats.flush_memory++;
		m->tlb.stats.tlb_flush_all++;
		tlb_drop_all(&m->tlb);
		m->last_generation = 0;
		m->slots_seen++;
	} else if (w.kinds & TRACK_WRITES) {
		m->tlb.stats.flush_memory++;
		tlb_drop_writes(&m->tlb);
	}
	for (u32 i = 0; i < w.pages; i++) {
		m->tlb.stats.track_revokes++;
		tlb_drop_page_writes(&m->tlb, w.page[i], 0);
	}
	track_done(m->track, w.count);
}

void mmu_poll(struct mmu *m)
{
	atomic_fetch_and(m->track->attn, ~ATTN_MEM);
	if (track_pending(m->track))
		serve(m);
}

void mmu_enter_guest(struct mmu *m)
{
	track_enter(m->track);
	mmu_poll(m);
}

void mmu_exit_guest(struct mmu *m)
{
	track_exit(m->track);
}

static void serve_while_waiting(void *arg)
{
	struct mmu *m = arg;

	if (track_pending(m->track))
		serve(m);
}

bool mmu_track_page(struct mmu *m, struct mmu_code *code, u32 flag)
{
	bool in_guest = m->track->in_guest;
	u32 seen = m->slots_seen;

	mem_flag_page(m->mem, code->bp, flag, in_guest ? m->track : NULL,
		      in_guest ? serve_while_waiting : NULL, m);
	if (code->bp->writers & m->tlb.writer) {
		m->tlb.stats.track_revokes++;
		tlb_drop_page_writes(&m->tlb, code->bp, code->gva);
	}
	m->tlb.stats.track_waits = m->track->waits;
	m->tlb.stats.track_wait_ns = m->track->wait_ns;
	return seen == m->slots_seen;
}
