/* SPDX-License-Identifier: MIT */
#include "vm/state.h"

#include <errno.h>
#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/cr.h"
#include "cpu/debug.h"
#include "cpu/flags.h"
#include "irq/lapic.h"
#include "vm/event.h"
#include "vm/ops.h"
#include "vm/vm.h"

/* --- general registers --------------------------------------------------------- */

/* struct kvm_regs: rax rbx rcx rdx rsi rdi rsp rbp r8 .. r15 */
static const u8 kvm_order[R_COUNT] = {
	R_RAX, R_RBX, R_RCX, R_RDX, R_RSI, R_RDI, R_RSP, R_RBP,
	R_R8,  R_R9,  R_R10, R_R11, R_R12, R_R13, R_R14, R_R15,
};

void state_get_regs(struct vcpu *v, struct kvm_regs *r)
{
	u64 *out = &r->rax;

	for (unsigned i = 0; i < R_COUNT; i++)
		out[i] = v->cpu.gpr[kvm_order[i]];
	r->rip = v->cpu.rip;
	r->rflags = cpu_rflags(&v->cpu);
}

/* CPL is SS's DPL to KVM, whatever CS says. */
static void update_cpl(struct cpu *c)
{
	unsigned cpl = (c->seg[SEG_SS].attr & SEG_DPL) >> SEG_DPL_SHIFT;

	if (!(c->mmu.cr0 & CR0_PE))
		cpl = 0;
	else if (c->rflags & RF_VM)
		cpl = 3;
	mmu_set_cpl(&c->mmu, cpl);
	cpu_update_mode(c);
}

void state_set_regs(struct vcpu *v, const struct kvm_regs *r)
{
	const u64 *in = &r->rax;
	struct cpu *c = &v->cpu;

	for (unsigned i = 0; i < R_COUNT; i++)
		c->gpr[kvm_order[i]] = in[i];
	c->rip = r->rip;
	cpu_set_rflags(c, r->rflags);
	update_cpl(c);
	v->exception.pending = false;
	vcpu_request(v, VCPU_REQ_EVENT);
}

/* --- segments -------------------------------------------------------------------- */

static void get_segment(const struct segment *s, struct kvm_segment *k)
{
	*k = (struct kvm_segment){
		.base = s->base,
		.limit = s->limit,
		.selector = s->sel,
		.type = s->attr & SEG_TYPE,
		.s = (s->attr & SEG_S) != 0,
		.dpl = (s->attr & SEG_DPL) >> SEG_DPL_SHIFT,
		.present = (s->attr & SEG_P) != 0,
		.avl = (s->attr & SEG_AVL) != 0,
		.l = (s->attr & SEG_L) != 0,
		.db = (s->attr & SEG_DB) != 0,
		.g = (s->attr & SEG_G) != 0,
		.unusable = (s->attr & SEG_UNUSABLE) != 0,
	};
}

static void set_segment(struct segment *s, const struct kvm_segment *k)
{
	s->base = k->base;
	s->limit = k->limit;
	s->sel = k->selector;
	s->attr = (k->type & SEG_TYPE) | (k->s ? SEG_S : 0) | (k->dpl & 3u) << SEG_DPL_SHIFT |
		  (k->present ? SEG_P : 0) | (k->avl ? SEG_AVL : 0) | (k->l ? SEG_L : 0) |
		  (k->db ? SEG_DB : 0) | (k->g ? SEG_G : 0) |
		  (k->unusable || !k->present ? SEG_UNUSABLE : 0);
}

/* The members from cs to efer and apic_base are laid out alike in struct
 * kvm_sregs and struct kvm_sregs2. */
#define SREGS_COMMON offsetof(struct kvm_sregs, interrupt_bitmap)
_Static_assert(SREGS_COMMON == offsetof(struct kvm_sregs2, flags), "common part");

static void get_common(struct vcpu *v, struct kvm_sregs2 *s)
{
	struct cpu *c = &v->cpu;
	struct kvm_segment *const to[SEG_COUNT] = {
		[SEG_ES] = &s->es, [SEG_CS] = &s->cs, [SEG_SS] = &s->ss,    [SEG_DS] = &s->ds,
		[SEG_FS] = &s->fs, [SEG_GS] = &s->gs, [SEG_LDTR] = &s->ldt, [SEG_TR] = &s->tr,
	};

	for (unsigned i = 0; i < SEG_COUNT; i++)
		get_segment(&c->seg[i], to[i]);
	s->gdt.base = c->gdtr.base;
	s->gdt.limit = c->gdtr.limit;
	s->idt.base = c->idtr.base;
	s->idt.limit = c->idtr.limit;
	s->cr0 = c->mmu.cr0;
	s->cr2 = c->cr2;
	s->cr3 = c->mmu.cr3;
	s->cr4 = c->mmu.cr4;
	s->cr8 = vm_cpu_ops.get_cr8(c);
	s->efer = c->mmu.efer;
	s->apic_base = vm_cpu_ops.apic_base(c);
}

