/* SPDX-License-Identifier: MIT */
#include "bare.h"
	jmp start
