/* SPDX-License-Identifier: MIT */
/*
 * The decoder against libzydis: every opcode of every map, every ModRM byte,
 * many prefix combinations, 16-, 32- and 64-bit mode.
 *
 * Compared: validity, length, mnemonic, explicit operands (kind, register,
 * size), memory operand (base, index, scale, displacement, segment),
 * immediate.  Each class of disagreement stands in `explained` with its reason
 * and is counted; one that is not there fails the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <Zydis/Zydis.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "decode/decode.h"

struct pair {
	u8 bytes[16];
	struct insn our;
	enum decode_status status;
	ZydisDecodedInstruction z;
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	bool zok;
	unsigned bits;
};

static unsigned long cases, agreed, unexplained;

/* --- classes of disagreement ------------------------------------------------------- */

/* Instruction sets that this version does not decode: CPUID does not offer them
 * and #UD is what their bytes give. */
static bool not_decoded(const struct pair *p)
{
	static const char *const sets[] = {
		"AVX5", "AVX_VNNI", "FMA4", "XOP", "TBM", "AMD3DNOW", "3DNOW", "VTX", "SMX", "SGX",
		"RTM", "MPX", "CET", "PT", "PCONFIG", "PKU",
		"CLZERO", "MONITORX", "RDPRU", "MCOMMIT", "SNP", "AMD_INVLPGB", "WAITPKG",
		"SERIALIZE", "MOVDIR", "ENQCMD", "KEYLOCKER", "UINTR", "TDX", "AMX",
		"KNC", "KNCE", "KNCV", "PADLOCK", "TSX_LDTRK", "HRESET", "CLDEMOTE",
		"PTWRITE", "LWP", "SSE4A", "SVM", "VMFUNC", "RDPMC",
	};
	const char *set = ZydisISASetGetString(p->z.meta.isa_set),
		   *ext = ZydisISAExtGetString(p->z.meta.isa_ext);

	if (p->status == DECODE_OK || !p->zok)
		return false;
	for (unsigned i = 0; i < ARRAY_SIZE(sets); i++)
		if (!strncmp(ext, sets[i], strlen(sets[i])) || !strncmp(set, sets[i], strlen(sets[i])))
			return true;
	return false;
}

/* 0F 0D and 0F 18..1F are hint NOPs whatever their fields; Zydis reads MPX, CET
 * and CLDEMOTE into some of them, and finds some of those invalid. */
static bool hint_nop(const struct pair *p)
{
	return p->status == DECODE_OK && p->our.op == OP_NOP && p->our.map == 1;
}

/* FXCH, FCOM and FSTP have undocumented second encodings; 8087 and 287 no-ops. */
static bool x87_alias(const struct pair *p)
{
	return p->status == DECODE_OK && p->our.opcode >= 0xd8 && p->our.opcode <= 0xdf &&
	       p->our.map == 0;
}

/* SAL is SHL under another opcode; D6 is SALC; F1 is INT1. */
static bool one_name(const struct pair *p)
{
	return p->status == DECODE_OK &&
	       (p->our.op == OP_SALC || (p->our.op == OP_SHL && p->our.map == 0));
}

/* MOV to and from CR and DR: Zydis refuses MOD != 3 in some and wants no LOCK;
 * the processor ignores MOD.  CR1, CR5..7 and DR8.. are #UD in both. */
static bool mov_crdr(const struct pair *p)
{
	return p->our.op == OP_MOV_CR || p->our.op == OP_MOV_DR;
}

/* UD0 and UD1: no operand is read; how much is decoded differs between makers. */
static bool undefined_op(const struct pair *p)
{
	return p->our.op == OP_UD0 || p->our.op == OP_UD1 ||
	       (p->zok && (p->z.mnemonic == ZYDIS_MNEMONIC_UD0 || p->z.mnemonic == ZYDIS_MNEMONIC_UD1));
}

/* Prefixes that Zydis refuses or lets select another form: F2/F3 before forms
 * whose mandatory prefix is "none" (BOUND, HLE, XACQUIRE), 66 before XSAVE... */
