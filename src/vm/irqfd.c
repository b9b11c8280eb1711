/* SPDX-License-Identifier: MIT */
#include "vm/irqfd.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "vm/evfd.h"
#include "vm/vm.h"

#define STOP_SERIAL 0 /* irqfds count from 1 */

/** struct irqfd - one eventfd and its interrupt; under irqfds.lock
 * @serial: tells events of a removed one from those of its successor
 * @resample: told when the guest acknowledges; fd -1: an edge, not a level */
struct irqfd {
	struct irqfd *next;
	u64 serial;
	u32 gsi;
	struct evfd event, resample;
};

void irqfds_init(struct irqfds *q)
{
	pthread_mutex_init(&q->lock, NULL);
	q->list = NULL;
	q->last_serial = STOP_SERIAL;
	q->running = false;
	q->epoll = q->stop = -1;
}

/* --- injection ---------------------------------------------------------------- */

static void inject(struct vm *vm, const struct irqfd *f)
{
	/* A device may have written memory before. */
	vm_client_wrote(vm, NULL);
	if (f->resample.fd < 0)
		irqchip_pulse_gsi(&vm->irqchip, f->gsi);
	else
		irqchip_set_gsi(&vm->irqchip, IRQ_SOURCE_RESAMPLE, f->gsi, 1, false);
	__atomic_fetch_add(&((struct vm_stats *)vm->stats.data)->irqfds, 1,
			   __ATOMIC_RELAXED);
}

static void event(struct vm *vm, u64 serial)
{
	struct irqfds *q = &vm->irqfds;

	pthread_mutex_lock(&q->lock);
	for (struct irqfd *f = q->list; f; f = f->next)
		if (f->serial == serial) {
			if (evfd_take(&f->event))
				inject(vm, f);
			break;
		}
	pthread_mutex_unlock(&q->lock);
}

static void *irqfd_main(void *opaque)
{
	struct vm *vm = opaque;
	struct epoll_event e[16];

	prctl(PR_SET_NAME, "locum-irqfd");
	for (;;) {
		int n = epoll_wait(vm->irqfds.epoll, e, ARRAY_SIZE(e), -1);

		/* The client may have closed what it does not know. */
		if (n < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (e[i].data.u64 == STOP_SERIAL)
				return NULL;
			event(vm, e[i].data.u64);
		}
	}
}

void irqfd_acked(struct vm *vm, u32 gsi)
{
	struct irqfds *q = &vm->irqfds;
	bool lowered = false;

	pthread_mutex_lock(&q->lock);
	for (struct irqfd *f = q->list; f; f = f->next) {
		if (f->gsi != gsi || f->resample.fd < 0)
			continue;
		if (!lowered)
			irqchip_set_gsi(&vm->irqchip, IRQ_SOURCE_RESAMPLE, gsi, 0, false);
		lowered = true;
		evfd_signal(&f->resample);
	}
	pthread_mutex_unlock(&q->lock);
}

/* --- the thread ---------------------------------------------------------------- */

