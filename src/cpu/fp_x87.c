/* SPDX-License-Identifier: MIT */
/*
 * x87: every instruction runs on the host's x87 with the guest's image loaded.
 *
 * Only the pointers to the last instruction and operand are ours, since the
 * host would note the stub's.  Every non-control instruction sets them; what
 * FXSAVE shows of them is the vendor's affair (fp_state.c).
 */
#include "cpu/fp_x87.h"

#include <string.h>

#include "cpu/cpuid.h"
#include "cpu/fp_check.h"
#include "cpu/fp_stub.h"
#include "cpu/fp_vec.h"
#include "cpu/operand.h"

/* The memory operand of any x87 instruction but FNSAVE and FRSTOR fits. */
struct x87_buf {
	u8 b[32];
} __attribute__((aligned(32)));

bool x87_is_control(const struct insn *i)
{
	unsigned reg = (i->modrm >> 3) & 7;

	if (i->flags & INSN_MEM)
		return (i->opcode == 0xd9 && reg >= 4) ||
		       (i->opcode == 0xdd && (reg == 4 || reg >= 6));
	return (i->opcode == 0xdb && i->modrm >= 0xe0 && i->modrm <= 0xe4) ||
	       (i->opcode == 0xdf && i->modrm == 0xe0);
}

bool x87_notes(const struct cpu *c, bool operand)
{
	return c->vendor == VENDOR_AMD ||
	       (operand && !cpuid_has(c->cpuid, CPUID_FDP_EXCPTN_ONLY));
}

u16 x87_selector(const struct cpu *c, unsigned seg)
{
	return c->vendor == VENDOR_AMD ? c->seg[seg].sel : 0;
}

void x87_run(struct cpu *c, const struct insn *i, struct fp_image *work, void *mem,
	     u64 *rflags)
{
	struct fp_image *f = cpu_fp(c);
	unsigned op = i->opcode & 7;
	const u8 *body;

	if (i->flags & INSN_MEM)
		body = fp_x87_mem + (op * 8 + ((i->modrm >> 3) & 7)) * STUB_STEP;
	else
		body = fp_x87_reg + (op * 64 + (i->modrm & 63)) * STUB_STEP;
	memcpy(work, f, X87_BYTES);
	fp_x87_call(work, body, mem, rflags);
	work->fip = f->fip;
	work->fcs = f->fcs;
	work->fdp = f->fdp;
	work->fds = f->fds;
	work->fop = f->fop;
	if (x87_is_control(i))
		return;
	work->fip = c->rip;
	work->fcs = x87_selector(c, SEG_CS);
	if (x87_notes(c, false) || work->fsw & FSW_ES)
		work->fop = x87_fop(i);
	if (i->flags & INSN_MEM && (x87_notes(c, true) || work->fsw & FSW_ES)) {
		work->fdp = insn_ea(c, i);
		work->fds = x87_selector(c, i->seg);
	}
}

void x87_forget(struct fp_image *work)
{
	work->fip = work->fdp = 0;
	work->fcs = work->fds = work->fop = 0;
}

void x87_commit(struct cpu *c, const struct fp_image *work)
{
	struct fp_image *f = cpu_fp(c);
	u32 mxcsr = f->mxcsr, mask = f->mxcsr_mask;

	memcpy(f, work, X87_BYTES);
	f->mxcsr = mxcsr;
	f->mxcsr_mask = mask;
	f->fcs = work->fcs;
	f->fds = work->fds;
}

static enum emul op_x87_reg(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_x87(c, true);
	u64 rflags = c->aflags;
	struct fp_image work;

	if (r != EMUL_CONTINUE)
		return r;
	x87_run(c, i, &work, NULL, &rflags);
	x87_commit(c, &work);
	c->aflags = rflags & RF_ARITH;
	return EMUL_CONTINUE;
}

/* FNINIT, FNCLEX and the 8087's FENI, FDISI: no pending error stops them. */
static enum emul op_x87_nowait(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_x87(c, false);
	u64 rflags = c->aflags;
	struct fp_image work;

	if (r != EMUL_CONTINUE)
		return r;
	x87_run(c, i, &work, NULL, &rflags);
	if (i->modrm == 0xe3)
		x87_forget(&work);
	x87_commit(c, &work);
	return EMUL_CONTINUE;
}

/* A 10-byte operand is two accesses: 8 bytes, then 2.  Intel's processors have
 * stored the first when the second faults. */
static enum emul x87_probe(struct cpu *c, const struct insn *i, gva_t lin, bool write)
{
	if (i->opnd[0].size <= 8 || (write && c->vendor == VENDOR_INTEL))
		return EMUL_CONTINUE;
	return write ? mmu_probe_write(&c->mmu, lin, 8, insn_acc(i))
		     : mmu_probe_read(&c->mmu, lin, 8, insn_acc(i));
}

