/* SPDX-License-Identifier: MIT */
/*
 * Random cases: instructions from the decode table's rows, then registers and
 * memory so that most operands are somewhere sensible, and some are exactly at
 * the edges.  Later instructions are arranged first: the first one has the
 * last word on a register.
 */
#include <string.h>

#include "cpu/hostcpu.h"
#include "decode/table.h"
#include "diff.h"
#include "gen.h"

static struct decode_mode mode64 = {.bits = 64, .vendor = VENDOR_AMD};

void gen_init(void)
{
	if (!hostcpu()->amd)
		mode64.vendor = VENDOR_INTEL;
}

/* --- bytes ------------------------------------------------------------------------ */

struct builder {
	u8 b[32];
	unsigned n;
};

static void put(struct builder *w, u8 byte)
{
	w->b[w->n++] = byte;
}

static void put_prefixes(struct builder *w, const struct table_row *r)
{
	static const u8 segs[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65};
	bool vex = r->map >= MAP_VEX;

	if (rng_chance(8))
		put(w, segs[rng_below(6)]);
	if (rng_chance(6))
		put(w, 0x67);
	if (vex) {
		static const u8 illegal[] = {0x66, 0xf2, 0xf3, 0xf0, 0x40, 0x48};

		if (rng_chance(4))
			put(w, illegal[rng_below(ARRAY_SIZE(illegal))]);
		return;
	}
	if ((r->pp == PP_N || r->pp == PP_P) && rng_chance(20))
		put(w, 0x66);
	if (r->pp == PP_N && rng_chance(r->attr & A_STRING ? 60 : 5))
		put(w, rng_chance(50) ? 0xf2 : 0xf3);
	if (rng_chance(r->attr & A_LOCK ? 20 : 1))
		put(w, 0xf0);
	if (r->pp == PP_66)
		put(w, 0x66);
	if (r->pp == PP_F3)
		put(w, 0xf3);
	if (r->pp == PP_F2)
		put(w, 0xf2);
	if (rng_chance(1))
		for (u64 n = rng_below(12); n > 0; n--)
			put(w, segs[rng_below(4)]);
	if (rng_chance(60))
		put(w, 0x40 | (u8)rng_below(16));
}

static bool uses_vvvv(const struct table_row *r)
{
	for (unsigned n = 0; n < 4; n++)
		if (r->opnd[n].spec == K_By || r->opnd[n].spec == K_Hx ||
		    r->opnd[n].spec == K_Hdq)
			return true;
	return false;
}

/* C4, or C5 where it can say the same.  A few have a vvvv that must not be used. */
static void put_vex(struct builder *w, const struct table_row *r)
{
	static const u8 pp_bits[] = {0, 0, 1, 2, 3, 0};
	u8 vvvv = uses_vvvv(r) || rng_chance(1) ? (u8)rng_below(16) : 15;
	u8 l = r->attr & A_L0 ? 0 : r->attr & A_L1 ? 1 : (u8)rng_below(2);
	u8 high = r->attr & A_W0 ? 0 : r->attr & A_W1 ? 1 : (u8)rng_below(2);

	if (!(r->attr & A_AVX))
		l = 0;
	if (r->map == MAP_V0F && !(r->attr & A_W1) && rng_chance(30)) {
		put(w, 0xc5);
		put(w, (u8)(rng_below(2) << 7 | vvvv << 3 | l << 2) | pp_bits[r->pp]);
		return;
	}
	put(w, 0xc4);
	put(w, (u8)(rng_below(8) << 5) | (r->map & 3));
	put(w, (u8)(high << 7 | vvvv << 3 | l << 2) | pp_bits[r->pp]);
}

static void put_opcode(struct builder *w, const struct table_row *r)
{
	if (r->map >= MAP_VEX) {
		put_vex(w, r);
	} else if (r->map != MAP_1B) {
		put(w, 0x0f);
		if (r->map == MAP_0F38)
			put(w, 0x38);
		if (r->map == MAP_0F3A)
			put(w, 0x3a);
	}
	put(w, r->opcode);
}

/* The ModRM byte, where there is one; else it is part of the random rest. */
static void put_modrm(struct builder *w, const struct table_row *r)
{
	unsigned mod = r->mod == MOD_R ? 3 : (unsigned)rng_below(3);
	unsigned reg = r->reg >= 0 ? (unsigned)r->reg : (unsigned)rng_below(8);
	unsigned rm = r->rm >= 0 ? (unsigned)r->rm : (unsigned)rng_below(8);

	if (r->mod == MOD_A && rng_chance(40))
		mod = 3;
	if (mod == 2 && rng_chance(60))
		mod = 1;
	if (r->attr & A_VSIB)
		rm = 4;
	put(w, (u8)(mod << 6 | reg << 3 | rm));
	for (unsigned n = 0; n < 14; n++)
		put(w, rng_chance(50) ? (u8)rng() : (u8)value_int());
}

