/* SPDX-License-Identifier: MIT */
/*
 * MONITOR and MWAIT.  The wait may end at once, for any reason, so that both do
 * nothing but their checks: as under KVM, which by a quirk does not even ask
 * CPUID whether they are there.
 */
#include "cpu/cpuid.h"
#include "cpu/operand.h"
#include "cpu/sys.h"

static enum emul check(struct cpu *c)
{
	bool asks = cpu_disabled_quirks(c) & KVM_X86_QUIRK_MWAIT_NEVER_UD_FAULTS;

	return c->mmu.cpl || (asks && !cpuid_has_mwait(c)) ? cpu_ud(c) : EMUL_CONTINUE;
}

/* AMD's processors look at the operands before the hypervisor is asked, Intel's
 * leave them to it. */
static bool looks_at_operands(const struct cpu *c)
{
	return c->vendor != VENDOR_INTEL;
}

enum emul op_monitor(struct cpu *c, const struct insn *i)
{
	enum emul r = check(c);
	gva_t lin;

	if (r != EMUL_CONTINUE || !looks_at_operands(c))
		return r;
	if ((u32)c->gpr[R_RCX])
		return cpu_gp(c, 0);
	r = mem_linear_at(c, i, gpr_get(c, R_RAX, i->adsize), 1, false, &lin);
	return r == EMUL_CONTINUE ? mmu_probe_read(&c->mmu, lin, 1, 0) : r;
}

enum emul op_mwait(struct cpu *c, const struct insn *i)
{
	enum emul r = check(c);

	(void)i;
	if (r != EMUL_CONTINUE || !looks_at_operands(c))
		return r;
	/* No extension is offered: bit 0, interrupts as events, is one. */
	return (u32)c->gpr[R_RCX] ? cpu_gp(c, 0) : EMUL_CONTINUE;
}
