/* SPDX-License-Identifier: MIT */
/*
 * Build-time generator of the interpreter's instruction stubs.
 *
 *	genstubs bodies > fp_bodies.S
 *	genstubs table  > fp_table.c
 *
 * Walks every encoding of the two- and three-byte opcode maps through the
 * decoder and keeps, for each (table row, VEX.L, REX.W or VEX.W, register or
 * memory form), the first one that has a vector operand: that is the body.  src/cpu/fp_stub.h
 * says how bodies and table are used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/fp_stub.h"
#include "decode/decode.h"

#define REG_FIELD 2 /* register of the reg field in a body */
#define RM_FIELD  1
#define RM_MEM	  6 /* (%rsi) */
#define VVVV	  3
#define IS4	  4
#define MAX_STUBS 4096

struct body {
	u8 bytes[16];
	unsigned n; /* without the immediate */
	struct insn insn;
	unsigned key;
	struct fp_stub stub;
	char loader[4];
};

static struct body bodies[MAX_STUBS];
static unsigned body_count;
static u16 *index_of; /* by key; 0 = none, else body number + 1 */

static unsigned stub_kind(unsigned opd_kind)
{
	switch (opd_kind) {
	case OPD_XMM:
		return STUB_XMM;
	case OPD_MM:
		return STUB_MM;
	case OPD_GPR:
		return STUB_GPR;
	case OPD_MEM:
		return STUB_MEM;
	default:
		return STUB_NONE;
	}
}

static char kind_letter(unsigned kind)
{
	return "nxmgp"[kind];
}

/* Results that can overflow and underflow: element sizes, how many bytes (of the
 * 128-bit form; 4 and 8: scalars). */
static unsigned tiny_flags(const struct insn *i, u8 *bytes)
{
	static const struct {
		const char *name;
		u32 flags;
		u8 bytes;
	} t[] = {
		{ "ADDPS", STUB_TINY4 | STUB_SUM, 16 },
		{ "SUBPS", STUB_TINY4 | STUB_SUM, 16 },
		{ "ADDSUBPS", STUB_TINY4 | STUB_SUM, 16 },
		{ "HADDPS", STUB_TINY4 | STUB_HSUM, 16 },
		{ "HSUBPS", STUB_TINY4 | STUB_HSUM, 16 },
		{ "MULPS", STUB_TINY4, 16 },
		{ "DIVPS", STUB_TINY4, 16 },
		{ "DPPS", STUB_TINY4 | STUB_DOT, 16 },
		{ "ADDSS", STUB_TINY4 | STUB_SUM, 4 },
		{ "SUBSS", STUB_TINY4 | STUB_SUM, 4 },
		{ "MULSS", STUB_TINY4, 4 },
		{ "DIVSS", STUB_TINY4, 4 },
		{ "CVTSD2SS", STUB_TINY4 | STUB_SRC8, 4 },
		{ "CVTPD2PS", STUB_TINY4 | STUB_SRC8, 8 },
		{ "CVTPS2PH", STUB_TINY2, 8 },
		{ "ADDPD", STUB_TINY8 | STUB_SRC8 | STUB_SUM, 16 },
		{ "SUBPD", STUB_TINY8 | STUB_SRC8 | STUB_SUM, 16 },
		{ "ADDSUBPD", STUB_TINY8 | STUB_SRC8 | STUB_SUM, 16 },
		{ "HADDPD", STUB_TINY8 | STUB_SRC8 | STUB_HSUM, 16 },
		{ "HSUBPD", STUB_TINY8 | STUB_SRC8 | STUB_HSUM, 16 },
		{ "MULPD", STUB_TINY8 | STUB_SRC8, 16 },
		{ "DIVPD", STUB_TINY8 | STUB_SRC8, 16 },
		{ "DPPD", STUB_TINY8 | STUB_SRC8 | STUB_DOT, 16 },
		{ "ADDSD", STUB_TINY8 | STUB_SRC8 | STUB_SUM, 8 },
		{ "SUBSD", STUB_TINY8 | STUB_SRC8 | STUB_SUM, 8 },
		{ "MULSD", STUB_TINY8 | STUB_SRC8, 8 },
		{ "DIVSD", STUB_TINY8 | STUB_SRC8, 8 },
	};
	const char *name = insn_op_name(i->op);
	size_t len = strlen(name);

	*bytes = 0;
	if (i->vl && (!strncmp(name, "VFM", 3) || !strncmp(name, "VFN", 3))) {
		bool twice = name[len - 1] == 'D';

		*bytes = (u8)(name[len - 2] == 'P' ? i->vl : twice ? 8 : 4);
		return STUB_FMA | (twice ? STUB_TINY8 | STUB_SRC8 : STUB_TINY4);
	}
	for (unsigned n = 0; n < sizeof(t) / sizeof(t[0]); n++)
		if (!strcmp(t[n].name, name + (i->vl ? 1 : 0))) {
			bool scalar = name[len - 2] == 'S' && t[n].bytes < 16;

			*bytes = (u8)(i->vl == 32 && !scalar ? t[n].bytes * 2 : t[n].bytes);
			return t[n].flags;
		}
	return 0;
}

