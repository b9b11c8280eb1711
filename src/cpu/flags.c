/* SPDX-License-Identifier: MIT */
#include "cpu/flags.h"

#include <stdatomic.h>

void cpu_set_rflags(struct cpu *c, u64 v)
{
	u64 old = c->rflags;

	cpu_put_rflags(c, v | RF_ONE);
	if ((old ^ v) & RF_AC)
		mmu_set_ac(&c->mmu, v & RF_AC);
	if ((v & ~old) & RF_IF && !c->quiet && c->ops->event_check)
		c->ops->event_check(c);
}

void cpu_set_shadow(struct cpu *c, unsigned kind)
{
	c->shadow = (u8)kind;
	atomic_fetch_or_explicit(&c->attn, ATTN_SHADOW, memory_order_relaxed);
}
