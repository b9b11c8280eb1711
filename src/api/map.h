/* SPDX-License-Identifier: MIT */
/*
 * mmap(2) of a vCPU's descriptor.
 *
 * The descriptor is a memfd of its own, which is right for the run page and the
 * port data page; the page of coalesced writes is one of the VM, so in a mapping
 * that comes through here it is replaced by another view of the VM's page.
 */
#ifndef LOCUM_API_MAP_H
#define LOCUM_API_MAP_H

#include <sys/types.h>

#include "base/types.h"

struct vcpu;

/** struct map_call - the arguments of mmap(2) */
struct map_call {
	void *addr;
	size_t len;
	int prot, flags, fd;
	off_t off;
};

/** map_raw() - the system call itself, whatever library function hides it
 * Return: the address, or -errno as a number in -4095..-1. */
long map_raw(const struct map_call *c);

/** map_vcpu() - mmap(2) of @v's descriptor.  Return: as map_raw(). */
long map_vcpu(struct vcpu *v, const struct map_call *c);

#endif
