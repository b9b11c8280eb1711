/* SPDX-License-Identifier: MIT */
/*
 * mkinitrd OUT [NAME=FILE:MODE | NAME/]...: a cpio archive (newc) of files and
 * folders, as Linux takes it for an initial RAM file system.  Needs no root:
 * owner is 0, and /dev/console is made by itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned inode = 1;

static void pad(FILE *out)
{
	while (ftell(out) & 3)
		fputc(0, out);
}

/* One member; @rdev major and minor for a device. */
static void member(FILE *out, const char *name, unsigned mode, const void *data, size_t n,
		   unsigned major, unsigned minor)
{
	fprintf(out, "070701%08X%08X%08X%08X%08X%08X%08zX%08X%08X%08X%08X%08zX%08X", inode++, mode,
		0u, 0u, 1u, 0u, n, 0u, 0u, major, minor, strlen(name) + 1, 0u);
	fwrite(name, 1, strlen(name) + 1, out);
	pad(out);
	fwrite(data, 1, n, out);
	pad(out);
}

static int add_file(FILE *out, const char *name, const char *path, unsigned mode)
{
	FILE *in = fopen(path, "rb");
	char *data = NULL;
	long n = -1;

	if (in && !fseek(in, 0, SEEK_END) && (n = ftell(in)) >= 0) {
		rewind(in);
		data = malloc((size_t)n + 1);
	}
	if (n > 0xffffffffl)
		errno = EFBIG;
	if (!data || n > 0xffffffffl || fread(data, 1, (size_t)n, in) != (size_t)n) {
		fprintf(stderr, "mkinitrd: %s: %s\n", path, strerror(errno));
		return 2;
	}
	member(out, name, 0100000 | mode, data, (size_t)n, 0, 0);
	free(data);
	fclose(in);
	return 0;
}

/* Folders that @name lies in, and itself if it ends with a slash, each once. */
static void add_parents(FILE *out, const char *name)
{
	static char *seen[256];
	static unsigned n;

	for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/')) {
		size_t len = (size_t)(p - name);
		unsigned i;

		for (i = 0; i < n && (strlen(seen[i]) != len || memcmp(seen[i], name, len)); i++)
			;
		if (i < n)
			continue;
		if (n == sizeof(seen) / sizeof(seen[0]) || !(seen[n] = strndup(name, len))) {
			fprintf(stderr, "mkinitrd: too many folders\n");
			exit(2);
		}
		member(out, seen[n++], 0040755, "", 0, 0, 0);
	}
}

/* "NAME=FILE:MODE", "NAME=FILE" or "NAME/"; @arg is cut up. */
static int add_argument(FILE *out, char *arg)
{
	char *eq = strchr(arg, '='), *colon = eq ? strrchr(eq, ':') : NULL;
	unsigned mode = 0644;

	if (eq)
		*eq = 0;
	if (!eq && arg[strlen(arg) - 1] != '/') {
		fprintf(stderr, "mkinitrd: %s: neither NAME=FILE nor NAME/\n", arg);
		return 2;
	}
	add_parents(out, arg);
	if (!eq)
		return 0;
	if (colon) {
		*colon = 0;
		mode = (unsigned)strtoul(colon + 1, NULL, 8) & 07777;
	}
	return add_file(out, arg, eq + 1, mode);
}

int main(int argc, char **argv)
{
	FILE *out = argc > 1 ? fopen(argv[1], "wb") : NULL;

	if (!out) {
		fprintf(stderr, "usage: mkinitrd OUT [NAME=FILE:MODE | NAME/]...\n");
		return 2;
	}
	add_parents(out, "dev/console");
	member(out, "dev/console", 0020600, "", 0, 5, 1);
	for (int i = 2; i < argc; i++)
		if (!*argv[i] || add_argument(out, argv[i]))
			return 2;
	inode = 0;
	member(out, "TRAILER!!!", 0, "", 0, 0, 0);
	if (fclose(out)) {
		perror("mkinitrd");
		return 2;
	}
	return 0;
}
