/* SPDX-License-Identifier: MIT */
#include "vm/event.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cpu/smm.h"
#include "irq/lapic.h"
#include "vm/vm.h"

static void again(struct vcpu *v)
{
	atomic_fetch_or_explicit(&v->cpu.attn, ATTN_EVENT, memory_order_relaxed);
}

/* --- obstacles ------------------------------------------------------------ */

static bool interrupts_allowed(const struct cpu *c)
{
	return (c->rflags & RF_IF) && !c->shadow;
}

static bool nmi_allowed(const struct cpu *c)
{
	return !c->nmi_blocked && !c->shadow;
}

/* Not before a trap of the instruction that has just ended. */
static bool smi_allowed(const struct cpu *c)
{
	return !c->smm && !c->shadow && !c->pending_dbg;
}

/* What other threads have latched. */
static void collect(struct vcpu *v)
{
	u32 n = atomic_load_explicit(&v->nmi_queued, memory_order_relaxed);

	if (unlikely(atomic_load_explicit(&v->smi_queued, memory_order_relaxed)) &&
	    atomic_exchange(&v->smi_queued, false))
		v->smi_pending = true;
	if (likely(!n))
		return;
	n = atomic_exchange(&v->nmi_queued, 0);
	/* One more may wait while an NMI is blocked by one in progress; without
	 * that, two.  KVM keeps as many. */
	v->nmi_pending = (u8)MIN(v->nmi_pending + n, v->cpu.nmi_blocked ? 1u : 2u);
}

/* --- sources --------------------------------------------------------------- */

static bool extint_waits(struct vcpu *v)
{
	struct vm *vm = v->vm;

	if (vm_has_pic(vm))
		return irqchip_has_extint(&vm->irqchip, v->lapic);
	if (v->lapic)
		return v->extint_pending && lapic_accepts_extint(v->lapic);
	return false;
}

static bool interrupt_waits(struct vcpu *v)
{
	return extint_waits(v) || (v->lapic && lapic_is_pending(v->lapic));
}

/* Return: the vector of an interrupt that is acknowledged herewith; -1. */
static int take_interrupt(struct vcpu *v)
{
	int vector;

	if (extint_waits(v)) {
		if (vm_has_pic(v->vm))
			return irqchip_ack_extint(&v->vm->irqchip);
		v->extint_pending = false;
		return v->extint_vector;
	}
	if (!v->lapic || !lapic_is_pending(v->lapic))
		return -1;
	vector = lapic_evaluate(v->lapic, &v->cpu.stats->req_event);
	if (vector >= 0)
		lapic_ack(v->lapic, (u8)vector);
	return vector;
}

static bool wants_window(const struct vcpu *v)
{
	return !vm_has_pic(v->vm) &&
	       __atomic_load_n(&v->run->request_interrupt_window, __ATOMIC_RELAXED);
}

/* --- injection ------------------------------------------------------------- */

/* The side effects that an exception has before its handler starts. */
static void apply_payload(struct cpu *c, u8 vector, u64 payload)
{
	if (vector == EXC_PF) {
		c->cr2 = payload;
	} else if (vector == EXC_DB) {
		/* Bits 3:0 are replaced, the sticky ones added. */
		c->dr6 &= ~0xfull;
		c->dr6 |= payload & ~(u64)BIT(12);
		c->dr7 &= ~(u64)BIT(13); /* GD */
	}
}

/* Faults push RF=1; traps and aborts do not.  #DB is both: what the client
 * queues is a trap to KVM. */
static bool is_fault(u8 vector)
{
	return !(BIT(vector) & (BIT(EXC_DB) | BIT(EXC_BP) | BIT(EXC_OF) | BIT(EXC_DF) |
				BIT(EXC_MC)));
}

static void inject_exception(struct vcpu *v)
{
	struct cpu *c = &v->cpu;

	if (v->exception.has_payload)
		apply_payload(c, v->exception.vector, v->exception.payload);
	c->event.kind = EVENT_EXCEPTION;
	c->event.vector = v->exception.vector;
	c->event.has_error = v->exception.has_error;
	c->event.error = v->exception.error;
	c->event.is_soft = false;
	c->event.payload = 0;
	v->exception.pending = false;
	v->exception.has_payload = false;
	if (is_fault(c->event.vector))
		c->rflags |= RF_RF;
}