static bool mandatory_none(const struct pair *p)
{
	return p->bytes[0] == 0xf2 || p->bytes[0] == 0xf3 || p->bytes[0] == 0x66;
}

/* XCHG rAX, r: the same two registers in the other order. */
static bool xchg_order(const struct pair *p)
{
	return p->status == DECODE_OK && p->our.op == OP_XCHG && (p->our.opcode & 0xf8) == 0x90;
}

/* Registers that only their low part, or a zero-extended result, fills: Zydis
 * names another width of the same register.  LAR and LSL read 16 bits; MOVSXD
 * with 66 reads as many bits as it writes. */
static bool width_of_register(const struct pair *p)
{
	return p->status == DECODE_OK &&
	       (p->our.op == OP_LAR || p->our.op == OP_LSL || p->our.op == OP_PEXTRW ||
		p->our.op == OP_PMOVMSKB || p->our.op == OP_MOVSXD ||
		p->our.op == OP_VMOVMSKPS || p->our.op == OP_VMOVMSKPD ||
		p->our.op == OP_VPEXTRW || p->our.op == OP_VPMOVMSKB);
}

/* The cache line that they act on is no operand here. */
static bool cache_line(const struct pair *p)
{
	return p->our.op == OP_CLFLUSH || p->our.op == OP_CLFLUSHOPT || p->our.op == OP_CLWB;
}

/* Branch hints: Zydis shows 3E before an indirect branch as NOTRACK. */
static bool notrack(const struct pair *p)
{
	return (p->our.op == OP_CALL || p->our.op == OP_JMP) && p->our.opcode == 0xff;
}

/* SIB with mod 0 and base 5 has no base whatever REX.B says; Zydis 4.0 names
 * R13D there when the address size is 32. */
static bool no_base_r13d(const struct pair *p)
{
	return p->status == DECODE_OK && p->our.adsize == 4 && (p->our.modrm & 0xc7) == 4 &&
	       p->our.base == REG_NONE;
}

static const struct {
	const char *name;
	bool (*is)(const struct pair *p);
} explained[] = {
	{ "SIB without base, 32-bit addresses", no_base_r13d },
	{ "XCHG rAX, r order", xchg_order },
	{ "width of a register", width_of_register },
	{ "cache line size", cache_line },
	{ "NOTRACK", notrack },
	{ "instruction sets that are not offered", not_decoded },
	{ "hint NOPs", hint_nop },
	{ "x87 aliases", x87_alias },
	{ "SAL and SALC", one_name },
	{ "MOV CR, MOV DR with MOD", mov_crdr },
	{ "UD0, UD1", undefined_op },
	{ "prefix before a form that has none", mandatory_none },
};
static unsigned long explained_count[ARRAY_SIZE(explained)];

static void disagree(const struct pair *p, const char *what)
{
	for (unsigned i = 0; i < ARRAY_SIZE(explained); i++)
		if (explained[i].is(p)) {
			explained_count[i]++;
			return;
		}
	char hex[40] = "";

	/* One line a kind and mnemonic, then the count fails the test. */
	static char seen[256][48];
	char key[48];

	unexplained++;
	snprintf(key, sizeof(key), "%s %u %s %s", what, p->bits,
		 p->zok ? ZydisMnemonicGetString(p->z.mnemonic) : "-", insn_op_name(p->our.op));
	for (unsigned i = 0; i < ARRAY_SIZE(seen); i++) {
		if (!strcmp(seen[i], key))
			return;
		if (!seen[i][0]) {
			strcpy(seen[i], key);
			break;
		}
	}
	for (int i = 0; i < 12; i++)
		sprintf(hex + i * 3, "%02x ", p->bytes[i]);
	printf("%s: %u-bit %s: zydis %s (%d bytes), ours %s (%u bytes, status %d)\n", what, p->bits,
		 hex, p->zok ? ZydisMnemonicGetString(p->z.mnemonic) : "invalid",
		 p->zok ? p->z.length : 0, insn_op_name(p->our.op), p->our.len, p->status);
}

