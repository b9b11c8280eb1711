/* SPDX-License-Identifier: MIT */
/* System instructions: privilege, UMIP, descriptor-table registers, TLB
 * instructions, time, HLT, SYSCALL and SYSENTER by vendor, FS and GS bases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/flags.h"
#include "cpu/msr.h"
#include "unit/cpu/sysmachine.h"

/* Everything that can be offered is. */
static void offer(int vendor)
{
	struct kvm_cpuid_entry2 e[100];
	const struct cpuid_offer o = { .vendor = vendor };
	unsigned n = cpuid_supported(&o, e, 100);

	assert_in_range(n, 1, 100);
	assert_int_equal(cpuid_set(c, e, n), 0);
}

/* --- privilege --------------------------------------------------------------------- */

static void privileged_instructions(void **state)
{
	static const struct {
		const char *name;
		u8 code[8];
		u8 n;
	} rows[] = {
		{ "HLT", { 0xf4 }, 1 },
		{ "CLTS", { 0x0f, 0x06 }, 2 },
		{ "LMSW", { 0x0f, 0x01, 0xf0 }, 3 },
		{ "MOV CR0", { 0x0f, 0x22, 0xc0 }, 3 },
		{ "MOV from CR0", { 0x0f, 0x20, 0xc0 }, 3 },
		{ "MOV from CR8", { 0x44, 0x0f, 0x20, 0xc0 }, 4 },
		{ "LGDT", { 0x0f, 0x01, 0x13 }, 3 },
		{ "LIDT", { 0x0f, 0x01, 0x1b }, 3 },
		{ "LLDT", { 0x0f, 0x00, 0xd0 }, 3 },
		{ "LTR", { 0x0f, 0x00, 0xd8 }, 3 },
		{ "INVLPG", { 0x0f, 0x01, 0x3b }, 3 },
		{ "INVPCID", { 0x66, 0x0f, 0x38, 0x82, 0x03 }, 5 },
		{ "WBINVD", { 0x0f, 0x09 }, 2 },
		{ "INVD", { 0x0f, 0x08 }, 2 },
		{ "RDMSR", { 0x0f, 0x32 }, 2 },
		{ "WRMSR", { 0x0f, 0x30 }, 2 },
		{ "SWAPGS", { 0x0f, 0x01, 0xf8 }, 3 },
		{ "SYSRET", { 0x48, 0x0f, 0x07 }, 3 },
		{ "RDPMC", { 0x0f, 0x33 }, 2 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		offer(-1);
		machine_privilege(c, 3);
		c->gpr[R_RBX] = M_DATA;
		machine_code(&m, M_CODE, rows[i].code, rows[i].n);
		check_fault(rows[i].name, machine_step(v), EXC_GP, 0);
		assert_int_equal(machine_frame(v, 1), M_CODE);
	}
}

/* SGDT, SIDT, SLDT, STR, SMSW: #GP at privilege 3 with CR4.UMIP alone. */
static void umip(void **state)
{
	static const u8 codes[][3] = {
		{ 0x0f, 0x01, 0x03 }, { 0x0f, 0x01, 0x0b }, { 0x0f, 0x00, 0xc0 },
		{ 0x0f, 0x00, 0xc8 }, { 0x0f, 0x01, 0xe0 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(codes) * 4; i++) {
		bool on = i & 1, user = i & 2;

		again();
		if (on)
			mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_UMIP);
		machine_privilege(c, user ? 3 : 0);
		c->gpr[R_RBX] = M_DATA;
		machine_code(&m, M_CODE, codes[i / 4], 3);
		check_fault("UMIP", machine_step(v), on && user ? EXC_GP : M_EVENT, 0);
	}
}

/* What is not offered does not exist, at privilege 0 too. */
static void undefined_instructions(void **state)
{
	static const struct {
		const char *name;
		u8 code[4];
		u8 n;
	} rows[] = {
		{ "UD2", { 0x0f, 0x0b }, 2 },
		{ "UD1", { 0x0f, 0xb9, 0xc0 }, 3 },
		{ "UD0", { 0x0f, 0xff, 0xc0 }, 3 },
		{ "VMLAUNCH", { 0x0f, 0x01, 0xc2 }, 3 },
		{ "VMXOFF", { 0x0f, 0x01, 0xc4 }, 3 },
		{ "VMREAD", { 0x0f, 0x78, 0xc0 }, 3 },
		{ "VMRUN", { 0x0f, 0x01, 0xd8 }, 3 },
		{ "STGI", { 0x0f, 0x01, 0xdc }, 3 },
		{ "RSM", { 0x0f, 0xaa }, 2 },
		{ "LGDT of a register", { 0x0f, 0x01, 0xd0 }, 3 },
		{ "INVLPG of a register", { 0x0f, 0x01, 0xff }, 3 },
		{ "XSETBV without OSXSAVE", { 0x0f, 0x01, 0xd1 }, 3 },
		{ "RDFSBASE without FSGSBASE", { 0xf3, 0x0f, 0xae, 0xc0 }, 4 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		offer(-1);
		machine_code(&m, M_CODE, rows[i].code, rows[i].n);
		if (machine_step(v) != EXC_UD)
			fail_msg("%s: no #UD", rows[i].name);
	}
}

/* --- descriptor-table registers ------------------------------------------------------------ */

static void table_registers(void **state)
{
	static const u8 stored[10] = { 0x34, 0x12, 0xf0, 0xde, 0xbc, 0x9a, 0xff, 0x7f, 0, 0 };

	(void)state;
	again();
	memcpy(m.ram + M_DATA, stored, 10);
	c->gpr[R_RBX] = M_DATA;
	assert_int_equal(STEP(0x0f, 0x01, 0x13), M_EVENT);
	assert_int_equal(c->gdtr.limit, 0x1234);
	assert_int_equal(c->gdtr.base, 0x7fff9abcdef0);
	c->rip = M_CODE;
	c->gpr[R_RBX] = M_DATA + 0x100;
	memset(m.ram + M_DATA + 0x100, 0xee, 16);
	assert_int_equal(STEP(0x0f, 0x01, 0x03), M_EVENT);
	assert_memory_equal(m.ram + M_DATA + 0x100, stored, 10);
	assert_int_equal(m.ram[M_DATA + 0x10a], 0xee);
	/* A base that is not canonical. */
	again();
	memcpy(m.ram + M_DATA, stored, 10);
	m.ram[M_DATA + 8] = 1;
	c->gpr[R_RBX] = M_DATA;
	check_fault("LIDT", RUN(0x0f, 0x01, 0x1b), EXC_GP, 0);
	assert_int_equal(c->idtr.base, M_IDT);
}

/* Outside 64-bit mode: 16-bit LGDT takes 24 bits of base, SGDT stores all 32. */
static void table_registers_legacy(void **state)
{
	static const u8 stored[6] = { 0x34, 0x12, 0xf0, 0xde, 0xbc, 0x9a };

	(void)state;
	again();
	legacy_mode(0);
	memcpy(m.ram + M_DATA, stored, 6);
	c->gpr[R_RBX] = M_DATA;
	assert_int_equal(STEP(0x66, 0x0f, 0x01, 0x1b), M_EVENT);
	assert_int_equal(c->idtr.base, 0xbcdef0);
	c->rip = M_CODE;
	assert_int_equal(STEP(0x0f, 0x01, 0x1b), M_EVENT);
	assert_int_equal(c->idtr.base, 0x9abcdef0);
	c->rip = M_CODE;
	c->gpr[R_RBX] = M_DATA + 0x100;
	memset(m.ram + M_DATA + 0x100, 0xee, 8);
	assert_int_equal(STEP(0x66, 0x0f, 0x01, 0x0b), M_EVENT);
	assert_memory_equal(m.ram + M_DATA + 0x100, stored, 6);
	assert_int_equal(m.ram[M_DATA + 0x106], 0xee);
}

/* --- INVLPG, INVPCID ------------------------------------------------------------------------ */

/* A changed entry is seen after INVLPG, whatever address of the page is given; not
 * canonical: nothing happens, no fault. */
static void invlpg(void **state)
{
	static const u8 load[] = { 0x48, 0x8b, 0x01 }; /* mov rax, [rcx] */

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		again();
		m_put64(&m, M_DATA, 1);
		m_put64(&m, 0x70000, 2);
		c->gpr[R_RCX] = M_DATA;
		machine_code(&m, M_CODE, load, 3);
		assert_int_equal(machine_step(v), M_EVENT);
		assert_int_equal(c->gpr[R_RAX], 1);
		*machine_pte(&m, M_DATA) = 0x70000 | 7;
		c->gpr[R_RBX] = k ? 0x8000000000000000ull | M_DATA : M_DATA + 0xabc;
		c->rip = M_CODE;
		assert_int_equal(STEP(0x0f, 0x01, 0x3b), M_EVENT);
		c->rip = M_CODE;
		machine_code(&m, M_CODE, load, 3);
		assert_int_equal(machine_step(v), M_EVENT);
		if (!k)
			assert_int_equal(c->gpr[R_RAX], 2);
	}
}

static void invpcid_checks(void **state)
{
	static const struct {
		const char *name;
		u64 type, pcid, gva;
		bool pcide, ok;
	} rows[] = {
		{ "address", 0, 0, M_DATA, false, true },
		{ "address of a PCID", 0, 5, M_DATA, true, true },
		{ "address of a PCID without PCIDE", 0, 5, M_DATA, false, false },
		{ "address, not canonical", 0, 0, 1ull << 47, false, false },
		{ "context, address does not count", 1, 0, 1ull << 47, false, true },
		{ "context of a PCID without PCIDE", 1, 5, 0, false, false },
		{ "all", 2, 0, 0, false, true },
		{ "all, PCID does not count", 2, 5, 0, false, true },
		{ "all but globals", 3, 0, 0, false, true },
		{ "type 4", 4, 0, 0, true, false },
		{ "type 1 and bit 32", BIT64(32) | 1, 0, 0, true, false },
		{ "reserved bits", 2, 0x1000, 0, true, false },
		{ "reserved bit 63", 3, BIT64(63), 0, true, false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		again();
		offer(-1);
		if (rows[i].pcide)
			mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_PCIDE);
		m_put64(&m, M_DATA, rows[i].pcid);
		m_put64(&m, M_DATA + 8, rows[i].gva);
		c->gpr[R_RBX] = M_DATA;
		c->gpr[R_RAX] = rows[i].type;
		check_fault(rows[i].name, STEP(0x66, 0x0f, 0x38, 0x82, 0x03),
			    rows[i].ok ? M_EVENT : EXC_GP, 0);
	}
}

/* --- time and identity -------------------------------------------------------------------------- */

static void time_stamp(void **state)
{
	(void)state;
	again();
	offer(-1);
	c->tsc_offset = 0x5000000000000000;
	c->msr.tsc_aux = 0x1234;
	c->gpr[R_RAX] = c->gpr[R_RCX] = c->gpr[R_RDX] = ~0ull;
	assert_int_equal(STEP(0x0f, 0x01, 0xf9), M_EVENT); /* RDTSCP */
	u64 tsc = c->gpr[R_RDX] << 32 | c->gpr[R_RAX];

	assert_int_equal(c->gpr[R_RAX] >> 32 | c->gpr[R_RDX] >> 32, 0);
	assert_int_equal(c->gpr[R_RCX], 0x1234);
	assert_in_range(tsc >> 60, 5, 5);
	c->rip = M_CODE;
	assert_int_equal(STEP(0x0f, 0x31), M_EVENT);
	assert_true((c->gpr[R_RDX] << 32 | c->gpr[R_RAX]) >= tsc);
	c->rip = M_CODE;
	assert_int_equal(STEP(0xf3, 0x0f, 0xc7, 0xfb), M_EVENT); /* RDPID rbx */
	assert_int_equal(c->gpr[R_RBX], 0x1234);
	/* TSD: privilege 0 alone. */
	for (unsigned i = 0; i < 4; i++) {
		again();
		offer(-1);
		if (i & 1)
			mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_TSD);
		machine_privilege(c, i & 2 ? 3 : 0);
		check_fault("RDTSC", STEP(0x0f, 0x31), i == 3 ? EXC_GP : M_EVENT, 0);
	}
	/* Not in CPUID: #UD. */
	again();
	assert_int_equal(STEP(0x0f, 0x01, 0xf9), EXC_UD);
}