void state_get_sregs2(struct vcpu *v, struct kvm_sregs2 *s)
{
	struct mmu *m = &v->cpu.mmu;

	memset(s, 0, sizeof(*s));
	get_common(v, s);
	if ((m->cr0 & CR0_PG) && (m->cr4 & CR4_PAE) && !(m->efer & EFER_LMA)) {
		memcpy(s->pdptrs, m->pdptr, sizeof(s->pdptrs));
		s->flags = KVM_SREGS2_FLAGS_PDPTRS_VALID;
	}
}

void state_get_sregs(struct vcpu *v, struct kvm_sregs *s)
{
	struct kvm_sregs2 s2;
	u8 vector = v->cpu.event.vector;

	memset(s, 0, sizeof(*s));
	memset(&s2, 0, sizeof(s2));
	get_common(v, &s2);
	memcpy(s, &s2, SREGS_COMMON);
	if (v->cpu.event.kind == EVENT_INTR)
		s->interrupt_bitmap[vector / 64] |= BIT64(vector % 64);
}

static bool set_apic_base(struct vcpu *v, u64 value)
{
	u64 old = vm_cpu_ops.apic_base(&v->cpu);

	if (!apicbase_valid(old, value, cpuid_has(v->cpu.cpuid, CPUID_X2APIC),
			    v->cpu.mmu.maxphyaddr, true))
		return false;
	if (v->lapic && value != old)
		lapic_set_base(v->lapic, value);
	else
		v->apic_base = value;
	return true;
}

/* Clients that reset a machine without KVM_SET_MP_STATE expect its boot
 * processor to run. */
static void unhalt_on_reset(struct vcpu *v)
{
	struct cpu *c = &v->cpu;

	if (vcpu_is_bsp(v) && c->rip == 0xfff0 && c->seg[SEG_CS].sel == 0xf000 &&
	    c->seg[SEG_CS].base == 0xffff0000 && !(c->mmu.cr0 & CR0_PE))
		atomic_store(&v->mp_state, KVM_MP_STATE_RUNNABLE);
}

static int set_common(struct vcpu *v, const struct kvm_sregs2 *s)
{
	struct cpu *c = &v->cpu;
	const struct kvm_segment *const from[SEG_COUNT] = {
		[SEG_ES] = &s->es, [SEG_CS] = &s->cs, [SEG_SS] = &s->ss,    [SEG_DS] = &s->ds,
		[SEG_FS] = &s->fs, [SEG_GS] = &s->gs, [SEG_LDTR] = &s->ldt, [SEG_TR] = &s->tr,
	};

	if (!cr_valid_sregs(c, s->cr0, s->cr3, s->cr4, s->efer, s->cs.l) ||
	    !set_apic_base(v, s->apic_base))
		return -EINVAL;
	for (unsigned i = 0; i < SEG_COUNT; i++)
		set_segment(&c->seg[i], from[i]);
	c->gdtr.base = s->gdt.base;
	c->gdtr.limit = s->gdt.limit;
	c->idtr.base = s->idt.base;
	c->idtr.limit = s->idt.limit;
	c->cr2 = s->cr2;
	if (v->lapic)
		lapic_set_cr8(v->lapic, s->cr8 & 15);
	else
		c->cr8 = s->cr8 & 15;
	cr_load_sregs(c, s->cr0, s->cr3, s->cr4, s->efer);
	update_cpl(c);
	unhalt_on_reset(v);
	vcpu_request(v, VCPU_REQ_EVENT);
	return 0;
}

int state_set_sregs(struct vcpu *v, const struct kvm_sregs *s)
{
	struct kvm_sregs2 s2;
	int r;

	memset(&s2, 0, sizeof(s2));
	memcpy(&s2, s, SREGS_COMMON);
	r = set_common(v, &s2);
	for (unsigned i = 0; !r && i < ARRAY_SIZE(s->interrupt_bitmap); i++)
		if (s->interrupt_bitmap[i]) {
			v->cpu.event.kind = EVENT_INTR;
			v->cpu.event.vector =
				(u8)(i * 64 + (unsigned)bits_ffs64(s->interrupt_bitmap[i]));
			v->cpu.event.is_soft = false;
			v->cpu.event.has_error = false;
			break;
		}
	return r;
}

