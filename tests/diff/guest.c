/* SPDX-License-Identifier: MIT */
/*
 * Our side: one vCPU at CPL 3 in long mode, with the same addresses mapped the
 * same way.  Faults are delivered through an IDT whose gates lead to different
 * addresses; what happened is read from the frame on the ring-0 stack.
 *
 * Guest-physical memory: 0 tables and kernel pages, then code, then data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/cpuid.h"
#include "cpu/hostcpu.h"
#include "cpu/cr.h"
#include "cpu/fp.h"
#include "cpu/hostcpu.h"
#include "cpu/interp.h"
#include "jit/jit.h"
#include "cpu/reset.h"
#include "diff.h"

#define RAM_PAGES   64u
#define PAGE_PML4   1u
#define PAGE_GDT    2u
#define PAGE_IDT    3u
#define PAGE_TSS    4u
#define PAGE_STACK  5u
#define PAGE_TABLES 8u /* page tables are taken from here */
#define PAGE_CODE   32u
#define PAGE_DATA   40u
#define KERNEL	    0xffffc00000000000ull /* the guest's RAM, supervisor only */
#define HANDLERS    0xffff900000000000ull /* entry points: never executed */
#define STACK_TOP   (KERNEL + (PAGE_STACK + 1) * 4096)

#define PTE_P  1ull
#define PTE_W  2ull
#define PTE_U  4ull
#define PTE_NX (1ull << 63)

#define SEL_KERNEL_CS 0x10
#define SEL_USER_SS   0x2b /* as Linux has them: instructions can see selectors */
#define SEL_USER_CS   0x33
#define SEL_TSS	      0x40
#define MAX_STEPS     200 /* a repeat may take several */

static u8 *ram;
static struct mem *mem;
static struct cpu *cpu;
static unsigned next_table = PAGE_TABLES;
static const struct segment user_cs = { .limit = ~0u, .sel = SEL_USER_CS, .attr = 0xa0fb };
static const struct segment user_ss = { .limit = ~0u, .sel = SEL_USER_SS, .attr = 0xc0f3 };
static const struct segment null_seg = { .attr = SEG_UNUSABLE };

static u64 *page_at(unsigned page)
{
	return (u64 *)(void *)(ram + page * 4096ul);
}

/* The entry of @va at the lowest level; tables are made on the way. */
static u64 *pte_of(u64 va)
{
	u64 *table = page_at(PAGE_PML4);

	for (unsigned level = 4; level > 1; level--) {
		u64 *e = &table[va >> (12 + 9 * (level - 1)) & 511];

		if (!*e)
			*e = next_table++ * 4096ull | PTE_P | PTE_W | PTE_U;
		table = (u64 *)(void *)(ram + (*e & 0xfffffffff000ull));
	}
	return &table[va >> 12 & 511];
}

static void map_data(u64 area)
{
	for (unsigned p = 0; p < DATA_SPAN; p++)
		if (p != DATA_HOLE)
			*pte_of(area + (DATA_FIRST + p) * 4096) =
				(PAGE_DATA + p) * 4096ull | PTE_P | PTE_U | PTE_NX |
				(p == DATA_RO ? 0 : PTE_W);
}

static void build_tables(void)
{
	for (unsigned p = 0; p < CODE_PAGES; p++)
		*pte_of(CODE_VA + p * 4096) = (PAGE_CODE + p) * 4096ull | PTE_P | PTE_U;
	map_data(DIFF_HIGH);
	map_data(DIFF_LOW);
	for (unsigned p = 0; p < RAM_PAGES; p++)
		*pte_of(KERNEL + p * 4096ull) = p * 4096ull | PTE_P | PTE_W | PTE_NX;
}

