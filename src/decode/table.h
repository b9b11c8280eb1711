/* SPDX-License-Identifier: MIT */
/* The rows of insns.def in memory, and the work area of one decode. */
#ifndef LOCUM_DECODE_TABLE_H
#define LOCUM_DECODE_TABLE_H

#include "decode/decode.h"

enum row_map { MAP_1B, MAP_0F, MAP_0F38, MAP_0F3A, MAP_VEX, MAP_V0F, MAP_V0F38, MAP_V0F3A, MAP_COUNT };
enum row_pp { PP_N, PP_0, PP_66, PP_F3, PP_F2, PP_P };
enum row_mod { MOD_A, MOD_M, MOD_R };
enum row_mode { MODE_A, MODE_M64, MODE_I64 };

/* Operand kinds of insns.def.  Letters as in the manuals' opcode maps: E r/m,
 * G reg, Z opcode's low bits, B VEX.vvvv, R r/m as register, M memory, O moffs,
 * I immediate, J displacement, V/W vector, P/Q MMX, T x87, S segment, C/D
 * control and debug registers.  Sizes: b w d q x(16) v(operand size)
 * z(operand size, at most 4 bytes immediate) y(4 or 8) m(mode's word) s(reg,
 * 4 or 8) dq(16).  H is the vector in VEX.vvvv, L the one in imm8[7:4].  With VEX,
 * x is the vector length, h, f and e are a half, a quarter and an eighth of it. */
#define OPND_KINDS(X)                                                            \
	X(NONE) X(1) X(AL) X(AX) X(Ap) X(By) X(CL) X(Cd) X(DX) X(Dd) X(Eb) X(Ed) \
	X(Edw) X(Er) X(Ev) X(Ew) X(Ey) X(Gb) X(Gm) X(Gs) X(Gv) X(Gw) X(Gy) X(Gz) \
	X(I2) X(Ib) X(Iv) X(Iw) X(Iz) X(Jb) X(Jz) X(M) X(Ma) X(Mb) X(Md) X(Mdq)  \
	X(Mp) X(Mq) X(Mq8) X(Ms) X(Mt) X(Mv) X(Mw) X(My) X(Ob) X(Ov) X(Pq) X(Py) \
	X(Qd) X(Qq) X(Rm) X(Rv) X(Ry) X(S0) X(S1) X(S2) X(S3) X(S4) X(S5) X(Sw)  \
	X(T0) X(Ti) X(Vd) X(Vq) X(Vx) X(Vy) X(Wd) X(Wq) X(Wx) X(Zb) X(Zv) X(b)   \
	X(eAX) X(rAX) X(sIb) X(v) X(z) X(Edb) X(Hdq) X(Hx) X(Lx) X(Mx) X(Vdq)    \
	X(Wb) X(Wdq) X(We) X(Wf) X(Wh) X(Ww)
enum opnd_spec {
#define X(k) K_##k,
	OPND_KINDS(X)
#undef X
};

/* Row attributes: the low 16 are insn_row.attr's. */
#define A_LOCK	  ROW_LOCKABLE
#define A_PRIV	  ROW_PRIV
#define A_X87	  ROW_X87
#define A_MMX	  ROW_MMX
#define A_SSE	  ROW_SSE
#define A_AVX	  ROW_AVX
#define A_VSIB	  ROW_VSIB
#define A_ALIGN	  ROW_ALIGN
#define A_STRING  ROW_STRING
#define A_D64	  ROW_D64
#define A_FPEXC	  ROW_FPEXC
#define A_X87F	  ROW_FXSAVE /* FXSAVE, FXRSTOR: #NM like x87 */
#define A_MMXU	  ROW_MMXU   /* an SSE form that uses an MMX register */
#define A_NOWAIT  ROW_NOWAIT /* x87 form that does not look at pending exceptions */
#define A_BR	  BIT(16) /* sets INSN_BRANCH */
#define A_ENDS	  BIT(17) /* sets INSN_ENDS */
#define A_F64	  BIT(18) /* near branch: operand size by vendor in 64-bit mode */
#define A_BITOFF  BIT(19) /* bit offset in a register reaches beyond the operand */
#define A_CRLOCK  BIT(20) /* AMD: LOCK means CR8 */
#define A_CX16	  BIT(21) /* REX.W: 16 bytes, another op */
#define A_FARP	  BIT(22) /* m16:64 on Intel alone */
#define A_MASKMOV BIT(23) /* memory operand at rDI is implied */
#define A_MODR	  BIT(24) /* ModRM.mod is ignored: always a register */
#define A_NOP90	  BIT(25) /* 90 without REX.B: NOP, with F3: PAUSE */
#define A_XCHG90  BIT(26)
#define A_XLAT	  BIT(27)
#define A_NOTAMD  BIT(28) /* not on AMD's processors */
/* VEX.L and VEX.W that select the row; neither: any.  Without A_AVX: L=0. */
#define A_L0	  BIT64(32)
#define A_L1	  BIT64(33)
#define A_W0	  BIT64(34)
#define A_W1	  BIT64(35)

struct opnd_row {
	u8 spec; /* enum opnd_spec */
	u8 access;
};

struct table_row {
	struct insn_row pub;
	u64 attr;
	u8 map, opcode, pp, mod;
	s8 reg, rm;
	u8 mode;
	struct opnd_row opnd[4];
};

extern const struct table_row decode_rows[];
extern const unsigned decode_row_total;

/** table_first() - index of the first row of (@map, @opcode); the rows of one
 * opcode are adjacent.  Return: -1 if there is none. */
int table_first(unsigned map, unsigned opcode);

/* The work area of one decode() call. */
struct decoder {
	const u8 *bytes;
	unsigned avail, pos;
	const struct decode_mode *mode;
	bool bad_short, bad_long; /* ran out of bytes; ran over 15 */
	/* prefixes */
	bool opsz, adsz, lock;
	u8 rep;	    /* last of F3, F2, or 0 */
	u8 seg;	    /* override or 0xff */
	u8 rex;	    /* 0x40..0x4f or 0 */
	bool vex, vex_l;
	bool bad_prefix; /* 66, F2, F3 or F0 before VEX */
	u8 vex_pp, vex_vvvv;
	bool has_modrm, vsib;
	u8 mod, reg, rm; /* reg and rm without REX */
};

/** dec_u8() - next byte; 0 and a flag in @d when there is none */
u8 dec_u8(struct decoder *d);
/** dec_imm() - next @n bytes (1, 2, 4, 8), little endian, zero-extended */
u64 dec_imm(struct decoder *d, unsigned n);

/** modrm_address() - fill base, index, scale, disp, seg of a memory operand */
void modrm_address(struct decoder *d, struct insn *i);

/** operand_fill() - operand @n of @row; false: invalid encoding (#UD) */
bool operand_fill(struct decoder *d, struct insn *i, const struct table_row *row,
		  unsigned n);

#endif
