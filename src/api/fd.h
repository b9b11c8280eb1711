/* SPDX-License-Identifier: MIT */
/*
 * The table of descriptors that are ours.
 *
 * A descriptor is a real one (a memfd); the table says what object it stands
 * for.  Entries of duplicates point to one struct api_file; the object behind
 * it goes when its last entry and its last user have gone, as the kernel does.
 * Lookups take no lock and are async-signal-safe: table chunks and files are
 * never returned to the allocator.
 */
#ifndef LOCUM_API_FD_H
#define LOCUM_API_FD_H

#include "base/types.h"

enum api_kind { API_SYSTEM, API_VM, API_VCPU };

/** struct api_file - what an open file description is for the kernel
 * @refs:       table entries plus ioctls under way; 0 = on the free list
 * @generation: of the process that made it (api_generation())
 * @kind:       enum api_kind
 * @object:     struct vm, struct vcpu or NULL, by @kind */
struct api_file {
	_Atomic u32 refs;
	u32 generation;
	enum api_kind kind;
	void *object;
	struct api_file *next_free;
};

/**
 * api_fd_install() - make @fd stand for @object
 * @fd: a descriptor of this process that is open and not in the table
 * Return: 0 or -ENOMEM; then nothing has changed and the caller keeps @object.
 */
int api_fd_install(int fd, enum api_kind kind, void *object) must_check;

/** api_fd_get() - the file of @fd with a reference, NULL if @fd is not ours */
struct api_file *api_fd_get(int fd);

/** api_fd_put() - drop a reference; the last one destroys the object */
void api_fd_put(struct api_file *f);

/** api_fd_dup() - enter @newfd as another name of @fd; an older entry of
 * @newfd is dropped.  Return: 0, -EBADF, -ENOMEM. */
int api_fd_dup(int fd, int newfd) must_check;

/** api_fd_remove() - take @fd out of the table.  The caller closes the
 * descriptor itself afterwards.  Return: 0, -EBADF. */
int api_fd_remove(int fd) must_check;

/** api_fd_owns() - @fd is in the table; async-signal-safe */
bool api_fd_owns(int fd);

/** api_fd_is_system() - @fd stands for the system object (/dev/kvm itself) */
bool api_fd_is_system(int fd);

/** api_fd_max() - highest descriptor that was ever in the table, -1 if none */
int api_fd_max(void);

/** api_generation() - number of this process image: changes in a forked child,
 * where objects made before the fork are dead (-EIO) */
u32 api_generation(void);

/** api_borrows_memory() - the calling process runs in the memory of another, as
 * after vfork(2): what it closes or duplicates is not the table's */
bool api_borrows_memory(void);

#endif
