/* SPDX-License-Identifier: MIT */
/* Requests of the library's own table, with arguments that mean something and
 * arguments that do not. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "world.h"
#include "locum/kvm.h"

enum kind { SYSTEM, VM, VCPU };
enum transfer { VALUE, IN, OUT, INOUT, RAW };

static const struct request {
	u32 code;
	enum kind kind;
	enum transfer transfer;
	const char *name;
} requests[] = {
#define SYSTEM(request, how, cap, handler, test) { request, SYSTEM, how, #request },
#define VM(request, how, cap, handler, test)	 { request, VM, how, #request },
#define VCPU(request, how, cap, handler, test)	 { request, VCPU, how, #request },
#include "api/ioctls.def"
#undef SYSTEM
#undef VM
#undef VCPU
};

#define NR_REQUESTS (sizeof(requests) / sizeof(requests[0]))

/* Structures that are read, changed and written back. */
static const struct {
	u32 get, set;
	enum kind kind;
	const char *name;
} pairs[] = {
	{ KVM_GET_REGS, KVM_SET_REGS, VCPU, "regs" },
	{ KVM_GET_SREGS, KVM_SET_SREGS, VCPU, "sregs" },
	{ KVM_GET_SREGS, KVM_SET_SREGS, VCPU, "sregs" },
	{ KVM_GET_SREGS2, KVM_SET_SREGS2, VCPU, "sregs2" },
	{ KVM_GET_FPU, KVM_SET_FPU, VCPU, "fpu" },
	{ KVM_GET_XSAVE, KVM_SET_XSAVE, VCPU, "xsave" },
	{ KVM_GET_XCRS, KVM_SET_XCRS, VCPU, "xcrs" },
	{ KVM_GET_LAPIC, KVM_SET_LAPIC, VCPU, "lapic" },
	{ KVM_GET_LAPIC, KVM_SET_LAPIC, VCPU, "lapic" },
	{ KVM_GET_MP_STATE, KVM_SET_MP_STATE, VCPU, "mp_state" },
	{ KVM_GET_VCPU_EVENTS, KVM_SET_VCPU_EVENTS, VCPU, "events" },
	{ KVM_GET_VCPU_EVENTS, KVM_SET_VCPU_EVENTS, VCPU, "events" },
	{ KVM_GET_DEBUGREGS, KVM_SET_DEBUGREGS, VCPU, "debugregs" },
	{ KVM_GET_IRQCHIP, KVM_SET_IRQCHIP, VM, "irqchip" },
	{ KVM_GET_IRQCHIP, KVM_SET_IRQCHIP, VM, "irqchip" },
	{ KVM_GET_PIT2, KVM_SET_PIT2, VM, "pit2" },
	{ KVM_GET_CLOCK, KVM_SET_CLOCK, VM, "clock" },
};

static const u32 msrs[] = {
	0x10,	    0x11,	0x12,	    0x1b,	0x3a,	    0x3b,	0x48,
	0x8b,	    0x17a,	0x17b,	    0x174,	0x175,	    0x176,	0x1a0,
	0x1d9,	    0x200,	0x20f,	    0x250,	0x26f,	    0x277,	0x2ff,
	0x400,	    0x401,	0x410,	    0x6e0,	0x800,	    0x802,	0x808,
	0x80b,	    0x830,	0x832,	    0x838,	0x83f,	    0xda0,	0xc0000080,
	0xc0000081, 0xc0000082, 0xc0000083, 0xc0000084, 0xc0000100, 0xc0000101, 0xc0000102,
	0xc0000103, 0xc0010015, 0x4b564d00, 0x4b564d01, 0x4b564d02, 0x4b564d03, 0x4b564d04,
	0x4b564d05, 0x40000000, 0x40000001,
};

static const u16 caps[] = {
	KVM_CAP_SPLIT_IRQCHIP,		  KVM_CAP_X86_DISABLE_EXITS,
	KVM_CAP_DISABLE_QUIRKS,		  KVM_CAP_DISABLE_QUIRKS2,
	KVM_CAP_X2APIC_API,		  KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2,
	KVM_CAP_DIRTY_LOG_RING,		  KVM_CAP_MAX_VCPU_ID,
	KVM_CAP_EXCEPTION_PAYLOAD,	  KVM_CAP_X86_TRIPLE_FAULT_EVENT,
	KVM_CAP_X86_USER_SPACE_MSR,	  KVM_CAP_MSR_PLATFORM_INFO,
	KVM_CAP_ENFORCE_PV_FEATURE_CPUID, KVM_CAP_EXIT_HYPERCALL,
	KVM_CAP_HYPERV_SYNIC,		  KVM_CAP_X86_NOTIFY_VMEXIT,
};

