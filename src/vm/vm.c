/* SPDX-License-Identifier: MIT */
#include "vm/vm.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/icache.h"
#include "irq/irqchip.h"
#include "irq/lapic.h"
#include "vm/event.h"
#include "vm/vcpu.h"

/* --- calls from the interrupt controllers ----------------------------------- */

static void irq_request(void *vcpu, enum irq_request req)
{
	struct vcpu *v = vcpu;

	switch (req) {
	case IRQ_REQ_NMI:
		event_add_nmi(v);
		return;
	case IRQ_REQ_UNHALT:
		atomic_store(&v->pv_unhalted, true);
		break;
	case IRQ_REQ_SMI:
		event_add_smi(v);
		return;
	case IRQ_REQ_APIC:
	case IRQ_REQ_EXTINT:
	case IRQ_REQ_INIT_SIPI:
		break; /* what to do is in the controllers */
	}
	vcpu_request(v, 0);
}

static u64 irq_tsc(void *vcpu)
{
	return vcpu_guest_tsc(vcpu);
}

static u32 irq_tsc_khz(void *vcpu)
{
	return ((struct vcpu *)vcpu)->tsc.clock.tsc_khz;
}

static void irq_eoi(void *vcpu, u8 vector)
{
	struct vcpu *v = vcpu;

	v->eoi_exit = true;
	v->eoi_vector = vector;
	vcpu_request(v, VCPU_REQ_EVENT);
}

static void irq_acked(void *vm, u32 gsi)
{
	irqfd_acked(vm, gsi);
}

static void arm_irqchip_timer(struct vm *vm)
{
	u64 next;

	/* Two threads may come here with different values: whoever stores last
	 * looks again, so that the earlier expiry is not lost. */
	do {
		next = irqchip_timer_next_ns(&vm->irqchip);
		timer_arm(&vm->timer, &vm->slots[VM_MAX_VCPUS], next);
	} while (irqchip_timer_next_ns(&vm->irqchip) != next);
}

static void irq_timer_changed(void *vm)
{
	arm_irqchip_timer(vm);
}

static void irq_base_changed(void *vcpu)
{
	(void)vcpu; /* CPUID.1:EDX[9] is computed when it is read */
}

static const struct irqchip_ops irq_ops = {
	.request = irq_request,
	.tsc = irq_tsc,
	.tsc_khz = irq_tsc_khz,
	.eoi = irq_eoi,
	.acked = irq_acked,
	.timer_changed = irq_timer_changed,
	.base_changed = irq_base_changed,
};

static void irqchip_timer_fired(void *opaque)
{
	struct vm *vm = opaque;

	irqchip_timer_run(&vm->irqchip, vm->clock->now_ns(vm->clock));
	arm_irqchip_timer(vm);
}

static void code_write(void *opaque, struct bpage *bp, unsigned off, unsigned n)
{
	struct vm *vm = opaque;
	struct vcpu *v;

	if (!icache_code_write(bp, off, n))
		return;
	atomic_fetch_add(&vm->mem->code_changes, 1);
	vm_each_vcpu(vm, i, v)
		atomic_fetch_or(&v->cpu.attn, ATTN_CODE);
}

static const struct mem_ops mem_ops = { .code_write = code_write };

/* --- life ------------------------------------------------------------------- */

static int build(struct vm *vm)
{
	static _Atomic u32 made; /* only to tell a process's VMs apart by name */
	int r;

	snprintf(vm->name, sizeof(vm->name), "kvm-%d.%u", (int)getpid(), ++made);
	r = stats_create(&vm->stats, STATS_VM, vm->name);
	if (r)
		return r;
	vm->mem = mem_create(&mem_ops, vm);
	if (!vm->mem)
		return -ENOMEM;
	vm->slots[VM_MAX_VCPUS].fire = irqchip_timer_fired;
	vm->slots[VM_MAX_VCPUS].opaque = vm;
	r = timer_start(&vm->timer, vm->clock, vm->slots, VM_MAX_VCPUS + 1);
	vm->timer_running = !r;
	return r;
}

