/* SPDX-License-Identifier: MIT */
/* Operands of a case: addresses, branch targets, memory contents. */
#include <string.h>

#include "diff.h"
#include "gen.h"

#define DATA_OFF(page) ((page)*4096u)

struct arranger {
	struct diff_case *k;
	struct insn *i;
	unsigned off; /* of the instruction in k->code */
};

static u64 data_va(bool low, u32 off)
{
	return (low ? DIFF_LOW : DIFF_HIGH) + DATA_FIRST * 4096 + off;
}

/* An offset in the data span for an operand of @n bytes. */
static u32 pick_offset(unsigned n, unsigned align)
{
	u64 r = rng_below(100);
	u32 lone[] = {DATA_OFF(0), DATA_OFF(1), DATA_OFF(4), DATA_OFF(DATA_RO)};
	u32 page = lone[rng_below(100) < 85 ? rng_below(3) : 3];

	if (r < 55)
		return (page + (u32)rng_below(4096 - n)) & ~(align - 1);
	if (r < 70)
		return page + (u32)rng_below(4096 - n);
	if (r < 78) /* across two pages */
		return DATA_OFF(1) - 1 - (u32)rng_below(n);
	if (r < 86) /* up to the last byte before the hole */
		return DATA_OFF(DATA_HOLE) - n;
	if (r < 89) /* into the hole */
		return DATA_OFF(DATA_HOLE) - (u32)rng_below(n);
	if (r < 91) /* read-only, then writable */
		return DATA_OFF(DATA_RO + 1) - 1 - (u32)rng_below(n);
	if (r < 93) /* from the hole into read-only */
		return DATA_OFF(DATA_RO) - 1 - (u32)rng_below(n);
	if (r < 95) /* off the end */
		return DATA_OFF(DATA_SPAN) - 1 - (u32)rng_below(n);
	return page;
}

/* A target address; a few are nowhere. */
static u64 pick_target(unsigned n, unsigned align, bool low)
{
	static const u64 nowhere[] = {
		0,
		8,
		0x7fffffffffff,
		0x7ffffffffff8,
		0x800000000000,
		0xffff7fffffffffff,
		0x8000000000000000,
		0x1234567800000000,
		~0ull,
		~7ull,
	};

	if (rng_chance(2))
		return nowhere[rng_below(ARRAY_SIZE(nowhere))];
	return data_va(low, pick_offset(n, align));
}

/* Make @n bytes at linear address @va read as @bytes. */
static void edit(struct diff_case *k, u64 va, const void *bytes, unsigned n)
{
	u64 base = va >= DIFF_HIGH ? DIFF_HIGH : DIFF_LOW;
	u64 off = va - base - DATA_FIRST * 4096;
	struct diff_edit *e = &k->edit[k->nedit];

	if (k->nedit == CASE_MAX_EDITS || off + n > DATA_BYTES || n > sizeof(e->bytes))
		return;
	e->off = (u32)off;
	e->n = (u8)n;
	memcpy(e->bytes, bytes, n);
	k->nedit++;
}

static void edit64(struct diff_case *k, u64 va, u64 v)
{
	edit(k, va, &v, 8);
}

static void random_contents(struct diff_case *k, u64 va, unsigned n)
{
	u8 b[64];

	if (n < 1 || n > 32 || rng_chance(30))
		return;
	if (n == 10)
		value_f80(b);
	else if (n == 4 && rng_chance(60))
		memcpy(b, &(u64){value_f32()}, 8);
	else if (n == 8 && rng_chance(60))
		memcpy(b, &(u64){value_f64()}, 8);
	else
		value_vector(b);
	if (n > 16)
		value_vector(b + 16);
	edit(k, va, b, n);
}

/* --- the memory operand ------------------------------------------------------------- */

static void patch_disp(struct arranger *a, u64 disp, unsigned n)
{
	u8 *at = a->k->code + a->off + a->i->len - a->i->immsize - n;

	memcpy(at, &disp, n);
	a->i->disp = n == 4 ? (s64)(s32)disp : (s64)disp;
}

static u64 seg_base(const struct arranger *a)
{
	if (a->i->seg == SEG_FS)
		return a->k->in.fsbase;
	return a->i->seg == SEG_GS ? a->k->in.gsbase : 0;
}

static bool is_moffs(const struct insn *i)
{
	return i->map == 0 && i->opcode >= 0xa0 && i->opcode <= 0xa3;
}