/* --- comparison ------------------------------------------------------------------------ */

/* Names that mean one op here: sizes and conditions are fields. */
static bool same_mnemonic(const char *z, const char *our)
{
	static const struct {
		const char *z, *our;
	} map[] = {
		{ "mov", "MOV_SREG" }, { "mov", "MOV_CR" }, { "mov", "MOV_DR" }, { "call", "CALL_FAR" },
		{ "jmp", "JMP_FAR" }, { "ret", "RET_FAR" }, { "cwde", "CBW" }, { "cdqe", "CBW" },
		{ "cdq", "CWD" }, { "cqo", "CWD" }, { "jcxz", "JRCXZ" }, { "jecxz", "JRCXZ" },
		{ "sysretq", "SYSRET" }, { "int1", "INT1" }, { "prefetch", "NOP" },
		{ "prefetchw", "NOP" }, { "fxsave64", "FXSAVE" }, { "fxrstor64", "FXRSTOR" },
		{ "xsave64", "XSAVE" }, { "xrstor64", "XRSTOR" }, { "xsaveopt64", "XSAVEOPT" },
		{ "xsavec64", "XSAVEC" }, { "xsaves64", "XSAVES" }, { "xrstors64", "XRSTORS" },
		{ "movq", "MOVD" }, { "pushad", "PUSHA" }, { "popad", "POPA" }, { "sal", "SHL" },
		{ "sysexitq", "SYSEXIT" }, { "vmovq", "VMOVD" }, { "pextrq", "PEXTRD" },
		{ "vpextrq", "VPEXTRD" }, { "pinsrq", "PINSRD" }, { "vpinsrq", "VPINSRD" },
	};
	size_t n = strlen(our);

	if (!strcasecmp(z, our))
		return true;
	for (unsigned i = 0; i < ARRAY_SIZE(map); i++)
		if (!strcmp(map[i].z, z) && !strcmp(map[i].our, our))
			return true;
	if (!strcmp(our, "JCC"))
		return z[0] == 'j';
	if (!strcmp(our, "SETCC"))
		return !strncmp(z, "set", 3);
	if (!strcmp(our, "CMOVCC"))
		return !strncmp(z, "cmov", 4);
	/* String, flag and stack forms carry their size as a last letter. */
	return !strncasecmp(z, our, n) && strlen(z) == n + 1 && strchr("bwdq", z[n]);
}

/* Byte registers count AL..BH first; the enclosing register has the number. */
static unsigned reg_number(ZydisRegister r)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);

	if (r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH)
		return (unsigned)(r - ZYDIS_REGISTER_AH);
	return (unsigned)ZydisRegisterGetId(r >= ZYDIS_REGISTER_AL && r <= ZYDIS_REGISTER_R15 && whole ?
						    whole : r);
}

static int gpr_number(ZydisRegister r)
{
	if (r == ZYDIS_REGISTER_NONE)
		return REG_NONE;
	if (r == ZYDIS_REGISTER_RIP || r == ZYDIS_REGISTER_EIP)
		return REG_IP;
	return ZydisRegisterGetId(r);
}

static void compare_memory(const struct pair *p, const ZydisDecodedOperand *o)
{
	const struct insn *i = &p->our;
	static const ZydisRegister seg[] = { ZYDIS_REGISTER_ES, ZYDIS_REGISTER_CS, ZYDIS_REGISTER_SS,
					     ZYDIS_REGISTER_DS, ZYDIS_REGISTER_FS, ZYDIS_REGISTER_GS };

	if (!(i->flags & INSN_MEM)) {
		disagree(p, "memory operand");
		return;
	}
	if (gpr_number(o->mem.base) != i->base || gpr_number(o->mem.index) != i->index)
		disagree(p, "base or index");
	else if (i->index != REG_NONE && o->mem.scale && o->mem.scale != 1u << i->scale)
		disagree(p, "scale");
	else if (o->mem.disp.has_displacement &&
		 (((u64)o->mem.disp.value ^ (u64)i->disp) & (~0ull >> (64 - 8 * i->adsize))))
		disagree(p, "displacement");
	else if (o->mem.segment != seg[i->seg] && i->op != OP_LEA)
		disagree(p, "segment");
}

