/* SPDX-License-Identifier: MIT */
/* What the files of the translator share. */
#ifndef LOCUM_JIT_JIT_INT_H
#define LOCUM_JIT_JIT_INT_H

#include "cpu/icache.h"
#include "cpu/state.h"
#include "jit/arena.h"
#include "jit/emit.h"
#include "jit/jit.h"

/* --- where guest registers are ------------------------------------------------- */

/*
 * Host rbp points into struct cpu, so that its hot part is within one byte of
 * displacement.  rcx, r10 and r11 are scratch; rsp is the host's stack.
 * Guest r8 to r11 and r15 are named by 7 to 11 % of instructions and stay in
 * struct cpu.
 */
#define STATE_BIAS 192
#define STATE(field)                                                           \
	((struct host_mem){ .base = H_BP, .index = H_NONE,                     \
			    .disp = (s32)offsetof(struct cpu, field) - STATE_BIAS })

static inline struct host_mem state_gpr(unsigned r)
{
	return (struct host_mem){ .base = H_BP, .index = H_NONE,
				  .disp = (s32)(offsetof(struct cpu, gpr) + 8 * r) - STATE_BIAS };
}

static inline struct host_mem at_reg(unsigned base, s32 disp)
{
	return (struct host_mem){ .base = (u8)base, .index = H_NONE, .disp = disp };
}

/* Guest register -> host register, H_NONE: in struct cpu. */
extern const u8 jit_home[R_COUNT];

/* --- the translator of a vCPU ----------------------------------------------------- */

#define JUMP_TABLES  32
#define USER_BITS    0x33ffull /* of a gva: those that choose an entry */
#define USER_JUMPS   4096
#define SHARED_BITS  0x3fffull
#define SHARED_JUMPS 16384
#define JUMP_TOUCHED 1024

/** struct jump - an entry of a jump cache: @neg minus the target's gva; @code
 * its translation, entered from anywhere.  An empty one leads to the dispatcher. */
struct jump {
	u64 neg;
	u64 code;
};

/** struct jumps - the jump cache of one context
 * @entry: @size of them, chosen by @bits of a gva
 * @context, @code_gen: for which they hold (struct tlb)
 * @world: struct jit.world when they were made
 * @touched: the first @ntouched entries that were filled since it was emptied */
struct jumps {
	struct jump *entry;
	u64 bits;
	u64 context, code_gen, world;
	u32 size, ntouched;
	u16 touched[JUMP_TOUCHED];
};

/* What the entry stub returns: low byte, and the rest by kind. */
enum jit_exit {
	JIT_LOOKUP = 1, /* go on at c->rip; 0 stays inside (jit_native_*()) */
	JIT_OUTCOME, /* bits 15:8: enum emul of the instruction that ended it */
	JIT_LINK,    /* go on at c->rip; bits 63:32: the jump to be linked to it */
	JIT_PLAIN,   /* likewise, to the translation without windows of the same block */
	JIT_FAULT,   /* a host fault: bits 63:32: offset in the arena */
};

/** struct translation - what struct block.native points to, at the head of its code
 * @entry: from anywhere, with rip in r11; @inner: from a block of the same page,
 * with jit.rip_page right; offsets in the arena
 * @plain: offset of the translation without windows; 0: none
 * @block: whose it is; @ends: offset behind its code; @n: instructions
 * @insn:  offset of each instruction's code from the head */
struct translation {
	struct block *block;
	u32 entry, inner, ends, plain;
	u32 n;
	u32 insn[];
};

/** jit_stubs() - emit the stubs at the start of the arena */
void jit_stubs(struct jit *j);

/** jit_translate() - make b->native, or, @plain, the one without stack windows
 * that b->native->plain names
 * Return: NULL if it cannot be translated, or the arena is full. */
struct translation *jit_translate(struct cpu *c, struct block *b, bool plain);

/** jit_flush() - forget every translation; not while one runs */
void jit_flush(struct cpu *c);

