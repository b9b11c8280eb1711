/* SPDX-License-Identifier: MIT */
/* The commands.  Each gets its own arguments (argv[0] is the command's name)
 * and returns the exit code; a mistake is one line and 2. */
#ifndef LOCUM_CLI_CLI_H
#define LOCUM_CLI_CLI_H

#include "base/types.h"

#define EXIT_USAGE 2

int cmd_run(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_caps(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_stat(int argc, char **argv);

/** usage_error() - "locum COMMAND: MESSAGE (try 'locum --help')"; returns 2 */
int usage_error(const char *command, const char *fmt, ...) printf_like(2, 3);

/** apply_settings() - --set KEY=VALUE of this process; prints a line and returns
 * 2 if it is wrong, else 0 */
int apply_settings(const char *command, const char *setting);

/** self_path() - path of the file @name of the build or of the installation that
 * this executable is of; static buffer; NULL if there is none */
const char *self_path(const char *name);

#endif
