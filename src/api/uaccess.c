/* SPDX-License-Identifier: MIT */
#include "api/uaccess.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "mem/hostfault.h"

struct copy {
	void *dst;
	const void *src;
	size_t n;
};

/* Not memcpy(): the compiler may draw conclusions from its arguments, and these
 * pointers may be anything. */
static int do_copy(void *arg)
{
	struct copy *c = arg;
	const void *src = c->src;
	void *dst = c->dst;
	size_t n = c->n;

	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
	return 0;
}

/* What the kernel refuses without looking. */
static bool range_ok(u64 p, size_t n)
{
	return p < 1ull << 47 && n <= (1ull << 47) - p;
}

int copy_from_client(void *dst, u64 src, size_t n)
{
	struct copy c = { dst, (const void *)(uintptr_t)src, n };

	if (!range_ok(src, n))
		return -EFAULT;
	return hostfault_try(NULL, do_copy, &c);
}

int copy_to_client(u64 dst, const void *src, size_t n)
{
	struct copy c = { (void *)(uintptr_t)dst, src, n };

	if (!range_ok(dst, n))
		return -EFAULT;
	return hostfault_try(NULL, do_copy, &c);
}

void *dup_from_client(u64 src, size_t n, int *error)
{
	void *p = malloc(n ? n : 1);

	*error = p ? copy_from_client(p, src, n) : -ENOMEM;
	if (!*error)
		return p;
	free(p);
	return NULL;
}
