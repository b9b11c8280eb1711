/* SPDX-License-Identifier: MIT */
/* Memory slots: KVM_SET_USER_MEMORY_REGION (Documentation/virt/kvm/api.rst 4.35). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/pages.h"
#include "mem/hostfault.h"
#include "mem/mem.h"

struct mem *mem_create(const struct mem_ops *ops, void *opaque)
{
	struct mem *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return NULL;
	for (unsigned i = 0; i < MEM_SPACES; i++) {
		struct slot_table *t = calloc(1, sizeof(*t));

		if (!t) {
			while (i--)
				free(mem->slots[i]);
			free(mem);
			return NULL;
		}
		t->generation = ++mem->generation; /* 0 is nobody's */
		mem->slots[i] = t;
	}
	pthread_rwlock_init(&mem->users, NULL);
	pthread_mutex_init(&mem->lock, NULL);
	pthread_mutex_init(&mem->rmw, NULL);
	pthread_mutex_init(&mem->chunk_lock, NULL);
	for (unsigned i = 0; i < TRACK_MAX_VCPUS; i++) {
		mem->vcpu[i].id = i;
		pthread_mutex_init(&mem->vcpu[i].lock, NULL);
	}
	mem->ops = ops;
	mem->opaque = opaque;
	mem->epoch = 1;
	hostfault_install();
	return mem;
}

static void slot_free(struct memslot *s)
{
	if (!s)
		return;
	free(s->segment);
	free((void *)s->dirty);
	free(s);
}

void mem_destroy(struct mem *mem)
{
	for (unsigned space = 0; space < MEM_SPACES; space++) {
		struct slot_table *t = mem->slots[space];

		for (u32 i = 0; i < t->count; i++)
			slot_free(t->slot[i]);
		free(t);
	}
	for (unsigned b = 0; b < BPAGE_BUCKETS; b++)
		for (struct bpage_chunk *c = mem->bucket[b], *next; c; c = next) {
			next = c->next;
			pages_free(c, sizeof(*c));
		}
	for (unsigned i = 0; i < TRACK_MAX_VCPUS; i++)
		pthread_mutex_destroy(&mem->vcpu[i].lock);
	pthread_rwlock_destroy(&mem->users);
	pthread_mutex_destroy(&mem->lock);
	pthread_mutex_destroy(&mem->rmw);
	pthread_mutex_destroy(&mem->chunk_lock);
	free(mem);
}

struct memslot *mem_find(const struct slot_table *t, gfn_t gfn)
{
	u32 lo = 0, hi = t->count;

	while (lo < hi) {
		u32 mid = (lo + hi) / 2;
		struct memslot *s = t->slot[mid];

		if (gfn < s->gfn)
			hi = mid;
		else if (gfn - s->gfn >= s->npages)
			lo = mid + 1;
		else
			return s;
	}
	return NULL;
}

static int add_segment(struct memslot *s, u64 npages, u64 dev, u64 ino, u64 key)
{
	struct mem_segment *seg;
	u64 first = 0;

	if (s->nsegments)
		first = s->segment[s->nsegments - 1].first +
			s->segment[s->nsegments - 1].npages;
	if (!npages)
		return 0;
	seg = realloc(s->segment, (s->nsegments + 1) * sizeof(*seg));
	if (!seg)
		return -ENOMEM;
	s->segment = seg;
	seg[s->nsegments++] = (struct mem_segment){first, npages, dev, ino, key};
	return 0;
}

/* One line of /proc/self/maps about a shared mapping of a file. */
struct mapping {
	u64 lo, hi, off, dev, ino;
};

static bool parse_mapping(const char *line, struct mapping *m)
{
	unsigned long lo, hi, off, ino;
	unsigned maj, min;
	char perm[5];

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &lo, &hi, perm, &off, &maj, &min,
		   &ino) != 7 ||
	    perm[3] != 's' || !ino)
		return false;
	/* Bit 63: device 0:0 exists, and must differ from "no file". */
	*m = (struct mapping){lo, hi, off, (u64)maj << 32 | min | BIT64(63), ino};
	return true;
}

