/* SPDX-License-Identifier: MIT */
#include "cpu/icache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bug.h"

#define DEFAULT_MAX_BYTES (64ull << 20)
#define MIN_CHUNKS	  64
#define CHUNK_BYTES	  4096u

struct icache_chunk {
	struct icache_chunk *next;
	u8 data[CHUNK_BYTES - sizeof(struct icache_chunk *)];
};

BUILD_BUG_ON(sizeof(struct block) + ICACHE_BLOCK_MAX * sizeof(struct icode) >
	     CHUNK_BYTES - sizeof(struct icache_chunk *));

/* --- the pool --------------------------------------------------------------- */

static u32 round_pow2(u32 v)
{
	u32 r = 1;

	while (r < v)
		r <<= 1;
	return r;
}

struct icache *icache_create(const struct icache_config *config)
{
	u64 max = config && config->max_bytes ? config->max_bytes : DEFAULT_MAX_BYTES;
	u64 chunks = MAX(max / CHUNK_BYTES, (u64)MIN_CHUNKS);
	struct icache *ic = calloc(1, sizeof(*ic));
	size_t pages_bytes, hash_bytes, scratch = CHUNK_BYTES;

	if (!ic)
		return NULL;
	/* A page needs two chunks at least. */
	ic->npages = (u32)(chunks / 2);
	ic->hash_mask = round_pow2(ic->npages) - 1;
	pages_bytes = ALIGN_UP(ic->npages * sizeof(struct cpage), (size_t)CHUNK_BYTES);
	hash_bytes = ALIGN_UP((ic->hash_mask + 1ul) * sizeof(ic->hash[0]),
			      (size_t)CHUNK_BYTES);
	ic->map_bytes = chunks * CHUNK_BYTES + pages_bytes + hash_bytes + scratch;
	ic->map = mmap(NULL, ic->map_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ic->map == MAP_FAILED) {
		free(ic);
		return NULL;
	}
	madvise(ic->map, ic->map_bytes, MADV_DONTFORK);
	ic->pool = ic->pool_next = ic->map;
	ic->pool_end = ic->pool + chunks * CHUNK_BYTES;
	ic->pages = (struct cpage *)ic->pool_end;
	ic->hash = (struct cpage **)(ic->pool_end + pages_bytes);
	ic->scratch = (struct block *)(ic->pool_end + pages_bytes + hash_bytes);
	return ic;
}

void icache_destroy(struct icache *ic)
{
	if (!ic)
		return;
	munmap(ic->map, ic->map_bytes);
	free(ic);
}

static u32 page_index(const struct icache *ic, const struct bpage *bp)
{
	return (u32)(((uintptr_t)bp >> 3) * 0x9e3779b97f4a7c15ull >> 32) & ic->hash_mask;
}

static struct cpage *find_page(struct icache *ic, const struct bpage *bp)
{
	struct cpage *p = ic->hash[page_index(ic, bp)];

	while (p && p->bp != bp)
		p = p->hash_next;
	return p;
}

/* Forget the blocks and lines of @p; the page itself stays. */
static void drop_blocks(struct icache *ic, struct cpage *p)
{
	struct icache_chunk *last = p->chunks;

	ic->drops++;
	for (unsigned l = 0; l < ARRAY_SIZE(p->line); l++) {
		for (struct block *b = p->line[l]; b; b = b->next) {
			unsigned j = icache_index(b->bp, b->off);

			if (ic->jump[j] == b)
				ic->jump[j] = NULL;
		}
		p->line[l] = NULL;
	}
	p->lines = 0;
	if (!last)
		return;
	while (last->next)
		last = last->next;
	last->next = ic->free_chunks;
	ic->free_chunks = p->chunks;
	p->chunks = NULL;
	p->fill = 0;
}

static void drop_page(struct icache *ic, struct cpage *p)
{
	struct cpage **at = &ic->hash[page_index(ic, p->bp)];
	struct icache_chunk *copy = (struct icache_chunk *)(void *)p->copy;

	drop_blocks(ic, p);
	while (*at != p)
		at = &(*at)->hash_next;
	*at = p->hash_next;
	copy->next = ic->free_chunks;
	ic->free_chunks = copy;
	p->bp = NULL;
	p->copy = NULL;
	p->hash_next = ic->free_pages;
	ic->free_pages = p;
}

/* Make room: of all pages but @keep the older half goes. */
static void evict(struct icache *ic, const struct cpage *keep)
{
	u32 now = ic->clock, sum = 0, n = 0;

	for (u32 i = 0; i < ic->pages_used; i++) {
		const struct cpage *p = &ic->pages[i];

		if (p->bp && p != keep) {
			sum += (now - p->used_at) >> 8;
			n++;
		}
	}
	for (u32 i = 0; i < ic->pages_used; i++) {
		struct cpage *p = &ic->pages[i];

		if (p->bp && p != keep && (now - p->used_at) >> 8 >= sum / MAX(n, 1u))
			drop_page(ic, p);
	}
}

static struct icache_chunk *take_chunk(struct icache *ic)
{
	struct icache_chunk *k = ic->free_chunks;

