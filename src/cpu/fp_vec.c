/* SPDX-License-Identifier: MIT */
/*
 * MMX, SSE and AVX instructions, executed by the host's own through stubs.
 *
 * The common forms (vector registers, memory source, memory destination, no
 * floating-point exception) have handlers of their own; op_vec_any() is for
 * everything else.  Results that an exception can forbid go to a copy first.
 */
#include <string.h>

#include "cpu/fp_except.h"
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
	unsigned key = i->row * 8 + (i->vl == 32 ? 4 : 0) + (i->rex & 8 ? 2 : 0) +
		       (i->flags & INSN_MEM ? 1 : 0);

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
 * that for all but the aligned moves and non-temporal accesses; SHA does not care
 * on AMD's processors.
 */
static noinline enum emul vec_misaligned(struct cpu *c, const struct insn *i)
{
	bool strict = i->map == 1 &&
		      (i->opcode == 0x28 || i->opcode == 0x29 || i->opcode == 0x2b ||
		       i->opcode == 0x6f || i->opcode == 0x7f || i->opcode == 0xe7);

	if (i->map == 2 && i->opcode == 0x2a)
		strict = true;
	if (!strict && c->vendor == VENDOR_AMD &&
	    ((cpu_fp(c)->mxcsr & MXCSR_MM) || insn_row(i->row)->feature == FEAT_SHA))
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
	if (unlikely((s->flags & STUB_ALIGN) && (*lin & (n - 1))))
		return s->flags & STUB_AVX ? cpu_gp(c, 0) : vec_misaligned(c, i);
	return EMUL_CONTINUE;
}

/* Of all operands of 8 bytes Intel's processors let those of half precision be
 * unaligned where alignment is checked. */
static always_inline unsigned vec_acc(const struct cpu *c, const struct insn *i)
{
	bool half = i->op == OP_VCVTPH2PS || i->op == OP_VCVTPS2PH;
	bool any = unlikely(half) && c->vendor == VENDOR_INTEL;

	return insn_acc(i) | (any ? ACC_ANY_ALIGN : 0);
}

static always_inline enum emul vec_read(struct cpu *c, const struct insn *i,
					const struct fp_stub *s, struct vec_buf *buf)
{
	unsigned n = i->opnd[s->mem_opnd].size;
	gva_t lin;
	enum emul r = vec_linear(c, i, s, n, false, &lin);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	return mmu_read(&c->mmu, lin, buf->b, n, vec_acc(c, i));
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
	return mmu_write(&c->mmu, lin, buf->b, n, vec_acc(c, i));
}

/* Would vec_write() fault?  Intel's processors do not ask. */
static enum emul vec_probe(struct cpu *c, const struct insn *i, const struct fp_stub *s)
{
	unsigned n = i->opnd[s->mem_opnd].size;
	gva_t lin;
	enum emul r;

	if (c->vendor == VENDOR_INTEL)
		return EMUL_CONTINUE;
	r = vec_linear(c, i, s, n, true, &lin);
	return r == EMUL_CONTINUE ? mmu_probe_write(&c->mmu, lin, n, insn_acc(i)) : r;
}

/* --- MMX ---------------------------------------------------------------------- */

/* A written MMX register has its exponent bits set. */
static void mmx_written(u8 *home)
{
	home[8] = home[9] = 0xff;
}

/* --- handlers ------------------------------------------------------------------ */

/* Run @s with reg and r/m at @reg and @rm; what else it reads is the guest's. */
static always_inline void vec_call(struct cpu *c, const struct insn *i,
				   const struct fp_stub *s, u8 *reg, u8 *rm)
{
	struct fp_image *f = cpu_fp(c);

	s->load(reg, rm, vec_body(s, i), NULL, f->xmm[i->vvvv], f->xmm[i->opnd[3].reg]);
}

static always_inline enum emul vec_reg(struct cpu *c, const struct insn *i, enum emul r)
{
	const struct fp_stub *s = vec_stub(i);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_call(c, i, s, vec_home(c, s->reg_kind, vec_reg_number(i)),
		 vec_home(c, s->rm_kind, vec_rm_number(i)));
	return EMUL_CONTINUE;
}

