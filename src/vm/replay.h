/* SPDX-License-Identifier: MIT */
/*
 * Record and replay of what an instruction asks its environment.
 *
 * When a port, an MMIO address or an MSR belongs to the client, the engine
 * stops with the instruction not done.  At the next KVM_RUN the instruction
 * runs again from its start and asks the same questions in the same order;
 * those that were answered before, by the client or by a device of ours, are
 * answered from this record, so that no side effect happens twice.  A question
 * that differs from the record (the client changed registers or memory) drops
 * the rest of it and is a new one.  The engine's commit drops the record.
 *
 * Owned by the vCPU's thread (its mutex).
 */
#ifndef LOCUM_VM_REPLAY_H
#define LOCUM_VM_REPLAY_H

#include "base/types.h"

enum replay_kind {
	REPLAY_PIO_IN,
	REPLAY_PIO_OUT,
	REPLAY_MMIO_READ,
	REPLAY_MMIO_WRITE,
	REPLAY_RDMSR,
	REPLAY_WRMSR,
};

/** struct replay_entry - one question and its answer
 * @addr:   port, guest-physical address or MSR index
 * @size:   bytes of one element
 * @count:  PIO: elements done; else 1
 * @fault:  MSR: the answer is #GP
 * @data:   the answer of a read (PIO batches: in replay.batch) */
struct replay_entry {
	u8 kind; /* enum replay_kind */
	u8 size;
	bool fault;
	u16 count;
	u64 addr;
	u64 data;
};

/* The longest: XSAVE of all we have, in 8-byte fragments. */
#define REPLAY_MAX 160
#define REPLAY_BATCH 4096 /* bytes of one PIO exit */

/**
 * struct replay - the record of one instruction
 * @n:      entries that are answered
 * @cursor: the next question's number
 * @open:   entry[n] was put to the client, which has not answered yet
 * @rip:    linear address of the instruction that asks
 */
struct replay {
	u16 n, cursor;
	bool open;
	u64 rip;
	struct replay_entry entry[REPLAY_MAX];
	u8 batch[REPLAY_BATCH];
};

/** replay_reset() - forget everything; also the engine's commit */
static inline void replay_reset(struct replay *r)
{
	r->n = 0;
	r->cursor = 0;
	r->open = false;
}

/** replay_pending() - an instruction waits to be run again */
static inline bool replay_pending(const struct replay *r)
{
	return r->open || r->n;
}

/** replay_at() - the instruction at linear address @rip asks: another one's
 * record is over.  (Two runs of one instruction are separated by a commit.) */
static inline void replay_at(struct replay *r, u64 rip)
{
	if (likely(r->rip == rip))
		return;
	replay_reset(r);
	r->rip = rip;
}

/**
 * replay_find() - the recorded answer to a question
 * Return: the entry (and the cursor moves on), or NULL: a new question; then
 * the rest of the record is gone and replay_add() or replay_open() follows.
 */
struct replay_entry *replay_find(struct replay *r, enum replay_kind kind, u64 addr,
				 unsigned size);

/** replay_add() - record a question that was answered here
 * Return: the entry, to be filled in; NULL if the record is full. */
struct replay_entry *replay_add(struct replay *r, enum replay_kind kind, u64 addr,
				unsigned size);

/** replay_open() - put a question to the client; the engine must stop
 * Return: false if the record is full. */
bool replay_open(struct replay *r, enum replay_kind kind, u64 addr, unsigned size,
		 unsigned count) must_check;

/** replay_open_entry() - the question that is with the client, NULL if none */
static inline struct replay_entry *replay_open_entry(struct replay *r)
{
	return r->open ? &r->entry[r->n] : NULL;
}

/** replay_answered() - the open question has its answer; run again from the start */
void replay_answered(struct replay *r);

#endif