static bool op_is(const struct insn *i, const char *name)
{
	return !strcmp(insn_op_name(i->op) + (i->vl ? 1 : 0), name);
}

static bool is_string(const struct insn *i)
{
	return op_is(i, "PCMPESTRI") || op_is(i, "PCMPESTRM") || op_is(i, "PCMPISTRI") ||
	       op_is(i, "PCMPISTRM");
}

/* What the operands' registers say: which field each stands in. */
static unsigned operand_flags(struct body *b)
{
	struct fp_stub *s = &b->stub;
	unsigned flags = 0;

	for (unsigned n = 0; n < b->insn.nopnd; n++) {
		const struct operand *o = &b->insn.opnd[n];
		unsigned kind = stub_kind(o->kind);

		if (o->kind == OPD_IMM) {
			flags |= STUB_IMM;
		} else if (kind == STUB_MEM || (kind && o->reg == RM_FIELD)) {
			s->rm_kind = (u8)kind;
			s->mem_opnd = (u8)n;
			flags |= o->access & OPD_R ? STUB_RRM : 0;
			flags |= o->access & OPD_W ? STUB_WRM : 0;
		} else if (b->insn.vl && o->reg == VVVV) {
			flags |= o->access & OPD_W ? STUB_WV : 0;
		} else if (b->insn.vl && o->reg == IS4) {
			flags |= STUB_IS4;
		} else if (kind) {
			s->reg_kind = (u8)kind;
			flags |= o->access & OPD_W ? STUB_WREG : 0;
		}
	}
	return flags;
}

/* Fill kinds, flags and loader of @b from its decoded operands. */
static void describe(struct body *b)
{
	const struct insn_row *row = insn_row(b->insn.row);
	struct fp_stub *s = &b->stub;
	unsigned flags = operand_flags(b);
	char dst = 'n';

	if (row->attr & ROW_FPEXC)
		flags |= STUB_FPEXC | tiny_flags(&b->insn, &s->result_bytes);
	if (row->attr & ROW_ALIGN)
		flags |= STUB_ALIGN;
	if (row->attr & ROW_SSE)
		flags |= STUB_SSE;
	if (row->attr & ROW_AVX)
		flags |= STUB_AVX;
	/* CVTPI2PD from memory is the one that leaves the x87 state alone. */
	if ((row->attr & (ROW_MMX | ROW_MMXU)) &&
	    !(row->op == OP_CVTPI2PD && s->rm_kind == STUB_MEM))
		flags |= STUB_MMX;
	if (row->flags_written)
		flags |= STUB_EFLAGS;
	if (is_string(&b->insn))
		flags |= STUB_STR;
	if (row->op == OP_PBLENDVB || row->op == OP_BLENDVPS || row->op == OP_BLENDVPD ||
	    row->op == OP_SHA256RNDS2)
		flags |= STUB_XMM0;
	s->flags = flags;
	if (flags & STUB_EFLAGS)
		dst = 'f';
	else if (flags & (STUB_IS4 | STUB_XMM0))
		dst = 's';
	else if (flags & STUB_WREG)
		dst = 'r';
	else if (flags & STUB_WV)
		dst = 'v';
	else if ((flags & STUB_WRM) && s->rm_kind != STUB_MEM)
		dst = 'm';
	b->loader[0] = kind_letter(s->reg_kind);
	b->loader[1] = kind_letter(s->rm_kind);
	b->loader[2] = dst;
}