static void cpuid_clears_upper_halves(void **state)
{
	(void)state;
	again();
	offer(-1);
	c->gpr[R_RAX] = 0xffffffff00000000ull;
	c->gpr[R_RBX] = c->gpr[R_RCX] = c->gpr[R_RDX] = ~0ull;
	assert_int_equal(STEP(0x0f, 0xa2), M_EVENT);
	assert_int_equal(c->gpr[R_RAX], 0xd);
	assert_int_equal((c->gpr[R_RBX] | c->gpr[R_RCX] | c->gpr[R_RDX]) >> 32, 0);
}

/* CPUID faulting: MISC_FEATURES_ENABLES at work. */
static void cpuid_faulting(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		again();
		offer(-1);
		assert_int_equal(cpu_msr_write(c, MSR_MISC_FEATURES, i & 1, false), CPU_MSR_OK);
		machine_privilege(c, i & 2 ? 3 : 0);
		check_fault("CPUID", STEP(0x0f, 0xa2), i == 3 ? EXC_GP : M_EVENT, 0);
	}
}

static void hlt(void **state)
{
	(void)state;
	again();
	assert_int_equal(RUN(0xf4), M_HALT);
	assert_true(c->halted);
	assert_int_equal(c->rip, M_CODE + 1);
}

static void clac_and_stac(void **state)
{
	(void)state;
	again();
	assert_int_equal(STEP(0x0f, 0x01, 0xcb), EXC_UD); /* not in CPUID */
	again();
	offer(-1);
	assert_int_equal(STEP(0x0f, 0x01, 0xcb), M_EVENT);
	assert_true(c->rflags & RF_AC);
	assert_true(c->mmu.ac);
	c->rip = M_CODE;
	assert_int_equal(STEP(0x0f, 0x01, 0xca), M_EVENT);
	assert_false((c->rflags & RF_AC) || c->mmu.ac);
	again();
	offer(-1);
	machine_privilege(c, 3);
	assert_int_equal(STEP(0x0f, 0x01, 0xca), EXC_UD);
}