/* Registers so that base + index * scale = @want. */
static void solve(struct arranger *a, u64 want)
{
	u64 *g = a->k->in.gpr, high = a->i->adsize == 4 ? rng() << 32 : 0;
	unsigned base = a->i->base, index = a->i->index, scale = a->i->scale;

	if (a->i->adsize == 4)
		want = (u32)want;
	if (base < R_COUNT && index == base) {
		g[base] = want / (1 + (1ull << scale)) | high;
	} else if (base < R_COUNT && index < R_COUNT) {
		if (rng_chance(70))
			g[index] = rng_below(64);
		g[base] = want - (g[index] << scale);
		if (a->i->adsize == 4)
			g[base] = (u32)g[base] | high;
	} else if (base < R_COUNT) {
		g[base] = want | high;
	} else if (index < R_COUNT) {
		g[index] = (want >> scale) | high;
	}
}

static void aim(struct arranger *a, u64 target)
{
	struct insn *i = a->i;
	u64 ea = target - seg_base(a);

	if (i->adsize == 4 && i->seg >= SEG_FS && ea >> 32) {
		u64 *base = i->seg == SEG_FS ? &a->k->in.fsbase : &a->k->in.gsbase;

		ea = rng() & 0xffffffff;
		*base = target - ea;
		if (bits_sext(*base, 48) != *base)
			*base = 0;
	}
	if (is_moffs(i))
		patch_disp(a, ea, i->adsize);
	else if (i->base == REG_IP)
		patch_disp(a, ea - (a->k->start + a->off + i->len), 4);
	else if (i->base == REG_NONE && i->index == REG_NONE)
		patch_disp(a, ea, 4);
	else
		solve(a, ea - (u64)i->disp);
}

/* Absolute 32-bit displacements and 32-bit addresses reach the low area alone. */
static bool needs_low(const struct insn *i)
{
	return i->adsize == 4 ||
	       (i->base == REG_NONE && i->index == REG_NONE && !is_moffs(i));
}

static const struct operand *mem_operand(const struct insn *i)
{
	for (unsigned n = 0; n < i->nopnd; n++)
		if (i->opnd[n].kind == OPD_MEM)
			return &i->opnd[n];
	return NULL;
}

static unsigned mem_bytes(const struct insn *i, unsigned *align)
{
	const struct operand *o = mem_operand(i);
	unsigned n = o ? o->size : 0;

	*align = 8;
	switch (i->op) {
	case OP_XSAVE:
	case OP_XRSTOR:
	case OP_XSAVEOPT:
		*align = 64;
		return 576;
	case OP_FXSAVE:
	case OP_FXRSTOR:
		*align = 16;
		return 512;
	case OP_FNSAVE:
	case OP_FRSTOR:
		return i->opsize == 2 ? 94 : 108;
	case OP_FNSTENV:
	case OP_FLDENV:
		return i->opsize == 2 ? 14 : 28;
	case OP_MASKMOVDQU:
	case OP_VMASKMOVDQU:
		return 16;
	case OP_MASKMOVQ:
		return 8;
	default:
		break;
	}
	if (n >= 8)
		*align = n >= 32 ? 32 : n >= 16 ? 16 : 8;
	else if (n)
		*align = n;
	return n ? n : 1;
}

/* Memory of the instructions that insist on its form. */
static void special_contents(struct arranger *a, u64 target)
{
	struct diff_case *k = a->k;
	u32 mxcsr = rng_chance(85) ? 0x1f80 | (u32)(rng() & 0xe07f) : (u32)rng();
	/* Components that neither side has: MPX's, a high one. */
	u64 header[8] = {rng_below(4) |
			 (rng_chance(90) ? 0 : 1ull << (rng() & 1 ? 3 : 61))};

	if (rng_chance(5))
		header[1 + rng_below(7)] |= value_int();
	header[1] &= ~(1ull << 63); /* the compacted form is not offered */
	switch (a->i->op) {
	case OP_XRSTOR:
		edit(k, target + 512, header, 64);
		edit(k, target + 24, &mxcsr, 4);
		break;
	case OP_XSAVE:
	case OP_XSAVEOPT:
		edit(k, target + 512, header, 64);
		break;
	case OP_FXRSTOR:
		edit(k, target + 24, &mxcsr, 4);
		break;
	case OP_LDMXCSR:
	case OP_VLDMXCSR:
		edit(k, target, &mxcsr, 4);
		break;
	case OP_JMP:
	case OP_CALL:
		if (rng_chance(90))
			edit64(k, target, CODE_VA + EXIT_B_OFF);
		break;
	default:
		random_contents(k, target, mem_bytes(a->i, &(unsigned){0}));
		break;
	}
}