/* The part of @s from *@at up to and including mapping @m. */
static int add_mapping(struct memslot *s, u64 end, u64 *at, const struct mapping *m)
{
	int r = 0;

	if (m->hi <= *at || m->lo >= end)
		return 0;
	if (m->lo > *at) {
		r = add_segment(s, (m->lo - *at) >> PAGE_SHIFT, 0, 0, *at >> PAGE_SHIFT);
		*at = m->lo;
	}
	u64 stop = MIN(m->hi, end);

	if (!r)
		r = add_segment(s, (stop - *at) >> PAGE_SHIFT, m->dev, m->ino,
				(m->off + (*at - m->lo)) >> PAGE_SHIFT);
	*at = stop;
	return r;
}

/* Split the slot by what backs it: shared file mappings by /proc/self/maps,
 * everything else by host address. */
static int find_backing(struct memslot *s)
{
	u64 at = (u64)(uintptr_t)s->hva, end = at + (s->npages << PAGE_SHIFT);
	FILE *f = fopen("/proc/self/maps", "re");
	bool whole = true; /* the last line was read to its end */
	char line[512];
	int r = 0;

	while (f && !r && at < end && fgets(line, sizeof(line), f)) {
		struct mapping m;
		bool start = whole;

		whole = strchr(line, '\n') != NULL;
		if (start && parse_mapping(line, &m))
			r = add_mapping(s, end, &at, &m);
	}
	if (f)
		fclose(f);
	if (!r && at < end)
		r = add_segment(s, (end - at) >> PAGE_SHIFT, 0, 0, at >> PAGE_SHIFT);
	return r;
}

static struct memslot *slot_new(struct mem *mem, const struct kvm_userspace_memory_region *r)
{
	struct memslot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->mem = mem;
	s->id = r->slot;
	s->flags = r->flags;
	s->gfn = r->guest_phys_addr >> PAGE_SHIFT;
	s->npages = r->memory_size >> PAGE_SHIFT;
	s->hva = (u8 *)(uintptr_t)r->userspace_addr;
	if (r->flags & KVM_MEM_LOG_DIRTY_PAGES) {
		s->dirty = calloc((s->npages + 63) / 64, 8);
		if (!s->dirty)
			goto fail;
	}
	if (find_backing(s))
		goto fail;
	madvise(s->hva, r->memory_size, MADV_HUGEPAGE);
	return s;
fail:
	slot_free(s);
	return NULL;
}

/* The checks that need no table. */
static int check_region(const struct kvm_userspace_memory_region *r)
{
	if (r->flags & ~(u32)(KVM_MEM_LOG_DIRTY_PAGES | KVM_MEM_READONLY))
		return -EINVAL;
	if ((r->memory_size | r->guest_phys_addr | r->userspace_addr) & (PAGE_SIZE - 1))
		return -EINVAL;
	if (r->slot >> 16 >= MEM_SPACES || (r->slot & 0xffff) >= MEM_MAX_SLOTS)
		return -EINVAL;
	if (r->guest_phys_addr + r->memory_size < r->guest_phys_addr ||
	    r->userspace_addr + r->memory_size < r->userspace_addr)
		return -EINVAL;
	/* Addresses that no user mapping can have; the kernel's access_ok(). */
	if (r->userspace_addr + r->memory_size > BIT64(47))
		return -EINVAL;
	if (r->memory_size >> PAGE_SHIFT > 0x7fffffff)
		return -EINVAL;
	return r->guest_phys_addr + r->memory_size > BIT64(52) ? -EINVAL : 0;
}

static bool overlaps(const struct slot_table *t,
		     const struct kvm_userspace_memory_region *r)
{
	u64 gfn = r->guest_phys_addr >> PAGE_SHIFT, n = r->memory_size >> PAGE_SHIFT;

	for (u32 i = 0; i < t->count; i++) {
		const struct memslot *s = t->slot[i];

		if (s->id != r->slot && gfn < s->gfn + s->npages && s->gfn < gfn + n)
			return true;
	}
	return false;
}

