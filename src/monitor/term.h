/* SPDX-License-Identifier: MIT */
/* The terminal of the console: raw while the guest runs, restored always. */
#ifndef LOCUM_MONITOR_TERM_H
#define LOCUM_MONITOR_TERM_H

#include "base/types.h"

/** term_guard() - from now on signals that end the process restore the terminal
 * first.  To be called before the backend is opened: liblocum puts its own
 * handlers for SIGSEGV and SIGBUS in front and passes on what is not its. */
void term_guard(void);
/** term_raw() - put standard input into raw mode, if it is a terminal */
void term_raw(void);
/** term_restore() - idempotent, async-signal-safe */
void term_restore(void);
bool term_is_raw(void);

#endif
