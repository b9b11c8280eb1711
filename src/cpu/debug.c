/* SPDX-License-Identifier: MIT */
#include "cpu/debug.h"

enum { RW_EXEC, RW_WRITE, RW_IO, RW_ACCESS };

static u64 active_dr7(const struct cpu *c)
{
	return debug_client_owns(c) ? c->gdb.dr7 : c->dr7;
}

static u64 active_addr(const struct cpu *c, unsigned n)
{
	return debug_client_owns(c) ? c->gdb.dr[n] : c->dr[n];
}

static bool enabled(u64 dr7, unsigned n)
{
	return dr7 >> (2 * n) & 3;
}

static unsigned kind(u64 dr7, unsigned n)
{
	return (unsigned)(dr7 >> (16 + 4 * n)) & 3;
}

static unsigned length(u64 dr7, unsigned n)
{
	static const u8 bytes[4] = { 1, 2, 8, 4 };

	return bytes[dr7 >> (18 + 4 * n) & 3];
}

void debug_update(struct cpu *c)
{
	u64 dr7 = active_dr7(c);
	unsigned count = 0;

	for (unsigned n = 0; n < 4; n++) {
		unsigned k = kind(dr7, n), len = length(dr7, n);
		struct mmu_watch *w = &c->mmu.watch[n];

		*w = (struct mmu_watch){ .addr = active_addr(c, n) & ~(u64)(len - 1) };
		if (!enabled(dr7, n) || (k != RW_WRITE && k != RW_ACCESS))
			continue;
		w->len = (u8)len;
		w->writes = true;
		w->reads = k == RW_ACCESS;
		count = n + 1;
	}
	/* All four or none: bit n of watch_hits is breakpoint n. */
	mmu_set_watch(&c->mmu, count ? 4 : 0);
}

bool debug_has_insn_bp(const struct cpu *c)
{
	u64 dr7 = active_dr7(c);

	for (unsigned n = 0; n < 4; n++)
		if (enabled(dr7, n) && kind(dr7, n) == RW_EXEC)
			return true;
	return false;
}

u32 debug_insn_hits(const struct cpu *c, gva_t lin)
{
	u64 dr7 = active_dr7(c);
	u32 hits = 0;

	for (unsigned n = 0; n < 4; n++)
		if (enabled(dr7, n) && kind(dr7, n) == RW_EXEC && active_addr(c, n) == lin)
			hits |= BIT(n);
	return hits;
}

u32 debug_data_hits(struct cpu *c)
{
	u32 hits = c->mmu.watch_hits;

	c->mmu.watch_hits = 0;
	return hits;
}

u32 debug_io_hits(const struct cpu *c, u16 port, unsigned size)
{
	u64 dr7 = active_dr7(c);
	u32 hits = 0;

	if (!(c->mmu.cr4 & CR4_DE))
		return 0;
	for (unsigned n = 0; n < 4; n++) {
		unsigned len = length(dr7, n);
		u64 at = active_addr(c, n) & ~(u64)(len - 1);

		if (enabled(dr7, n) && kind(dr7, n) == RW_IO && port < at + len && at < port + size)
			hits |= BIT(n);
	}
	return hits;
}

static enum emul check_access(struct cpu *c, unsigned *n)
{
	if (*n == 4 || *n == 5) {
		if (c->mmu.cr4 & CR4_DE)
			return cpu_ud(c);
		*n += 2;
	}
	if (c->mmu.cpl)
		return cpu_gp(c, 0);
	if (active_dr7(c) & DR7_GD) {
		u64 keep = debug_client_owns(c) ? 0 : c->dr6 & DR6_B;

		c->mmu.fault = (struct fault){ .vector = EXC_DB, .dr6 = (u32)(DR6_BD | keep) };
		return EMUL_FAULT;
	}
	return EMUL_CONTINUE;
}

enum emul debug_read(struct cpu *c, unsigned n, u64 *v)
{
	enum emul r = check_access(c, &n);

	if (r == EMUL_CONTINUE)
		*v = n < 4 ? c->dr[n] : n == 6 ? c->dr6 : c->dr7;
	return r;
}

enum emul debug_write(struct cpu *c, unsigned n, u64 v)
{
	enum emul r = check_access(c, &n);

	if (r != EMUL_CONTINUE)
		return r;
	if (n < 4) {
		c->dr[n] = v;
	} else if (v >> 32) {
		return cpu_gp(c, 0);
	} else if (n == 6) {
		c->dr6 = (v & 0xe00f) | DR6_FIXED_1;
		return EMUL_CONTINUE;
	} else {
		c->dr7 = (v & 0xffff2bff) | DR7_FIXED_1;
	}
	debug_update(c);
	return EMUL_CONTINUE;
}
