/* SPDX-License-Identifier: MIT */
/*
 * Broken invariants of our own code.
 *
 * No guest action and no ioctl argument may reach one of these.  Debug builds
 * (LOCUM_DEBUG_BUILD) abort; release builds print one line and go on, and the
 * caller stops the VM with KVM_EXIT_INTERNAL_ERROR.
 */
#ifndef LOCUM_BASE_BUG_H
#define LOCUM_BASE_BUG_H

#include "base/types.h"

#define BUILD_BUG_ON(cond) _Static_assert(!(cond), #cond)

/**
 * bug_report() - print a broken invariant to stderr; aborts in debug builds
 * @file: source file, @line: line, @what: the condition's text
 */
void bug_report(const char *file, int line, const char *what) cold;

/** BUG_CHECK(cond) - true (and reported) if @cond, which must never hold */
#define BUG_CHECK(cond)                                                        \
	(unlikely(cond) ? (bug_report(__FILE__, __LINE__, #cond), true) : false)

#endif
