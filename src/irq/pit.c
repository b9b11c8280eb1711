/* SPDX-License-Identifier: MIT */
#include "irq/pit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "irq/irqchip.h"
#include "irq/pit_count.h"

#define NEVER (~0ull)

/* Read and write states of a counter's bytes, KVM's numbers. */
enum { RW_LSB = 1, RW_MSB = 2, RW_WORD0 = 3, RW_WORD1 = 4 };

static u64 now_ns(const struct irqchip *chip)
{
	return chip->clock->now_ns(chip->clock);
}

struct pit *pit_create(u32 flags, u64 now)
{
	struct pit *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	p->speaker_port = flags & KVM_PIT_SPEAKER_DUMMY;
	p->reinject = p->acked = true;
	atomic_store(&p->next_ns, NEVER);
	for (unsigned i = 0; i < 3; i++) {
		struct pit_channel *c = &p->ch[i];

		c->s.mode = 0xff; /* as KVM: until it is programmed */
		c->s.gate = i != 2;
		c->s.count = 65536;
		c->s.count_load_time = (s64)now;
		c->s.rw_mode = c->s.read_state = c->s.write_state = RW_WORD0;
	}
	return p;
}

void pit_destroy(struct pit *p)
{
	if (!p)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static void load_count(struct pit *p, unsigned n, u16 value, u64 now)
{
	struct pit_channel *c = &p->ch[n];

	c->s.count = pit_count_decode(value, c->s.bcd);
	c->s.count_load_time = (s64)now;
	c->paused_ns = 0;
	c->loaded = true;
	if (!n)
		pit_start_ticks(p, now);
}

static void latch_count(struct pit_channel *c, u64 now)
{
	if (c->s.count_latched)
		return;
	c->s.latched_count = pit_count_now(c, now);
	c->s.count_latched = c->s.rw_mode;
}

static void latch_status(struct pit_channel *c, u64 now)
{
	if (c->s.status_latched)
		return;
	c->s.status = (u8)(pit_out_now(c, now) << 7 | !c->loaded << 6 |
			   c->s.rw_mode << 4 | (c->s.mode & 7) << 1 | c->s.bcd);
	c->s.status_latched = 1;
}

static void read_back(struct pit *p, u8 value, u64 now)
{
	for (unsigned n = 0; n < 3; n++) {
		if (!(value & BIT(n + 1)))
			continue;
		/* Both bits are active low. */
		if (!(value & BIT(5)))
			latch_count(&p->ch[n], now);
		if (!(value & BIT(4)))
			latch_status(&p->ch[n], now);
	}
}

static void write_control(struct pit *p, u8 value, u64 now)
{
	unsigned n = value >> 6, access = value >> 4 & 3;
	struct pit_channel *c = &p->ch[n & 3];

	if (n == 3) {
		read_back(p, value, now);
		return;
	}
	if (!access) {
		latch_count(c, now);
		return;
	}
	c->s.rw_mode = c->s.read_state = c->s.write_state = (u8)access;
	c->s.mode = value >> 1 & 7;
	if (c->s.mode > 5)
		c->s.mode -= 4;
	c->s.bcd = value & 1;
	c->s.count_latched = c->s.status_latched = 0;
	c->loaded = c->triggered = false;
	c->paused_ns = 0;
	if (!n)
		pit_start_ticks(p, now);
}

static void write_counter(struct pit *p, unsigned n, u8 value, u64 now)
{
	struct pit_channel *c = &p->ch[n];

	switch (c->s.write_state) {
	case RW_WORD0:
		c->s.write_latch = value;
		c->s.write_state = RW_WORD1;
		break;
	case RW_WORD1:
		load_count(p, n, (u16)(c->s.write_latch | value << 8), now);
		c->s.write_state = RW_WORD0;
		break;
	case RW_MSB:
		load_count(p, n, (u16)(value << 8), now);
		break;
	default:
		load_count(p, n, value, now);
		break;
	}
}

static u8 read_latched(struct pit_channel *c)
{
	u8 low = (u8)c->s.latched_count, high = (u8)(c->s.latched_count >> 8);

	switch (c->s.count_latched) {
	case RW_WORD0:
		c->s.count_latched = RW_MSB;
		return low;
	case RW_MSB:
		c->s.count_latched = 0;
		return high;
	default:
		c->s.count_latched = 0;
		return low;
	}
}

static u8 read_counter(struct pit_channel *c, u64 now)
{
	u16 count;

	if (c->s.status_latched) {
		c->s.status_latched = 0;
		return c->s.status;
	}
	if (c->s.count_latched)
		return read_latched(c);
	count = pit_count_now(c, now);
	switch (c->s.read_state) {
	case RW_WORD0:
		c->s.read_state = RW_WORD1;
		return (u8)count;
	case RW_WORD1:
		c->s.read_state = RW_WORD0;
		return (u8)(count >> 8);
	case RW_MSB:
		return (u8)(count >> 8);
	default:
		return (u8)count;
	}
}

/* Gate input of channel 2: a rising edge triggers modes 1, 5 and reloads modes
 * 2, 3; a low level stops modes 0, 2, 3 and 4. */
static void set_gate(struct pit_channel *c, bool gate, u64 now)
{
	u64 since = (u64)c->s.count_load_time;

	if (gate == !!c->s.gate)
		return;
	c->s.gate = gate;
	if (pit_gate_triggers(c)) {
		if (gate) {
			c->triggered = true;
			c->s.count_load_time = (s64)now;
		}
	} else if (!gate) {
		c->paused_ns = now > since ? now - since : 0;
	} else {
		bool reload = c->s.mode == 2 || c->s.mode == 3;

		c->s.count_load_time = (s64)(now - (reload ? 0 : c->paused_ns));
	}
}

static u8 read_speaker(const struct pit *p, u64 now)
{
	bool data = p->flags & KVM_PIT_FLAGS_SPEAKER_DATA_ON;
	bool refresh = now >> 14 & 1; /* toggles every 16 us, as DRAM refresh did */

	return (u8)(p->ch[2].s.gate | data << 1 | refresh << 4 |
		    pit_out_now(&p->ch[2], now) << 5);
}

static void write_speaker(struct pit *p, u8 value, u64 now)
{
	p->flags &= ~(u32)KVM_PIT_FLAGS_SPEAKER_DATA_ON;
	if (value & BIT(1))
		p->flags |= KVM_PIT_FLAGS_SPEAKER_DATA_ON;
	set_gate(&p->ch[2], value & 1, now);
}

bool pit_owns_port(struct irqchip *chip, u16 port)
{
	const struct pit *p = atomic_load(&chip->pit);

	return p && ((port & ~3) == 0x40 || (port == 0x61 && p->speaker_port));
}

u8 pit_read(struct irqchip *chip, u16 port)
{
	struct pit *p = atomic_load(&chip->pit);
	u64 now = now_ns(chip);
	u8 value = 0xff; /* the control register cannot be read */

	pthread_mutex_lock(&p->lock);
	if (port == 0x61)
		value = read_speaker(p, now);
	else if (port >= 0x40 && port < 0x43)
		value = read_counter(&p->ch[port - 0x40], now);
	pthread_mutex_unlock(&p->lock);
	return value;
}

void pit_write(struct irqchip *chip, u16 port, u8 value)
{
	struct pit *p = atomic_load(&chip->pit);
	u64 now = now_ns(chip), before = atomic_load(&p->next_ns);

	pthread_mutex_lock(&p->lock);
	if (port == 0x61)
		write_speaker(p, value, now);
	else if (port == 0x43)
		write_control(p, value, now);
	else if (port >= 0x40 && port < 0x43)
		write_counter(p, port - 0x40, value, now);
	pthread_mutex_unlock(&p->lock);
	if (atomic_load(&p->next_ns) < before)
		chip->ops->timer_changed(chip->vm);
}

void pit_get_state(struct irqchip *chip, struct kvm_pit_state2 *s)
{
	struct pit *p = atomic_load(&chip->pit);

	memset(s, 0, sizeof(*s));
	pthread_mutex_lock(&p->lock);
	for (unsigned n = 0; n < 3; n++)
		s->channels[n] = p->ch[n].s;
	s->flags = p->flags;
	pthread_mutex_unlock(&p->lock);
}

/* Values that the guest could not have made are brought into range. */
static void set_channel(struct pit_channel *c, const struct kvm_pit_channel_state *s,
			u64 now)
{
	c->s = *s;
	if (c->s.mode > 5)
		c->s.mode = 0xff;
	if (c->s.rw_mode < RW_LSB || c->s.rw_mode > RW_WORD0)
		c->s.rw_mode = RW_WORD0;
	c->s.bcd = !!c->s.bcd;
	c->s.gate = !!c->s.gate;
	c->s.count_load_time = (s64)now;
	c->paused_ns = 0;
	c->loaded = c->s.mode <= 5;
	c->triggered = c->loaded;
	if (!c->s.count)
		c->s.count = c->s.bcd ? 10000 : 65536;
}

int pit_set_state(struct irqchip *chip, const struct kvm_pit_state2 *s)
{
	struct pit *p = atomic_load(&chip->pit);
	u64 now = now_ns(chip);

	for (unsigned n = 0; n < 3; n++) {
		if (s->channels[n].count > 65536)
			return -EINVAL;
	}
	pthread_mutex_lock(&p->lock);
	p->flags = s->flags & (KVM_PIT_FLAGS_HPET_LEGACY | KVM_PIT_FLAGS_SPEAKER_DATA_ON);
	for (unsigned n = 0; n < 3; n++)
		set_channel(&p->ch[n], &s->channels[n], now);
	pit_start_ticks(p, now);
	pthread_mutex_unlock(&p->lock);
	chip->ops->timer_changed(chip->vm);
	return 0;
}
