/* SPDX-License-Identifier: MIT */
#include "monitor/cpuflags.h"

#include <stdio.h>
#include <string.h>

#include "monitor/machine.h"

enum reg { EBX, ECX, EDX, EAX };

static const struct flag {
	const char *name;
	u32 leaf, index;
	enum reg reg;
	u8 bit;
} flags[] = {
#define FLAG(name, leaf, index, reg, bit) { name, leaf, index, reg, bit },
#include "monitor/cpuflags.def"
#undef FLAG
};

static u32 *reg_of(struct kvm_cpuid_entry2 *e, enum reg reg)
{
	switch (reg) {
	case EBX: return &e->ebx;
	case ECX: return &e->ecx;
	case EDX: return &e->edx;
	case EAX: break;
	}
	return &e->eax;
}

static int bad(const char *word, size_t len)
{
	fprintf(stderr, "locum: --cpu: %.*s is not vendor=intel, vendor=amd, or + or - one of:",
		(int)len, word);
	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++)
		if (!i || strcmp(flags[i].name, flags[i - 1].name))
			fprintf(stderr, " %s", flags[i].name);
	fputc('\n', stderr);
	return RUN_USAGE;
}

static u32 *find(const struct flag *f, struct kvm_cpuid_entry2 *e, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (e[i].function == f->leaf && e[i].index == f->index)
			return reg_of(&e[i], f->reg);
	return NULL;
}

/* "+NAME" or "-NAME" of @len bytes. */
static int set_flag(const char *word, size_t len, struct kvm_cpuid_entry2 *e, u32 n)
{
	bool known = false, offered = false;

	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++) {
		const struct flag *f = &flags[i];
		u32 *r;

		if (strlen(f->name) != len - 1 || memcmp(f->name, word + 1, len - 1))
			continue;
		known = true;
		r = find(f, e, n);
		offered |= r && *r >> f->bit & 1;
		if (r && word[0] == '-')
			*r &= ~(1u << f->bit);
	}
	if (!known)
		return bad(word, len);
	if (word[0] == '-' || offered)
		return 0;
	fprintf(stderr, "locum: --cpu: %.*s is not offered here\n", (int)len - 1, word + 1);
	return RUN_USAGE;
}

void cpuflags_print(struct kvm_cpuid_entry2 *e, u32 n)
{
	unsigned column = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++) {
		u32 *r = find(&flags[i], e, n);

		if (!r || !(*r >> flags[i].bit & 1) ||
		    (i && !strcmp(flags[i].name, flags[i - 1].name)))
			continue;
		column += (unsigned)strlen(flags[i].name) + 1;
		if (column > 80) {
			putchar('\n');
			column = (unsigned)strlen(flags[i].name) + 1;
		}
		printf(" %s", flags[i].name);
	}
	putchar('\n');
}

static void set_vendor(struct kvm_cpuid_entry2 *e, u32 n, bool intel)
{
	const char *name = intel ? "GenuineIntel" : "AuthenticAMD";

	for (u32 i = 0; i < n; i++)
		if (e[i].function == 0) {
			memcpy(&e[i].ebx, name, 4);
			memcpy(&e[i].edx, name + 4, 4);
			memcpy(&e[i].ecx, name + 8, 4);
		}
}

int cpuflags_apply(const char *text, struct kvm_cpuid_entry2 *e, u32 n)
{
	while (*text) {
		size_t len = strcspn(text, ",");
		int r = 0;

		if (len == 12 && !strncmp(text, "vendor=intel", len))
			set_vendor(e, n, true);
		else if (len == 10 && !strncmp(text, "vendor=amd", len))
			set_vendor(e, n, false);
		else if (len > 1 && (text[0] == '+' || text[0] == '-'))
			r = set_flag(text, len, e, n);
		else
			r = bad(text, len);
		if (r)
			return r;
		text += len + (text[len] == ',');
	}
	return 0;
}
