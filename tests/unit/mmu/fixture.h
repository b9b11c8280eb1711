/* SPDX-License-Identifier: MIT */
/*
 * An mmu over 16 MiB of RAM with 4-level tables, for the tests in this folder:
 *   PML4 at 0x1000, PDPT 0x2000, PD 0x3000, PT 0x4000 (maps 0..2M), frames above
 */
#ifndef TESTS_MMU_FIXTURE_H
#define TESTS_MMU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mmu/mmu.h"
#include "x86/paging.h"

#define RAM  (16ull << 20)
#define PML4 0x1000
#define PDPT 0x2000
#define PD   0x3000
#define PT   0x4000
#define DATA 0x800000 /* frames that tests map: n-th holds n in every word */

struct fixture {
	struct mem *mem;
	u8 *ram;
	struct mmu m;
	_Atomic u32 attn;
};

static enum emul no_mmio(struct mmu *m, gpa_t gpa, void *data, unsigned n, bool write)
{
	(void)m, (void)gpa;
	if (!write)
		memset(data, 0xff, n);
	return EMUL_CONTINUE;
}

static const struct mmu_ops fixture_ops = { .mmio = no_mmio };

static inline u64 *table(struct fixture *f, gpa_t at)
{
	return (u64 *)(void *)(f->ram + at);
}

static inline void fixture_regs(struct fixture *f, u64 cr0, u64 cr4, u64 efer)
{
	mmu_set_efer(&f->m, efer);
	mmu_set_cr0(&f->m, cr0);
	mmu_set_cr4(&f->m, cr4);
	mmu_set_cr3(&f->m, PML4);
}

static inline void fixture_make(struct fixture *f, struct tlb_config config)
{
	struct kvm_userspace_memory_region r = { .memory_size = RAM };

	memset(f, 0, sizeof(*f));
	f->ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(f->ram, MAP_FAILED);
	f->mem = mem_create(NULL, NULL);
	r.userspace_addr = (u64)(uintptr_t)f->ram;
	assert_int_equal(mem_set_region(f->mem, &r), 0);
	assert_int_equal(mmu_init(&f->m, f->mem, &fixture_ops, &f->attn, &config), 0);
	f->m.gbpages = true;
	table(f, PML4)[0] = PDPT | PTE_P | PTE_W | PTE_U;
	table(f, PDPT)[0] = PD | PTE_P | PTE_W | PTE_U;
	table(f, PD)[0] = PT | PTE_P | PTE_W | PTE_U;
	for (u64 i = 0; i < RAM / 2 / 4096; i++)
		for (int k = 0; k < 512; k++)
			table(f, DATA)[i * 512 + (u64)k] = i;
	fixture_regs(f, CR0_PE | CR0_PG | CR0_WP, CR4_PAE | CR4_PGE, EFER_LME | EFER_LMA | EFER_NXE);
	mmu_enter_guest(&f->m);
}

static inline void fixture_free(struct fixture *f)
{
	mmu_exit_guest(&f->m);
	mmu_fini(&f->m);
	mem_destroy(f->mem);
	munmap(f->ram, RAM);
}

/* Which data frame does @gva read? */
static inline u64 frame_at(struct fixture *f, gva_t gva)
{
	u64 v = ~0ull;

	assert_int_equal(mmu_read64(&f->m, gva, &v, 0), EMUL_CONTINUE);
	return v;
}

#endif
