/* SPDX-License-Identifier: MIT */
/*
 * System management mode as clients see it: KVM_SMI and SMI messages, a second
 * address space with a dirty log of its own, run->flags, KVM_GET_VCPU_EVENTS,
 * NMI and INIT held back.
 */
#include "client.h"

#define SMBASE 0x400000ull /* beyond RAM: memory in the second space alone */
#define SECOND (1u << 16)
#define MSI_BASE 0xfee00000u

GUEST_CODE(guest, "1: mov $1, %al\n out %al, $0x10\n jmp 1b");
/* In 16-bit code: read a byte of the second space, say it, write one, go back. */
GUEST_CODE(smi, ".code16\n movb %cs:0x9000, %al\n out %al, $0x11\n"
		"movb $0x55, %cs:0xa000\n rsm\n.code64");

static struct machine m;
static uint8_t *smram;

static void expect_out(unsigned port, uint8_t value, bool smm)
{
	CHECK(machine_run(&m) == KVM_EXIT_IO);
	CHECK(m.run->io.port == port);
	CHECK(((uint8_t *)m.run)[m.run->io.data_offset] == value);
	CHECK(!!(m.run->flags & KVM_RUN_X86_SMM) == smm);
}

static struct kvm_vcpu_events events(void)
{
	struct kvm_vcpu_events e;

	CHECK(!ioctl(m.cpu, KVM_GET_VCPU_EVENTS, &e));
	CHECK(e.flags & KVM_VCPUEVENT_VALID_SMM);
	return e;
}

static void put_events(struct kvm_vcpu_events *e)
{
	CHECK(!ioctl(m.cpu, KVM_SET_VCPU_EVENTS, e));
}

static void message(uint32_t data)
{
	struct kvm_msi msi = { .address_lo = MSI_BASE, .data = data };

	CHECK(ioctl(m.vm, KVM_SIGNAL_MSI, &msi) == 1);
}

static uint64_t msr(uint32_t index, const uint64_t *set)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e;
	} a = { .head.nmsrs = 1, .e = { .index = index, .data = set ? *set : 0 } };

	CHECK(ioctl(m.cpu, set ? KVM_SET_MSRS : KVM_GET_MSRS, &a) == 1);
	return a.e.data;
}

static void set_up(void)
{
	uint64_t base = SMBASE;
	struct kvm_userspace_memory_region third = { .slot = 2u << 16, .memory_size = 4096 };

	m.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (!ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_X86_SMM)) {
		printf("skip: this KVM has no system management mode\n");
		exit(77);
	}
	CHECK(ioctl(m.kvm, KVM_CHECK_EXTENSION, KVM_CAP_MULTI_ADDRESS_SPACE) == 2);
	close(m.kvm);
	machine_init_with(&m, guest_start, guest_end, true);
	smram = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(smram != MAP_FAILED);
	memcpy(smram + 0x8000, smi_start, (size_t)(smi_end - smi_start));
	smram[0x9000] = 0x77;
	machine_slot(&m, SECOND, SMBASE, smram, 0x10000, KVM_MEM_LOG_DIRTY_PAGES);
	third.userspace_addr = (uintptr_t)smram;
	CHECK(ioctl(m.vm, KVM_SET_USER_MEMORY_REGION, &third) < 0 && errno == EINVAL);
	msr(0x9e, &base);
	CHECK(msr(0x9e, NULL) == SMBASE);
}

/* One interrupt: entered, seen, left. */
static void one_smi(uint64_t count)
{
	struct kvm_regs regs;
	struct kvm_vcpu_events e;

	expect_out(0x11, 0x77, true);
	e = events();
	CHECK(e.smi.smm && !e.smi.pending && e.nmi.masked && !e.smi.smm_inside_nmi);
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &regs));
	CHECK(regs.rip >> 16 == 0);
	expect_out(0x10, 1, false);
	e = events();
	CHECK(!e.smi.smm && !e.nmi.masked);
	CHECK(msr(0x34, NULL) == count);
}

/* A halted vCPU wakes for it, and goes on behind the HLT. */
static void while_halted(void)
{
	struct kvm_mp_state mp = { .mp_state = KVM_MP_STATE_HALTED };

	m.run->immediate_exit = 1;
	CHECK(ioctl(m.cpu, KVM_RUN, 0) < 0 && errno == EINTR);
	m.run->immediate_exit = 0;
	CHECK(!ioctl(m.cpu, KVM_SET_MP_STATE, &mp));
	CHECK(!ioctl(m.cpu, KVM_SMI, 0));
	one_smi(3);
}

static void dirty_log(void)
{
	uint64_t bits = 0;
	struct kvm_dirty_log log = { .slot = SECOND, .dirty_bitmap = &bits };

	CHECK(!ioctl(m.vm, KVM_GET_DIRTY_LOG, &log));
	CHECK(bits == (1u << 10 | 1u << 15)); /* the handler's store, the saved state */
	log.slot = 2u << 16;
	CHECK(ioctl(m.vm, KVM_GET_DIRTY_LOG, &log) < 0 && errno == EINVAL);
	log.slot = 0;
	CHECK(ioctl(m.vm, KVM_GET_DIRTY_LOG, &log) < 0 && errno == ENOENT);
}

/* A client that restores a vCPU in SMM; one with an SMI under way; two SMIs. */
static void restored_state(void)
{
	struct kvm_vcpu_events e = events();
	struct kvm_mp_state mp = { .mp_state = KVM_MP_STATE_INIT_RECEIVED };

	e.smi.pending = 1;
	put_events(&e);
	CHECK(events().smi.pending);
	CHECK(ioctl(m.cpu, KVM_SET_MP_STATE, &mp) < 0 && errno == EINVAL);
	expect_out(0x11, 0x77, true);
	CHECK(!ioctl(m.cpu, KVM_SMI, 0)); /* waits for RSM */
	e = events();
	CHECK(e.smi.smm && e.smi.pending);
	e.smi.pending = 0;
	put_events(&e);
	e.smi.pending = 1;
	put_events(&e);
	expect_out(0x11, 0x77, true);
	expect_out(0x10, 1, false);
}

/* An NMI and an INIT that arrive in SMM wait for its end. */
static void held_back(void)
{
	struct kvm_vcpu_events e;
	struct kvm_regs regs;

	CHECK(!ioctl(m.cpu, KVM_SMI, 0));
	expect_out(0x11, 0x77, true);
	CHECK(!ioctl(m.cpu, KVM_NMI, 0));
	message(0x4500); /* INIT, level asserted */
	e = events();
	CHECK(e.nmi.pending == 1 && e.smi.latched_init);
	CHECK(machine_run(&m) != KVM_EXIT_IO); /* reset: no memory at its vector */
	e = events();
	CHECK(!e.smi.smm && !e.smi.latched_init);
	CHECK(!ioctl(m.cpu, KVM_GET_REGS, &regs));
	CHECK(regs.rip == 0xfff0);
}

int main(void)
{
	set_up();
	CHECK(!ioctl(m.cpu, KVM_SMI, 0));
	one_smi(1);
	dirty_log();
	message(0x200); /* delivery mode SMI */
	one_smi(2);
	while_halted();
	restored_state();
	held_back();
	printf("TABLE system management mode: 6 entries\n");
	return 0;
}
