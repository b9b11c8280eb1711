/* SPDX-License-Identifier: MIT */
/*
 * The local APIC of one vCPU: xAPIC and x2APIC.
 *
 * Who may do what:
 *  - Any thread: lapic_accept() (post a vector: OR into IRR, lock-free),
 *    irqchip_deliver(), and the functions marked "any thread".
 *  - The vCPU's thread, or whoever holds the vCPU while it does not run:
 *    everything else (registers, ISR, TPR, PPR, timer, state).
 *
 * Evaluation, i.e. asking "which vector is deliverable?", costs a pass through
 * the run loop and is done only when the answer can have become yes.  The LAPIC
 * decides that: on
 *    a vector accepted with a class above PPR's, a PPR that fell below the
 *    highest IRR, APICBASE enable, state loaded by the client
 * it sets `pending` and calls ops->request(IRQ_REQ_APIC).  The owner then, or
 * (IF=0, shadow) when the processor's own obstacle ends and lapic_is_pending(),
 * calls lapic_evaluate(), and lapic_ack() if it delivers the vector.  Nothing
 * else evaluates: not a raised TPR, EOI with nothing else requested, a vector
 * of a class that PPR blocks, a vector that is already requested.
 *
 * Loads and stores between threads: a sender sets the IRR bit, marks the cached
 * highest IRR stale, then reads PPR; the vCPU lowers PPR, then reads the stale
 * mark.  Both sides are sequentially consistent, so one of the two sees the
 * other: either the sender requests or the vCPU finds the vector.
 */
#ifndef LOCUM_IRQ_LAPIC_H
#define LOCUM_IRQ_LAPIC_H

#include <linux/kvm.h>
#include <stdatomic.h>

#include "base/types.h"
#include "x86/apic.h"

struct irqchip;
struct irq_msg;

/* lapic_set_features() */
#define LAPIC_HAS_X2APIC       BIT(0) /* CPUID.1:ECX[21] */
#define LAPIC_HAS_TSC_DEADLINE BIT(1) /* CPUID.1:ECX[24] */
#define LAPIC_HAS_CMCI	       BIT(2) /* MCG_CAP.CMCI_P: a seventh LVT */

/* lapic_take_init_sipi() */
#define LAPIC_INIT BIT(0)
#define LAPIC_SIPI BIT(1)

struct lapic_timer {
	_Atomic u64 expiry_ns; /* absolute clock->now_ns(); ~0 = stopped.  Written by
				* the vCPU thread, read by anyone */
	u64 deadline;	       /* TSC-deadline mode: guest TSC; 0 = disarmed */
};

struct lapic {
	struct irqchip *chip;
	void *vcpu;    /* for ops */
	u32 id;	       /* vCPU id: the x2APIC ID, initial xAPIC ID */
	u32 features;  /* LAPIC_HAS_* */
	u8 maxphyaddr; /* bits */
	bool is_bsp;

	/* Written by the vCPU thread, read by anyone (relaxed). */
	_Atomic u64 base;    /* APICBASE MSR */
	_Atomic u32 reg[64]; /* by offset >> 4; not TPR/PPR/ISR/TMR/IRR */

	/* Atomic: posted by any thread. */
	_Atomic u64 irr[4];
	_Atomic u64 tmr[4];
	_Atomic bool irr_stale; /* irr_highest may be wrong */
	_Atomic bool pending;	/* evaluation is wanted */
	_Atomic u32 init_sipi;	/* LAPIC_INIT, LAPIC_SIPI, vector << 8 */
	_Atomic u8 ppr;		/* written by the vCPU thread */

	/* The vCPU thread's. */
	u8 tpr;
	s16 irr_highest; /* cache, -1 none; exact unless irr_stale */
	s16 isr_highest; /* exact, -1 none */
	u64 isr[4];
	struct lapic_timer timer;
	u64 ipis_sent; /* statistics: ICR and SELF IPI writes that sent */
};

/**
 * lapic_create() - add a LAPIC to @chip, in power-up state
 * @chip: mode IRQCHIP_KERNEL or IRQCHIP_SPLIT
 * @id: vCPU id (APIC ID), unique, below 4096; @vcpu: passed to ops
 * @is_bsp: the boot processor
 * Serialised by the owner; other vCPUs may run.  ops->request() may be called
 * for it as soon as this returns.
 * Return: 0 and *@out; -ENOMEM, -EINVAL (IRQCHIP_MAX_VCPUS reached).
 */
