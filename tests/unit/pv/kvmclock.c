/* SPDX-License-Identifier: MIT */
/* kvmclock on a clock that the test moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/kvm_para.h>
#include <string.h>
#include <sys/mman.h>

#include "pv/kvmclock.h"

#define GPA   0x1000ull
#define EPOCH 1700000000000000000ull /* fake time of day at tick 0, ns */

static u64 tick; /* 2 GHz */
static bool stable = true;

static u64 fake_now(const struct clock *c)
{
	(void)c;
	return tick / 2;
}

static u64 fake_real(const struct clock *c)
{
	(void)c;
	return EPOCH + tick / 2;
}

static u64 fake_tsc(const struct clock *c)
{
	(void)c;
	return tick;
}

static struct clock fake = { fake_now, fake_real, fake_tsc, 2000000, true, false };
static struct kvmclock_vm vm;
static struct mem *mem;
static u8 *ram;

static int set_up(void **state)
{
	struct kvm_userspace_memory_region r = { .guest_phys_addr = GPA, .memory_size = 4096 };

	(void)state;
	tick = 1000000;
	fake.tsc_stable = stable;
	ram = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mem = mem_create(NULL, NULL);
	r.userspace_addr = (u64)(uintptr_t)ram;
	kvmclock_vm_init(&vm, &fake);
	return !mem || mem_set_region(mem, &r);
}

static int tear_down(void **state)
{
	(void)state;
	kvmclock_vm_fini(&vm);
	mem_destroy(mem);
	munmap(ram, 4096);
	return 0;
}

static struct pvclock_vcpu_time_info *info(void)
{
	return (struct pvclock_vcpu_time_info *)ram;
}

/* @vm's clock as the guest sees it, whose TSC has @khz and @offset. */
static u64 guest_time(struct kvmclock_tsc t)
{
	return pvclock_read(info(), clock_mul_div(tick, t.khz, 2000000) + (u64)t.offset);
}

static void starts_at_zero_and_follows_the_counter(void **state)
{
	(void)state;
	assert_int_equal(kvmclock_now(&vm), 0);
	tick += 2000;
	assert_in_range(kvmclock_now(&vm), 999, 1000);
}

