/* SPDX-License-Identifier: MIT */
/*
 * kvmtool's own test of the host.
 *
 * Before it opens /dev/kvm, kvmtool executes CPUID and gives up when the host's
 * processor has neither VMX nor SVM.  No ioctl can answer that.  Its function
 * is global and unstripped builds name it: it is found by name, looked at
 * instruction by instruction, and made to say yes in this process's memory.
 */
#ifndef LOCUM_SHIM_HOSTTEST_H
#define LOCUM_SHIM_HOSTTEST_H

#include <stddef.h>

#include "base/types.h"

/** HOSTTEST_FUNCTION - the function's name; hosttest_recognize() says whether
 * one of that name is the one that is meant */
#define HOSTTEST_FUNCTION "kvm__arch_cpu_supports_vm"

/** HOSTTEST_PATCH - bytes of the answer: mov eax, 1; ret */
#define HOSTTEST_PATCH 6

/**
 * hosttest_recognize() - is this a function that asks CPUID for VMX or SVM and
 * does nothing else?
 * @code: its @size bytes
 *
 * It must be instructions from end to end that call nothing, jump nowhere else
 * and touch no memory but the stack; it must execute CPUID, compare with both
 * makers' names, and return.
 * Return: where the answer can be written: @code or, behind its ENDBR64,
 * @code + 4; NULL if it is another function.
 */
const u8 *hosttest_recognize(const u8 *code, size_t size);

/**
 * hosttest_pass() - if this program is kvmtool, let its test pass
 *
 * Called once, at load, before there is a second thread.  Does nothing in other
 * programs and on hosts whose processor passes the test.
 * Return: NULL, or why the program cannot be served.
 */
const char *hosttest_pass(void);

#endif
