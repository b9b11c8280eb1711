/* SPDX-License-Identifier: MIT */
#ifndef LOCUM_MONITOR_RUN_H
#define LOCUM_MONITOR_RUN_H

#include "monitor/machine.h"

/** run_guest() - `locum run`: everything from options to exit code
 * Standard input and output are the console.  One at a time a process. */
int run_guest(const struct run_options *opt);

#endif
