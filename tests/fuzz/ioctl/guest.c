/* SPDX-License-Identifier: MIT */
/* Guest code that does a bit of everything, and clients that answer badly. */
#include <string.h>

#include "world.h"

#define CODE 0x10000u

#define S(text) { text, sizeof(text) - 1 }

/* Instructions that reach beyond the processor, most in every mode. */
static const struct {
	const char *bytes;
	u8 size;
} snippets[] = {
	S("\xf4"),			   /* hlt */
	S("\xfb\xf4"),			   /* sti; hlt */
	S("\xe4\x10"),			   /* in al, 0x10 */
	S("\xe6\x80"),			   /* out 0x80, al */
	S("\xe7\x21"),			   /* out 0x21, eax: the PIC, if there is one */
	S("\xf3\x6c"),			   /* rep insb */
	S("\xf3\x6f"),			   /* rep outsd */
	S("\xf3\xa4"),			   /* rep movsb */
	S("\xf3\xab"),			   /* rep stosd */
	S("\x0f\xa2"),			   /* cpuid */
	S("\x0f\x31"),			   /* rdtsc */
	S("\x0f\x30"),			   /* wrmsr */
	S("\x0f\x32"),			   /* rdmsr */
	S("\xb9\x1b\x00\x00\x00\x0f\x32"), /* rdmsr of the APIC base */
	S("\xb9\xe0\x06\x00\x00\x0f\x30"), /* wrmsr of the TSC deadline */
	S("\xb9\x01\x4d\x56\x4b\x0f\x30"), /* wrmsr of kvmclock */
	S("\xb9\x30\x08\x00\x00\x0f\x30"), /* wrmsr of the x2APIC's ICR */
	S("\x0f\x01\xc1"),		   /* vmcall */
	S("\x0f\x01\xd9"),		   /* vmmcall */
	S("\x0f\x22\xc0"),		   /* mov cr0, eax */
	S("\x0f\x22\xd8"),		   /* mov cr3, eax */
	S("\x0f\x22\xe0"),		   /* mov cr4, eax */
	S("\x0f\x20\xd8"),		   /* mov eax, cr3 */
	S("\x0f\x23\xf8"),		   /* mov dr7, eax */
	S("\x0f\x01\x3f"),		   /* invlpg [edi] */
	S("\x0f\x01\x17"),		   /* lgdt [edi] */
	S("\x0f\x01\x1f"),		   /* lidt [edi] */
	S("\x0f\x01\xf8"),		   /* swapgs */
	S("\x0f\x00\xd8"),		   /* ltr ax */
	S("\x0f\x01\xd1"),		   /* xsetbv */
	S("\x0f\xae\x27"),		   /* xsave [edi] */
	S("\x0f\xae\x2f"),		   /* xrstor [edi] */
	S("\x0f\xae\x0f"),		   /* fxrstor [edi] */
	S("\x0f\x05"),			   /* syscall */
	S("\x0f\x07"),			   /* sysret */
	S("\xcd\x20"),			   /* int 0x20 */
	S("\xcf"),			   /* iret */
	S("\xcc"),			   /* int3 */
	S("\x0f\x0b"),			   /* ud2 */
	S("\x8e\xd8"),			   /* mov ds, eax */
	S("\x8e\xd0"),			   /* mov ss, eax */
	S("\x9d"),			   /* popf */
	S("\xff\x07"),			   /* inc dword [edi] */
	S("\xf0\x0f\xc1\x07"),		   /* lock xadd [edi], eax */
	S("\x89\x07"),			   /* mov [edi], eax */
	S("\xc7\x05\x00\x00\xe0\xfe\x01\x00\x00\x00"), /* mov dword [0xfee00000 ...], 1 */
	S("\xbf\x00\x00\xe0\xfe\x89\x87\x80\x03\x00\x00"), /* the LAPIC's timer */
	S("\xbf\x00\x00\xe0\xfe\x89\x87\x00\x03\x00\x00"), /* the LAPIC's ICR */
	S("\xbf\x00\x00\xc0\xfe\x89\x07\x89\x47\x10"),	   /* the IOAPIC */
	S("\xbf\x00\x00\x00\xd0\x89\x07\x88\x47\x04"),	   /* a device */
	S("\xe6\x80\xe6\x80"),	   /* out 0x80, al, twice */
	S("\x66\x0f\x6f\x07"),		   /* movdqa xmm0, [edi] */
	S("\x66\x0f\x7f\x07"),		   /* movdqa [edi], xmm0 */
	S("\x0f\xc7\x0f"),		   /* cmpxchg8b [edi] */
	S("\xc8\xff\xff\x1f"),		   /* enter */
	S("\xea\x00\x00\x01\x00\x08\x00"), /* jmp far */
	S("\xeb\xfe"),			   /* jmp . */
};

