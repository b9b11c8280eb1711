/* SPDX-License-Identifier: MIT */
#include "jit/class.h"

#include "cpu/handlers.h"
#include "decode/table.h"
#include "jit/jit_int.h"

static const char *const spec_names[] = {
#define X(k) #k,
	OPND_KINDS(X)
#undef X
};

enum jit_role jit_role(const struct insn *i, unsigned n)
{
	const char *s = spec_names[decode_rows[i->row].opnd[n].spec];

	switch (s[0]) {
	case 'E': case 'M': case 'W': case 'Q': case 'R': case 'U':
		return ROLE_RM;
	case 'G': case 'V': case 'P':
		return ROLE_REG;
	case 'B': case 'H':
		return ROLE_VVVV;
	case 'Z':
		return ROLE_PLUS;
	case 'A': /* AL, AX; Ap */
		return s[1] == 'p' ? ROLE_OTHER : ROLE_FIXED;
	case 'r': case 'e': /* rAX, eAX */
		return ROLE_FIXED;
	case 'I': case 's': case '1': case 'N':
		return ROLE_NONE; /* immediates; no operand */
	default:
		return ROLE_OTHER;
	}
}

unsigned jit_flags_read(const struct insn *i)
{
	static const u16 cond[] = {
		RF_OF, RF_CF, RF_ZF, RF_CF | RF_ZF, RF_SF, RF_PF, RF_SF | RF_OF,
		RF_SF | RF_OF | RF_ZF,
	};

	switch (i->op) {
	case OP_JCC: case OP_SETCC: case OP_CMOVCC:
		return cond[i->cond >> 1];
	case OP_FCMOVB: case OP_FCMOVNB:
		return RF_CF;
	case OP_FCMOVE: case OP_FCMOVNE:
		return RF_ZF;
	case OP_FCMOVBE: case OP_FCMOVNBE:
		return RF_CF | RF_ZF;
	case OP_FCMOVU: case OP_FCMOVNU:
		return RF_PF;
	default:
		return insn_row(i->row)->flags_read;
	}
}

/* Operands that copying and the address code can deal with. */
static bool operands_ok(const struct insn *i)
{
	for (unsigned n = 0; n < i->nopnd; n++) {
		const struct operand *o = &i->opnd[n];
		enum jit_role role = jit_role(i, n);

		if (role == ROLE_OTHER || o->kind == OPD_ST || o->kind == OPD_IMM2)
			return false;
		if (o->kind == OPD_MEM && (!o->size || role != ROLE_RM))
			return false;
	}
	return true;
}

static bool memory_ok(const struct insn *i)
{
	if (!(i->flags & INSN_MEM))
		return true;
	return i->adsize != 2 && i->disp == (s32)i->disp;
}

/* Only one register of struct cpu, or a high byte, can be held beside a memory
 * operand. */
static bool scratch_ok(const struct insn *i)
{
	unsigned cold_regs = 0;

	if (!(i->flags & INSN_MEM))
		return true;
	for (unsigned n = 0; n < i->nopnd; n++)
		if (i->opnd[n].kind == OPD_GPR8H ||
		    (i->opnd[n].kind == OPD_GPR && jit_home[i->opnd[n].reg] == H_NONE))
			cold_regs++;
	return cold_regs <= 1;
}

static bool has_memory(const struct insn *i)
{
	return i->flags & INSN_MEM;
}

static bool last_is_cl(const struct insn *i)
{
	const struct operand *o = &i->opnd[i->nopnd - 1];

	return o->kind == OPD_GPR && jit_role(i, i->nopnd - 1) == ROLE_OTHER;
}

static enum jit_class branch_class(const struct insn *i)
{
	if (i->opsize != 8)
		return JIT_INTERP;
	switch (i->op) {
	case OP_JCC:
		return JIT_JCC;
	case OP_JMP:
		if (i->opnd[0].kind == OPD_REL)
			return JIT_JMP;
		return memory_ok(i) ? JIT_JMP_IND : JIT_INTERP;
	case OP_CALL:
		if (i->opnd[0].kind == OPD_REL)
			return JIT_CALL;
		return memory_ok(i) ? JIT_CALL_IND : JIT_INTERP;
	case OP_RET:
		return JIT_RET;
	default:
		return JIT_INTERP;
	}
}

static enum jit_class stack_class(const struct insn *i)
{
	if (i->opsize != 8)
		return JIT_INTERP;
	switch (i->op) {
	case OP_PUSH:
		if (i->opnd[0].kind == OPD_MEM)
			return memory_ok(i) ? JIT_PUSH_MEM : JIT_INTERP;
		return i->opnd[0].kind == OPD_GPR || i->opnd[0].kind == OPD_IMM ? JIT_PUSH
										 : JIT_INTERP;
	case OP_POP:
		return i->opnd[0].kind == OPD_GPR ? JIT_POP : JIT_INTERP;
	default:
		return JIT_LEAVE;
	}
}

static enum jit_class copy_or_interp(const struct insn *i)
{
	return operands_ok(i) && memory_ok(i) && scratch_ok(i) ? JIT_COPY : JIT_INTERP;
}

static enum jit_class shift_class(const struct insn *i)
{
	if (!last_is_cl(i))
		return copy_or_interp(i);
	/* Two registers beside memory and the count are too many. */
	if (has_memory(i) && i->nopnd > 2)
		return JIT_INTERP;
	return memory_ok(i) ? JIT_SHIFT : JIT_INTERP;
}