/** struct jit_go - where emitted code goes on after a call
 * @exit: not 0: leave with it, as the entry stub's result
 * @code: else, not 0: a translation's entry, for c->rip; 0: behind the call */
struct jit_go {
	u64 exit, code;
};

/* Called by emitted code, with all guest state in struct cpu.  Compiled without
 * vector registers, which may still be the guest's. */
struct jit_go jit_native_slow(struct cpu *c, const struct icode *e);
struct jit_go jit_native_vector(struct cpu *c, const struct icode *e);
struct jit_go jit_native_x87(struct cpu *c, const struct icode *e);
/** jit_native_lookup() - a jump missed the jump cache, or attention is wanted */
struct jit_go jit_native_lookup(struct cpu *c);
/** jit_see_mode() - c->jit.tsc_off; at entry and after what may change it */
static inline void jit_see_mode(struct cpu *c)
{
	c->jit.tsc_off = !c->clock->tsc_host || c->mmu.cr4 & CR4_TSD;
}

/* --- vector and x87 registers (fpregs.c; without vector registers) ------------------- */

/** jit_enter_with() - run @code, in the middle of a block, which counts on the guest's
 * registers being loaded if @vector, @x87.  Return: as the entry stub. */
u64 jit_enter_with(struct cpu *c, const void *code, bool vector, bool x87);
/** jit_vector_save() - vector and x87 registers into c->fpu, those that are the
 * guest's; the host has its own control words again, and an empty x87 stack */
void jit_vector_save(struct cpu *c);
/** jit_vector_load(), jit_x87_load() - the guest's vector registers, or its x87
 * registers, into the host's
 * Return: false: not now, the interpreter decides what happens. */
bool jit_vector_load(struct cpu *c);
bool jit_x87_load(struct cpu *c);

/* --- jump caches (jumps.c; without vector registers) ------------------------------- */

/** jumps_init(), jumps_fini() - false: no memory; fini also after that */
bool jumps_init(struct jit *j) must_check;
void jumps_fini(struct jit *j);

/** jumps_select() - make the current context's jump cache the one that code uses,
 * emptied if anything may have made it wrong */
struct jumps *jumps_select(struct cpu *c);
/** jumps_remember() - enter @n, the translation of the code at @pc, which has just been
 * looked up */
void jumps_remember(struct cpu *c, struct jumps *t, gva_t pc, const struct translation *n);
/** jumps_next() - entry of the translation for c->rip if it is at hand, else 0 */
u64 jumps_next(struct cpu *c);

/* --- translation -------------------------------------------------------------------- */

enum fix_kind { FIX_SLOW, FIX_VECTOR, FIX_X87, FIX_LINK, FIX_ATTN, FIX_WINDOW, FIX_GROUP };

/** struct fix - code to be put behind the block
 * @from: distance fields of jumps to it; @back: where it returns to
 * @insn: number of the instruction; @off: guest offset (FIX_LINK, FIX_ATTN, FIX_WINDOW)
 * @x87:  struct trans.x87_last when it came up */
struct fix {
	u8 kind;
	u8 insn, nfrom, x87;
	u16 off;
	u8 *from[6];
	u8 *back;
};

#define MAX_FIXES 256

/** struct window - stack accesses that one check covers (window.c)
 * @lo, @hi: bytes, from where rsp was at its origin
 * @first, @last: instructions that access it */
struct window {
	s32 lo, hi;
	u8 first, last;
};

/** struct group - accesses by the same base and index (group.c)
 * @lo, @hi: displacements, of the first and behind the last byte; @align: of each,
 * in bytes
 * @first, @last: instructions; @slot: of jit.group; @write: one of them writes */
struct group {
	s32 lo, hi;
	u16 align;
	u8 first, last, slot;
	bool write;
};

/** struct trans - a block under translation
 * @live: of each instruction, arithmetic flags that are needed before it
 * @off:  offset of each in the page */
