/* SPDX-License-Identifier: MIT */
/*
 * The 8254 timer: three counters, channel 0 on GSI 0, gate and output of
 * channel 2 behind port 0x61.
 *
 * No thread: counters are computed from the clock when read, channel 0's
 * interrupts are produced by pit_run().  8254 data sheet (231164).
 *
 * Reinjection, as KVM's (default on): a tick that comes while the previous one
 * has not been acknowledged is counted and sent after the acknowledge.  Off: it
 * is lost.
 */
#ifndef LOCUM_IRQ_PIT_H
#define LOCUM_IRQ_PIT_H

#include <linux/kvm.h>
#include <pthread.h>

#include "base/types.h"

struct irqchip;

#define PIT_HZ 1193182u

/** struct pit_channel - one counter.  Under pit.lock. */
struct pit_channel {
	struct kvm_pit_channel_state s; /* count_load_time: ns of the last (re)load */
	bool loaded;			/* a count was written since the mode was */
	bool triggered;			/* modes 1, 5: the gate rose since */
	u64 paused_ns;			/* gate low: elapsed time at that moment */
};

struct pit {
	pthread_mutex_t lock;
	/* @lock */
	struct pit_channel ch[3];
	u32 flags;	   /* KVM_PIT_FLAGS_* */
	bool speaker_port; /* KVM_PIT_SPEAKER_DUMMY: port 0x61 is ours */
	bool reinject;
	bool acked;	     /* the last tick was acknowledged */
	u32 backlog;	     /* ticks to send after acknowledges */
	u64 period_ns;	     /* channel 0; 0 = one-shot */
	_Atomic u64 next_ns; /* channel 0's next rising edge, ~0 never; read by anyone */
};

/** pit_create() - a PIT after reset; NULL if memory is short.
 * @flags: KVM_PIT_SPEAKER_DUMMY or 0 */
struct pit *pit_create(u32 flags, u64 now_ns);
void pit_destroy(struct pit *p);

/**
 * pit_read(), pit_write() - guest access to one byte
 * @port: 0x40..0x43, and 0x61
 * The PIT exists.  Any thread.
 */
u8 pit_read(struct irqchip *chip, u16 port);
void pit_write(struct irqchip *chip, u16 port, u8 value);

/** pit_owns_port() - 0x40..0x43; 0x61 with KVM_PIT_SPEAKER_DUMMY; false if no PIT */
bool pit_owns_port(struct irqchip *chip, u16 port);

/** pit_run() - send channel 0's tick if one is due at @now_ns */
void pit_run(struct irqchip *chip, u64 now_ns);

/** pit_ack() - GSI 0 was acknowledged (PIC or IOAPIC EOI) */
void pit_ack(struct irqchip *chip);

/** pit_unmasked() - GSI 0 was unmasked: forget the backlog */
void pit_unmasked(struct irqchip *chip);

/** pit_set_reinject() - KVM_REINJECT_CONTROL */
void pit_set_reinject(struct irqchip *chip, bool on);

/** pit_get_state(), pit_set_state() - KVM_GET_PIT2, KVM_SET_PIT2.  KVM_GET_PIT and
 * KVM_SET_PIT are the same without flags: the caller copies the channels.
 * Loading restarts the counters.  Return: 0; -EINVAL for a count over 65536. */
void pit_get_state(struct irqchip *chip, struct kvm_pit_state2 *s);
int pit_set_state(struct irqchip *chip, const struct kvm_pit_state2 *s) must_check;

/* Inside the unit: channel 0 was programmed; under pit.lock. */
void pit_start_ticks(struct pit *p, u64 now_ns);

#endif
