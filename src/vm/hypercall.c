/* SPDX-License-Identifier: MIT */
#include "vm/hypercall.h"

#include <errno.h>
#include <string.h>

#include "irq/lapic.h"
#include "pv/pv.h"
#include "vm/vm.h"

/* In the ICR word of KVM_HC_SEND_IPI: the rest is ignored or refused. */
#define PV_IPI_REFUSED (3u << ICR_SHORT_SHIFT | ICR_LOGICAL)

static struct lapic *lapic_by_id(struct irqchip *chip, u32 id)
{
	unsigned n = atomic_load(&chip->nr_lapics);

	/* Linux numbers APICs as it does vCPUs: try that place first. */
	if (id < n && chip->lapics[id]->id == id)
		return chip->lapics[id];
	for (unsigned i = 0; i < n; i++)
		if (chip->lapics[i]->id == id)
			return chip->lapics[i];
	return NULL;
}

static s64 send_to_map(struct irqchip *chip, u64 map, u64 min, const struct irq_msg *msg)
{
	s64 count = 0;

	for (; map; map &= map - 1) {
		u64 id = min + (u64)bits_ffs64(map);
		struct lapic *l = id > ~0u ? NULL : lapic_by_id(chip, (u32)id);

		if (l)
			count += lapic_accept(l, msg);
	}
	return count;
}

static s64 send_ipi(void *opaque, u64 low, u64 high, u32 min, u32 icr, bool long_mode)
{
	struct vcpu *v = opaque;
	struct irqchip *chip = &v->vm->irqchip;
	unsigned width = long_mode ? 64 : 32;
	struct irq_msg msg = {
		.vector = (u8)icr,
		.mode = icr >> ICR_MODE_SHIFT & 7,
		.level = icr & ICR_LEVEL,
		.assert = icr & ICR_ASSERT,
	};

	if (!v->lapic)
		return -KVM_EOPNOTSUPP;
	if (icr & PV_IPI_REFUSED)
		return -KVM_EINVAL;
	v->lapic->ipis_sent++;
	return send_to_map(chip, low, min, &msg) +
	       send_to_map(chip, high, (u64)min + width, &msg);
}

static s64 pairing(void *opaque, gpa_t gpa, u64 type)
{
	struct vcpu *v = opaque;
	struct kvmclock_tsc tsc = { v->tsc.clock.tsc_khz, v->cpu.tsc_offset };

	return kvmclock_pairing(&v->vm->kvmclock, v->vm->mem, gpa, type, tsc);
}

/* No vCPU is ever preempted in favour of another by us: the host decides. */
static void yield(void *opaque, u32 apic_id)
{
	(void)opaque;
	(void)apic_id;
}

#define HYPERCALL_BYTES 3

/*
 * Guests may have been built for the other vendor's instruction.  KVM replaces
 * it by the right one and runs that, unless the client has turned this off.
 */
static enum emul fix_instruction(struct vcpu *v, bool *fixed)
{
	static const u8 vmcall[] = { 0x0f, 0x01, 0xc1 }, vmmcall[] = { 0x0f, 0x01, 0xd9 };
	struct cpu *c = &v->cpu;
	bool amd = c->vendor == VENDOR_AMD;
	u64 rip = c->rip + (c->code_bits == 64 ? 0 : c->seg[SEG_CS].base);
	u8 bytes[HYPERCALL_BYTES];
	enum emul r = mmu_fetch_bytes(&c->mmu, rip, bytes, HYPERCALL_BYTES);

	*fixed = false;
	if (r != EMUL_CONTINUE || memcmp(bytes, amd ? vmcall : vmmcall, HYPERCALL_BYTES))
		return r;
	if (atomic_load(&v->vm->disabled_quirks) & KVM_X86_QUIRK_FIX_HYPERCALL_INSN)
		return cpu_ud(c);
	*fixed = true;
	return mmu_write(&c->mmu, rip, amd ? vmmcall : vmcall, HYPERCALL_BYTES, 0);
}

enum emul hypercall_run(struct vcpu *v)
{
	struct cpu *c = &v->cpu;
	bool fixed;
	enum emul r = fix_instruction(v, &fixed);

	if (r != EMUL_CONTINUE || fixed)
		return r == EMUL_CONTINUE ? EMUL_RETRY : r;
	struct pv_call call = {
		.nr = c->gpr[R_RAX],
		.a0 = c->gpr[R_RBX],
		.a1 = c->gpr[R_RCX],
		.a2 = c->gpr[R_RDX],
		.a3 = c->gpr[R_RSI],
		.long_mode = c->code_bits == 64,
		.cpl = c->mmu.cpl,
		.features = v->pv_enforce ? v->pv_features : ~0u,
		.opaque = v,
		.send_ipi = send_ipi,
		.pairing = pairing,
		.yield = yield,
	};

	c->gpr[R_RAX] = pv_hypercall(&call);
	return EMUL_CONTINUE;
}
