/* SPDX-License-Identifier: MIT */
/* Which handler executes which instruction of the system half. */
#include "cpu/sys.h"

static const struct {
	u16 op;
	op_fn fn;
} table[] = {
	{ OP_JMP_FAR, op_jmp_far },	{ OP_CALL_FAR, op_call_far },
	{ OP_RET_FAR, op_ret_far },	{ OP_IRET, op_iret },
	{ OP_INT, op_int },		{ OP_INT3, op_int },
	{ OP_INT1, op_int1 },		{ OP_INTO, op_into },
	{ OP_SYSCALL, op_syscall },	{ OP_SYSRET, op_sysret },
	{ OP_SYSENTER, op_sysenter },	{ OP_SYSEXIT, op_sysexit },
	{ OP_MOV_SREG, op_mov_sreg },	{ OP_LES, op_load_far_pointer },
	{ OP_LDS, op_load_far_pointer }, { OP_LSS, op_load_far_pointer },
	{ OP_LFS, op_load_far_pointer }, { OP_LGS, op_load_far_pointer },
	{ OP_LAR, op_lar },		{ OP_LSL, op_lar },
	{ OP_VERR, op_verr },		{ OP_VERW, op_verr },
	{ OP_MOV_CR, op_mov_cr },	{ OP_MOV_DR, op_mov_dr },
	{ OP_CLTS, op_clts },		{ OP_LMSW, op_lmsw },
	{ OP_SMSW, op_smsw },		{ OP_LGDT, op_lgdt },
	{ OP_LIDT, op_lgdt },		{ OP_SGDT, op_sgdt },
	{ OP_SIDT, op_sgdt },		{ OP_SLDT, op_sldt },
	{ OP_STR, op_sldt },		{ OP_LLDT, op_lldt },
	{ OP_LTR, op_ltr },		{ OP_INVLPG, op_invlpg },
	{ OP_INVPCID, op_invpcid },	{ OP_WBINVD, op_wbinvd },
	{ OP_INVD, op_wbinvd },		{ OP_HLT, op_hlt },
	{ OP_CPUID, op_cpuid },		{ OP_RDTSC, op_rdtsc },
	{ OP_RDTSCP, op_rdtscp },	{ OP_RDPID, op_rdpid },
	{ OP_RDPMC, op_rdpmc },		{ OP_RDMSR, op_rdmsr },
	{ OP_WRMSR, op_wrmsr },		{ OP_SWAPGS, op_swapgs },
	{ OP_RDFSBASE, op_fsgsbase },	{ OP_RDGSBASE, op_fsgsbase },
	{ OP_WRFSBASE, op_fsgsbase },	{ OP_WRGSBASE, op_fsgsbase },
	{ OP_CLAC, op_clac },		{ OP_STAC, op_clac },
	{ OP_VMCALL, op_vmcall },	{ OP_VMMCALL, op_vmcall },
	/* No VMX and no SVM in CPUID. */
	{ OP_UD0, op_ud },		{ OP_UD1, op_ud },
	{ OP_UD2, op_ud },		{ OP_VMLAUNCH, op_ud },
	{ OP_VMRESUME, op_ud },		{ OP_VMXOFF, op_ud },
	{ OP_VMFUNC, op_ud },		{ OP_VMRUN, op_ud },
	{ OP_VMLOAD, op_ud },		{ OP_VMSAVE, op_ud },
	{ OP_STGI, op_ud },		{ OP_CLGI, op_ud },
	{ OP_SKINIT, op_ud },		{ OP_INVLPGA, op_ud },
	{ OP_MONITOR, op_monitor },	{ OP_MWAIT, op_mwait },
	{ OP_RSM, op_rsm },
};

op_fn sys_select(const struct insn *i)
{
	if (i->op == OP_PUSH && i->opnd[0].kind == OPD_SEG)
		return op_push_sreg;
	if (i->op == OP_POP && i->opnd[0].kind == OPD_SEG)
		return op_pop_sreg;
	for (unsigned k = 0; k < ARRAY_SIZE(table); k++)
		if (table[k].op == i->op)
			return table[k].fn;
	return NULL;
}
