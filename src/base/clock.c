/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <cpuid.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static bool tsc_hidden;

static u64 read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

static u64 host_now_ns(const struct clock *c)
{
	(void)c;
	return read_ns(CLOCK_MONOTONIC);
}

static u64 host_real_ns(const struct clock *c)
{
	(void)c;
	return read_ns(CLOCK_REALTIME);
}

static u64 tsc_native(const struct clock *c)
{
	(void)c;
	return __rdtsc();
}

/* A software TSC of exactly 1 GHz: one tick a nanosecond. */
static u64 tsc_from_ns(const struct clock *c)
{
	return c->now_ns(c);
}

static bool file_has_word(const char *path, const char *word)
{
	char buf[8192];
	size_t len = strlen(word);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	buf[n] = 0;
	for (char *p = buf; (p = strstr(p, word)); p += len) {
		char before = p == buf ? ' ' : p[-1], after = p[len];

		if (strchr(" \n\t", before) && strchr(" \n\t", after))
			return true;
	}
	return false;
}

/* The kernel trusts its TSC, or a paravirtual clock stands on a TSC whose
 * processor promises a constant rate that does not stop. */
static bool kernel_trusts_tsc(void)
{
	static const char source[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";

	if (file_has_word(source, "tsc"))
		return true;
	if (!file_has_word(source, "kvm-clock") &&
	    !file_has_word(source, "hyperv_clocksource_tsc_page"))
		return false;
	return file_has_word("/proc/cpuinfo", "constant_tsc") &&
	       file_has_word("/proc/cpuinfo", "nonstop_tsc");
}

struct tsc_probe {
	u64 *last; /* highest value that any thread has seen */
	u64 until;
	bool backward;
};

static void *probe_thread(void *arg)
{
	struct tsc_probe *p = arg;
	u64 old = __atomic_load_n(p->last, __ATOMIC_ACQUIRE), now;

	do {
		old = __atomic_load_n(p->last, __ATOMIC_ACQUIRE);
		_mm_lfence();
		now = __rdtsc();
		_mm_lfence();
		if (now < old)
			p->backward = true;
		while (now > old && !__atomic_compare_exchange_n(p->last, &old, now, false,
								 __ATOMIC_ACQ_REL,
								 __ATOMIC_ACQUIRE))
			;
	} while (read_ns(CLOCK_MONOTONIC) < p->until);
	return NULL;
}

/* Two threads compare the counter for 10 ms: no step backward is allowed. */
static bool tsc_is_synchronous(void)
{
	u64 last = 0, until = read_ns(CLOCK_MONOTONIC) + 10000000;
	struct tsc_probe probe[2] = { { &last, until, false }, { &last, until, false } };
	pthread_t thread;

	if (pthread_create(&thread, NULL, probe_thread, &probe[0]))
		return false;
	probe_thread(&probe[1]);
	pthread_join(thread, NULL);
	return !probe[0].backward && !probe[1].backward;
}

static u32 measure_tsc_khz(void)
{
	u64 n0 = read_ns(CLOCK_MONOTONIC), t0 = __rdtsc(), n1, t1;

	do {
		n1 = read_ns(CLOCK_MONOTONIC);
		t1 = __rdtsc();
	} while (n1 - n0 < 8000000);
	return (u32)((t1 - t0) * 1000000 / (n1 - n0));
}

/* The frequency as the processor or an enclosing hypervisor states it, or 0. */
static u32 stated_tsc_khz(void)
{
	u32 a, b, c, d;

	if (__get_cpuid(0x15, &a, &b, &c, &d) && a && b && c)
		return (u32)((u64)c * b / a / 1000);
	__cpuid(0x40000000, a, b, c, d);
	if (a >= 0x40000010 && a < 0x40000100) {
		__cpuid(0x40000010, a, b, c, d);
		if (a > 100000 && a < 20000000)
			return a;
	}
	return 0;
}

static struct clock the_host;
static pthread_once_t host_once = PTHREAD_ONCE_INIT;

static void host_init(void)
{
	the_host = (struct clock){ .now_ns = host_now_ns, .real_ns = host_real_ns };
	if (tsc_hidden || !kernel_trusts_tsc() || !tsc_is_synchronous()) {
		the_host.tsc = tsc_from_ns;
		the_host.tsc_khz = 1000000;
		return;
	}
	the_host.tsc = tsc_native;
	the_host.tsc_khz = measure_tsc_khz();
	u32 stated = stated_tsc_khz();
	/* The measurement only guards against a nonsense statement. */
	if (stated && stated > the_host.tsc_khz / 100 * 98 &&
	    stated < the_host.tsc_khz / 100 * 102)
		the_host.tsc_khz = stated;
	the_host.tsc_stable = the_host.tsc_host = true;
}

const struct clock *clock_host(void)
{
	pthread_once(&host_once, host_init);
	return &the_host;
}

void clock_hide_tsc(void)
{
	tsc_hidden = true;
}
