/* SPDX-License-Identifier: MIT */
/* What far transfers and returns share. */
#ifndef LOCUM_CPU_FAR_H
#define LOCUM_CPU_FAR_H

#include "cpu/cr.h"
#include "cpu/seg.h"

/** far_target_ok() - may execution go on at @rip in code segment @cs? */
static inline bool far_target_ok(const struct cpu *c, const struct descriptor *cs, u64 rip)
{
	bool to64 = cpu_long_mode(c) && (desc_attr(cs->lo) & SEG_L);

	return to64 ? addr_is_canonical(rip) : (rip >> 32) == 0 && rip <= desc_limit(cs->lo);
}

/** far_check_real() - likewise in real mode: #GP(0) beyond the limit that CS has */
static inline enum emul far_check_real(struct cpu *c, u64 rip)
{
	return rip > c->seg[SEG_CS].limit ? cpu_gp(c, 0) : EMUL_CONTINUE;
}

/** far_put_real() - go to @sel:@rip in real mode */
static inline void far_put_real(struct cpu *c, u16 sel, u64 rip)
{
	seg_put_real(c, SEG_CS, sel);
	c->rip = rip;
	cpu_update_mode(c);
}

#endif