int state_set_sregs2(struct vcpu *v, const struct kvm_sregs2 *s)
{
	bool given = s->flags & KVM_SREGS2_FLAGS_PDPTRS_VALID;
	bool pae = (s->cr0 & CR0_PG) && (s->cr4 & CR4_PAE) && !(s->efer & EFER_LMA);
	int r;

	if (s->flags & ~(u64)KVM_SREGS2_FLAGS_PDPTRS_VALID || (given && !pae))
		return -EINVAL;
	r = set_common(v, s);
	if (!r && given)
		memcpy(v->cpu.mmu.pdptr, s->pdptrs, sizeof(s->pdptrs));
	return r;
}

/* --- through the run page ----------------------------------------------------------- */

int state_sync_in(struct vcpu *v)
{
	struct kvm_run *run = v->run;
	struct kvm_sync_regs *s = &run->s.regs;
	u64 dirty = run->kvm_dirty_regs;

	if ((run->kvm_valid_regs | dirty) & ~(u64)KVM_SYNC_X86_VALID_FIELDS)
		return -EINVAL;
	/* The client may write the page meanwhile: what is checked is a copy. */
	if (dirty & KVM_SYNC_X86_REGS) {
		struct kvm_regs regs = s->regs;

		state_set_regs(v, &regs);
	}
	if (dirty & KVM_SYNC_X86_SREGS) {
		struct kvm_sregs sregs = s->sregs;

		if (state_set_sregs(v, &sregs))
			return -EINVAL;
	}
	if (dirty & KVM_SYNC_X86_EVENTS) {
		struct kvm_vcpu_events events = s->events;

		if (event_set(v, &events))
			return -EINVAL;
	}
	run->kvm_dirty_regs &= ~dirty;
	return 0;
}

void state_sync_out(struct vcpu *v)
{
	struct kvm_sync_regs *s = &v->run->s.regs;
	u64 valid = v->run->kvm_valid_regs;

	if (valid & KVM_SYNC_X86_REGS)
		state_get_regs(v, &s->regs);
	if (valid & KVM_SYNC_X86_SREGS)
		state_get_sregs(v, &s->sregs);
	if (valid & KVM_SYNC_X86_EVENTS)
		event_get(v, &s->events);
}

/* --- debug registers ------------------------------------------------------------------ */

void state_get_debugregs(struct vcpu *v, struct kvm_debugregs *d)
{
	memset(d, 0, sizeof(*d));
	memcpy(d->db, v->cpu.dr, sizeof(d->db));
	d->dr6 = v->cpu.dr6;
	d->dr7 = v->cpu.dr7;
}

int state_set_debugregs(struct vcpu *v, const struct kvm_debugregs *d)
{
	if (d->flags || d->dr6 >> 32 || d->dr7 >> 32)
		return -EINVAL;
	memcpy(v->cpu.dr, d->db, sizeof(d->db));
	v->cpu.dr6 = d->dr6;
	v->cpu.dr7 = d->dr7;
	debug_update(&v->cpu);
	return 0;
}

int state_set_guest_debug(struct vcpu *v, const struct kvm_guest_debug *d)
{
	bool on = d->control & KVM_GUESTDBG_ENABLE;
	struct cpu *c = &v->cpu;
	u32 control = on ? d->control : 0;

	if (d->control & (KVM_GUESTDBG_INJECT_DB | KVM_GUESTDBG_INJECT_BP)) {
		if (v->exception.pending || c->event.kind == EVENT_EXCEPTION)
			return -EBUSY;
		event_queue_exception(v, d->control & KVM_GUESTDBG_INJECT_DB ? EXC_DB : EXC_BP,
				      false, 0);
	}
	v->guest_debug = control;
	c->gdb.enabled = on;
	c->gdb.singlestep = control & KVM_GUESTDBG_SINGLESTEP;
	c->gdb.sw_bp = control & KVM_GUESTDBG_USE_SW_BP;
	c->gdb.hw_bp = control & KVM_GUESTDBG_USE_HW_BP;
	c->gdb.block_irq = control & KVM_GUESTDBG_BLOCKIRQ;
	if (c->gdb.hw_bp) {
		memcpy(c->gdb.dr, d->arch.debugreg, sizeof(c->gdb.dr));
		c->gdb.dr7 = d->arch.debugreg[7];
	}
	debug_update(c);
	vcpu_request(v, VCPU_REQ_EVENT);
	return 0;
}

void state_translate(struct vcpu *v, struct kvm_translation *t)
{
	bool writable = false, user = false;
	gpa_t gpa = 0;

	t->valid = mmu_translate(&v->cpu.mmu, t->linear_address, &gpa, &writable, &user);
	t->physical_address = t->valid ? gpa : ~0ull;
	t->writeable = writable;
	t->usermode = user;
}
