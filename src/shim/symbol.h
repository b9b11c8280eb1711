/* SPDX-License-Identifier: MIT */
/* Finding a function in an ELF program file that may be damaged. */
#ifndef LOCUM_SHIM_SYMBOL_H
#define LOCUM_SHIM_SYMBOL_H

#include <stddef.h>

#include "base/types.h"

/** struct symbol - a function
 * @address: as the file says, before the program was moved (PIE)
 * @code:    its bytes in the file, @size of them */
struct symbol {
	u64 address;
	const u8 *code;
	u64 size;
};

/**
 * symbol_find() - look @name up in the symbol table (not the dynamic one)
 * @image: the file, @size bytes, aligned to 8; its contents need not be sane
 *
 * Finds global functions whose bytes lie in one executable segment.
 * Return: true and *@out, which points into @image.
 */
bool symbol_find(const u8 *image, size_t size, const char *name, struct symbol *out);

#endif
