/* SPDX-License-Identifier: MIT */
/* Priorities, acceptance, EOI, and when an evaluation is asked for; a random
 * comparison with a model; a posting thread against a vCPU thread. */
#include "unit/irq/fake.h"

#include <pthread.h>
#include <sched.h>

static struct fake *f;
static struct lapic *l;

static int setup(void **state)
{
	(void)state;
	f = fake_create(IRQCHIP_KERNEL, 2);
	l = f->v[0].l;
	fake_forget(f);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_destroy(f);
	return 0;
}

static void test_highest_first_and_classes(void **state)
{
	(void)state;
	lapic_post(l, 0x31);
	lapic_post(l, 0x3f);
	assert_int_equal(fake_take(l), 0x3f);
	assert_int_equal(rd(l, APIC_PPR), 0x30);
	assert_int_equal(fake_take(l), -1); /* same class does not nest */
	lapic_post(l, 0x40);
	assert_int_equal(fake_take(l), 0x40);
	lapic_eoi(l);
	assert_int_equal(fake_take(l), -1);
	lapic_eoi(l);
	assert_int_equal(fake_take(l), 0x31);
	lapic_eoi(l);
	assert_int_equal(rd(l, APIC_PPR), 0);
}

static void test_ppr_table(void **state)
{
	static const struct {
		u8 tpr;
		int isr;
		u8 ppr;
	} cases[] = {
		{0x00, -1, 0x00},   {0x2f, -1, 0x2f},	{0x2f, 0x31, 0x30},
		{0x3f, 0x31, 0x3f}, {0x30, 0x3f, 0x30}, {0xff, 0x81, 0xff},
		{0x0f, 0x15, 0x10},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		lapic_set_cr8(l, 0);
		if (cases[i].isr >= 0) {
			lapic_post(l, (u8)cases[i].isr);
			assert_int_equal(fake_take(l), cases[i].isr);
		}
		wr(l, APIC_TPR, cases[i].tpr);
		if (rd(l, APIC_PPR) != cases[i].ppr)
			fail_msg("case %u: 0x%x", i, rd(l, APIC_PPR));
		lapic_eoi(l);
	}
}

/* --- 7.12 ------------------------------------------------------------------- */

static void test_tpr_lowered_while_if_is_0(void **state)
{
	(void)state;
	lapic_set_cr8(l, 15);
	lapic_post(l, 0x51);
	assert_int_equal(asked(l, IRQ_REQ_APIC), 0);
	assert_false(lapic_is_pending(l));
	lapic_set_cr8(l, 0);
	assert_int_equal(asked(l, IRQ_REQ_APIC), 1);
	/* IF=0: the run loop looks, cannot deliver, and asks again later. */
	assert_int_equal(lapic_evaluate(l, &f->v[0].req_event), 0x51);
	assert_true(lapic_is_pending(l));
	assert_int_equal(fake_take(l), 0x51);
	assert_false(lapic_is_pending(l));
}

static void test_eoi_then_tpr(void **state)
{
	(void)state;
	lapic_post(l, 0x81);
	assert_int_equal(fake_take(l), 0x81);
	lapic_set_cr8(l, 5);
	lapic_post(l, 0x41);
	fake_forget(f);
	lapic_eoi(l); /* PPR falls to TPR, which still blocks 0x41 */
	assert_int_equal(asked(l, IRQ_REQ_APIC), 0);
	assert_false(lapic_is_pending(l));
	lapic_set_cr8(l, 0);
	assert_int_equal(asked(l, IRQ_REQ_APIC), 1);
	assert_int_equal(fake_take(l), 0x41);
}

static void test_tpr_lowered_with_nothing_to_deliver(void **state)
{
	(void)state;
	lapic_set_cr8(l, 8);
	lapic_post(l, 0x41);
	lapic_set_cr8(l, 6); /* lower, and still above */
	lapic_set_cr8(l, 4);
	assert_int_equal(asked(l, IRQ_REQ_APIC), 0);
	lapic_set_cr8(l, 3);
	assert_int_equal(asked(l, IRQ_REQ_APIC), 1);
	assert_int_equal(fake_take(l), 0x41);
}

