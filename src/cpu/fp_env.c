/* SPDX-License-Identifier: MIT */
/*
 * FNSTENV, FLDENV, FNSAVE, FRSTOR: the host's 28-byte protected-mode form does
 * the work; pointers and the other three layouts are put in place here.
 *
 *	offset  32-bit		16-bit		real mode, 32-bit
 *	0	FCW		FCW   (+0)	FCW
 *	4	FSW		FSW   (+2)	FSW
 *	8	FTW		FTW   (+4)	FTW
 *	12	FIP		FIP   (+6)	FIP[15:0]
 *	16	FOP:FCS		FCS   (+8)	FIP[31:16]:0:FOP
 *	20	FDP		FDP   (+10)	FDP[15:0]
 *	24	FDS		FDS   (+12)	FDP[31:16]:0
 *
 * Source: SDM Vol. 1 "Saving the x87 FPU's State with FSTENV/FNSTENV and
 * FSAVE/FNSAVE", figures of the four formats.
 */
#include <string.h>

#include "cpu/fp_check.h"
#include "cpu/fp_x87.h"
#include "cpu/operand.h"

#define ENV32_BYTES 28
#define ENV16_BYTES 14
#define ST_BYTES    80

/* The 32-bit protected-mode layout, as the host stores it. */
struct env32 {
	u32 fcw, fsw, ftw;
	u32 fip, fop_fcs, fdp, fds;
	u8 st[ST_BYTES];
};

BUILD_BUG_ON(offsetof(struct env32, st) != ENV32_BYTES);

static bool env_is_real(const struct cpu *c)
{
	return !(c->mmu.cr0 & CR0_PE) || (c->rflags & RF_VM);
}

/* Write the pointers of @f into @e, in the layout of the mode. */
static void env_put_pointers(const struct cpu *c, const struct fp_image *f,
			     struct env32 *e)
{
	u32 fip = (u32)f->fip, fdp = (u32)f->fdp, fop = f->fop & 0x7ff;

	if (env_is_real(c)) {
		e->fip = 0xffff0000u | (fip & 0xffff);
		e->fop_fcs = (fip >> 16) << 12 | fop;
		e->fdp = 0xffff0000u | (fdp & 0xffff);
		e->fds = (fdp >> 16) << 12;
		return;
	}
	e->fip = fip;
	e->fop_fcs = fop << 16 | f->fcs;
	e->fdp = fdp;
	e->fds = 0xffff0000u | f->fds;
}

static void env_get_pointers(const struct cpu *c, const struct env32 *e,
			     struct fp_image *f)
{
	if (env_is_real(c)) {
		f->fip = (e->fip & 0xffff) | (u64)(e->fop_fcs >> 12 & 0xffff) << 16;
		f->fdp = (e->fdp & 0xffff) | (u64)(e->fds >> 12 & 0xffff) << 16;
		f->fop = e->fop_fcs & 0x7ff;
		f->fcs = f->fds = 0;
		return;
	}
	f->fcs = (u16)e->fop_fcs;
	f->fds = (u16)e->fds;
	f->fip = e->fip;
	f->fdp = e->fdp;
	f->fop = e->fop_fcs >> 16 & 0x7ff;
}

/* 32-bit words to 16-bit ones: each keeps its low half. */
static void env_to_16(const struct env32 *e, u8 *out)
{
	const u32 *w = (const u32 *)e;

	for (unsigned n = 0; n < 7; n++) {
		u16 v = (u16)w[n];

		memcpy(out + 2 * n, &v, 2);
	}
}

/* The 16-bit protected-mode form has no opcode: FOP becomes zero. */
static void env_from_16(const u8 *in, struct env32 *e)
{
	u16 w[7];

	memcpy(w, in, sizeof(w));
	*e = (struct env32){.fcw = w[0],
			    .fsw = w[1],
			    .ftw = w[2],
			    .fip = w[3],
			    .fop_fcs = w[4],
			    .fdp = w[5],
			    .fds = w[6]};
}

