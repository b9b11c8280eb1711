/* SPDX-License-Identifier: MIT */
#include "vm/ops.h"

#include <string.h>

#include "base/bug.h"
#include "irq/lapic.h"
#include "vm/bus.h"
#include "vm/event.h"
#include "vm/hypercall.h"
#include "vm/msr.h"
#include "vm/vm.h"

static struct vcpu *vcpu_of(struct cpu *c)
{
	return CONTAINER_OF(c, struct vcpu, cpu);
}

static u64 linear_rip(const struct cpu *c)
{
	return c->rip + (c->code_bits == 64 ? 0 : c->seg[SEG_CS].base);
}

/* The record, at the instruction that asks now. */
static struct replay *record(struct vcpu *v)
{
	replay_at(&v->replay, linear_rip(&v->cpu));
	return &v->replay;
}

/* An answer is on record: the engine reports the end of the instruction, or of
 * one iteration, which is when the record goes. */
static enum emul answered(struct vcpu *v)
{
	atomic_fetch_or_explicit(&v->cpu.attn, ATTN_COMMIT, memory_order_relaxed);
	return EMUL_CONTINUE;
}

/* The record holds every question of the longest instruction, so it cannot
 * overflow; if it does after all, the instruction must not go on half done. */
static enum emul overflow(struct vcpu *v)
{
	if (BUG_CHECK(v->replay.n == REPLAY_MAX))
		vm_kill(v->vm);
	return EMUL_IO;
}

/* --- ports ------------------------------------------------------------------ */

/* KVM's quirk: the client finds RIP behind an OUT to port 0x7e (QEMU patches the
 * bytes in front of it).  So the instruction ends before the exit. */
static bool exits_behind(const struct vcpu *v, u16 port, unsigned count, bool out)
{
	return out && port == 0x7e && count == 1 &&
	       !(atomic_load_explicit(&v->vm->disabled_quirks, memory_order_relaxed) &
		 KVM_X86_QUIRK_OUT_7E_INC_RIP);
}

static enum emul pio_exit(struct vcpu *v, u16 port, unsigned size, const void *data,
			  unsigned count, bool out)
{
	struct kvm_run *run = v->run;
	u8 *page = (u8 *)run + VCPU_PIO_PAGE * PAGE_SIZE;
	bool behind = exits_behind(v, port, count, out);

	count = MIN(count, (unsigned)PAGE_SIZE / size);
	if (!behind && !replay_open(&v->replay, out ? REPLAY_PIO_OUT : REPLAY_PIO_IN, port, size, count))
		return overflow(v);
	run->exit_reason = KVM_EXIT_IO;
	run->io.direction = out ? KVM_EXIT_IO_OUT : KVM_EXIT_IO_IN;
	run->io.size = (u8)size;
	run->io.port = port;
	run->io.count = count;
	run->io.data_offset = VCPU_PIO_PAGE * PAGE_SIZE;
	if (out)
		memcpy(page, data, (size_t)count * size);
	v->cpu.stats->io_exits++;
	if (!behind)
		return EMUL_IO;
	v->posted_exit = true;
	atomic_fetch_or(&v->cpu.attn, ATTN_EXIT);
	return EMUL_CONTINUE;
}

static enum emul ops_pio(struct cpu *c, u16 port, unsigned size, void *data,
			 unsigned *count, bool out)
{
	struct vcpu *v = vcpu_of(c);
	enum replay_kind kind = out ? REPLAY_PIO_OUT : REPLAY_PIO_IN;
	struct replay_entry *e = replay_find(record(v), kind, port, size);

	if (e) {
		/* The client may have changed the count: what it answered is
		 * what there is. */
		*count = MIN(*count, e->count);
		if (!out)
			memcpy(data, e->count == 1 ? (u8 *)&e->data : v->replay.batch,
			       (size_t)*count * size);
		return answered(v);
	}
	if (!bus_pio(v->vm, port, size, data, out))
		return pio_exit(v, port, size, data, *count, out);
	/* One element at a time: each may have side effects. */
	*count = 1;
	e = replay_add(&v->replay, kind, port, size);
	if (!e)
		return overflow(v);
	memcpy(&e->data, data, size);
	return answered(v);
}

/* --- MMIO --------------------------------------------------------------------- */

