/* SPDX-License-Identifier: MIT */
/*
 * Hand-picked cases from a text file.  Each names what it needs; the rest of
 * the state is random, and it runs many times.
 *
 *	case NAME		begins a case
 *	code HEX ...		bytes of one instruction; several lines: a sequence
 *	REG VALUE		rax .. r15, rflags, fsbase, gsbase, mxcsr, fcw, fsw, ftw
 *	xmmN HEX / stN HEX	one number, most significant digit first
 *	hiN HEX			bits 255:128 of vector register N likewise
 *	data OFFSET HEX ...	bytes at OFFSET of the data span
 *	word OFFSET VALUE	eight bytes likewise
 *	start OFFSET		of the first instruction in the code pages
 * VALUE is a number, or D+N, L+N: offset N of the data span, by its high or low
 * address, or B: exit stub B.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff.h"
#include "gen.h"

#define REPEAT 300

struct setting {
	char key[32];
	u64 value;
	u8 bytes[16];
	unsigned n;
};

struct recipe {
	char name[120];
	u8 code[CASE_MAX_CODE];
	u8 len[CASE_MAX_INSNS];
	unsigned ninsn, code_len;
	u64 start;
	struct setting set[40];
	unsigned nset;
	struct diff_edit edit[CASE_MAX_EDITS];
	unsigned nedit;
};

static int line_number;

static void bad(const char *what)
{
	fprintf(stderr, "diff: cases: line %d: %s\n", line_number, what);
	exit(2);
}

static u64 parse_value(const char *s)
{
	u64 base = 0;
	char *end;

	if (*s == 'B')
		return CODE_VA + EXIT_B_OFF;
	if (*s == 'D' || *s == 'L') {
		base = (*s == 'D' ? DIFF_HIGH : DIFF_LOW) + DATA_FIRST * 4096;
		s++;
	}
	u64 v = strtoull(s, &end, 0);

	if (*end && !isspace((unsigned char)*end))
		bad("value");
	return base + v;
}

static unsigned parse_bytes(const char *s, u8 *out, unsigned max)
{
	unsigned n = 0, v;
	int used;

	while (sscanf(s, " %2x%n", &v, &used) == 1) {
		if (n == max)
			bad("too many bytes");
		out[n++] = (u8)v;
		s += used;
	}
	return n;
}

/* A number of @n bytes, most significant digit first. */
static void parse_big(const char *s, u8 *out, unsigned n)
{
	u8 digits[64];
	unsigned got = parse_bytes(s, digits, n);

	memset(out, 0, n);
	for (unsigned k = 0; k < got; k++)
		out[got - 1 - k] = digits[k];
}

static void parse_line(struct recipe *r, char *key, char *rest)
{
	if (!strcmp(key, "code")) {
		if (r->ninsn == CASE_MAX_INSNS)
			bad("too many instructions");
		unsigned n = parse_bytes(rest, r->code + r->code_len, 15);

		r->len[r->ninsn++] = (u8)n;
		r->code_len += n;
	} else if (!strcmp(key, "data")) {
		struct diff_edit *e = &r->edit[r->nedit++];
		char *end;

		e->off = (u32)strtoul(rest, &end, 0);
		e->n = (u8)parse_bytes(end, e->bytes, sizeof(e->bytes));
	} else if (!strcmp(key, "word")) {
		struct diff_edit *e = &r->edit[r->nedit++];
		char *end;
		u64 v;

		e->off = (u32)strtoul(rest, &end, 0);
		v = parse_value(end + strspn(end, " "));
		e->n = 8;
		memcpy(e->bytes, &v, 8);
	} else if (!strcmp(key, "start")) {
		r->start = CODE_VA + parse_value(rest);
	} else {
		struct setting *s = &r->set[r->nset++];

		snprintf(s->key, sizeof(s->key), "%s", key);
		if (!strncmp(key, "xmm", 3) || !strncmp(key, "hi", 2) || (key[0] == 's' && key[1] == 't'))
			parse_big(rest, s->bytes, 16);
		else
			s->value = parse_value(rest);
	}
}