static void hypercalls(void **state)
{
	(void)state;
	again();
	assert_int_equal(STEP(0x0f, 0x01, 0xc1), M_EVENT);
	assert_int_equal(c->gpr[R_RAX], ~0ull);
	assert_int_equal(c->rip, M_CODE + 3);
	again();
	assert_int_equal(STEP(0x0f, 0x01, 0xd9), M_EVENT);
	assert_int_equal(v->stats.hypercalls, 1);
}

/* --- SYSCALL, SYSRET -------------------------------------------------------------------------- */

static void syscall_state(void **state)
{
	(void)state;
	again();
	machine_privilege(c, 3);
	c->msr.star = (u64)(M_CS0 | 3) << 32; /* RPL is cut */
	c->msr.lstar = 0xffff800000001000;
	c->msr.sfmask = RF_TF | RF_IF | RF_DF | RF_AC | RF_CF;
	cpu_set_rflags(c, RF_ONE | RF_IF | RF_DF | RF_AC | RF_CF | RF_ZF | RF_ID | RF_RF);
	assert_int_equal(STEP(0x0f, 0x05), M_EVENT);
	assert_int_equal(c->gpr[R_RCX], M_CODE + 2);
	assert_int_equal(c->gpr[R_R11], RF_ONE | RF_IF | RF_DF | RF_AC | RF_CF | RF_ZF | RF_ID);
	assert_int_equal(cpu_rflags(c), RF_ONE | RF_ZF | RF_ID);
	assert_false(c->mmu.ac);
	assert_int_equal(c->rip, 0xffff800000001000);
	assert_int_equal(c->seg[SEG_CS].sel, M_CS0);
	assert_int_equal(c->seg[SEG_CS].attr, 0xa09b);
	assert_int_equal(c->seg[SEG_SS].sel, M_CS0 + 8);
	assert_int_equal(c->seg[SEG_SS].attr, 0xc093);
	assert_int_equal(c->gpr[R_RSP], M_USTACK);
	assert_int_equal(c->mmu.cpl, 0);
}

