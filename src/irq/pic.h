/* SPDX-License-Identifier: MIT */
/*
 * The pair of 8259A interrupt controllers, slave on pin 2 of the master, with
 * the edge/level registers (ELCR) of PC chipsets.
 * 8259A data sheet (231468); KVM's struct kvm_pic_state for saving.
 */
#ifndef LOCUM_IRQ_PIC_H
#define LOCUM_IRQ_PIC_H

#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/types.h"

struct irqchip;

/** struct pic_chip - one 8259A.  Under pic.lock. */
struct pic_chip {
	struct kvm_pic_state s;
	bool single; /* ICW1: no ICW3 follows */
	u8 acked;    /* pins acknowledged under the lock, to be notified */
};

struct pic {
	pthread_mutex_t lock;
	struct pic_chip chip[2]; /* master, slave; @lock */
	_Atomic bool intr;	 /* output; written under @lock */
	bool raised;		 /* went high under the lock; @lock */
	u8 sources[16];		 /* bit per enum irq_source; @lock */
	u16 unmasked;		 /* pins unmasked under the lock; @lock */
	u16 masked;		 /* likewise masked */
};

void pic_init(struct pic *p);
void pic_fini(struct pic *p);

/**
 * pic_read(), pic_write() - guest access to one byte
 * @port: 0x20, 0x21, 0xa0, 0xa1, 0x4d0, 0x4d1; others read 0xff and ignore
 *        writes.  Wider guest accesses are the caller's to split or refuse
 *        (KVM: refused, read as zero).
 * Any thread; may call ops->request(), ops->acked().
 */
u8 pic_read(struct irqchip *chip, u16 port);
void pic_write(struct irqchip *chip, u16 port, u8 value);

/** pic_set_pin() - drive pin @pin 0..15 for @source (enum irq_source)
 * Return: 1 taken, 0 coalesced, -1 masked, as KVM reports line status. */
int pic_set_pin(struct irqchip *chip, unsigned pin, unsigned source, bool level);

/** pic_intr() - the output to the processor; any thread */
static inline bool pic_intr(const struct pic *p)
{
	return atomic_load(&p->intr);
}

/** pic_ack() - INTA cycle; see irqchip_ack_extint() */
u8 pic_ack(struct irqchip *chip);

/** pic_get_state(), pic_set_state() - save or load chip @n: 0 master, 1 slave.
 * Any contents are accepted; impossible values are masked. */
void pic_get_state(struct irqchip *chip, unsigned n, struct kvm_pic_state *s);
void pic_set_state(struct irqchip *chip, unsigned n, const struct kvm_pic_state *s);

#endif
