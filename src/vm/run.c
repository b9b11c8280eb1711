/* SPDX-License-Identifier: MIT */
#include "vm/run.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cpu/engine.h"
#include "cpu/interp.h"
#include "irq/lapic.h"
#include "irq/lapic_timer.h"
#include "jit/jit.h"
#include "mem/hostfault.h"
#include "vm/event.h"
#include "vm/mp.h"
#include "vm/ops.h"
#include "vm/state.h"
#include "vm/vm.h"

/* What the loop does next; other values end KVM_RUN with themselves. */
#define GO_ON 1

static int interrupted(struct vcpu *v)
{
	v->run->exit_reason = KVM_EXIT_INTR;
	v->cpu.stats->signal_exits++;
	return -EINTR;
}

/* --- exits ----------------------------------------------------------------- */

static int exit_with(struct vcpu *v, u32 reason)
{
	v->run->exit_reason = reason;
	return 0;
}

static int exit_debug(struct vcpu *v)
{
	struct kvm_debug_exit_arch *d = &v->run->debug.arch;

	memset(d, 0, sizeof(*d));
	d->exception = v->cpu.debug_exit.vector;
	d->pc = v->cpu.debug_exit.pc;
	d->dr6 = v->cpu.debug_exit.dr6;
	d->dr7 = v->cpu.gdb.hw_bp ? v->cpu.gdb.dr7 : v->cpu.dr7;
	return exit_with(v, KVM_EXIT_DEBUG);
}

static int exit_shutdown(struct vcpu *v)
{
	struct cpu *c = &v->cpu;

	log_debug(LOG_EXC, "vcpu %u: shutdown at rip %#llx, cr2 %#llx%s: %s", v->id, c->rip,
		  c->cr2, c->smm ? ", in SMM" : "",
		  c->shutdown_cause ? c->shutdown_cause : "triple fault");
	c->shutdown = false;
	event_reset(v);
	replay_reset(&v->replay);
	return exit_with(v, KVM_EXIT_SHUTDOWN);
}

struct insn_bytes {
	struct vcpu *v;
	u8 byte[15];
};

/* Return: how many bytes of the instruction at rip can be read. */
static int read_insn_bytes(void *arg)
{
	struct insn_bytes *b = arg;
	struct cpu *c = &b->v->cpu;
	u64 rip = c->rip + (c->code_bits == 64 ? 0 : c->seg[SEG_CS].base);
	unsigned n = sizeof(b->byte);

	while (n && mmu_fetch_bytes(&c->mmu, rip, b->byte, n) != EMUL_CONTINUE)
		n--; /* what follows on the next page may not be there */
	return (int)n;
}

/* An instruction that we cannot execute: its bytes go to the client. */
static int exit_emulation_error(struct vcpu *v)
{
	struct kvm_run *run = v->run;
	struct cpu *c = &v->cpu;
	const char *text = interp_error_text(c);
	struct insn_bytes b = { .v = v };
	int n;

	log_warn("vcpu %u: cannot execute %s at rip %#llx", v->id,
		 *text ? text : "outside memory", c->rip);
	/* In guest mode: slots may change, and the client may unmap memory. */
	mmu_enter_guest(&c->mmu);
	n = hostfault_try(v->vm->mem, read_insn_bytes, &b);
	mmu_exit_guest(&c->mmu);
	if (n < 0)
		n = 0;
	memset(&run->emulation_failure, 0, sizeof(run->emulation_failure));
	run->emulation_failure.suberror = KVM_INTERNAL_ERROR_EMULATION;
	run->emulation_failure.ndata = 4;
	run->emulation_failure.flags = KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES;
	run->emulation_failure.insn_size = (u8)n;
	memcpy(run->emulation_failure.insn_bytes, b.byte, sizeof(b.byte));
	return exit_with(v, KVM_EXIT_INTERNAL_ERROR);
}

static int halt(struct vcpu *v)
{
	bool inside = atomic_load_explicit(&v->vm->disabled_exits, memory_order_relaxed) &
		      KVM_X86_DISABLE_EXITS_HLT;

	v->cpu.halted = false;
	v->cpu.stats->halt_exits++;
	if (!v->lapic && !inside)
		return exit_with(v, KVM_EXIT_HLT);
	atomic_store_explicit(&v->mp_state, KVM_MP_STATE_HALTED, memory_order_relaxed);
	return GO_ON;
}

