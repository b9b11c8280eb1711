/* SPDX-License-Identifier: MIT */
/*
 * A virtual processor: the architectural state, its local APIC, its run page,
 * and what other threads have asked of it.
 *
 * The mutex covers everything that is not marked otherwise; the thread in
 * KVM_RUN holds it all the time, as the kernel does.
 */
#ifndef LOCUM_VM_VCPU_H
#define LOCUM_VM_VCPU_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/event.h"
#include "cpu/state.h"
#include "mem/dirty_ring.h"
#include "pv/kvmclock.h"
#include "vm/replay.h"
#include "vm/stats.h"

struct lapic;
struct timer_slot;
struct vm;

/* vcpu.requests: set by any thread, then vcpu_notify(). */
#define VCPU_REQ_EXIT  BIT(0) /* leave KVM_RUN with -EINTR: a signal or a kick */
#define VCPU_REQ_DEAD  BIT(1) /* the VM is broken: -EIO */
#define VCPU_REQ_CLOCK BIT(2) /* rewrite the guest's kvmclock structure */
#define VCPU_REQ_EVENT BIT(3) /* look for events; carries nothing else */

/** struct vcpu_tsc - the vCPU's TSC
 * @clock: the host's clock with tsc() and tsc_khz as this vCPU has them; what
 *         cpu.clock points to
 * @host:  the host's clock itself */
struct vcpu_tsc {
	struct clock clock;
	const struct clock *host;
};

/* Pages of a vCPU's descriptor, as clients map them. */
#define VCPU_RUN_PAGE	    0
#define VCPU_PIO_PAGE	    KVM_PIO_PAGE_OFFSET
#define VCPU_COALESCED_PAGE KVM_COALESCED_MMIO_PAGE_OFFSET
#define VCPU_MMAP_SIZE	    (3 * PAGE_SIZE)
#define VCPU_DIRTY_OFFSET   (KVM_DIRTY_LOG_PAGE_OFFSET * PAGE_SIZE) /* the ring, if any */

struct vcpu {
	/* Set at creation. */
	struct vm *vm;
	u32 id;	   /* APIC id */
	u32 index; /* in vm->vcpus */
	struct kvm_run *run;	/* our mapping of VCPU_MMAP_SIZE bytes */
	struct lapic *lapic;	/* NULL without an in-kernel LAPIC */
	struct timer_slot *slot; /* in vm->timer */
	struct stats_area stats; /* struct vcpu_counters */

	pthread_mutex_t mutex;
	struct cpu cpu;
	struct vcpu_tsc tsc;

	/* Reached by other threads. */
	_Atomic u32 requests; /* VCPU_REQ_* */
	struct vcpu_wait wait;
	_Atomic u32 mp_state; /* KVM_MP_STATE_*; written by the vCPU's thread */
	_Atomic bool ring_shown; /* in every mapping: the VM's ring (api/map.h) */
	_Atomic u32 nmi_queued;	 /* arrived, not yet in nmi_pending */
	_Atomic bool smi_queued; /* arrived, not yet in smi_pending */

	/* Events (vm/event.c). */
	u8 nmi_pending;		 /* 0..2 */
	bool smi_pending;
	struct {
		bool pending, has_error, has_payload;
		u8 vector;
		u32 error;
		u64 payload;
	} exception; /* pending, not yet being delivered */
	bool triple_fault_pending;
	bool extint_pending; /* KVM_INTERRUPT without an in-kernel PIC */
	u8 extint_vector;
	_Atomic bool pv_unhalted;

	struct dirty_ring ring; /* of pages that it wrote; mapped behind the run page */

	struct replay replay;
	bool posted_exit;	/* the run page is filled, the instruction done */
	bool completing;	/* run the recorded instruction, then leave */
	bool set_tpr_exit;	/* CR8 fell and the LAPIC is the client's */
	bool eoi_exit;		/* split irqchip: EOI of eoi_vector */
	u8 eoi_vector;
	bool has_run;		/* CPUID may not change any more */

	struct kvmclock kvmclock;
	u64 wall_clock_msr;
	u64 poll_control_msr;
	u64 apic_base;		/* when there is no LAPIC of ours */
	u32 pv_features;	/* of the vCPU's CPUID */
	bool pv_enforce;	/* KVM_CAP_ENFORCE_PV_FEATURE_CPUID */
	u32 guest_debug;	/* KVM_GUESTDBG_* as the client set them */
	bool sigmask_set;
	bool sigmask_used;	/* by the KVM_RUN under way */
	u64 sigmask;		/* in force during KVM_RUN; bit n-1: signal n */
	u64 saved_sigmask;
};

/**
 * vcpu_create() - add a vCPU in its reset state to @vm; vm->lock held
 * @run: VCPU_MMAP_SIZE bytes, mapped shared; on success they belong to the vCPU
 * @ring: its dirty ring, vm->mem->ring_bytes bytes, likewise; NULL: none
 * Return: 0 and *@out; -EINVAL (id out of range, too many), -EEXIST, -ENOMEM.
 */
int vcpu_create(struct vm *vm, unsigned long id, void *run, void *ring,
		struct vcpu **out) must_check;
/** vcpu_destroy() - when the VM goes, or at once if no descriptor could be made */
void vcpu_destroy(struct vcpu *v);

/** vcpu_is_bsp() - the boot processor */
bool vcpu_is_bsp(const struct vcpu *v);

/** vcpu_request() - set request bits and make the vCPU look at them; any thread */
void vcpu_request(struct vcpu *v, u32 bits);

/** vcpu_kick() - make a KVM_RUN under way on @v return -EINTR;
 * async-signal-safe */
void vcpu_kick(struct vcpu *v);

/** vcpu_guest_tsc() - the guest's time-stamp counter now */
static inline u64 vcpu_guest_tsc(const struct vcpu *v)
{
	return v->cpu.clock->tsc(v->cpu.clock) + (u64)v->cpu.tsc_offset;
}

/** vcpu_set_tsc_khz() - another TSC frequency; the count goes on from where it
 * is.  @khz > 0 */
void vcpu_set_tsc_khz(struct vcpu *v, u32 khz);

/** vcpu_tsc_changed() - the offset or the frequency was changed: recompute the
 * LAPIC timer and the guest's clock structure */
void vcpu_tsc_changed(struct vcpu *v);

/** vcpu_timer_sync() - have the VM's timer thread watch the LAPIC timer, when
 * the vCPU is about to run or has just written a LAPIC register */
void vcpu_timer_sync(struct vcpu *v);

/** vcpu_cpuid_changed() - recompute what depends on the vCPU's CPUID outside
 * the processor: LAPIC features, KVM features */
void vcpu_cpuid_changed(struct vcpu *v);

#endif