	if (k) {
		ic->free_chunks = k->next;
		return k;
	}
	if (ic->pool_next == ic->pool_end)
		return NULL;
	k = (struct icache_chunk *)(void *)ic->pool_next;
	ic->pool_next += CHUNK_BYTES;
	return k;
}

static struct icache_chunk *get_chunk(struct icache *ic, const struct cpage *keep)
{
	struct icache_chunk *k = take_chunk(ic);

	if (!k) {
		evict(ic, keep);
		k = take_chunk(ic);
	}
	return k;
}

struct block *icache_alloc(struct icache *ic, struct cpage *p, unsigned n)
{
	u32 bytes = (u32)(sizeof(struct block) + n * sizeof(struct icode));
	struct block *b;

	if (!p->chunks || p->fill + bytes > sizeof(p->chunks->data)) {
		struct icache_chunk *k = get_chunk(ic, p);

		if (!k)
			return NULL;
		k->next = p->chunks;
		p->chunks = k;
		p->fill = 0;
	}
	b = (struct block *)(void *)(p->chunks->data + p->fill);
	p->fill += bytes;
	return b;
}

static struct cpage *take_page(struct icache *ic)
{
	struct cpage *p = ic->free_pages;

	if (p)
		ic->free_pages = p->hash_next;
	else if (ic->pages_used < ic->npages)
		p = &ic->pages[ic->pages_used++];
	return p;
}

static struct cpage *make_page(struct icache *ic, struct bpage *bp)
{
	struct cpage *p = take_page(ic);
	struct icache_chunk *copy;

	if (!p) {
		evict(ic, NULL);
		p = take_page(ic);
	}
	if (!p)
		return NULL;
	memset(p, 0, sizeof(*p));
	copy = get_chunk(ic, p);
	if (!copy) {
		p->hash_next = ic->free_pages;
		ic->free_pages = p;
		return NULL;
	}
	p->bp = bp;
	p->copy = (u8 *)copy;
	p->hash_next = ic->hash[page_index(ic, bp)];
	ic->hash[page_index(ic, bp)] = p;
	return p;
}

void icache_flush(struct icache *ic)
{
	for (u32 i = 0; i < ic->pages_used; i++)
		if (ic->pages[i].bp)
			drop_page(ic, &ic->pages[i]);
}

/* --- changes of code --------------------------------------------------------- */

static u64 granules(unsigned off, unsigned n)
{
	return GENMASK64((off + n - 1) / ICACHE_GRANULE, off / ICACHE_GRANULE);
}

static u64 *code_map(struct bpage *bp)
{
	BUILD_BUG_ON(sizeof(bp->code) != sizeof(u64));
	return (u64 *)(void *)&bp->code;
}

/*
 * The store is visible before the map is read, and whoever decodes sets the map
 * before he reads the bytes: one of the two sees the other.  The generation is
 * odd from before the map is emptied until after BP_CODE is gone, so that a
 * vCPU that found BP_CODE still set in between does not keep its blocks.
 */
bool icache_code_write(struct bpage *bp, unsigned off, unsigned n)
{
	u32 *gen = (u32 *)(void *)&bp->code_gen, g;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!(__atomic_load_n(code_map(bp), __ATOMIC_SEQ_CST) & granules(off, n)))
		return false;
	g = __atomic_load_n(gen, __ATOMIC_SEQ_CST);
	/* Odd: another thread is at it, and our store came before its end. */
	if (g & 1 || !__atomic_compare_exchange_n(gen, &g, g + 1, false, __ATOMIC_SEQ_CST,
						  __ATOMIC_SEQ_CST))
		return false;
	__atomic_store_n(code_map(bp), ICACHE_MARK, __ATOMIC_SEQ_CST);
	__atomic_fetch_and((u32 *)(void *)&bp->flags, ~(u32)BP_CODE, __ATOMIC_SEQ_CST);
	__atomic_store_n(gen, g + 2, __ATOMIC_SEQ_CST);
	return true;
}

static u64 lines_of(unsigned off, unsigned n)
{
	return GENMASK64((off + n - 1) / ICACHE_LINE, off / ICACHE_LINE);
}

bool icache_line(struct cpu *c, struct cpage *p, const struct mmu_code *code, unsigned off,
		 unsigned n)
{
	u64 want = lines_of(off, n) & ~p->lines;
	struct bpage *bp = p->bp;

	if (!want)
		return true;
	__atomic_fetch_or(code_map(bp), granules(off, n) | ICACHE_MARK, __ATOMIC_SEQ_CST);
	/* False: slots changed while we waited, and code->hva may be gone. */
	if (!mmu_track_page(&c->mmu, (struct mmu_code *)code, BP_CODE))
		return false;
	for (u64 w = want; w; w &= w - 1) {
		unsigned at = (unsigned)bits_ffs64(w) * ICACHE_LINE;

		memcpy(p->copy + at, code->hva + at, ICACHE_LINE);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n((u32 *)(void *)&bp->code_gen, __ATOMIC_SEQ_CST) != p->gen)
		return false;
	p->lines |= want;
	return true;
}