static void compare_operands(const struct pair *p)
{
	const struct insn *i = &p->our;
	unsigned n = 0;

	if (i->op == OP_XLAT || i->op == OP_MASKMOVQ || i->op == OP_MASKMOVDQU || !i->nopnd)
		return;
	for (unsigned k = 0; k < p->z.operand_count; k++) {
		const ZydisDecodedOperand *o = &p->zo[k];

		if (o->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN)
			continue;
		if (n >= i->nopnd) {
			disagree(p, "operand count");
			return;
		}
		const struct operand *our = &i->opnd[n++];

		switch (o->type) {
		case ZYDIS_OPERAND_TYPE_MEMORY:
			compare_memory(p, o);
			if (our->size && our->kind == OPD_MEM && o->size && o->size / 8 != our->size &&
			    i->op != OP_LEA && i->op != OP_BOUND)
				disagree(p, "memory size");
			break;
		case ZYDIS_OPERAND_TYPE_REGISTER:
			if ((our->kind == OPD_GPR || our->kind == OPD_XMM || our->kind == OPD_GPR8H) &&
			    (reg_number(o->reg.value) != our->reg ||
			     (our->kind == OPD_GPR8H) !=
				     (o->reg.value >= ZYDIS_REGISTER_AH &&
				      o->reg.value <= ZYDIS_REGISTER_BH)))
				disagree(p, "register");
			else if (our->kind == OPD_GPR && o->size / 8 != our->size)
				disagree(p, "register size");
			break;
		case ZYDIS_OPERAND_TYPE_IMMEDIATE:
			if (our->kind == OPD_REL ? (s64)i->imm != o->imm.value.s :
			    our->kind == OPD_IMM && our->size &&
				    ((i->imm ^ o->imm.value.u) & (~0ull >> (64 - 8 * our->size))))
				disagree(p, "immediate");
			break;
		default:
			break;
		}
	}
	agreed++;
}

static void compare(struct pair *p, const ZydisDecoder *zd)
{
	struct decode_mode mode = { .bits = (u8)p->bits, .vendor = VENDOR_INTEL };

	cases++;
	p->zok = ZYAN_SUCCESS(ZydisDecoderDecodeFull(zd, p->bytes, 15, &p->z, p->zo));
	p->status = decode(p->bytes, 15, &mode, &p->our);
	if (p->zok != (p->status == DECODE_OK))
		disagree(p, "validity");
	else if (!p->zok)
		agreed++;
	else if (p->z.length != p->our.len)
		disagree(p, "length");
	else if (!same_mnemonic(ZydisMnemonicGetString(p->z.mnemonic), insn_op_name(p->our.op)))
		disagree(p, "mnemonic");
	else
		compare_operands(p);
}

/* --- the sweep ----------------------------------------------------------------------------- */

static const struct prefix {
	u8 n, b[4];
} prefixes[] = {
	{ 0, { 0 } },	      { 1, { 0x66 } },	    { 1, { 0xf2 } },	  { 1, { 0xf3 } },
	{ 1, { 0x67 } },      { 1, { 0xf0 } },	    { 1, { 0x64 } },	  { 1, { 0x36 } },
	{ 1, { 0x48 } },      { 1, { 0x41 } },	    { 1, { 0x44 } },	  { 1, { 0x42 } },
	{ 1, { 0x40 } },      { 2, { 0x66, 0x48 } }, { 2, { 0xf2, 0x48 } }, { 2, { 0xf3, 0x48 } },
	{ 2, { 0x66, 0x67 } }, { 2, { 0x66, 0xf2 } }, { 2, { 0x66, 0xf3 } }, { 2, { 0x48, 0x66 } },
	{ 2, { 0x64, 0x3e } }, { 3, { 0x66, 0xf3, 0x4c } }, { 2, { 0x65, 0x47 } },
};

