/* SPDX-License-Identifier: MIT */
/* `locum exec`: an unmodified client with the library preloaded. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/cli.h"

static int refuse(const char *program, const char *why)
{
	fprintf(stderr, "locum exec: %s: %s\n", program, why);
	return EXIT_USAGE;
}

/* As execvp(3) would find it. */
static bool find_program(const char *name, char *path, size_t size)
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/')) {
		snprintf(path, size, "%s", name);
		return !access(path, X_OK);
	}
	while (dirs && *dirs) {
		size_t len = strcspn(dirs, ":");

		snprintf(path, size, "%.*s/%s", (int)len, dirs, name);
		if (!access(path, X_OK))
			return true;
		dirs += len + (dirs[len] == ':');
	}
	return false;
}

static bool has_interpreter(int fd, const Elf64_Ehdr *e)
{
	for (unsigned i = 0; i < e->e_phnum; i++) {
		Elf64_Phdr p;

		if (pread(fd, &p, sizeof(p), (off_t)(e->e_phoff + (u64)i * e->e_phentsize)) !=
		    sizeof(p))
			return false;
		if (p.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* What makes the loader run in secure mode, without preloaded libraries. */
static bool gains_rights(int fd, const struct stat *st)
{
	if ((st->st_mode & S_ISUID) && st->st_uid != getuid())
		return true;
	if ((st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st->st_gid != getgid())
		return true;
	return getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

static int check_elf(const char *program, int fd, const Elf64_Ehdr *e, const struct stat *st)
{
	if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_machine != EM_X86_64)
		return refuse(program, "not a 64-bit x86 program: no library can be loaded into it");
	if (gains_rights(fd, st))
		return refuse(program, "setuid, setgid or with capabilities: the loader takes no "
				       "library for it");
	if (!has_interpreter(fd, e))
		return refuse(program, "statically linked: no library can be loaded into it");
	return 0;
}

/* The interpreter that "#!interpreter argument" names, in place. */
static void interpreter_of(char *line, char *path, size_t size)
{
	const char *start = line + 2 + strspn(line + 2, " \t");

	snprintf(path, size, "%.*s", (int)strcspn(start, " \t\n"), start);
}

/* Programs that a preloaded library cannot serve are named as such.  Of a
 * script, the interpreter counts; interpreters may be scripts, as the kernel
 * allows it, five deep. */
static int check_program(const char *program, const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", file);
	for (int depth = 0; depth < 6; depth++) {
		union {
			Elf64_Ehdr e;
			char text[256];
		} head = { 0 };
		struct stat st;
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), r;
		ssize_t n = fd < 0 ? -1 : pread(fd, &head, sizeof(head) - 1, 0);

		if (n < 0 || fstat(fd, &st))
			r = refuse(depth ? path : program, strerror(errno));
		else if (!strncmp(head.text, "#!", 2))
			r = -1;
		else if (n < (ssize_t)sizeof(head.e) || memcmp(head.e.e_ident, ELFMAG, SELFMAG))
			r = refuse(program, "neither an ELF program nor a script");
		else
			r = check_elf(program, fd, &head.e, &st);
		if (fd >= 0)
			close(fd);
		if (r >= 0)
			return r;
		interpreter_of(head.text, path, sizeof(path));
	}
	return refuse(program, "its interpreters are scripts without end");
}

/* Put @value into the variable @name, before (@first) or after what it has. */
static void add_to_environment(const char *name, const char *value, char sep, bool first)
{
	const char *old = getenv(name);
	char *all;

	if (!old || !*old) {
		setenv(name, value, 1);
		return;
	}
	if (asprintf(&all, "%s%c%s", first ? value : old, sep, first ? old : value) < 0)
		return;
	setenv(name, all, 1);
	free(all);
}

int cmd_exec(int argc, char **argv)
{
	char path[PATH_MAX];
	const char *lib = self_path("liblocum.so");
	int i, r;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--set") && i + 1 < argc) {
			r = apply_settings("exec", argv[++i]);
			if (r)
				return r;
			add_to_environment("LOCUM_SET", argv[i], ',', false);
		} else if (!strcmp(argv[i], "--stats") && i + 1 < argc) {
			setenv("LOCUM_STATS", argv[++i], 1);
		} else if (argv[i][0] == '-') {
			return usage_error("exec", "unknown or incomplete option '%s'", argv[i]);
		} else {
			break;
		}
	}
	if (i < argc && !strcmp(argv[i], "--"))
		i++;
	if (i >= argc)
		return usage_error("exec", "no program given");
	if (!lib)
		return refuse("liblocum.so", "not found beside locum or in ../lib");
	if (strpbrk(lib, " :\t"))
		return refuse(lib, "LD_PRELOAD takes no path with a blank or a colon in it");
	if (!find_program(argv[i], path, sizeof(path)))
		return refuse(argv[i], "no such program");
	r = check_program(argv[i], path);
	if (r)
		return r;
	add_to_environment("LD_PRELOAD", lib, ':', true);
	execv(path, argv + i);
	return refuse(argv[i], strerror(errno));
}
