/* SPDX-License-Identifier: MIT */
#include "irq/pic.h"

#include <string.h>

#include "irq/irqchip.h"

#define CASCADE		 2 /* the master's pin that the slave drives */
#define ELCR_MASK_MASTER 0xf8
#define ELCR_MASK_SLAVE	 0xde
#define SPURIOUS	 7

#define ICW1_START  BIT(4)
#define ICW1_SINGLE BIT(1)
#define ICW1_ICW4   BIT(0)
#define ICW4_SFNM   BIT(4)
#define ICW4_AEOI   BIT(1)
#define OCW3_SELECT BIT(3)

/* init_state: the initialisation word that is awaited. */
enum { READY, WANT_ICW2, WANT_ICW3, WANT_ICW4 };

/* What to do outside after the lock is dropped. */
struct after {
	bool raised;
	u8 acked[2];
	u16 masked, unmasked;
};

static void pic_lock(struct pic *p)
{
	pthread_mutex_lock(&p->lock);
}

/* Drop the lock, then tell others what happened under it. */
static void pic_unlock(struct irqchip *chip)
{
	struct pic *p = &chip->pic;
	struct after a = {
		.raised = p->raised,
		.acked = {p->chip[0].acked, p->chip[1].acked},
		.masked = p->masked,
		.unmasked = p->unmasked,
	};

	p->raised = false;
	p->chip[0].acked = p->chip[1].acked = 0;
	p->masked = p->unmasked = 0;
	pthread_mutex_unlock(&p->lock);
	for (unsigned pin = 0; (a.masked | a.unmasked) && pin < 16; pin++) {
		if ((a.masked | a.unmasked) & BIT(pin))
			irqchip_notify_mask(chip, pin / 8, pin % 8, a.masked & BIT(pin));
	}
	for (unsigned pin = 0; (a.acked[0] | a.acked[1]) && pin < 16; pin++) {
		if (a.acked[pin / 8] & BIT(pin % 8))
			irqchip_notify_ack(chip, pin / 8, pin % 8);
	}
	if (a.raised)
		irqchip_pic_raised(chip);
}

/* Rank of the highest-priority bit of @mask: 0 best, 8 none. */
static unsigned rank_of(const struct pic_chip *c, u8 mask)
{
	unsigned rank = 0;

	if (!mask)
		return 8;
	while (!(mask & BIT((rank + c->s.priority_add) & 7)))
		rank++;
	return rank;
}

/* The pin that @c asks its output for, or -1. */
static int chip_pending(const struct pic *p, const struct pic_chip *c)
{
	unsigned rank = rank_of(c, c->s.irr & (u8)~c->s.imr);
	u8 blocking = c->s.isr;

	if (rank == 8)
		return -1;
	if (c->s.special_mask)
		blocking &= (u8)~c->s.imr;
	/* Special fully nested: the slave may interrupt itself. */
	if (c->s.special_fully_nested_mode && c == &p->chip[0])
		blocking &= (u8)~BIT(CASCADE);
	return rank < rank_of(c, blocking) ? (int)((rank + c->s.priority_add) & 7) : -1;
}

/* Returns 1 taken, 0 coalesced, -1 masked. */
static int chip_set_pin(struct pic_chip *c, unsigned pin, bool level)
{
	u8 bit = (u8)BIT(pin);
	int taken = 1;

	if (c->s.elcr & bit) {
		c->s.irr = level ? c->s.irr | bit : c->s.irr & (u8)~bit;
	} else if (level && !(c->s.last_irr & bit)) {
		taken = !(c->s.irr & bit);
		c->s.irr |= bit;
	}
	c->s.last_irr = level ? c->s.last_irr | bit : c->s.last_irr & (u8)~bit;
	return c->s.imr & bit ? -1 : taken;
}

/* Recompute the slave's output into the master's latch, and the output. */
static void update(struct pic *p)
{
	bool intr;

	if (chip_pending(p, &p->chip[1]) >= 0)
		p->chip[0].s.irr |= BIT(CASCADE);
	intr = chip_pending(p, &p->chip[0]) >= 0;
	if (intr && !atomic_load(&p->intr))
		p->raised = true;
	atomic_store(&p->intr, intr);
}

static void clear_isr(struct pic_chip *c, unsigned pin)
{
	c->s.isr &= (u8)~BIT(pin);
	c->acked |= BIT(pin);
}

