/* SPDX-License-Identifier: MIT */
#include "pv/kvmclock.h"

#include <errno.h>
#include <linux/kvm_para.h>
#include <stdatomic.h>
#include <string.h>

#define KVMCLOCK_ENABLED 1ull
#define NSEC_PER_SEC	 1000000000ull

void kvmclock_vm_init(struct kvmclock_vm *v, const struct clock *clock)
{
	memset(v, 0, sizeof(*v));
	pthread_mutex_init(&v->lock, NULL);
	v->clock = clock;
	v->scale = pvclock_scale_from_khz(clock->tsc_khz);
	v->tsc_ref = clock->tsc(clock);
}

void kvmclock_vm_fini(struct kvmclock_vm *v)
{
	pthread_mutex_destroy(&v->lock);
}

static u64 ns_at(const struct kvmclock_vm *v, u64 tsc)
{
	return v->ns_ref + pvclock_ticks_to_ns(v->scale, tsc - v->tsc_ref);
}

u64 kvmclock_now(struct kvmclock_vm *v)
{
	u64 ns;

	pthread_mutex_lock(&v->lock);
	ns = ns_at(v, v->clock->tsc(v->clock));
	pthread_mutex_unlock(&v->lock);
	return ns;
}

void kvmclock_get(struct kvmclock_vm *v, struct kvm_clock_data *out)
{
	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&v->lock);
	/* The three as close together as they can be had: the time of day is
	 * bracketed by the counter that the other two come from. */
	out->host_tsc = v->clock->tsc(v->clock);
	out->realtime = v->clock->real_ns(v->clock);
	out->clock = ns_at(v, out->host_tsc);
	pthread_mutex_unlock(&v->lock);
	out->flags = KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC;
	if (v->clock->tsc_stable)
		out->flags |= KVM_CLOCK_TSC_STABLE;
}

int kvmclock_set(struct kvmclock_vm *v, const struct kvm_clock_data *in)
{
	u64 ns = in->clock, tsc, real;

	if (in->flags & ~(u32)(KVM_CLOCK_REALTIME | KVM_CLOCK_TSC_STABLE |
			       KVM_CLOCK_HOST_TSC))
		return -EINVAL;
	pthread_mutex_lock(&v->lock);
	tsc = v->clock->tsc(v->clock);
	if (in->flags & KVM_CLOCK_REALTIME) {
		/* The clock went on while the state was on its way. */
		real = v->clock->real_ns(v->clock);
		if (real > in->realtime)
			ns += real - in->realtime;
	}
	v->tsc_ref = tsc;
	v->ns_ref = ns;
	atomic_fetch_add_explicit(&v->epoch, 1, memory_order_release);
	pthread_mutex_unlock(&v->lock);
	return 0;
}

/* The reference pair in the vCPU's own ticks. */
static void fill(struct kvmclock_vm *v, struct kvmclock *k, struct kvmclock_tsc tsc,
		 struct pvclock_vcpu_time_info *i)
{
	struct pvclock_scale s = pvclock_scale_from_khz(tsc.khz);
	u64 ref;

	pthread_mutex_lock(&v->lock);
	k->epoch = atomic_load_explicit(&v->epoch, memory_order_relaxed);
	ref = v->tsc_ref;
	i->system_time = v->ns_ref;
	pthread_mutex_unlock(&v->lock);
	i->tsc_timestamp = (tsc.khz == v->clock->tsc_khz ?
				    ref :
				    clock_mul_div(ref, tsc.khz, v->clock->tsc_khz)) +
			   (u64)tsc.offset;
	i->tsc_to_system_mul = s.mul;
	i->tsc_shift = s.shift;
	i->flags = v->clock->tsc_stable ? PVCLOCK_TSC_STABLE : 0;
	if (k->stopped)
		i->flags |= PVCLOCK_GUEST_STOPPED;
	k->stopped = false;
}

void kvmclock_update(struct kvmclock_vm *v, struct kvmclock *k, struct mem *mem,
		     struct kvmclock_tsc tsc)
{
	struct pvclock_vcpu_time_info i = { 0 };
	gpa_t gpa = k->msr & ~KVMCLOCK_ENABLED;
	u32 version;

	if (!(k->msr & KVMCLOCK_ENABLED))
		return;
	fill(v, k, tsc, &i);
	/* A structure that an older owner left odd starts a fresh count. */
	if (mem_read(mem, gpa, &version, sizeof(version)))
		return;
	version += (version & 1) + 1;
	i.version = version;
	if (mem_write(mem, gpa, &version, sizeof(version)))
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (mem_write(mem, gpa + 4, (u8 *)&i + 4, sizeof(i) - 4))
		return;
	atomic_thread_fence(memory_order_seq_cst);
	i.version = version + 1;
	if (mem_write(mem, gpa, &i.version, sizeof(i.version)))
		return;
	k->version = i.version;
}

void kvmclock_write_wall(struct kvmclock_vm *v, struct mem *mem, gpa_t gpa)
{
	struct pvclock_wall_clock w;
	u64 boot;
	u32 version;

	if (!gpa || mem_read(mem, gpa, &version, sizeof(version)))
		return;
	version += (version & 1) + 1;
	if (mem_write(mem, gpa, &version, sizeof(version)))
		return;
	boot = v->clock->real_ns(v->clock) - kvmclock_now(v);
	w.version = version;
	w.sec = (u32)(boot / NSEC_PER_SEC);
	w.nsec = (u32)(boot % NSEC_PER_SEC);
	if (mem_write(mem, gpa, &w, sizeof(w)))
		return;
	atomic_thread_fence(memory_order_seq_cst);
	w.version++;
	if (mem_write(mem, gpa, &w.version, sizeof(w.version)))
		return;
}

s64 kvmclock_pairing(struct kvmclock_vm *v, struct mem *mem, gpa_t gpa, u64 type,
		     struct kvmclock_tsc tsc)
{
	struct kvm_clock_pairing p = { 0 };
	u64 host, real;

	if (type != KVM_CLOCK_PAIRING_WALLCLOCK || !v->clock->tsc_stable)
		return -KVM_EOPNOTSUPP;
	host = v->clock->tsc(v->clock);
	real = v->clock->real_ns(v->clock);
	p.sec = (s64)(real / NSEC_PER_SEC);
	p.nsec = (s64)(real % NSEC_PER_SEC);
	p.tsc = (tsc.khz == v->clock->tsc_khz ?
			 host :
			 clock_mul_div(host, tsc.khz, v->clock->tsc_khz)) +
		(u64)tsc.offset;
	return mem_write(mem, gpa, &p, sizeof(p)) ? -KVM_EFAULT : 0;
}
