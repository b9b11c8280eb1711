/* SPDX-License-Identifier: MIT */
/* A VM without processors: interrupt controllers, a clock that stands still
 * until it is moved, and vCPUs that record what they are asked for. */
#ifndef LOCUM_TESTS_IRQ_FAKE_H
#define LOCUM_TESTS_IRQ_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "irq/irqchip.h"
#include "irq/lapic.h"
#include "irq/lapic_timer.h"
#include "irq/pit.h"

#define FAKE_VCPUS 8
#define NS_MS	   1000000ull

struct fake_vcpu {
	struct fake *fake;
	struct lapic *l;
	_Atomic unsigned asked[IRQ_REQ_UNHALT + 1]; /* by enum irq_request */
	unsigned eois, base_changes;
	u8 eoi_vector;
	u64 req_event;
	s64 tsc_offset;
};

struct fake {
	struct irqchip chip;
	struct clock clock;
	u64 now;
	struct fake_vcpu v[FAKE_VCPUS];
	unsigned nr_vcpus, timer_changes;
	unsigned acked[64];
	int drop_on_ack; /* GSI to lower when it is acknowledged, -1 none */
};

static inline u64 fake_now(const struct clock *c)
{
	return CONTAINER_OF(c, struct fake, clock)->now;
}

static inline void fake_request(void *vcpu, enum irq_request req)
{
	((struct fake_vcpu *)vcpu)->asked[req]++;
}

/* 2 GHz, plus the vCPU's offset. */
static inline u64 fake_tsc(void *vcpu)
{
	struct fake_vcpu *v = vcpu;

	return v->fake->now * 2 + (u64)v->tsc_offset;
}

static inline u32 fake_tsc_khz(void *vcpu)
{
	(void)vcpu;
	return 2000000;
}

static inline void fake_eoi(void *vcpu, u8 vector)
{
	struct fake_vcpu *v = vcpu;

	v->eois++;
	v->eoi_vector = vector;
}

static inline void fake_acked(void *vm, u32 gsi)
{
	struct fake *f = vm;

	f->acked[gsi]++;
	if ((int)gsi == f->drop_on_ack)
		irqchip_set_gsi(&f->chip, IRQ_SOURCE_RESAMPLE, gsi, 0, false);
}

static inline void fake_timer_changed(void *vm)
{
	((struct fake *)vm)->timer_changes++;
}

static inline void fake_base_changed(void *vcpu)
{
	((struct fake_vcpu *)vcpu)->base_changes++;
}

static const struct irqchip_ops fake_ops = {
	.request = fake_request,
	.tsc = fake_tsc,
	.tsc_khz = fake_tsc_khz,
	.eoi = fake_eoi,
	.acked = fake_acked,
	.timer_changed = fake_timer_changed,
	.base_changed = fake_base_changed,
};

/* A software-enabled LAPIC, as an operating system leaves it. */
static inline struct lapic *fake_add_vcpu(struct fake *f)
{
	struct fake_vcpu *v = &f->v[f->nr_vcpus];

	v->fake = f;
	assert_int_equal(lapic_create(&f->chip, f->nr_vcpus, v, !f->nr_vcpus, &v->l), 0);
	lapic_set_features(v->l, LAPIC_HAS_X2APIC | LAPIC_HAS_TSC_DEADLINE, 40);
	lapic_reg_write(v->l, APIC_SVR, SVR_ENABLE | 0xff);
	f->nr_vcpus++;
	return v->l;
}

static inline struct fake *fake_create(enum irqchip_mode mode, unsigned vcpus)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->clock.now_ns = fake_now;
	f->now = 1000 * NS_MS;
	f->drop_on_ack = -1;
	assert_int_equal(irqchip_init(&f->chip, &fake_ops, f, &f->clock), 0);
	if (mode == IRQCHIP_KERNEL)
		assert_int_equal(irqchip_create(&f->chip), 0);
	else if (mode == IRQCHIP_SPLIT)
		assert_int_equal(irqchip_create_split(&f->chip, 24), 0);
	while (vcpus--)
		fake_add_vcpu(f);
	return f;
}

static inline void fake_destroy(struct fake *f)
{
	while (f->nr_vcpus)
		lapic_destroy(f->v[--f->nr_vcpus].l);
	irqchip_fini(&f->chip);
	free(f);
}

static inline void fake_forget(struct fake *f)
{
	for (unsigned i = 0; i < FAKE_VCPUS; i++) {
		for (unsigned req = 0; req <= IRQ_REQ_UNHALT; req++)
			f->v[i].asked[req] = 0;
		f->v[i].eois = f->v[i].base_changes = 0;
	}
	memset(f->acked, 0, sizeof(f->acked));
	f->timer_changes = 0;
}

/* What a run loop does with IF=1: the vector that is delivered, or -1. */
static inline int fake_take(struct lapic *l)
{
	struct fake_vcpu *v = l->vcpu;
	int vector;

	if (!lapic_is_pending(l))
		return -1;
	vector = lapic_evaluate(l, &v->req_event);
	if (vector >= 0)
		lapic_ack(l, (u8)vector);
	return vector;
}

static inline unsigned asked(const struct lapic *l, enum irq_request req)
{
	return ((struct fake_vcpu *)l->vcpu)->asked[req];
}

static inline u64 evaluations(const struct lapic *l)
{
	return ((struct fake_vcpu *)l->vcpu)->req_event;
}

static inline u32 rd(struct lapic *l, unsigned offset)
{
	u32 value;

	lapic_mmio_read(l, offset, &value, 4);
	return value;
}

static inline void wr(struct lapic *l, unsigned offset, u32 value)
{
	lapic_mmio_write(l, offset, &value, 4);
}

static inline bool has_irr(const struct lapic *l, u8 vector)
{
	return atomic_load(&l->irr[vector / 64]) >> (vector % 64) & 1;
}

static inline bool has_isr(const struct lapic *l, u8 vector)
{
	return l->isr[vector / 64] >> (vector % 64) & 1;
}

static inline void enter_x2apic(struct lapic *l)
{
	u64 base;

	assert_true(lapic_msr_read(l, MSR_APIC_BASE, &base));
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, base | APICBASE_X2APIC, false));
}

#endif