static void chip_ack(struct pic_chip *c, unsigned pin)
{
	c->s.isr |= BIT(pin);
	if (!(c->s.elcr & BIT(pin)))
		c->s.irr &= (u8)~BIT(pin);
	if (c->s.auto_eoi) {
		if (c->s.rotate_on_auto_eoi)
			c->s.priority_add = (pin + 1) & 7;
		clear_isr(c, pin);
	}
}

u8 pic_ack(struct irqchip *chip)
{
	struct pic *p = &chip->pic;
	struct pic_chip *answers = &p->chip[0];
	int pin;
	u8 vector;

	pic_lock(p);
	pin = chip_pending(p, answers);
	if (pin >= 0)
		chip_ack(answers, (unsigned)pin);
	if (pin == CASCADE) {
		answers = &p->chip[1];
		pin = chip_pending(p, answers);
		if (pin >= 0)
			chip_ack(answers, (unsigned)pin);
	}
	vector = answers->s.irq_base + (pin < 0 ? SPURIOUS : (u8)pin);
	/* The output drops during INTA: what is left raises it anew. */
	atomic_store(&p->intr, false);
	update(p);
	pic_unlock(chip);
	return vector;
}

static void chip_start_init(struct pic_chip *c, u8 icw1)
{
	u8 lost_edges = c->s.irr & (u8)~c->s.elcr;

	c->s.irr &= c->s.elcr;
	c->s.last_irr = 0;
	c->s.imr = 0;
	/* Requests and services that end without an EOI are acknowledged. */
	c->acked |= lost_edges | c->s.isr;
	c->s.isr = 0;
	c->s.priority_add = 0;
	c->s.special_mask = 0;
	c->s.read_reg_select = 0;
	c->s.poll = 0;
	c->s.init4 = icw1 & ICW1_ICW4;
	c->single = icw1 & ICW1_SINGLE;
	if (!c->s.init4) {
		c->s.special_fully_nested_mode = 0;
		c->s.auto_eoi = 0;
	}
	c->s.init_state = WANT_ICW2;
}

static void write_ocw3(struct pic_chip *c, u8 value)
{
	if (value & BIT(2))
		c->s.poll = 1;
	if (value & BIT(1))
		c->s.read_reg_select = value & 1;
	if (value & BIT(6))
		c->s.special_mask = value >> 5 & 1;
}

/* Non-specific EOI: the highest in service, except those that special mask mode
 * lets through. */
static int eoi_pin(const struct pic_chip *c)
{
	u8 isr = c->s.special_mask ? c->s.isr & (u8)~c->s.imr : c->s.isr;
	unsigned rank = rank_of(c, isr);

	return rank == 8 ? -1 : (int)((rank + c->s.priority_add) & 7);
}

static void write_ocw2(struct pic_chip *c, u8 value)
{
	unsigned pin = value & 7;
	int top;

	switch (value >> 5) {
	case 0: /* rotate in auto-EOI mode: clear, set */
	case 4:
		c->s.rotate_on_auto_eoi = value >> 7;
		break;
	case 1: /* non-specific EOI */
	case 5: /* and rotate */
		top = eoi_pin(c);
		if (top < 0)
			break;
		clear_isr(c, (unsigned)top);
		if (value >> 5 == 5)
			c->s.priority_add = (u8)(top + 1) & 7;
		break;
	case 3: /* specific EOI */
		clear_isr(c, pin);
		break;
	case 6: /* set priority */
		c->s.priority_add = (pin + 1) & 7;
		break;
	case 7: /* rotate on specific EOI */
		clear_isr(c, pin);
		c->s.priority_add = (pin + 1) & 7;
		break;
	default: /* 2: no operation */
		break;
	}
}

static void write_imr(struct pic *p, unsigned n, u8 value)
{
	struct pic_chip *c = &p->chip[n];
	u8 changed = c->s.imr ^ value;

	c->s.imr = value;
	p->masked |= (u16)((changed & value) << (8 * n));
	p->unmasked |= (u16)((changed & ~value) << (8 * n));
}

