/* SPDX-License-Identifier: MIT */
/*
 * A tiny machine for tests of the processor: RAM, page tables, GDT, IDT, TSS,
 * one or more vCPUs in 64-bit mode, and an owner that records what it is asked.
 *
 *   0x001000  page tables (identity, 4 KiB pages below 2 MiB, 2 MiB above)
 *   0x008000  GDT   0x009000  IDT   0x00a000  TSS   0x00b000  I/O bitmap's end
 *   0x010000  vector stubs: 16 bytes each, HLT
 *   0x020000  top of the stack of privilege 0 (grows down from here)
 *   0x030000  code    0x040000  data    0x060000  user stack top
 * Everything is mapped user, writable and executable; machine_pte() changes it.
 *
 * A case: machine_init(); machine_code(); set registers; machine_run(); look.
 * An exception ends in a stub: machine_run() returns its vector.
 */
#ifndef LOCUM_TESTS_UNIT_CPU_MACHINE_H
#define LOCUM_TESTS_UNIT_CPU_MACHINE_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "cpu/cpuid.h"
#include "cpu/cr.h"
#include "cpu/exc.h"
#include "cpu/interp.h"
#include "cpu/reset.h"
#include "cpu/seg.h"
#include "cpu/state.h"
#include "hide.h"
#include "jit/jit_int.h"

#define M_RAM_BYTES (16u << 20)
#define M_PML4	    0x1000
#define M_PDPT	    0x2000
#define M_PD	    0x3000
#define M_PT	    0x4000
#define M_GDT	    0x8000
#define M_IDT	    0x9000
#define M_TSS	    0xa000
#define M_STUBS	    0x10000
#define M_STACK	    0x20000
#define M_CODE	    0x30000
#define M_DATA	    0x40000
#define M_USTACK    0x60000

/* Selectors. */
#define M_CS0  0x08
#define M_DS0  0x10
#define M_CS32 0x18 /* 32-bit code, DPL 0 */
#define M_CS3  0x33
#define M_DS3  0x2b
#define M_TR   0x40

/* machine_run(): no exception. */
#define M_HALT	 (-1) /* HLT outside the stubs */
#define M_IO	 (-2)
#define M_EVENT	 (-3)
#define M_DEBUG	 (-4)
#define M_SHUT	 (-5)
#define M_ERROR	 (-6)

struct machine_vcpu {
	struct cpu c;
	struct vcpu_stats stats;
	struct machine *m;
	/* What the fakes saw and what they answer. */
	u16 port;
	unsigned port_size, port_count, pio_calls, commits, event_checks;
	bool port_out;
	u32 port_data;	/* OUT: seen; IN: answered */
	bool refuse_io; /* pio and mmio answer EMUL_IO */
	u64 disabled_quirks;
	unsigned mmio_calls;
	gpa_t mmio_gpa;
	u64 mmio_data;
};

struct machine {
	u8 *ram;
	struct mem *mem;
	unsigned nvcpus;
	struct machine_vcpu *vcpu;
};

static inline struct machine_vcpu *m_of(struct cpu *c)
{
	return CONTAINER_OF(c, struct machine_vcpu, c);
}

static enum emul m_pio(struct cpu *c, u16 port, unsigned size, void *data, unsigned *count,
		       bool out)
{
	struct machine_vcpu *v = m_of(c);

	v->pio_calls++;
	if (v->refuse_io)
		return EMUL_IO;
	v->port = port;
	v->port_size = size;
	v->port_count = *count;
	v->port_out = out;
	if (out)
		memcpy(&v->port_data, data, size);
	else
		for (unsigned i = 0; i < *count; i++)
			memcpy((u8 *)data + i * size, &v->port_data, size);
	return EMUL_CONTINUE;
}

static enum emul m_mmio(struct mmu *m, gpa_t gpa, void *data, unsigned n, bool write)
{
	struct machine_vcpu *v = m_of(CONTAINER_OF(m, struct cpu, mmu));

	v->mmio_calls++;
	if (v->refuse_io)
		return EMUL_IO;
	v->mmio_gpa = gpa;
	if (write)
		memcpy(&v->mmio_data, data, n);
	else
		memcpy(data, &v->mmio_data, n);
	__atomic_fetch_or((u32 *)&v->c.attn, ATTN_COMMIT, __ATOMIC_RELAXED);
	return EMUL_CONTINUE;
}

static enum emul m_rdmsr(struct cpu *c, u32 index, u64 *value)
{
	(void)index, (void)value;
	return cpu_gp(c, 0);
}

static enum emul m_wrmsr(struct cpu *c, u32 index, u64 value)
{
	(void)index, (void)value;
	return cpu_gp(c, 0);
}

static bool m_msr_filtered(struct cpu *c, u32 index, bool write)
{
	(void)c, (void)index, (void)write;
	return false;
}

static enum emul m_hypercall(struct cpu *c)
{
	c->gpr[R_RAX] = ~0ull;
	return EMUL_CONTINUE;
}

static u64 m_get_cr8(struct cpu *c)
{
	return c->cr8;
}

static void m_set_cr8(struct cpu *c, u64 v)
{
	c->cr8 = v;
}

