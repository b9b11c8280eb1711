/* SPDX-License-Identifier: MIT */
/*
 * The dirty ring of a vCPU (KVM_CAP_DIRTY_LOG_RING): pages that it wrote, in the
 * order in which it wrote them first, in memory that the client reads.
 *
 * The bit of a page in its slot's log says that some ring names the page; it is
 * cleared when the client gives the entry back (mem_reset_rings()), and the next
 * store enters the page anew.  A write that no vCPU makes goes to the first
 * ring.  At the soft limit KVM_RUN ends; what is written until then goes to the
 * reserve above it, and beyond the ring's end to a list of ours: nothing is lost.
 * Source: Linux Documentation/virt/kvm/api.rst 8.29.
 */
#ifndef LOCUM_MEM_DIRTY_RING_H
#define LOCUM_MEM_DIRTY_RING_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/types.h"

#define DIRTY_RING_MAX_BYTES (65536 * sizeof(struct kvm_dirty_gfn))
#define DIRTY_RING_RESERVED  64	  /* entries above the soft limit */
#define DIRTY_RING_SPARE	  1024 /* more than a vCPU can write until it looks */

struct mem;

/** struct dirty_ring - lives as long as its struct mem
 * @gfn:   @size entries (a power of two), shared with the client; NULL: no ring
 * @dirty, @reset: entries ever filled, ever taken back
 * @spare: entries that found the ring full, oldest first
 * @attn, @attn_bits: how the vCPU is told that the soft limit is reached */
struct dirty_ring {
	pthread_mutex_t lock; /* of everything; a leaf */
	struct kvm_dirty_gfn *gfn;
	u32 size;
	_Atomic u32 dirty, reset;
	_Atomic u32 spares;
	struct kvm_dirty_gfn *spare; /* DIRTY_RING_SPARE of them */
	_Atomic u32 *attn;
	u32 attn_bits;
};

/** mem_set_ring_bytes() - KVM_CAP_DIRTY_LOG_RING, before the first vCPU
 * Return: 0; -EINVAL (no power of two, too small, set before), -E2BIG. */
int mem_set_ring_bytes(struct mem *mem, u64 bytes) must_check;
/** mem_check_ring_bytes() - the first and the last of these errors, or 0 */
int mem_check_ring_bytes(u64 bytes) must_check;

/** dirty_ring_add() - give @mem the ring of one more vCPU
 * @gfn: of the size that was set, zeroed; remains the caller's
 * Return: 0, -ENOMEM. */
int dirty_ring_add(struct mem *mem, struct dirty_ring *r, void *gfn, _Atomic u32 *attn,
		   u32 attn_bits) must_check;

/** dirty_ring_fini() - free what is ours */
void dirty_ring_fini(struct dirty_ring *r);

/** dirty_ring_select() - what this thread writes is written by the vCPU that has
 * @r; NULL: by none */
void dirty_ring_select(struct dirty_ring *r);

/** dirty_ring_push() - page @offset of slot @slot was written for the first time */
void dirty_ring_push(struct mem *mem, u32 slot, u64 offset);

/** dirty_ring_is_full() - the soft limit is reached; its vCPU's thread */
bool dirty_ring_is_full(const struct dirty_ring *r);

/** mem_reset_rings() - KVM_RESET_DIRTY_RINGS: take back the entries that the
 * client has marked; stores to their pages are seen again when it returns
 * Return: how many; -EINVAL without rings. */
long mem_reset_rings(struct mem *mem);

#endif