int lapic_create(struct irqchip *chip, u32 id, void *vcpu, bool is_bsp,
		 struct lapic **out) must_check;

/** lapic_destroy() - free; only when no thread can use @chip any more, or right
 * after lapic_create() if the vCPU could not be made */
void lapic_destroy(struct lapic *l);

/** lapic_set_features() - what CPUID says: LAPIC_HAS_*, MAXPHYADDR in bits */
void lapic_set_features(struct lapic *l, u32 features, u8 maxphyaddr);

/**
 * lapic_reset() - power-up, or INIT
 * @init: INIT: APICBASE and the ID stay.  Latched INIT and SIPI stay in both.
 */
void lapic_reset(struct lapic *l, bool init);

/*
 * Modes.  Any thread.
 */
static inline bool lapic_hw_enabled(const struct lapic *l)
{
	return atomic_load_explicit(&l->base, memory_order_relaxed) & APICBASE_ENABLE;
}

static inline bool lapic_x2apic(const struct lapic *l)
{
	return (atomic_load_explicit(&l->base, memory_order_relaxed) &
		(APICBASE_ENABLE | APICBASE_X2APIC)) ==
	       (APICBASE_ENABLE | APICBASE_X2APIC);
}

/** lapic_reg() - a plain register by its offset (not TPR, PPR, ISR, TMR, IRR) */
static inline u32 lapic_reg(const struct lapic *l, unsigned offset)
{
	return atomic_load_explicit(&l->reg[offset >> 4], memory_order_relaxed);
}

static inline void lapic_put_reg(struct lapic *l, unsigned offset, u32 value)
{
	atomic_store_explicit(&l->reg[offset >> 4], value, memory_order_relaxed);
}

static inline bool lapic_sw_enabled(const struct lapic *l)
{
	return lapic_reg(l, APIC_SVR) & SVR_ENABLE;
}

/*
 * Evaluation and delivery; vCPU thread.
 */

/** lapic_is_pending() - lapic_evaluate() is wanted; any thread, one load */
static inline bool lapic_is_pending(const struct lapic *l)
{
	return atomic_load(&l->pending);
}

/**
 * lapic_evaluate() - the vector that would be delivered now, ignoring RFLAGS.IF
 * @req_event: the vCPU's counter of evaluations, incremented
 *
 * lapic_is_pending() is afterwards true exactly if a vector was found (or came
 * in meanwhile).
 * Return: highest requested vector of a class above PPR's; -1 if none, or the
 * APIC is globally disabled.
 */
int lapic_evaluate(struct lapic *l, u64 *req_event);

/** lapic_ack() - @vector, just returned by lapic_evaluate(), is being delivered:
 * IRR to ISR.  No further evaluation is needed unless one came in meanwhile. */
void lapic_ack(struct lapic *l, u8 vector);

/** lapic_eoi() - end the highest vector in service, as a write to EOI does
 * (MMIO, MSR, paravirtual).  Nothing happens if there is none. */
void lapic_eoi(struct lapic *l);

/** lapic_can_pv_eoi() - the next EOI may be left to a guest memory flag: one
 * vector in service, edge-triggered without a listener, nothing requested */
bool lapic_can_pv_eoi(struct lapic *l);

/** lapic_accepts_extint() - the PIC's output reaches this vCPU: APIC globally
 * disabled, or LVT0 unmasked in ExtINT mode.  Any thread. */
bool lapic_accepts_extint(const struct lapic *l);

/** lapic_get_cr8(), lapic_set_cr8() - TPR class; @cr8 0..15 (checked: #GP above) */
static inline u64 lapic_get_cr8(const struct lapic *l)
{
	return l->tpr >> 4;
}
void lapic_set_cr8(struct lapic *l, u64 cr8);

/*
 * Posting; any thread, no lock held.
 */

/**
 * lapic_accept() - a message has reached this LAPIC
 * Return: 1 taken (or already requested), 0 refused.
 */
int lapic_accept(struct lapic *l, const struct irq_msg *msg);

/** lapic_post() - request edge-triggered fixed @vector; refused (false) while the
 * APIC is disabled by hardware or software */
bool lapic_post(struct lapic *l, u8 vector);

