/* SPDX-License-Identifier: MIT */
/*
 * The TLB: contexts, not tags in entries.
 *
 * A space is an address space, {vpid, eptp, pcid}.  It has up to three classes,
 * made on first use: user, supervisor with AC=0, supervisor with AC=1 (SMAP).
 * A class has three direct-mapped tables: read, write, code.  An entry exists
 * only where the access needs no further thought: permission, accessed and
 * dirty bits, RAM, no tracking flag.  Switching CR3, CPL or AC swaps pointers.
 *
 * Behind the tables stands a second level, tagged, without classes: what a walk
 * found, rights included.  Each space has a cache of page tables for walks.
 *
 * Invalidation is exact: large pages are found by counts of what is there, global
 * pages by a count over all spaces, so that INVLPG clears no context and costs
 * what it drops.  All state is the vCPU thread's own, except bpage.writers.
 */
#ifndef LOCUM_MMU_TLB_H
#define LOCUM_MMU_TLB_H

#include "base/bits.h"
#include "mem/track.h"

#define TLB_FIRST_DATA 256
#define TLB_FIRST_CODE 64
#define TLB_MIN_SIZE   4 /* slots; see tlb_empty() */
#define TLB_MAX_SIZE   4096
#define TLB_MAX_SPACES 64
#define TLB_MAX_BYTES  (32u << 20) /* of class tables, a vCPU */
#define TLB_HASH       4096	   /* buckets of the filters */
#define TLB_WRITE_HASH 32768	   /* of that of pages with write entries */
#define TLB_CODE_HASH  32768	   /* of that of code pages: half for each half of the addresses */
#define TLB_LARGE      256	   /* buckets a size of tlb_table.large, likewise */

/** struct tlb_entry - read and write tables; layout is used by emitted code
 * @negtag: minus the gva of the page
 * @addend: host address - guest address
 * An access of n bytes at gva hits the entry of gva's slot if and only if
 * gva + n-1 + negtag < 4096 (unsigned): one compare for page, page crossing
 * and emptiness. */
struct tlb_entry {
	u64 negtag;
	u64 addend;
};

struct tlb_code_entry {
	u64 negtag;
	u8 *hva; /* of the page's first byte */
	struct bpage *bp;
	u64 reserved;
};

_Static_assert(sizeof(struct tlb_entry) == 16, "emitted code scales by 16");
_Static_assert(sizeof(struct tlb_code_entry) == 32, "emitted code scales by 32");

/** tlb_empty() - negtag of an empty slot @i: a page that neither an access to a
 * page of this slot nor one that begins there and crosses can end in, given
 * four slots or more */
static inline u64 tlb_empty(u32 i)
{
	return -((u64)(i + 2) << PAGE_SHIFT);
}

static inline u32 tlb_index(u64 gva, u32 mask)
{
	return (u32)(gva >> PAGE_SHIFT) & mask;
}

/* Beside each entry: the size of the guest's page, and G. */
enum tlb_size { TLB_4K, TLB_2M, TLB_4M, TLB_1G, TLB_SIZES };
#define TLB_SIZE_MASK 3u
#define TLB_GLOBAL    BIT(2)

enum tlb_kind { TLB_READ, TLB_WRITE, TLB_CODE, TLB_KINDS };

struct tlb_table {
	void *entry;	   /* struct tlb_entry or tlb_code_entry [mask + 1] */
	u8 *meta;	   /* enum tlb_size | TLB_GLOBAL */
	struct bpage **bp; /* TLB_WRITE only */
	u32 mask;
	u32 used;      /* entries that are not empty */
	u32 globals;   /* of them, global ones */
	u32 replaced;  /* evictions since the table was last judged */
	u64 touched;   /* bit i >> 6: there may be entries in slots i..i+63 */
	u16 large[TLB_SIZES - 1][TLB_LARGE]; /* entries of large pages, by size and page */
};

enum tlb_class_id { CLASS_USER, CLASS_SUP, CLASS_SUP_AC, CLASS_COUNT };

struct tlb_class {
	struct tlb_table table[TLB_KINDS];
};

/** struct tlb_key - what an address space is
 * @eptp: 0 without a second stage; @vpid: 0 the guest itself (L1) */
struct tlb_key {
	u64 eptp;
	u32 vpid;
	u32 pcid;
};