static void inject(struct cpu *c, enum event_kind kind, u8 vector)
{
	c->event.kind = (u8)kind;
	c->event.vector = vector;
	c->event.has_error = false;
	c->event.is_soft = false;
	c->event.payload = 0;
}

static void inject_one(struct vcpu *v)
{
	struct cpu *c = &v->cpu;
	int vector;

	if (v->exception.pending) {
		inject_exception(v);
		return;
	}
	if (c->gdb.block_irq)
		return;
	if (v->smi_pending && smi_allowed(c)) {
		log_debug(LOG_EXC, "vcpu %u: SMI at rip %#llx", v->id, c->rip);
		v->smi_pending = false;
		smm_enter(c);
		return;
	}
	if (v->nmi_pending && nmi_allowed(c)) {
		v->nmi_pending--;
		inject(c, EVENT_NMI, EXC_NMI);
		c->stats->nmi_injections++;
		return;
	}
	if (!interrupts_allowed(c))
		return;
	vector = take_interrupt(v);
	if (vector >= 0) {
		inject(c, EVENT_INTR, (u8)vector);
		c->stats->irq_injections++;
	}
}

/* Something waits, besides what is in cpu.event, that no event_check() will
 * report once that is delivered. */
static bool more_waits(struct vcpu *v)
{
	return v->exception.pending || v->smi_pending || v->nmi_pending ||
	       interrupt_waits(v);
}

void event_inject(struct vcpu *v)
{
	struct cpu *c = &v->cpu;

	collect(v);
	if (c->event.kind == EVENT_NONE)
		inject_one(v);
	/* The trap or shadow that an SMI waits for is over at the next boundary. */
	if (v->smi_pending && !c->smm && !c->gdb.block_irq)
		again(v);
	/* After delivery the processor is at a boundary again, perhaps with
	 * interrupts still enabled (trap gate): look once more then. */
	if (c->event.kind != EVENT_NONE && more_waits(v))
		again(v);
	c->quiet = !more_waits(v) && !wants_window(v);
}

void event_check(struct vcpu *v)
{
	struct cpu *c = &v->cpu;

	if ((v->smi_pending && smi_allowed(c)) || (v->nmi_pending && nmi_allowed(c)) ||
	    (v->lapic && !c->smm && lapic_has_init_sipi(v->lapic)))
		again(v);
	else if (interrupts_allowed(c) && (interrupt_waits(v) || wants_window(v)))
		again(v);
}

bool event_wakes(struct vcpu *v)
{
	struct cpu *c = &v->cpu;

	collect(v);
	if (v->exception.pending || c->event.kind != EVENT_NONE || c->pending_dbg)
		return true;
	if (atomic_exchange_explicit(&v->pv_unhalted, false, memory_order_relaxed))
		return true;
	if ((v->smi_pending && smi_allowed(c)) || (v->nmi_pending && nmi_allowed(c)))
		return true;
	if (!interrupts_allowed(c) || c->gdb.block_irq)
		return false;
	/* Halted inside, with the LAPIC the client's: it may have an interrupt. */
	if (!v->lapic && wants_window(v) && event_window_open(v))
		return true;
	return extint_waits(v) ||
	       (v->lapic && lapic_is_pending(v->lapic) &&
		lapic_evaluate(v->lapic, &c->stats->req_event) >= 0);
}

bool event_window_open(const struct vcpu *v)
{
	const struct cpu *c = &v->cpu;

	if (c->event.kind != EVENT_NONE || v->exception.pending || !interrupts_allowed(c))
		return false;
	/* Split: the client's vector waits for the LAPIC to let it through. */
	return !v->lapic || (lapic_accepts_extint(v->lapic) && !v->extint_pending);
}

void event_queue_exception(struct vcpu *v, u8 vector, bool has_error, u32 error)
{
	v->exception.pending = true;
	v->exception.vector = vector;
	v->exception.has_error = has_error;
	v->exception.error = error;
	v->exception.has_payload = false;
}

void event_add_nmi(struct vcpu *v)
{
	/* More than two are never kept, so the count cannot overflow. */
	if (atomic_load(&v->nmi_queued) < 2)
		atomic_fetch_add(&v->nmi_queued, 1);
	vcpu_request(v, VCPU_REQ_EVENT);
}

void event_add_smi(struct vcpu *v)
{
	atomic_store(&v->smi_queued, true);
	vcpu_request(v, VCPU_REQ_EVENT);
}

