/* SPDX-License-Identifier: MIT */
/* What descriptors stand for: how each kind comes and goes. */
#ifndef LOCUM_API_OBJECTS_H
#define LOCUM_API_OBJECTS_H

#include "api/fd.h"

struct vm;

/** api_object_release() - the last descriptor and user of @object has gone */
void api_object_release(enum api_kind kind, void *object);

/** api_open_system() - a descriptor of /dev/kvm itself
 * @flags: open(2)'s.  Return: descriptor or -errno. */
int api_open_system(int flags);

/** api_create_vm() - KVM_CREATE_VM.  Return: descriptor or -errno. */
long api_create_vm(unsigned long type);

/** api_create_vcpu() - KVM_CREATE_VCPU.  Return: descriptor or -errno. */
long api_create_vcpu(struct vm *vm, unsigned long id);

#endif