/* What readers of the statistics see while KVM_RUN goes on. */
static void publish_counters(struct vcpu *v)
{
	struct vcpu_counters *counters = v->stats.data;

	counters->tlb = v->cpu.mmu.tlb.stats;
	if (v->lapic)
		counters->cpu.ipis_sent = v->lapic->ipis_sent;
	if (!v->vm->config.count_instructions)
		counters->cpu.instructions = 0;
}

static int after_engine(struct vcpu *v, enum engine_exit exit)
{
	v->cpu.stats->exits++;
	switch (exit) {
	case ENGINE_EVENT:
		publish_counters(v);
		if (unlikely(v->cpu.mmu.starved)) {
			v->cpu.mmu.starved = false;
			return -ENOMEM;
		}
		if (unlikely(v->posted_exit)) {
			v->posted_exit = false;
			return 0;
		}
		return GO_ON;
	case ENGINE_HALT:
		return halt(v);
	case ENGINE_IO:
		return 0; /* the run page was filled when the question was asked */
	case ENGINE_DEBUG:
		return exit_debug(v);
	case ENGINE_SHUTDOWN:
		return exit_shutdown(v);
	case ENGINE_ERROR:
		break;
	}
	return exit_emulation_error(v);
}

/* --- the engine -------------------------------------------------------------- */

struct engine_call {
	struct vcpu *v;
	enum engine_exit exit;
};

static u64 code_fault(void *arg, u64 pc)
{
	return jit_fault(arg, pc);
}

static int run_engine(void *arg)
{
	struct engine_call *call = arg;
	struct cpu *c = &call->v->cpu;

	if (c->translator) {
		hostfault_redirect(code_fault, c);
		call->exit = engine_jit.run(c);
	} else {
		call->exit = engine_interp.run(c);
	}
	return GO_ON;
}

/* Run guest code.  Memory that the client took away is -EFAULT, with the
 * instruction not done. */
static int in_guest(struct vcpu *v)
{
	struct engine_call call = { .v = v, .exit = ENGINE_EVENT };
	int r;

	v->has_run = true;
	mmu_enter_guest(&v->cpu.mmu);
	r = hostfault_try(v->vm->mem, run_engine, &call);
	mmu_exit_guest(&v->cpu.mmu);
	return r == GO_ON ? after_engine(v, call.exit) : r;
}

/* What the processor looks at between instructions, and we in serve_requests(). */
static void clear_attention(struct vcpu *v)
{
	atomic_fetch_and(&v->cpu.attn, ~(u32)(ATTN_EVENT | ATTN_EXIT));
}

/* The instruction whose question the client has answered runs again, alone:
 * no event may come before it, and with immediate_exit nothing after it. */
static int complete_instruction(struct vcpu *v)
{
	int r = GO_ON;

	ops_take_answer(v);
	v->completing = true;
	/* The engine leaves after the commit, or before the instruction when
	 * somebody wants attention: that must wait. */
	while (r == GO_ON && ops_is_unfinished(v)) {
		clear_attention(v);
		v->replay.cursor = 0;
		r = in_guest(v);
	}
	v->completing = false;
	atomic_fetch_or(&v->cpu.attn, ATTN_EVENT);
	return r;
}

/* --- the loop ------------------------------------------------------------------ */

static void update_clock(struct vcpu *v)
{
	struct kvmclock_tsc tsc = { v->tsc.clock.tsc_khz, v->cpu.tsc_offset };

	kvmclock_update(&v->vm->kvmclock, &v->kvmclock, v->vm->mem, tsc);
}

/* What other threads asked for.  Return: GO_ON or how KVM_RUN ends. */
static int serve_requests(struct vcpu *v)
{
	u32 req;

	/* First the bits, then what they stand for (vcpu_request()). */
	clear_attention(v);
	if (v->lapic && lapic_timer_next_ns(v->lapic) != LAPIC_TIMER_NEVER)
		lapic_timer_run(v->lapic, v->vm->clock->now_ns(v->vm->clock));
	if (likely(!atomic_load(&v->requests)))
		return GO_ON;
	req = atomic_exchange(&v->requests, 0);
	if (req & VCPU_REQ_DEAD)
		return -EIO;
	if (req & VCPU_REQ_CLOCK)
		update_clock(v);
	return req & VCPU_REQ_EXIT ? interrupted(v) : GO_ON;
}

