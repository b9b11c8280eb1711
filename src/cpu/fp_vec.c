/* SPDX-License-Identifier: MIT */
/*
 * MMX and SSE instructions, executed by the host's own through stubs.
 *
 * The common forms (XMM registers, memory source, memory destination, no
 * floating-point exception) have handlers of their own; op_vec_any() is for
 * everything else.  Results that an exception can forbid go to a copy first.
 */
#include <string.h>

#include "cpu/fp_check.h"
#include "cpu/fp_except.h"
#include "cpu/fp_stub.h"
#include "cpu/fp_vec.h"
#include "cpu/operand.h"

#define VEC_BYTES 16

struct vec_buf {
	u8 b[32];
} __attribute__((aligned(32)));

static always_inline unsigned vec_reg_number(const struct insn *i)
{
	return ((i->modrm >> 3) & 7) | ((i->rex & 4) << 1);
}

static always_inline unsigned vec_rm_number(const struct insn *i)
{
	return (i->modrm & 7) | ((i->rex & 1) << 3);
}

static always_inline const struct fp_stub *vec_stub(const struct insn *i)
{
	unsigned key = i->row * 4 + (i->rex & 8 ? 2 : 0) + (i->flags & INSN_MEM ? 1 : 0);

	return &fp_stubs[fp_stub_index[key]];
}

static always_inline const u8 *vec_body(const struct fp_stub *s, const struct insn *i)
{
	return s->flags & STUB_IMM ? s->body + (i->imm & 0xff) * STUB_STEP : s->body;
}

/* Where register @n of @kind lives. */
static u8 *vec_home(struct cpu *c, unsigned kind, unsigned n)
{
	struct fp_image *f = cpu_fp(c);

	switch (kind) {
	case STUB_XMM:
		return f->xmm[n];
	case STUB_MM:
		return fp_mm(f, n & 7);
	case STUB_GPR:
		return (u8 *)&c->gpr[n];
	default:
		return NULL;
	}
}

static always_inline unsigned vec_home_bytes(unsigned kind)
{
	return kind == STUB_XMM ? VEC_BYTES : 8;
}

/*
 * A misaligned 16-byte operand is #GP.  AMD's misaligned mode (MXCSR.MM) lifts
 * that for all but the aligned moves and non-temporal accesses.
 */
static noinline enum emul vec_misaligned(struct cpu *c, const struct insn *i)
{
	bool strict = i->map == 1 &&
		      (i->opcode == 0x28 || i->opcode == 0x29 || i->opcode == 0x2b ||
		       i->opcode == 0x6f || i->opcode == 0x7f || i->opcode == 0xe7);

	if (i->map == 2 && i->opcode == 0x2a)
		strict = true;
	if (!strict && c->vendor == VENDOR_AMD && (cpu_fp(c)->mxcsr & MXCSR_MM))
		return EMUL_CONTINUE;
	return cpu_gp(c, 0);
}