/* Two operands at least: LDMXCSR, FXSAVE and EMMS need no stub.  What touches
 * memory by parts has handlers of its own. */
static bool wanted(const struct insn *i)
{
	const struct insn_row *row = insn_row(i->row);

	return (row->attr & (ROW_SSE | ROW_MMX | ROW_AVX)) && !(row->attr & ROW_VSIB) &&
	       i->nopnd >= 2 && i->op != OP_MASKMOVQ && i->op != OP_MASKMOVDQU &&
	       i->op != OP_VMASKMOVDQU && i->op != OP_VMASKMOVPS && i->op != OP_VMASKMOVPD &&
	       i->op != OP_VPMASKMOVD && i->op != OP_VPMASKMOVQ;
}

/* W changes nothing if the operands are the same; but lengths in RAX and RDX. */
static bool same_without_w(const struct body *b)
{
	unsigned twin = index_of[b->key & ~2u];

	return (b->key & 2) && twin && !is_string(&b->insn) &&
	       !memcmp(bodies[twin - 1].insn.opnd, b->insn.opnd, sizeof(b->insn.opnd));
}

static void add_body(struct body *b, unsigned l, unsigned w)
{
	struct decode_mode mode = { .bits = 64, .vendor = VENDOR_AMD };

	if (decode(b->bytes, sizeof(b->bytes), &mode, &b->insn) != DECODE_OK ||
	    !wanted(&b->insn))
		return;
	b->key = b->insn.row * 8 + l * 4 + w * 2 + (b->insn.flags & INSN_MEM ? 1 : 0);
	if (index_of[b->key])
		return;
	if (same_without_w(b)) {
		index_of[b->key] = index_of[b->key & ~2u];
		return;
	}
	if (b->insn.len != b->n + b->insn.immsize || b->n + b->insn.immsize >= STUB_STEP ||
	    body_count == MAX_STUBS) {
		fprintf(stderr, "genstubs: %s does not fit\n", insn_row_name(b->insn.row));
		exit(1);
	}
	describe(b);
	bodies[body_count++] = *b;
	index_of[b->key] = (u16)body_count;
}

static void try_encoding(unsigned map, unsigned pp, unsigned w, unsigned opcode,
			 unsigned modrm)
{
	static const u8 prefix[] = { 0, 0x66, 0xf3, 0xf2 };
	struct body b = { .n = 0 };

	if (map == 1 && (opcode == 0x38 || opcode == 0x3a))
		return;
	if (prefix[pp])
		b.bytes[b.n++] = prefix[pp];
	if (w)
		b.bytes[b.n++] = 0x48;
	b.bytes[b.n++] = 0x0f;
	if (map == 2)
		b.bytes[b.n++] = 0x38;
	if (map == 3)
		b.bytes[b.n++] = 0x3a;
	b.bytes[b.n++] = (u8)opcode;
	b.bytes[b.n++] = (u8)modrm;
	add_body(&b, 0, w);
}

/* With and without a register in vvvv: one of them is invalid. */
static void try_vex(unsigned map, unsigned pp, unsigned w, unsigned opcode, unsigned modrm)
{
	for (unsigned k = 0; k < 4; k++) {
		unsigned l = k & 1, vvvv = k & 2 ? 0 : VVVV;
		struct body b = { .n = 5 };

		b.bytes[0] = 0xc4;
		b.bytes[1] = (u8)(0xe0 | map);
		b.bytes[2] = (u8)(w << 7 | (~vvvv & 15) << 3 | l << 2 | pp);
		b.bytes[3] = (u8)opcode;
		b.bytes[4] = (u8)modrm;
		b.bytes[5] = IS4 << 4;
		add_body(&b, l, w);
	}
}

/* The reg field that tells a register operand from an opcode extension first. */
static void try_modrms(unsigned map, unsigned pp, unsigned w, unsigned opcode)
{
	for (unsigned k = 0; k < 9; k++) {
		unsigned reg = k == 0 ? REG_FIELD : k - 1;

		try_encoding(map, pp, w, opcode, 0xc0 | reg << 3 | RM_FIELD);
		try_encoding(map, pp, w, opcode, reg << 3 | RM_MEM);
		try_vex(map, pp, w, opcode, 0xc0 | reg << 3 | RM_FIELD);
		try_vex(map, pp, w, opcode, reg << 3 | RM_MEM);
	}
}

