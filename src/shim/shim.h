/* SPDX-License-Identifier: MIT */
/*
 * The LD_PRELOAD shim: libc's entry points, as the client calls them.
 *
 * Everything that does not concern /dev/kvm or a descriptor of ours goes to
 * the next definition of the same symbol (libc's).
 */
#ifndef LOCUM_SHIM_SHIM_H
#define LOCUM_SHIM_SHIM_H

#include <dlfcn.h>
#include <signal.h>
#include <sys/types.h>

#include "base/types.h"

#define SHIM_EXPORT __attribute__((visibility("default")))

/* Linux's device number of /dev/kvm. */
#define KVM_MAJOR 10
#define KVM_MINOR 232

/**
 * shim_real() - address of the next definition of libc symbol @name
 * @slot: cache; may be filled by several threads at once with one value
 * Return: never NULL for a symbol that libc has; NULL otherwise.
 */
void *shim_real(void **slot, const char *name);

/* REAL(open)(path, flags): libc's own function, looked up once a site. */
#define REAL(name)                                                             \
	({                                                                     \
		static void *slot;                                             \
		(__typeof__(&name))shim_real(&slot, #name);                    \
	})

/** shim_is_kvm_path() - @path (may be NULL) names the KVM device */
bool shim_is_kvm_path(const char *path);

/** shim_signals_init() - take SIGSEGV and SIGBUS for recovery of guest
 * accesses, before the first VM exists; idempotent */
void shim_signals_init(void);

/** shim_note_filter() - a thread of the client is about to install a seccomp
 * filter */
void shim_note_filter(void);

/** shim_is_confined() - some thread of the client has one */
bool shim_is_confined(void);

/** shim_ret() - turn 0.. or -errno into libc's convention */
int shim_ret(long r);

#endif
