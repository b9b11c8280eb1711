/* SPDX-License-Identifier: MIT */
#include "irq/ioapic.h"

#include <stdatomic.h>
#include <string.h>

#include "irq/irqchip.h"

#define RTC_PIN 8
/* KVM's guard against a line that nobody quiets: after so many re-sends at EOI
 * one is delayed, so that the guest can do something else. */
#define RESENDS_MAX	10000
#define RESEND_DELAY_NS 10000000ull
#define NEVER		(~0ull)

/* Guest-writable bits of a redirection entry. */
#define REDIR_WRITABLE                                                     \
	(GENMASK64(63, 56) | REDIR_MASKED | REDIR_LEVEL | REDIR_POLARITY | \
	 REDIR_LOGICAL | 0x7ff)

/** struct outbox - messages collected under the lock, sent after it */
struct outbox {
	unsigned n;
	struct irq_msg msg[IOAPIC_PINS];
	u8 pin[IOAPIC_PINS];
};

static bool is_level(u64 redir)
{
	return redir & REDIR_LEVEL;
}

void ioapic_init(struct ioapic *io)
{
	memset(io, 0, sizeof(*io));
	pthread_mutex_init(&io->lock, NULL);
	io->base = IOAPIC_DEFAULT_GPA;
	io->rtc_vector = -1;
	atomic_store(&io->resend_ns, NEVER);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++)
		io->redir[pin] = REDIR_MASKED;
}

void ioapic_fini(struct ioapic *io)
{
	pthread_mutex_destroy(&io->lock);
}

/* Queue @pin's message unless it is masked or (level) still unacknowledged. */
static bool service(struct ioapic *io, unsigned pin, struct outbox *out)
{
	u64 redir = io->redir[pin];

	if ((redir & REDIR_MASKED) || (is_level(redir) && (redir & REDIR_REMOTE_IRR)))
		return false;
	/* Set before the message goes out; taken back if it is refused. */
	if (is_level(redir))
		io->redir[pin] |= REDIR_REMOTE_IRR;
	else
		io->irr_delivered |= BIT(pin);
	out->pin[out->n] = (u8)pin;
	out->msg[out->n++] = (struct irq_msg){
		.dest = (u32)(redir >> 56),
		.vector = redir & 0xff,
		.mode = redir >> ICR_MODE_SHIFT & 7,
		.logical = redir & REDIR_LOGICAL,
		.level = is_level(redir),
		.assert = true,
	};
	return true;
}

/* Nobody took the level-triggered message: there will be no EOI for it. */
static void undo_remote_irr(struct ioapic *io, unsigned pin)
{
	pthread_mutex_lock(&io->lock);
	io->redir[pin] &= ~REDIR_REMOTE_IRR;
	pthread_mutex_unlock(&io->lock);
}

/* Send what was collected; the lock is not held.  Returns the last result. */
static int send_all(struct irqchip *chip, const struct outbox *out)
{
	int taken = -1;

	for (unsigned i = 0; i < out->n; i++) {
		taken = irqchip_deliver(chip, NULL, &out->msg[i]);
		/* As KVM: kept if nobody was addressed at all. */
		if (!taken && out->msg[i].level)
			undo_remote_irr(&chip->ioapic, out->pin[i]);
	}
	return taken;
}

static void update_eoi_vectors_locked(struct ioapic *io)
{
	u64 want[4] = {0};

	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		u8 vector = io->redir[pin] & 0xff;

		if (is_level(io->redir[pin]) || pin == RTC_PIN ||
		    (io->notify_pins & BIT(pin)))
			want[vector / 64] |= BIT64(vector % 64);
	}
	for (unsigned i = 0; i < 4; i++)
		atomic_store(&io->eoi_vectors[i], want[i]);
}

bool ioapic_wants_eoi(const struct ioapic *io, u8 vector)
{
	return atomic_load(&io->eoi_vectors[vector / 64]) & BIT64(vector % 64);
}

void ioapic_update_eoi_vectors(struct irqchip *chip)
{
	struct ioapic *io = &chip->ioapic;
	u32 notify = 0;

	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		int gsi = route_gsi(&chip->routes, KVM_IRQCHIP_IOAPIC, pin);

		if (gsi < 0)
			continue;
		if ((!gsi && atomic_load(&chip->pit)) ||
		    (atomic_load(&chip->watched[gsi / 64]) & BIT64(gsi % 64)))
			notify |= BIT(pin);
	}
	pthread_mutex_lock(&io->lock);
	io->notify_pins = notify;
	update_eoi_vectors_locked(io);
	pthread_mutex_unlock(&io->lock);
}

