/* SPDX-License-Identifier: MIT */
#include "shim/shim.h"

#include <errno.h>
#include <string.h>

void *shim_real(void **slot, const char *name)
{
	void *p = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (!p) {
		p = dlsym(RTLD_NEXT, name);
		__atomic_store_n(slot, p, __ATOMIC_RELAXED);
	}
	return p;
}

bool shim_is_kvm_path(const char *path)
{
	return path && path[0] == '/' && !strcmp(path, "/dev/kvm");
}

int shim_ret(long r)
{
	if (r >= 0)
		return (int)r;
	errno = (int)-r;
	return -1;
}
