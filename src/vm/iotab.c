/* SPDX-License-Identifier: MIT */
#include "vm/iotab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vm/evfd.h"
#include "vm/vm.h"

#define ZONES_MAX  1000 /* the kernel's limit of devices on a bus */
#define EVENTS_MAX 65536

/** struct io_event - an eventfd and the writes that signal it
 * @len: 1, 2, 4, 8; 0: any */
struct io_event {
	enum io_bus bus;
	u8 len;
	bool wildcard;
	u64 addr, datamatch;
	struct evfd event;
};

struct io_zone {
	u64 addr, size;
	bool pio;
};

/* Immutable once published.  Events are sorted by bus and address. */
struct io_table {
	u32 events, zones;
	struct io_zone *zone;
	struct io_event event[];
};

void iotab_init(struct iotab *t)
{
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->ring_lock, NULL);
}

void iotab_fini(struct iotab *t)
{
	struct io_table *table = atomic_load(&t->table);

	for (u32 i = 0; table && i < table->events; i++)
		evfd_put(&table->event[i].event);
	free(table);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->ring_lock);
}

/* --- changes: a copy with room for more, published; iotab.lock held ------------- */

static struct io_table *copy_of(const struct io_table *old, u32 more_events, u32 more_zones)
{
	u32 events = old ? old->events : 0, zones = old ? old->zones : 0;
	size_t bytes = sizeof(*old) + (events + more_events) * sizeof(old->event[0]);
	struct io_table *t = calloc(1, bytes + (zones + more_zones) * sizeof(old->zone[0]));

	if (!t)
		return NULL;
	t->zone = (struct io_zone *)((char *)t + bytes);
	t->events = events;
	t->zones = zones;
	if (events)
		memcpy(t->event, old->event, events * sizeof(t->event[0]));
	if (zones)
		memcpy(t->zone, old->zone, zones * sizeof(t->zone[0]));
	return t;
}

static void publish(struct vm *vm, struct io_table *new)
{
	struct io_table *old = atomic_exchange(&vm->iotab.table, new);

	track_request(vm->mem, ~0ull, 0, NULL, NULL, NULL, NULL);
	free(old);
}

/* --- events ------------------------------------------------------------------------ */

static bool before(const struct io_event *a, enum io_bus bus, u64 addr)
{
	return a->bus != bus ? a->bus < bus : a->addr < addr;
}

