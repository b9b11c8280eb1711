/* SPDX-License-Identifier: MIT */
/*
 * Random differential runner: the same user-mode instructions on the host's
 * processor and in the interpreter, everything compared.
 *
 * A case is a short code snippet, a register state and a few changed bytes in
 * four data pages.  All addresses are the same on both sides.
 */
#ifndef LOCUM_TESTS_DIFF_H
#define LOCUM_TESTS_DIFF_H

#include "base/types.h"
#include "decode/decode.h"

/*
 * The address space of a case.  The data pages appear twice, in reach of
 * 64-bit pointers and of 32-bit ones; both are the same memory.
 *
 *	+0 +1	code, read and execute; +2 nothing
 *	+16 +17	data; +18 nothing
 *	+19	read-only data; +20 data; +21 nothing
 */
#define DIFF_HIGH  0x123400000000ull /* 2 to 5 times it are free addresses as well */
#define DIFF_LOW   0x20000000ull
#define CODE_PAGES 2u
#define DATA_FIRST 16u /* page number within the area */
#define DATA_SPAN  5u  /* pages, the hole in between included */
#define CODE_VA	   DIFF_HIGH
#define CODE_BYTES (CODE_PAGES * 4096u)
#define DATA_BYTES (DATA_SPAN * 4096u)
#define DATA_HOLE  2u /* data page number that is not mapped */
#define DATA_RO	   3u
#define EXIT_B_OFF 0x40u /* offset of exit stub B in the first code page */
#define EXIT_STUB  24u	 /* bytes of an exit stub */

#define CASE_MAX_INSNS 4
#define CASE_MAX_CODE  (CASE_MAX_INSNS * 15 + 16)
#define CASE_MAX_EDITS 8

/* Registers.  Offsets are known to native_entry.S. */
struct diff_state {
	u64 gpr[16];
	u64 rip, rflags, fsbase, gsbase;
	u64 pad[4];
	u8 fx[512] __attribute__((aligned(64)));
	u32 env[7]; /* FNSTENV: FIP, FOP and FDP are looked at */
	u32 pad2;
	u8 ymmh[16][16] __attribute__((aligned(64))); /* bits 255:128 */
};

/* Bytes of the data pages that differ from the base pattern. */
struct diff_edit {
	u32 off; /* within the data span */
	u8 n;
	u8 bytes[64];
};

struct diff_case {
	u64 seed, number;
	unsigned ninsn;
	bool invalid; /* the last instruction is one that must not decode */
	struct insn insn[CASE_MAX_INSNS];
	u8 len[CASE_MAX_INSNS];
	u8 code[CASE_MAX_CODE];
	unsigned code_len;
	u64 start; /* address of the first instruction */
	unsigned nedit;
	struct diff_edit edit[CASE_MAX_EDITS];
	struct diff_state in;
};

/* DIFF_LOOP: the snippet jumped into itself; not run on the host.  DIFF_STUCK:
 * the interpreter refused. */
enum diff_exit { DIFF_END, DIFF_EXIT_B, DIFF_FAULT, DIFF_LOOP, DIFF_STUCK };

struct diff_outcome {
	enum diff_exit how;
	struct diff_state s; /* rip: next or faulting instruction */
	u8 vector;
	u32 error;
	u64 cr2;
	unsigned steps; /* guest only: instructions completed */
};

/* rng.c */
void rng_seed(u64 seed, u64 number);
u64 rng(void);
u64 rng_below(u64 n);
static inline bool rng_chance(unsigned percent)
{
	return rng_below(100) < percent;
}

/* values.c: values that make arithmetic interesting */
u64 value_int(void);
u64 value_f32(void); /* low 32 bits */
u64 value_f64(void);
void value_f80(u8 *out10);
void value_vector(u8 *out16);

/* rows.c: which table rows are generated, and how far they got */
void rows_init(void);
unsigned rows_pick(void);
bool rows_select(const char *op_name); /* --op: only rows of this mnemonic */
const char *rows_excluded(unsigned row); /* reason, or NULL */
void rows_count(unsigned row, bool fault);
void rows_print(void);
/** rows_summary() - one line: how many rows got how far */
void rows_summary(void);

/* gen.c */
/** gen_init() - decode as the host's vendor does */
void gen_init(void);
void gen_case(struct diff_case *k);
/** gen_state() - random registers */
void gen_state(struct diff_state *s);
/** gen_layout() - put @k's code with its exit stub into the code pages' image */
void gen_layout(const struct diff_case *k, u8 *code_pages);
/** gen_decode() - fill insn[] from the code; false: not what it was any more */
bool gen_decode(struct diff_case *k);

/* native.c */
void native_init(void);
/** native_handlers() - take the fault signals; after guest_init(), which takes them too */
void native_handlers(void);
u8 *native_code(void);	/* writable view of the code pages */
u8 *native_data(void);	/* writable view of the data span (hole included) */
void native_run(const struct diff_case *k, struct diff_outcome *out);
/** state_vector() - the two halves of vector register @n of @s */
static inline void state_vector(struct diff_state *s, unsigned n, u8 **lo, u8 **hi)
{
	*lo = s->fx + 160 + 16 * n;
	*hi = s->ymmh[n];
}
u64 native_exit_address(bool b);
bool native_has_fsgsbase(void);
/* native_notes_fop(), _fdp(): the host keeps them for every x87 instruction, not only
 * for those that raise an unmasked exception. */
bool native_notes_fop(void);
bool native_notes_fdp(void);

/* guest.c */
/* Run the translator instead of the interpreter; set before guest_init(). */
extern bool guest_jit;
/* guest_fault() - where to go on after a host fault at @pc in translated code; else 0 */
u64 guest_fault(u64 pc);
void guest_init(void);
/** guest_offers() - does it execute instructions of feature FEAT_*? */
bool guest_offers(unsigned feature);
void guest_set_code(const u8 *code_pages, unsigned from, unsigned n);
u8 *guest_data(void);
void guest_run(const struct diff_case *k, struct diff_outcome *out);

/* compare.c */
extern u8 diff_base[DATA_BYTES];
extern u64 compare_undefined; /* RF_* that the case leaves undefined, if not compared */
void compare_init(u64 seed);
/** compare_run() - run @k on both sides; false: they differ.
 * @verbose: print the differences */
/* Run the interpreter alone: for sanitizers, whose memory random 32-bit addresses
 * would hit. */
extern bool compare_guest_only;
/* After compare_run(): the host showed no x87 pointers at all. */
extern bool compare_lost_pointers;
bool compare_run(const struct diff_case *k, bool verbose, struct diff_outcome *guest);

/* regress.c: returns the exit code */
int regress_file(const char *path, u64 seed, bool may_shrink);

/* shrink.c */
void shrink(struct diff_case *k);
void shrink_print(const struct diff_case *k);

#endif
