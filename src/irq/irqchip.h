/* SPDX-License-Identifier: MIT */
/*
 * The interrupt controllers of a VM, as KVM has them "in the kernel".
 *
 *   KVM_IRQ_LINE, irqfd, PIT          guest ports        guest MMIO, MSRs
 *            |                            |                     |
 *         route.c  --->  pic.c  <---------+        lapic*.c  <--+
 *            |             |  INTR               ^     |
 *            +--> ioapic.c |                     |     | IPI
 *            |      |      v                     |     v
 *            +-> msi.c   ops->request()        lapic_ipi.c ---> ops
 *                   +----------------------------^
 *
 * The layer knows neither processors nor VMs: what must happen there goes
 * through struct irqchip_ops.  It owns no thread and no host timer; see
 * "Time" below.
 *
 * Locks: routes.lock, pic.lock, ioapic.lock and pit.lock are leaves.  No
 * function of this layer holds two of them, or calls an op with one held:
 * it collects, unlocks, and acts.  LAPICs have no lock: their registers belong
 * to the vCPU's thread, and what others touch (IRR, TMR, latches) is atomic.
 *
 * Time: the PIT and the IOAPIC's re-send delay run when the owner calls
 * irqchip_timer_run(), from one thread or several, at or after
 * irqchip_timer_next_ns(); ops->timer_changed() says that the latter became
 * earlier.  LAPIC timers are the vCPU thread's business (irq/lapic_timer.h).
 */
#ifndef LOCUM_IRQ_IRQCHIP_H
#define LOCUM_IRQ_IRQCHIP_H

#include <linux/kvm.h>

#include "base/clock.h"
#include "irq/ioapic.h"
#include "irq/pic.h"
#include "irq/route.h"
#include "x86/apic.h"

struct lapic;
struct pit;

#define IRQCHIP_MAX_VCPUS 1024

/* What a vCPU is asked for. */
enum irq_request {
	/* Look at lapic_evaluate(): a vector may have become deliverable. */
	IRQ_REQ_APIC,
	/* Look at irqchip_has_extint(): the PIC has an interrupt. */
	IRQ_REQ_EXTINT,
	/* Look at lapic_take_init_sipi(). */
	IRQ_REQ_INIT_SIPI,
	/* Latch one more NMI (the owner counts: two at most are pending). */
	IRQ_REQ_NMI,
	IRQ_REQ_SMI,
	/* Leave HLT without an interrupt (PV kick, delivery mode 3). */
	IRQ_REQ_UNHALT,
};

/**
 * struct irqchip_ops - calls upward; all pointers must be set
 *
 * Called with no lock of this layer held, from any thread, the vCPU's own
 * included; none may block on a vCPU.
 *
 * @request: latch @req for the vCPU (set its attention bit) and make it look,
 *           waking it if it sleeps (wait_kick()).
 * @tsc:     the vCPU's guest TSC now; its own thread only.
 * @tsc_khz: guest TSC ticks per millisecond, not 0.
 * @eoi:     split irqchip: the vCPU ended level-triggered vector @vector, which
 *           a remembered route uses: KVM_EXIT_IOAPIC_EOI.  vCPU thread.
 * @acked:   a GSI for which irqchip_watch_acks() is on was acknowledged (PIC
 *           EOI, IOAPIC EOI): resample it.
 * @timer_changed: irqchip_timer_next_ns() became earlier.
 * @base_changed: APICBASE of the vCPU changed (CPUID.1:EDX[9], MMIO page).
 *           vCPU thread.
 */
struct irqchip_ops {
	void (*request)(void *vcpu, enum irq_request req);
	u64 (*tsc)(void *vcpu);
	u32 (*tsc_khz)(void *vcpu);
	void (*eoi)(void *vcpu, u8 vector);
	void (*acked)(void *vm, u32 gsi);
	void (*timer_changed)(void *vm);
	void (*base_changed)(void *vcpu);
};

enum irqchip_mode {
	IRQCHIP_NONE,	/* everything is the client's; no struct lapic exists */
	IRQCHIP_KERNEL, /* KVM_CREATE_IRQCHIP */
	IRQCHIP_SPLIT,	/* KVM_CAP_SPLIT_IRQCHIP: LAPICs here, the rest the client's */
};