static void test_no_evaluation_without_cause(void **state)
{
	u64 n;

	(void)state;
	lapic_set_cr8(l, 3);
	lapic_set_cr8(l, 9);
	lapic_eoi(l); /* empty ISR */
	wr(l, APIC_LVTERR, 0x40);
	(void)rd(l, APIC_PPR);
	lapic_post(l, 0x31); /* blocked by TPR */
	lapic_post(l, 0x31); /* already requested */
	wr(l, APIC_ICR2, 1u << 24);
	wr(l, APIC_ICR, 0x55); /* to somebody else */
	lapic_set_cr8(l, 0);
	assert_int_equal(fake_take(l), 0x31);
	n = evaluations(l);
	assert_int_equal(n, 1);
	assert_int_equal(asked(l, IRQ_REQ_APIC), 1);
	lapic_eoi(l); /* nothing else is requested */
	assert_int_equal(fake_take(l), -1);
	assert_int_equal(evaluations(l), n);
}

static void test_self_ipi_costs_one_evaluation(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		wr(l, APIC_ICR, APIC_SELF << ICR_SHORT_SHIFT | ICR_ASSERT | 0xb0);
		assert_int_equal(fake_take(l), 0xb0);
		assert_int_equal(fake_take(l), -1);
		wr(l, APIC_EOI, 0);
	}
	assert_int_equal(evaluations(l), 100);
}

static void test_kut_tpr(void **state)
{
	/* TPR=0xF0, send 32 and 62; TPR=0x20 lets 62 through; TPR=0 then 32. */
	(void)state;
	wr(l, APIC_TPR, 0xf0);
	lapic_post(l, 32);
	lapic_post(l, 62);
	assert_int_equal(fake_take(l), -1);
	wr(l, APIC_TPR, 0x20);
	assert_int_equal(fake_take(l), 62);
	lapic_eoi(l);
	assert_int_equal(fake_take(l), -1);
	wr(l, APIC_TPR, 0);
	assert_int_equal(fake_take(l), 32);
}

static void test_nested_eoi_order(void **state)
{
	(void)state;
	lapic_post(l, 0x31);
	fake_take(l);
	lapic_post(l, 0x51);
	fake_take(l);
	assert_true(has_isr(l, 0x31) && has_isr(l, 0x51));
	lapic_eoi(l);
	assert_false(has_isr(l, 0x51));
	assert_int_equal(rd(l, APIC_PPR), 0x30);
	lapic_eoi(l);
	assert_false(has_isr(l, 0x31));
	lapic_eoi(l);
	assert_int_equal(l->isr_highest, -1);
}

static void test_self_ipi_of_vector_in_service(void **state)
{
	(void)state;
	lapic_post(l, 0x61);
	fake_take(l);
	lapic_post(l, 0x61);
	lapic_post(l, 0x61); /* coalesces: at most one in IRR, one in ISR */
	assert_int_equal(fake_take(l), -1);
	lapic_eoi(l);
	assert_int_equal(fake_take(l), 0x61);
	lapic_eoi(l);
	assert_int_equal(fake_take(l), -1);
}

static void test_disabled_while_pending(void **state)
{
	(void)state;
	lapic_post(l, 0x71);
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, APICBASE_DEFAULT, false));
	assert_int_equal(fake_take(l), -1);
	assert_true(has_irr(l, 0x71));
	assert_false(lapic_post(l, 0x72));
	fake_forget(f);
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, APICBASE_DEFAULT | 0x800, false));
	assert_int_equal(asked(l, IRQ_REQ_APIC), 1);
	assert_int_equal(fake_take(l), 0x71);
}

static void test_software_disabled_while_pending(void **state)
{
	(void)state;
	lapic_post(l, 0x71);
	wr(l, APIC_SVR, 0xff);
	assert_false(lapic_post(l, 0x72));
	assert_int_equal(fake_take(l), 0x71); /* what is in IRR is delivered */
	lapic_eoi(l);
	wr(l, APIC_SVR, 0x1ff);
	assert_int_equal(fake_take(l), -1);
}

static void test_vectors_below_16_are_never_delivered(void **state)
{
	(void)state;
	lapic_post(l, 15);
	assert_true(has_irr(l, 15));
	assert_int_equal(asked(l, IRQ_REQ_APIC), 0);
	assert_int_equal(fake_take(l), -1);
}

