/* SPDX-License-Identifier: MIT */
/*
 * The architectural state of one logical processor.
 *
 * One struct, two engines.  At every return of an engine the state is exact.
 * cr0, cr3, cr4, efer, CPL live in cpu->mmu.
 */
#ifndef LOCUM_CPU_STATE_H
#define LOCUM_CPU_STATE_H

#include "base/clock.h"
#include "cpu/ops.h"
#include "cpu/stats.h"
#include "decode/decode.h"
#include "mmu/mmu.h"
#include "x86/exc.h"
#include "x86/regs.h"

/** struct segment - a segment register with its hidden part
 * @attr: SEG_* (x86/regs.h); limit in bytes, already scaled by G */
struct segment {
	u64 base;
	u32 limit;
	u32 attr;
	u16 sel;
};

struct desc_table {
	u64 base;
	u16 limit;
};

#define FPU_AREA_SIZE 1024 /* XSAVE standard format, x87 + SSE (+ AVX later) */

/* cpu.attn: reasons to leave the fast path at the next instruction boundary.
 * Set by any thread with atomic OR, cleared by the vCPU's thread. */
/* ATTN_MEM, BIT(0): mmu_poll() is wanted; in mem/track.h */
#define ATTN_EVENT BIT(1) /* an interrupt, NMI, INIT ... may have become deliverable */
#define ATTN_EXIT  BIT(2) /* leave the engine: signal, immediate exit, request */
/* ATTN_CODE, BIT(3): code of the running block may have changed; in mem/track.h */
#define ATTN_SHADOW BIT(4) /* interrupt shadow to expire after this instruction */
#define ATTN_TRAP  BIT(5) /* single-step or data-breakpoint trap pending */
/* The owner recorded an answer (ops, mmio): the engine calls ops->commit when
 * the instruction is done, and clears the bit. */
#define ATTN_COMMIT BIT(6)

/* cpu.shadow */
#define SHADOW_STI   BIT(0)
#define SHADOW_MOVSS BIT(1)

/* An event that delivery must push (or that was interrupted while being
 * pushed): the one slot of KVM's exception/interrupt injection state. */
enum event_kind { EVENT_NONE, EVENT_EXCEPTION, EVENT_SOFT_INT, EVENT_NMI, EVENT_INTR };

struct cpu {
	/* Hot part: layout is used by emitted code later. */
	u64 gpr[R_COUNT];
	u64 rip;
	u64 aflags; /* CF PF AF ZF SF OF alone, in their RFLAGS positions */
	u64 rflags; /* every other flag; the six arithmetic bits are 0 here */
	_Atomic u32 attn; /* ATTN_*; also reached by other threads */
	u8 shadow;	  /* SHADOW_* in force for the next instruction */
	bool nmi_blocked; /* until IRET */
	bool smm;	  /* system management mode (cpu/smm.h) */
	bool smm_in_nmi;  /* NMIs were blocked when it was entered */
	bool halted;	  /* HLT retired; the owner decides when to go on */
	bool shutdown;	  /* triple fault */
	u8 code_bits;	  /* 16, 32, 64: decode mode of CS */
	u8 vendor;	  /* enum decode_vendor, from CPUID leaf 0 */
	/* Nothing is held back by IF=0: the owner has looked, and what came after
	 * that has set ATTN_EVENT.  Then setting IF needs no event_check(). */
	bool quiet;

	/* What translated code reaches (jit/); near the registers, so that one
	 * byte of displacement is enough. */
	struct {
		u64 rip_page;	/* gva of the page of the running code */
		u64 jumps;	/* of the jump cache: address of its entries */
		u64 stack_neg;	/* minus the gva of the page of the last stack window */
		u64 stack_add;	/* and its host address minus that gva */
		u64 jump_bits;	/* bits of a gva that choose the entry */
		u64 page_bits;	/* PAGE_MASK, for pext */
		u64 tmp[4];
		u64 blocks_n;	/* instructions retired in translated code */
		u8 sse_off;	/* not 0: vector registers are in `fpu`, not in the host's */
		u8 avx_off;	/* likewise for the upper halves */
		u8 x87_off;	/* likewise for the x87 and MMX registers */
		u8 tsc_off;	/* RDTSC is not the host's plus tsc_offset */
	} jit;

	struct mmu mmu;
	u64 jit_group[4]; /* distances of access groups (jit/group.c) */