static void destroy(struct vm *vm)
{
	u32 n = atomic_load(&vm->nr_vcpus);

	if (vm->timer_running)
		timer_stop(&vm->timer);
	irqfds_fini(&vm->irqfds);
	for (u32 i = 0; i < n; i++)
		vcpu_destroy(atomic_load(&vm->vcpus[i]));
	iotab_fini(&vm->iotab);
	irqchip_fini(&vm->irqchip);
	kvmclock_vm_fini(&vm->kvmclock);
	if (vm->mem)
		mem_destroy(vm->mem);
	msr_filter_destroy(atomic_load(&vm->filter));
	msr_filter_destroy(vm->old_filters);
	stats_destroy(&vm->stats);
	pthread_mutex_destroy(&vm->lock);
	free(vm);
}

int vm_create(const struct vm_config *config, struct vm **out)
{
	struct vm *vm = calloc(1, sizeof(*vm));
	int r;

	if (!vm)
		return -ENOMEM;
	atomic_init(&vm->refs, 1);
	vm->config = *config;
	vm->clock = clock_host();
	vm->max_vcpu_id = VM_MAX_VCPU_ID;
	vm->default_tsc_khz = vm->clock->tsc_khz;
	vm->stats.fd = -1;
	pthread_mutex_init(&vm->lock, NULL);
	r = irqchip_init(&vm->irqchip, &irq_ops, vm, vm->clock);
	if (r) {
		pthread_mutex_destroy(&vm->lock);
		free(vm);
		return r;
	}
	kvmclock_vm_init(&vm->kvmclock, vm->clock);
	irqfds_init(&vm->irqfds);
	iotab_init(&vm->iotab);
	r = build(vm);
	if (r) {
		destroy(vm);
		return r;
	}
	*out = vm;
	return 0;
}

void vm_get(struct vm *vm)
{
	atomic_fetch_add_explicit(&vm->refs, 1, memory_order_relaxed);
}

void vm_put(struct vm *vm)
{
	if (atomic_fetch_sub_explicit(&vm->refs, 1, memory_order_acq_rel) == 1)
		destroy(vm);
}

struct vcpu *vm_vcpu(struct vm *vm, u32 id)
{
	struct vcpu *v;

	vm_each_vcpu(vm, i, v)
		if (v->id == id)
			return v;
	return NULL;
}

void vm_request_all(struct vm *vm, u32 bits)
{
	struct vcpu *v;

	vm_each_vcpu(vm, i, v)
		vcpu_request(v, bits);
}

void vm_client_wrote(struct vm *vm, struct vcpu *self)
{
	struct vcpu *v;

	mem_epoch_bump(vm->mem);
	if (vm->config.engine != VM_ENGINE_JIT)
		return;
	vm_each_vcpu(vm, i, v)
		if (v != self)
			atomic_fetch_or(&v->cpu.attn, ATTN_CODE);
}

void vm_kill(struct vm *vm)
{
	atomic_store(&vm->dead, true);
	vm_request_all(vm, VCPU_REQ_DEAD);
}

/* --- TSC --------------------------------------------------------------------- */

/* Is @value, written @elapsed_ns after the last write, meant as the same time?
 * Zero is what a vCPU starts with. */
static bool tsc_matches(const struct vm *vm, u64 value, u64 elapsed_ns, u32 khz)
{
	u64 expected = vm->tsc_last_value + clock_mul_div(elapsed_ns, khz, 1000000);
	u64 second = (u64)khz * 1000;

	return !value || (value < expected + second && value + second > expected);
}

s64 vm_sync_tsc(struct vm *vm, struct vcpu *v, u64 value)
{
	u64 now = vm->clock->now_ns(vm->clock);
	u64 tsc = v->tsc.clock.tsc(&v->tsc.clock);
	s64 offset = (s64)(value - tsc);

	if (vm->tsc_written &&
	    tsc_matches(vm, value, now - vm->tsc_last_ns, v->tsc.clock.tsc_khz))
		return vm->tsc_last_offset;
	vm->tsc_written = true;
	vm->tsc_last_value = value;
	vm->tsc_last_ns = now;
	vm->tsc_last_offset = offset;
	return offset;
}

void vm_set_tsc_offset(struct vm *vm, struct vcpu *v, s64 offset)
{
	v->cpu.tsc_offset = offset;
	vm->tsc_written = true;
	vm->tsc_last_value = vcpu_guest_tsc(v);
	vm->tsc_last_ns = vm->clock->now_ns(vm->clock);
	vm->tsc_last_offset = offset;
}