static void test_extint_comes_first(void **state)
{
	(void)state;
	lapic_reset(l, false);
	wr(l, APIC_SVR, 0x1ff);
	wr(l, APIC_LVT0, APIC_MODE_EXTINT << 8);
	pic_write(&f->chip, 0x20, 0x11);
	pic_write(&f->chip, 0x21, 0x20);
	pic_write(&f->chip, 0x21, 0x04);
	pic_write(&f->chip, 0x21, 0x01);
	fake_forget(f);
	lapic_post(l, 0x91);
	pic_set_pin(&f->chip, 3, 0, true);
	assert_int_equal(asked(l, IRQ_REQ_EXTINT), 1);
	assert_true(irqchip_has_extint(&f->chip, l));
	lapic_set_cr8(l, 15); /* TPR does not matter to it */
	assert_true(irqchip_has_extint(&f->chip, l));
	lapic_set_cr8(l, 0);
	assert_int_equal(irqchip_ack_extint(&f->chip), 0x23);
	assert_false(irqchip_has_extint(&f->chip, l));
	assert_int_equal(fake_take(l), 0x91);
}

static void test_extint_gate(void **state)
{
	(void)state;
	wr(l, APIC_LVT0, LVT_MASKED);
	pic_set_pin(&f->chip, 3, 0, true);
	assert_false(irqchip_has_extint(&f->chip, l));
	fake_forget(f);
	/* Unmasking LVT0, or disabling the APIC, lets it through: ask. */
	wr(l, APIC_LVT0, APIC_MODE_EXTINT << 8);
	assert_int_equal(asked(l, IRQ_REQ_EXTINT), 1);
	assert_true(irqchip_has_extint(&f->chip, l));
	wr(l, APIC_LVT0, LVT_MASKED);
	fake_forget(f);
	assert_true(lapic_msr_write(l, MSR_APIC_BASE, APICBASE_DEFAULT, false));
	assert_int_equal(asked(l, IRQ_REQ_EXTINT), 1);
	assert_true(irqchip_has_extint(&f->chip, l));
}

static void test_pv_eoi_is_allowed_only_alone(void **state)
{
	(void)state;
	assert_false(lapic_can_pv_eoi(l));
	lapic_post(l, 0x51);
	fake_take(l);
	assert_true(lapic_can_pv_eoi(l));
	lapic_post(l, 0x31); /* a second one arrives: its EOI must be seen */
	assert_false(lapic_can_pv_eoi(l));
	lapic_eoi(l);
	fake_take(l);
	assert_true(lapic_can_pv_eoi(l));
	lapic_post(l, 0x61);
	fake_take(l);
	assert_false(lapic_can_pv_eoi(l)); /* two in service */
}

static void test_lvt_delivery(void **state)
{
	(void)state;
	wr(l, APIC_LVTERR, 0x66);
	assert_true(lapic_local_deliver(l, APIC_LVTERR));
	assert_int_equal(fake_take(l), 0x66);
	wr(l, APIC_LVTPC, APIC_MODE_NMI << 8);
	assert_true(lapic_local_deliver(l, APIC_LVTPC));
	assert_int_equal(asked(l, IRQ_REQ_NMI), 1);
	assert_true(rd(l, APIC_LVTPC) & LVT_MASKED); /* by delivery */
	assert_false(lapic_local_deliver(l, APIC_LVTPC));
	wr(l, APIC_LVT1, APIC_MODE_SMI << 8);
	assert_true(lapic_local_deliver(l, APIC_LVT1));
	assert_int_equal(asked(l, IRQ_REQ_SMI), 1);
}

static void test_init_and_sipi_are_latched(void **state)
{
	struct irq_msg init = {.mode = APIC_MODE_INIT, .assert = true};
	struct irq_msg deassert = {.mode = APIC_MODE_INIT, .level = true};
	struct irq_msg sipi = {.mode = APIC_MODE_SIPI, .vector = 0x9a};
	u8 vector = 0;

	(void)state;
	assert_int_equal(lapic_accept(l, &deassert), 0);
	assert_false(lapic_has_init_sipi(l));
	lapic_accept(l, &init);
	lapic_accept(l, &sipi);
	assert_int_equal(asked(l, IRQ_REQ_INIT_SIPI), 2);
	assert_int_equal(lapic_take_init_sipi(l, &vector), LAPIC_INIT | LAPIC_SIPI);
	assert_int_equal(vector, 0x9a);
	assert_int_equal(lapic_take_init_sipi(l, &vector), 0);
	lapic_accept(l, &sipi);
	lapic_accept(l, &init); /* removes the SIPI */
	assert_int_equal(lapic_take_init_sipi(l, &vector), LAPIC_INIT);
	sipi.vector = 0x11;
	lapic_accept(l, &sipi);
	sipi.vector = 0x22; /* the last one wins */
	lapic_accept(l, &sipi);
	assert_int_equal(lapic_take_init_sipi(l, &vector), LAPIC_SIPI);
	assert_int_equal(vector, 0x22);
}

