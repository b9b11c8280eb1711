/* SPDX-License-Identifier: MIT */
/* Handlers of the system half, for tab_sys.c.  All are op_fn (cpu/handlers.h). */
#ifndef LOCUM_CPU_SYS_H
#define LOCUM_CPU_SYS_H

#include "cpu/handlers.h"

#define SYS_OP(name) enum emul name(struct cpu *c, const struct insn *i);
SYS_OP(op_jmp_far)
SYS_OP(op_call_far)
SYS_OP(op_ret_far)
SYS_OP(op_iret)
SYS_OP(op_int)
SYS_OP(op_int1)
SYS_OP(op_into)
SYS_OP(op_syscall)
SYS_OP(op_sysret)
SYS_OP(op_sysenter)
SYS_OP(op_sysexit)
SYS_OP(op_mov_sreg)
SYS_OP(op_push_sreg)
SYS_OP(op_pop_sreg)
SYS_OP(op_load_far_pointer)
SYS_OP(op_lar)
SYS_OP(op_verr)
SYS_OP(op_mov_cr)
SYS_OP(op_mov_dr)
SYS_OP(op_clts)
SYS_OP(op_lmsw)
SYS_OP(op_smsw)
SYS_OP(op_lgdt)
SYS_OP(op_sgdt)
SYS_OP(op_sldt)
SYS_OP(op_lldt)
SYS_OP(op_ltr)
SYS_OP(op_invlpg)
SYS_OP(op_invpcid)
SYS_OP(op_wbinvd)
SYS_OP(op_hlt)
SYS_OP(op_cpuid)
SYS_OP(op_rdtsc)
SYS_OP(op_rdtscp)
SYS_OP(op_rdpid)
SYS_OP(op_rdpmc)
SYS_OP(op_rdmsr)
SYS_OP(op_wrmsr)
SYS_OP(op_swapgs)
SYS_OP(op_fsgsbase)
SYS_OP(op_clac)
SYS_OP(op_vmcall)
SYS_OP(op_rsm)
SYS_OP(op_monitor)
SYS_OP(op_mwait)
SYS_OP(op_ud)
#undef SYS_OP

#endif
