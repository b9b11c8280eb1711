/* SPDX-License-Identifier: MIT */
#include "api/map.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "vm/vcpu.h"
#include "vm/vm.h"

#define RING_OFFSET (VCPU_COALESCED_PAGE * PAGE_SIZE)

long map_raw(const struct map_call *c)
{
	register long flags __asm__("r10") = c->flags;
	register long fd __asm__("r8") = c->fd;
	register long off __asm__("r9") = c->off;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(SYS_mmap), "D"(c->addr), "S"(c->len), "d"((long)c->prot),
			   "r"(flags), "r"(fd), "r"(off)
			 : "rcx", "r11", "memory");
	return r;
}

/* Show the VM's ring at @at too.  (Moving nothing of a shared mapping makes a
 * second view of it.) */
static bool show_ring(const struct vcpu *v, char *at, int prot)
{
	void *ring = atomic_load(&v->vm->iotab.ring);

	if (mremap(ring, 0, PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
		return false;
	/* Ours is not inherited by children, the client's is. */
	madvise(at, PAGE_SIZE, MADV_DOFORK);
	return prot == (PROT_READ | PROT_WRITE) || !mprotect(at, PAGE_SIZE, prot);
}

/* As the kernel: the dirty ring is shared data, and that alone. */
static bool is_refused(const struct vcpu *v, const struct map_call *c)
{
	u64 first = (u64)c->off, last = first + c->len - 1;
	u64 ring = VCPU_DIRTY_OFFSET, bytes = v->vm->mem->ring_bytes;

	if (first - ring >= bytes && last - ring >= bytes)
		return false;
	return (c->flags & MAP_TYPE) == MAP_PRIVATE || (c->prot & PROT_EXEC);
}

long map_vcpu(struct vcpu *v, const struct map_call *c)
{
	u64 off = (u64)c->off;
	long r;

	if (is_refused(v, c))
		return -EINVAL;
	r = map_raw(c);
	if (r < 0 && r >= -4095)
		return r;
	if ((c->flags & MAP_TYPE) == MAP_PRIVATE || off > RING_OFFSET ||
	    c->len <= RING_OFFSET - off)
		return r;
	/* The first vCPU's own page is the VM's. */
	if ((!v->index || show_ring(v, (char *)r + (RING_OFFSET - off), c->prot)) &&
	    !atomic_exchange(&v->ring_shown, true))
		atomic_fetch_sub(&v->vm->iotab.unmapped, 1);
	return r;
}
