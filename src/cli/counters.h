/* SPDX-License-Identifier: MIT */
/*
 * Counters of running VMs, read from outside: each VM and vCPU keeps them in a
 * memfd (vm/stats.h) that is found through /proc/PID/fd.  Reading asks nothing
 * of the other process and stops nothing in it.
 * Layout: Linux Documentation/virt/kvm/api.rst "KVM_GET_STATS_FD".
 */
#ifndef LOCUM_CLI_COUNTERS_H
#define LOCUM_CLI_COUNTERS_H

#include <sys/types.h>

#include "base/types.h"

#define COUNTER_NAME 48 /* bytes of a name or an id, with the 0 */

/** struct counters - one VM or one vCPU
 * @id:    "kvm-PID.VM" or "kvm-PID.VM/vcpu-N"; PID is the process that made it
 * @name:  @count names of COUNTER_NAME bytes; owned, as @value */
struct counters {
	char id[COUNTER_NAME];
	unsigned count;
	char (*name)[COUNTER_NAME];
	u64 *value;
};

/** struct counters_list - all of one process, VMs before their vCPUs, each VM
 * together with its vCPUs in the order of their numbers */
struct counters_list {
	pid_t pid;
	unsigned count;
	struct counters *item;
};

/**
 * counters_read() - the counters of the VMs that process @pid made
 * Descriptors inherited from a parent are left out: they are the parent's VMs.
 * Return: 0 with @l filled (count 0: it has no VM of ours), to be freed with
 * counters_free(); -errno if the process cannot be looked into, -ENOMEM.
 */
int counters_read(struct counters_list *l, pid_t pid) must_check;
void counters_free(struct counters_list *l);

/** counters_is_vm() - a VM's, not a vCPU's */
bool counters_is_vm(const struct counters *c);

/** counters_get() - value of @name summed over all items of @l; 0 if none has it */
u64 counters_get(const struct counters_list *l, const char *name);

#endif
