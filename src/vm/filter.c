/* SPDX-License-Identifier: MIT */
#include "vm/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define X2APIC_FIRST 0x800
#define X2APIC_LAST  0x8ff

#define FILTER_RW (KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE)

static int copy_range(struct msr_filter_range *out, const struct kvm_msr_filter_range *in)
{
	size_t bytes = (in->nmsrs + 7) / 8;

	if (!in->nmsrs)
		return 0;
	if (in->flags & ~(u32)FILTER_RW)
		return -EINVAL;
	/* The kernel's rounds up to whole longs before it looks at the limit. */
	if (!bytes || ALIGN_UP(bytes, 8) > KVM_MSR_FILTER_MAX_BITMAP_SIZE)
		return -EINVAL;
	out->bitmap = malloc(bytes);
	if (!out->bitmap)
		return -ENOMEM;
	memcpy(out->bitmap, in->bitmap, bytes);
	out->flags = in->flags;
	out->base = in->base;
	out->nmsrs = in->nmsrs;
	return 0;
}

static bool is_empty(const struct kvm_msr_filter *in)
{
	for (unsigned i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++)
		if (in->ranges[i].nmsrs)
			return false;
	return true;
}

int msr_filter_create(const struct kvm_msr_filter *in, struct msr_filter **out)
{
	bool deny = in->flags & KVM_MSR_FILTER_DEFAULT_DENY;
	struct msr_filter *f;

	*out = NULL;
	if (in->flags & ~(u32)KVM_MSR_FILTER_DEFAULT_DENY)
		return -EINVAL;
	/* Denying everything by default and allowing nothing is a mistake. */
	if (is_empty(in))
		return deny ? -EINVAL : 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->default_allow = !deny;
	for (unsigned i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++) {
		int r = copy_range(&f->range[f->count], &in->ranges[i]);

		if (r) {
			msr_filter_destroy(f);
			return r;
		}
		f->count += in->ranges[i].nmsrs != 0;
	}
	*out = f;
	return 0;
}

void msr_filter_destroy(struct msr_filter *f)
{
	struct msr_filter *next;

	for (; f; f = next) {
		next = f->next_old;
		for (unsigned i = 0; i < f->count; i++)
			free(f->range[i].bitmap);
		free(f);
	}
}

bool msr_filter_allows(const struct msr_filter *f, u32 index, bool write)
{
	u32 type = write ? KVM_MSR_FILTER_WRITE : KVM_MSR_FILTER_READ;

	if (!f || (index >= X2APIC_FIRST && index <= X2APIC_LAST))
		return true;
	for (unsigned i = 0; i < f->count; i++) {
		const struct msr_filter_range *r = &f->range[i];
		u32 bit = index - r->base;

		if (bit < r->nmsrs && (r->flags & type))
			return r->bitmap[bit / 8] >> (bit % 8) & 1;
	}
	return f->default_allow;
}
