/* SPDX-License-Identifier: MIT */
/* A machine without a backend: memory, and what the loaders set. */
#ifndef TESTS_UNIT_MONITOR_FAKE_H
#define TESTS_UNIT_MONITOR_FAKE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "monitor/boot.h"
#include "monitor/machine.h"

struct fake {
	struct machine m;
	struct run_options opt;
};

/* What the last KVM_SET_REGS, KVM_SET_SREGS and KVM_IRQ_LINE said. */
static struct kvm_regs fake_regs;
static struct kvm_sregs fake_sregs;
static struct kvm_irq_level fake_irq;
static unsigned fake_irqs;

static long fake_ioctl(int fd, unsigned long request, unsigned long arg)
{
	(void)fd;
	switch (request) {
	case KVM_GET_SREGS: memset((void *)arg, 0, sizeof(fake_sregs)); return 0;
	case KVM_SET_SREGS: memcpy(&fake_sregs, (void *)arg, sizeof(fake_sregs)); return 0;
	case KVM_SET_REGS: memcpy(&fake_regs, (void *)arg, sizeof(fake_regs)); return 0;
	case KVM_IRQ_LINE:
		memcpy(&fake_irq, (void *)arg, sizeof(fake_irq));
		fake_irqs++;
		return 0;
	}
	return -ENOTTY;
}

static const struct backend fake_backend = { .name = "fake", .ioctl = fake_ioctl };

static inline struct fake *fake_new(u64 mib, unsigned cpus)
{
	struct fake *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->opt = (struct run_options){ .cpus = cpus, .mem_mib = mib, .backend = &fake_backend };
	f->m.opt = &f->opt;
	f->m.be = &fake_backend;
	f->m.ncpus = cpus;
	f->m.ram_size = f->m.low_size = mib << 20;
	f->m.ram = calloc(1, f->m.ram_size);
	f->m.testdev_mem = calloc(1, 0x10000);
	f->m.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_init(&f->m.exit_code, -1);
	pthread_mutex_init(&f->m.dev_lock, NULL);
	memset(&fake_regs, 0, sizeof(fake_regs));
	memset(&fake_sregs, 0, sizeof(fake_sregs));
	fake_irqs = 0;
	return f;
}

static inline void fake_free(struct fake *f)
{
	close(f->m.wake);
	free(f->m.ram);
	free(f->m.testdev_mem);
	free(f);
}

/* A file with @n bytes of @data; the name is good until the next call but one. */
static inline const char *fake_file(const void *data, size_t n)
{
	static char name[2][64];
	static unsigned turn;
	char *path = name[turn++ % 2];
	int fd;

	strcpy(path, "/tmp/locum-test-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		abort();
	close(fd);
	return path;
}

/* Standard error of @fn, up to @size bytes. */
static inline int quietly(int (*fn)(void *), void *arg, char *text, size_t size)
{
	int saved = dup(STDERR_FILENO), r;
	FILE *f = tmpfile();
	size_t n;

	if (!f)
		abort();
	fflush(stderr);
	dup2(fileno(f), STDERR_FILENO);
	r = fn(arg);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(f);
	n = fread(text, 1, size - 1, f);
	text[n] = 0;
	fclose(f);
	return r;
}

#endif