/* LOCK, or before VEX another prefix, makes it invalid, and only that: both sides
 * must say #UD. */
static bool invalid_by_prefix(const u8 *bytes, bool vex)
{
	u8 copy[15];
	struct insn i;
	bool found = false;

	for (unsigned n = 0; n < 15; n++) {
		u8 b = copy[n] = bytes[n];

		vex = vex && b != 0xc4 && b != 0xc5;
		if (!found && (b == 0xf0 || (vex && (b == 0x66 || b == 0xf2 || b == 0xf3 ||
						     (b & 0xf0) == 0x40)))) {
			copy[n] = 0x3e;
			found = true;
		}
	}
	return found && decode(copy, 15, &mode64, &i) == DECODE_OK &&
	       !rows_excluded(i.row);
}

/* EAX selects the components: it must stay what arrange.c makes it. */
static bool is_xsave(const struct insn *i)
{
	return i->op == OP_XSAVE || i->op == OP_XSAVEOPT || i->op == OP_XRSTOR;
}

/* Instructions that go beyond the guest, or the process, if the state is not
 * the one that arrange.c chose: nothing may come before them. */
static bool first_only(const struct insn *i)
{
	return is_xsave(i) || i->op == OP_XGETBV || i->op == OP_POPF ||
	       i->op == OP_IRET || i->op == OP_MOVS;
}

static bool acceptable(const struct insn *i)
{
	if (i->op == OP_CMPXCHG16B && !guest_offers(FEAT_CX16))
		return false;
	if (is_xsave(i) && (i->base == R_RAX || i->index == R_RAX))
		return false;
	if (!native_has_fsgsbase() && (i->flags & INSN_MEM) && i->seg >= SEG_FS)
		return false;
	return true;
}

/* One instruction of table row @row to @bytes.  Return: its length, 0: none found.
 * @invalid: it is one that must raise #UD, or #GP for its length. */
static unsigned gen_bytes(unsigned row, u8 *bytes, struct insn *i, bool *invalid)
{
	const struct table_row *r = &decode_rows[row];

	for (unsigned tries = 0; tries < 60; tries++) {
		struct builder w = {.n = 0};
		enum decode_status st;

		put_prefixes(&w, r);
		put_opcode(&w, r);
		put_modrm(&w, r);
		st = decode(w.b, 16, &mode64, i);
		memcpy(bytes, w.b, 15);
		if (st == DECODE_OK && i->row == row && acceptable(i))
			return i->len;
		i->row = (u16)row;
		i->op = r->pub.op;
		*invalid = (st == DECODE_TOOLONG && rng_chance(5)) ||
			   (st == DECODE_UD && rng_chance(r->map >= MAP_VEX ? 50 : 10) &&
			    invalid_by_prefix(w.b, r->map >= MAP_VEX));
		if (*invalid)
			return st == DECODE_TOOLONG ? 15 : i->len;
	}
	return 0;
}

/* --- state ------------------------------------------------------------------------- */

static u64 random_pointer(void)
{
	u64 area = rng_chance(80) ? DIFF_HIGH : DIFF_LOW;

	return area + DATA_FIRST * 4096 + rng_below(2 * 4096);
}

static u64 random_gpr(void)
{
	switch (rng_below(5)) {
	case 0:
	case 1:
		return random_pointer();
	case 2:
		return rng_below(256);
	default:
		return value_int();
	}
}

static void random_x87(struct diff_state *s)
{
	u16 fcw = 0x37f, fsw = (u16)(rng_below(8) << 11);

	if (rng_chance(50))
		fcw = (u16)(0x40 | rng_below(16) << 8 |
			    (rng_chance(70) ? 0x3f : rng_below(64)));
	if (rng_chance(30))
		fsw |= (u16)(rng() & 0x4700);
	if (rng_chance(20))
		fsw |= (u16)(rng() & 0x7f & (rng_chance(90) ? fcw | 0x40 : 0x7f));
	if (fsw & ~fcw & 0x3f)
		fsw |= 0x8080;
	memcpy(s->fx, &fcw, 2);
	memcpy(s->fx + 2, &fsw, 2);
	s->fx[4] = rng_chance(30) ? 0 : rng_chance(40) ? 0xff : (u8)rng();
	for (unsigned n = 0; n < 8; n++)
		value_f80(s->fx + 32 + 16 * n);
	u32 fip = (u32)rng(), fdp = (u32)rng();
	u16 fop = (u16)(rng() & 0x7ff);

	memcpy(s->fx + 6, &fop, 2);
	memcpy(s->fx + 8, &fip, 4);
	memcpy(s->fx + 16, &fdp, 4);
}