/* --- where arguments lie ---------------------------------------------------------- */

#define ROOM   (8 * 4096u)
#define CANARY 0xc3

static u8 *room; /* ROOM bytes, then an inaccessible page */

static u8 *get_room(void)
{
	if (!room) {
		room = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (room == MAP_FAILED || mprotect(room + ROOM, 4096, PROT_NONE))
			world_fail("no memory");
	}
	memset(room, CANARY, ROOM);
	return room;
}

/* At the very end of the room, or with canaries behind. */
static u8 *place(struct input *in, size_t size)
{
	u8 *start = get_room();

	return in8(in) & 1 ? start + ROOM - size : start + 4096;
}

static void check_room(const u8 *p, size_t size, const char *name)
{
	for (const u8 *q = room; q < room + ROOM; q++)
		if ((q < p || q >= p + size) && *q != CANARY)
			world_fail("%s wrote at %ld of a structure of %zu bytes", name,
				   (long)(q - p), size);
}

/* A pointer that leads nowhere. */
static u64 bad_pointer(struct input *in)
{
	static const u64 bad[] = { 0,
				   1,
				   0xfff,
				   0x7ffffffff000,
				   0xffff800000000000,
				   0xfffffffffffff000,
				   ~0ull,
				   1ull << 47 };
	u8 k = in8(in);

	if (k & 1)
		return (u64)(get_room() + ROOM - in8(in) % 64);
	return bad[k >> 1 & 7];
}

static int fd_of(struct input *in, enum kind kind, unsigned *index)
{
	u8 k = in8(in);

	*index = world_pick_vm(in);
	if (k >= 252) /* the wrong kind */
		return k & 1 ? world.sys : world.vm[0];
	switch (kind) {
	case SYSTEM:
		return world.sys;
	case VM:
		return world.vm[*index];
	case VCPU:
		break;
	}
	return world.vcpu[world_pick_vcpu(in)].fd;
}

/* --- structures with pointers or descriptors in them --------------------------------- */

static u64 buffer_pointer(struct input *in)
{
	/* The area after the structure: see place(). */
	return in8(in) & 3 ? (u64)(room + 2 * 4096) : bad_pointer(in);
}

static int event_fd(struct input *in)
{
	u8 k = in8(in);

	return k < 240 ? world.eventfd[k & 3] : k & 1 ? -1 : world.sys;
}

/* Where guest.c's guests write. */
static u64 device_addr(struct input *in)
{
	static const u16 ports[] = { 0x80, 0x21, 0x10 };
	u8 k = in8(in);

	return k & 4 ? ports[k % 3] : 0xd0000000u + (k & 3) * 4u;
}

void request_event(struct input *in)
{
	u8 k = in8(in);
	u64 v = 1;

	/* Either may find nothing to do. */
	if (k & 4 ? read(world.eventfd[k & 3], &v, 8) < 0 : write(world.eventfd[k & 3], &v, 8) < 0)
		world_trace("eventfd %u: nothing", k & 3);
}