int event_interrupt(struct vcpu *v, u32 irq)
{
	if (irq >= KVM_NR_INTERRUPTS)
		return -EINVAL;
	if (!vm_has_lapic(v->vm)) {
		inject(&v->cpu, EVENT_INTR, (u8)irq);
		v->cpu.stats->irq_injections++;
		return 0;
	}
	if (vm_has_pic(v->vm))
		return -ENXIO;
	if (v->extint_pending)
		return -EEXIST;
	v->extint_pending = true;
	v->extint_vector = (u8)irq;
	vcpu_request(v, VCPU_REQ_EVENT);
	return 0;
}

void event_reset(struct vcpu *v)
{
	v->nmi_pending = 0;
	atomic_store(&v->nmi_queued, 0);
	v->smi_pending = false;
	atomic_store(&v->smi_queued, false);
	memset(&v->exception, 0, sizeof(v->exception));
	memset(&v->cpu.event, 0, sizeof(v->cpu.event));
	v->cpu.pending_dbg = 0;
	v->triple_fault_pending = false;
	v->extint_pending = false;
	atomic_store(&v->pv_unhalted, false);
}

/* --- KVM_GET_VCPU_EVENTS, KVM_SET_VCPU_EVENTS ------------------------------ */

static void get_exception(struct vcpu *v, struct kvm_vcpu_events *e, bool payload_cap)
{
	struct cpu *c = &v->cpu;

	/* A client that does not know payloads sees a pending exception as one
	 * that is being delivered, with its side effects done. */
	if (v->exception.pending && !payload_cap && v->exception.has_payload) {
		apply_payload(c, v->exception.vector, v->exception.payload);
		v->exception.has_payload = false;
		v->exception.payload = 0;
	}
	if (v->exception.pending) {
		e->exception.injected = !payload_cap;
		e->exception.pending = payload_cap;
		e->exception.nr = v->exception.vector;
		e->exception.has_error_code = v->exception.has_error;
		e->exception.error_code = v->exception.error;
		e->exception_has_payload = v->exception.has_payload;
		e->exception_payload = v->exception.payload;
		return;
	}
	e->exception.injected = c->event.kind == EVENT_EXCEPTION;
	if (!e->exception.injected)
		return;
	e->exception.nr = c->event.vector;
	e->exception.has_error_code = c->event.has_error;
	e->exception.error_code = c->event.error;
}

void event_get(struct vcpu *v, struct kvm_vcpu_events *e)
{
	bool payload_cap = atomic_load(&v->vm->exception_payload);
	struct cpu *c = &v->cpu;

	memset(e, 0, sizeof(*e));
	collect(v);
	get_exception(v, e, payload_cap);
	e->interrupt.injected = c->event.kind == EVENT_INTR;
	if (c->event.kind == EVENT_INTR || c->event.kind == EVENT_SOFT_INT)
		e->interrupt.nr = c->event.vector;
	e->interrupt.shadow = (c->shadow & SHADOW_MOVSS ? KVM_X86_SHADOW_INT_MOV_SS : 0) |
			      (c->shadow & SHADOW_STI ? KVM_X86_SHADOW_INT_STI : 0);
	e->nmi.injected = c->event.kind == EVENT_NMI;
	e->nmi.pending = v->nmi_pending;
	e->nmi.masked = c->nmi_blocked;
	e->smi.smm = c->smm;
	e->smi.pending = v->smi_pending;
	e->smi.smm_inside_nmi = c->smm_in_nmi;
	e->smi.latched_init =
		v->lapic && (atomic_load(&v->lapic->init_sipi) & LAPIC_INIT) != 0;
	e->flags = KVM_VCPUEVENT_VALID_NMI_PENDING | KVM_VCPUEVENT_VALID_SHADOW |
		   KVM_VCPUEVENT_VALID_SMM;
	if (payload_cap)
		e->flags |= KVM_VCPUEVENT_VALID_PAYLOAD;
	if (atomic_load(&v->vm->triple_fault_event)) {
		e->triple_fault.pending = v->triple_fault_pending;
		e->flags |= KVM_VCPUEVENT_VALID_TRIPLE_FAULT;
	}
}

