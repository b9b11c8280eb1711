/* SPDX-License-Identifier: MIT */
/* Run a case on both sides and compare everything. */
#include <stdio.h>
#include <string.h>

#include "cpu/fp.h"
#include "diff.h"
#include "x86/exc.h"

#define USER_END 0x7ffffffff000ull /* of the host's kernel */

u8 diff_base[DATA_BYTES];

static const char *const gpr_names[16] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15",
};

static bool is_mapped(unsigned page)
{
	return page != DATA_HOLE;
}

static bool notes_fop, notes_fdp;

void compare_init(u64 seed)
{
	notes_fop = native_notes_fop();
	notes_fdp = native_notes_fdp();
	rng_seed(seed, ~0ull);
	for (unsigned n = 0; n < DATA_BYTES; n += 16)
		value_vector(diff_base + n);
	memcpy(native_data(), diff_base, DATA_BYTES);
	memcpy(guest_data(), diff_base, DATA_BYTES);
}

/* Both images of the code pages; what the last case wrote is blanked first. */
static void set_code(const struct diff_case *k)
{
	static u8 image[CODE_BYTES];
	static unsigned from, end;
	unsigned off = (unsigned)(k->start - CODE_VA), first, last;

	if (!end)
		memset(image, 0xcc, sizeof(image));
	else
		memset(image + from, 0xcc, end - from);
	first = end ? MIN(from, off) : 0;
	last = end ? MAX(end, MIN(off + k->code_len + EXIT_STUB, CODE_BYTES))
		   : CODE_BYTES;
	from = off;
	end = MIN(off + k->code_len + EXIT_STUB, CODE_BYTES);
	gen_layout(k, image);
	memcpy(native_code() + first, image + first, last - first);
	memcpy(native_code() + EXIT_B_OFF, image + EXIT_B_OFF, EXIT_STUB);
	guest_set_code(image, first, last - first);
}

static void apply_edits(const struct diff_case *k)
{
	for (unsigned n = 0; n < k->nedit; n++) {
		memcpy(native_data() + k->edit[n].off, k->edit[n].bytes, k->edit[n].n);
		memcpy(guest_data() + k->edit[n].off, k->edit[n].bytes, k->edit[n].n);
	}
}

struct report {
	bool verbose, differ;
};

bool compare_lost_pointers, compare_guest_only;
u64 compare_undefined;

static void differ64(struct report *r, const char *what, u64 host, u64 ours)
{
	if (host == ours)
		return;
	r->differ = true;
	if (r->verbose)
		printf("    %-12s host %016llx  ours %016llx\n", what, host, ours);
}

static void differ_bytes(struct report *r, const char *what, unsigned index,
			 const u8 *host, const u8 *ours, unsigned n)
{
	if (!memcmp(host, ours, n))
		return;
	r->differ = true;
	if (!r->verbose)
		return;
	printf("    %s%u\n        host ", what, index);
	for (unsigned k = n; k-- > 0;)
		printf("%02x", host[k]);
	printf("\n        ours ");
	for (unsigned k = n; k-- > 0;)
		printf("%02x", ours[k]);
	printf("\n");
}

static void compare_fp(struct report *r, const struct diff_outcome *h,
		       const struct diff_outcome *g)
{
	const u8 *a = h->s.fx, *b = g->s.fx;
	/* The last instruction that was noted raised what is pending. */
	bool noted = a[2] & FSW_ES && !compare_lost_pointers;

	differ64(r, "fcw", a[0] | a[1] << 8, b[0] | b[1] << 8);
	differ64(r, "fsw", a[2] | a[3] << 8, b[2] | b[3] << 8);
	differ64(r, "ftw", a[4], b[4]);
	differ64(r, "mxcsr", *(const u32 *)(a + 24), *(const u32 *)(b + 24));
	for (unsigned n = 0; n < 8; n++)
		differ_bytes(r, "st", n, a + 32 + 16 * n, b + 32 + 16 * n, 10);
	for (unsigned n = 0; n < 16; n++)
		differ_bytes(r, "xmm", n, a + 160 + 16 * n, b + 160 + 16 * n, 16);
	for (unsigned n = 0; n < 16; n++)
		differ_bytes(r, "ymm high ", n, h->s.ymmh[n], g->s.ymmh[n], 16);
	/* The way through the host's signal frame loses the pointers. */
	if (h->how == DIFF_FAULT)
		return;
	/* The host's kernel loses them too, when it switches tasks while no exception
	 * is pending: worth another try. */
	compare_lost_pointers |= !h->s.env[3] || (notes_fdp && !h->s.env[5]);
	differ64(r, "x87 fip", h->s.env[3], g->s.env[3]);
	if (notes_fop || noted)
		differ64(r, "x87 fop", h->s.env[4] >> 16, g->s.env[4] >> 16);
	if (notes_fdp || noted)
		differ64(r, "x87 fdp", h->s.env[5], g->s.env[5]);
}