static always_inline enum emul vec_linear(struct cpu *c, const struct insn *i,
					  const struct fp_stub *s, unsigned n, bool write,
					  gva_t *lin)
{
	enum emul r = mem_linear(c, i, n, write, lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (unlikely((s->flags & STUB_ALIGN) && (*lin & 15)))
		return vec_misaligned(c, i);
	return EMUL_CONTINUE;
}

static always_inline enum emul vec_read(struct cpu *c, const struct insn *i,
					const struct fp_stub *s, struct vec_buf *buf)
{
	unsigned n = i->opnd[s->mem_opnd].size;
	gva_t lin;
	enum emul r = vec_linear(c, i, s, n, false, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return mmu_read(&c->mmu, lin, buf->b, n, insn_acc(i));
}

static always_inline enum emul vec_write(struct cpu *c, const struct insn *i,
					 const struct fp_stub *s,
					 const struct vec_buf *buf)
{
	unsigned n = i->opnd[s->mem_opnd].size;
	gva_t lin;
	enum emul r = vec_linear(c, i, s, n, true, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return mmu_write(&c->mmu, lin, buf->b, n, insn_acc(i));
}

/* --- MMX ---------------------------------------------------------------------- */

/* A written MMX register has its exponent bits set. */
static void mmx_written(u8 *home)
{
	home[8] = home[9] = 0xff;
}

/* --- handlers ------------------------------------------------------------------ */

static enum emul op_vec_reg(struct cpu *c, const struct insn *i)
{
	const struct fp_stub *s = vec_stub(i);
	enum emul r = fp_check_sse(c);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	s->load(vec_home(c, s->reg_kind, vec_reg_number(i)),
		vec_home(c, s->rm_kind, vec_rm_number(i)), vec_body(s, i), NULL);
	return EMUL_CONTINUE;
}

static enum emul op_vec_load(struct cpu *c, const struct insn *i)
{
	const struct fp_stub *s = vec_stub(i);
	enum emul r = fp_check_sse(c);
	struct vec_buf buf;

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = vec_read(c, i, s, &buf);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	s->load(vec_home(c, s->reg_kind, vec_reg_number(i)), buf.b, vec_body(s, i), NULL);
	return EMUL_CONTINUE;
}

static enum emul op_vec_store(struct cpu *c, const struct insn *i)
{
	const struct fp_stub *s = vec_stub(i);
	enum emul r = fp_check_sse(c);
	struct vec_buf buf;

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	s->load(vec_home(c, s->reg_kind, vec_reg_number(i)), buf.b, vec_body(s, i), NULL);
	return vec_write(c, i, s, &buf);
}

/* Does @i touch the x87 state?  CVTPI2PS from memory does on Intel's processors. */
static bool vec_is_mmx(const struct cpu *c, const struct insn *i, const struct fp_stub *s)
{
	if (i->op == OP_CVTPI2PS && s->rm_kind == STUB_MEM && c->vendor == VENDOR_AMD)
		return false;
	return s->flags & STUB_MMX;
}

static enum emul vec_check(struct cpu *c, const struct fp_stub *s, bool mmx)
{
	enum emul r = EMUL_CONTINUE;

	if (s->flags & STUB_SSE)
		r = fp_check_sse(c);
	if (r == EMUL_CONTINUE && mmx)
		r = fp_check_mmx(c);
	return r;
}

/* Copy the operand at @home to @tmp if there is one; the copy is what the stub sees. */
static u8 *vec_copy(struct vec_buf *tmp, const u8 *home, unsigned kind)
{
	if (!home)
		return NULL;
	memcpy(tmp->b, home, vec_home_bytes(kind));
	return tmp->b;
}

static enum emul op_vec_any(struct cpu *c, const struct insn *i)
{
	const struct fp_stub *s = vec_stub(i);
	u8 *reg = vec_home(c, s->reg_kind, vec_reg_number(i));
	u8 *rm = vec_home(c, s->rm_kind, vec_rm_number(i));
	struct vec_buf reg_buf, rm_buf;
	u64 rflags = 0;
	bool mmx = vec_is_mmx(c, i, s);
	enum emul r = vec_check(c, s, mmx);
	u8 *reg_arg, *rm_arg;

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (s->rm_kind == STUB_MEM && (s->flags & STUB_RRM)) {
		r = vec_read(c, i, s, &rm_buf);
		if (unlikely(r != EMUL_CONTINUE))
			return r;
	}
	reg_arg = vec_copy(&reg_buf, reg, s->reg_kind);
	rm_arg = s->rm_kind == STUB_MEM ? rm_buf.b : vec_copy(&rm_buf, rm, s->rm_kind);
	if (s->flags & STUB_FPEXC) {
		u32 raised =
			fp_except_run(c, s, reg_arg, rm_arg, vec_body(s, i), &rflags);

		if (raised)
			r = fp_except_raise(c, raised);
		/* The x87 state changes even if the exception stops the instruction. */
		if (r != EMUL_CONTINUE && mmx)
			fp_enter_mmx(cpu_fp(c));
	} else {
		s->load(reg_arg, rm_arg, vec_body(s, i), &rflags);
	}
	if (r == EMUL_CONTINUE && s->rm_kind == STUB_MEM && (s->flags & STUB_WRM))
		r = vec_write(c, i, s, &rm_buf);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (s->flags & STUB_EFLAGS)
		c->aflags = rflags & RF_ARITH;
	if (s->flags & STUB_WREG) {
		memcpy(reg, reg_arg, vec_home_bytes(s->reg_kind));
		if (s->reg_kind == STUB_MM)
			mmx_written(reg);
	}
	if ((s->flags & STUB_WRM) && rm) {
		memcpy(rm, rm_arg, vec_home_bytes(s->rm_kind));
		if (s->rm_kind == STUB_MM)
			mmx_written(rm);
	}
	if (mmx)
		fp_enter_mmx(cpu_fp(c));
	return EMUL_CONTINUE;
}

static enum emul op_emms(struct cpu *c, const struct insn *i)
{
	enum emul r = fp_check_mmx(c);

	(void)i;
	if (r != EMUL_CONTINUE)
		return r;
	fp_enter_mmx(cpu_fp(c));
	cpu_fp(c)->ftw = 0;
	return EMUL_CONTINUE;
}

op_fn vec_select(const struct insn *i)
{
	const struct fp_stub *s = vec_stub(i);

	if (i->op == OP_EMMS)
		return op_emms;
	if (!s->body)
		return NULL;
	if (s->flags & (STUB_MMX | STUB_FPEXC | STUB_EFLAGS))
		return op_vec_any;
	if (s->rm_kind != STUB_MEM)
		return op_vec_reg;
	return s->flags & STUB_WRM ? op_vec_store : op_vec_load;
}