static enum emul mmio_exit(struct vcpu *v, gpa_t gpa, const void *data, unsigned n,
			   bool write)
{
	struct kvm_run *run = v->run;

	if (!replay_open(&v->replay, write ? REPLAY_MMIO_WRITE : REPLAY_MMIO_READ, gpa, n, 1))
		return overflow(v);
	run->exit_reason = KVM_EXIT_MMIO;
	run->mmio.phys_addr = gpa;
	run->mmio.len = n;
	run->mmio.is_write = write;
	memset(run->mmio.data, 0, sizeof(run->mmio.data));
	if (write)
		memcpy(run->mmio.data, data, n);
	v->cpu.stats->mmio_exits++;
	return EMUL_IO;
}

static enum emul ops_mmio(struct mmu *m, gpa_t gpa, void *data, unsigned n, bool write)
{
	struct vcpu *v = vcpu_of(CONTAINER_OF(m, struct cpu, mmu));
	enum replay_kind kind = write ? REPLAY_MMIO_WRITE : REPLAY_MMIO_READ;
	struct replay_entry *e = replay_find(record(v), kind, gpa, n);

	if (e) {
		if (!write)
			memcpy(data, &e->data, n);
		return answered(v);
	}
	if (!bus_mmio(v, gpa, data, n, write))
		return mmio_exit(v, gpa, data, n, write);
	e = replay_add(&v->replay, kind, gpa, n);
	if (!e)
		return overflow(v);
	memcpy(&e->data, data, n);
	return answered(v);
}

/* --- MSRs --------------------------------------------------------------------- */

static enum emul msr_exit(struct vcpu *v, u32 index, u64 value, bool write, u32 reason)
{
	struct kvm_run *run = v->run;

	if (!(atomic_load_explicit(&v->vm->user_msr_mask, memory_order_relaxed) & reason))
		return cpu_gp(&v->cpu, 0);
	if (!replay_open(&v->replay, write ? REPLAY_WRMSR : REPLAY_RDMSR, index, 8, 1))
		return overflow(v);
	run->exit_reason = write ? KVM_EXIT_X86_WRMSR : KVM_EXIT_X86_RDMSR;
	run->msr.error = 0;
	memset(run->msr.pad, 0, sizeof(run->msr.pad));
	run->msr.reason = reason;
	run->msr.index = index;
	run->msr.data = value;
	return EMUL_IO;
}

static u32 reason_of(enum msr_result r)
{
	return r == MSR_UNKNOWN ? KVM_MSR_EXIT_REASON_UNKNOWN : KVM_MSR_EXIT_REASON_INVAL;
}

static bool ops_msr_filtered(struct cpu *c, u32 index, bool write)
{
	struct vcpu *v = vcpu_of(c);

	return msr_is_ours(index) ||
	       !msr_filter_allows(atomic_load_explicit(&v->vm->filter, memory_order_acquire),
				  index, write);
}

static bool denied(struct vcpu *v, u32 index, bool write)
{
	return !msr_filter_allows(atomic_load_explicit(&v->vm->filter, memory_order_acquire),
				  index, write);
}

static enum emul ops_rdmsr(struct cpu *c, u32 index, u64 *value)
{
	struct vcpu *v = vcpu_of(c);
	struct replay_entry *e = replay_find(record(v), REPLAY_RDMSR, index, 8);
	enum msr_result r;

	if (e) {
		*value = e->data;
		return e->fault ? cpu_gp(c, 0) : answered(v);
	}
	if (denied(v, index, false))
		return msr_exit(v, index, 0, false, KVM_MSR_EXIT_REASON_FILTER);
	r = msr_read_ours(v, index, value, false);
	return r == MSR_OK ? EMUL_CONTINUE : msr_exit(v, index, 0, false, reason_of(r));
}

static enum emul ops_wrmsr(struct cpu *c, u32 index, u64 value)
{
	struct vcpu *v = vcpu_of(c);
	struct replay_entry *e = replay_find(record(v), REPLAY_WRMSR, index, 8);
	enum msr_result r;

	if (e)
		return e->fault ? cpu_gp(c, 0) : answered(v);
	if (denied(v, index, true))
		return msr_exit(v, index, value, true, KVM_MSR_EXIT_REASON_FILTER);
	r = msr_write_ours(v, index, value, false);
	return r == MSR_OK ? EMUL_CONTINUE : msr_exit(v, index, value, true, reason_of(r));
}