static int check_events(const struct vcpu *v, const struct kvm_vcpu_events *e,
			bool payload_cap)
{
	if (e->flags & ~(u32)(KVM_VCPUEVENT_VALID_NMI_PENDING |
			      KVM_VCPUEVENT_VALID_SIPI_VECTOR | KVM_VCPUEVENT_VALID_SHADOW |
			      KVM_VCPUEVENT_VALID_SMM | KVM_VCPUEVENT_VALID_PAYLOAD |
			      KVM_VCPUEVENT_VALID_TRIPLE_FAULT))
		return -EINVAL;
	if (e->flags & KVM_VCPUEVENT_VALID_PAYLOAD) {
		if (!payload_cap || (e->exception.pending && e->exception.injected))
			return -EINVAL;
	}
	if ((e->exception.injected || e->exception.pending) &&
	    (e->exception.nr > 31 || e->exception.nr == EXC_NMI))
		return -EINVAL;
	/* INIT waits in SMM: one that was received there is `latched_init`. */
	if ((e->flags & KVM_VCPUEVENT_VALID_SMM) && (e->smi.smm || e->smi.pending) &&
	    atomic_load(&v->mp_state) == KVM_MP_STATE_INIT_RECEIVED)
		return -EINVAL;
	if ((e->flags & KVM_VCPUEVENT_VALID_TRIPLE_FAULT) &&
	    !atomic_load(&v->vm->triple_fault_event))
		return -EINVAL;
	return 0;
}

static void set_exception(struct vcpu *v, const struct kvm_vcpu_events *e)
{
	struct cpu *c = &v->cpu;

	if (e->exception.injected) {
		inject(c, EVENT_EXCEPTION, e->exception.nr);
		c->event.has_error = e->exception.has_error_code;
		c->event.error = e->exception.error_code;
	}
	v->exception.pending = (e->flags & KVM_VCPUEVENT_VALID_PAYLOAD) &&
			       e->exception.pending;
	v->exception.vector = e->exception.nr;
	v->exception.has_error = e->exception.has_error_code;
	v->exception.error = e->exception.error_code;
	v->exception.has_payload = (e->flags & KVM_VCPUEVENT_VALID_PAYLOAD) &&
				   e->exception_has_payload;
	v->exception.payload = e->exception_payload;
}

static void set_shadow(struct cpu *c, u8 kvm_bits)
{
	c->shadow = (u8)((kvm_bits & KVM_X86_SHADOW_INT_MOV_SS ? SHADOW_MOVSS : 0) |
			 (kvm_bits & KVM_X86_SHADOW_INT_STI ? SHADOW_STI : 0));
	if (c->shadow) /* it ends after the next instruction */
		atomic_fetch_or(&c->attn, ATTN_SHADOW);
}

static void set_smi(struct vcpu *v, const struct kvm_vcpu_events *e)
{
	struct cpu *c = &v->cpu;

	if (c->smm != !!e->smi.smm || e->smi.smm)
		smm_set(c, e->smi.smm, e->smi.smm_inside_nmi);
	v->smi_pending = e->smi.pending;
	if (!v->lapic)
		return;
	if (e->smi.latched_init)
		atomic_fetch_or(&v->lapic->init_sipi, LAPIC_INIT);
	else
		atomic_fetch_and(&v->lapic->init_sipi, ~(u32)LAPIC_INIT);
}

int event_set(struct vcpu *v, const struct kvm_vcpu_events *e)
{
	int r = check_events(v, e, atomic_load(&v->vm->exception_payload));
	struct cpu *c = &v->cpu;

	if (r)
		return r;
	collect(v);
	inject(c, EVENT_NONE, 0);
	/* One is delivered at a time: an exception beats an NMI beats an
	 * interrupt, as at injection. */
	if (e->interrupt.injected) {
		inject(c, EVENT_INTR, e->interrupt.nr);
		if (e->interrupt.soft) {
			c->event.kind = EVENT_SOFT_INT;
			c->event.is_soft = true;
			c->event.next_rip = c->rip;
		}
	}
	if (e->nmi.injected)
		inject(c, EVENT_NMI, EXC_NMI);
	set_exception(v, e);
	if (e->flags & KVM_VCPUEVENT_VALID_SHADOW)
		set_shadow(c, e->interrupt.shadow);
	if (e->flags & KVM_VCPUEVENT_VALID_NMI_PENDING)
		v->nmi_pending = MIN(e->nmi.pending, 2);
	c->nmi_blocked = e->nmi.masked;
	if (e->flags & KVM_VCPUEVENT_VALID_SMM)
		set_smi(v, e);
	if (e->flags & KVM_VCPUEVENT_VALID_TRIPLE_FAULT)
		v->triple_fault_pending = e->triple_fault.pending;
	again(v);
	return 0;
}
