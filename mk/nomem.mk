# SPDX-License-Identifier: MIT
# tests/unit/api/nomem.c takes the place of the calls that may fail.
NOMEM_CALLS := malloc calloc realloc aligned_alloc free mmap munmap memfd_create ftruncate \
	epoll_create1 epoll_ctl fcntl eventfd timerfd_create pthread_create
$(B)/tests/unit/api/nomem: private LDFLAGS += $(NOMEM_CALLS:%=-Wl,--wrap=%)