static unsigned put_code(struct input *in, u8 *code, unsigned room)
{
	unsigned n = 0, pieces = 1 + in_below(in, 24);

	for (unsigned i = 0; i < pieces; i++) {
		u8 kind = in8(in);

		if (kind < 160) {
			unsigned k = kind % (sizeof(snippets) / sizeof(snippets[0]));

			memcpy(code + n, snippets[k].bytes, snippets[k].size);
			n += snippets[k].size;
		} else if (kind < 200) {
			code[n++] = 0xb8 | (kind & 7); /* mov reg, value */
			u32 value = (u32)in_value(in);

			memcpy(code + n, &value, 4);
			n += 4;
		} else {
			unsigned k = 1 + (kind & 15);

			in_bytes(in, code + n, k);
			n += k;
		}
		if (n > room - 64)
			break;
	}
	code[n++] = 0xeb; /* back to the start */
	code[n] = (u8)(n < 126 ? -(int)(n + 1) : 0xfe);
	return n + 1;
}

/* Tables for identity maps at 0x1000 (4 levels) and 0x5000 (two). */
static void put_tables(u8 *ram)
{
	u64 *pml4 = (void *)(ram + 0x1000), *pdpt = (void *)(ram + 0x2000),
	    *pd = (void *)(ram + 0x3000);
	u32 *pd32 = (void *)(ram + 0x5000);

	pml4[0] = 0x2007;
	for (u64 i = 0; i < 4; i++)
		pdpt[i] = i ? i << 30 | 0x87 : 0x3007;
	for (u64 i = 0; i < 512; i++)
		pd[i] = i << 21 | 0x87;
	for (u32 i = 0; i < 1024; i++)
		pd32[i] = i << 22 | 0x87;
	for (unsigned i = 0; i < 512; i++) /* gates and descriptors of a sort */
		((u64 *)(void *)(ram + 0x6000))[i] =
			i & 1 ? 0x00af9a000000ffff : 0x00008e0000080000 | CODE;
}

static void set_mode(struct kvm_sregs *s, unsigned mode)
{
	struct kvm_segment code = { .limit = ~0u, .selector = 8, .type = 11, .present = 1,
				    .s = 1, .g = 1, .db = 1 };
	struct kvm_segment data = { .limit = ~0u, .selector = 16, .type = 3, .present = 1,
				    .s = 1, .db = 1, .g = 1 };

	if (mode == 0) { /* real */
		s->cr0 = 0x60000010;
		s->cr4 = 0;
		s->efer = 0;
		s->cs.base = 0;
		s->cs.selector = 0;
		return;
	}
	if (mode == 3) {
		code.l = 1;
		code.db = 0;
	}
	s->cs = code;
	s->ds = s->es = s->fs = s->gs = s->ss = data;
	s->gdt.base = s->idt.base = 0x6000;
	s->gdt.limit = s->idt.limit = 0xfff;
	s->cr0 = mode == 1 ? 0x33 : 0x80000033;
	s->cr3 = mode == 3 ? 0x1000 : 0x5000;
	s->cr4 = mode == 3 ? 0x620 : 0x610;
	s->efer = mode == 3 ? 0x501 : 0;
}

