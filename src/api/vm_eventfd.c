/* SPDX-License-Identifier: MIT */
/* VM ioctls about eventfds and coalesced writes. */
#include <linux/kvm.h>

#include "api/handlers.h"
#include "vm/vm.h"

long vm_irqfd(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	return irqfd_set(vm, data);
}

long vm_ioeventfd(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	return iotab_set_event(vm, data);
}

long vm_register_coalesced(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	return iotab_add_zone(vm, data);
}

long vm_unregister_coalesced(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	return iotab_del_zone(vm, data);
}
