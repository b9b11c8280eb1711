/* SPDX-License-Identifier: MIT */
/* The tiny machine, set up for each case, and what the tests of the system half
 * do to it. */
#ifndef LOCUM_TESTS_UNIT_CPU_SYSMACHINE_H
#define LOCUM_TESTS_UNIT_CPU_SYSMACHINE_H

#include <stdio.h>

#include "unit/cpu/machine.h"

/* Selectors of 32-bit segments that legacy_mode() makes, above machine.h's. */
#define L_CS0 0x50
#define L_DS0 0x58
#define L_CS3 0x63
#define L_DS3 0x6b
#define L_TR  0x70
#define L_LDT 0x78
/* Free descriptors for a case. */
#define S_FREE 0x80
#define S_GDT_LIMIT 0xff

static struct machine m;
static struct machine_vcpu *v;
static struct cpu *c;

static int setup(void **state)
{
	(void)state;
	if (!machine_init(&m, 1))
		return -1;
	v = &m.vcpu[0];
	c = &v->c;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	machine_fini(&m);
	return 0;
}

/* Everything as after setup(): one case of a table after the other. */
static inline void again(void)
{
	teardown(NULL);
	assert_int_equal(setup(NULL), 0);
	c->gdtr.limit = S_GDT_LIMIT;
}

#define RUN(...)                                                                 \
	({                                                                       \
		static const u8 bytes_[] = { __VA_ARGS__ };                      \
		machine_code(&m, M_CODE, bytes_, sizeof(bytes_));                \
		machine_run(v);                                                  \
	})
#define STEP(...)                                                                \
	({                                                                       \
		static const u8 bytes_[] = { __VA_ARGS__ };                      \
		machine_code(&m, M_CODE, bytes_, sizeof(bytes_));                \
		machine_step(v);                                                 \
	})

/** sys_gate64() - change gate @vector: @attr is its word at offset 4 */
static inline void sys_gate64(unsigned vector, u16 sel, u16 attr)
{
	u64 stub = M_STUBS + vector * 16;

	m_put64(&m, M_IDT + vector * 16,
		(stub & 0xffff) | (u64)sel << 16 | (u64)attr << 32 | (stub >> 16) << 48);
}

static inline void sys_ist(unsigned n, u64 rsp)
{
	m_put64(&m, M_TSS + 36 + (n - 1) * 8, rsp);
}

static inline void sys_desc(u16 sel, u64 d)
{
	m_put64(&m, M_GDT + (sel & 0xfff8), d);
}

/** sys_code(), sys_data() - flat descriptors by their attribute word */
static inline u64 sys_flat(u32 attr)
{
	return 0x000f00000000ffffull | (u64)(attr & 0xf0ff) << 40;
}

static inline u64 sys_seg(u32 base, u32 limit, u32 attr)
{
	return (u64)(limit & 0xffff) | (u64)(base & 0xffffff) << 16 | (u64)(attr & 0xf0ff) << 40 |
	       (u64)(limit >> 16 & 15) << 48 | (u64)(base >> 24) << 56;
}

static inline void unmap(gva_t gva)
{
	*machine_pte(&m, gva) &= ~1ull;
	mmu_flush_guest(&c->mmu);
}

/** legacy_mode() - 32-bit protected mode without paging, at privilege @cpl; gates
 * of 8 bytes with the same stubs, a 32-bit TSS */
static inline void legacy_mode(unsigned cpl)
{
	cr_load_sregs(c, CR0_PE | CR0_ET | CR0_NE, 0, 0, 0);
	sys_desc(L_CS0, sys_flat(0xc09b));
	sys_desc(L_DS0, sys_flat(0xc093));
	sys_desc(L_CS3, sys_flat(0xc0fb));
	sys_desc(L_DS3, sys_flat(0xc0f3));
	c->gdtr.limit = S_GDT_LIMIT;
	c->idtr.limit = 0x7ff;
	for (u64 n = 0; n < 256; n++) {
		u64 stub = M_STUBS + n * 16;

		m_put64(&m, M_IDT + n * 8, (stub & 0xffff) | (u64)L_CS0 << 16 |
						   0x8e00ull << 32 | (stub >> 16) << 48);
	}
	m_put64(&m, M_TSS + 4, M_STACK | (u64)L_DS0 << 32);
	c->seg[SEG_TR] = (struct segment){ .base = M_TSS, .limit = 0x67, .attr = 0x8b, .sel = L_TR };
	m_seg(c, SEG_CS, cpl ? L_CS3 : L_CS0, cpl ? 0xc0fb : 0xc09b);
	for (unsigned s = 0; s < 6; s++)
		if (s != SEG_CS)
			m_seg(c, s, cpl ? L_DS3 : L_DS0, cpl ? 0xc0f3 : 0xc093);
	mmu_set_cpl(&c->mmu, cpl);
	c->gpr[R_RSP] = cpl ? M_USTACK : M_STACK;
	cpu_update_mode(c);
}

static inline void sys_gate32(unsigned vector, u16 sel, u16 attr)
{
	u64 stub = M_STUBS + vector * 16;

	m_put64(&m, M_IDT + vector * 8,
		(stub & 0xffff) | (u64)sel << 16 | (u64)attr << 32 | (stub >> 16) << 48);
}

/** real_mode() - CS at M_CODE, stack segment at 0x20000, SP 0x100 */
static inline void real_mode(void)
{
	cpu_reset(c, false);
	c->seg[SEG_CS].sel = M_CODE >> 4;
	c->seg[SEG_CS].base = M_CODE;
	c->seg[SEG_SS].sel = 0x2000;
	c->seg[SEG_SS].base = 0x20000;
	c->idtr = (struct desc_table){ .base = 0x50000, .limit = 0x3ff };
	c->gpr[R_RSP] = 0x100;
	c->rip = 0;
}

static inline u32 get32(gpa_t at)
{
	u32 x;

	memcpy(&x, m.ram + at, 4);
	return x;
}

static inline u16 get16(gpa_t at)
{
	u16 x;

	memcpy(&x, m.ram + at, 2);
	return x;
}

static inline void put32(gpa_t at, u32 x)
{
	memcpy(m.ram + at, &x, 4);
}

static inline void put16(gpa_t at, u16 x)
{
	memcpy(m.ram + at, &x, 2);
}

/** check_fault() - @got is vector @want with @error; fails with @name */
static inline void check_fault(const char *name, int got, int want, u64 error)
{
	u64 pushed = got >= 0 ? machine_frame(v, 0) : 0;

	if (!cpu_long_mode(c) && got >= 0)
		pushed = get32(c->seg[SEG_SS].base + (u32)c->gpr[R_RSP]);
	if (got != want || (want >= 0 && pushed != error))
		fail_msg("%s: want vector %d error %#llx, got %d error %#llx", name, want,
			 (unsigned long long)error, got, (unsigned long long)pushed);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
