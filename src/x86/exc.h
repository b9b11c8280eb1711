/* SPDX-License-Identifier: MIT */
/* Exception vectors and error-code bits (SDM Vol. 3A "Exception and Interrupt
 * Reference"). */
#ifndef LOCUM_X86_EXC_H
#define LOCUM_X86_EXC_H

#include "base/bits.h"

enum exc_vector {
	EXC_DE = 0, EXC_DB = 1, EXC_NMI = 2, EXC_BP = 3, EXC_OF = 4, EXC_BR = 5, EXC_UD = 6,
	EXC_NM = 7, EXC_DF = 8, EXC_TS = 10, EXC_NP = 11, EXC_SS = 12, EXC_GP = 13,
	EXC_PF = 14, EXC_MF = 16, EXC_AC = 17, EXC_MC = 18, EXC_XM = 19,
};

/* #PF error code */
#define PF_P  BIT(0)
#define PF_W  BIT(1)
#define PF_U  BIT(2)
#define PF_RSVD BIT(3)
#define PF_I  BIT(4)

/* Selector error codes */
#define ERR_EXT BIT(0)
#define ERR_IDT BIT(1)
#define ERR_TI	BIT(2)

/**
 * struct fault - a guest fault that was found and not yet delivered
 * @vector:    enum exc_vector
 * @has_error: an error code is pushed
 * @error:     the error code
 * @dr6:       #DB only: the bits that DR6 gains
 * @cr2:       #PF only: the linear address
 */
struct fault {
	u8 vector;
	bool has_error;
	u32 error;
	u32 dr6;
	u64 cr2;
};

#endif
