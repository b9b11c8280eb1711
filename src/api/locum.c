/* SPDX-License-Identifier: MIT */
/* The public calls (include/locum/kvm.h). */
#include "locum/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/config.h"
#include "api/dispatch.h"
#include "api/fd.h"
#include "api/map.h"
#include "api/objects.h"
#include "api/signal.h"
#include "base/log.h"
#include "mem/hostfault.h"
#include "vm/vcpu.h"
#include "vm/vm.h"

int locum_open(int flags)
{
	if (flags & ~(O_ACCMODE | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_LARGEFILE | O_NOFOLLOW))
		return -EINVAL;
	log_init();
	if (config_init())
		return -EINVAL;
	hostfault_install();
	return api_open_system(flags);
}

static long file_ioctl(const struct api_file *f, u32 request, u64 arg)
{
	if (f->generation != api_generation())
		return -EIO; /* inherited by a forked child */
	switch (f->kind) {
	case API_VCPU:
		return dispatch_vcpu(f->object, request, arg);
	case API_VM:
		return dispatch_vm(f->object, request, arg);
	case API_SYSTEM:
		break;
	}
	return dispatch_system(request, arg);
}

/*
 * A thread that is cancelled in here would take our locks with it, so libc may
 * only note the request.  The kernel finishes the call, too, before the thread
 * dies.
 *
 * Both the type and the state: when pthread_cancel() finds a thread that can
 * be cancelled at once, it sends a signal, and glibc's handler for it asks for
 * the type alone.  A signal that was sent before the state was disabled and
 * arrives after it would still kill.
 */
struct cancellation {
	int type, state;
};

static void defer_cancellation(struct cancellation *c)
{
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &c->type);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c->state);
}

/* Die here if somebody cancelled us meanwhile and asynchronous cancellation is
 * on.  (By pthread_testcancel(): setting the type does it, too, but in some
 * versions of libc without the result PTHREAD_CANCELED.) */
static void restore_cancellation(const struct cancellation *c)
{
	pthread_setcancelstate(c->state, NULL);
	if (c->type != PTHREAD_CANCEL_ASYNCHRONOUS)
		return;
	pthread_testcancel();
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
}

long locum_ioctl(int fd, unsigned long request, unsigned long arg)
{
	struct cancellation cancel;
	struct api_file *f;
	long r = -ENOTTY;

	defer_cancellation(&cancel);
	f = api_fd_get(fd);
	if (f) {
		r = file_ioctl(f, (u32)request, arg);
		api_fd_put(f);
	}
	/* Handlers of the client: they may leave by longjmp or pthread_exit. */
	api_run_deferred();
	restore_cancellation(&cancel);
	return r;
}

long locum_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct map_call c = { addr, len, prot, flags, fd, off };
	struct api_file *f = api_fd_get(fd);
	long r;

	if (f && f->kind == API_VCPU && f->generation == api_generation())
		r = map_vcpu(f->object, &c);
	else
		r = map_raw(&c);
	if (f)
		api_fd_put(f);
	return r;
}

int locum_close(int fd)
{
	int r = api_fd_remove(fd);

	/* The system call itself: close() may be a wrapper that calls us. */
	return r ? r : syscall(SYS_close, fd) ? -errno : 0;
}

int locum_dup(int fd, int newfd)
{
	return api_fd_dup(fd, newfd);
}

int locum_owns(int fd)
{
	return api_fd_owns(fd);
}

int locum_configure(const char *settings, char *error, size_t size)
{
	return config_set(settings, error, size);
}

static void print_stats(FILE *f, struct vm *vm)
{
	struct vcpu *v;

	fputs("{\"vm\": ", f);
	stats_print_json(f, STATS_VM, vm->stats.data);
	fputs(", \"vcpus\": [", f);
	vm_each_vcpu(vm, i, v) {
		fputs(i ? ", " : "", f);
		stats_print_json(f, STATS_VCPU, v->stats.data);
	}
	fputs("]}", f);
}

char *locum_stats_json(int vm_fd)
{
	struct api_file *f = api_fd_get(vm_fd);
	char *text = NULL;
	size_t size;
	FILE *out = NULL;

	if (f && f->kind == API_VM && f->generation == api_generation())
		out = open_memstream(&text, &size);
	if (out) {
		print_stats(out, f->object);
		if (fclose(out)) {
			free(text);
			text = NULL;
		}
	}
	if (f)
		api_fd_put(f);
	return text;
}

void locum_kick(int tid)
{
	api_kick_tid(tid);
}