static void arrange_memory(struct arranger *a)
{
	unsigned align, n = mem_bytes(a->i, &align);
	u64 target = pick_target(n, align, needs_low(a->i) || rng_chance(10));
	bool bit_offset = a->i->nopnd == 2 && a->i->opnd[1].kind == OPD_GPR &&
			  (a->i->op == OP_BT || a->i->op == OP_BTS ||
			   a->i->op == OP_BTR || a->i->op == OP_BTC);

	if (bit_offset && rng_chance(90))
		a->k->in.gpr[a->i->opnd[1].reg] =
			rng_below(1000) - (rng_chance(50) ? 500 : 0);
	aim(a, target);
	special_contents(a, target);
}

/* A gather: the base somewhere in the data, an index for each element's target. */
static void arrange_gather(struct arranger *a)
{
	struct insn *i = a->i;
	unsigned size = i->opnd[1].size, index = i->opcode & 1 ? 8 : 4;
	bool low = i->adsize == 4 || i->base == REG_NONE || rng_chance(10);
	u64 origin = data_va(low, (u32)rng_below(2 * 4096));
	u8 *lo, *hi;

	if (i->base == REG_NONE)
		patch_disp(a, origin - seg_base(a), 4);
	else
		a->k->in.gpr[i->base] = (origin - seg_base(a) - (u64)i->disp) |
					(i->adsize == 4 ? rng() << 32 : 0);
	state_vector(&a->k->in, i->index, &lo, &hi);
	for (unsigned k = 0; k < 32 / index; k++) {
		u64 t = rng_chance(60) ? data_va(low, (u32)rng_below(2 * 4096 - 8))
				       : pick_target(size, 1, low);
		s64 v = (s64)(t - origin) >> i->scale;

		memcpy((k * index < 16 ? lo : hi - 16) + k * index, &v, index);
	}
}

/* --- implied operands ----------------------------------------------------------------
 */

static u64 string_pointer(const struct insn *i, bool low)
{
	u64 t = pick_target(rng_chance(50) ? 64 : i->opsize, i->opsize, low);

	return i->adsize == 4 ? (u32)t | rng() << 32 : t;
}

static void arrange_string(struct arranger *a)
{
	u64 *g = a->k->in.gpr;
	/* Both in one area: the host's fast strings do not see an overlap of two
	 * addresses of one page. */
	bool low = a->i->adsize == 4 || rng_chance(10);

	g[R_RSI] = string_pointer(a->i, low) - seg_base(a);
	g[R_RDI] = string_pointer(a->i, low);
	if (rng_chance(10)) /* overlapping */
		g[R_RDI] = g[R_RSI] + rng_below(32) - 16;
	g[R_RCX] = rng_chance(95) ? rng_below(20) : rng_below(3000);
	if (a->i->adsize == 4)
		g[R_RCX] |= rng() << 32;
}

static void iret_frame(struct arranger *a, u64 sp)
{
	unsigned n = a->i->opsize;
	u64 frame[5] = {CODE_VA + EXIT_B_OFF, 0x33, a->k->in.rflags & ~(u64)RF_DF, rng(),
			0x2b};

	frame[2] |= rng() & (RF_ARITH | RF_DF | RF_ID | RF_RF);
	if (rng_chance(5))
		frame[rng_chance(50) ? 1 : 4] = rng_chance(50) ? 0 : 0xfffb;
	for (unsigned k = 0; k < 5; k++)
		edit(a->k, sp + k * n, &frame[k], n);
}

static void arrange_stack(struct arranger *a, bool grows)
{
	unsigned n = a->i->op == OP_IRET ? 40 : 8;
	u64 target = pick_target(n, 8, false), flags;

	a->k->in.gpr[R_RSP] = grows ? target + n : target;
	switch (a->i->op) {
	case OP_POPF:
		flags = rng() & (RF_ARITH | RF_DF | RF_ID | RF_IF | RF_IOPL | RF_RF);
		edit(a->k, target, &flags, a->i->opsize);
		break;
	case OP_RET:
		if (rng_chance(85))
			edit64(a->k, target, CODE_VA + EXIT_B_OFF);
		break;
	case OP_IRET:
		iret_frame(a, target);
		break;
	case OP_LEAVE:
	case OP_ENTER:
		a->k->in.gpr[R_RBP] = pick_target(8, 8, false);
		break;
	default:
		break;
	}
}

