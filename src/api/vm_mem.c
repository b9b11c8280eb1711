/* SPDX-License-Identifier: MIT */
/* VM ioctls about memory: slots, dirty logs. */
#include <errno.h>
#include <linux/kvm.h>
#include <stdint.h>

#include "api/handlers.h"
#include "api/uaccess.h"
#include "vm/vm.h"

long vm_set_memory(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	__atomic_fetch_add(&((struct vm_stats *)vm->stats.data)->slot_changes, 1,
			   __ATOMIC_RELAXED);
	return mem_set_region(vm->mem, data);
}

/* The client's bitmap, for the callbacks of mem/. */
static int bitmap_out(void *arg, size_t off, const void *src, size_t n)
{
	return copy_to_client(*(u64 *)arg + off, src, n);
}

static int bitmap_in(void *arg, size_t off, void *dst, size_t n)
{
	return copy_from_client(dst, *(u64 *)arg + off, n);
}

long vm_get_dirty_log(struct vm *vm, void *data, u64 arg)
{
	struct kvm_dirty_log *log = data;
	u64 bitmap = (u64)(uintptr_t)log->dirty_bitmap;

	(void)arg;
	return mem_get_dirty_log(vm->mem, log->slot, bitmap_out, &bitmap);
}

long vm_clear_dirty_log(struct vm *vm, void *data, u64 arg)
{
	struct kvm_clear_dirty_log *log = data;
	u64 bitmap = (u64)(uintptr_t)log->dirty_bitmap;

	(void)arg;
	return mem_clear_dirty_log(vm->mem, log->slot, log->first_page, log->num_pages,
				   bitmap_in, &bitmap);
}

long vm_reset_dirty_rings(struct vm *vm, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	return mem_reset_rings(vm->mem);
}

/* There are no shadow pages to limit: remembered by nobody. */
long vm_set_nr_mmu_pages(struct vm *vm, void *data, u64 arg)
{
	(void)vm;
	(void)data;
	return arg < 64 ? -EINVAL : 0; /* KVM_MIN_ALLOC_MMU_PAGES */
}

long vm_get_nr_mmu_pages(struct vm *vm, void *data, u64 arg)
{
	(void)vm;
	(void)data;
	(void)arg;
	return 0;
}

/* Where VT-x hosts keep a TSS and a page table for real mode: not needed, but
 * an address that the kernel refuses is refused. */
long vm_set_tss_addr(struct vm *vm, void *data, u64 arg)
{
	(void)data;
	if (arg > (u32)(-3 * (int)PAGE_SIZE))
		return -EINVAL;
	vm->tss_addr = arg;
	return 0;
}

long vm_set_identity_map(struct vm *vm, void *data, u64 arg)
{
	long r = 0;

	(void)arg;
	pthread_mutex_lock(&vm->lock);
	if (atomic_load(&vm->nr_vcpus))
		r = -EINVAL;
	else
		vm->identity_map = *(u64 *)data;
	pthread_mutex_unlock(&vm->lock);
	return r;
}