/* True if the request may write where its structure points. */
static bool fix_pointers(struct input *in, u32 code, u8 *p)
{
	switch (code) {
	case KVM_GET_DIRTY_LOG: {
		struct kvm_dirty_log *log = (void *)p;

		log->slot = in8(in) & 7;
		log->dirty_bitmap = (void *)buffer_pointer(in);
		return true;
	}
	case KVM_CLEAR_DIRTY_LOG: {
		struct kvm_clear_dirty_log *log = (void *)p;

		log->slot = in8(in) & 7;
		log->num_pages = in8(in) & 1 ? 64 * in_below(in, 3) : (u32)in_value(in);
		log->first_page = in8(in) & 1 ? 64 * in_below(in, 3) : in_value(in);
		log->dirty_bitmap = (void *)buffer_pointer(in);
		return false;
	}
	case KVM_GET_DEVICE_ATTR:
	case KVM_HAS_DEVICE_ATTR:
	case KVM_SET_DEVICE_ATTR:
		((struct kvm_device_attr *)(void *)p)->addr = buffer_pointer(in);
		return true;
	case KVM_X86_SET_MSR_FILTER: {
		struct kvm_msr_filter *f = (void *)p;

		f->flags &= 1;
		for (unsigned i = 0; i < 16; i++) {
			f->ranges[i].nmsrs = in8(in) & 1 ? in8(in) : 0;
			f->ranges[i].flags = in8(in) & 3;
			f->ranges[i].bitmap = (void *)buffer_pointer(in);
		}
		return false;
	}
	case KVM_IRQFD: {
		struct kvm_irqfd *f = (void *)p;

		f->fd = (u32)event_fd(in);
		f->gsi = in8(in) & 31;
		f->flags = in8(in) & 3;
		f->resamplefd = (u32)event_fd(in);
		return false;
	}
	case KVM_IOEVENTFD: {
		struct kvm_ioeventfd *f = (void *)p;

		f->fd = event_fd(in);
		f->addr = in8(in) & 3 ? device_addr(in) : in_value(in);
		f->len = in8(in) & 7 ? in8(in) & 4 : in8(in);
		f->flags = in8(in) & 7 ? in8(in) & 3 : in32(in);
		f->datamatch = in8(in) & 1;
		return false;
	}
	case KVM_REGISTER_COALESCED_MMIO:
	case KVM_UNREGISTER_COALESCED_MMIO: {
		struct kvm_coalesced_mmio_zone *z = (void *)p;

		z->addr = in8(in) & 7 ? device_addr(in) : in_value(in);
		z->size = in8(in) & 7 ? in8(in) & 15 : in32(in);
		z->pio = in8(in) & 1;
		return false;
	}
	case KVM_ENABLE_CAP: {
		struct kvm_enable_cap *cap = (void *)p;

		cap->cap = in8(in) & 3 ? caps[in_below(in, sizeof(caps) / sizeof(caps[0]))] :
					 in8(in);
		cap->flags = 0;
		cap->args[0] = in8(in) & 7 ? in8(in) : in_value(in);
		return false;
	}
	case KVM_SIGNAL_MSI: {
		struct kvm_msi *msi = (void *)p;

		msi->address_lo = 0xfee00000 | (in8(in) & 7u) << 12 | (in8(in) & 0xc);
		msi->data = in8(in) | (in8(in) & 7u) << 8;
		msi->flags = 0;
		return false;
	}
	case KVM_IRQ_LINE:
	case KVM_IRQ_LINE_STATUS:
		((struct kvm_irq_level *)(void *)p)->irq = in8(in) & 31;
		((struct kvm_irq_level *)(void *)p)->level = in8(in) & 1;
		return false;
	}
	return false;
}

/* --- requests ---------------------------------------------------------------------- */

static void request_struct(struct input *in, const struct request *q, int fd)
{
	size_t size = _IOC_SIZE(q->code);
	u8 copy[4096], *p = place(in, size);
	bool absurd = in8(in) < 16, writes;
	long r;

	for (size_t i = 0; i < size; i++)
		p[i] = 0;
	if (in8(in) & 1)
		in_bytes(in, p, size);
	else
		for (unsigned k = in_below(in, 8); k; k--) {
			u64 v = in_value(in);
			size_t off = in_below(in, (u32)size) & ~7u;

			memcpy(p + off, &v, size - off < 8 ? size - off : 8);
		}
	writes = fix_pointers(in, q->code, p);
	memcpy(copy, p, size);
	r = world_ioctl(fd, q->code, q->name, absurd ? bad_pointer(in) : (u64)p);
	if (absurd || writes)
		return;
	check_room(p, size, q->name);
	if ((q->transfer == IN || r < 0) && memcmp(copy, p, size))
		world_fail("%s changed what it only reads", q->name);
}