static void m_event_check(struct cpu *c)
{
	m_of(c)->event_checks++;
}

static void m_commit(struct cpu *c)
{
	m_of(c)->commits++;
}

static u64 m_apic_base(struct cpu *c)
{
	(void)c;
	return 0xfee00900;
}

static u64 m_disabled_quirks(const struct cpu *c)
{
	return CONTAINER_OF(c, struct machine_vcpu, c)->disabled_quirks;
}

static const struct cpu_ops m_cpu_ops = {
	.pio = m_pio,
	.rdmsr = m_rdmsr,
	.wrmsr = m_wrmsr,
	.msr_filtered = m_msr_filtered,
	.hypercall = m_hypercall,
	.get_cr8 = m_get_cr8,
	.set_cr8 = m_set_cr8,
	.event_check = m_event_check,
	.commit = m_commit,
	.apic_base = m_apic_base,
	.disabled_quirks = m_disabled_quirks,
};

static const struct mmu_ops m_mmu_ops = { .mmio = m_mmio };

static void m_code_write(void *opaque, struct bpage *bp, unsigned off, unsigned n)
{
	struct machine *m = opaque;

	if (!icache_code_write(bp, off, n))
		return;
	m->mem->code_changes++;
	for (unsigned i = 0; i < m->nvcpus; i++)
		atomic_fetch_or(&m->vcpu[i].c.attn, ATTN_CODE);
}

static const struct mem_ops m_mem_ops = { .code_write = m_code_write };

static inline void m_put64(struct machine *m, gpa_t at, u64 v)
{
	memcpy(m->ram + at, &v, 8);
}

static inline u64 m_get64(const struct machine *m, gpa_t at)
{
	u64 v;

	memcpy(&v, m->ram + at, 8);
	return v;
}

/** machine_pte() - the page-table entry of @gva below 2 MiB; flush after changes */
static inline u64 *machine_pte(struct machine *m, gva_t gva)
{
	return (u64 *)(void *)(m->ram + M_PT + (gva >> 12) * 8);
}

static void m_tables(struct machine *m)
{
	m_put64(m, M_PML4, M_PDPT | 7);
	m_put64(m, M_PDPT, M_PD | 7);
	m_put64(m, M_PD, M_PT | 7);
	for (u64 i = 1; i < 512; i++)
		m_put64(m, M_PD + i * 8, i << 21 | 0x87);
	for (u64 i = 0; i < 512; i++)
		m_put64(m, M_PT + i * 8, i << 12 | 7);
	m_put64(m, M_GDT + M_CS0, 0x00af9b000000ffff);
	m_put64(m, M_GDT + M_DS0, 0x00cf93000000ffff);
	m_put64(m, M_GDT + M_CS32, 0x00cf9b000000ffff);
	m_put64(m, M_GDT + (M_DS3 & ~7), 0x00cff3000000ffff);
	m_put64(m, M_GDT + (M_CS3 & ~7), 0x00affb000000ffff);
	m_put64(m, M_GDT + M_TR, 0x00008b0000000067 | (u64)(M_TSS & 0xffffff) << 16);
	for (u64 v = 0; v < 256; v++) {
		u64 stub = M_STUBS + v * 16;

		m_put64(m, M_IDT + v * 16,
			(stub & 0xffff) | M_CS0 << 16 | 0x8e00ull << 32 | (stub >> 16) << 48);
		m->ram[stub] = 0xf4;
	}
	m_put64(m, M_TSS + 4, M_STACK); /* RSP0 */
	m->ram[M_TSS + 102] = 0x68;
}

static inline void m_seg(struct cpu *c, unsigned seg, u16 sel, u32 attr)
{
	c->seg[seg] = (struct segment){ .limit = 0xffffffff, .attr = attr, .sel = sel };
}

/** machine_privilege() - run at privilege 0 or 3, with the stack of either */
static inline void machine_privilege(struct cpu *c, unsigned cpl)
{
	m_seg(c, SEG_CS, cpl ? M_CS3 : M_CS0, cpl ? 0xa0fb : 0xa09b);
	for (unsigned s = 0; s < 6; s++)
		if (s != SEG_CS)
			m_seg(c, s, cpl ? M_DS3 : M_DS0, cpl ? 0xc0f3 : 0xc093);
	mmu_set_cpl(&c->mmu, cpl);
	c->gpr[R_RSP] = cpl ? M_USTACK : M_STACK;
	cpu_update_mode(c);
}

/** machine_reset() - 64-bit mode, privilege 0, registers 0, rip at M_CODE */
static inline void machine_reset(struct machine_vcpu *v)
{
	struct cpu *c = &v->c;

	cpu_reset(c, false);
	cr_load_sregs(c, CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG, M_PML4,
		      CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT,
		      EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE);
	memset(c->gpr, 0, sizeof(c->gpr));
	machine_privilege(c, 0);
	c->gdtr = (struct desc_table){ .base = M_GDT, .limit = 0x4f };
	c->idtr = (struct desc_table){ .base = M_IDT, .limit = 0xfff };
	c->seg[SEG_TR] = (struct segment){ .base = M_TSS, .limit = 0x67, .attr = 0x8b, .sel = M_TR };
	c->seg[SEG_LDTR] = (struct segment){ .attr = SEG_UNUSABLE };
	cpu_put_rflags(c, RF_ONE);
	c->rip = M_CODE;
	c->halted = c->shutdown = false;
}