static int watch(struct irqfds *q, int fd, u64 serial)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = serial };

	return epoll_ctl(q->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void close_fds(struct irqfds *q)
{
	if (q->epoll >= 0)
		close(q->epoll);
	if (q->stop >= 0)
		close(q->stop);
	q->epoll = q->stop = -1;
}

/* Every signal is blocked from its birth on. */
static int spawn(struct vm *vm)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	r = pthread_create(&vm->irqfds.thread, NULL, irqfd_main, vm);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

static int start_thread(struct vm *vm)
{
	struct irqfds *q = &vm->irqfds;
	int r = 0;

	if (q->running)
		return 0;
	q->epoll = epoll_create1(EPOLL_CLOEXEC);
	q->stop = eventfd(0, EFD_CLOEXEC);
	if (q->epoll < 0 || q->stop < 0)
		r = -errno;
	if (!r)
		r = watch(q, q->stop, STOP_SERIAL);
	if (!r)
		r = spawn(vm);
	if (r)
		close_fds(q);
	q->running = !r;
	return r;
}

static void irqfd_free(struct irqfd *f)
{
	evfd_put(&f->event);
	evfd_put(&f->resample);
	free(f);
}

void irqfds_fini(struct irqfds *q)
{
	u64 one = 1;

	if (q->running && write(q->stop, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(q->thread, NULL);
	close_fds(q);
	for (struct irqfd *f = q->list, *next; f; f = next) {
		next = f->next;
		irqfd_free(f);
	}
	pthread_mutex_destroy(&q->lock);
}

/* --- assign, deassign ------------------------------------------------------------ */

static bool is_resampled(const struct irqfds *q, u32 gsi)
{
	for (const struct irqfd *f = q->list; f; f = f->next)
		if (f->gsi == gsi && f->resample.fd >= 0)
			return true;
	return false;
}

static int add_locked(struct vm *vm, struct irqfd *f)
{
	struct irqfds *q = &vm->irqfds;
	int r;

	for (const struct irqfd *o = q->list; o; o = o->next)
		if (evfd_same(&o->event, &f->event))
			return -EBUSY;
	r = start_thread(vm);
	if (r)
		return r;
	f->serial = ++q->last_serial;
	if (f->resample.fd >= 0)
		irqchip_watch_acks(&vm->irqchip, f->gsi, true);
	/* An event that is there already is reported at once. */
	r = watch(q, f->event.fd, f->serial);
	if (!r) {
		f->next = q->list;
		q->list = f;
	} else if (f->resample.fd >= 0 && !is_resampled(q, f->gsi)) {
		irqchip_watch_acks(&vm->irqchip, f->gsi, false);
	}
	return r;
}

static int assign(struct vm *vm, const struct kvm_irqfd *a)
{
	bool resample = a->flags & KVM_IRQFD_FLAG_RESAMPLE;
	struct irqfd *f;
	int r;

	if (!vm_has_lapic(vm) || (resample && !vm_has_pic(vm)))
		return -EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->gsi = a->gsi;
	f->event.fd = f->resample.fd = -1;
	r = evfd_get((int)a->fd, &f->event);
	if (!r && resample)
		r = evfd_get((int)a->resamplefd, &f->resample);
	if (!r) {
		pthread_mutex_lock(&vm->irqfds.lock);
		r = add_locked(vm, f);
		pthread_mutex_unlock(&vm->irqfds.lock);
	}
	if (r)
		irqfd_free(f);
	return r;
}

/* The last that held a line up lets it fall. */
static void drop_line(struct vm *vm, u32 gsi)
{
	if (is_resampled(&vm->irqfds, gsi))
		return;
	irqchip_watch_acks(&vm->irqchip, gsi, false);
	irqchip_set_gsi(&vm->irqchip, IRQ_SOURCE_RESAMPLE, gsi, 0, false);
}

/* None that matches is no error. */
static int deassign(struct vm *vm, const struct kvm_irqfd *a)
{
	struct irqfds *q = &vm->irqfds;
	struct evfd e;
	int r = evfd_get((int)a->fd, &e);

	if (r)
		return r;
	pthread_mutex_lock(&q->lock);
	for (struct irqfd **at = &q->list, *f; (f = *at);) {
		if (f->gsi != a->gsi || !evfd_same(&f->event, &e)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		epoll_ctl(q->epoll, EPOLL_CTL_DEL, f->event.fd, NULL);
		if (f->resample.fd >= 0)
			drop_line(vm, f->gsi);
		irqfd_free(f);
	}
	pthread_mutex_unlock(&q->lock);
	evfd_put(&e);
	return 0;
}

int irqfd_set(struct vm *vm, const struct kvm_irqfd *a)
{
	if (a->flags & ~(u32)(KVM_IRQFD_FLAG_DEASSIGN | KVM_IRQFD_FLAG_RESAMPLE))
		return -EINVAL;
	return a->flags & KVM_IRQFD_FLAG_DEASSIGN ? deassign(vm, a) : assign(vm, a);
}