/* Count first, entries behind it. */
static void request_raw(struct input *in, const struct request *q, int fd)
{
	static const u32 counts[] = { 0, 1, 2, 8, 100, 256, 257, 4096, 0x1000000, ~0u };
	size_t size = 8 + in_below(in, 4096);
	u8 *p = place(in, size);
	u32 count = in8(in) & 1 ? counts[in_below(in, 10)] : in8(in);

	in_bytes(in, p, size < 256 ? size : 256);
	memcpy(p, &count, 4);
	world_ioctl(fd, q->code, q->name, in8(in) < 16 ? bad_pointer(in) : (u64)p);
}

static void request_value(struct input *in, const struct request *q, int fd, unsigned vm)
{
	u64 arg = in8(in) & 1 ? in8(in) : in_value(in);
	long r;

	if (q->code == KVM_CREATE_VM) {
		request_vm(in);
		return;
	}
	r = world_ioctl(fd, q->code, q->name, arg);
	if (r < 0)
		return;
	if (q->code == KVM_CREATE_VCPU)
		world_add_vcpu(vm, (int)r);
	if (q->code == KVM_GET_STATS_FD && close((int)r))
		world_fail("no statistics descriptor");
}

void request_any(struct input *in)
{
	const struct request *q = &requests[in_below(in, NR_REQUESTS)];
	unsigned vm;
	int fd = fd_of(in, q->kind, &vm);

	if (q->code == KVM_SET_USER_MEMORY_REGION) {
		request_slot(in);
		return;
	}
	switch (q->transfer) {
	case VALUE:
		request_value(in, q, fd, vm);
		break;
	case RAW:
		request_raw(in, q, fd);
		break;
	case IN:
	case OUT:
	case INOUT:
		request_struct(in, q, fd);
		break;
	}
}

void request_change(struct input *in)
{
	unsigned i = in_below(in, sizeof(pairs) / sizeof(pairs[0])), vm;
	int fd = fd_of(in, pairs[i].kind, &vm);
	size_t size = _IOC_SIZE(pairs[i].get);
	u8 *p = place(in, size);

	memset(p, 0, size);
	if (pairs[i].get == KVM_GET_IRQCHIP)
		p[0] = in8(in) & 3;
	if (world_ioctl(fd, pairs[i].get, pairs[i].name, (u64)p))
		return;
	for (unsigned k = in_below(in, 4); k; k--) {
		u8 width = in8(in);
		u64 v = in_value(in);
		size_t off = in_below(in, (u32)size) & ~(width & 7u), n = 1 + (width & 7);

		memcpy(p + off, &v, size - off < n ? size - off : n);
	}
	world_ioctl(fd, pairs[i].set, pairs[i].name, (u64)p);
}

void request_slot(struct input *in)
{
	struct kvm_userspace_memory_region r = { .slot = in8(in) & 7 };
	u64 page = in_below(in, AREA_PAGES), n = in_below(in, AREA_PAGES) + 1;
	int vm = world.vm[world_pick_vm(in)];
	u8 how = in8(in), *hva = arena_area(in_below(in, AREAS)) + page * 4096;
	long x;

	if (page + n > AREA_PAGES)
		n = AREA_PAGES - page;
	r.guest_phys_addr = (u64)in_below(in, 2 * AREA_PAGES) << 12;
	r.memory_size = how & 3 ? n << 12 : 0;
	r.userspace_addr = (u64)hva;
	r.flags = in8(in) & 3;
	if (how >= 0xe0) { /* absurd, but never memory that is not the arena's */
		switch (how & 3) {
		case 0:
			r.guest_phys_addr = in_value(in);
			break;
		case 1:
			r.memory_size = in8(in) & 1 ? ~0ull << (12 + in8(in) % 52) : in8(in);
			r.userspace_addr = bad_pointer(in) & ~0xfffull;
			break;
		case 2:
			r.slot = in32(in);
			r.flags = in32(in);
			break;
		default:
			r.userspace_addr = (u64)hva + in8(in) % 4096;
			r.memory_size -= r.memory_size ? 4096 : 0;
			break;
		}
	}
	x = world_ioctl(vm, KVM_SET_USER_MEMORY_REGION, "KVM_SET_USER_MEMORY_REGION", (u64)&r);
	world_trace("  slot %#x flags %u gpa %#llx size %#llx hva %#llx", r.slot, r.flags,
		    r.guest_phys_addr, r.memory_size, r.userspace_addr);
	/* Moved, or its flags changed: it was shown before, as it is now. */
	if (!x && !(r.flags & KVM_MEM_READONLY) && r.memory_size)
		arena_may_change((void *)r.userspace_addr, r.memory_size);
}