static always_inline enum emul vec_load(struct cpu *c, const struct insn *i, enum emul r)
{
	const struct fp_stub *s = vec_stub(i);
	struct vec_buf buf;

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = vec_read(c, i, s, &buf);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_call(c, i, s, vec_home(c, s->reg_kind, vec_reg_number(i)), buf.b);
	return EMUL_CONTINUE;
}

static always_inline enum emul vec_store(struct cpu *c, const struct insn *i, enum emul r)
{
	const struct fp_stub *s = vec_stub(i);
	struct vec_buf buf;

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_call(c, i, s, vec_home(c, s->reg_kind, vec_reg_number(i)), buf.b);
	return vec_write(c, i, s, &buf);
}

static enum emul op_vec_reg(struct cpu *c, const struct insn *i)
{
	return vec_reg(c, i, fp_check_sse(c));
}

static enum emul op_vec_load(struct cpu *c, const struct insn *i)
{
	return vec_load(c, i, fp_check_sse(c));
}

static enum emul op_vec_store(struct cpu *c, const struct insn *i)
{
	return vec_store(c, i, fp_check_sse(c));
}

static enum emul op_avx_reg(struct cpu *c, const struct insn *i)
{
	return vec_reg(c, i, fp_check_avx(c));
}

static enum emul op_avx_load(struct cpu *c, const struct insn *i)
{
	return vec_load(c, i, fp_check_avx(c));
}

static enum emul op_avx_store(struct cpu *c, const struct insn *i)
{
	return vec_store(c, i, fp_check_avx(c));
}

/* Does @i touch the x87 state?  CVTPI2PS from memory does not, on either maker's
 * processors, though the manuals say so of its register form alone. */
