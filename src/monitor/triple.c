/* SPDX-License-Identifier: MIT */
/*
 * Why a triple fault: a fault could not be delivered, the double fault that
 * followed could not either.  What stands in the way of vector 8 is read from
 * the guest's own tables.
 */
#include <stdio.h>
#include <string.h>

#include "monitor/machine.h"

/* @n bytes at linear address @la, which may lie in different pages. */
static bool guest_read(struct machine_cpu *c, u64 la, void *to, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct kvm_translation t = { .linear_address = la + i };
		const u8 *at;

		if (c->m->be->ioctl(c->fd, KVM_TRANSLATE, (unsigned long)&t) || !t.valid)
			return false;
		at = machine_ram(c->m, t.physical_address, 1);
		if (!at)
			return false;
		((u8 *)to)[i] = *at;
	}
	return true;
}

static void explain_gate(const u8 *gate, bool is64, char *text, size_t size)
{
	unsigned sel = gate[2] | gate[3] << 8, type = gate[5] & 0x1f;
	u64 offset = gate[0] | (u64)gate[1] << 8 | (u64)gate[6] << 16 | (u64)gate[7] << 24;

	if (is64)
		for (unsigned i = 0; i < 4; i++)
			offset |= (u64)gate[8 + i] << (32 + 8 * i);
	if (!(gate[5] & 0x80))
		snprintf(text, size, "the gate of #DF in the IDT is not present");
	else if (type != 14 && type != 15 && (is64 || (type != 5 && type != 6 && type != 7)))
		snprintf(text, size, "the gate of #DF in the IDT has type %u", type);
	else
		snprintf(text, size,
			 "#DF could not be delivered to %#x:%#llx (code segment, stack or its page)",
			 sel, (unsigned long long)offset);
}

static void explain(struct machine_cpu *c, const struct kvm_sregs *s, char *text, size_t size)
{
	bool is64 = s->efer & 0x400, real = !(s->cr0 & 1);
	unsigned len = is64 ? 16 : real ? 4 : 8;
	u8 gate[16];

	if (s->idt.limit < 8 * len + len - 1)
		snprintf(text, size, "the IDT (limit %#x) has no gate for #DF", s->idt.limit);
	else if (!guest_read(c, s->idt.base + 8 * len, gate, len))
		snprintf(text, size, "the IDT at %#llx is not mapped to memory",
			 (unsigned long long)s->idt.base);
	else if (real)
		snprintf(text, size, "real mode");
	else
		explain_gate(gate, is64, text, size);
}

void triple_fault_report(struct machine_cpu *c)
{
	struct kvm_regs r = { 0 };
	struct kvm_sregs s = { 0 };
	char why[160], code[40] = "not mapped";
	u8 bytes[8];

	if (c->m->be->ioctl(c->fd, KVM_GET_REGS, (unsigned long)&r) ||
	    c->m->be->ioctl(c->fd, KVM_GET_SREGS, (unsigned long)&s)) {
		fprintf(stderr, "locum: vCPU %u: triple fault; its registers cannot be read\n",
			c->id);
		return;
	}
	explain(c, &s, why, sizeof(why));
	if (guest_read(c, s.cs.base + r.rip, bytes, sizeof(bytes)))
		for (unsigned i = 0; i < sizeof(bytes); i++)
			snprintf(code + i * 3, 4, i + 1 < sizeof(bytes) ? "%02x " : "%02x",
				 bytes[i]);
	fprintf(stderr,
		"locum: vCPU %u: triple fault at rip %#llx (code: %s): %s; cs %#x ss %#x rsp %#llx "
		"rflags %#llx cr0 %#llx cr2 %#llx cr3 %#llx cr4 %#llx efer %#llx idt %#llx\n",
		c->id, r.rip, code, why, s.cs.selector, s.ss.selector, r.rsp, r.rflags, s.cr0,
		s.cr2, s.cr3, s.cr4, s.efer, s.idt.base);
}