static struct memslot *by_id(const struct slot_table *t, u32 id)
{
	for (u32 i = 0; i < t->count; i++)
		if (t->slot[i]->id == id)
			return t->slot[i];
	return NULL;
}

static struct slot_table *table_with(const struct slot_table *old, u32 without,
				     struct memslot *add)
{
	struct slot_table *t =
		calloc(1, sizeof(*t) + (old->count + 1) * sizeof(t->slot[0]));
	u32 n = 0;

	if (!t)
		return NULL;
	for (u32 i = 0; i < old->count; i++) {
		if (old->slot[i]->id == without)
			continue;
		if (add && add->gfn < old->slot[i]->gfn) {
			t->slot[n++] = add;
			add = NULL;
		}
		t->slot[n++] = old->slot[i];
	}
	if (add)
		t->slot[n++] = add;
	t->count = n;
	return t;
}

/* Make @t the table of @space; on return nobody uses the old one. */
static void publish(struct mem *mem, unsigned space, struct slot_table *t)
{
	struct slot_table *old;

	t->generation = ++mem->generation;
	pthread_rwlock_wrlock(&mem->users);
	old = mem->slots[space];
	atomic_store(&mem->slots[space], t);
	pthread_rwlock_unlock(&mem->users);
	track_request(mem, ~0ull, TRACK_ALL, NULL, NULL, NULL, NULL);
	mem_epoch_bump(mem);
	free(old);
}

/* A slot that exists may move and change its log; nothing else. */
static int validate_change(const struct memslot *old,
			   const struct kvm_userspace_memory_region *r)
{
	if (old->npages != r->memory_size >> PAGE_SHIFT ||
	    (u64)(uintptr_t)old->hva != r->userspace_addr ||
	    ((old->flags ^ r->flags) & KVM_MEM_READONLY))
		return -EINVAL;
	return 0;
}

static void start_log(struct mem *mem, struct memslot *s)
{
	if (!s->dirty || mem->ring_bytes ||
	    !(mem->manual_dirty & KVM_DIRTY_LOG_INITIALLY_SET))
		return;
	memset((void *)s->dirty, 0xff, s->npages / 64 * 8);
	if (s->npages % 64)
		s->dirty[s->npages / 64] = BIT64(s->npages % 64) - 1;
}

static void take_log(struct memslot *to, const struct memslot *from)
{
	for (u64 i = 0; i < (to->npages + 63) / 64; i++)
		atomic_fetch_or(&to->dirty[i], from->dirty[i]);
}

static int set_region_locked(struct mem *mem, const struct kvm_userspace_memory_region *r)
{
	unsigned space = r->slot >> 16;
	struct slot_table *cur = mem->slots[space], *t;
	struct memslot *old = by_id(cur, r->slot), *new = NULL;

	if (!r->memory_size && !old)
		return -EINVAL;
	if (r->memory_size) {
		int err = old ? validate_change(old, r) : 0;

		if (err)
			return err;
		if (old && old->flags == r->flags &&
		    old->gfn == r->guest_phys_addr >> PAGE_SHIFT)
			return 0; /* nothing changes */
		if (overlaps(cur, r))
			return -EEXIST;
		new = slot_new(mem, r);
		if (!new)
			return -ENOMEM;
		if (!old || !old->dirty)
			start_log(mem, new);
	}
	t = table_with(cur, r->slot, new);
	if (!t) {
		slot_free(new);
		return -ENOMEM;
	}
	publish(mem, space, t);
	/* A log that goes on keeps what it has; nobody adds to the old one now. */
	if (old && new && old->dirty &&new->dirty)
		take_log(new, old);
	slot_free(old);
	return 0;
}

int mem_set_region(struct mem *mem, const struct kvm_userspace_memory_region *r)
{
	int err = check_region(r);

	if (err)
		return err;
	pthread_mutex_lock(&mem->lock);
	err = set_region_locked(mem, r);
	pthread_mutex_unlock(&mem->lock);
	return err;
}
