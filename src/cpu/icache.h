/* SPDX-License-Identifier: MIT */
/*
 * Decoded instructions, kept as blocks by backing page and offset.
 *
 * One cache a vCPU.  Sharing one among the VM's vCPUs would save some decoding
 * (well under a second of a boot) and cost a lock or deferred freeing on the
 * hottest path; a private one also lets each vCPU's own CPUID decide which
 * handler a form gets.  What is shared lives in struct bpage: `code_gen`, and
 * in `code` a map of the 128-byte granules that anybody decoded.
 *
 * Who learns of changed code, and how:
 *  - a vCPU that stores into a page with BP_CODE reports it (icache_code_write);
 *    if the store meets a decoded granule, code_gen moves on.  Every vCPU
 *    compares it at each block entry and drops the page's blocks.  The storing
 *    vCPU leaves its running block at once (ATTN_CODE).
 *  - the client's writes are announced by mem->epoch: at the first entry of a
 *    page in a new epoch its decoded 64-byte lines are compared with the copy
 *    they were decoded from.
 * code_gen is odd while a page is being released from BP_CODE: nobody keeps
 * what he decodes meanwhile.
 *
 * A block ends at a branch, before a page end, and after 48 instructions.  An
 * instruction across a page end is a block of its own that compares the bytes
 * of its second page at every execution.
 *
 * Memory is one reservation, made with the vCPU, in 4 KiB chunks; when it is
 * used up, the pages used longest ago go.
 */
#ifndef LOCUM_CPU_ICACHE_H
#define LOCUM_CPU_ICACHE_H

#include "cpu/handlers.h"
#include "cpu/state.h"

#define ICACHE_BLOCK_MAX 48   /* instructions a block */
#define ICACHE_JUMP	 16384 /* entries of the table by page and offset */
#define ICACHE_LINE	 64   /* bytes: unit of comparison with the client's memory */
#define ICACHE_GRANULE	 128  /* bytes: unit of the shared map in bpage.code */
/* In bpage.code: there has been code.  The low 32 bits are the granules. */
#define ICACHE_MARK	 BIT64(63)

/** struct icache_config - @max_bytes: of decoded code a vCPU; 0: default */
struct icache_config {
	u64 max_bytes;
};

/** struct icode - one decoded instruction and what executes it */
struct icode {
	op_fn fn;
	struct insn insn;
};

/**
 * struct block - consecutive instructions
 * @off:    of the first byte in the page; @bits: 16, 32, 64: mode it was decoded in
 * @n:      instructions; @body: those before a final branch
 * @bytes:  length of all
 * @tail:   the bytes in the next page, of a block with @ntail != 0
 * @chain:  blocks of the same page that followed it last
 * @runs:   how often it was executed by an engine that counts
 * @native: what a translator made of it (jit/), or NULL; goes with the block
 * @live:   arithmetic flags that it may read before it writes them, if
 *          @live_known
 */
struct block {
	struct block *next; /* of the same line of the page */
	struct cpage *page;
	struct bpage *bp;
	u16 off;
	u16 bytes;
	u8 bits, n, body, ntail;
	u8 tail[16];
	struct block *chain[2];
	void *native;
	u16 live;
	bool live_known;
	u8 runs;
	struct icode code[];
};

/** struct cpage - a page that has decoded blocks
 * @gen:   code_gen at which they were decoded; @epoch: verified in this epoch
 * @lines: 64-byte lines that are in @copy */
struct cpage {
	struct bpage *bp;
	u64 epoch;
	u32 gen;
	u32 used_at;
	u64 lines;
	u8 *copy;
	struct icache_chunk *chunks; /* first one is being filled */
	u32 fill;		     /* bytes used of it */
	struct cpage *hash_next;
	struct block *line[PAGE_SIZE / ICACHE_LINE];
};

struct icache {
	struct block *jump[ICACHE_JUMP];
	struct cpage **hash;
	u32 hash_mask;
	struct cpage *pages; /* pool of npages */
	u32 npages, pages_used;
	struct cpage *free_pages;
	struct icache_chunk *free_chunks;
	u8 *pool, *pool_next, *pool_end;
	size_t map_bytes;
	void *map;
	u32 clock; /* of used_at */
	u64 drops; /* counts drop_blocks(): block pointers held outside are stale */
	/* Instructions that cannot be kept: device memory, a page in transition. */
	struct block *scratch;
};