/* Gates of 16 bytes; those of #BP and #OF may be used by INT3 and INTO. */
static void build_idt(void)
{
	for (unsigned v = 0; v < 256; v++) {
		u64 to = HANDLERS + v * 16, dpl = v == 3 || v == 4 ? 3 : 0;
		u64 *gate = page_at(PAGE_IDT) + v * 2;

		gate[0] = (to & 0xffff) | SEL_KERNEL_CS << 16 | (0x8eull | dpl << 5) << 40 |
			  (to >> 16 & 0xffff) << 48;
		gate[1] = to >> 32;
	}
}

static void build_descriptors(void)
{
	u64 *gdt = page_at(PAGE_GDT);
	u64 rsp0 = STACK_TOP;

	gdt[SEL_KERNEL_CS / 8] = 0x00af9b000000ffff;
	gdt[SEL_KERNEL_CS / 8 + 1] = 0x00cf93000000ffff;
	gdt[SEL_USER_SS / 8] = 0x00cff3000000ffff;
	gdt[SEL_USER_CS / 8] = 0x00affb000000ffff;
	memcpy(ram + PAGE_TSS * 4096ul + 4, &rsp0, 8);
	ram[PAGE_TSS * 4096ul + 102] = 104; /* I/O bitmap beyond the limit: none */
	build_idt();
}

/* --- the vCPU ------------------------------------------------------------------------- */

static enum emul no_mmio(struct mmu *m, gpa_t gpa, void *data, unsigned n, bool write)
{
	(void)m;
	(void)gpa;
	(void)data;
	(void)n;
	(void)write;
	fprintf(stderr, "diff: guest left its memory\n");
	exit(2);
}

static enum emul no_pio(struct cpu *c, u16 port, unsigned size, void *data, unsigned *count,
			bool out)
{
	(void)c;
	(void)port;
	(void)data;
	(void)count;
	(void)out;
	(void)size;
	fprintf(stderr, "diff: guest reached a port\n");
	exit(2);
}

static enum emul no_rdmsr(struct cpu *c, u32 index, u64 *value)
{
	(void)index;
	(void)value;
	return cpu_gp(c, 0);
}

static enum emul no_wrmsr(struct cpu *c, u32 index, u64 value)
{
	(void)index;
	(void)value;
	return cpu_gp(c, 0);
}

static bool no_filter(struct cpu *c, u32 index, bool write)
{
	(void)c;
	(void)index;
	(void)write;
	return false;
}

static enum emul no_hypercall(struct cpu *c)
{
	return cpu_ud(c);
}

static u64 zero_get(struct cpu *c)
{
	(void)c;
	return 0;
}

static void ignore_set(struct cpu *c, u64 v)
{
	(void)c;
	(void)v;
}

static void ignore(struct cpu *c)
{
	(void)c;
}

static const struct mmu_ops mmu_ops = { .mmio = no_mmio };
static const struct cpu_ops cpu_ops = {
	.pio = no_pio,
	.rdmsr = no_rdmsr,
	.wrmsr = no_wrmsr,
	.msr_filtered = no_filter,
	.hypercall = no_hypercall,
	.get_cr8 = zero_get,
	.set_cr8 = ignore_set,
	.event_check = ignore,
	.commit = ignore,
	.apic_base = zero_get,
};

static void code_write(void *opaque, struct bpage *bp, unsigned off, unsigned n)
{
	(void)opaque;
	(void)icache_code_write(bp, off, n);
}

static const struct mem_ops mem_ops = { .code_write = code_write };

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "diff: cannot set up the guest: %s\n", what);
	exit(2);
}