static void sweep_map(const ZydisDecoder *zd, unsigned bits, const struct prefix *prefix,
		      unsigned nprefix, const u8 *escape, unsigned nescape)
{
	static const u8 sibs[] = { 0x00, 0x25, 0x6c, 0xe4 };

	for (unsigned pre = 0; pre < nprefix; pre++)
		for (unsigned opcode = 0; opcode < 256; opcode++)
			for (unsigned modrm = 0; modrm < 256; modrm++) {
				struct pair p = { .bits = bits };
				unsigned n = prefix[pre].n;

				memcpy(p.bytes, prefix[pre].b, n);
				memcpy(p.bytes + n, escape, nescape);
				n += nescape;
				p.bytes[n++] = (u8)opcode;
				p.bytes[n++] = (u8)modrm;
				p.bytes[n++] = sibs[(opcode + modrm) & 3];
				for (unsigned k = 0; n < 15; k++)
					p.bytes[n++] = (u8)(0x81 + 0x1d * k);
				compare(&p, zd);
			}
}

/* C4 with every map, W, L and mandatory prefix; vvvv unused, used, and used with
 * its top bit; R, X and B both ways where the mode has them. */
static void sweep_vex(const ZydisDecoder *zd, unsigned bits)
{
	static const u8 vvvv[] = { 0x78, 0x60, 0x20 };

	for (unsigned map = 0; map < 5; map++)
		for (unsigned third = 0; third < 16; third++)
			for (unsigned v = 0; v < ARRAY_SIZE(vvvv); v++) {
				u8 rxb = v == 2 && bits == 64 ? 0x00 : 0xe0;
				u8 head[3] = { 0xc4, (u8)(rxb | map),
					       (u8)((third & 8) << 4 | (third & 7) | vvvv[v]) };

				sweep_map(zd, bits, prefixes, 1, head, 3);
			}
}

static void test_sweep(void **state)
{
	static const struct {
		ZydisMachineMode mode;
		ZydisStackWidth width;
		unsigned bits;
	} modes[] = {
		{ ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64, 64 },
		{ ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32, 32 },
		{ ZYDIS_MACHINE_MODE_LEGACY_16, ZYDIS_STACK_WIDTH_16, 16 },
	};
	static const struct {
		u8 n, b[3];
	} maps[] = {
		{ 0, { 0 } },		   { 1, { 0x0f } },	      { 2, { 0x0f, 0x38 } },
		{ 2, { 0x0f, 0x3a } },	   { 3, { 0xc4, 0xe2, 0x68 } }, { 3, { 0xc4, 0xe2, 0xf8 } },
		{ 3, { 0xc4, 0xe2, 0x6b } }, { 3, { 0xc4, 0x42, 0xf2 } }, { 3, { 0xc4, 0xe3, 0xfb } },
		{ 2, { 0xc5, 0xf8 } },	   { 3, { 0xc4, 0xe2, 0x69 } }, { 3, { 0xc4, 0xe2, 0x6d } },
		{ 2, { 0xc5, 0xe9 } },	   { 2, { 0xc5, 0x7e } },
	};

	(void)state;
	for (unsigned m = 0; m < ARRAY_SIZE(modes); m++) {
		ZydisDecoder zd;

		ZydisDecoderInit(&zd, modes[m].mode, modes[m].width);
		for (unsigned k = 0; k < ARRAY_SIZE(maps); k++)
			sweep_map(&zd, modes[m].bits, prefixes, ARRAY_SIZE(prefixes),
				  maps[k].b, maps[k].n);
		sweep_vex(&zd, modes[m].bits);
	}
	printf("CASES %lu (%lu agreed in everything)\n", cases, agreed);
	for (unsigned i = 0; i < ARRAY_SIZE(explained); i++)
		printf("TABLE explained: %-44s %lu\n", explained[i].name, explained_count[i]);
	assert_int_equal(unexplained, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sweep) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