void request_vm(struct input *in)
{
	unsigned i = in_below(in, VMS);
	u8 how = in8(in);
	long r;

	if (world.vm[i] >= 0)
		world_close_vm(i);
	r = world_ioctl(world.sys, KVM_CREATE_VM, "KVM_CREATE_VM", how >= 250);
	if (r < 0)
		return;
	world.vm[i] = (int)r;
	if ((how & 3) == 1)
		world_ioctl(world.vm[i], KVM_CREATE_IRQCHIP, "KVM_CREATE_IRQCHIP", 0);
	if ((how & 3) == 2) {
		struct kvm_enable_cap cap = { .cap = KVM_CAP_SPLIT_IRQCHIP, .args = { 24 } };

		world_ioctl(world.vm[i], KVM_ENABLE_CAP, "split irqchip", (u64)&cap);
	}
	if ((how & 7) == 5) {
		struct kvm_pit_config pit = { .flags = 0 };

		world_ioctl(world.vm[i], KVM_CREATE_PIT2, "KVM_CREATE_PIT2", (u64)&pit);
	}
}

static void set_cpuid(struct input *in, int fd)
{
	u8 *p = place(in, 8 + 100 * 40);
	struct kvm_cpuid2 *id = (void *)p;

	id->nent = 100;
	id->padding = 0;
	if (world_ioctl(world.sys, KVM_GET_SUPPORTED_CPUID, "KVM_GET_SUPPORTED_CPUID", (u64)p))
		return;
	for (unsigned k = in_below(in, 4); k && id->nent; k--) {
		struct kvm_cpuid_entry2 *e = &id->entries[in_below(in, id->nent)];

		(&e->eax)[in8(in) & 3] = (u32)in_value(in);
	}
	world_ioctl(fd, KVM_SET_CPUID2, "KVM_SET_CPUID2", (u64)p);
}

void request_vcpu(struct input *in)
{
	unsigned vm = world_pick_vm(in);
	u8 how = in8(in);
	long r = world_ioctl(world.vm[vm], KVM_CREATE_VCPU, "KVM_CREATE_VCPU",
			     how < 240 ? how & 3 : in_value(in));

	if (r < 0)
		return;
	world_add_vcpu(vm, (int)r);
	if (how & 0x1c)
		set_cpuid(in, (int)r);
}

void request_msrs(struct input *in)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry[8];
	} m = { .head.nmsrs = 1 + in_below(in, 8) };
	int fd = world.vcpu[world_pick_vcpu(in)].fd;

	for (unsigned i = 0; i < m.head.nmsrs; i++) {
		m.entry[i].index = msrs[in_below(in, sizeof(msrs) / sizeof(msrs[0]))];
		m.entry[i].data = in_value(in);
	}
	world_ioctl(fd, KVM_SET_MSRS, "KVM_SET_MSRS", (u64)&m);
	world_ioctl(fd, KVM_GET_MSRS, "KVM_GET_MSRS", (u64)&m);
}

void request_routing(struct input *in)
{
	struct {
		struct kvm_irq_routing head;
		struct kvm_irq_routing_entry entry[32];
	} t;

	memset(&t, 0, sizeof(t));
	t.head.nr = in_below(in, 33);
	for (unsigned i = 0; i < t.head.nr; i++) {
		struct kvm_irq_routing_entry *e = &t.entry[i];

		e->gsi = in8(in) & 31;
		e->type = in8(in) < 250 ? 1 + (in8(in) & 1) : in8(in);
		if (e->type == KVM_IRQ_ROUTING_MSI) {
			e->u.msi.address_lo = 0xfee00000 | (in8(in) & 7u) << 12 | (in8(in) & 0xc);
			e->u.msi.data = in8(in) | (in8(in) & 7u) << 8 | (in8(in) & 3u) << 14;
		} else {
			e->u.irqchip.irqchip = in8(in) & 3;
			e->u.irqchip.pin = in8(in) & 31;
		}
	}
	world_ioctl(world.vm[world_pick_vm(in)], KVM_SET_GSI_ROUTING, "KVM_SET_GSI_ROUTING",
		    (u64)&t);
}