static void random_sse(struct diff_state *s)
{
	u32 mxcsr = 0x1f80;

	if (rng_chance(50))
		mxcsr = 0x1f80 | (u32)(rng() & 0xe07f);
	if (rng_chance(8))
		mxcsr &= ~(u32)(rng() & 0x1f80);
	memcpy(s->fx + 24, &mxcsr, 4);
	for (unsigned n = 0; n < 16; n++)
		value_vector(s->fx + 160 + 16 * n);
	for (unsigned n = 0; n < 16; n++)
		value_vector(s->ymmh[n]);
}

void gen_state(struct diff_state *s)
{
	memset(s, 0, sizeof(*s));
	for (unsigned n = 0; n < 16; n++)
		s->gpr[n] = random_gpr();
	s->gpr[R_RSP] = random_pointer() & ~7ull;
	s->rflags = RF_ONE | RF_IF | (rng() & RF_ARITH) | (rng_chance(20) ? RF_DF : 0) |
		    (rng_chance(10) ? RF_ID : 0) | (rng_chance(12) ? RF_AC : 0);
	if ((s->rflags & RF_AC) && rng_chance(20))
		s->gpr[R_RSP] += rng_below(8);
	if (native_has_fsgsbase()) {
		s->fsbase = rng_chance(30) ? 0 : random_pointer() - rng_below(4096);
		s->gsbase = rng_chance(30) ? 0 : random_pointer() - rng_below(4096);
	}
	random_x87(s);
	random_sse(s);
}

/* --- putting it together --------------------------------------------------------------
 */

bool gen_decode(struct diff_case *k)
{
	unsigned off = 0;

	for (unsigned n = 0; n < k->ninsn - k->invalid; n++) {
		u8 bytes[16] = {0};

		memcpy(bytes, k->code + off, MIN(15u, k->code_len - off));
		if (decode(bytes, 15, &mode64, &k->insn[n]) != DECODE_OK)
			return false;
		off += k->len[n];
	}
	if (k->invalid)
		off += k->len[k->ninsn - 1];
	return off == k->code_len;
}

/* Where the snippet stands: mostly behind exit stub B, in reach of short
 * branches; sometimes across the two code pages or at the end of the second. */
static void place(struct diff_case *k)
{
	u64 r = rng_below(100);

	k->start = CODE_VA + EXIT_B_OFF + EXIT_STUB + rng_below(60);
	if (r < 3)
		k->start = CODE_VA + 4096 - 1 - rng_below(k->code_len);
	else if (r < 4)
		k->start = CODE_VA + CODE_BYTES - k->code_len;
	else if (r < 5)
		k->start = CODE_VA + CODE_BYTES - 1 - rng_below(k->code_len);
}

void gen_case(struct diff_case *k)
{
	unsigned want = rng_chance(65) ? 1 : 2 + (unsigned)rng_below(CASE_MAX_INSNS - 1);

	k->ninsn = k->code_len = k->nedit = 0;
	k->invalid = false;
	gen_state(&k->in);
	while (k->ninsn < want && !k->invalid) {
		struct insn *i = &k->insn[k->ninsn];
		unsigned n =
			gen_bytes(rows_pick(), k->code + k->code_len, i, &k->invalid);

		if (!n)
			continue;
		if (k->ninsn && first_only(i)) {
			k->invalid = false;
			continue;
		}
		k->len[k->ninsn++] = (u8)n;
		k->code_len += n;
	}
	place(k);
	arrange_case(k);
}

/* JMP through a pointer behind it, which is aligned: RFLAGS.AC may be set.
 * @at: where the stub goes */
static void make_stub(u8 stub[EXIT_STUB], u64 at, u64 to)
{
	u32 skip = (u32)(-(at + 6) & 7);

	memset(stub, 0, EXIT_STUB);
	stub[0] = 0xff;
	stub[1] = 0x25;
	memcpy(stub + 2, &skip, 4);
	memcpy(stub + 6 + skip, &to, 8);
}

void gen_layout(const struct diff_case *k, u8 *code_pages)
{
	u64 off = k->start - CODE_VA;
	u8 stub[EXIT_STUB];

	make_stub(stub, CODE_VA + EXIT_B_OFF, native_exit_address(true));
	memcpy(code_pages + EXIT_B_OFF, stub, EXIT_STUB);
	make_stub(stub, k->start + k->code_len, native_exit_address(false));
	for (unsigned n = 0; n < k->code_len && off + n < CODE_BYTES; n++)
		code_pages[off + n] = k->code[n];
	for (unsigned n = 0; n < EXIT_STUB && off + k->code_len + n < CODE_BYTES; n++)
		code_pages[off + k->code_len + n] = stub[n];
}