/** icache_index() - of jump[] for offset @off of the page of @bp */
static inline unsigned icache_index(const struct bpage *bp, unsigned off)
{
	u64 h = ((uintptr_t)bp >> 3) * 0x9e3779b97f4a7c15ull + off * 0x9e3779b1ull;

	return (unsigned)(h >> 32 ^ off) % ICACHE_JUMP;
}

/** icache_create() - Return: NULL without memory */
struct icache *icache_create(const struct icache_config *config);
void icache_destroy(struct icache *ic);

/** icache_flush() - forget everything: the vCPU's CPUID changed.  On the vCPU's
 * own thread, outside the engine. */
void icache_flush(struct icache *ic);

/**
 * icache_code_write() - for mem_ops.code_write: @n bytes at offset @off of the
 * page of @bp were written, and the store is visible.  Any thread.
 * Return: true if it met decoded code; the caller then counts it in
 * mem->code_changes and sets ATTN_CODE for every vCPU, because translated code
 * looks at neither the page nor the count between two blocks.
 */
bool icache_code_write(struct bpage *bp, unsigned off, unsigned n);

/**
 * icache_lookup() - the block at linear address @pc, decoded if need be
 * Resolves the page, verifies it (generation, epoch) and all that struct block
 * promises; what comes back may be executed.  It is valid until the next call
 * into icache.
 * Return: EMUL_CONTINUE; EMUL_FAULT: fetch fault (#PF, #GP); EMUL_RETRY.
 */
enum emul icache_lookup(struct cpu *c, gva_t pc, struct block **b) must_check;

/** icache_peek() - the block decoded at offset @off of @p in mode @bits, NULL if
 * there is none; it need not be current */
struct block *icache_peek(const struct cpage *p, unsigned off, unsigned bits);

/** icache_current() - may @b (looked up earlier, mapping unchanged) still run? */
static always_inline bool icache_current(const struct cpu *c, const struct block *b)
{
	const struct cpage *p = b->page;

	return p->gen == __atomic_load_n((const u32 *)&b->bp->code_gen, __ATOMIC_RELAXED) &&
	       p->epoch == __atomic_load_n((const u64 *)&c->mmu.mem->epoch, __ATOMIC_RELAXED);
}

/** icache_find() - the block at linear address @pc if that is known without any
 * work: by the code TLB and the cache's table.  NULL otherwise.  What comes back
 * may be executed. */
static inline struct block *icache_find(struct cpu *c, gva_t pc)
{
	const struct tlb_table *t = &c->mmu.tlb.class->table[TLB_CODE];
	const struct tlb_code_entry *e = t->entry;
	unsigned off = (unsigned)(pc & ~PAGE_MASK);
	struct block *b;

	e += tlb_index(pc, t->mask);
	if (pc + e->negtag >= PAGE_SIZE)
		return NULL;
	b = c->icache->jump[icache_index(e->bp, off)];
	return b && b->bp == e->bp && b->off == off && b->bits == c->code_bits &&
			       icache_current(c, b)
		       ? b
		       : NULL;
}

/* --- for icache.c and icache_decode.c ------------------------------------------ */

/** icache_alloc() - room for a block of @n instructions in page @p, from the
 * pool; may drop other pages, never @p.  Return: NULL if the pool is too small. */
struct block *icache_alloc(struct icache *ic, struct cpage *p, unsigned n);

/** icache_line() - have the lines of [@off, @off + @n) of @p in its copy, and
 * stores to them reported, from before they were read
 * @code: where the page is.  Return: false: the page changed meanwhile. */
bool icache_line(struct cpu *c, struct cpage *p, const struct mmu_code *code, unsigned off,
		 unsigned n);

/**
 * icache_decode() - decode a block at @pc, offset @off of page @p, into @out
 * @p: NULL: into the scratch block, one instruction, not kept
 * Return: EMUL_CONTINUE; EMUL_FAULT: the fetch of the first instruction faults;
 * EMUL_RETRY: the page changed meanwhile.
 */
enum emul icache_decode(struct cpu *c, struct cpage *p, const struct mmu_code *code,
			gva_t pc, struct block **out) must_check;

#endif
