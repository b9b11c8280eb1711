/* SPDX-License-Identifier: MIT */
/* Who answers the KVM calls: liblocum, or a real /dev/kvm. */
#ifndef LOCUM_MONITOR_BACKEND_H
#define LOCUM_MONITOR_BACKEND_H

#include "base/types.h"

/** struct backend - calls return >= 0 or -errno
 * @ours: it takes the settings of --set and has counters
 * @kick: to be called by the signal handler of a thread in KVM_RUN
 * @stats: JSON of a VM's counters, to be freed; NULL if there are none */
struct backend {
	const char *name;
	bool ours;
	int (*open)(void);
	long (*ioctl)(int fd, unsigned long request, unsigned long arg);
	int (*close)(int fd);
	void (*kick)(int tid);
	char *(*stats)(int vm);
};

extern const struct backend backend_software, backend_kernel;

/** backend_find() - by the name that the command line gives; NULL: unknown */
const struct backend *backend_find(const char *name);

#endif
