/* SPDX-License-Identifier: MIT */
/*
 * Ports and MMIO addresses that devices of ours answer: the 8259 pair, the
 * 8254, the IOAPIC, the vCPU's local APIC; behind them the eventfds and ring of
 * vm/iotab.h.  What nobody here claims belongs to the client.
 */
#ifndef LOCUM_VM_BUS_H
#define LOCUM_VM_BUS_H

#include "base/types.h"

struct vcpu;
struct vm;

/**
 * bus_pio() - one port access of the guest
 * @data: @size (1, 2, 4) bytes, read or written
 * Return: false if no device of ours has [port, port + size).
 */
bool bus_pio(struct vm *vm, u16 port, unsigned size, void *data, bool out);

/**
 * bus_mmio() - one access of @v to guest-physical @gpa; the vCPU's thread
 * @data: @n bytes, 1..8
 * Return: false if no device of ours is there.
 */
bool bus_mmio(struct vcpu *v, gpa_t gpa, void *data, unsigned n, bool write);

#endif