/* With LOCUM_TEST_ENGINE=jit in the environment the translator runs the code,
 * from its first execution. */
static inline bool m_translator(struct cpu *c)
{
	const char *engine = getenv("LOCUM_TEST_ENGINE");

	if (!engine || strcmp(engine, "jit"))
		return true;
	if (!jit_supported()) /* with features hidden */
		return true;
	if (jit_init(c, true, false))
		return false;
	c->translator->hot = 1;
	return true;
}

/** machine_init() - @nvcpus vCPUs; false: no memory */
static inline bool machine_init(struct machine *m, unsigned nvcpus)
{
	static const struct tlb_config tlb = { .spaces = 4 };
	struct kvm_userspace_memory_region r = { .memory_size = M_RAM_BYTES };

	test_hide();
	memset(m, 0, sizeof(*m));
	m->nvcpus = nvcpus;
	m->ram = mmap(NULL, M_RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	m->mem = mem_create(&m_mem_ops, m);
	m->vcpu = aligned_alloc(64, ALIGN_UP(nvcpus * sizeof(*m->vcpu), 64));
	if (m->ram == MAP_FAILED || !m->mem || !m->vcpu)
		return false;
	memset(m->vcpu, 0, nvcpus * sizeof(*m->vcpu));
	r.userspace_addr = (u64)(uintptr_t)m->ram;
	if (mem_set_region(m->mem, &r))
		return false;
	m_tables(m);
	for (unsigned i = 0; i < nvcpus; i++) {
		struct machine_vcpu *v = &m->vcpu[i];

		v->m = m;
		v->c.ops = &m_cpu_ops;
		v->c.clock = clock_host();
		v->c.stats = &v->stats;
		if (mmu_init(&v->c.mmu, m->mem, &m_mmu_ops, &v->c.attn, &tlb) ||
		    cpu_init(&v->c) || interp_init(&v->c, NULL) || !m_translator(&v->c))
			return false;
		machine_reset(v);
	}
	return true;
}

static inline void machine_fini(struct machine *m)
{
	for (unsigned i = 0; i < m->nvcpus; i++) {
		jit_fini(&m->vcpu[i].c);
		interp_fini(&m->vcpu[i].c);
		cpu_fini(&m->vcpu[i].c);
		mmu_fini(&m->vcpu[i].c.mmu);
	}
	mem_destroy(m->mem);
	munmap(m->ram, M_RAM_BYTES);
	free(m->vcpu);
}

/** machine_code() - put @n bytes at @at, as the client would: seen at the next run */
static inline void machine_code(struct machine *m, gpa_t at, const void *bytes, unsigned n)
{
	memcpy(m->ram + at, bytes, n);
	mem_epoch_bump(m->mem);
}

/** machine_run() - run vCPU 0.. until something happens
 * Return: a vector, if its stub was reached; M_* otherwise. */
static inline int machine_run(struct machine_vcpu *v)
{
	struct cpu *c = &v->c;
	enum engine_exit exit;

	c->halted = false;
	mmu_enter_guest(&c->mmu);
	exit = (c->translator ? &engine_jit : &engine_interp)->run(c);
	mmu_exit_guest(&c->mmu);
	switch (exit) {
	case ENGINE_HALT:
		if (c->rip > M_STUBS && c->rip < M_STUBS + 256 * 16)
			return (int)(c->rip - M_STUBS) / 16;
		return M_HALT;
	case ENGINE_IO:
		return M_IO;
	case ENGINE_EVENT:
		return M_EVENT;
	case ENGINE_DEBUG:
		return M_DEBUG;
	case ENGINE_SHUTDOWN:
		return M_SHUT;
	default:
		return M_ERROR;
	}
}

/** machine_step() - one instruction of vCPU @v; as machine_run(), M_EVENT: done.
 * An exception is delivered, its stub not executed: rip tells. */
static inline int machine_step(struct machine_vcpu *v)
{
	struct cpu *c = &v->c;
	enum engine_exit exit = ENGINE_EVENT;
	bool on;

	mmu_enter_guest(&c->mmu);
	on = c->translator ? jit_step(c, 1, &exit) : interp_step(c, &exit);
	mmu_exit_guest(&c->mmu);
	if (!on)
		return exit == ENGINE_IO ? M_IO : exit == ENGINE_DEBUG ? M_DEBUG : M_ERROR;
	if (c->rip >= M_STUBS && c->rip < M_STUBS + 256 * 16)
		return (int)(c->rip - M_STUBS) / 16;
	return M_EVENT;
}

/** machine_frame() - word @n of the frame that an exception pushed: 0 the error
 * code or RIP */
static inline u64 machine_frame(const struct machine_vcpu *v, unsigned n)
{
	return m_get64(v->m, v->c.gpr[R_RSP] + n * 8);
}

#endif