/* Who drives a line; a pin's level is the OR of its sources. */
enum irq_source { IRQ_SOURCE_CLIENT, IRQ_SOURCE_RESAMPLE, IRQ_SOURCE_PIT, IRQ_SOURCES };

/** struct irqchip - embedded in the VM; open for reading
 * The flags in the second group are set by the owner before vCPUs run. */
struct irqchip {
	const struct irqchip_ops *ops;
	void *vm;
	const struct clock *clock;
	enum irqchip_mode mode;

	bool x2apic_format;	 /* KVM_X2APIC_API_USE_32BIT_IDS */
	bool no_broadcast_quirk; /* KVM_X2APIC_API_DISABLE_BROADCAST_QUIRK */
	bool no_lint0_quirk;	 /* KVM_X86_QUIRK_LINT0_REENABLED disabled */
	bool no_mmio_hole_quirk; /* KVM_X86_QUIRK_LAPIC_MMIO_HOLE disabled */
	unsigned split_pins;	 /* GSIs below it are the client's IOAPIC pins */

	_Atomic unsigned nr_lapics;
	struct lapic *lapics[IRQCHIP_MAX_VCPUS]; /* [0, nr_lapics), append only */

	struct route_table routes;
	struct pic pic;
	struct ioapic ioapic;
	struct pit *_Atomic pit; /* NULL until KVM_CREATE_PIT2 */

	/* GSIs to report through ops->acked(), a bit each; atomic. */
	_Atomic u64 watched[(ROUTE_MAX_GSIS + 63) / 64];
	/* Split: vectors that level-triggered routes of IOAPIC pins use now, and
	 * those that ever did (one may still be in service). */
	_Atomic u64 split_eoi[4];
	_Atomic u64 split_ever[4];
};

/**
 * irqchip_init() - prepare @chip (any memory), mode IRQCHIP_NONE
 * @ops, @clock: outlive @chip.  @vm: passed back to ops.
 * Return: 0 or -ENOMEM.
 */
int irqchip_init(struct irqchip *chip, const struct irqchip_ops *ops, void *vm,
		 const struct clock *clock) must_check;

/** irqchip_fini() - release the PIT, routes and locks; LAPICs were destroyed by
 * the owner, and nobody uses @chip any more */
void irqchip_fini(struct irqchip *chip);

/**
 * irqchip_create() - KVM_CREATE_IRQCHIP: PIC, IOAPIC and the default routes
 * Before the first vCPU (the owner checks: -EINVAL).
 * Return: 0, -EEXIST, -ENOMEM.
 */
int irqchip_create(struct irqchip *chip) must_check;

/**
 * irqchip_create_split() - KVM_CAP_SPLIT_IRQCHIP
 * @pins: IOAPIC pins that the client has, 0..4096
 * Return: 0, -EEXIST, -EINVAL, -ENOMEM.
 */
int irqchip_create_split(struct irqchip *chip, unsigned pins) must_check;

/**
 * irqchip_create_pit() - KVM_CREATE_PIT2
 * @flags: KVM_PIT_SPEAKER_DUMMY or 0
 * Return: 0, -EEXIST, -ENOENT (no PIC), -ENOMEM.
 */
int irqchip_create_pit(struct irqchip *chip, u32 flags) must_check;

/**
 * irqchip_set_gsi() - drive a GSI: KVM_IRQ_LINE(_STATUS), irqfd, the PIT
 * @gsi: any number
 * @level: 0 or 1.  MSI routes send at 1 and ignore 0.
 * @line_status: the caller uses the result (KVM_IRQ_LINE_STATUS)
 *
 * Any thread, no lock held.
 * Return: KVM_IRQ_LINE_STATUS's `status`: > 0 delivered to that many
 * destinations, 0 coalesced with one that was still pending, < 0 ignored
 * (masked, or no route).
 */
int irqchip_set_gsi(struct irqchip *chip, enum irq_source source, u32 gsi, int level,
		    bool line_status);

/** irqchip_pulse_gsi() - 1 then 0: an irqfd without resample.
 * Return: as irqchip_set_gsi() for the rising edge. */
int irqchip_pulse_gsi(struct irqchip *chip, u32 gsi);

