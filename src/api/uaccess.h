/* SPDX-License-Identifier: MIT */
/*
 * Copies from and to pointers that the client passed: -EFAULT where the kernel
 * answers it, never a crash.
 */
#ifndef LOCUM_API_UACCESS_H
#define LOCUM_API_UACCESS_H

#include "base/types.h"

/** copy_from_client() - Return: 0 or -EFAULT (then @dst may be half written) */
int copy_from_client(void *dst, u64 src, size_t n) must_check;

/** copy_to_client() - Return: 0 or -EFAULT */
int copy_to_client(u64 dst, const void *src, size_t n) must_check;

/** dup_from_client() - a copy in memory that the caller frees with free(3)
 * @n: 0 gives a valid pointer too.  Return: NULL and *@error = -EFAULT, -ENOMEM. */
void *dup_from_client(u64 src, size_t n, int *error) must_check;

#endif