static int set_pin_locked(struct ioapic *io, unsigned pin, bool level, bool line_status,
			  struct outbox *out)
{
	bool edge = !is_level(io->redir[pin]);
	u32 bit = BIT(pin), old = io->irr;

	if (!level) {
		io->irr &= ~bit;
		return 1;
	}
	if (pin == RTC_PIN && line_status && io->rtc_vector >= 0)
		return 0;
	io->irr |= bit;
	if (edge) {
		io->irr_delivered &= ~bit;
		if (old & bit)
			return 0;
	}
	if (!service(io, pin, out))
		return -1;
	if (pin == RTC_PIN && line_status)
		io->rtc_vector = out->msg[0].vector;
	return 1;
}

int ioapic_set_pin(struct irqchip *chip, unsigned pin, unsigned source, bool level,
		   bool line_status)
{
	struct ioapic *io = &chip->ioapic;
	struct outbox out;
	int taken;

	out.n = 0;
	pthread_mutex_lock(&io->lock);
	if (level)
		io->sources[pin] |= BIT(source);
	else
		io->sources[pin] &= (u8)~BIT(source);
	taken = set_pin_locked(io, pin, io->sources[pin], line_status, &out);
	pthread_mutex_unlock(&io->lock);
	if (!out.n)
		return taken;
	taken = send_all(chip, &out);
	if (taken <= 0 && pin == RTC_PIN && line_status) {
		pthread_mutex_lock(&io->lock);
		io->rtc_vector = -1;
		pthread_mutex_unlock(&io->lock);
	}
	return taken;
}

/* The end of @vector at @pin: send again if the line is still high. */
static void end_level(struct irqchip *chip, unsigned pin, struct outbox *out)
{
	struct ioapic *io = &chip->ioapic;

	io->redir[pin] &= ~REDIR_REMOTE_IRR;
	if ((io->redir[pin] & REDIR_MASKED) || !(io->irr & BIT(pin))) {
		io->resends[pin] = 0;
		return;
	}
	if (++io->resends[pin] < RESENDS_MAX) {
		service(io, pin, out);
		return;
	}
	io->resends[pin] = 0;
	atomic_store(&io->resend_ns, chip->clock->now_ns(chip->clock) + RESEND_DELAY_NS);
}

static u32 pins_with_vector(const struct ioapic *io, u8 vector)
{
	u32 pins = 0;

	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		if ((io->redir[pin] & 0xff) == vector)
			pins |= BIT(pin);
	}
	return pins;
}

void ioapic_eoi(struct irqchip *chip, u8 vector, bool level)
{
	struct ioapic *io = &chip->ioapic;
	u64 resend_before = atomic_load(&io->resend_ns);
	struct outbox out;
	u32 pins, notify;

	out.n = 0;
	pthread_mutex_lock(&io->lock);
	if (io->rtc_vector == vector)
		io->rtc_vector = -1;
	pins = pins_with_vector(io, vector);
	notify = pins & io->notify_pins;
	if (notify) {
		/* Listeners may lower the line: before it is looked at. */
		pthread_mutex_unlock(&io->lock);
		for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
			if (notify & BIT(pin))
				irqchip_notify_ack(chip, KVM_IRQCHIP_IOAPIC, pin);
		}
		pthread_mutex_lock(&io->lock);
		pins &= pins_with_vector(io, vector);
	}
	for (unsigned pin = 0; level && pin < IOAPIC_PINS; pin++) {
		if ((pins & BIT(pin)) && is_level(io->redir[pin]))
			end_level(chip, pin, &out);
	}
	pthread_mutex_unlock(&io->lock);
	send_all(chip, &out);
	if (atomic_load(&io->resend_ns) != resend_before)
		chip->ops->timer_changed(chip->vm);
}

void ioapic_run(struct irqchip *chip, u64 now_ns)
{
	struct ioapic *io = &chip->ioapic;
	struct outbox out;

	if (now_ns < atomic_load(&io->resend_ns))
		return;
	out.n = 0;
	pthread_mutex_lock(&io->lock);
	atomic_store(&io->resend_ns, NEVER);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		if (is_level(io->redir[pin]) && (io->irr & BIT(pin)))
			service(io, pin, &out);
	}
	pthread_mutex_unlock(&io->lock);
	send_all(chip, &out);
}

