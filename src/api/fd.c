/* SPDX-License-Identifier: MIT */
#include "api/fd.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/objects.h"
#include "api/signal.h"

#define CHUNK_BITS 10
#define CHUNK_SIZE (1 << CHUNK_BITS)
#define CHUNKS	   1024 /* descriptors up to 2^20, as fs.nr_open */

typedef _Atomic(struct api_file *) file_slot;

/* Of the process: descriptors belong to it, not to a VM. */
static _Atomic(file_slot *) chunks[CHUNKS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct api_file *free_files; /* under table_lock */
static _Atomic int max_fd = -1;

/* --- generations --------------------------------------------------------- */

/* A page that a fork leaves zero in the child.  vfork(2) shares it. */
struct identity {
	_Atomic u32 generation;
	_Atomic int pid;
};
static struct identity *_Atomic wiped;
static _Atomic u32 last_generation;

static struct identity *wiped_page(void)
{
	struct identity *p = atomic_load(&wiped), *none = NULL;

	if (p)
		return p;
	p = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, PAGE_SIZE, MADV_WIPEONFORK);
	atomic_store(&p->pid, getpid());
	if (!atomic_compare_exchange_strong(&wiped, &none, p)) {
		munmap(p, PAGE_SIZE);
		p = none;
	}
	return p;
}

u32 api_generation(void)
{
	struct identity *p = wiped_page();
	u32 g, zero = 0;

	if (!p)
		return 1;
	g = atomic_load_explicit(&p->generation, memory_order_relaxed);
	if (likely(g))
		return g;
	g = atomic_fetch_add(&last_generation, 1) + 1;
	return atomic_compare_exchange_strong(&p->generation, &zero, g) ? g : zero;
}

bool api_borrows_memory(void)
{
	struct identity *p = atomic_load(&wiped);
	int self = getpid(), none = 0;

	if (!p)
		return false;
	return !atomic_compare_exchange_strong(&p->pid, &none, self) && none != self;
}

/* A forked child inherits the lock, perhaps held by a thread that it has not. */
static void child_after_fork(void)
{
	struct identity *p = atomic_load(&wiped);

	pthread_mutex_init(&table_lock, NULL);
	if (p)
		atomic_store(&p->pid, getpid());
	api_signal_forked();
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, child_after_fork);
}

/* --- table ---------------------------------------------------------------- */

static file_slot *slot_of(int fd)
{
	file_slot *chunk;

	if (fd < 0 || fd >= CHUNKS * CHUNK_SIZE)
		return NULL;
	chunk = atomic_load_explicit(&chunks[fd >> CHUNK_BITS], memory_order_acquire);
	return chunk ? &chunk[fd & (CHUNK_SIZE - 1)] : NULL;
}

/* Caller holds table_lock. */
static file_slot *slot_make(int fd)
{
	file_slot *chunk;

	if (fd < 0 || fd >= CHUNKS * CHUNK_SIZE)
		return NULL;
	if (!atomic_load(&chunks[fd >> CHUNK_BITS])) {
		chunk = calloc(CHUNK_SIZE, sizeof(*chunk));
		if (!chunk)
			return NULL;
		atomic_store_explicit(&chunks[fd >> CHUNK_BITS], chunk,
				      memory_order_release);
	}
	if (fd > atomic_load(&max_fd))
		atomic_store(&max_fd, fd);
	return slot_of(fd);
}

static struct api_file *file_alloc(void)
{
	struct api_file *f = free_files;

	if (f)
		free_files = f->next_free;
	else
		f = calloc(1, sizeof(*f));
	return f;
}

static void file_free(struct api_file *f)
{
	pthread_mutex_lock(&table_lock);
	f->object = NULL;
	f->next_free = free_files;
	free_files = f;
	pthread_mutex_unlock(&table_lock);
}

int api_fd_install(int fd, enum api_kind kind, void *object)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	u32 generation = api_generation();
	struct api_file *f, *old;
	file_slot *slot;

	pthread_once(&once, register_fork);
	pthread_mutex_lock(&table_lock);
	slot = slot_make(fd);
	f = slot ? file_alloc() : NULL;
	if (!f) {
		pthread_mutex_unlock(&table_lock);
		return -ENOMEM;
	}
	f->generation = generation;
	f->kind = kind;
	f->object = object;
	atomic_store_explicit(&f->refs, 1, memory_order_release);
	/* A descriptor that was closed behind our back leaves an entry. */
	old = atomic_exchange_explicit(slot, f, memory_order_acq_rel);
	pthread_mutex_unlock(&table_lock);
	if (old)
		api_fd_put(old);
	return 0;
}

/* Take a reference unless the file is already dying. */
static bool file_tryget(struct api_file *f)
{
	u32 refs = atomic_load_explicit(&f->refs, memory_order_relaxed);

	while (refs)
		if (atomic_compare_exchange_weak_explicit(&f->refs, &refs, refs + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

struct api_file *api_fd_get(int fd)
{
	file_slot *slot = slot_of(fd);
	struct api_file *f;

	if (!slot)
		return NULL;
	for (;;) {
		f = atomic_load_explicit(slot, memory_order_acquire);
		if (!f)
			return NULL;
		if (!file_tryget(f))
			continue; /* being removed: the slot changes at once */
		/* Between the load and the reference the file may have died and
		 * been born again elsewhere (its memory is reused, never freed). */
		if (likely(atomic_load_explicit(slot, memory_order_acquire) == f))
			return f;
		api_fd_put(f);
	}
}

void api_fd_put(struct api_file *f)
{
	if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	/* What the parent process made is not ours to take down. */
	if (f->generation == api_generation())
		api_object_release(f->kind, f->object);
	file_free(f);
}

int api_fd_dup(int fd, int newfd)
{
	struct api_file *f = api_fd_get(fd), *old;
	file_slot *slot;

	if (!f)
		return -EBADF;
	pthread_mutex_lock(&table_lock);
	slot = slot_make(newfd);
	if (!slot) {
		pthread_mutex_unlock(&table_lock);
		api_fd_put(f);
		return newfd < 0 ? -EBADF : -ENOMEM;
	}
	/* The reference passes to the entry. */
	old = atomic_exchange_explicit(slot, f, memory_order_acq_rel);
	pthread_mutex_unlock(&table_lock);
	if (old)
		api_fd_put(old);
	return 0;
}

int api_fd_remove(int fd)
{
	file_slot *slot = slot_of(fd);
	struct api_file *f;

	if (!slot)
		return -EBADF;
	f = atomic_exchange_explicit(slot, NULL, memory_order_acq_rel);
	if (!f)
		return -EBADF;
	api_fd_put(f);
	return 0;
}

bool api_fd_owns(int fd)
{
	file_slot *slot = slot_of(fd);

	return slot && atomic_load_explicit(slot, memory_order_relaxed);
}

bool api_fd_is_system(int fd)
{
	struct api_file *f = api_fd_get(fd);
	bool system = f && f->kind == API_SYSTEM;

	if (f)
		api_fd_put(f);
	return system;
}

int api_fd_max(void)
{
	return atomic_load_explicit(&max_fd, memory_order_relaxed);
}
