/* SPDX-License-Identifier: MIT */
/* The files of an initrd on the host, so that the guest's programs run there too. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/cli.h"

/* A header of the newc format: "070701" and 13 numbers of 8 hexadecimal digits. */
#define HEADER 110
enum { MODE = 1, FILE_SIZE = 6, NAME_SIZE = 11 };

static unsigned long field(const char header[HEADER], unsigned i)
{
	char digits[9] = { 0 };

	memcpy(digits, header + 6 + 8 * i, 8);
	return strtoul(digits, NULL, 16);
}

static int read_name(FILE *in, char *name, size_t n)
{
	long at;

	if (!n || n > PATH_MAX || fread(name, 1, n, in) != n || name[n - 1])
		return -1;
	if (*name == '/' || strstr(name, ".."))
		return -1;
	at = ftell(in);
	return at < 0 ? -1 : fseek(in, (at + 3) & ~3l, SEEK_SET);
}

static int copy_out(FILE *in, const char *path, unsigned long size, mode_t mode)
{
	char buf[65536];
	FILE *out = fopen(path, "wbx");
	long end = (ftell(in) + (long)size + 3) & ~3l;

	while (out && size) {
		size_t n = fread(buf, 1, size < sizeof(buf) ? size : sizeof(buf), in);

		if (!n || fwrite(buf, 1, n, out) != n)
			break;
		size -= n;
	}
	if (!out)
		return -1;
	if (fclose(out) || size || chmod(path, mode))
		return -1;
	return fseek(in, end, SEEK_SET);
}

/* Files and folders of the archive; devices are left out. */
static int unpack(FILE *in, const char *dir)
{
	char header[HEADER], name[PATH_MAX], path[2 * PATH_MAX];

	while (fread(header, 1, HEADER, in) == HEADER && !memcmp(header, "070701", 6)) {
		unsigned long mode = field(header, MODE), size = field(header, FILE_SIZE);

		if (read_name(in, name, field(header, NAME_SIZE)))
			return -1;
		if (!strcmp(name, "TRAILER!!!"))
			return 0;
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		if (S_ISDIR(mode) && mkdir(path, 0755))
			return -1;
		if (S_ISREG(mode) && copy_out(in, path, size, mode & 0777))
			return -1;
	}
	errno = EINVAL; /* no trailer */
	return -1;
}

int bench_unpack(const char *initrd, char *dir)
{
	const char *tmp = getenv("TMPDIR");
	FILE *in = fopen(initrd, "rb");
	int r = -1;

	snprintf(dir, PATH_MAX, "%s/locum-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (in && mkdtemp(dir)) {
		r = unpack(in, dir);
		if (r)
			bench_unpack_end(dir);
	}
	if (r)
		fprintf(stderr, "locum bench: %s to %s: %s\n", initrd, dir, strerror(errno));
	if (in)
		fclose(in);
	return r ? EXIT_USAGE : 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void bench_unpack_end(const char *dir)
{
	int saved = errno;

	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	errno = saved;
}
