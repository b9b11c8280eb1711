# SPDX-License-Identifier: MIT
# Called while vector registers are the guest's.
CFLAGS_calls := -mgeneral-regs-only
CFLAGS_jumps := -mgeneral-regs-only
CFLAGS_fpregs := -mgeneral-regs-only