/* The client may have written: compare what was decoded. */
static bool lines_equal(const struct cpage *p, const u8 *hva)
{
	for (u64 w = p->lines; w; w &= w - 1) {
		unsigned at = (unsigned)bits_ffs64(w) * ICACHE_LINE;

		if (memcmp(p->copy + at, hva + at, ICACHE_LINE))
			return false;
	}
	return true;
}

static void verify(struct cpu *c, struct cpage *p, const u8 *hva)
{
	u64 epoch = __atomic_load_n((u64 *)(void *)&c->mmu.mem->epoch, __ATOMIC_SEQ_CST);
	u64 start;

	if (p->epoch == epoch)
		return;
	if (p->lines) {
		start = c->clock->now_ns(c->clock);
		if (!lines_equal(p, hva)) {
			drop_blocks(c->icache, p);
			c->stats->blocks_invalidated++;
		}
		c->stats->verify_pages++;
		c->stats->verify_ns += c->clock->now_ns(c->clock) - start;
	}
	p->epoch = epoch;
}

/* Bring @p up to date.  Return: false while the page is in transition. */
static bool refresh(struct cpu *c, struct cpage *p, const struct mmu_code *code)
{
	u32 gen = __atomic_load_n((u32 *)(void *)&p->bp->code_gen, __ATOMIC_SEQ_CST);

	if (p->gen != gen) {
		if (p->lines)
			c->stats->blocks_invalidated++;
		drop_blocks(c->icache, p);
		p->gen = gen;
	}
	verify(c, p, code->hva);
	p->used_at = ++c->icache->clock;
	return !(gen & 1);
}

/* --- lookup ------------------------------------------------------------------- */

/* Does the second page still hold what was decoded? */
static enum emul check_tail(struct cpu *c, gva_t pc, const struct block *b, bool *same)
{
	struct mmu_code code;
	enum emul r = mmu_fetch(&c->mmu, (pc & PAGE_MASK) + PAGE_SIZE, &code);

	if (r == EMUL_CONTINUE)
		*same = code.bp && !memcmp(code.hva, b->tail, b->ntail);
	return r;
}

static void unlink_block(struct icache *ic, struct block *b)
{
	struct block **at = &b->page->line[b->off / ICACHE_LINE];
	unsigned j = icache_index(b->bp, b->off);

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	if (ic->jump[j] == b)
		ic->jump[j] = NULL;
}

static struct block *find_block(const struct cpage *p, unsigned off, unsigned bits)
{
	struct block *b = p->line[off / ICACHE_LINE];

	while (b && (b->off != off || b->bits != bits))
		b = b->next;
	return b;
}

struct block *icache_peek(const struct cpage *p, unsigned off, unsigned bits)
{
	struct block *b = find_block(p, off, bits);

	return b && !b->ntail ? b : NULL;
}

static enum emul decode_scratch(struct cpu *c, const struct mmu_code *code, gva_t pc,
				struct block **out)
{
	return icache_decode(c, NULL, code, pc, out);
}

static noinline enum emul lookup_slow(struct cpu *c, const struct mmu_code *code, gva_t pc,
				      struct block **out)
{
	struct icache *ic = c->icache;
	unsigned off = (unsigned)(pc & ~PAGE_MASK);
	struct cpage *p;
	struct block *b;
	enum emul r;

	if (!code->bp)
		return decode_scratch(c, code, pc, out);
	p = find_page(ic, code->bp);
	if (!p)
		p = make_page(ic, code->bp);
	if (!p || !refresh(c, p, code))
		return decode_scratch(c, code, pc, out);
	b = find_block(p, off, c->code_bits);
	if (b && b->ntail) {
		bool same = false;

		r = check_tail(c, pc, b, &same);
		if (r != EMUL_CONTINUE)
			return r;
		if (!same) {
			unlink_block(ic, b);
			b = NULL;
		}
	}
	if (!b) {
		r = icache_decode(c, p, code, pc, &b);
		if (r == EMUL_RETRY)
			return decode_scratch(c, code, pc, out);
		if (r != EMUL_CONTINUE)
			return r;
		if (b != ic->scratch) {
			b->next = p->line[off / ICACHE_LINE];
			p->line[off / ICACHE_LINE] = b;
		}
	}
	if (!b->ntail && b != ic->scratch)
		ic->jump[icache_index(b->bp, off)] = b;
	*out = b;
	return EMUL_CONTINUE;
}

enum emul icache_lookup(struct cpu *c, gva_t pc, struct block **out)
{
	unsigned off = (unsigned)(pc & ~PAGE_MASK);
	struct mmu_code code;
	struct block *b;
	enum emul r = mmu_fetch(&c->mmu, pc, &code);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	b = c->icache->jump[icache_index(code.bp, off)];
	if (likely(b && b->bp == code.bp && b->off == off && b->bits == c->code_bits &&
		   icache_current(c, b))) {
		*out = b;
		return EMUL_CONTINUE;
	}
	return lookup_slow(c, &code, pc, out);
}