static enum jit_class integer_class(const struct insn *i)
{
	switch (i->op) {
	case OP_ADD: case OP_OR: case OP_ADC: case OP_SBB: case OP_AND: case OP_SUB: case OP_XOR:
	case OP_CMP: case OP_TEST: case OP_MOV: case OP_MOVZX: case OP_MOVSX: case OP_MOVSXD:
	case OP_INC: case OP_DEC: case OP_NOT: case OP_NEG: case OP_IMUL: case OP_MUL:
	case OP_CMOVCC: case OP_SETCC: case OP_BSWAP: case OP_XADD: case OP_XCHG:
	case OP_CMPXCHG: case OP_TZCNT: case OP_LZCNT: case OP_POPCNT: case OP_MOVBE:
	case OP_CRC32: case OP_ANDN: case OP_BEXTR: case OP_BLSI: case OP_BLSMSK: case OP_BLSR:
	case OP_BZHI: case OP_PEXT: case OP_PDEP: case OP_RORX: case OP_SARX: case OP_SHLX:
	case OP_SHRX: case OP_MULX: case OP_ADCX: case OP_ADOX: case OP_CBW: case OP_CWD:
	case OP_BSF: case OP_BSR: case OP_MOVNTI:
		return copy_or_interp(i);
	case OP_BT: case OP_BTS: case OP_BTR: case OP_BTC:
		/* A register's bit offset reaches beyond the operand in memory. */
		if (has_memory(i) && i->opnd[1].kind != OPD_IMM)
			return memory_ok(i) && i->adsize == 8 && i->opsize >= 4 ? JIT_SYSTEM
										: JIT_INTERP;
		return copy_or_interp(i);
	case OP_SHL: case OP_SHR: case OP_SAR: case OP_ROL: case OP_ROR: case OP_RCL: case OP_RCR:
	case OP_SHLD: case OP_SHRD:
		return shift_class(i);
	case OP_DIV: case OP_IDIV:
		return i->opsize >= 4 && i->opnd[0].kind != OPD_GPR8H && i->opnd[0].size >= 4 &&
				       memory_ok(i)
			       ? JIT_DIV
			       : JIT_INTERP;
	case OP_LEA:
		return memory_ok(i) ? JIT_LEA : JIT_INTERP;
	case OP_PUSH: case OP_POP: case OP_LEAVE:
		return stack_class(i);
	case OP_SWAPGS: case OP_CLI: case OP_STI: case OP_RDTSC: case OP_RDTSCP:
		return JIT_SYSTEM;
	case OP_PUSHF:
		return i->opsize == 8 ? JIT_SYSTEM : JIT_INTERP;
	case OP_CMPXCHG16B:
		return i->opsize == 8 && memory_ok(i) ? JIT_SYSTEM : JIT_INTERP;
	case OP_NOP:
		return JIT_NOP;
	case OP_LFENCE: case OP_MFENCE: case OP_SFENCE:
		return JIT_COPY;
	default:
		return JIT_INTERP;
	}
}

static enum jit_class vector_class(const struct insn *i)
{
	const struct insn_row *row = insn_row(i->row);

	if (row->attr & (ROW_FXSAVE | ROW_VSIB))
		return JIT_INTERP;
	switch (i->op) {
	case OP_VZEROUPPER: case OP_VZEROALL: case OP_EMMS:
		return JIT_VECTOR;
	/* Whether it is an MMX instruction then depends on the maker. */
	case OP_CVTPI2PS:
		return !has_memory(i) && copy_or_interp(i) ? JIT_VECTOR : JIT_INTERP;
	case OP_LDMXCSR: case OP_STMXCSR: case OP_VLDMXCSR: case OP_VSTMXCSR:
	case OP_MASKMOVDQU: case OP_MASKMOVQ: case OP_VMASKMOVDQU:
	/* Only part of the operand is touched. */
	case OP_VMASKMOVPS: case OP_VMASKMOVPD: case OP_VPMASKMOVD: case OP_VPMASKMOVQ:
	/* These write rcx. */
	case OP_PCMPESTRI: case OP_PCMPISTRI: case OP_VPCMPESTRI: case OP_VPCMPISTRI:
		return JIT_INTERP;
	default:
		return i->nopnd && copy_or_interp(i) ? JIT_VECTOR : JIT_INTERP;
	}
}

/* What loads and stores the environment, or resets it, is the interpreter's. */
static enum jit_class x87_class(const struct insn *i)
{
	switch (i->op) {
	case OP_FLDENV: case OP_FNSTENV: case OP_FRSTOR: case OP_FNSAVE:
	case OP_FNCLEX: case OP_FNINIT:
	case OP_FENI8087_NOP: case OP_FDISI8087_NOP: case OP_FSETPM287_NOP:
		return JIT_INTERP;
	default:
		return memory_ok(i) ? JIT_X87 : JIT_INTERP;
	}
}

/* Sanitizers see accesses of compiled code alone. */
static bool sanitized(const struct insn *i)
{
#ifdef LOCUM_SANITIZE
	return i->flags & INSN_MEM || i->op == OP_PUSH || i->op == OP_POP || i->op == OP_LEAVE || i->op == OP_PUSHF ||
	       i->op == OP_CALL || i->op == OP_RET;
#else
	(void)i;
	return false;
#endif
}

enum jit_class jit_class(const struct icode *e)
{
	const struct insn *i = &e->insn;
	const struct insn_row *row = insn_row(i->row);

	/* Undefined, privileged or unknown: the interpreter chose otherwise. */
	if (!e->fn || e->fn != op_select(i) || sanitized(i))
		return JIT_INTERP;
	if (i->flags & INSN_BRANCH)
		return branch_class(i);
	if (i->flags & INSN_ENDS)
		return JIT_INTERP;
	if (row->attr & ROW_X87)
		return x87_class(i);
	if (row->attr & (ROW_SSE | ROW_AVX | ROW_MMX))
		return vector_class(i);
	if (i->op == OP_PAUSE)
		return JIT_SYSTEM;
	return integer_class(i);
}
