/* SPDX-License-Identifier: MIT */
#include "api/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/config.h"
#include "vm/vcpu.h"
#include "vm/vm.h"

void api_object_release(enum api_kind kind, void *object)
{
	switch (kind) {
	case API_SYSTEM:
		break;
	case API_VM:
		vm_put(object);
		break;
	case API_VCPU: /* the vCPU itself goes with its VM */
		vm_put(((struct vcpu *)object)->vm);
		break;
	}
}

/* Make @fd stand for @object; closes @fd when that fails. */
static int install(int fd, enum api_kind kind, void *object)
{
	int r = api_fd_install(fd, kind, object);

	if (!r)
		return fd;
	close(fd);
	return r;
}

int api_open_system(int flags)
{
	int fd = memfd_create("kvm", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);

	return fd < 0 ? -errno : install(fd, API_SYSTEM, NULL);
}

long api_create_vm(unsigned long type)
{
	struct vm_config config;
	struct vm *vm;
	int fd, r;

	if (type)
		return -EINVAL;
	config_get(&config);
	fd = memfd_create("kvm-vm", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = vm_create(&config, &vm);
	if (r) {
		close(fd);
		return r;
	}
	r = install(fd, API_VM, vm);
	if (r < 0)
		vm_put(vm);
	return r;
}

/* The memfd of the run pages and the dirty ring, mapped for us.  Return: descriptor or -errno. */
static int make_run_pages(u32 ring_bytes, void **map, void **ring)
{
	int fd = memfd_create("kvm-vcpu", MFD_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)(ring_bytes ? VCPU_DIRTY_OFFSET + ring_bytes : VCPU_MMAP_SIZE)))
		goto fail;
	*map = mmap(NULL, VCPU_MMAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*map == MAP_FAILED)
		goto fail;
	madvise(*map, VCPU_MMAP_SIZE, MADV_DONTFORK);
	if (ring_bytes) {
		*ring = mmap(NULL, ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			     (off_t)VCPU_DIRTY_OFFSET);
		if (*ring == MAP_FAILED) {
			munmap(*map, VCPU_MMAP_SIZE);
			errno = ENOMEM;
			goto fail;
		}
		madvise(*ring, ring_bytes, MADV_DONTFORK);
	}
	return fd;
fail:
	r = -errno;
	close(fd);
	return r;
}

long api_create_vcpu(struct vm *vm, unsigned long id)
{
	struct vcpu *v;
	u32 ring_bytes = vm->mem->ring_bytes;
	void *map = NULL, *ring = NULL;
	int fd, r;

	fd = make_run_pages(ring_bytes, &map, &ring);
	if (fd < 0)
		return fd;
	pthread_mutex_lock(&vm->lock);
	r = ring_bytes == vm->mem->ring_bytes ? vcpu_create(vm, id, map, ring, &v) : -EINVAL;
	pthread_mutex_unlock(&vm->lock);
	if (r) {
		if (ring)
			munmap(ring, ring_bytes);
		munmap(map, VCPU_MMAP_SIZE);
		close(fd);
		return r;
	}
	/* From here on the vCPU exists, whether a descriptor can be had or not. */
	vm_get(vm);
	r = install(fd, API_VCPU, v);
	if (r < 0)
		vm_put(vm);
	return r;
}