static void apply(struct diff_state *st, const struct setting *s)
{
	static const char *const names[16] = {
		"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15",
	};

	for (unsigned n = 0; n < 16; n++)
		if (!strcmp(s->key, names[n])) {
			st->gpr[n] = s->value;
			return;
		}
	if (!strcmp(s->key, "rflags"))
		st->rflags = s->value | RF_ONE | RF_IF;
	else if (!strcmp(s->key, "fsbase") && native_has_fsgsbase())
		st->fsbase = s->value;
	else if (!strcmp(s->key, "gsbase") && native_has_fsgsbase())
		st->gsbase = s->value;
	else if (!strcmp(s->key, "mxcsr"))
		memcpy(st->fx + 24, &s->value, 4);
	else if (!strcmp(s->key, "fcw"))
		memcpy(st->fx, &s->value, 2);
	else if (!strcmp(s->key, "fsw"))
		memcpy(st->fx + 2, &s->value, 2);
	else if (!strcmp(s->key, "ftw"))
		st->fx[4] = (u8)s->value;
	else if (!strncmp(s->key, "xmm", 3))
		memcpy(st->fx + 160 + 16 * (strtoul(s->key + 3, NULL, 10) & 15), s->bytes, 16);
	else if (!strncmp(s->key, "hi", 2))
		memcpy(st->ymmh[strtoul(s->key + 2, NULL, 10) & 15], s->bytes, 16);
	else if (!strncmp(s->key, "st", 2))
		memcpy(st->fx + 32 + 16 * (strtoul(s->key + 2, NULL, 10) & 7), s->bytes, 10);
	else if (strncmp(s->key, "fs", 2) && strncmp(s->key, "gs", 2))
		bad(s->key);
}

/* MXCSR with a bit that the host's processor has not (AMD's misaligned mode): the
 * state cannot be loaded. */
static bool host_can(const struct recipe *r)
{
	static u8 fx[512] __attribute__((aligned(16)));
	u32 mask;

	asm volatile("fxsave64 %0" : "=m"(fx));
	memcpy(&mask, fx + 28, 4);
	for (unsigned j = 0; j < r->nset; j++)
		if (!strcmp(r->set[j].key, "mxcsr") && r->set[j].value & ~(u64)(mask ? mask : 0xffbf))
			return false;
	return true;
}

static bool run_recipe(const struct recipe *r, u64 seed, bool may_shrink)
{
	static struct diff_case k;
	struct diff_outcome g;

	for (u64 n = 0; n < REPEAT; n++) {
		rng_seed(seed, n);
		memset(&k, 0, sizeof(k));
		k.seed = seed;
		k.number = n;
		k.ninsn = r->ninsn;
		k.code_len = r->code_len;
		memcpy(k.code, r->code, sizeof(k.code));
		memcpy(k.len, r->len, sizeof(k.len));
		k.start = r->start;
		memcpy(k.edit, r->edit, sizeof(k.edit));
		k.nedit = r->nedit;
		gen_state(&k.in);
		for (unsigned j = 0; j < r->nset; j++)
			apply(&k.in, &r->set[j]);
		if (!gen_decode(&k)) /* one that must not decode stands last */
			k.invalid = true;
		if (compare_run(&k, false, &g) ||
		    (compare_lost_pointers && compare_run(&k, false, &g)))
			continue;
		printf("regress: %s\n", r->name);
		if (may_shrink)
			shrink(&k);
		shrink_print(&k);
		return false;
	}
	return true;
}

int regress_file(const char *path, u64 seed, bool may_shrink)
{
	static struct recipe r;
	FILE *f = fopen(path, "r");
	char line[512], key[32];
	unsigned cases = 0, failed = 0, skipped = 0;
	int used;

	if (!f) {
		perror(path);
		return 2;
	}
	for (bool more = true; more;) {
		more = fgets(line, sizeof(line), f);
		line_number++;
		bool begins = more && !strncmp(line, "case ", 5);

		if ((begins || !more) && r.code_len) {
			cases++;
			if (!host_can(&r))
				skipped++;
			else
				failed += !run_recipe(&r, seed, may_shrink);
		}
		if (begins) {
			memset(&r, 0, sizeof(r));
			r.start = CODE_VA + 0x100;
			snprintf(r.name, sizeof(r.name), "%.*s", (int)strcspn(line + 5, "\n"),
				 line + 5);
		} else if (more && line[0] != '#' && sscanf(line, "%31s %n", key, &used) == 1) {
			parse_line(&r, key, line + used);
		}
	}
	fclose(f);
	printf("CASES %u hand-picked, %u need another maker's MXCSR, %u failed\n", cases, skipped,
	       failed);
	return failed ? 1 : 0;
}
