/* SPDX-License-Identifier: MIT */
/* Guest-physical reads and writes outside instructions; the dirty log. */
#include <errno.h>

#include "base/bits.h"
#include "mem/access.h"
#include "mem/hostfault.h"
#include "mem/mem.h"

struct copy {
	struct mem *mem;
	unsigned space;
	gpa_t gpa;
	void *dst;
	const void *src;
	size_t n;
};

static int copy_page(struct copy *c, gpa_t gpa, size_t done, size_t n)
{
	struct memslot *s = mem_find(mem_slots(c->mem, c->space), gpa >> PAGE_SHIFT);
	u64 page, off = gpa & (PAGE_SIZE - 1);

	if (!s || (c->src && (s->flags & KVM_MEM_READONLY)))
		return -EFAULT;
	page = (gpa >> PAGE_SHIFT) - s->gfn;
	u8 *hva = s->hva + (page << PAGE_SHIFT) + off;

	if (!c->src) {
		access_read((u8 *)c->dst + done, hva, n);
		return 0;
	}
	struct bpage *bp = mem_bpage(c->mem, s, page);

	if (!bp)
		return -EFAULT;
	access_write(hva, (const u8 *)c->src + done, n);
	mem_mark_dirty(s, page);
	mem_written(c->mem, bp, (unsigned)off, (unsigned)n);
	return 0;
}

static int copy_all(void *arg)
{
	struct copy *c = arg;

	for (size_t done = 0; done < c->n;) {
		gpa_t gpa = c->gpa + done;
		size_t n =
			MIN(c->n - done, (size_t)(PAGE_SIZE - (gpa & (PAGE_SIZE - 1))));
		int r = copy_page(c, gpa, done, n);

		if (r)
			return r;
		done += n;
	}
	return 0;
}

static int guarded_copy(struct copy *c)
{
	int r;

	pthread_rwlock_rdlock(&c->mem->users);
	r = hostfault_try(c->mem, copy_all, c);
	pthread_rwlock_unlock(&c->mem->users);
	return r;
}

int mem_read(struct mem *mem, gpa_t gpa, void *dst, size_t n)
{
	return guarded_copy(&(struct copy){.mem = mem, .gpa = gpa, .dst = dst, .n = n});
}

int mem_write(struct mem *mem, gpa_t gpa, const void *src, size_t n)
{
	return guarded_copy(&(struct copy){.mem = mem, .gpa = gpa, .src = src, .n = n});
}

int mem_read_in(struct mem *mem, unsigned space, gpa_t gpa, void *dst, size_t n)
{
	return guarded_copy(&(struct copy){
		.mem = mem, .space = space, .gpa = gpa, .dst = dst, .n = n});
}

int mem_write_in(struct mem *mem, unsigned space, gpa_t gpa, const void *src, size_t n)
{
	return guarded_copy(&(struct copy){
		.mem = mem, .space = space, .gpa = gpa, .src = src, .n = n});
}

/* --- dirty log ----------------------------------------------------------- */

void mem_mark_dirty(const struct memslot *slot, u64 off)
{
	if (!slot->dirty)
		return;
	_Atomic u64 *w = &slot->dirty[off / 64];

	if (atomic_load_explicit(w, memory_order_relaxed) & BIT64(off % 64))
		return;
	if (atomic_fetch_or(w, BIT64(off % 64)) & BIT64(off % 64))
		return;
	if (unlikely(slot->mem->ring_bytes))
		dirty_ring_push(slot->mem, slot->id, off);
}

int mem_set_dirty_mode(struct mem *mem, u64 mode)
{
	if (mode &
	    ~(u64)(KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET))
		return -EINVAL;
	/* The second alone means nothing. */
	if (mode == KVM_DIRTY_LOG_INITIALLY_SET)
		return -EINVAL;
	pthread_mutex_lock(&mem->lock);
	mem->manual_dirty = (u32)mode;
	pthread_mutex_unlock(&mem->lock);
	return 0;
}

static bool slot_number_ok(u32 id)
{
	return id >> 16 < MEM_SPACES && (id & 0xffff) < MEM_MAX_SLOTS;
}

static struct memslot *logged_slot(struct mem *mem, u32 id)
{
	const struct slot_table *t = mem->slots[id >> 16];

	for (u32 i = 0; i < t->count; i++)
		if (t->slot[i]->id == id)
			return t->slot[i]->dirty ? t->slot[i] : NULL;
	return NULL;
}

/* Bits were cleared: direct write entries must go, so that the next store to
 * each page is seen again. */
static void revoke_writes(struct mem *mem)
{
	track_request(mem, ~0ull, TRACK_WRITES, NULL, NULL, NULL, NULL);
}

static int get_log(struct mem *mem, struct memslot *s,
		   int (*copy_out)(void *arg, size_t off, const void *src, size_t n),
		   void *arg)
{
	size_t words = (s->npages + 63) / 64;
	bool cleared = false;
	int r = 0;

	for (size_t i = 0; i < words && !r; i += 64) {
		u64 buf[64];
		size_t n = MIN(words - i, (size_t)64);

		for (size_t k = 0; k < n; k++) {
			buf[k] = atomic_load(&s->dirty[i + k]);
			if (buf[k] &&
			    !(mem->manual_dirty & KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE)) {
				buf[k] = atomic_exchange(&s->dirty[i + k], 0);
				cleared = true;
			}
		}
		r = copy_out(arg, i * 8, buf, n * 8);
	}
	if (cleared)
		revoke_writes(mem);
	return r;
}

int mem_get_dirty_log(struct mem *mem, u32 slot,
		      int (*copy_out)(void *arg, size_t off, const void *src, size_t n),
		      void *arg)
{
	struct memslot *s;
	int r;

	if (mem->ring_bytes)
		return -ENXIO;
	if (!slot_number_ok(slot))
		return -EINVAL;
	pthread_mutex_lock(&mem->lock);
	s = logged_slot(mem, slot);
	r = s ? get_log(mem, s, copy_out, arg) : -ENOENT;
	pthread_mutex_unlock(&mem->lock);
	return r;
}

static int clear_log(struct mem *mem, struct memslot *s, u64 first, u32 num,
		     int (*copy_in)(void *arg, size_t off, void *dst, size_t n),
		     void *arg)
{
	size_t words = ((size_t)num + 63) / 64;
	bool cleared = false;
	int r = 0;

	if (first > s->npages || num > s->npages - first ||
	    ((num & 63) && num < s->npages - first))
		return -EINVAL;
	for (size_t i = 0; i < words; i += 64) {
		u64 buf[64];
		size_t n = MIN(words - i, (size_t)64);

		r = copy_in(arg, i * 8, buf, n * 8);
		if (r)
			break;
		for (size_t k = 0; k < n; k++)
			if (buf[k]) {
				atomic_fetch_and(&s->dirty[first / 64 + i + k], ~buf[k]);
				cleared = true;
			}
	}
	if (cleared)
		revoke_writes(mem);
	return r;
}

int mem_clear_dirty_log(struct mem *mem, u32 slot, u64 first_page, u32 num_pages,
			int (*copy_in)(void *arg, size_t off, void *dst, size_t n),
			void *arg)
{
	struct memslot *s;
	int r;

	if (mem->ring_bytes)
		return -ENXIO;
	if (!slot_number_ok(slot) || (first_page & 63))
		return -EINVAL;
	pthread_mutex_lock(&mem->lock);
	s = logged_slot(mem, slot);
	r = s ? clear_log(mem, s, first_page, num_pages, copy_in, arg) : -ENOENT;
	pthread_mutex_unlock(&mem->lock);
	return r;
}