static void write_data(struct pic *p, unsigned n, u8 value)
{
	struct pic_chip *c = &p->chip[n];

	switch (c->s.init_state) {
	case READY:
		write_imr(p, n, value);
		break;
	case WANT_ICW2:
		c->s.irq_base = value & 0xf8;
		if (c->single)
			c->s.init_state = c->s.init4 ? WANT_ICW4 : READY;
		else
			c->s.init_state = WANT_ICW3;
		break;
	case WANT_ICW3: /* the wiring is fixed */
		c->s.init_state = c->s.init4 ? WANT_ICW4 : READY;
		break;
	default:
		c->s.special_fully_nested_mode = !!(value & ICW4_SFNM);
		c->s.auto_eoi = !!(value & ICW4_AEOI);
		c->s.init_state = READY;
		break;
	}
}

static void write_command(struct pic_chip *c, u8 value)
{
	if (value & ICW1_START)
		chip_start_init(c, value);
	else if (value & OCW3_SELECT)
		write_ocw3(c, value);
	else
		write_ocw2(c, value);
}

void pic_write(struct irqchip *chip, u16 port, u8 value)
{
	struct pic *p = &chip->pic;

	pic_lock(p);
	switch (port) {
	case 0x20:
	case 0xa0:
		write_command(&p->chip[port >> 7], value);
		break;
	case 0x21:
	case 0xa1:
		write_data(p, port >> 7, value);
		break;
	case 0x4d0:
	case 0x4d1:
		p->chip[port & 1].s.elcr = value & p->chip[port & 1].s.elcr_mask;
		break;
	default:
		break;
	}
	update(p);
	pic_unlock(chip);
}

/* A read in poll mode is an acknowledge: bit 7 = there was one, and its pin. */
static u8 read_poll(struct pic *p, unsigned n)
{
	struct pic_chip *c = &p->chip[n];
	int pin = chip_pending(p, c);

	c->s.poll = 0;
	if (pin < 0)
		return 0;
	chip_ack(c, (unsigned)pin);
	/* A polled slave no longer asks its master. */
	if (n == 1)
		p->chip[0].s.irr &= (u8)~BIT(CASCADE);
	return 0x80 | (u8)pin;
}

static u8 read_chip(struct pic *p, unsigned n, bool data)
{
	const struct pic_chip *c = &p->chip[n];

	if (c->s.poll)
		return read_poll(p, n);
	if (data)
		return c->s.imr;
	return c->s.read_reg_select ? c->s.isr : c->s.irr;
}

u8 pic_read(struct irqchip *chip, u16 port)
{
	struct pic *p = &chip->pic;
	u8 value = 0xff;

	pic_lock(p);
	switch (port) {
	case 0x20:
	case 0x21:
	case 0xa0:
	case 0xa1:
		value = read_chip(p, port >> 7, port & 1);
		break;
	case 0x4d0:
	case 0x4d1:
		value = p->chip[port & 1].s.elcr;
		break;
	default:
		break;
	}
	update(p);
	pic_unlock(chip);
	return value;
}

int pic_set_pin(struct irqchip *chip, unsigned pin, unsigned source, bool level)
{
	struct pic *p = &chip->pic;
	int taken;

	pic_lock(p);
	if (level)
		p->sources[pin] |= BIT(source);
	else
		p->sources[pin] &= (u8)~BIT(source);
	taken = chip_set_pin(&p->chip[pin / 8], pin % 8, p->sources[pin]);
	update(p);
	pic_unlock(chip);
	return taken;
}

void pic_init(struct pic *p)
{
	memset(p, 0, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	p->chip[0].s.elcr_mask = ELCR_MASK_MASTER;
	p->chip[1].s.elcr_mask = ELCR_MASK_SLAVE;
}

void pic_fini(struct pic *p)
{
	pthread_mutex_destroy(&p->lock);
}

void pic_get_state(struct irqchip *chip, unsigned n, struct kvm_pic_state *s)
{
	pic_lock(&chip->pic);
	*s = chip->pic.chip[n].s;
	pic_unlock(chip);
}

void pic_set_state(struct irqchip *chip, unsigned n, const struct kvm_pic_state *s)
{
	struct pic_chip *c = &chip->pic.chip[n];
	u8 elcr_mask = n ? ELCR_MASK_SLAVE : ELCR_MASK_MASTER;

	pic_lock(&chip->pic);
	c->s = *s;
	c->s.elcr_mask = elcr_mask;
	c->s.elcr &= elcr_mask;
	c->s.priority_add &= 7;
	c->s.init_state &= 3;
	update(&chip->pic);
	pic_unlock(chip);
}