struct trans {
	struct cpu *c;
	struct jit *j;
	struct block *b;
	unsigned n; /* instructions of it that are translated */
	struct emitter e;
	u16 live[ICACHE_BLOCK_MAX + 1];
	u16 off[ICACHE_BLOCK_MAX + 1];
	u8 *at[ICACHE_BLOCK_MAX + 1]; /* where the code of each begins */
	u8 *entry, *inner;	      /* as in struct translation */
	unsigned insn;		      /* the current one */
	u8 vector;     /* registers known to be the guest's: 1 XMM, 2 YMM too */
	bool x87;      /* likewise, x87 and MMX registers */
	u8 x87_last;   /* 1 + the instruction that FIP is to name; 0: it does */
	struct fix fix[MAX_FIXES];
	unsigned nfix;
	bool failed;
	/* Windows: of each instruction, 1 + number, 0: none; and rsp before it, from
	 * the window's origin. */
	bool plain;
	unsigned nwindows;
	struct window window[ICACHE_BLOCK_MAX];
	u8 in_window[ICACHE_BLOCK_MAX + 1];
	s32 sp[ICACHE_BLOCK_MAX + 1];
	/* Groups: of each access, 1 + number. */
	unsigned ngroups;
	struct group group[ICACHE_BLOCK_MAX];
	u8 in_group[ICACHE_BLOCK_MAX + 1];
	bool window_loaded;	/* r11 is jit.stack_add */
	unsigned window_used, window_fixes, insn_fixes;
};

/** struct jit
 * @enter: u64 (*)(struct cpu *, const void *code); runs translated code
 * @exit_*, @slow, @vector, @x87, @find_stack: stubs, in the writable mapping
 * @world: changes when any translation may have become invalid; made of
 * @epoch, @drops, @changes as last seen
 * @fault_pc: host address of the fault that is being recovered from */
struct jit {
	struct arena arena;
	u8 *stubs_end;
	u64 (*enter)(struct cpu *c, const void *code);
	u8 *exit_miss, *exit_lookup, *exit_link, *exit_plain, *exit_fault;
	u8 *slow, *vector, *x87, *find_stack;
	struct jumps table[JUMP_TABLES + 1]; /* of contexts; the last: of global pages */
	struct jump *jumps;		     /* the entries of all */
	u32 not_global;	      /* supervisor code that is not: rises by 16, falls by 1 */
	u64 clock, world, epoch, drops;
	u32 changes;
	u64 fault_pc;
	u32 *heads; /* offsets of every struct translation, ascending */
	u32 nheads, max_heads;
	u32 host_mxcsr;
	u16 host_fcw;
	bool exact, count;
	bool full; /* no room for a translation that was wanted */
	unsigned hot; /* executions until a block is translated, 1 or more */
	/* For tests: blocks end after @limit instructions (0: no limit); every
	 * block returns to the dispatcher. */
	unsigned limit;
	bool nochain;
	struct trans trans; /* the work area; too large for the stack */
};

static inline const struct insn *trans_insn(const struct trans *t)
{
	return &t->b->code[t->insn].insn;
}

/** trans_flags_dead() - glue before the current instruction may change flags */
static inline bool trans_flags_dead(const struct trans *t)
{
	return !t->live[t->insn] && !t->j->exact;
}

/** trans_fix() - a new one of @kind for the current instruction; never NULL
 * (too many fail the translation) */
struct fix *trans_fix(struct trans *t, enum fix_kind kind);
/** trans_fix_from() - the jump with distance at @at goes to @f */
static inline void trans_fix_from(struct fix *f, u8 *at)
{
	f->from[f->nfrom++] = at;
}

/** trans_ea_offset() - effective address of the memory operand into r10; r11 is
 * lost */
void trans_ea_offset(struct trans *t);
/** trans_ea() - linear address of the memory operand into r10; r11 is lost */
void trans_ea(struct trans *t);
/** trans_access() - check @n bytes at r10 for a read or write: afterwards the
 * host address is r10 + r11; rcx is lost.  Misses go to @slow. */
