/* SPDX-License-Identifier: MIT */
#include "api/config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cpu/hostcpu.h"

/* One word of a setting: a key or a value. */
struct word {
	const char *text;
	size_t len;
};

/** struct key - a setting
 * @values: what the error message lists
 * @set: false if @value is none of them */
struct key {
	const char *name, *values;
	bool (*set)(struct vm_config *c, struct word value);
};

static bool word_is(struct word w, const char *s)
{
	return strlen(s) == w.len && !memcmp(w.text, s, w.len);
}

/* Index of @w in @names, which ends with NULL; -1 if it is not there. */
static int word_index(struct word w, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (word_is(w, names[i]))
			return i;
	return -1;
}

static bool word_number(struct word w, u32 *out)
{
	u64 n = 0;

	if (!w.len || w.len > 9)
		return false;
	for (size_t i = 0; i < w.len; i++) {
		if (w.text[i] < '0' || w.text[i] > '9')
			return false;
		n = n * 10 + (u64)(w.text[i] - '0');
	}
	*out = (u32)n;
	return true;
}

static bool set_engine(struct vm_config *c, struct word v)
{
	static const char *const names[] = { "interp", "jit", NULL };
	int i = word_index(v, names);

	c->engine = i == 1 ? VM_ENGINE_JIT : VM_ENGINE_INTERP;
	return i >= 0;
}

static bool set_jit_flags(struct vm_config *c, struct word v)
{
	static const char *const names[] = { "fast", "exact", NULL };
	int i = word_index(v, names);

	c->jit_exact = i == 1;
	return i >= 0;
}

static bool set_invlpg(struct vm_config *c, struct word v)
{
	static const char *const names[] = { "address", "context", NULL };
	int i = word_index(v, names);

	c->invlpg = i == 1 ? VM_INVLPG_CONTEXT : VM_INVLPG_ADDRESS;
	return i >= 0;
}

static bool set_tlb_size(struct vm_config *c, struct word v)
{
	return word_number(v, &c->tlb_size) && c->tlb_size <= 4096 &&
	       !(c->tlb_size & (c->tlb_size - 1));
}

static bool set_tlb_spaces(struct vm_config *c, struct word v)
{
	return word_number(v, &c->tlb_spaces) && c->tlb_spaces >= 1 && c->tlb_spaces <= 64;
}

static bool set_vendor(struct vm_config *c, struct word v)
{
	static const char *const names[] = { "host", "intel", "amd", NULL };
	int i = word_index(v, names);

	c->vendor = i < 0 ? VM_VENDOR_HOST : (enum vm_vendor)i;
	return i >= 0;
}

static bool set_sched(struct vm_config *c, struct word v)
{
	c->sched = VM_SCHED_HOST;
	return word_is(v, "host");
}

static bool set_instructions(struct vm_config *c, struct word v)
{
	static const char *const names[] = { "off", "on", NULL };
	int i = word_index(v, names);

	c->count_instructions = i == 1;
	return i >= 0;
}

static bool hide_one(struct word v)
{
	char name[32];

	if (!v.len || v.len >= sizeof(name))
		return false;
	memcpy(name, v.text, v.len);
	name[v.len] = 0;
	if (!strcmp(name, "tsc")) {
		clock_hide_tsc();
		return true;
	}
	return hostcpu_hide(name);
}

/* Several are joined by '+'.  They hold for the process, not for one VM: the
 * host has one processor. */
static bool set_hide(struct vm_config *c, struct word v)
{
	(void)c;
	while (v.len) {
		const char *plus = memchr(v.text, '+', v.len);
		struct word one = { v.text, plus ? (size_t)(plus - v.text) : v.len };

		if (!hide_one(one))
			return false;
		v.text += one.len + !!plus;
		v.len -= one.len + !!plus;
	}
	return true;
}

#define NAME_OF(name) "+" #name
static const struct key keys[] = {
	{ "engine", "interp, jit", set_engine },
	{ "jit.flags", "fast, exact", set_jit_flags },
	{ "tlb.invlpg", "address, context", set_invlpg },
	{ "tlb.size", "a power of two from 1 to 4096, or 0 (adaptive)", set_tlb_size },
	{ "tlb.spaces", "1 to 64", set_tlb_spaces },
	{ "cpu.vendor", "host, intel, amd", set_vendor },
	{ "sched.policy", "host", set_sched },
	{ "stats.instructions", "on, off", set_instructions },
	{ "host.hide", "any of tsc" HOST_FEATURES(NAME_OF), set_hide },
};

static void explain_keys(struct word key, char *error, size_t size)
{
	int n = snprintf(error, size, "unknown setting \"%.*s\"; there are:", (int)key.len,
			 key.text);

	for (size_t i = 0; i < ARRAY_SIZE(keys) && n >= 0 && (size_t)n < size; i++)
		n += snprintf(error + n, size - (size_t)n, " %s", keys[i].name);
}

static int set_one(struct vm_config *c, struct word text, char *error, size_t size)
{
	const char *eq = memchr(text.text, '=', text.len);
	struct word key = { text.text, eq ? (size_t)(eq - text.text) : text.len };
	struct word value = { eq ? eq + 1 : "", eq ? text.len - key.len - 1 : 0 };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!word_is(key, keys[i].name))
			continue;
		if (eq && keys[i].set(c, value))
			return 0;
		if (size)
			snprintf(error, size, "%s cannot be \"%.*s\"; it takes: %s",
				 keys[i].name, (int)value.len, value.text, keys[i].values);
		return -EINVAL;
	}
	if (size)
		explain_keys(key, error, size);
	return -EINVAL;
}

int config_parse(struct vm_config *cfg, const char *settings, char *error, size_t size)
{
	struct vm_config c = *cfg;

	while (*settings) {
		size_t len = strcspn(settings, ",");
		struct word one = { settings, len };
		int r = len ? set_one(&c, one, error, size) : 0;

		if (r)
			return r;
		settings += len + (settings[len] == ',');
	}
	*cfg = c;
	return 0;
}

/* Settings of VMs that this process has yet to create. */
static struct vm_config next_config;
static bool next_ready;
static pthread_mutex_t next_lock = PTHREAD_MUTEX_INITIALIZER;
static int env_result;

static void ready_locked(void)
{
	const char *env = getenv("LOCUM_SET");
	char error[512];

	if (next_ready)
		return;
	next_ready = true;
	vm_config_default(&next_config);
	env_result = env ? config_parse(&next_config, env, error, sizeof(error)) : 0;
	if (env_result)
		log_warn("LOCUM_SET: %s", error);
}

int config_init(void)
{
	int r;

	pthread_mutex_lock(&next_lock);
	ready_locked();
	r = env_result;
	pthread_mutex_unlock(&next_lock);
	return r;
}

int config_set(const char *settings, char *error, size_t size)
{
	int r;

	pthread_mutex_lock(&next_lock);
	ready_locked();
	r = config_parse(&next_config, settings, error, size);
	pthread_mutex_unlock(&next_lock);
	return r;
}

void config_get(struct vm_config *out)
{
	pthread_mutex_lock(&next_lock);
	ready_locked();
	*out = next_config;
	pthread_mutex_unlock(&next_lock);
}