/** irqchip_set_routes() - KVM_SET_GSI_ROUTING: replace the whole table
 * @entries: @nr of them (<= ROUTE_MAX_GSIS), copied
 * Return: 0; -EINVAL (nothing changed), -ENOMEM. */
int irqchip_set_routes(struct irqchip *chip, const struct kvm_irq_routing_entry *entries,
		       unsigned nr) must_check;

/** irqchip_watch_acks() - turn ops->acked() for @gsi on or off
 * @gsi: < ROUTE_MAX_GSIS.  Any thread. */
void irqchip_watch_acks(struct irqchip *chip, u32 gsi, bool on);

/** irqchip_signal_msi() - KVM_SIGNAL_MSI
 * Return: > 0 delivered, 0 blocked by the guest, < 0: nobody is addressed, or
 * -EINVAL. */
int irqchip_signal_msi(struct irqchip *chip, const struct kvm_msi *msi);

/** irqchip_get(), irqchip_set() - KVM_GET_IRQCHIP, KVM_SET_IRQCHIP
 * @s: ->chip_id selects the chip.  Mode is IRQCHIP_KERNEL (else -ENXIO).
 * Return: 0; -EINVAL for an unknown chip, -ENXIO. */
int irqchip_get(struct irqchip *chip, struct kvm_irqchip *s) must_check;
int irqchip_set(struct irqchip *chip, const struct kvm_irqchip *s) must_check;

/**
 * irqchip_has_extint() - the PIC wants an ExtINT and @lapic lets it through
 * Any thread; one load when the PIC is quiet.
 */
bool irqchip_has_extint(struct irqchip *chip, const struct lapic *lapic);

/**
 * irqchip_ack_extint() - interrupt acknowledge cycle (INTA)
 * The vCPU accepts the ExtINT: right after irqchip_has_extint(), IF=1.
 * Return: the vector, 0..255; a spurious one (IRQ 7 or 15) if the line dropped.
 */
u8 irqchip_ack_extint(struct irqchip *chip);

/** irqchip_timer_next_ns() - when irqchip_timer_run() is due: absolute
 * clock->now_ns(), or ~0 for never.  Any thread. */
u64 irqchip_timer_next_ns(struct irqchip *chip);

/** irqchip_timer_run() - do what is due at @now_ns; early calls do nothing.
 * Any thread, no lock held. */
void irqchip_timer_run(struct irqchip *chip, u64 now_ns);

/*
 * Inside the layer.
 */

/** struct irq_msg - an interrupt message on its way to LAPICs */
struct irq_msg {
	u32 dest; /* APIC ID, or logical mask */
	u8 vector;
	u8 mode;	 /* enum apic_mode */
	u8 shorthand;	 /* enum apic_short; only with a source LAPIC */
	bool logical;	 /* destination mode */
	bool level;	 /* trigger mode */
	bool assert;	 /* level-triggered messages: assert, not deassert */
	bool redir_hint; /* MSI: lowest priority among the addressed */
};

/**
 * irqchip_deliver() - send @msg to the LAPICs that it addresses (lapic_ipi.c)
 * @src: the LAPIC that sends, for shorthands; NULL for IOAPIC and MSI
 * Any thread, no lock held.
 * Return: number of LAPICs that took it; 0 if the addressed ones refused
 * (disabled); -1 if nobody is addressed.
 */
int irqchip_deliver(struct irqchip *chip, struct lapic *src, const struct irq_msg *msg);

/** irqchip_pic_raised() - pic.c: INTR went from low to high */
void irqchip_pic_raised(struct irqchip *chip);
/** irqchip_notify_ack() - pic.c, ioapic.c: pin @pin of chip @id was acknowledged */
void irqchip_notify_ack(struct irqchip *chip, unsigned id, unsigned pin);
/** irqchip_notify_mask() - pic.c, ioapic.c: a pin was masked or unmasked */
void irqchip_notify_mask(struct irqchip *chip, unsigned id, unsigned pin, bool masked);
/** irqchip_notify_eoi() - lapic: @vector was ended by @lapic
 * @level: its TMR bit */
void irqchip_notify_eoi(struct irqchip *chip, struct lapic *lapic, u8 vector, bool level);

#endif
