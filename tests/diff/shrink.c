/* SPDX-License-Identifier: MIT */
/* Make a failing case smaller while it still fails, and print it. */
#include <stdio.h>
#include <string.h>

#include "diff.h"

static bool fails(const struct diff_case *k)
{
	struct diff_outcome g;

	return !compare_run(k, false, &g);
}

static bool keep_if_fails(struct diff_case *k, const struct diff_case *smaller)
{
	if (!fails(smaller))
		return false;
	*k = *smaller;
	return true;
}

/* Drop instruction @n; the rest keeps its addresses relative to the start. */
static bool without_insn(const struct diff_case *k, unsigned n, struct diff_case *out)
{
	unsigned off = 0, len = k->len[n];

	if (k->ninsn < 2 || (k->invalid && n + 1 == k->ninsn))
		return false;
	for (unsigned j = 0; j < n; j++)
		off += k->len[j];
	*out = *k;
	memmove(out->code + off, out->code + off + len, k->code_len - off - len);
	memmove(out->len + n, out->len + n + 1, k->ninsn - n - 1);
	memmove(out->insn + n, out->insn + n + 1,
		(k->ninsn - n - 1) * sizeof(out->insn[0]));
	out->code_len -= len;
	out->ninsn--;
	return gen_decode(out);
}

static void shrink_insns(struct diff_case *k)
{
	for (unsigned n = 0; n < k->ninsn;) {
		struct diff_case t;

		if (!without_insn(k, n, &t) || !keep_if_fails(k, &t))
			n++;
	}
}

static void shrink_state(struct diff_case *k)
{
	struct diff_case t;

	for (unsigned n = 0; n < 16; n++) {
		t = *k;
		if (n == R_RCX && k->insn[0].op == OP_XGETBV)
			continue; /* XCR0 itself differs by design */
		t.in.gpr[n] = 0;
		keep_if_fails(k, &t);
	}
	for (unsigned n = 0; n < 24; n++) { /* st0..7, xmm0..15 */
		t = *k;
		memset(t.in.fx + 32 + 16 * n, 0, 16);
		keep_if_fails(k, &t);
	}
	for (unsigned n = 0; n < 16; n++) {
		t = *k;
		memset(t.in.ymmh[n], 0, 16);
		keep_if_fails(k, &t);
	}
	t = *k;
	memset(t.in.fx, 0, 24);
	t.in.fx[0] = 0x7f;
	t.in.fx[1] = 3;
	keep_if_fails(k, &t);
	t = *k;
	t.in.fx[24] = 0x80;
	t.in.fx[25] = 0x1f;
	keep_if_fails(k, &t);
	t = *k;
	t.in.rflags = RF_ONE | RF_IF;
	keep_if_fails(k, &t);
	t = *k;
	t.in.fsbase = t.in.gsbase = 0;
	keep_if_fails(k, &t);
}

static void shrink_edits(struct diff_case *k)
{
	for (unsigned n = 0; n < k->nedit;) {
		struct diff_case t = *k;

		t.nedit--;
		memmove(t.edit + n, t.edit + n + 1, (t.nedit - n) * sizeof(t.edit[0]));
		if (!keep_if_fails(k, &t))
			n++;
	}
}

void shrink(struct diff_case *k)
{
	shrink_insns(k);
	shrink_edits(k);
	shrink_state(k);
}

static void print_hex(const u8 *b, unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		printf("%02x", b[n - 1 - k]);
}

void shrink_print(const struct diff_case *k)
{
	struct diff_outcome g;
	unsigned off = 0;

	printf("FAIL --seed %llu --case %llu\n", k->seed, k->number);
	for (unsigned n = 0; n < k->ninsn; n++) {
		printf("  %llx:", k->start + off);
		for (unsigned b = 0; b < k->len[n]; b++)
			printf(" %02x", k->code[off + b]);
		printf("   %s [%s]\n", insn_op_name(k->insn[n].op),
		       insn_row_name(k->insn[n].row));
		off += k->len[n];
	}
	printf("  in: rflags %llx fs %llx gs %llx fcw %04x fsw %04x ftw %02x mxcsr %x\n",
	       k->in.rflags, k->in.fsbase, k->in.gsbase, *(const u16 *)k->in.fx,
	       *(const u16 *)(k->in.fx + 2), k->in.fx[4], *(const u32 *)(k->in.fx + 24));
	for (unsigned n = 0; n < 16; n++)
		if (k->in.gpr[n])
			printf("  in: gpr%-2u %016llx\n", n, k->in.gpr[n]);
	static const u8 zero[16];

	for (unsigned n = 0; n < 16; n++) {
		if (!memcmp(k->in.ymmh[n], zero, 16))
			continue;
		printf("  in: ymm%u high ", n);
		print_hex(k->in.ymmh[n], 16);
		printf("\n");
	}
	for (unsigned n = 0; n < 24; n++) {
		const u8 *v = k->in.fx + 32 + 16 * n;

		if (!memcmp(v, zero, 16))
			continue;
		printf("  in: %s%-2u ", n < 8 ? "st" : "xmm", n < 8 ? n : n - 8);
		print_hex(v, n < 8 ? 10 : 16);
		printf("\n");
	}
	for (unsigned n = 0; n < k->nedit; n++) {
		printf("  in: data+%05x ", k->edit[n].off);
		print_hex(k->edit[n].bytes, k->edit[n].n);
		printf("\n");
	}
	if (compare_run(k, true, &g))
		printf("    (does not fail any more)\n");
}
