/* SPDX-License-Identifier: MIT */
/*
 * Backing pages, and what must be known before somebody writes one.
 *
 * A backing page (struct bpage) is a page of host memory by identity, whatever
 * its guest-physical addresses: (device, inode, offset) for shared file
 * mappings, else the host virtual page.  A direct write entry of a TLB exists
 * for a page only while its flags are 0; whoever sets a flag revokes the
 * entries of the vCPUs in the page's writers mask and waits until each has
 * acknowledged, or is outside guest mode (halted, waiting, in the client).
 *
 * The protocol, twice the same: a filler stores its writers bit, then reads the
 * flags; a setter stores the flag, then reads the writers (both sequentially
 * consistent).  A vCPU that enters guest mode stores in_guest, then reads what
 * was asked; a requester stores the request, then reads in_guest.  A writers
 * bit is cleared by its own vCPU alone, when its last entry for the page goes.
 * Who stores without an entry fences, then reads the flags (mem_written()).
 */
#ifndef LOCUM_MEM_TRACK_H
#define LOCUM_MEM_TRACK_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/bits.h"

#define TRACK_MAX_VCPUS 64

/* bpage.flags */
#define BP_CODE	 BIT(0) /* decoded or translated code: stores are reported */
#define BP_TABLE BIT(1) /* page table under write tracking */
#define BP_WATCH BIT(2) /* somebody watches stores to it */

/* Attention bit of a vCPU: mmu_poll() is wanted. */
#define ATTN_MEM BIT(0)
/* Attention bit that a vCPU's own store into a BP_CODE page sets. */
#define ATTN_CODE BIT(3)

/* Requests to a vCPU. */
#define TRACK_WRITES BIT(0) /* drop every write entry */
#define TRACK_ALL    BIT(1) /* drop everything that holds a host address */
#define TRACK_PAGE   BIT(2) /* drop the write entries of the named pages */

/** struct bpage - a page of host memory
 * @flags:    BP_*
 * @code_gen: changes whenever bytes under BP_CODE change (cpu/icache.c)
 * @writers:  vCPUs that may hold a write entry, by track id
 * @code:     what is decoded from it; owned by cpu/icache.c
 * @verified: mem->epoch in which that was last compared with the bytes */
struct bpage {
	_Atomic u32 flags;
	_Atomic u32 code_gen;
	_Atomic u64 writers;
	void *_Atomic code;
	_Atomic u64 verified;
};

#define TRACK_PAGES 16 /* named in one request; more: all write entries go */

/** struct track_vcpu - a vCPU as other threads see it; lives as long as the
 * struct mem, so that a requester may look at a vCPU that has just gone */
struct track_vcpu {
	unsigned id; /* bit in bpage.writers, 0..63 */
	_Atomic u32 in_guest;
	_Atomic u32 want;     /* requests made, a count */
	_Atomic u32 ack;      /* requests served; futex word of those who wait */
	_Atomic u32 waiters;  /* threads asleep on ack */
	pthread_mutex_t lock; /* of the four below; held for a few instructions */
	_Atomic u32 *attn;    /* its attention word; NULL: nobody here */
	u32 kinds;	      /* TRACK_* not yet served */
	u32 pages;
	struct bpage *page[TRACK_PAGES];
	u64 waits, wait_ns; /* this vCPU waited for others (its own thread) */
};

/** struct track_work - requests that a vCPU has taken and must serve */
struct track_work {
	u32 count, kinds, pages;
	struct bpage *page[TRACK_PAGES];
};

struct mem;

/**
 * track_attach() - a vCPU whose attention word is @attn joins @mem
 * Return: 0 and *@out (owned by @mem); -ENOSPC beyond TRACK_MAX_VCPUS.
 */
int track_attach(struct mem *mem, _Atomic u32 *attn, struct track_vcpu **out) must_check;
/** track_detach() - @t is out of guest mode and will not enter again */
void track_detach(struct track_vcpu *t);

/** track_pending() - requests wait for @t (its own thread) */
static inline bool track_pending(const struct track_vcpu *t)
{
	return atomic_load(&t->want) !=
	       atomic_load_explicit(&t->ack, memory_order_relaxed);
}

/**
 * track_enter(), track_exit() - guest mode begins, ends
 * After track_enter() requests must be served before guest memory is touched.
 */
void track_enter(struct track_vcpu *t);
void track_exit(struct track_vcpu *t);

/**
 * track_take() - begin to serve: moves what was asked to @w
 * track_done() - what track_take() returned has been done
 * On the vCPU's own thread, at an instruction boundary.
 */
void track_take(struct track_vcpu *t, struct track_work *w);
void track_done(struct track_vcpu *t, u32 count);

/**
 * track_request() - ask the vCPUs in @mask for @kinds and wait until all have
 * acknowledged or count as acknowledged
 * @bp:   the page, for TRACK_PAGE
 * @self: the calling vCPU in guest mode, or NULL; its bit in @mask is ignored
 * @serve: called again and again while waiting, to serve requests to @self;
 *         NULL when @self is NULL.  @arg is its argument.
 * No lock may be held that a vCPU in guest mode could wait for.  Spins for a
 * few microseconds, then sleeps.
 */
void track_request(struct mem *mem, u64 mask, u32 kinds, struct bpage *bp,
		   struct track_vcpu *self, void (*serve)(void *arg), void *arg);

#endif