static void guest_and_host_agree_whatever_the_guest_tsc_is(void **state)
{
	static const struct kvmclock_tsc tscs[] = {
		{ 2000000, 0 }, { 2000000, -1000000 }, { 2000000, 1ll << 62 },
		{ 1000000, 5 }, { 3141592, -77 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(tscs); i++) {
		struct kvmclock k = { .msr = GPA | 1 };
		u64 host, guest;

		kvmclock_update(&vm, &k, mem, tscs[i]);
		assert_int_equal(info()->version & 1, 0);
		assert_int_equal(info()->flags, PVCLOCK_TSC_STABLE);
		tick += 2000000000; /* a second */
		host = kvmclock_now(&vm);
		guest = guest_time(tscs[i]);
		assert_true(guest > host ? guest - host < 10 : host - guest < 10);
	}
}

static void the_version_moves_by_two_and_is_repaired(void **state)
{
	struct kvmclock k = { .msr = GPA | 1 };
	struct kvmclock_tsc t = { 2000000, 0 };
	u32 version;

	(void)state;
	kvmclock_update(&vm, &k, mem, t);
	version = info()->version;
	kvmclock_update(&vm, &k, mem, t);
	assert_int_equal(info()->version, version + 2);
	info()->version |= 1;
	kvmclock_update(&vm, &k, mem, t);
	assert_int_equal(info()->version & 1, 0);
}

static void disabled_or_misplaced_structures_are_left_alone(void **state)
{
	struct kvmclock off = { .msr = GPA }, nowhere = { .msr = 0x100000 | 1 };
	struct kvmclock_tsc t = { 2000000, 0 };

	(void)state;
	kvmclock_update(&vm, &off, mem, t);
	kvmclock_update(&vm, &nowhere, mem, t);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(ram[i], 0);
}

static void stopped_is_told_once(void **state)
{
	struct kvmclock k = { .msr = GPA | 1, .stopped = true };
	struct kvmclock_tsc t = { 2000000, 0 };

	(void)state;
	kvmclock_update(&vm, &k, mem, t);
	assert_int_equal(info()->flags, PVCLOCK_TSC_STABLE | PVCLOCK_GUEST_STOPPED);
	kvmclock_update(&vm, &k, mem, t);
	assert_int_equal(info()->flags, PVCLOCK_TSC_STABLE);
}

static void set_clock_moves_it_and_makes_structures_stale(void **state)
{
	struct kvm_clock_data d = { .clock = 5000000000ull };
	struct kvmclock k = { .msr = GPA | 1 };
	struct kvmclock_tsc t = { 2000000, 0 };

	(void)state;
	kvmclock_update(&vm, &k, mem, t);
	assert_false(kvmclock_is_stale(&vm, &k));
	assert_int_equal(kvmclock_set(&vm, &d), 0);
	assert_true(kvmclock_is_stale(&vm, &k));
	assert_int_equal(kvmclock_now(&vm), 5000000000ull);
	kvmclock_update(&vm, &k, mem, t);
	assert_false(kvmclock_is_stale(&vm, &k));
	assert_int_equal(guest_time(t), 5000000000ull);
}

static void realtime_advances_a_migrated_clock(void **state)
{
	struct kvm_clock_data d;

	(void)state;
	tick += 2000000;
	kvmclock_get(&vm, &d);
	assert_int_equal(d.flags, KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC | KVM_CLOCK_TSC_STABLE);
	assert_int_equal(d.host_tsc, tick);
	assert_int_equal(d.realtime, EPOCH + tick / 2);
	tick += 4000000000; /* two seconds on the way */
	d.flags = KVM_CLOCK_REALTIME;
	assert_int_equal(kvmclock_set(&vm, &d), 0);
	assert_int_equal(kvmclock_now(&vm), d.clock + 2000000000ull);
	/* A time of day in the future does not move it. */
	d.realtime += 100000000000ull;
	assert_int_equal(kvmclock_set(&vm, &d), 0);
	assert_int_equal(kvmclock_now(&vm), d.clock);
	d.flags = 1;
	assert_int_equal(kvmclock_set(&vm, &d), -EINVAL);
}

static void wall_clock_is_the_time_of_clock_zero(void **state)
{
	struct pvclock_wall_clock *w = (struct pvclock_wall_clock *)(ram + 64);
	u64 boot = EPOCH + tick / 2;

	(void)state;
	tick += 6000000000;
	kvmclock_write_wall(&vm, mem, GPA + 64);
	assert_int_equal(w->version & 1, 0);
	assert_in_range((u64)w->sec * 1000000000 + w->nsec, boot - 5, boot + 5);
	kvmclock_write_wall(&vm, mem, 0); /* off */
	kvmclock_write_wall(&vm, mem, 0x100000); /* no RAM */
}

static void pairing_needs_ram_and_a_known_type(void **state)
{
	struct kvmclock_tsc t = { 2000000, 100 };
	struct kvm_clock_pairing *p = (struct kvm_clock_pairing *)(ram + 128);

	(void)state;
	assert_int_equal(kvmclock_pairing(&vm, mem, GPA + 128, 0, t), 0);
	assert_int_equal(p->tsc, tick + 100);
	assert_int_equal((u64)p->sec * 1000000000 + (u64)p->nsec, EPOCH + tick / 2);
	assert_int_equal(kvmclock_pairing(&vm, mem, GPA, 1, t), -KVM_EOPNOTSUPP);
	assert_int_equal(kvmclock_pairing(&vm, mem, 0x100000, 0, t), -KVM_EFAULT);
}

static void an_unstable_counter_is_not_called_stable(void **state)
{
	struct kvmclock k = { .msr = GPA | 1 };
	struct kvmclock_tsc t = { 2000000, 0 };
	struct kvm_clock_data d;

	(void)state;
	fake.tsc_stable = false;
	kvmclock_update(&vm, &k, mem, t);
	assert_int_equal(info()->flags, 0);
	kvmclock_get(&vm, &d);
	assert_int_equal(d.flags & KVM_CLOCK_TSC_STABLE, 0);
	assert_int_equal(kvmclock_pairing(&vm, mem, GPA, 0, t), -KVM_EOPNOTSUPP);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(starts_at_zero_and_follows_the_counter),
		CASE(guest_and_host_agree_whatever_the_guest_tsc_is),
		CASE(the_version_moves_by_two_and_is_repaired),
		CASE(disabled_or_misplaced_structures_are_left_alone),
		CASE(stopped_is_told_once),
		CASE(set_clock_moves_it_and_makes_structures_stale),
		CASE(realtime_advances_a_migrated_clock),
		CASE(wall_clock_is_the_time_of_clock_zero),
		CASE(pairing_needs_ram_and_a_known_type),
		CASE(an_unstable_counter_is_not_called_stable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