static void compare_fault(struct report *r, const struct diff_outcome *h,
			  const struct diff_outcome *g)
{
	u32 mask = ~0u;

	differ64(r, "vector", h->vector, g->vector);
	if (h->vector != g->vector)
		return;
	/* The host's kernel hides whether an address of its own half is mapped. */
	if (h->vector == EXC_PF && h->cr2 >= USER_END)
		mask &= ~PF_P;
	differ64(r, "error code", h->error & mask, g->error & mask);
	differ64(r, "cr2", h->cr2, g->cr2);
}

static void compare_state(struct report *r, const struct diff_outcome *h,
			  const struct diff_outcome *g)
{
	differ64(r, "ending", h->how, g->how);
	for (unsigned n = 0; n < 16; n++)
		differ64(r, gpr_names[n], h->s.gpr[n], g->s.gpr[n]);
	differ64(r, "rip", h->s.rip, g->s.rip);
	/* The host's exit stub is one more instruction: it clears RF. */
	differ64(r, "rflags", h->s.rflags & ~compare_undefined,
		 g->s.rflags & ~compare_undefined &
			 ~(g->how == DIFF_FAULT ? 0 : (u64)RF_RF));
	differ64(r, "fs.base", h->s.fsbase, g->s.fsbase);
	differ64(r, "gs.base", h->s.gsbase, g->s.gsbase);
	compare_fp(r, h, g);
	if (h->how == DIFF_FAULT && g->how == DIFF_FAULT)
		compare_fault(r, h, g);
}

static void compare_memory(struct report *r)
{
	u8 *host = native_data(), *ours = guest_data();

	for (unsigned p = 0; p < DATA_SPAN; p++) {
		u8 *a = host + p * 4096, *b = ours + p * 4096;

		if (!is_mapped(p) || !memcmp(a, b, 4096))
			continue;
		for (unsigned n = 0; n < 4096; n += 8) {
			char what[32];

			snprintf(what, sizeof(what), "data+%05x", p * 4096 + n);
			differ64(r, what, *(u64 *)(void *)(a + n),
				 *(u64 *)(void *)(b + n));
		}
	}
}

static void restore_memory(void)
{
	u8 *host = native_data(), *ours = guest_data();

	for (unsigned p = 0; p < DATA_SPAN; p++) {
		unsigned off = p * 4096;

		if (memcmp(host + off, diff_base + off, 4096))
			memcpy(host + off, diff_base + off, 4096);
		if (memcmp(ours + off, diff_base + off, 4096))
			memcpy(ours + off, diff_base + off, 4096);
	}
}

/* They may be lost, and loaded again, before and after such an instruction. */
static bool stores_pointers(const struct diff_case *k)
{
	for (unsigned n = 0; n < k->ninsn; n++)
		if (k->insn[n].op == OP_FNSTENV || k->insn[n].op == OP_FNSAVE ||
		    k->insn[n].op == OP_FXSAVE || k->insn[n].op == OP_XSAVE ||
		    k->insn[n].op == OP_XSAVEOPT)
			return true;
	return false;
}

static bool uses_x87(const struct diff_case *k)
{
	for (unsigned n = 0; n < k->ninsn; n++)
		if (insn_row(k->insn[n].row)->attr & (ROW_X87 | ROW_MMX | ROW_MMXU))
			return true;
	return false;
}

/* The host does not always show the pointers to the last x87 instruction and
 * operand; the interpreter keeps them, like all else, as the translator must. */
static void compare_engines(struct report *r, const struct diff_case *k,
			    const struct diff_outcome *jit)
{
	struct diff_outcome interp;

	apply_edits(k);
	guest_jit = false;
	guest_run(k, &interp);
	guest_jit = true;
	restore_memory();
	differ64(r, "ending, jit", interp.how, jit->how);
	differ64(r, "rip, jit", interp.s.rip, jit->s.rip);
	differ_bytes(r, "jit's x87 ", 0, interp.s.fx, jit->s.fx, 24);
	differ_bytes(r, "jit's selectors ", 0, interp.s.fx + 508, jit->s.fx + 508, 4);
	for (unsigned n = 0; n < 8; n++)
		differ_bytes(r, "jit's st", n, interp.s.fx + 32 + 16 * n, jit->s.fx + 32 + 16 * n, 16);
}

bool compare_run(const struct diff_case *k, bool verbose, struct diff_outcome *guest)
{
	struct report r = {.verbose = verbose};
	struct diff_outcome host;

	compare_lost_pointers = stores_pointers(k);
	set_code(k);
	apply_edits(k);
	guest_run(k, guest);
	if (guest->how == DIFF_LOOP || compare_guest_only) {
		restore_memory();
		return true;
	}
	native_run(k, &host);
	compare_state(&r, &host, guest);
	compare_memory(&r);
	restore_memory();
	if (guest_jit && uses_x87(k))
		compare_engines(&r, k, guest);
	if (verbose && host.how == DIFF_FAULT)
		printf("    host: #%u error %x cr2 %llx at rip %llx\n", host.vector,
		       host.error, host.cr2, host.s.rip);
	if (verbose && guest->how == DIFF_FAULT)
		printf("    ours: #%u error %x cr2 %llx at rip %llx\n", guest->vector,
		       guest->error, guest->cr2, guest->s.rip);
	return !r.differ;
}
