/* SPDX-License-Identifier: MIT */
#include "mem/dirty_ring.h"

#include <errno.h>
#include <stdlib.h>

#include "mem/mem.h"

/* The ring of the vCPU that this thread runs. */
static __thread struct dirty_ring *current __attribute__((tls_model("initial-exec")));

int mem_check_ring_bytes(u64 bytes)
{
	if (!bytes || (bytes & (bytes - 1)) || bytes < PAGE_SIZE ||
	    bytes < DIRTY_RING_RESERVED * sizeof(struct kvm_dirty_gfn))
		return -EINVAL;
	return bytes > DIRTY_RING_MAX_BYTES ? -E2BIG : 0;
}

int mem_set_ring_bytes(struct mem *mem, u64 bytes)
{
	int r = mem_check_ring_bytes(bytes);

	if (r)
		return r;
	pthread_mutex_lock(&mem->lock);
	if (mem->ring_bytes)
		r = -EINVAL;
	else
		mem->ring_bytes = (u32)bytes;
	pthread_mutex_unlock(&mem->lock);
	return r;
}

int dirty_ring_add(struct mem *mem, struct dirty_ring *r, void *gfn, _Atomic u32 *attn,
		   u32 attn_bits)
{
	r->spare = calloc(DIRTY_RING_SPARE, sizeof(*r->spare));
	if (!r->spare)
		return -ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	r->gfn = gfn;
	r->size = mem->ring_bytes / (u32)sizeof(*r->gfn);
	r->attn = attn;
	r->attn_bits = attn_bits;
	pthread_mutex_lock(&mem->lock);
	mem->ring[mem->rings] = r;
	/* Whoever reads the count finds the pointer. */
	atomic_store(&mem->rings, mem->rings + 1);
	pthread_mutex_unlock(&mem->lock);
	return 0;
}

void dirty_ring_fini(struct dirty_ring *r)
{
	if (!r->gfn)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r->spare);
	r->spare = NULL;
	r->gfn = NULL;
}

void dirty_ring_select(struct dirty_ring *r)
{
	current = r && r->gfn ? r : NULL;
}

static u32 used(const struct dirty_ring *r)
{
	return atomic_load(&r->dirty) - atomic_load(&r->reset);
}

bool dirty_ring_is_full(const struct dirty_ring *r)
{
	return r->gfn && (used(r) >= r->size - DIRTY_RING_RESERVED || atomic_load(&r->spares));
}

/* The client may look at an entry as soon as its flags say so. */
static void put(struct dirty_ring *r, u32 slot, u64 offset)
{
	struct kvm_dirty_gfn *e = &r->gfn[r->dirty & (r->size - 1)];

	e->slot = slot;
	e->offset = offset;
	__atomic_store_n(&e->flags, KVM_DIRTY_GFN_F_DIRTY, __ATOMIC_RELEASE);
	atomic_fetch_add(&r->dirty, 1);
}

void dirty_ring_push(struct mem *mem, u32 slot, u64 offset)
{
	struct dirty_ring *r = current ? current : mem->ring[0];

	if (!atomic_load(&mem->rings))
		return; /* written before there was a vCPU */
	pthread_mutex_lock(&r->lock);
	if (used(r) < r->size && !r->spares)
		put(r, slot, offset);
	else if (r->spares < DIRTY_RING_SPARE)
		r->spare[r->spares++] = (struct kvm_dirty_gfn){ .slot = slot, .offset = offset };
	if (dirty_ring_is_full(r))
		atomic_fetch_or(r->attn, r->attn_bits);
	pthread_mutex_unlock(&r->lock);
}

/* Stores to the page are to be seen again.  The entry came back from the client:
 * its numbers may be anything. */
static void forget(struct mem *mem, u32 id, u64 offset)
{
	const struct slot_table *t;

	if (id >> 16 >= MEM_SPACES)
		return;
	t = mem->slots[id >> 16];
	for (u32 i = 0; i < t->count; i++) {
		struct memslot *s = t->slot[i];

		if (s->id != id || !s->dirty || offset >= s->npages)
			continue;
		atomic_fetch_and(&s->dirty[offset / 64], ~BIT64(offset % 64));
	}
}

static u32 take_back(struct mem *mem, struct dirty_ring *r)
{
	u32 n = 0;

	while (used(r)) {
		struct kvm_dirty_gfn *e = &r->gfn[r->reset & (r->size - 1)];

		if (!(__atomic_load_n(&e->flags, __ATOMIC_ACQUIRE) & KVM_DIRTY_GFN_F_RESET))
			break;
		forget(mem, __atomic_load_n(&e->slot, __ATOMIC_RELAXED),
		       __atomic_load_n(&e->offset, __ATOMIC_RELAXED));
		__atomic_store_n(&e->flags, 0, __ATOMIC_RELEASE);
		atomic_fetch_add(&r->reset, 1);
		n++;
	}
	return n;
}

static void empty_spare(struct dirty_ring *r)
{
	u32 n = 0;

	while (n < r->spares && used(r) < r->size) {
		put(r, r->spare[n].slot, r->spare[n].offset);
		n++;
	}
	if (!n)
		return;
	for (u32 i = n; i < r->spares; i++)
		r->spare[i - n] = r->spare[i];
	r->spares -= n;
}

long mem_reset_rings(struct mem *mem)
{
	long n = 0;

	if (!mem->ring_bytes)
		return -EINVAL;
	pthread_mutex_lock(&mem->lock);
	for (u32 i = 0; i < mem->rings; i++) {
		struct dirty_ring *r = mem->ring[i];

		pthread_mutex_lock(&r->lock);
		n += take_back(mem, r);
		empty_spare(r);
		pthread_mutex_unlock(&r->lock);
	}
	if (n)
		track_request(mem, ~0ull, TRACK_WRITES, NULL, NULL, NULL, NULL);
	pthread_mutex_unlock(&mem->lock);
	return n;
}