void trans_access(struct trans *t, struct fix *slow, unsigned n, bool write, unsigned align);
/** trans_reg() - guest register @r for reading: its home, or @scratch loaded */
unsigned trans_reg(struct trans *t, unsigned r, unsigned scratch);

/* The current instruction, by its class (jit/class.h). */
void trans_copy(struct trans *t);
void trans_x87(struct trans *t);
void trans_shift(struct trans *t);
void trans_lea(struct trans *t);
void trans_push(struct trans *t);
void trans_pop(struct trans *t);
void trans_leave(struct trans *t);
void trans_push_mem(struct trans *t);
/** trans_push_tmp() - push c->jit.tmp[0] */
void trans_push_tmp(struct trans *t, struct fix *slow);
void trans_system(struct trans *t);
void trans_div(struct trans *t);
void trans_branch(struct trans *t, unsigned class);
/** trans_slow() - the interpreter runs it */
void trans_slow(struct trans *t);
/** trans_goto() - go on at offset @off of the page, which may lie outside it */
void trans_goto(struct trans *t, s64 off);

/** trans_vector() - the registers that the current instruction uses, of vector, MMX
 * and x87 registers, must be the guest's; rcx is lost */
void trans_vector(struct trans *t);

/* The x87's pointers to the last instruction and operand (x87.c). */
/** trans_x87_note() - bring FIP and FOP of the image up to instruction @last - 1; 0:
 * nothing to do.  rcx is lost. */
void trans_x87_note(struct trans *t, unsigned last);
/** trans_x87_settle() - likewise on the straight way: before anything that leaves
 * the block or that the interpreter runs */
static inline void trans_x87_settle(struct trans *t)
{
	trans_x87_note(t, t->x87_last);
	t->x87_last = 0;
}
/** jit_x87_recover() - likewise at run time: instruction @n of @b faulted, c->jit
 * and the image are as the code left them */
void jit_x87_recover(struct cpu *c, const struct block *b, unsigned n);

/** trans_set_rip() - c->rip = offset @off of the page; r11 is lost */
void trans_set_rip(struct trans *t, unsigned off);
/** trans_leave_to() - a jump for the dispatcher to link to the block at @off, which
 * until then goes there by @stub: exit_link or exit_plain */
void trans_leave_to(struct trans *t, unsigned off, const u8 *stub);

/* Stack windows (window.c). */
void trans_plan_windows(struct trans *t);
/** trans_window() - before each instruction: the check of a window that begins */
void trans_window(struct trans *t);
/** trans_window_fix() - behind the block: @f, a check that failed */
void trans_window_fix(struct trans *t, const struct fix *f);
/** trans_window_again() - C code ran: check again what @insn counts on, go to @back
 * @begun: @back is behind the check of a window that begins with @insn */
void trans_window_again(struct trans *t, unsigned insn, bool begun, u8 *back);
/** trans_stack() - if the current instruction is in a window: *@m is [rsp + @disp],
 * with r11.  Return: false: it is not. */
bool trans_stack(struct trans *t, s32 disp, struct host_mem *m);
/** trans_names_stack() - its operand is [rsp + disp], in a window */
bool trans_names_stack(const struct trans *t);

/* Access groups (group.c). */
void trans_plan_groups(struct trans *t);
/** trans_group() - if the current operand is in a group: *@m is where it is.
 * Return: false: it is not. */
bool trans_group(struct trans *t, struct host_mem *m);
/** trans_group_broken() - C code ran before @insn: does it, or what follows, count on
 * a check that was made before?  @begun: as for trans_window_again() */
bool trans_group_broken(struct trans *t, unsigned insn, bool begun);

/** jit_liveness() - fill t->live */
void jit_liveness(struct trans *t);
/** jit_live_in() - flags that @b may read before it writes them, whatever follows */
unsigned jit_live_in(struct block *b);
/** jit_successor() - the decoded block at @off of the page of @t->b, or NULL */
struct block *jit_successor(const struct trans *t, s64 off);

#endif