static void collect(void)
{
	index_of = calloc(insn_row_count() * 8 + 8, sizeof(*index_of));
	if (!index_of)
		exit(1);
	for (unsigned map = 1; map <= 3; map++)
		for (unsigned opcode = 0; opcode < 256; opcode++)
			for (unsigned pp = 0; pp < 4; pp++)
				for (unsigned w = 0; w < 2; w++)
					try_modrms(map, pp, w, opcode);
}

static void print_bytes(const struct body *b)
{
	printf("\t.byte ");
	for (unsigned n = 0; n < b->n; n++)
		printf("%s0x%02x", n ? "," : "", b->bytes[n]);
}

static void print_x87(const char *name, bool mem)
{
	printf("\t.globl %s\n\t.hidden %s\n\t.balign %d\n%s:\n", name, name, STUB_STEP, name);
	for (unsigned op = 0; op < 8; op++)
		for (unsigned m = 0; m < (mem ? 8 : 64); m++)
			printf("\t.byte 0x%02x,0x%02x,0xc3\n\t.balign %d\n", 0xd8 + op,
			       mem ? m << 3 | RM_MEM : 0xc0 | m, STUB_STEP);
}

static void print_bodies(void)
{
	printf("/* Generated by tools/genstubs.c. */\n\t.text\n");
	for (unsigned k = 0; k < body_count; k++) {
		const struct body *b = &bodies[k];

		printf("\t.globl fp_body_%u\n\t.hidden fp_body_%u\n\t.balign %d\nfp_body_%u:\n",
		       k, k, STUB_STEP, k);
		if (b->stub.flags & STUB_IMM)
			printf("\t.set imm, 0\n\t.rept 256\n");
		print_bytes(b);
		printf("%s,0xc3\n", b->stub.flags & STUB_IMM ? ",imm" :
				    b->stub.flags & STUB_IS4 ? ",0x40" : "");
		if (b->stub.flags & STUB_IMM)
			printf("\t.balign %d\n\t.set imm, imm + 1\n\t.endr\n", STUB_STEP);
	}
	print_x87("fp_x87_reg", false);
	print_x87("fp_x87_mem", true);
	printf("\t.section .note.GNU-stack, \"\", @progbits\n");
}

static void print_table(void)
{
	printf("/* Generated by tools/genstubs.c. */\n#include \"cpu/fp_stub.h\"\n\n");
	for (unsigned k = 0; k < body_count; k++)
		printf("extern const u8 fp_body_%u[];\n", k);
	for (const char *reg = "xmgn"; *reg; reg++)
		for (const char *rm = "xmgp"; *rm; rm++)
			for (const char *dst = "rmnfsv"; *dst; dst++)
				printf("extern fp_loader fp_load_%c%c%c, fp_avx_%c%c%c;\n", *reg, *rm,
				       *dst, *reg, *rm, *dst);
	printf("\nconst struct fp_stub fp_stubs[] = {\n\t{ .load = 0 },\n");
	for (unsigned k = 0; k < body_count; k++) {
		const struct fp_stub *s = &bodies[k].stub;

		printf("\t/* %s */\n\t{ ", insn_row_name(bodies[k].insn.row));
		if (s->flags & STUB_STR)
			printf("0");
		else
			printf("fp_%s_%s", s->flags & STUB_AVX ? "avx" : "load", bodies[k].loader);
		printf(", fp_body_%u, 0x%x, %u, %u, %u, %u },\n", k, s->flags, s->reg_kind,
		       s->rm_kind, s->mem_opnd, s->result_bytes);
	}
	printf("};\n\nconst u16 fp_stub_index[] = {\n");
	for (unsigned k = 0; k < insn_row_count() * 8; k += 4)
		printf("\t%u, %u, %u, %u,\n", index_of[k], index_of[k + 1], index_of[k + 2],
		       index_of[k + 3]);
	printf("};\n");
}

int main(int argc, char **argv)
{
	collect();
	if (argc == 2 && !strcmp(argv[1], "bodies"))
		print_bodies();
	else if (argc == 2 && !strcmp(argv[1], "table"))
		print_table();
	else
		return 2;
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