static void test_posted_between_evaluation_and_ack(void **state)
{
	int vector;

	(void)state;
	lapic_post(l, 0x41);
	vector = lapic_evaluate(l, &f->v[0].req_event);
	lapic_post(l, 0x91); /* by another thread, say */
	lapic_ack(l, (u8)vector);
	assert_true(lapic_is_pending(l));
	assert_int_equal(fake_take(l), 0x91);
	lapic_post(l, 0x99);
	assert_false(lapic_is_pending(l));
	assert_int_equal(fake_take(l), -1);
}

/* --- model ------------------------------------------------------------------ */

struct model {
	bool irr[256], isr[256];
	u8 tpr;
	bool enabled, sw;
};

static u64 seed;

static u32 rnd(u32 n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(seed >> 33) % n;
}

static int top(const bool map[256])
{
	for (int v = 255; v >= 0; v--) {
		if (map[v])
			return v;
	}
	return -1;
}

static u8 model_ppr(const struct model *m)
{
	int isr = top(m->isr);

	if (isr < 0 || m->tpr >> 4 >= isr >> 4)
		return m->tpr;
	return (u8)(isr & 0xf0);
}

static int model_deliverable(const struct model *m)
{
	int irr = top(m->irr);

	return m->enabled && irr >= 0 && irr >> 4 > model_ppr(m) >> 4 ? irr : -1;
}

static void model_step(struct model *m)
{
	u8 v = (u8)rnd(256);
	int isr;

	switch (rnd(10)) {
	case 0:
	case 1:
	case 2:
		if (lapic_post(l, v) != (m->enabled && m->sw))
			fail_msg("post");
		m->irr[v] |= m->enabled && m->sw;
		break;
	case 3:
	case 4:
		lapic_eoi(l);
		isr = top(m->isr);
		if (isr >= 0)
			m->isr[isr] = false;
		break;
	case 5:
		m->tpr = v;
		lapic_reg_write(l, APIC_TPR, v);
		break;
	case 6:
		m->tpr = (u8)(v & 0xf0);
		lapic_set_cr8(l, v >> 4);
		break;
	case 7:
		if (rnd(8))
			break;
		m->sw = rnd(4);
		lapic_reg_write(l, APIC_SVR, m->sw ? 0x1ff : 0xff);
		break;
	case 8:
		if (rnd(8))
			break;
		m->enabled = rnd(4);
		lapic_msr_write(l, MSR_APIC_BASE,
				APICBASE_DEFAULT | (m->enabled ? APICBASE_ENABLE : 0),
				false);
		break;
	default: {
		int want = model_deliverable(m), got = fake_take(l);

		if (got != want)
			fail_msg("delivered %d, want %d", got, want);
		if (want >= 0) {
			m->irr[want] = false;
			m->isr[want] = true;
		}
		break;
	}
	}
}

static void model_compare(const struct model *m)
{
	if (model_ppr(m) != atomic_load(&l->ppr))
		fail_msg("PPR 0x%x, want 0x%x", atomic_load(&l->ppr), model_ppr(m));
	if (l->isr_highest != top(m->isr))
		fail_msg("highest ISR %d", l->isr_highest);
	if (!atomic_load(&l->irr_stale) && l->irr_highest != top(m->irr))
		fail_msg("highest IRR %d, want %d", l->irr_highest, top(m->irr));
	for (unsigned v = 0; v < 256; v++) {
		if (has_irr(l, (u8)v) != m->irr[v] || has_isr(l, (u8)v) != m->isr[v])
			fail_msg("vector 0x%x", v);
	}
	/* Never a vector without the wish to evaluate. */
	if (model_deliverable(m) >= 0 && !lapic_is_pending(l))
		fail_msg("0x%x is deliverable and nobody was asked",
			 model_deliverable(m));
}

