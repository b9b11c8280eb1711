/* SPDX-License-Identifier: MIT */
/*
 * Messages to stderr.
 *
 * log_warn() is for the user: one line, prefixed "locum: ".  log_debug() is
 * silent unless its topic is named in the environment variable LOCUM_DEBUG, a
 * comma-separated list of topics ("mmu,lapic" or "all").
 */
#ifndef LOCUM_BASE_LOG_H
#define LOCUM_BASE_LOG_H

#include "base/types.h"

enum log_topic {
	LOG_API,
	LOG_CPU,
	LOG_EXC,
	LOG_IRQ,
	LOG_MEM,
	LOG_MMU,
	LOG_MSR,
	LOG_PV,
	LOG_RUN,
	LOG_SHIM,
	LOG_VMX,
	LOG_TOPICS
};

/* Bit per enum log_topic; read-mostly, set once by log_init(). */
extern u32 log_mask;

/** log_init() - read LOCUM_DEBUG; any thread, idempotent */
void log_init(void);

/** log_warn() - print "locum: " and the message and a newline to stderr */
void log_warn(const char *fmt, ...) printf_like(1, 2);

/** log_emit() - print a debug line of @topic; use log_debug() instead */
void log_emit(enum log_topic topic, const char *fmt, ...) printf_like(2, 3);

#define log_debug(topic, ...)                                                  \
	do {                                                                   \
		if (unlikely(log_mask & (1u << (topic))))                      \
			log_emit(topic, __VA_ARGS__);                          \
	} while (0)

#endif