/* Who has which of the four in 64-bit, compatibility and protected mode. */
static void by_vendor_and_mode(void **state)
{
	enum { LONG64, COMPAT, LEGACY };
	static const struct {
		const char *name;
		u8 code[3];
		/* [mode], bit 0: Intel, bit 1: AMD */
		u8 exists[3];
	} rows[] = {
		{ "SYSCALL", { 0x0f, 0x05 }, { 3, 2, 2 } },
		{ "SYSRET", { 0x0f, 0x07 }, { 3, 2, 2 } },
		{ "SYSENTER", { 0x0f, 0x34 }, { 1, 1, 3 } },
		{ "SYSEXIT", { 0x0f, 0x35 }, { 1, 1, 3 } },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows) * 6; i++) {
		unsigned k = i / 6, mode = i % 3;
		bool amd = i % 6 / 3;

		again();
		if (mode == LEGACY) {
			legacy_mode(0);
			mmu_set_efer(&c->mmu, EFER_SCE);
		} else if (mode == COMPAT) {
			m_seg(c, SEG_CS, M_CS32, 0xc09b);
			cpu_update_mode(c);
		}
		c->vendor = amd ? VENDOR_AMD : VENDOR_INTEL;
		c->msr.star = (u64)(M_CS3 - 16) << 48 | (u64)M_CS0 << 32 | M_DATA;
		c->msr.lstar = c->msr.cstar = M_DATA;
		c->msr.sysenter_cs = M_CS0;
		c->msr.sysenter_eip = M_DATA;
		c->msr.sysenter_esp = M_STACK;
		c->gpr[R_RCX] = c->gpr[R_RDX] = M_DATA;
		machine_code(&m, M_CODE, rows[k].code, 2);
		int got = machine_step(v);
		bool want = rows[k].exists[mode] >> amd & 1;

		if (got != (want ? M_EVENT : EXC_UD) || (want && c->rip != M_DATA))
			fail_msg("%s, %s, mode %u: %d", rows[k].name, amd ? "AMD" : "Intel", mode,
				 got);
	}
}

