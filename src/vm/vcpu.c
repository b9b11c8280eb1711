/* SPDX-License-Identifier: MIT */
#include "vm/vcpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "cpu/cpuid.h"
#include "cpu/icache.h"
#include "cpu/interp.h"
#include "cpu/reset.h"
#include "irq/lapic.h"
#include "irq/lapic_timer.h"
#include "jit/jit.h"
#include "pv/pv.h"
#include "vm/caps.h"
#include "vm/event.h"
#include "vm/mp.h"
#include "vm/ops.h"
#include "vm/vm.h"

/* --- time ------------------------------------------------------------------- */

/* After every load of the guest that came before: what stood next to RDTSC in
 * the guest is many host instructions away here, and a count that is read too
 * early makes time run backwards between vCPUs. */
static u64 host_tsc(const struct clock *c)
{
	const struct vcpu_tsc *t = CONTAINER_OF(c, struct vcpu_tsc, clock);

	__builtin_ia32_lfence();
	return t->host->tsc(t->host);
}

static u64 scaled_tsc(const struct clock *c)
{
	const struct vcpu_tsc *t = CONTAINER_OF(c, struct vcpu_tsc, clock);

	return clock_mul_div(host_tsc(c), c->tsc_khz, t->host->tsc_khz);
}

static u64 host_now(const struct clock *c)
{
	const struct vcpu_tsc *t = CONTAINER_OF(c, struct vcpu_tsc, clock);

	return t->host->now_ns(t->host);
}

static u64 host_real(const struct clock *c)
{
	const struct vcpu_tsc *t = CONTAINER_OF(c, struct vcpu_tsc, clock);

	return t->host->real_ns(t->host);
}

static void tsc_set_khz(struct vcpu_tsc *t, u32 khz)
{
	t->clock = (struct clock){
		.now_ns = host_now,
		.real_ns = host_real,
		.tsc = khz == t->host->tsc_khz ? host_tsc : scaled_tsc,
		.tsc_khz = khz,
		.tsc_stable = t->host->tsc_stable,
		.tsc_host = t->host->tsc_host && khz == t->host->tsc_khz,
	};
}

void vcpu_set_tsc_khz(struct vcpu *v, u32 khz)
{
	u64 now = vcpu_guest_tsc(v);

	tsc_set_khz(&v->tsc, khz);
	v->cpu.tsc_offset += (s64)(now - vcpu_guest_tsc(v));
	vcpu_tsc_changed(v);
}

void vcpu_tsc_changed(struct vcpu *v)
{
	if (v->lapic) {
		lapic_timer_tsc_changed(v->lapic);
		vcpu_timer_sync(v);
	}
	vcpu_request(v, VCPU_REQ_CLOCK);
}

void vcpu_timer_sync(struct vcpu *v)
{
	timer_arm(&v->vm->timer, v->slot, lapic_timer_next_ns(v->lapic));
}

static void timer_fired(void *opaque)
{
	vcpu_request(opaque, VCPU_REQ_EVENT);
}

/* --- being asked ------------------------------------------------------------ */

void vcpu_request(struct vcpu *v, u32 bits)
{
	/* The order that loses nothing: what to do, look at it, wake up. */
	atomic_fetch_or(&v->requests, bits);
	atomic_fetch_or(&v->cpu.attn, ATTN_EVENT);
	wait_kick(&v->wait);
}

void vcpu_kick(struct vcpu *v)
{
	atomic_fetch_or(&v->requests, VCPU_REQ_EXIT);
	atomic_fetch_or(&v->cpu.attn, ATTN_EVENT | ATTN_EXIT);
	wait_kick(&v->wait);
}

/* --- life ------------------------------------------------------------------- */

bool vcpu_is_bsp(const struct vcpu *v)
{
	return v->id == v->vm->bsp_id;
}

void vcpu_cpuid_changed(struct vcpu *v)
{
	const struct kvm_cpuid_entry2 *entries;
	unsigned n = cpuid_entries(v->cpu.cpuid, &entries);

	v->pv_features = pv_features_of(entries, n);
	/* Which handler a form has depends on it. */
	icache_flush(v->cpu.icache);
	if (v->lapic) {
		u32 f = 0;

		if (cpuid_has(v->cpu.cpuid, CPUID_X2APIC))
			f |= LAPIC_HAS_X2APIC;
		if (cpuid_has(v->cpu.cpuid, CPUID_TSC_DEADLINE))
			f |= LAPIC_HAS_TSC_DEADLINE;
		if (v->cpu.msr.mcg_cap & MCG_CMCI_P)
			f |= LAPIC_HAS_CMCI;
		lapic_set_features(v->lapic, f, v->cpu.mmu.maxphyaddr);
	}
}

/* Where the host refuses, the interpreter does it all; said once. */
static int start_translator(struct vcpu *v)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const struct vm_config *cfg = &v->vm->config;
	int r = jit_init(&v->cpu, cfg->jit_exact, cfg->count_instructions);

	if (!r || r == -ENOMEM)
		return r;
	if (!atomic_flag_test_and_set(&said))
		log_warn("%s: the interpreter runs guest code, about ten times slower",
			 r == -ENOSYS ? "this processor lacks BMI2, AVX or XSAVE"
				      : "executable memory is refused here");
	return 0;
}