static u32 read_register(const struct ioapic *io)
{
	unsigned index = io->regsel - IOAPIC_REG_REDIR;

	switch (io->regsel) {
	case IOAPIC_REG_ID:
	case IOAPIC_REG_ARB:
		return io->id << 24;
	case IOAPIC_REG_VERSION:
		return (IOAPIC_PINS - 1) << 16 | IOAPIC_VERSION;
	default:
		if (index >= 2 * IOAPIC_PINS)
			return ~0u;
		return (u32)(io->redir[index / 2] >> (index & 1 ? 32 : 0));
	}
}

/* One half of a redirection entry. */
static void write_redir(struct ioapic *io, unsigned index, u32 value, struct outbox *out)
{
	unsigned pin = index / 2;
	u64 old = io->redir[pin];
	u64 new = index & 1 ? (u32)old | (u64)value << 32
			    : (old & GENMASK64(63, 32)) | value;

	new = (new &REDIR_WRITABLE) | (old & REDIR_REMOTE_IRR);
	/* Linux and Xen clear a stuck remote IRR by way of edge mode. */
	if (!is_level(new))
		new &= ~REDIR_REMOTE_IRR;
	io->redir[pin] = new;
	if (pin == RTC_PIN)
		io->rtc_vector = -1;
	update_eoi_vectors_locked(io);
	if (is_level(new) && (io->irr & BIT(pin)))
		service(io, pin, out);
}

static void write_window(struct irqchip *chip, u32 value)
{
	struct ioapic *io = &chip->ioapic;
	u64 before = 0, after = 0;
	struct outbox out;
	unsigned index;

	out.n = 0;
	pthread_mutex_lock(&io->lock);
	index = io->regsel - IOAPIC_REG_REDIR;
	if (io->regsel == IOAPIC_REG_ID) {
		io->id = value >> 24 & 0xf;
	} else if (index < 2 * IOAPIC_PINS) {
		before = io->redir[index / 2];
		write_redir(io, index, value, &out);
		after = io->redir[index / 2];
	}
	pthread_mutex_unlock(&io->lock);
	if ((before ^ after) & REDIR_MASKED)
		irqchip_notify_mask(chip, KVM_IRQCHIP_IOAPIC, index / 2,
				    after & REDIR_MASKED);
	send_all(chip, &out);
}

void ioapic_mmio_read(struct irqchip *chip, unsigned offset, void *data, unsigned len)
{
	struct ioapic *io = &chip->ioapic;
	u64 value = 0;

	pthread_mutex_lock(&io->lock);
	if (offset == IOAPIC_REGSEL)
		value = io->regsel;
	else if (offset == IOAPIC_WINDOW)
		value = read_register(io);
	pthread_mutex_unlock(&io->lock);
	memcpy(data, &value, MIN(len, sizeof(value)));
}

void ioapic_mmio_write(struct irqchip *chip, unsigned offset, const void *data,
		       unsigned len)
{
	u32 value = 0;

	memcpy(&value, data, MIN(len, sizeof(value)));
	if (offset == IOAPIC_WINDOW)
		write_window(chip, value);
	if (offset != IOAPIC_REGSEL)
		return;
	pthread_mutex_lock(&chip->ioapic.lock);
	chip->ioapic.regsel = value & 0xff;
	pthread_mutex_unlock(&chip->ioapic.lock);
}

void ioapic_get_state(struct irqchip *chip, struct kvm_ioapic_state *s)
{
	struct ioapic *io = &chip->ioapic;

	memset(s, 0, sizeof(*s));
	pthread_mutex_lock(&io->lock);
	s->base_address = io->base;
	s->ioregsel = io->regsel;
	s->id = io->id;
	/* An edge that was sent is not to be sent again after loading. */
	s->irr = io->irr & ~io->irr_delivered;
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++)
		s->redirtbl[pin].bits = io->redir[pin];
	pthread_mutex_unlock(&io->lock);
}

void ioapic_set_state(struct irqchip *chip, const struct kvm_ioapic_state *s)
{
	struct ioapic *io = &chip->ioapic;
	struct outbox out;

	out.n = 0;
	pthread_mutex_lock(&io->lock);
	io->regsel = s->ioregsel & 0xff;
	io->id = s->id & 0xf;
	io->irr = 0;
	io->irr_delivered = 0;
	io->rtc_vector = -1;
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		io->redir[pin] =
			s->redirtbl[pin].bits & (REDIR_WRITABLE | REDIR_REMOTE_IRR);
		io->resends[pin] = 0;
	}
	update_eoi_vectors_locked(io);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		if (s->irr & BIT(pin))
			set_pin_locked(io, pin, true, false, &out);
	}
	pthread_mutex_unlock(&io->lock);
	send_all(chip, &out);
}