	struct segment seg[SEG_COUNT];
	struct desc_table gdtr, idtr;
	u64 cr2, cr8, xcr0;
	u64 dr[4], dr6, dr7;

	/* x87, SSE (and AVX): the host's standard XSAVE image. */
	u8 fpu[FPU_AREA_SIZE] __attribute__((aligned(64)));

	/* MSRs with storage of their own (cpu/msr.c). */
	struct {
		u64 star, lstar, cstar, sfmask, kernel_gs_base;
		u64 sysenter_cs, sysenter_esp, sysenter_eip;
		u64 pat, misc_enable, debugctl, tsc_aux, tsc_adjust;
		u64 mtrr_def_type, mtrr_fixed[11], mtrr_var[16];
		u64 mcg_status, mcg_ctl, mcg_cap, mc_bank[32 * 4], mc_ctl2[32];
		u64 ucode_rev, arch_capabilities, platform_info, spec_ctrl, smi_count, smbase;
		u64 xss, power_ctl, misc_features;
	} msr;

	/* Pending and interrupted events. */
	struct {
		u8 kind; /* enum event_kind: being delivered, to be re-injected */
		u8 vector;
		bool has_error;
		bool is_soft;  /* INT n, INT3, INTO: RIP to push is `next_rip` */
		u32 error;
		u64 payload;   /* cr2 or dr6 */
		u64 next_rip;
	} event;
	u64 pending_dbg; /* DR6 bits to raise as #DB at the next boundary (traps) */

	s64 tsc_offset; /* guest TSC = clock TSC + offset (scaled by the owner) */
	const struct clock *clock;

	struct cpuid_table *cpuid; /* cpu/cpuid.h */
	struct icache *icache;	   /* decoded blocks of this vCPU (cpu/icache.h) */

	const struct cpu_ops *ops; /* calls upward (cpu/ops.h) */
	struct vcpu_stats *stats;  /* cpu/stats.h */
	const char *refused; /* cpu_refuse(): static text */
	const char *shutdown_cause; /* with `shutdown`: static text */
	void *interp;		   /* the interpreter's private state */
	struct jit *translator;	   /* the translator's (jit/jit.h), or NULL */

	/* Why the engine returned ENGINE_DEBUG: vector EXC_DB or EXC_BP, linear
	 * address of the instruction, DR6 bits. */
	struct {
		u8 vector;
		u64 pc, dr6;
	} debug_exit;

	/* Guest debugging by the client (KVM_SET_GUEST_DEBUG). */
	struct {
		bool enabled, singlestep, sw_bp, hw_bp, block_irq;
		u64 dr[4], dr7;
	} gdb;
};

/** cpu_rflags() - the whole RFLAGS register */
static inline u64 cpu_rflags(const struct cpu *c)
{
	return c->rflags | c->aflags | RF_ONE;
}

/** cpu_put_rflags() - store @v; the caller deals with IF, TF, AC side effects
 * (cpu_set_rflags() in cpu/flags.h does both) */
static inline void cpu_put_rflags(struct cpu *c, u64 v)
{
	c->aflags = v & RF_ARITH;
	c->rflags = (v & ~(u64)RF_ARITH) | RF_ONE;
}

static inline bool cpu_long_mode(const struct cpu *c)
{
	return c->mmu.efer & EFER_LMA;
}

/** cpu_raise() - record a fault; use as `return cpu_raise(c, EXC_GP, 0);` */
static inline enum emul cpu_raise(struct cpu *c, unsigned vector, u32 error)
{
	bool has_error = vector == EXC_DF || (vector >= EXC_TS && vector <= EXC_PF) ||
			 vector == EXC_AC;

	c->mmu.fault = (struct fault){
		.vector = (u8)vector, .has_error = has_error, .error = error
	};
	return EMUL_FAULT;
}

/** cpu_refuse() - an instruction that is not implemented: the engine returns
 * ENGINE_ERROR with @what; use as `return cpu_refuse(c, "task gate");` */
static inline enum emul cpu_refuse(struct cpu *c, const char *what)
{
	c->refused = what;
	return EMUL_INTERCEPT;
}

#define cpu_gp(c, err) cpu_raise(c, EXC_GP, err)
#define cpu_ud(c)      cpu_raise(c, EXC_UD, 0)

#endif