static enum emul op_x87_load(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_x87(c, true);
	u64 rflags = c->aflags;
	struct fp_image work;
	struct x87_buf buf;
	gva_t lin;

	if (r != EMUL_CONTINUE)
		return r;
	r = mem_linear(c, i, i->opnd[0].size, false, &lin);
	if (r == EMUL_CONTINUE)
		r = x87_probe(c, i, lin, false);
	if (r == EMUL_CONTINUE)
		r = mmu_read(&c->mmu, lin, buf.b, i->opnd[0].size, insn_acc(i));
	if (r != EMUL_CONTINUE)
		return r;
	x87_run(c, i, &work, buf.b, &rflags);
	x87_commit(c, &work);
	return EMUL_CONTINUE;
}

/*
 * An unmasked exception can keep the store from happening.  Rather than know
 * which, run the instruction again over other bytes: what it does not write
 * keeps both patterns.
 */
static bool x87_stored(struct cpu *c, const struct insn *i, const struct x87_buf *first)
{
	u64 rflags = c->aflags;
	struct fp_image work;
	struct x87_buf second;

	memset(&second, 0xa5, sizeof(second));
	x87_run(c, i, &work, second.b, &rflags);
	return !memcmp(second.b, first->b, i->opnd[0].size);
}

static enum emul x87_write(struct cpu *c, const struct insn *i, gva_t lin,
			   const struct x87_buf *buf)
{
	unsigned n = i->opnd[0].size;
	enum emul r;

	if (n <= 8 || c->vendor == VENDOR_AMD)
		return mmu_write(&c->mmu, lin, buf->b, n, insn_acc(i));
	r = mmu_write(&c->mmu, lin, buf->b, 8, insn_acc(i));
	return r == EMUL_CONTINUE ?
		       mmu_write(&c->mmu, lin + 8, buf->b + 8, n - 8, insn_acc(i)) : r;
}

static enum emul op_x87_store(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_x87(c, true);
	unsigned n = i->opnd[0].size;
	u64 rflags = c->aflags;
	struct fp_image work;
	struct x87_buf buf;
	gva_t lin;

	if (r != EMUL_CONTINUE)
		return r;
	r = mem_linear(c, i, n, true, &lin);
	if (r == EMUL_CONTINUE)
		r = x87_probe(c, i, lin, true);
	if (r != EMUL_CONTINUE)
		return r;
	memset(&buf, 0x5a, sizeof(buf));
	x87_run(c, i, &work, buf.b, &rflags);
	if (!(work.fsw & FSW_ES) || x87_stored(c, i, &buf))
		r = x87_write(c, i, lin, &buf);
	else if (c->vendor == VENDOR_AMD) /* Intel's do not look at the operand */
		r = mmu_probe_write(&c->mmu, lin, n, insn_acc(i));
	if (r == EMUL_CONTINUE)
		x87_commit(c, &work);
	return r;
}

static enum emul op_fnstcw(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_x87(c, false);

	return r == EMUL_CONTINUE ? memop_write(c, i, 2, cpu_fp(c)->fcw) : r;
}

static enum emul op_fnstsw(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_x87(c, false);

	if (r != EMUL_CONTINUE)
		return r;
	if (i->flags & INSN_MEM)
		return memop_write(c, i, 2, cpu_fp(c)->fsw);
	gpr_put(c, R_RAX, 2, cpu_fp(c)->fsw);
	return EMUL_CONTINUE;
}

static enum emul op_fwait(struct cpu *c, const struct insn *i)
{
	(void)i;
	if ((c->mmu.cr0 & (CR0_MP | CR0_TS)) == (CR0_MP | CR0_TS))
		return cpu_raise(c, EXC_NM, 0);
	return fp_check_pending(c);
}

static op_fn x87_select_mem(const struct insn *i)
{
	unsigned reg = (i->modrm >> 3) & 7;

	if (i->opcode == 0xd9 && reg == 7)
		return op_fnstcw;
	if (i->opcode == 0xdd && reg == 7)
		return op_fnstsw;
	if ((i->opcode == 0xd9 || i->opcode == 0xdd) && (reg == 4 || reg == 6))
		return env_select(i);
	return i->opnd[0].access & OPD_W ? op_x87_store : op_x87_load;
}

op_fn x87_select(const struct insn *i)
{
	if (i->map != 0 || (i->flags & INSN_VEX))
		return NULL;
	if (i->opcode == 0x9b)
		return op_fwait;
	if (i->opcode < 0xd8 || i->opcode > 0xdf)
		return NULL;
	if (i->flags & INSN_MEM)
		return x87_select_mem(i);
	if (i->opcode == 0xdf && i->modrm == 0xe0)
		return op_fnstsw;
	if (i->opcode == 0xdb && i->modrm >= 0xe0 && i->modrm <= 0xe4)
		return op_x87_nowait;
	return op_x87_reg;
}
