/* SPDX-License-Identifier: MIT */
#include "decode/table.h"

#define ANY  -1
#define ALL6 RF_ARITH
#define O(k, a)                                                                  \
	{                                                                        \
		k, a                                                             \
	}
#define NO                                                                       \
	{                                                                        \
		K_NONE, 0                                                        \
	}

const struct table_row decode_rows[] = {
#define ROW(map_, opc_, pp_, mod_, reg_, rm_, mode_, op_, o1, o2, o3, o4, attr_, fr, fw, fu, \
	    feat_)                                                                       \
	{ .pub = { .op = OP_##op_,                                                        \
		   .attr = (attr_)&0xffff,                                                \
		   .feature = FEAT_##feat_,                                               \
		   .flags_read = fr,                                                      \
		   .flags_written = fw,                                                   \
		   .flags_undef = fu },                                                   \
	  .attr = attr_,                                                                  \
	  .map = map_,                                                                    \
	  .opcode = opc_,                                                                 \
	  .pp = pp_,                                                                      \
	  .mod = mod_,                                                                    \
	  .reg = reg_,                                                                    \
	  .rm = rm_,                                                                      \
	  .mode = mode_,                                                                  \
	  .opnd = { o1, o2, o3, o4 } },
#include "decode/insns.def"
#undef ROW
};
const unsigned decode_row_total = ARRAY_SIZE(decode_rows);

static const char *const row_names[] = {
#define ROW(map_, opc_, pp_, mod_, reg_, rm_, mode_, op_, ...)                          \
	#map_ " " #opc_ " " #pp_ " " #mod_ " /" #reg_ " " #op_,
#include "decode/insns.def"
#undef ROW
};

static const char *const op_names[OP_COUNT] = {
	[OP_INVALID] = "(bad)",
#define INSN_OP(name) [OP_##name] = #name,
#include "decode/ops.def"
#undef INSN_OP
};

/* 1 + row index; 0 = none.  Filled once, then read-only. */
static u16 first_row[MAP_COUNT][256];

__attribute__((constructor)) static void table_init(void)
{
	for (unsigned i = decode_row_total; i-- > 0;)
		first_row[decode_rows[i].map][decode_rows[i].opcode] = (u16)(i + 1);
}

int table_first(unsigned map, unsigned opcode)
{
	return first_row[map][opcode] - 1;
}

const struct insn_row *insn_row(unsigned row)
{
	return &decode_rows[row < decode_row_total ? row : 0].pub;
}

unsigned insn_row_count(void)
{
	return decode_row_total;
}

const char *insn_row_name(unsigned row)
{
	return row < decode_row_total ? row_names[row] : "(none)";
}

const char *insn_op_name(unsigned op)
{
	return op < OP_COUNT ? op_names[op] : "(bad)";
}
