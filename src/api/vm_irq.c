/* SPDX-License-Identifier: MIT */
/* VM ioctls about interrupts: chips, lines, routes, messages. */
#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/uaccess.h"
#include "irq/pit.h"
#include "vm/vm.h"

static void count(u64 *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static struct vm_stats *stats(struct vm *vm)
{
	return vm->stats.data;
}

/* --- creation ------------------------------------------------------------- */

long vm_create_irqchip(struct vm *vm, void *data, u64 arg)
{
	long r;

	(void)data;
	(void)arg;
	pthread_mutex_lock(&vm->lock);
	if (vm->irqchip.mode != IRQCHIP_NONE)
		r = -EEXIST;
	else if (atomic_load(&vm->nr_vcpus))
		r = -EINVAL;
	else
		r = irqchip_create(&vm->irqchip);
	pthread_mutex_unlock(&vm->lock);
	return r;
}

static long create_pit(struct vm *vm, u32 flags)
{
	long r;

	pthread_mutex_lock(&vm->lock);
	r = irqchip_create_pit(&vm->irqchip, flags);
	pthread_mutex_unlock(&vm->lock);
	return r;
}

long vm_create_pit(struct vm *vm, void *data, u64 arg)
{
	(void)data;
	(void)arg;
	return create_pit(vm, KVM_PIT_SPEAKER_DUMMY);
}

long vm_create_pit2(struct vm *vm, void *data, u64 arg)
{
	const struct kvm_pit_config *c = data;

	(void)arg;
	return create_pit(vm, c->flags & KVM_PIT_SPEAKER_DUMMY);
}

/* --- lines and messages ------------------------------------------------------ */

/* The client may have written the guest's memory before it interrupts it. */
static void before_interrupt(struct vm *vm)
{
	vm_client_wrote(vm, NULL);
}

long vm_irq_line(struct vm *vm, void *data, u64 arg)
{
	const struct kvm_irq_level *l = data;

	(void)arg;
	if (!vm_has_lapic(vm))
		return -ENXIO;
	count(&stats(vm)->irq_lines);
	before_interrupt(vm);
	irqchip_set_gsi(&vm->irqchip, IRQ_SOURCE_CLIENT, l->irq, l->level != 0, false);
	return 0;
}

long vm_irq_line_status(struct vm *vm, void *data, u64 arg)
{
	struct kvm_irq_level *l = data;

	(void)arg;
	if (!vm_has_lapic(vm))
		return -ENXIO;
	count(&stats(vm)->irq_lines);
	before_interrupt(vm);
	l->status = irqchip_set_gsi(&vm->irqchip, IRQ_SOURCE_CLIENT, l->irq, l->level != 0,
				    true);
	return 0;
}

long vm_signal_msi(struct vm *vm, void *data, u64 arg)
{
	const struct kvm_msi *msi = data;

	(void)arg;
	if (!vm_has_lapic(vm) || msi->flags)
		return -EINVAL;
	count(&stats(vm)->msis);
	before_interrupt(vm);
	return irqchip_signal_msi(&vm->irqchip, msi);
}

long vm_set_gsi_routing(struct vm *vm, void *data, u64 arg)
{
	struct kvm_irq_routing_entry *entries;
	struct kvm_irq_routing head;
	int error;
	long r;

	(void)data;
	if (copy_from_client(&head, arg, sizeof(head)))
		return -EFAULT;
	if (!vm_has_lapic(vm) || head.nr > ROUTE_MAX_GSIS || head.flags)
		return -EINVAL;
	entries = dup_from_client(arg + sizeof(head), head.nr * sizeof(*entries), &error);
	if (!entries)
		return error;
	r = irqchip_set_routes(&vm->irqchip, entries, head.nr);
	free(entries);
	return r;
}

/* --- state --------------------------------------------------------------------- */

long vm_get_irqchip(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	return vm_has_pic(vm) ? irqchip_get(&vm->irqchip, data) : -ENXIO;
}

long vm_set_irqchip(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	return vm_has_pic(vm) ? irqchip_set(&vm->irqchip, data) : -ENXIO;
}

static bool has_pit(struct vm *vm)
{
	return atomic_load(&vm->irqchip.pit) != NULL;
}

long vm_get_pit2(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	if (!has_pit(vm))
		return -ENXIO;
	pit_get_state(&vm->irqchip, data);
	return 0;
}

long vm_set_pit2(struct vm *vm, void *data, u64 arg)
{
	(void)arg;
	return has_pit(vm) ? pit_set_state(&vm->irqchip, data) : -ENXIO;
}

long vm_get_pit(struct vm *vm, void *data, u64 arg)
{
	struct kvm_pit_state2 s;

	(void)arg;
	if (!has_pit(vm))
		return -ENXIO;
	pit_get_state(&vm->irqchip, &s);
	memcpy(data, s.channels, sizeof(struct kvm_pit_state));
	return 0;
}

long vm_set_pit(struct vm *vm, void *data, u64 arg)
{
	struct kvm_pit_state2 s;

	(void)arg;
	if (!has_pit(vm))
		return -ENXIO;
	pit_get_state(&vm->irqchip, &s);
	memcpy(s.channels, data, sizeof(struct kvm_pit_state));
	return pit_set_state(&vm->irqchip, &s);
}

long vm_reinject_control(struct vm *vm, void *data, u64 arg)
{
	struct kvm_reinject_control c;

	(void)data;
	if (copy_from_client(&c, arg, sizeof(c)))
		return -EFAULT;
	if (!has_pit(vm))
		return -ENXIO;
	pit_set_reinject(&vm->irqchip, c.pit_reinject);
	return 0;
}
