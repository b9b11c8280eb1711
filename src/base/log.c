/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

u32 log_mask;

static const char *const topic_names[LOG_TOPICS] = {
	[LOG_API] = "api", [LOG_CPU] = "cpu",	[LOG_EXC] = "exc",   [LOG_IRQ] = "irq",
	[LOG_MEM] = "mem", [LOG_MMU] = "mmu",	[LOG_MSR] = "msr",   [LOG_PV] = "pv",
	[LOG_RUN] = "run", [LOG_SHIM] = "shim", [LOG_VMX] = "vmx",
};

static u32 topic_mask(const char *name, size_t len)
{
	if (len == 3 && !strncmp(name, "all", 3))
		return ~0u;
	for (int i = 0; i < LOG_TOPICS; i++)
		if (strlen(topic_names[i]) == len && !strncmp(topic_names[i], name, len))
			return BIT(i);
	return 0;
}

void log_init(void)
{
	const char *s = getenv("LOCUM_DEBUG");
	u32 mask = 0;

	while (s && *s) {
		size_t len = strcspn(s, ",");

		mask |= topic_mask(s, len);
		s += len + (s[len] == ',');
	}
	log_mask = mask;
}

/* One write(2) a line, so that lines of several threads do not mix. */
static void printf_like(2, 0) emit(const char *prefix, const char *fmt, va_list ap)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "locum: %s", prefix);
	int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);

	if (len > sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len] = '\n';
	fwrite(line, 1, len + 1, stderr);
}

void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit("", fmt, ap);
	va_end(ap);
}

void log_emit(enum log_topic topic, const char *fmt, ...)
{
	char prefix[16];
	va_list ap;

	snprintf(prefix, sizeof(prefix), "[%s] ", topic_names[topic]);
	va_start(ap, fmt);
	emit(prefix, fmt, ap);
	va_end(ap);
}