/* Exits that something outside the processor wants before guest code runs. */
static int pending_exit(struct vcpu *v)
{
	if (v->triple_fault_pending) {
		v->triple_fault_pending = false;
		return exit_shutdown(v);
	}
	if (unlikely(dirty_ring_is_full(&v->ring)))
		return exit_with(v, KVM_EXIT_DIRTY_RING_FULL);
	if (v->set_tpr_exit) {
		v->set_tpr_exit = false;
		return exit_with(v, KVM_EXIT_SET_TPR);
	}
	if (v->eoi_exit) {
		v->eoi_exit = false;
		v->run->eoi.vector = v->eoi_vector;
		return exit_with(v, KVM_EXIT_IOAPIC_EOI);
	}
	if (v->run->request_interrupt_window && !vm_has_pic(v->vm) && event_window_open(v))
		return exit_with(v, KVM_EXIT_IRQ_WINDOW_OPEN);
	return GO_ON;
}

/* One pass: everything that is due, then guest code. */
static int pass(struct vcpu *v)
{
	int r = serve_requests(v);

	if (r != GO_ON)
		return r;
	mp_accept_init_sipi(v);
	if (!mp_is_running(v)) {
		enum mp_block b = mp_block(v);

		return b == MP_SIGNAL ? interrupted(v) : GO_ON;
	}
	r = pending_exit(v);
	if (r != GO_ON)
		return r;
	replay_reset(&v->replay);
	event_inject(v);
	if (v->lapic)
		vcpu_timer_sync(v);
	return in_guest(v);
}

static int run_loop(struct vcpu *v)
{
	int r;

	do
		r = pass(v);
	while (r == GO_ON);
	return r;
}

/* --- entry and return ------------------------------------------------------------ */

/* A processor that waits to be started: KVM_RUN blocks once. */
static int run_uninitialized(struct vcpu *v)
{
	int r;

	if (v->run->immediate_exit)
		return -EINTR;
	do {
		r = serve_requests(v);
		if (r != GO_ON)
			return r;
		if (mp_block(v) == MP_SIGNAL)
			return interrupted(v);
	} while (atomic_load(&v->mp_state) == KVM_MP_STATE_UNINITIALIZED);
	return -EAGAIN;
}

static int enter(struct vcpu *v)
{
	struct kvm_run *run = v->run;
	int r;

	run->flags = 0;
	if (atomic_load(&v->mp_state) == KVM_MP_STATE_UNINITIALIZED)
		return run_uninitialized(v);
	r = state_sync_in(v);
	if (r)
		return r;
	if (!v->lapic) {
		if (run->cr8 & ~0xfull)
			return -EINVAL;
		v->cpu.cr8 = run->cr8;
	}
	r = complete_instruction(v);
	if (r != GO_ON)
		return r;
	/* The reason of the exit before stays in the page, as with the kernel:
	 * its selftests look at it after completing an access this way. */
	if (__atomic_load_n(&run->immediate_exit, __ATOMIC_SEQ_CST))
		return -EINTR;
	return run_loop(v);
}

static void leave(struct vcpu *v)
{
	struct kvm_run *run = v->run;

	if (run->kvm_valid_regs)
		state_sync_out(v);
	run->flags = v->cpu.smm ? KVM_RUN_X86_SMM : 0;
	run->if_flag = (v->cpu.rflags & RF_IF) != 0;
	run->cr8 = v->lapic ? lapic_get_cr8(v->lapic) : v->cpu.cr8;
	run->apic_base = vm_cpu_ops.apic_base(&v->cpu);
	run->ready_for_interrupt_injection = vm_has_pic(v->vm) || event_window_open(v);
	publish_counters(v);
}

int vcpu_run(struct vcpu *v)
{
	int r;

	/* The client may have written guest memory since the last exit. */
	vm_client_wrote(v->vm, v);
	wait_prepare(&v->wait);
	dirty_ring_select(&v->ring);
	r = enter(v);
	dirty_ring_select(NULL);
	wait_leave(&v->wait);
	if (v->lapic)
		timer_arm(&v->vm->timer, v->slot, TIMER_NEVER);
	leave(v);
	log_debug(LOG_RUN, "vcpu %u: KVM_RUN: %d, exit reason %u, rip %#llx, mp state %u",
		  v->id, r, v->run->exit_reason, v->cpu.rip, atomic_load(&v->mp_state));
	return r;
}
