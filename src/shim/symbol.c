/* SPDX-License-Identifier: MIT */
#include "shim/symbol.h"

#include <elf.h>
#include <string.h>

struct image {
	const u8 *base;
	u64 size;
};

/* @n entries of @each bytes at @offset, NULL if they are not all there. */
static const void *part(const struct image *im, u64 offset, u64 n, u64 each)
{
	if (offset > im->size || offset % 8 || n > (im->size - offset) / each)
		return NULL;
	return im->base + offset;
}

static const Elf64_Shdr *section(const struct image *im, const Elf64_Ehdr *e, unsigned i)
{
	const Elf64_Shdr *s = part(im, e->e_shoff, e->e_shnum, sizeof(*s));

	if (!s || e->e_shentsize != sizeof(*s) || i >= e->e_shnum)
		return NULL;
	return s + i;
}

/* The bytes of a function, if one executable segment has them all. */
static bool code_of(const struct image *im, const Elf64_Ehdr *e, struct symbol *out)
{
	const Elf64_Phdr *p = part(im, e->e_phoff, e->e_phnum, sizeof(*p));

	if (!p || e->e_phentsize != sizeof(*p))
		return false;
	for (unsigned i = 0; i < e->e_phnum; i++, p++) {
		u64 off = out->address - p->p_vaddr;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || off > p->p_filesz ||
		    out->size > p->p_filesz - off)
			continue;
		if (p->p_offset > im->size || p->p_filesz > im->size - p->p_offset)
			return false;
		out->code = im->base + p->p_offset + off;
		return true;
	}
	return false;
}

static bool search(const struct image *im, const Elf64_Ehdr *e, const Elf64_Shdr *table,
		   const char *name, struct symbol *out)
{
	const Elf64_Shdr *strings = section(im, e, table->sh_link);
	u64 n = table->sh_size / sizeof(Elf64_Sym), len = strlen(name) + 1;
	const Elf64_Sym *sym = part(im, table->sh_offset, n, sizeof(*sym));

	if (!sym || !strings || strings->sh_offset > im->size ||
	    strings->sh_size > im->size - strings->sh_offset)
		return false;
	for (u64 i = 0; i < n; i++, sym++) {
		if (ELF64_ST_TYPE(sym->st_info) != STT_FUNC ||
		    ELF64_ST_BIND(sym->st_info) != STB_GLOBAL || sym->st_name > strings->sh_size ||
		    len > strings->sh_size - sym->st_name ||
		    memcmp(im->base + strings->sh_offset + sym->st_name, name, len))
			continue;
		*out = (struct symbol){ .address = sym->st_value, .size = sym->st_size };
		return code_of(im, e, out);
	}
	return false;
}

bool symbol_find(const u8 *image, size_t size, const char *name, struct symbol *out)
{
	const struct image im = { image, size };
	const Elf64_Ehdr *e = part(&im, 0, 1, sizeof(*e));

	if (!e || memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_ident[EI_CLASS] != ELFCLASS64 ||
	    e->e_machine != EM_X86_64)
		return false;
	for (unsigned i = 0; i < e->e_shnum; i++) {
		const Elf64_Shdr *s = section(&im, e, i);

		if (!s)
			return false;
		if (s->sh_type == SHT_SYMTAB)
			return search(&im, e, s, name, out);
	}
	return false;
}