static void syscall_needs_sce(void **state)
{
	(void)state;
	again();
	mmu_set_efer(&c->mmu, c->mmu.efer & ~EFER_SCE);
	assert_int_equal(STEP(0x0f, 0x05), EXC_UD);
	again();
	mmu_set_efer(&c->mmu, c->mmu.efer & ~EFER_SCE);
	assert_int_equal(STEP(0x48, 0x0f, 0x07), EXC_UD);
}

static void sysret_state(void **state)
{
	(void)state;
	for (int amd = 0; amd < 2; amd++) {
		again();
		c->vendor = amd ? VENDOR_AMD : VENDOR_INTEL;
		c->msr.star = 0x0020ull << 48;
		c->gpr[R_RCX] = 0x7fffffffe000;
		c->gpr[R_R11] = ~0ull & ~(u64)RF_TF;
		seg_put_flat_ss(c, 0);
		assert_int_equal(STEP(0x48, 0x0f, 0x07), M_EVENT);
		assert_int_equal(c->rip, 0x7fffffffe000);
		assert_int_equal(c->seg[SEG_CS].sel, 0x33);
		assert_int_equal(c->seg[SEG_CS].attr, 0xa0fb);
		assert_int_equal(c->seg[SEG_SS].sel, 0x2b);
		/* AMD leaves SS's hidden part but for the DPL: unusable here. */
		assert_int_equal(!!(c->seg[SEG_SS].attr & SEG_UNUSABLE), amd);
		assert_int_equal(c->seg[SEG_SS].attr & SEG_DPL, SEG_DPL);
		/* RF and VM cannot be loaded, bit 1 is set. */
		assert_int_equal(cpu_rflags(c), 0x3c7fd7 & ~(u64)RF_TF);
		assert_int_equal(c->mmu.cpl, 3);
		/* To 32 bits: the selector itself, RIP cut. */
		again();
		c->vendor = amd ? VENDOR_AMD : VENDOR_INTEL;
		c->msr.star = 0x0020ull << 48;
		c->gpr[R_RCX] = 0x1234567812345678;
		c->gpr[R_R11] = 0;
		assert_int_equal(STEP(0x0f, 0x07), M_EVENT);
		assert_int_equal(c->rip, 0x12345678);
		assert_int_equal(c->seg[SEG_CS].sel, 0x23);
		assert_int_equal(c->seg[SEG_CS].attr, 0xc0fb);
		assert_int_equal(c->code_bits, 32);
		assert_int_equal(cpu_rflags(c), RF_ONE);
	}
}