static void create_memory(void)
{
	ram = mmap(NULL, RAM_PAGES * 4096ul, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(ram != MAP_FAILED, "mmap");
	mem = mem_create(&mem_ops, NULL);
	check(mem, "mem_create");
	struct kvm_userspace_memory_region r = { .memory_size = RAM_PAGES * 4096ul,
						 .userspace_addr = (u64)(uintptr_t)ram };

	check(!mem_set_region(mem, &r), "mem_set_region");
	build_tables();
	build_descriptors();
}

static void create_cpuid(void)
{
	static struct kvm_cpuid_entry2 e[CPUID_MAX_ENTRIES];
	struct cpuid_offer offer = { .vendor = -1, .tsc_khz = 1000000 };
	unsigned n = cpuid_supported(&offer, e, CPUID_MAX_ENTRIES);

	/* CRC32 comes with SSE4.2, which may not be offered as a whole. */
	for (unsigned k = 0; k < n; k++)
		if (e[k].function == 1)
			e[k].ecx |= BIT(CPUID_SSE42 % 32);
	check(!cpuid_set(cpu, e, n), "cpuid_set");
}

bool guest_offers(unsigned feature)
{
	return hostcpu_runs(feature) && cpuid_has_feature(cpu->cpuid, feature);
}

static void create_cpu(void)
{
	static const struct tlb_config tlb = { .spaces = 4 };
	static const struct icache_config icache;

	cpu = aligned_alloc(64, ALIGN_UP(sizeof(*cpu), 64));
	check(cpu, "memory");
	memset(cpu, 0, sizeof(*cpu));
	cpu->stats = calloc(1, sizeof(*cpu->stats));
	cpu->ops = &cpu_ops;
	cpu->clock = clock_host();
	check(!mmu_init(&cpu->mmu, mem, &mmu_ops, &cpu->attn, &tlb), "mmu_init");
	check(!cpu_init(cpu), "cpu_init");
	create_cpuid();
	check(!interp_init(cpu, &icache), "interp_init");
	if (guest_jit)
		check(!jit_init(cpu, true, false), "jit_init");
	fp_reset(cpu);
	cpu->xcr0 = XFEATURE_X87 | XFEATURE_SSE | (hostcpu()->avx ? XFEATURE_AVX : 0);
	cpu->gdtr = (struct desc_table){ KERNEL + PAGE_GDT * 4096, 0x4f };
	cpu->idtr = (struct desc_table){ KERNEL + PAGE_IDT * 4096, 0xfff };
	for (unsigned n = 0; n < SEG_COUNT; n++)
		cpu->seg[n] = null_seg;
	cpu->seg[SEG_TR] = (struct segment){ .base = KERNEL + PAGE_TSS * 4096, .limit = 103,
					     .attr = SEG_P | 11, .sel = SEL_TSS };
	cpu->seg[SEG_CS] = user_cs;
	cr_load_sregs(cpu, CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_AM | CR0_PG,
		      PAGE_PML4 * 4096,
		      CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT | CR4_UMIP | CR4_OSXSAVE |
			      (native_has_fsgsbase() ? CR4_FSGSBASE : 0),
		      EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE);
	cpu_update_mode(cpu);
}

bool guest_jit;

void guest_init(void)
{
	create_memory();
	cpu = NULL;
	create_cpu();
	mmu_enter_guest(&cpu->mmu);
}

u64 guest_fault(u64 pc)
{
	return jit_fault(cpu, pc);
}

u8 *guest_data(void)
{
	return ram + PAGE_DATA * 4096ul;
}

void guest_set_code(const u8 *code_pages, unsigned from, unsigned n)
{
	mmu_exit_guest(&cpu->mmu);
	check(!mem_write(mem, PAGE_CODE * 4096ull + from, code_pages + from, n), "mem_write");
	mmu_enter_guest(&cpu->mmu);
}

/* --- a case --------------------------------------------------------------------------- */

static void load_state(const struct diff_case *k)
{
	const struct diff_state *s = &k->in;
	struct fp_image *f = cpu_fp(cpu);

	memcpy(cpu->gpr, s->gpr, sizeof(cpu->gpr));
	cpu->rip = k->start;
	cpu_put_rflags(cpu, s->rflags);
	cpu->seg[SEG_CS] = user_cs;
	cpu->seg[SEG_SS] = user_ss;
	for (unsigned n = SEG_DS; n <= SEG_GS; n++)
		cpu->seg[n] = null_seg;
	cpu->seg[SEG_ES] = null_seg;
	cpu->seg[SEG_FS].base = s->fsbase;
	cpu->seg[SEG_GS].base = s->gsbase;
	cpu->shadow = 0;
	cpu->shutdown = cpu->halted = false;
	cpu->event.kind = EVENT_NONE;
	cpu->pending_dbg = 0;
	mmu_set_cpl(&cpu->mmu, 3);
	mmu_set_ac(&cpu->mmu, s->rflags & RF_AC);
	cpu_update_mode(cpu);
	memcpy(f, s->fx, 512);
	memcpy(f->ymmh, s->ymmh, sizeof(f->ymmh));
	fp_normalise(cpu);
}

static void store_state(struct diff_outcome *out)
{
	struct fp_image *f = cpu_fp(cpu);

	memcpy(out->s.gpr, cpu->gpr, sizeof(cpu->gpr));
	out->s.rip = cpu->rip;
	out->s.rflags = cpu_rflags(cpu);
	out->s.fsbase = cpu->seg[SEG_FS].base;
	out->s.gsbase = cpu->seg[SEG_GS].base;
	memcpy(out->s.fx, f, 512);
	memcpy(out->s.ymmh, f->ymmh, sizeof(f->ymmh));
	out->s.env[3] = (u32)f->fip;
	out->s.env[4] = (u32)f->fop << 16;
	out->s.env[5] = (u32)f->fdp;
}

/* The frame that delivery pushed: [error] rip cs rflags rsp ss. */
static void store_fault(struct diff_outcome *out)
{
	const u64 *frame = (const u64 *)(const void *)(ram + (PAGE_STACK + 1) * 4096ul) - 5;
	u64 vector = (cpu->rip - HANDLERS) / 16;
	bool has_error = cpu->gpr[R_RSP] == STACK_TOP - 48;

	out->how = DIFF_FAULT;
	out->vector = (u8)vector;
	out->error = has_error ? (u32)frame[-1] : 0;
	out->cr2 = vector == EXC_PF ? cpu->cr2 : 0;
	store_state(out);
	out->s.rip = frame[0];
	out->s.rflags = frame[2];
	out->s.gpr[R_RSP] = frame[3];
}

static bool at_exit(const struct diff_case *k, struct diff_outcome *out)
{
	if (cpu->rip == k->start + k->code_len && cpu->rip + EXIT_STUB <= CODE_VA + CODE_BYTES)
		out->how = DIFF_END;
	else if (cpu->rip == CODE_VA + EXIT_B_OFF)
		out->how = DIFF_EXIT_B;
	else
		return false;
	return true;
}

/* Instructions at once: one, or all that are left of the snippet. */
static unsigned jit_limit(const struct diff_case *k)
{
	u64 at = k->start;

	for (unsigned n = 0; k->number & 1 && n < k->ninsn; n++) {
		if (at == cpu->rip)
			return k->ninsn - n;
		at += k->len[n];
	}
	return 1;
}

void guest_run(const struct diff_case *k, struct diff_outcome *out)
{
	enum engine_exit why;

	memset(out, 0, sizeof(*out));
	load_state(k);
	for (unsigned n = 0, turns = 0;;) {
		u64 rip = cpu->rip;

		if (at_exit(k, out)) {
			store_state(out);
			return;
		}
		if (++turns > MAX_STEPS) {
			out->how = DIFF_LOOP;
			return;
		}
		if (!(guest_jit ? jit_step(cpu, jit_limit(k), &why)
				: interp_step(cpu, &why)))
			break;
		if (cpu->mmu.cpl == 0) {
			store_fault(out);
			return;
		}
		if (cpu->rip != rip)
			out->steps = ++n;
	}
	out->how = DIFF_STUCK;
	store_state(out);
}
