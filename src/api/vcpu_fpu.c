/* SPDX-License-Identifier: MIT */
/* vCPU ioctls: x87, SSE, XSAVE areas, XCR0. */
#include <errno.h>
#include <linux/kvm.h>
#include <string.h>

#include "api/handlers.h"
#include "cpu/cpuid.h"
#include "cpu/fp.h"
#include "vm/vcpu.h"

long vcpu_get_fpu(struct vcpu *v, void *data, u64 arg)
{
	const struct fp_image *f = cpu_fp(&v->cpu);
	struct kvm_fpu *k = data;

	(void)arg;
	memcpy(k->fpr, f->st, sizeof(k->fpr));
	memcpy(k->xmm, f->xmm, sizeof(k->xmm));
	k->fcw = f->fcw;
	k->fsw = f->fsw;
	k->ftwx = f->ftw;
	k->last_opcode = f->fop;
	k->last_ip = f->fip;
	k->last_dp = f->fdp;
	k->mxcsr = f->mxcsr;
	return 0;
}

long vcpu_set_fpu(struct vcpu *v, void *data, u64 arg)
{
	struct fp_image *f = cpu_fp(&v->cpu);
	const struct kvm_fpu *k = data;

	(void)arg;
	memcpy(f->st, k->fpr, sizeof(k->fpr));
	memcpy(f->xmm, k->xmm, sizeof(k->xmm));
	f->fcw = k->fcw;
	f->fsw = k->fsw;
	f->ftw = k->ftwx;
	f->fop = k->last_opcode;
	f->fip = k->last_ip;
	f->fdp = k->last_dp;
	/* MXCSR is left alone, as the kernel does: KVM_SET_XSAVE has it. */
	fp_normalise(&v->cpu);
	return 0;
}

long vcpu_get_xsave(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	fp_get_xsave(&v->cpu, data);
	return 0;
}

long vcpu_set_xsave(struct vcpu *v, void *data, u64 arg)
{
	(void)arg;
	return fp_set_xsave(&v->cpu, data);
}

long vcpu_get_xcrs(struct vcpu *v, void *data, u64 arg)
{
	struct kvm_xcrs *x = data;

	(void)arg;
	x->nr_xcrs = 1;
	x->xcrs[0].xcr = 0;
	x->xcrs[0].value = v->cpu.xcr0;
	return 0;
}

long vcpu_set_xcrs(struct vcpu *v, void *data, u64 arg)
{
	const struct kvm_xcrs *x = data;

	(void)arg;
	if (x->nr_xcrs > KVM_MAX_XCRS || x->flags)
		return -EINVAL;
	for (u32 i = 0; i < x->nr_xcrs; i++) {
		if (x->xcrs[i].xcr)
			continue; /* XCR0 alone is a register of ours */
		if (!cpuid_xcr0_ok(v->cpu.cpuid, x->xcrs[i].value))
			return -EINVAL;
		v->cpu.xcr0 = x->xcrs[i].value;
		break;
	}
	return 0;
}
