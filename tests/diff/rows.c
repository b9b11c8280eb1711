/* SPDX-License-Identifier: MIT */
/* Which rows of the decode table take part, why others do not, and coverage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/hostcpu.h"
#include "decode/table.h"
#include "diff.h"

/*
 * What cannot be compared in user mode on a running host.  INT n is generated
 * for vectors whose gate user mode may not use; IRET only with a frame for the
 * same privilege.
 */
static const struct {
	u16 op;
	const char *why;
} excluded[] = {
	{ OP_SYSCALL, "enters the host's kernel" },
	{ OP_SYSENTER, "enters the host's kernel" },
	{ OP_INT1, "#DB of the host's kernel" },
	{ OP_RET_FAR, "changes segments" },
	{ OP_CALL_FAR, "changes segments" },
	{ OP_JMP_FAR, "changes segments" },
	{ OP_LFS, "changes segments" },
	{ OP_LGS, "changes segments" },
	{ OP_LSS, "changes segments" },
	{ OP_LAR, "depends on the host's GDT" },
	{ OP_LSL, "depends on the host's GDT" },
	{ OP_VERR, "depends on the host's GDT" },
	{ OP_VERW, "depends on the host's GDT" },
	{ OP_SGDT, "UMIP: the host's kernel emulates it" },
	{ OP_SIDT, "UMIP: the host's kernel emulates it" },
	{ OP_SLDT, "UMIP: the host's kernel emulates it" },
	{ OP_STR, "UMIP: the host's kernel emulates it" },
	{ OP_SMSW, "UMIP: the host's kernel emulates it" },
	{ OP_VMCALL, "the host's own hypervisor" },
	{ OP_VMMCALL, "the host's own hypervisor" },
	{ OP_VMLAUNCH, "the host's own hypervisor" },
	{ OP_VMRESUME, "the host's own hypervisor" },
	{ OP_VMXOFF, "the host's own hypervisor" },
	{ OP_VMFUNC, "the host's own hypervisor" },
	{ OP_VMRUN, "the host's own hypervisor" },
	{ OP_VMLOAD, "the host's own hypervisor" },
	{ OP_VMSAVE, "the host's own hypervisor" },
	{ OP_STGI, "the host's own hypervisor" },
	{ OP_CLGI, "the host's own hypervisor" },
	{ OP_SKINIT, "the host's own hypervisor" },
	{ OP_INVLPGA, "the host's own hypervisor" },
	{ OP_INVEPT, "the host's own hypervisor" },
	{ OP_INVVPID, "the host's own hypervisor" },
	{ OP_MONITOR, "not offered" },
	{ OP_MWAIT, "not offered" },
	{ OP_RSM, "not offered" },
	{ OP_XSAVEC, "not offered" },
	{ OP_XSAVES, "not offered" },
	{ OP_XRSTORS, "not offered" },
	{ OP_CPUID, "differs by design" },
	{ OP_RDTSC, "differs by nature" },
	{ OP_RDTSCP, "differs by nature" },
	{ OP_RDPMC, "differs by nature" },
	{ OP_RDRAND, "differs by nature" },
	{ OP_RDSEED, "differs by nature" },
	{ OP_RDPID, "differs by nature" },
	{ OP_CMPXCHG16B, "counted in the row of CMPXCHG8B" },
};

struct row_stat {
	u64 done, faulted;
};

static struct row_stat *stat_of;
static u16 *pick;
static unsigned npick;

const char *rows_excluded(unsigned row)
{
	const struct table_row *r = &decode_rows[row];

	if ((!guest_offers(r->pub.feature) && r->pub.op != OP_CRC32) ||
	    ((r->attr & A_AVX) && !guest_offers(FEAT_AVX)) ||
	    (r->pub.op == OP_XGETBV && !guest_offers(FEAT_XSAVE)))
		return "the host lacks it";
	if (r->mode == MODE_I64)
		return "not in 64-bit mode";
	if ((r->attr & A_NOTAMD) && hostcpu()->amd)
		return "Intel's alone";
	if (r->pub.op == OP_MOV_SREG && r->opcode == 0x8e)
		return "changes segments";
	if (r->pub.op == OP_POP && (r->opnd[0].spec >= K_S0 && r->opnd[0].spec <= K_S5))
		return "changes segments";
	for (unsigned n = 0; n < ARRAY_SIZE(excluded); n++)
		if (excluded[n].op == r->pub.op)
			return excluded[n].why;
	return NULL;
}

void rows_init(void)
{
	stat_of = calloc(insn_row_count(), sizeof(*stat_of));
	pick = calloc(insn_row_count(), sizeof(*pick));
	if (!stat_of || !pick)
		exit(2);
	for (unsigned row = 0; row < insn_row_count(); row++)
		if (!rows_excluded(row))
			pick[npick++] = (u16)row;
}

bool rows_select(const char *op_name)
{
	npick = 0;
	for (unsigned row = 0; row < insn_row_count(); row++)
		if (!rows_excluded(row) &&
		    !strcasecmp(op_name, insn_op_name(insn_row(row)->op)))
			pick[npick++] = (u16)row;
	return npick;
}

unsigned rows_pick(void)
{
	return pick[rng_below(npick)];
}

void rows_count(unsigned row, bool fault)
{
	if (fault)
		stat_of[row].faulted++;
	else
		stat_of[row].done++;
}

void rows_summary(void)
{
	unsigned few = 0, few_faults = 0, never = 0;

	for (unsigned k = 0; k < npick; k++) {
		const struct row_stat *s = &stat_of[pick[k]];

		few += s->done + s->faulted < 1000;
		few_faults += s->faulted < 50;
		never += !(s->done + s->faulted);
	}
	printf("TABLE %u rows: %u never, %u less than 1000 times, %u faulted less than 50 times\n",
	       npick, never, few, few_faults);
}

void rows_print(void)
{
	unsigned never = 0;

	printf("%12s %12s  row\n", "completed", "faulted");
	for (unsigned k = 0; k < npick; k++)
		printf("%12llu %12llu  %s\n", stat_of[pick[k]].done, stat_of[pick[k]].faulted,
		       insn_row_name(pick[k]));
	printf("\nnever reached:\n");
	for (unsigned k = 0; k < npick; k++)
		if (!stat_of[pick[k]].done && !stat_of[pick[k]].faulted) {
			printf("  %s\n", insn_row_name(pick[k]));
			never++;
		}
	printf("%u of %u rows\n\nnot generated:\n", never, npick);
	for (unsigned row = 0; row < insn_row_count(); row++)
		if (rows_excluded(row))
			printf("  %s: %s\n", insn_row_name(row), rows_excluded(row));
}
