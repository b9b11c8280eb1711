/* SPDX-License-Identifier: MIT */
/* Backing pages: found by identity, made on first use, kept until the VM goes. */
#include "base/pages.h"
#include "mem/mem.h"

static unsigned bucket_of(u64 dev, u64 ino, u64 key)
{
	u64 h = (key / BPAGE_CHUNK + ino * 0x9e3779b97f4a7c15ull + dev) *
		0xff51afd7ed558ccdull;

	return (unsigned)(h >> 40) % BPAGE_BUCKETS;
}

static struct bpage_chunk *find_chunk(struct mem *mem, unsigned b, u64 dev, u64 ino,
				      u64 key)
{
	struct bpage_chunk *c =
		atomic_load_explicit(&mem->bucket[b], memory_order_acquire);

	while (c && (c->key != key || c->ino != ino || c->dev != dev))
		c = c->next;
	return c;
}

static struct bpage_chunk *make_chunk(struct mem *mem, unsigned b, u64 dev, u64 ino,
				      u64 key)
{
	pthread_mutex_lock(&mem->chunk_lock);
	struct bpage_chunk *c = find_chunk(mem, b, dev, ino, key);

	if (!c && (c = pages_alloc(sizeof(*c)))) {
		c->dev = dev;
		c->ino = ino;
		c->key = key;
		c->next = mem->bucket[b];
		atomic_store_explicit(&mem->bucket[b], c, memory_order_release);
	}
	pthread_mutex_unlock(&mem->chunk_lock);
	return c;
}

static const struct mem_segment *find_segment(const struct memslot *slot, u64 off)
{
	u32 lo = 0, hi = slot->nsegments - 1;

	while (lo < hi) {
		u32 mid = (lo + hi) / 2;

		if (off - slot->segment[mid].first < slot->segment[mid].npages)
			return &slot->segment[mid];
		if (off < slot->segment[mid].first)
			hi = mid - 1;
		else
			lo = mid + 1;
	}
	return &slot->segment[lo];
}

struct bpage *mem_bpage(struct mem *mem, const struct memslot *slot, u64 off)
{
	const struct mem_segment *s = find_segment(slot, off);
	u64 page = s->key + (off - s->first), key = page & ~(u64)(BPAGE_CHUNK - 1);
	unsigned b = bucket_of(s->dev, s->ino, key);
	struct bpage_chunk *c = find_chunk(mem, b, s->dev, s->ino, key);

	if (!c)
		c = make_chunk(mem, b, s->dev, s->ino, key);
	return c ? &c->page[page - key] : NULL;
}

u32 mem_written(struct mem *mem, struct bpage *bp, unsigned off, unsigned n)
{
	/* Pairs with the atomic OR in mem_flag_page(). */
	atomic_thread_fence(memory_order_seq_cst);
	u32 flags = atomic_load(&bp->flags);

	if ((flags & BP_CODE) && mem->ops && mem->ops->code_write)
		mem->ops->code_write(mem->opaque, bp, off, n);
	return flags;
}

void mem_flag_page(struct mem *mem, struct bpage *bp, u32 flag, struct track_vcpu *self,
		   void (*serve)(void *arg), void *arg)
{
	atomic_fetch_or(&bp->flags, flag);
	u64 mask = atomic_load(&bp->writers);

	if (self)
		mask &= ~BIT64(self->id);
	if (mask)
		track_request(mem, mask, TRACK_PAGE, bp, self, serve, arg);
}
