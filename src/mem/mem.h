/* SPDX-License-Identifier: MIT */
/*
 * Guest-physical spaces of one VM: memory slots over the client's memory.
 * Space 0 is what everybody sees; space 1 is what a vCPU in system management
 * mode sees instead.  Bits 31:16 of a slot number name the space.
 *
 * vCPU threads in guest mode read the slot table without a lock: whoever
 * replaces it waits for their acknowledgement before the old one is freed.
 * Other threads take the read side of `users`.
 */
#ifndef LOCUM_MEM_MEM_H
#define LOCUM_MEM_MEM_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/types.h"
#include "mem/dirty_ring.h"
#include "mem/track.h"

#define MEM_MAX_SLOTS 32764 /* of a space: KVM_CAP_NR_MEMSLOTS */
#define MEM_SPACES    2	    /* KVM_CAP_MULTI_ADDRESS_SPACE */
#define MEM_SMM	      1	    /* the space of system management mode */
#define BPAGE_CHUNK   512   /* backing pages a chunk */
#define BPAGE_BUCKETS 4096

/** struct mem_segment - pages of a slot that are backed alike
 * @first: page offset in the slot; @npages
 * @dev, @ino: of the shared file, 0, 0 for anything else
 * @key:   page offset in the file, or host virtual page number */
struct mem_segment {
	u64 first, npages;
	u64 dev, ino, key;
};

struct memslot {
	u32 id, flags; /* KVM_MEM_* */
	gfn_t gfn;
	u64 npages;
	u8 *hva;
	_Atomic u64 *dirty; /* KVM_MEM_LOG_DIRTY_PAGES: one bit a page, else NULL */
	struct mem *mem;
	u32 nsegments;
	struct mem_segment *segment;
};

/* Sorted by gfn, never changed once published. */
struct slot_table {
	u32 count;
	u64 generation;
	struct memslot *slot[];
};

struct bpage_chunk {
	struct bpage_chunk *next;
	u64 dev, ino, key; /* key of page 0: a multiple of BPAGE_CHUNK */
	struct bpage page[BPAGE_CHUNK];
};

/** struct mem_ops - calls upward
 * @code_write: @n bytes at offset @off of the page of @bp, which has BP_CODE,
 *              have been written: the store is visible to every thread, and
 *              whoever sets BP_CODE later reads it.  Any thread, in guest mode
 *              or with the read side of mem->users held: must not wait for a
 *              vCPU, and must not read guest memory with a lock held. */
struct mem_ops {
	void (*code_write)(void *opaque, struct bpage *bp, unsigned off, unsigned n);
};

struct mem {
	struct slot_table *_Atomic slots[MEM_SPACES];
	u64 generation; /* of the newest table of any space; @lock */
	pthread_rwlock_t users; /* readers of `slots` outside guest mode */
	pthread_mutex_t lock;	/* slot changes and dirty-log calls */
	pthread_mutex_t rmw;	/* accesses that no host instruction can do at once */
	_Atomic u64 epoch;	/* the client may have written: see mem_epoch_bump() */
	_Atomic u32 code_changes; /* by guests: counted by whoever learns of one */
	_Atomic u64 waits, wait_ns; /* threads that are no vCPU waited for vCPUs */
	struct track_vcpu vcpu[TRACK_MAX_VCPUS];
	struct bpage_chunk *_Atomic bucket[BPAGE_BUCKETS];
	pthread_mutex_t chunk_lock;
	const struct mem_ops *ops;
	void *opaque;
	u32 manual_dirty; /* KVM_DIRTY_LOG_*: mem_set_dirty_mode() */
	u32 ring_bytes;	  /* of each vCPU's dirty ring; 0: bitmaps */
	_Atomic u32 rings;
	struct dirty_ring *ring[TRACK_MAX_VCPUS]; /* @rings of them, append only */
};

/** mem_create() - an empty space; @ops may be NULL.  Return: NULL: no memory. */
struct mem *mem_create(const struct mem_ops *ops, void *opaque);
/** mem_destroy() - no vCPU is attached any more */
void mem_destroy(struct mem *mem);