static bool vec_is_mmx(const struct insn *i, const struct fp_stub *s)
{
	if (i->op == OP_CVTPI2PS && s->rm_kind == STUB_MEM)
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

/* Copies of the operands of reg and r/m; the copies are what the stub sees. */
struct vec_copies {
	u8 regs[STUB_HIGH + 2 * VEC_BYTES]; /* low halves first */
	struct vec_buf mem;
};

static void vec_copy(u8 *to, const u8 *from, unsigned kind, bool avx)
{
	memcpy(to, from, vec_home_bytes(kind));
	if (avx && kind == STUB_XMM)
		memcpy(to + STUB_HIGH, from + STUB_HIGH, VEC_BYTES);
}

/* Bring in the operands of @i.  Return: as the read of a memory operand. */
static enum emul vec_fetch(struct cpu *c, const struct insn *i, const struct fp_stub *s,
			   struct vec_copies *k, struct fp_args *a)
{
	u8 *reg = vec_home(c, s->reg_kind, vec_reg_number(i));
	u8 *rm = vec_home(c, s->rm_kind, vec_rm_number(i));
	bool avx = s->flags & STUB_AVX;

	*a = (struct fp_args){
		.reg = k->regs,
		.rm = s->rm_kind == STUB_MEM ? k->mem.b : k->regs + VEC_BYTES,
		.vvvv = cpu_fp(c)->xmm[i->vvvv],
		.extra = cpu_fp(c)->xmm[i->opnd[3].reg],
		.body = vec_body(s, i),
	};
	if (reg)
		vec_copy(a->reg, reg, s->reg_kind, avx);
	if (rm)
		vec_copy(a->rm, rm, s->rm_kind, avx);
	if (s->rm_kind == STUB_MEM && (s->flags & STUB_RRM))
		return vec_read(c, i, s, &k->mem);
	return EMUL_CONTINUE;
}

/* Store the copies that were written. */
static void vec_commit(struct cpu *c, const struct insn *i, const struct fp_stub *s,
		       const struct fp_args *a)
{
	u8 *reg = vec_home(c, s->reg_kind, vec_reg_number(i));
	u8 *rm = vec_home(c, s->rm_kind, vec_rm_number(i));
	bool avx = s->flags & STUB_AVX;

	if (s->flags & STUB_EFLAGS)
		c->aflags = a->rflags & RF_ARITH;
	if (s->flags & STUB_WREG) {
		vec_copy(reg, a->reg, s->reg_kind, avx);
		if (s->reg_kind == STUB_MM)
			mmx_written(reg);
	}
	if ((s->flags & STUB_WRM) && rm) {
		vec_copy(rm, a->rm, s->rm_kind, avx);
		if (s->rm_kind == STUB_MM)
			mmx_written(rm);
	}
}

static enum emul op_vec_any(struct cpu *c, const struct insn *i)
{
	const struct fp_stub *s = vec_stub(i);
	struct vec_copies k;
	struct fp_args a;
	u32 raised = 0;
	bool mmx = vec_is_mmx(i, s);
	enum emul r = s->flags & STUB_AVX ? fp_check_avx(c) : vec_check(c, s, mmx);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	r = vec_fetch(c, i, s, &k, &a);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (s->flags & STUB_FPEXC)
		raised = fp_except_run(c, i, s, &a);
	else
		s->load(a.reg, a.rm, a.body, &a.rflags, a.vvvv, a.extra);
	if (s->rm_kind == STUB_MEM && (s->flags & STUB_WRM)) {
		/* A store that faults comes first.  Intel's processors have changed
		 * MXCSR, or x87's TOP, by then. */
		r = fp_except_stops(c, raised) ? vec_probe(c, i, s)
					       : vec_write(c, i, s, &k.mem);
		if (unlikely(r == EMUL_FAULT)) {
			if (c->vendor == VENDOR_INTEL)
				cpu_fp(c)->mxcsr |= raised;
			if (mmx)
				fp_mmx_store_faults(c);
		}
		if (unlikely(r != EMUL_CONTINUE))
			return r;
	}
	if (raised)
		r = fp_except_raise(c, raised);
	/* The x87 state changes even if the exception stops the instruction. */
	if (r != EMUL_CONTINUE && mmx)
		fp_enter_mmx(cpu_fp(c));
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	vec_commit(c, i, s, &a);
	if (mmx)
		fp_enter_mmx(cpu_fp(c));
	return EMUL_CONTINUE;
}

/* PCMPESTRI, PCMPESTRM, PCMPISTRI, PCMPISTRM: the result is in ECX or XMM0, and in
 * the flags. */
static enum emul op_string(struct cpu *c, const struct insn *i)
{
	const struct fp_stub *s = vec_stub(i);
	struct fp_image *f = cpu_fp(c);
	struct fp_string str = { .rax = c->gpr[R_RAX], .rdx = c->gpr[R_RDX] };
	struct vec_buf buf;
	enum emul r = vec_check_vex(c, i);

	if (unlikely(r != EMUL_CONTINUE))
		return r;
	if (s->rm_kind == STUB_MEM)
		r = vec_read(c, i, s, &buf);
	else
		memcpy(buf.b, f->xmm[vec_rm_number(i)], VEC_BYTES);
	if (unlikely(r != EMUL_CONTINUE))
		return r;
	fp_string_call(f->xmm[vec_reg_number(i)], buf.b, vec_body(s, i), &str);
	c->aflags = str.flags & RF_ARITH;
	if (i->opcode & 1) {
		c->gpr[R_RCX] = (u32)str.rcx;
		return EMUL_CONTINUE;
	}
	memcpy(f->xmm[0], str.xmm0, VEC_BYTES);
	if (i->vl)
		memset(f->ymmh[0], 0, VEC_BYTES);
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
	if (s->flags & STUB_STR)
		return op_string;
	if (s->flags & (STUB_MMX | STUB_FPEXC | STUB_EFLAGS))
		return op_vec_any;
	if (s->rm_kind != STUB_MEM)
		return s->flags & STUB_AVX ? op_avx_reg : op_vec_reg;
	if (s->flags & STUB_WRM)
		return s->flags & STUB_AVX ? op_avx_store : op_vec_store;
	return s->flags & STUB_AVX ? op_avx_load : op_vec_load;
}
