/* SPDX-License-Identifier: MIT */
#include "monitor/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "locum/kvm.h"

static int soft_open(void)
{
	return locum_open(O_RDWR | O_CLOEXEC);
}

const struct backend backend_software = {
	.name = "software",
	.ours = true,
	.open = soft_open,
	.ioctl = locum_ioctl,
	.close = locum_close,
	.kick = locum_kick,
	.stats = locum_stats_json,
};

static int kernel_open(void)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static long kernel_ioctl(int fd, unsigned long request, unsigned long arg)
{
	int r = ioctl(fd, request, arg);

	return r < 0 ? -errno : r;
}

static int kernel_close(int fd)
{
	return close(fd) ? -errno : 0;
}

/* The signal itself ends KVM_RUN. */
static void kernel_kick(int tid)
{
	(void)tid;
}

static char *kernel_stats(int vm)
{
	(void)vm;
	return NULL;
}

const struct backend backend_kernel = {
	.name = "/dev/kvm",
	.open = kernel_open,
	.ioctl = kernel_ioctl,
	.close = kernel_close,
	.kick = kernel_kick,
	.stats = kernel_stats,
};

const struct backend *backend_find(const char *name)
{
	if (!strcmp(name, "software"))
		return &backend_software;
	return !strcmp(name, "/dev/kvm") ? &backend_kernel : NULL;
}