static int init_cpu(struct vcpu *v)
{
	const struct vm_config *cfg = &v->vm->config;
	struct tlb_config tlb = {
		.size = cfg->tlb_size,
		.spaces = cfg->tlb_spaces,
		.invlpg_context = cfg->invlpg == VM_INVLPG_CONTEXT,
	};
	struct cpu *c = &v->cpu;
	struct vcpu_counters *counters = v->stats.data;
	int r;

	c->ops = &vm_cpu_ops;
	c->clock = &v->tsc.clock;
	c->stats = &counters->cpu;
	r = mmu_init(&c->mmu, v->vm->mem, &vm_mmu_ops, &c->attn, &tlb);
	if (r)
		return r;
	r = cpu_init(c);
	if (!r)
		r = interp_init(c, NULL);
	if (!r && cfg->engine == VM_ENGINE_JIT) {
		r = start_translator(v);
	}
	return r;
}

static void fini_cpu(struct vcpu *v)
{
	jit_fini(&v->cpu);
	interp_fini(&v->cpu);
	cpu_fini(&v->cpu);
	mmu_fini(&v->cpu.mmu);
}

static void init_tsc(struct vcpu *v)
{
	v->tsc.host = v->vm->clock;
	tsc_set_khz(&v->tsc, v->vm->default_tsc_khz);
	/* Starts at 0, or where the other vCPUs are. */
	v->cpu.tsc_offset = vm_sync_tsc(v->vm, v, 0);
}

static int check_id(struct vm *vm, unsigned long id)
{
	if (id >= vm->max_vcpu_id)
		return -EINVAL;
	if (atomic_load(&vm->nr_vcpus) >= VM_MAX_VCPUS)
		return -EINVAL;
	return vm_vcpu(vm, (u32)id) ? -EEXIST : 0;
}

/* The parts that can fail; undone by vcpu_destroy(). */
static int build(struct vcpu *v)
{
	struct vm *vm = v->vm;
	char name[48];
	int r;

	snprintf(name, sizeof(name), "%s/vcpu-%u", vm->name, v->id);
	r = stats_create(&v->stats, STATS_VCPU, name);
	if (r)
		return r;
	init_tsc(v);
	r = init_cpu(v);
	if (r)
		return r;
	if (vm_has_lapic(vm)) {
		r = lapic_create(&vm->irqchip, v->id, v, vcpu_is_bsp(v), &v->lapic);
		if (r)
			return r;
	}
	v->apic_base = APICBASE_DEFAULT | APICBASE_ENABLE |
		       (vcpu_is_bsp(v) ? APICBASE_BSP : 0);
	return 0;
}

int vcpu_create(struct vm *vm, unsigned long id, void *run, void *ring,
		struct vcpu **out)
{
	u32 index = atomic_load(&vm->nr_vcpus);
	int r = check_id(vm, id);
	struct vcpu *v;

	if (r)
		return r;
	v = aligned_alloc(64, ALIGN_UP(sizeof(*v), 64));
	if (!v)
		return -ENOMEM;
	memset(v, 0, sizeof(*v));
	v->vm = vm;
	v->id = (u32)id;
	v->index = index;
	v->slot = &vm->slots[index];
	v->slot->fire = timer_fired;
	v->slot->opaque = v;
	v->stats.fd = -1;
	v->poll_control_msr = 1;
	pthread_mutex_init(&v->mutex, NULL);
	wait_init(&v->wait);
	r = build(v);
	if (!r && ring) /* the last that can fail: it is seen from now on */
		r = dirty_ring_add(vm->mem, &v->ring, ring, &v->cpu.attn, ATTN_EVENT);
	if (r) {
		vcpu_destroy(v);
		return r;
	}
	mp_reset(v, false);
	/* Without a LAPIC of ours the client decides who waits. */
	atomic_store(&v->mp_state, vcpu_is_bsp(v) || !v->lapic ?
					   KVM_MP_STATE_RUNNABLE :
					   KVM_MP_STATE_UNINITIALIZED);
	vcpu_cpuid_changed(v);
	v->run = run;
	if (!index)
		atomic_store(&vm->iotab.ring,
			     (void *)((u8 *)run + VCPU_COALESCED_PAGE * PAGE_SIZE));
	atomic_fetch_add(&vm->iotab.unmapped, 1);
	atomic_store(&vm->vcpus[index], v);
	atomic_store(&vm->nr_vcpus, index + 1);
	*out = v;
	return 0;
}

void vcpu_destroy(struct vcpu *v)
{
	if (v->ring.gfn)
		munmap(v->ring.gfn, v->vm->mem->ring_bytes);
	dirty_ring_fini(&v->ring);
	if (v->lapic)
		lapic_destroy(v->lapic);
	fini_cpu(v);
	stats_destroy(&v->stats);
	pthread_mutex_destroy(&v->mutex);
	if (v->run)
		munmap(v->run, VCPU_MMAP_SIZE);
	free(v);
}