/* --- branches ---------------------------------------------------------------------- */

/* Inside the snippet or an exit stub, other than where an instruction begins:
 * nobody knows what would be executed there. */
static bool lands_inside(const struct diff_case *k, u64 target)
{
	u64 end = k->start + k->code_len, at = k->start;

	if (target > CODE_VA + EXIT_B_OFF && target < CODE_VA + EXIT_B_OFF + EXIT_STUB)
		return true;
	if (target < k->start || target >= end + EXIT_STUB)
		return false;
	for (unsigned n = 0; n < k->ninsn; n++) {
		if (at == target)
			return false;
		at += k->len[n];
	}
	return target != end;
}

static void arrange_relative(struct arranger *a)
{
	unsigned n = a->i->immsize;
	u64 next = a->k->start + a->off + a->i->len, target = next;
	u8 *at = a->k->code + a->off + a->i->len - n;

	if (rng_chance(50))
		target = CODE_VA + EXIT_B_OFF;
	else if (rng_chance(8))
		target = next + (u64)bits_sext(rng(), n * 8);
	u64 rel = target - next;

	if (bits_sext(rel, n * 8) != rel || lands_inside(a->k, target))
		rel = 0;
	memcpy(at, &rel, n);
}

static void arrange_indirect(struct arranger *a)
{
	u64 *g = &a->k->in.gpr[a->i->opnd[0].reg];

	if (rng_chance(85))
		*g = CODE_VA + EXIT_B_OFF;
	else if (*g >= a->k->start && *g < a->k->start + a->k->code_len)
		*g = 0;
}

/* --- by instruction ------------------------------------------------------------------
 */

static void arrange_registers(struct arranger *a)
{
	struct diff_state *s = &a->k->in;
	u8 *last = a->k->code + a->off + a->i->len - 1;

	switch (a->i->op) {
	case OP_DIV:
	case OP_IDIV:
		if (rng_chance(75))
			s->gpr[R_RDX] = rng_chance(50) ? 0 : rng_below(4);
		if (rng_chance(30))
			s->gpr[R_RDX] = (u64)((s64)s->gpr[R_RAX] >> 63);
		break;
	case OP_XSAVE:
	case OP_XRSTOR:
	case OP_XSAVEOPT:
		s->gpr[R_RAX] = (s->gpr[R_RAX] & ~0xfffffull) | rng_below(4);
		s->gpr[R_RAX] &= ~0xffffffffull | 3;
		break;
	case OP_XGETBV:
		s->gpr[R_RCX] = (s->gpr[R_RCX] & ~0xffull) | 2 | rng_below(256);
		break;
	case OP_INT:
		*last = 0x20 + (u8)rng_below(0x60);
		if (*last == 0x80)
			*last = 0x7f;
		break;
	case OP_LOOP:
	case OP_LOOPE:
	case OP_LOOPNE:
	case OP_JRCXZ:
		s->gpr[R_RCX] = rng_chance(80) ? rng_below(3) : s->gpr[R_RCX];
		break;
	default:
		break;
	}
}

static void arrange_insn(struct arranger *a)
{
	bool string = insn_row(a->i->row)->attr & ROW_STRING;

	arrange_registers(a);
	if (string)
		arrange_string(a);
	switch (a->i->op) {
	case OP_PUSH:
	case OP_PUSHF:
	case OP_CALL:
	case OP_ENTER:
		arrange_stack(a, true);
		break;
	case OP_POP:
	case OP_POPF:
	case OP_RET:
	case OP_LEAVE:
	case OP_IRET:
		arrange_stack(a, false);
		break;
	default:
		break;
	}
	if (insn_row(a->i->row)->attr & ROW_VSIB)
		arrange_gather(a);
	else if (a->i->flags & INSN_MEM && !string)
		arrange_memory(a);
	if (a->i->nopnd && a->i->opnd[0].kind == OPD_REL)
		arrange_relative(a);
	else if ((a->i->op == OP_JMP || a->i->op == OP_CALL) &&
		 a->i->opnd[0].kind == OPD_GPR)
		arrange_indirect(a);
}

void arrange_case(struct diff_case *k)
{
	unsigned off = k->code_len;

	for (unsigned n = k->ninsn; n-- > 0;) {
		struct arranger a = {.k = k, .i = &k->insn[n]};

		off -= k->len[n];
		a.off = off;
		if (!k->invalid || n + 1 < k->ninsn)
			arrange_insn(&a);
	}
	gen_decode(k);
}