static void test_random_against_model(void **state)
{
	const char *given = getenv("SEED");
	u64 start = given ? strtoull(given, NULL, 0) : 0x10c0ffee;

	(void)state;
	print_message("SEED=0x%llx\n", start);
	seed = start;
	for (unsigned round = 0; round < 50; round++) {
		struct model m = {.enabled = true, .sw = true};

		lapic_reset(l, false);
		lapic_reg_write(l, APIC_SVR, 0x1ff);
		for (unsigned i = 0; i < 2000; i++) {
			model_step(&m);
			model_compare(&m);
		}
	}
}

/* --- two threads -------------------------------------------------------------- */

#define POSTS 30000

static _Atomic u32 taken_up_to;
static _Atomic bool gave_up;

/* Posts one vector at a time and waits until it has been delivered. */
static void *poster(void *arg)
{
	(void)arg;
	for (u32 i = 1; i <= POSTS; i++) {
		u64 spins = 0;

		lapic_post(l, (u8)(0x20 + (i * 7 & 0xbf)));
		while (atomic_load(&taken_up_to) < i) {
			if (!(++spins % 1000))
				sched_yield();
			if (spins > 200000000ull) {
				atomic_store(&gave_up, true);
				return NULL;
			}
			__builtin_ia32_pause();
		}
	}
	return NULL;
}

/* The vCPU raises and lowers TPR all the time; whatever is requested must show
 * as pending at the latest when TPR has fallen. */
static void test_poster_against_tpr(void **state)
{
	pthread_t thread;
	u32 taken = 0;

	(void)state;
	atomic_store(&taken_up_to, 0);
	assert_int_equal(pthread_create(&thread, NULL, poster, NULL), 0);
	for (u32 i = 0; taken < POSTS && !atomic_load(&gave_up); i++) {
		lapic_set_cr8(l, i & 1 ? 0 : 15);
		if (fake_take(l) < 0) {
			if (!(i % 1000))
				sched_yield();
			continue;
		}
		lapic_eoi(l);
		atomic_store(&taken_up_to, ++taken);
	}
	pthread_join(thread, NULL);
	assert_false(atomic_load(&gave_up));
}

/* The same race, step by step: sender {IRR, stale, read PPR, pending} against
 * vCPU {PPR, read stale and IRR, pending}. */
struct race {
	bool irr, stale, low, pending;
	int s, o;
	bool saw_low, found;
};

static bool race_lost;

static void race_explore(struct race r, bool mark_last)
{
	struct race n = r;

	if (r.s == 4 && r.o == 3 && !r.pending)
		race_lost = true;
	if (r.s < 4) {
		if (r.s == 0)
			n.irr = true;
		else if (r.s == (mark_last ? 2 : 1))
			n.stale = true;
		else if (r.s < 3)
			n.saw_low = n.low;
		else
			n.pending |= n.saw_low;
		n.s++;
		race_explore(n, mark_last);
	}
	n = r;
	if (r.o < 3) {
		if (r.o == 0)
			n.low = true;
		else if (r.o == 1)
			n.found = n.stale && n.irr;
		else
			n.pending |= n.found;
		n.o++;
		race_explore(n, mark_last);
	}
}

static void test_race_of_post_and_ppr(void **state)
{
	(void)state;
	race_lost = false;
	race_explore((struct race){0}, false);
	assert_false(race_lost);
	race_explore((struct race){0}, true); /* mark after reading PPR: wrong */
	assert_true(race_lost);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_highest_first_and_classes),
		T(test_ppr_table),
		T(test_tpr_lowered_while_if_is_0),
		T(test_eoi_then_tpr),
		T(test_tpr_lowered_with_nothing_to_deliver),
		T(test_no_evaluation_without_cause),
		T(test_self_ipi_costs_one_evaluation),
		T(test_kut_tpr),
		T(test_nested_eoi_order),
		T(test_self_ipi_of_vector_in_service),
		T(test_disabled_while_pending),
		T(test_software_disabled_while_pending),
		T(test_vectors_below_16_are_never_delivered),
		T(test_extint_comes_first),
		T(test_extint_gate),
		T(test_pv_eoi_is_allowed_only_alone),
		T(test_lvt_delivery),
		T(test_init_and_sipi_are_latched),
		T(test_posted_between_evaluation_and_ack),
		T(test_random_against_model),
		T(test_poster_against_tpr),
		T(test_race_of_post_and_ppr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