/* RAM at 0, all slots that are in its way removed. */
static void show(int vm, struct kvm_userspace_memory_region slot)
{
	struct kvm_userspace_memory_region none = { .slot = 0 };

	if (vm < 0)
		return;
	if (!world_ioctl(vm, KVM_SET_USER_MEMORY_REGION, "slot of a guest", (u64)&slot))
		return;
	for (; none.slot < 8; none.slot++)
		world_ioctl(vm, KVM_SET_USER_MEMORY_REGION, "no slot", (u64)&none);
	world_ioctl(vm, KVM_SET_USER_MEMORY_REGION, "slot of a guest", (u64)&slot);
}

void guest_load(struct input *in)
{
	unsigned index = world_pick_vcpu(in);
	struct fuzz_vcpu *v = &world.vcpu[index];
	u8 *ram = arena_area(in_below(in, AREAS));
	struct kvm_sregs s;
	struct kvm_regs r;
	unsigned mode = in_below(in, 4), where;

	if (v->fd < 0 || v->vm < 0)
		return;
	where = mode ? CODE : 0x8000;
	arena_may_change(ram, AREA_SIZE);
	put_tables(ram);
	put_code(in, ram + where, 4096);
	struct kvm_userspace_memory_region slot = {
		.slot = in_below(in, 2), .memory_size = AREA_SIZE, .userspace_addr = (u64)ram
	};
	show(world.vm[v->vm], slot);
	if (world_ioctl(v->fd, KVM_GET_SREGS, "KVM_GET_SREGS", (u64)&s) ||
	    world_ioctl(v->fd, KVM_GET_REGS, "KVM_GET_REGS", (u64)&r))
		return;
	set_mode(&s, mode);
	r.rip = where;
	r.rsp = 0x7000;
	r.rflags = 2 | (in8(in) & 1 ? 0x200 : 0);
	r.rdi = in8(in) & 3 ? 0x9000ull + in8(in) : in_value(in);
	r.rsi = 0x9000;
	r.rcx = in8(in);
	r.rax = in_value(in);
	world_ioctl(v->fd, KVM_SET_SREGS, "KVM_SET_SREGS", (u64)&s);
	world_ioctl(v->fd, KVM_SET_REGS, "KVM_SET_REGS", (u64)&r);
	world_ioctl(v->fd, KVM_SET_MP_STATE, "KVM_SET_MP_STATE",
		    (u64) & (struct kvm_mp_state){ KVM_MP_STATE_RUNNABLE });
	world_run(index, 1 + in_below(in, 8), 300, in8(in) & 1 ? in8(in) & 1 : -1, in32(in));
}

static u64 next(u64 *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

void guest_answer(struct kvm_run *run, u64 *seed)
{
	u8 *page = (u8 *)run;
	u64 v;

	*seed |= 1;
	v = next(seed);
	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		for (unsigned i = 0; i < 64; i++)
			page[4096 + i] = (u8)next(seed);
		break;
	case KVM_EXIT_MMIO:
		memcpy(run->mmio.data, &v, 8);
		break;
	case KVM_EXIT_X86_RDMSR:
	case KVM_EXIT_X86_WRMSR:
		run->msr.data = v;
		run->msr.error = v & 1;
		break;
	}
	if (!(v >> 8 & 7))
		run->request_interrupt_window = v >> 11 & 1;
	if (!(v >> 16 & 15)) { /* what no client should do: scribble */
		unsigned n = 1 + (v >> 20 & 31);

		for (unsigned i = 0; i < n; i++)
			page[next(seed) % (v & 2 ? 2352 : 64)] = (u8)next(seed);
	}
	if (!(v >> 32 & 15))
		run->kvm_valid_regs = v >> 36 & 15;
	if (!(v >> 40 & 15))
		run->kvm_dirty_regs = v >> 44 & 15;
}