/* The first event at or after (@bus, @addr). */
static u32 find(const struct io_table *t, enum io_bus bus, u64 addr)
{
	u32 lo = 0, hi = t->events;

	while (lo < hi) {
		u32 mid = (lo + hi) / 2;

		if (before(&t->event[mid], bus, addr))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool is_at(const struct io_table *t, u32 i, enum io_bus bus, u64 addr)
{
	return i < t->events && t->event[i].bus == bus && t->event[i].addr == addr;
}

/* Some write would match both. */
static bool collides(const struct io_event *a, const struct io_event *b)
{
	if (!a->len || !b->len)
		return true;
	return a->len == b->len &&
	       (a->wildcard || b->wildcard || a->datamatch == b->datamatch);
}

static int add_event(struct vm *vm, const struct io_event *e)
{
	struct io_table *old = atomic_load(&vm->iotab.table), *t;
	u32 at = old ? find(old, e->bus, e->addr) : 0;

	for (u32 i = at; old && is_at(old, i, e->bus, e->addr); i++)
		if (collides(&old->event[i], e))
			return -EEXIST;
	if (old && old->events == EVENTS_MAX)
		return -ENOSPC;
	t = copy_of(old, 1, 0);
	if (!t)
		return -ENOMEM;
	memmove(&t->event[at + 1], &t->event[at], (t->events - at) * sizeof(*e));
	t->event[at] = *e;
	t->events++;
	publish(vm, t);
	return 0;
}

static int del_event(struct vm *vm, const struct io_event *e)
{
	struct io_table *old = atomic_load(&vm->iotab.table), *t;
	u32 i = old ? find(old, e->bus, e->addr) : 0;
	struct evfd event;

	for (; old && is_at(old, i, e->bus, e->addr); i++) {
		const struct io_event *o = &old->event[i];

		if (o->len == e->len && o->wildcard == e->wildcard &&
		    (e->wildcard || o->datamatch == e->datamatch) &&
		    evfd_same(&o->event, &e->event))
			break;
	}
	if (!old || !is_at(old, i, e->bus, e->addr))
		return -ENOENT;
	t = copy_of(old, 0, 0);
	if (!t)
		return -ENOMEM;
	event = t->event[i].event;
	t->events--;
	memmove(&t->event[i], &t->event[i + 1], (t->events - i) * sizeof(*e));
	publish(vm, t);
	evfd_put(&event);
	return 0;
}

static int check_event(const struct kvm_ioeventfd *a)
{
	switch (a->len) {
	case 0: /* nothing to compare */
		if (a->flags & KVM_IOEVENTFD_FLAG_DATAMATCH)
			return -EINVAL;
		break;
	case 1:
	case 2:
	case 4:
	case 8:
		break;
	default:
		return -EINVAL;
	}
	if (a->addr + a->len < a->addr)
		return -EINVAL;
	return a->flags & ~(u32)KVM_IOEVENTFD_VALID_FLAG_MASK ? -EINVAL : 0;
}

int iotab_set_event(struct vm *vm, const struct kvm_ioeventfd *a)
{
	bool gone = a->flags & KVM_IOEVENTFD_FLAG_DEASSIGN;
	struct io_event e = {
		.bus = a->flags & KVM_IOEVENTFD_FLAG_PIO		? IO_PIO :
		       a->flags & KVM_IOEVENTFD_FLAG_VIRTIO_CCW_NOTIFY ? IO_CCW :
									 IO_MMIO,
		.len = (u8)a->len,
		.wildcard = !(a->flags & KVM_IOEVENTFD_FLAG_DATAMATCH),
		.addr = a->addr,
		.datamatch = a->datamatch,
	};
	int r = check_event(a);

	if (!r)
		r = evfd_get(a->fd, &e.event);
	if (r)
		return r;
	pthread_mutex_lock(&vm->iotab.lock);
	r = gone ? del_event(vm, &e) : add_event(vm, &e);
	pthread_mutex_unlock(&vm->iotab.lock);
	if (r || gone)
		evfd_put(&e.event);
	return r;
}

/* --- zones ---------------------------------------------------------------------------- */

static bool contains(const struct io_zone *z, bool pio, u64 addr, u64 n)
{
	return z->pio == pio && addr >= z->addr && n <= z->size &&
	       addr - z->addr <= z->size - n;
}

int iotab_add_zone(struct vm *vm, const struct kvm_coalesced_mmio_zone *z)
{
	struct io_table *old, *t;
	int r = 0;

	if (z->pio > 1)
		return -EINVAL;
	pthread_mutex_lock(&vm->iotab.lock);
	old = atomic_load(&vm->iotab.table);
	if (old && old->zones == ZONES_MAX) {
		r = -ENOSPC;
	} else if (!(t = copy_of(old, 0, 1))) {
		r = -ENOMEM;
	} else {
		t->zone[t->zones++] = (struct io_zone){ z->addr, z->size, z->pio };
		publish(vm, t);
	}
	pthread_mutex_unlock(&vm->iotab.lock);
	return r;
}

int iotab_del_zone(struct vm *vm, const struct kvm_coalesced_mmio_zone *z)
{
	struct io_table *old, *t;
	int r = 0;

	if (z->pio > 1)
		return -EINVAL;
	pthread_mutex_lock(&vm->iotab.lock);
	old = atomic_load(&vm->iotab.table);
	t = old ? copy_of(old, 0, 0) : NULL;
	if (old && !t)
		r = -ENOMEM;
	if (t) {
		t->zones = 0;
		for (u32 i = 0; i < old->zones; i++)
			if (!contains(&old->zone[i], z->pio, z->addr, z->size))
				t->zone[t->zones++] = old->zone[i];
		publish(vm, t);
	}
	pthread_mutex_unlock(&vm->iotab.lock);
	return r;
}

/* --- the guest's writes ------------------------------------------------------------------ */

/* Put the write into the ring.  Return: false: it is full, the client must
 * empty it.  One entry stays free, so that full is not empty. */
static bool collect(struct iotab *io, bool pio, u64 addr, const void *data, unsigned n)
{
	struct kvm_coalesced_mmio_ring *ring = atomic_load(&io->ring);
	struct kvm_coalesced_mmio *e;
	u32 first, last, next;

	pthread_mutex_lock(&io->ring_lock);
	/* The client writes here too: whatever it does, we stay inside. */
	last = __atomic_load_n(&ring->last, __ATOMIC_RELAXED);
	first = __atomic_load_n(&ring->first, __ATOMIC_ACQUIRE);
	next = (last + 1) % (u32)KVM_COALESCED_MMIO_MAX;
	if (last >= KVM_COALESCED_MMIO_MAX || next == first) {
		pthread_mutex_unlock(&io->ring_lock);
		return false;
	}
	e = &ring->coalesced_mmio[last];
	e->phys_addr = addr;
	e->len = n;
	e->pio = pio;
	memcpy(e->data, data, n);
	__atomic_store_n(&ring->last, next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&io->ring_lock);
	return true;
}

static const struct io_event *match_event(const struct io_table *t, enum io_bus bus,
					  u64 addr, const void *data, unsigned n)
{
	u64 value = 0;

	memcpy(&value, data, n);
	for (u32 i = find(t, bus, addr); is_at(t, i, bus, addr); i++) {
		const struct io_event *e = &t->event[i];

		if (!e->len || (e->len == n && (e->wildcard || e->datamatch == value)))
			return e;
	}
	return NULL;
}

static const struct io_zone *match_zone(const struct io_table *t, enum io_bus bus, u64 addr,
					unsigned n)
{
	for (u32 i = 0; i < t->zones; i++)
		if (contains(&t->zone[i], bus == IO_PIO, addr, n))
			return &t->zone[i];
	return NULL;
}

/* The kernel's bus asks in the order of first address, then of last. */
static bool zone_is_first(const struct io_zone *z, const struct io_event *e)
{
	return !e || z->addr < e->addr || !e->len;
}

static void count(u64 *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

bool iotab_write(struct vm *vm, enum io_bus bus, u64 addr, const void *data, unsigned n)
{
	struct iotab *io = &vm->iotab;
	const struct io_table *t = atomic_load_explicit(&io->table, memory_order_acquire);
	struct vm_stats *stats = vm->stats.data;
	const struct io_event *e;
	const struct io_zone *z;

	if (likely(!t))
		return false;
	e = match_event(t, bus, addr, data, n);
	z = atomic_load(&io->unmapped) ? NULL : match_zone(t, bus, addr, n);
	if (z && zone_is_first(z, e) && collect(io, z->pio, addr, data, n)) {
		count(&stats->coalesced_writes);
		return true;
	}
	if (e) {
		evfd_signal(&e->event);
		count(&stats->ioeventfds);
		return true;
	}
	/* A zone behind an event that did not match, or whose ring is full. */
	return false;
}