/**
 * mem_set_region() - KVM_SET_USER_MEMORY_REGION
 * On return nobody uses the old mapping.  Not from a vCPU in guest mode.
 * Return: 0; -EINVAL, -EEXIST (overlap), -ENOMEM as the kernel's.
 */
int mem_set_region(struct mem *mem,
		   const struct kvm_userspace_memory_region *r) must_check;

/** mem_find() - slot of @gfn in table @t, NULL if none */
struct memslot *mem_find(const struct slot_table *t, gfn_t gfn);

/** mem_slots() - the current table of @space; for vCPU threads in guest mode, or
 * under the read side of mem->users.  No two tables share a generation. */
static inline const struct slot_table *mem_slots(struct mem *mem, unsigned space)
{
	return atomic_load_explicit(&mem->slots[space], memory_order_acquire);
}

/** mem_bpage() - backing page of page @off of @slot; NULL only without memory */
struct bpage *mem_bpage(struct mem *mem, const struct memslot *slot, u64 off);

/** mem_set_dirty_mode() - KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2
 * @mode: KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE (GET_DIRTY_LOG does not clear)
 *        and KVM_DIRTY_LOG_INITIALLY_SET (new logs start full), or 0
 * Return: 0 or -EINVAL */
int mem_set_dirty_mode(struct mem *mem, u64 mode) must_check;

/** mem_mark_dirty() - page @off of @slot was written; or is about to be, by a
 * vCPU in guest mode that does it before it acknowledges another request */
void mem_mark_dirty(const struct memslot *slot, u64 off);

/**
 * mem_read(), mem_write() - guest-physical access for everybody but a vCPU's
 * instructions: PV structures, ioctls.  In space 0; may cross pages and slots.
 * Return: 0; -EFAULT when part of the range is no RAM, is read-only (write) or
 * is unmapped in the client.
 */
int mem_read(struct mem *mem, gpa_t gpa, void *dst, size_t n) must_check;
int mem_write(struct mem *mem, gpa_t gpa, const void *src, size_t n) must_check;
/** mem_read_in(), mem_write_in() - likewise in @space */
int mem_read_in(struct mem *mem, unsigned space, gpa_t gpa, void *dst, size_t n) must_check;
int mem_write_in(struct mem *mem, unsigned space, gpa_t gpa, const void *src,
		 size_t n) must_check;

/** mem_written() - to be called after a store of @n bytes at @off of @bp's page
 * that was not made through a write entry of a TLB: reports code.  Fences, so
 * that either the setter of a flag sees the store or we see the flag.
 * Return: the page's flags. */
u32 mem_written(struct mem *mem, struct bpage *bp, unsigned off, unsigned n);

/**
 * mem_flag_page() - set @flag on @bp; when it returns no vCPU but @self holds a
 * write entry for it (the caller drops its own), and every store made through
 * one is visible: read what @flag protects after that.  A flag is cleared by
 * its owner with an atomic AND, any time.
 * @self, @serve, @arg: as for track_request()
 */
void mem_flag_page(struct mem *mem, struct bpage *bp, u32 flag, struct track_vcpu *self,
		   void (*serve)(void *arg), void *arg);

/**
 * mem_get_dirty_log() - KVM_GET_DIRTY_LOG
 * @copy_out: copies @n bytes of the bitmap at byte @off to the client; returns
 *            0 or -EFAULT
 * Return: 0; -EINVAL, -ENOENT (slot or log missing), -EFAULT, -ENXIO (there are
 * dirty rings instead).
 */
int mem_get_dirty_log(struct mem *mem, u32 slot,
		      int (*copy_out)(void *arg, size_t off, const void *src, size_t n),
		      void *arg) must_check;
/** mem_clear_dirty_log() - KVM_CLEAR_DIRTY_LOG; @copy_in as above */
int mem_clear_dirty_log(struct mem *mem, u32 slot, u64 first_page, u32 num_pages,
			int (*copy_in)(void *arg, size_t off, void *dst, size_t n),
			void *arg) must_check;

/** mem_epoch_bump() - the client may have written guest memory: decoded code is
 * compared with its saved bytes before its next use.  Any thread. */
static inline void mem_epoch_bump(struct mem *mem)
{
	atomic_fetch_add(&mem->epoch, 1);
}

#endif