/* What the levels of a walk allow together. */
#define RIGHT_W	 BIT(0) /* R/W set in all */
#define RIGHT_U	 BIT(1) /* U/S set in all */
#define RIGHT_NX BIT(2) /* set in one */
#define RIGHT_D	 BIT(3) /* the leaf is dirty */
#define RIGHT_G	 BIT(4) /* the leaf is global, and CR4.PGE is set */

/** struct psc_entry - a cached page table, for one 2M or 1G of addresses
 * @tag:   gva >> 21 (or 30), valid if @gen is the space's
 * @table: host address of the table; @slot: where it lies
 * @rights: RIGHT_* of the levels above */
struct psc_entry {
	u64 tag, gen;
	u64 *table;
	struct memslot *slot;
	u8 rights;
};

#define PSC_PT 64 /* tables of level 1 */
#define PSC_PD 16 /* tables of level 2 */

/** struct tlb_group - the spaces of one vpid and eptp: they share global pages
 * @spaces: live ones; 0: free.  @tag, @l2_used: of global entries in level 2 */
struct tlb_group {
	u64 tag;
	u32 l2_used;
	u32 spaces;
};

struct tlb_space {
	struct tlb_key key;
	struct tlb_group *group; /* NULL: the space stands for nothing */
	u64 last_used;
	u64 id;	      /* unique; changes when the space stands for another key */
	u64 code_gen; /* see struct tlb */
	u64 tag;      /* of its entries in the second level */
	u32 l2_used;  /* and how many they are */
	struct tlb_class *class[CLASS_COUNT];
	u64 psc_gen;
	struct psc_entry pt[PSC_PT], pd[PSC_PD];
	u64 code_pages[TLB_CODE_HASH / 64]; /* filter: pages that code was fetched from */
};

/** struct tlb_l2_entry - what a walk found
 * @page:   gva >> shift of its size, with the size in bits 63:62
 * @tag:    the space's or its group's; 0: none
 * @frame:  guest-physical address of the page
 * @rights: RIGHT_*; @owner: index of the space, or L2_GLOBAL and the group's */
struct tlb_l2_entry {
	u64 page, tag, frame;
	u8 rights, owner;
};

#define L2_SETS	  1024
#define L2_WAYS	  4
#define L2_GLOBAL 0x80

/** struct tlb_config - @size 0: adaptive; else entries a table, a power of 2
 * @spaces 1..64, 0: 16; @invlpg_context: INVLPG drops the whole VPID (baseline)
 * @max_bytes: of class tables, 0: TLB_MAX_BYTES */
struct tlb_config {
	u32 size;
	u32 spaces;
	bool invlpg_context;
	size_t max_bytes;
};

struct tlb_stats {
#define TLB_STAT(name, what) u64 name;
#include "mmu/tlb_stats.def"
#undef TLB_STAT
};

struct tlb {
	/* Current tables; emitted code reads these. */
	struct tlb_entry *rd, *wr;
	u32 rd_mask, wr_mask;
	/* The same masks in place for emitted code: over bits of a gva, and as a
	 * distance in bytes from the table's start. */
	u64 rd_bits, wr_bits, rd_span, wr_span;
	/*
	 * For caches keyed by virtual address (jump caches).  What was derived from
	 * mmu_fetch() at some address holds while code_gen is the same under the
	 * same context_id.  context_id names space and class and is never used
	 * for anything else later; code_gen is the current space's: it changes
	 * when a code translation of the space may have been invalidated, so it
	 * also differs after a switch, and is back after a switch and back.
	 * Values are unique: code_gen of two spaces are never equal.
	 */
	u64 code_gen;
	u64 context_id; /* space id * 4 + class */
	/*
	 * Code of global pages is the same in every space of a group: a cache may hold
	 * it for all of them, with what tlb_code_is_global() has agreed to, while
	 * global_code_gen is the same.
	 */
	u64 global_code_gen;
	u64 global_code[TLB_CODE_HASH / 64]; /* filter: what it has agreed to */

	/* Alignment is checked: rd and wr are @none, where nothing ever hits, so that
	 * every access takes the slow path, which looks into the class itself. */
	bool aligned;
	struct tlb_entry none[TLB_MIN_SIZE];

