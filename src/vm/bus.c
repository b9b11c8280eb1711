/* SPDX-License-Identifier: MIT */
#include "vm/bus.h"

#include <string.h>

#include "irq/ioapic.h"
#include "irq/lapic.h"
#include "irq/pic.h"
#include "irq/pit.h"
#include "vm/vcpu.h"
#include "vm/vm.h"

/* First port of each pair that the 8259s and their ELCRs have. */
static const u16 pic_pairs[] = { 0x20, 0xa0, 0x4d0 };

static bool pic_has(u16 port, unsigned size)
{
	for (unsigned i = 0; i < ARRAY_SIZE(pic_pairs); i++)
		if (port >= pic_pairs[i] && port + size <= pic_pairs[i] + 2u)
			return true;
	return false;
}

/* Wider accesses are swallowed: writes ignored, reads zero, as KVM does. */
static void pic_access(struct irqchip *chip, u16 port, unsigned size, u8 *data, bool out)
{
	if (size != 1) {
		if (!out)
			memset(data, 0, size);
	} else if (out) {
		pic_write(chip, port, *data);
	} else {
		*data = pic_read(chip, port);
	}
}

/* The first byte alone counts; reads are zero above it. */
static void pit_access(struct irqchip *chip, u16 port, unsigned size, u8 *data, bool out)
{
	if (out) {
		pit_write(chip, port, *data);
	} else {
		memset(data, 0, size);
		*data = pit_read(chip, port);
	}
}

static bool pit_has(struct irqchip *chip, u16 port, unsigned size)
{
	u16 last = (u16)(port + size - 1);

	return last >= port && pit_owns_port(chip, port) && pit_owns_port(chip, last);
}

static bool chip_pio(struct vm *vm, u16 port, unsigned size, void *data, bool out)
{
	if (!vm_has_pic(vm))
		return false;
	if (pic_has(port, size))
		pic_access(&vm->irqchip, port, size, data, out);
	else if (pit_has(&vm->irqchip, port, size))
		pit_access(&vm->irqchip, port, size, data, out);
	else
		return false;
	return true;
}

bool bus_pio(struct vm *vm, u16 port, unsigned size, void *data, bool out)
{
	return chip_pio(vm, port, size, data, out) ||
	       (out && iotab_write(vm, IO_PIO, port, data, size));
}

static bool lapic_mmio(struct vcpu *v, gpa_t gpa, void *data, unsigned n, bool write)
{
	unsigned offset = gpa & ~PAGE_MASK;

	if (!v->lapic || !lapic_mmio_hits(v->lapic, gpa))
		return false;
	if (write) {
		lapic_mmio_write(v->lapic, offset, data, n);
		vcpu_timer_sync(v);
	} else {
		lapic_mmio_read(v->lapic, offset, data, n);
	}
	return true;
}

static bool ioapic_mmio(struct vm *vm, gpa_t gpa, void *data, unsigned n, bool write)
{
	struct ioapic *io = &vm->irqchip.ioapic;
	unsigned offset;

	if (!vm_has_pic(vm) || !ioapic_hits(io, gpa) || !ioapic_hits(io, gpa + n - 1))
		return false;
	offset = (unsigned)(gpa - io->base);
	if (n & (n - 1)) { /* part of an access that crosses a page */
		if (!write)
			memset(data, 0, n);
	} else if (write) {
		ioapic_mmio_write(&vm->irqchip, offset, data, n);
	} else {
		ioapic_mmio_read(&vm->irqchip, offset, data, n);
	}
	return true;
}

bool bus_mmio(struct vcpu *v, gpa_t gpa, void *data, unsigned n, bool write)
{
	return lapic_mmio(v, gpa, data, n, write) ||
	       ioapic_mmio(v->vm, gpa, data, n, write) ||
	       (write && iotab_write(v->vm, IO_MMIO, gpa, data, n));
}