static void sysenter_state(void **state)
{
	(void)state;
	again();
	c->vendor = VENDOR_INTEL;
	check_fault("SYSENTER_CS null", RUN(0x0f, 0x34), EXC_GP, 0);
	again();
	c->vendor = VENDOR_INTEL;
	c->msr.sysenter_cs = 3;
	check_fault("SYSENTER_CS null with RPL", RUN(0x0f, 0x34), EXC_GP, 0);
	again();
	c->vendor = VENDOR_INTEL;
	machine_privilege(c, 3);
	c->msr.sysenter_cs = M_CS0 | 1;
	c->msr.sysenter_eip = 0xffff800000001000;
	c->msr.sysenter_esp = 0xffff800000002000;
	c->rflags |= RF_IF;
	assert_int_equal(STEP(0x0f, 0x34), M_EVENT);
	assert_int_equal(c->rip, 0xffff800000001000);
	assert_int_equal(c->gpr[R_RSP], 0xffff800000002000);
	assert_int_equal(c->seg[SEG_CS].sel, M_CS0);
	assert_int_equal(c->seg[SEG_SS].sel, M_CS0 + 8);
	assert_int_equal(c->mmu.cpl, 0);
	assert_false(c->rflags & RF_IF);
	/* SYSEXIT: CS + 32 and + 40 to 64 bits, + 16 and + 24 to 32. */
	again();
	c->vendor = VENDOR_INTEL;
	c->msr.sysenter_cs = 0x10;
	c->gpr[R_RDX] = 0x7fffffffe000;
	c->gpr[R_RCX] = 0x7fffffffd000;
	assert_int_equal(STEP(0x48, 0x0f, 0x35), M_EVENT);
	assert_int_equal(c->rip, 0x7fffffffe000);
	assert_int_equal(c->gpr[R_RSP], 0x7fffffffd000);
	assert_int_equal(c->seg[SEG_CS].sel, 0x33);
	assert_int_equal(c->seg[SEG_SS].sel, 0x3b);
	assert_int_equal(c->mmu.cpl, 3);
	again();
	c->vendor = VENDOR_INTEL;
	c->msr.sysenter_cs = 0x10;
	c->gpr[R_RCX] = 1ull << 47;
	check_fault("SYSEXIT, RSP", RUN(0x48, 0x0f, 0x35), EXC_GP, 0);
	again();
	c->vendor = VENDOR_INTEL;
	c->msr.sysenter_cs = 0x10;
	c->gpr[R_RCX] = 0x100007fff0;
	c->gpr[R_RDX] = 0x10000400000;
	assert_int_equal(STEP(0x0f, 0x35), M_EVENT);
	assert_int_equal(c->rip, 0x400000);
	assert_int_equal(c->gpr[R_RSP], 0x7fff0);
	assert_int_equal(c->seg[SEG_CS].sel, 0x23);
	assert_int_equal(c->seg[SEG_SS].sel, 0x2b);
}

/* --- FS, GS ---------------------------------------------------------------------------------------- */

static void swapgs(void **state)
{
	(void)state;
	again();
	c->seg[SEG_GS].base = 0x1111;
	c->msr.kernel_gs_base = 0xffff800000002222;
	assert_int_equal(STEP(0x0f, 0x01, 0xf8), M_EVENT);
	assert_int_equal(c->seg[SEG_GS].base, 0xffff800000002222);
	assert_int_equal(c->msr.kernel_gs_base, 0x1111);
	/* Not outside 64-bit mode. */
	again();
	m_seg(c, SEG_CS, M_CS32, 0xc09b);
	cpu_update_mode(c);
	assert_int_equal(STEP(0x0f, 0x01, 0xf8), EXC_UD);
}

static void fsgsbase(void **state)
{
	(void)state;
	again();
	offer(-1);
	mmu_set_cr4(&c->mmu, c->mmu.cr4 | CR4_FSGSBASE);
	machine_privilege(c, 3);
	c->gpr[R_RAX] = 0xffff812345678000;
	assert_int_equal(STEP(0xf3, 0x48, 0x0f, 0xae, 0xd0), M_EVENT); /* wrfsbase rax */
	assert_int_equal(c->seg[SEG_FS].base, 0xffff812345678000);
	c->rip = M_CODE;
	assert_int_equal(STEP(0xf3, 0x0f, 0xae, 0xd8), M_EVENT); /* wrgsbase eax */
	assert_int_equal(c->seg[SEG_GS].base, 0x45678000);
	c->rip = M_CODE;
	c->gpr[R_RBX] = ~0ull;
	assert_int_equal(STEP(0xf3, 0x0f, 0xae, 0xc3), M_EVENT); /* rdfsbase ebx */
	assert_int_equal(c->gpr[R_RBX], 0x45678000);
	c->rip = M_CODE;
	c->gpr[R_RAX] = 1ull << 47;
	check_fault("WRGSBASE", RUN(0xf3, 0x48, 0x0f, 0xae, 0xd8), EXC_GP, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(privileged_instructions),
		CASE(umip),
		CASE(undefined_instructions),
		CASE(table_registers),
		CASE(table_registers_legacy),
		CASE(invlpg),
		CASE(invpcid_checks),
		CASE(time_stamp),
		CASE(cpuid_clears_upper_halves),
		CASE(cpuid_faulting),
		CASE(hlt),
		CASE(clac_and_stac),
		CASE(hypercalls),
		CASE(syscall_state),
		CASE(by_vendor_and_mode),
		CASE(syscall_needs_sce),
		CASE(sysret_state),
		CASE(sysenter_state),
		CASE(swapgs),
		CASE(fsgsbase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