static enum emul ops_msr_refused(struct cpu *c, u32 index, u64 *value, bool write)
{
	struct vcpu *v = vcpu_of(c);
	enum replay_kind kind = write ? REPLAY_WRMSR : REPLAY_RDMSR;
	struct replay_entry *e = replay_find(record(v), kind, index, 8);

	if (!e)
		return msr_exit(v, index, write ? *value : 0, write,
				KVM_MSR_EXIT_REASON_INVAL);
	if (e->fault)
		return cpu_gp(c, 0);
	if (!write)
		*value = e->data;
	return answered(v);
}

/* --- the rest ------------------------------------------------------------------ */

static enum emul ops_hypercall(struct cpu *c)
{
	return hypercall_run(vcpu_of(c));
}

static u64 ops_get_cr8(struct cpu *c)
{
	struct vcpu *v = vcpu_of(c);

	return v->lapic ? lapic_get_cr8(v->lapic) : c->cr8;
}

static void ops_set_cr8(struct cpu *c, u64 value)
{
	struct vcpu *v = vcpu_of(c);

	if (v->lapic) {
		lapic_set_cr8(v->lapic, value);
		return;
	}
	if (value < c->cr8) { /* the client's LAPIC may have something now */
		v->set_tpr_exit = true;
		vcpu_request(v, VCPU_REQ_EVENT);
	}
	c->cr8 = value;
}

static void ops_event_check(struct cpu *c)
{
	event_check(vcpu_of(c));
}

static void ops_commit(struct cpu *c)
{
	struct vcpu *v = vcpu_of(c);

	replay_reset(&v->replay);
	/* Only the recorded instruction was to be finished: a REP ends here. */
	if (unlikely(v->completing))
		atomic_fetch_or(&c->attn, ATTN_EXIT);
}

static u64 ops_apic_base(struct cpu *c)
{
	struct vcpu *v = vcpu_of(c);

	return v->lapic ? atomic_load_explicit(&v->lapic->base, memory_order_relaxed) :
			  v->apic_base;
}

static u64 ops_disabled_quirks(const struct cpu *c)
{
	const struct vcpu *v = CONTAINER_OF(c, struct vcpu, cpu);

	return atomic_load_explicit(&v->vm->disabled_quirks, memory_order_relaxed);
}

const struct cpu_ops vm_cpu_ops = {
	.pio = ops_pio,
	.rdmsr = ops_rdmsr,
	.wrmsr = ops_wrmsr,
	.msr_filtered = ops_msr_filtered,
	.msr_refused = ops_msr_refused,
	.hypercall = ops_hypercall,
	.get_cr8 = ops_get_cr8,
	.set_cr8 = ops_set_cr8,
	.event_check = ops_event_check,
	.commit = ops_commit,
	.apic_base = ops_apic_base,
	.disabled_quirks = ops_disabled_quirks,
};

const struct mmu_ops vm_mmu_ops = {
	.mmio = ops_mmio,
};

/* --- the client's answer --------------------------------------------------------- */

static void take_pio(struct vcpu *v, struct replay_entry *e)
{
	const u8 *page = (const u8 *)v->run + VCPU_PIO_PAGE * PAGE_SIZE;

	if (e->count == 1)
		memcpy(&e->data, page, e->size);
	else
		memcpy(v->replay.batch, page, (size_t)e->count * e->size);
}

static void take_msr(struct vcpu *v, struct replay_entry *e)
{
	e->fault = v->run->msr.error != 0;
	e->data = v->run->msr.data;
}

void ops_take_answer(struct vcpu *v)
{
	struct replay_entry *e = replay_open_entry(&v->replay);

	if (!e)
		return;
	if (v->replay.rip != linear_rip(&v->cpu)) {
		replay_reset(&v->replay);
		return;
	}
	switch ((enum replay_kind)e->kind) {
	case REPLAY_PIO_IN:
		take_pio(v, e);
		break;
	case REPLAY_MMIO_READ:
		memcpy(&e->data, v->run->mmio.data, e->size);
		break;
	case REPLAY_RDMSR:
	case REPLAY_WRMSR:
		take_msr(v, e);
		break;
	case REPLAY_PIO_OUT:
	case REPLAY_MMIO_WRITE:
		break;
	}
	replay_answered(&v->replay);
}

bool ops_is_unfinished(const struct vcpu *v)
{
	return replay_pending(&v->replay) && v->replay.rip == linear_rip(&v->cpu);
}