static unsigned env_bytes(const struct insn *i)
{
	return i->opsize == 2 ? ENV16_BYTES : ENV32_BYTES;
}

/* The beginning is checked first, then the last byte (as AMD's processors do; it
 * shows in which address a page fault names). */
static enum emul env_probe(struct cpu *c, const struct insn *i, gva_t lin, unsigned n,
			   bool write)
{
	unsigned acc = insn_acc(i);
	unsigned word = env_bytes(i) / 7;
	gva_t last = lin + n - 1;
	enum emul r = write ? mmu_probe_write(&c->mmu, lin, word, acc)
			    : mmu_probe_read(&c->mmu, lin, word, acc);

	if (r != EMUL_CONTINUE)
		return r;
	return write ? mmu_probe_write(&c->mmu, last, 1, acc)
		     : mmu_probe_read(&c->mmu, last, 1, acc);
}

/* FNSTENV and FNSAVE; the latter appends the registers and resets the FPU. */
static enum emul env_store(struct cpu *c, const struct insn *i, unsigned st_bytes)
{
	enum emul r = fp_check_x87(c, false);
	unsigned head = env_bytes(i);
	u8 out[ENV32_BYTES + ST_BYTES];
	u64 rflags = c->aflags;
	struct fp_image work;
	struct env32 e;
	gva_t lin;

	if (r != EMUL_CONTINUE)
		return r;
	r = mem_linear(c, i, head + st_bytes, true, &lin);
	if (r == EMUL_CONTINUE)
		r = env_probe(c, i, lin, head + st_bytes, true);
	if (r != EMUL_CONTINUE)
		return r;
	memset(&e, 0, sizeof(e));
	x87_run(c, i, &work, &e, &rflags);
	env_put_pointers(c, cpu_fp(c), &e);
	if (head == ENV16_BYTES)
		env_to_16(&e, out);
	else
		memcpy(out, &e, ENV32_BYTES);
	memcpy(out + head, e.st, st_bytes);
	r = mmu_write(&c->mmu, lin, out, head + st_bytes, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	if (st_bytes)
		x87_forget(&work);
	x87_commit(c, &work);
	return EMUL_CONTINUE;
}

static enum emul env_load(struct cpu *c, const struct insn *i, unsigned st_bytes)
{
	enum emul r = fp_check_x87(c, true);
	unsigned head = env_bytes(i);
	u8 in[ENV32_BYTES + ST_BYTES];
	u64 rflags = c->aflags;
	struct fp_image work;
	struct env32 e;
	gva_t lin;

	if (r != EMUL_CONTINUE)
		return r;
	r = mem_linear(c, i, head + st_bytes, false, &lin);
	if (r == EMUL_CONTINUE)
		r = env_probe(c, i, lin, head + st_bytes, false);
	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin, in, head + st_bytes, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	memset(&e, 0, sizeof(e));
	if (head == ENV16_BYTES)
		env_from_16(in, &e);
	else
		memcpy(&e, in, ENV32_BYTES);
	memcpy(e.st, in + head, st_bytes);
	x87_run(c, i, &work, &e, &rflags);
	env_get_pointers(c, &e, &work);
	x87_commit(c, &work);
	return EMUL_CONTINUE;
}

static enum emul op_fnstenv(struct cpu *c, const struct insn *i)
{
	return env_store(c, i, 0);
}

static enum emul op_fnsave(struct cpu *c, const struct insn *i)
{
	return env_store(c, i, ST_BYTES);
}

static enum emul op_fldenv(struct cpu *c, const struct insn *i)
{
	return env_load(c, i, 0);
}

static enum emul op_frstor(struct cpu *c, const struct insn *i)
{
	return env_load(c, i, ST_BYTES);
}

op_fn env_select(const struct insn *i)
{
	bool store = ((i->modrm >> 3) & 7) == 6;

	if (i->opcode == 0xd9)
		return store ? op_fnstenv : op_fldenv;
	return store ? op_fnsave : op_frstor;
}