	struct tlb_space *space; /* current */
	struct tlb_class *class; /* current, as class_id */
	enum tlb_class_id class_id;
	struct tlb_config config;
	struct tlb_space *spaces; /* config.spaces of them */
	struct tlb_group *groups; /* as many */
	u64 clock, next_id, next_gen, next_tag;
	u64 writer;		     /* this vCPU's bit in bpage.writers */
	size_t bytes;		     /* of class tables */
	u32 classes;		     /* that exist; CLASS_COUNT at least */
	struct tlb_l2_entry *l2;     /* [L2_SETS * L2_WAYS] */
	u32 l2_size_used[TLB_SIZES]; /* entries ever made of a size, since the last full
					flush */
	u8 l2_next;
	u32 global_pages[TLB_HASH]; /* global entries of all spaces, by hash */
	u32 write_pages[TLB_WRITE_HASH]; /* write entries of all spaces, by hash of bpage */
	struct tlb_stats stats;
};

/** tlb_init() - @config is copied; @writer: this vCPU's bit in bpage.writers
 * Return: 0 or -ENOMEM */
int tlb_init(struct tlb *t, const struct tlb_config *config, u64 writer) must_check;
void tlb_fini(struct tlb *t);

/** tlb_select() - make the tables of {@key, @class} current, reclaiming a space
 * if needed; never fails: without memory another class gives its tables */
void tlb_select(struct tlb *t, const struct tlb_key *key, enum tlb_class_id class);

/** tlb_set_aligned() - see struct tlb; the current tables change */
void tlb_set_aligned(struct tlb *t, bool on);

/** tlb_class_of() - the class @id of the current space, made if needed */
struct tlb_class *tlb_class_of(struct tlb *t, enum tlb_class_id id);

/** tlb_fill() - enter page @gva into table @kind of class @c
 * @hva: host address of the page; @meta: enum tlb_size | TLB_GLOBAL; @bp: of the
 * page, not for TLB_READ.  Growth may replace the table, not its entries. */
void tlb_fill(struct tlb *t, struct tlb_class *c, enum tlb_kind kind, u64 gva, u8 *hva,
	      u8 meta, struct bpage *bp);

/** tlb_may_write() - the filler's half of write tracking: announce a write entry
 * for @bp.  Return: false if @bp is tracked; then no entry may be made. */
bool tlb_may_write(struct tlb *t, struct bpage *bp);

/** tlb_l2_find() - entry of @gva in the current space, NULL if none;
 * *@size: of the page */
const struct tlb_l2_entry *tlb_l2_find(struct tlb *t, u64 gva, enum tlb_size *size);
/** tlb_l2_add() - remember what a walk found; @frame is aligned to the size */
void tlb_l2_add(struct tlb *t, u64 gva, enum tlb_size size, u64 frame, u8 rights);

/** tlb_drop_address() - every entry of the page that holds @gva in the spaces of
 * @key's vpid and pcid, whatever its size, and their page-table caches; with
 * @globals also the global ones in every space of the vpid (INVLPG), without
 * it no global one (INVPCID).  Exact: nothing else goes. */
void tlb_drop_address(struct tlb *t, const struct tlb_key *key, u64 gva, bool globals);
/** tlb_drop_pcid() - everything of @key's vpid and pcid but global entries */
void tlb_drop_pcid(struct tlb *t, const struct tlb_key *key);
/** tlb_drop_vpid() - everything of @vpid; global entries too or not */
void tlb_drop_vpid(struct tlb *t, u32 vpid, bool globals);
/** tlb_drop_all() - everything (memory slots changed) */
void tlb_drop_all(struct tlb *t);
/** tlb_drop_writes() - every write entry of every space */
void tlb_drop_writes(struct tlb *t);
/** tlb_drop_page_writes() - the write entries for backing page @bp
 * @gva: where one probably is; only a guess */
void tlb_drop_page_writes(struct tlb *t, struct bpage *bp, u64 gva);

/** tlb_code_is_global() - code at @gva is fetched from a global page, by an entry that
 * is there; that this was asked is remembered, see struct tlb */
bool tlb_code_is_global(struct tlb *t, u64 gva);

/** tlb_count() - entries in the first level of all spaces (tests, statistics) */
u64 tlb_count(const struct tlb *t);

#endif