/** lapic_local_deliver() - raise a local vector table entry (APIC_LVT*)
 * vCPU thread, or any for APIC_LVT0/1 in NMI mode.
 * Return: true if it was unmasked and taken. */
bool lapic_local_deliver(struct lapic *l, unsigned lvt);

/**
 * lapic_take_init_sipi() - consume latched INIT and SIPI; vCPU thread
 * @vector: SIPI vector, if LAPIC_SIPI is returned
 * Return: LAPIC_* bits, 0 for none.  The owner does INIT first, then SIPI, which
 * it ignores unless it waits for SIPI.  An INIT that arrived after a SIPI has
 * removed it.
 */
u32 lapic_take_init_sipi(struct lapic *l, u8 *vector);

/** lapic_has_init_sipi() - something is latched; any thread */
static inline bool lapic_has_init_sipi(const struct lapic *l)
{
	return atomic_load(&l->init_sipi) & (LAPIC_INIT | LAPIC_SIPI);
}

/*
 * Guest access; vCPU thread.
 */

/** lapic_mmio_hits() - @gpa is in this vCPU's APIC page and the page is there.
 * False when globally disabled or in x2APIC mode with the MMIO hole quirk off:
 * the access then belongs to the client. */
bool lapic_mmio_hits(const struct lapic *l, gpa_t gpa);

/**
 * lapic_mmio_read(), lapic_mmio_write() - access at @offset in the APIC page
 * @len: 1..8.  Reads of 1, 2, 4 bytes within a 32-bit register; writes of 4 bytes
 * at a multiple of 16.  Anything else reads as zero and is ignored.  Where the
 * page is a hole (x2APIC mode, disabled) reads give all-ones.
 */
void lapic_mmio_read(struct lapic *l, unsigned offset, void *data, unsigned len);
void lapic_mmio_write(struct lapic *l, unsigned offset, const void *data, unsigned len);

/**
 * lapic_msr_read(), lapic_msr_write() - APICBASE (0x1b), TSC deadline (0x6e0) and
 * x2APIC registers (0x800..0x8ff)
 * @host: by the client (KVM_SET_MSRS): APICBASE may go to any valid mode
 * Return: false: #GP(0) (the client: refused); nothing changed.
 */
bool lapic_msr_read(struct lapic *l, u32 msr, u64 *value);
bool lapic_msr_write(struct lapic *l, u32 msr, u64 value, bool host);

/**
 * apicbase_valid() - may APICBASE go from @old to @value?
 * Also for vCPUs without struct lapic (the LAPIC is the client's).
 * @x2apic: offered by CPUID; @host: by the client, any mode change allowed
 */
bool apicbase_valid(u64 old, u64 value, bool x2apic, u8 maxphyaddr, bool host);

/** lapic_set_base() - store APICBASE without checks (SET_SREGS after
 * apicbase_valid()) */
void lapic_set_base(struct lapic *l, u64 value);

/*
 * State for the client; the vCPU does not run.
 */

/** lapic_get_state(), lapic_set_state() - KVM_GET_LAPIC, KVM_SET_LAPIC: the register
 * page's first 1024 bytes; APICBASE must be loaded before.
 * Return: -EINVAL if an x2APIC ID is not the vCPU's (32-bit IDs format). */
void lapic_get_state(struct lapic *l, struct kvm_lapic_state *s);
int lapic_set_state(struct lapic *l, const struct kvm_lapic_state *s) must_check;

/*
 * Inside the layer.
 */

/** lapic_reg_write() - a valid register write; @value already checked */
bool lapic_reg_write(struct lapic *l, unsigned offset, u32 value);
/** lapic_reg_read() - false if there is no such register */
bool lapic_reg_read(struct lapic *l, unsigned offset, u32 *value);
/** lapic_send_ipi() - send what @icr says; @dest: ID or logical mask */
void lapic_send_ipi(struct lapic *l, u32 icr, u32 dest);
/** lapic_matches() - is @l addressed by @msg from @src (NULL: not an IPI)? */
bool lapic_matches(const struct lapic *l, const struct lapic *src,
		   const struct irq_msg *msg);
/** lapic_update_ppr() - recompute; sets pending and requests if a vector became
 * deliverable */
void lapic_update_ppr(struct lapic *l);
/** lapic_recheck() - anything may have changed: recompute caches, request if a
 * vector is deliverable */
void lapic_recheck(struct lapic *l);

#endif
