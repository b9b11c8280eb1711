/* SPDX-License-Identifier: MIT */
#include "shim/hosttest.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "decode/decode.h"
#include "shim/shim.h"
#include "shim/symbol.h"

/* CPUID.0:EBX of the makers that kvmtool knows: "Genu", "Auth". */
#define INTEL 0x756e6547u
#define AMD   0x68747541u

/* What a builtin printf of kvmtool says; stripped programs still have it. */
#define COMPLAINT "Your CPU does not support hardware virtualization"

/* --- is it the function? ------------------------------------------------------ */

struct findings {
	unsigned cpuids, returns;
	bool intel, amd, other;
};

static bool on_stack(const struct insn *i)
{
	return i->index == REG_NONE && (i->base == R_RSP || i->base == R_RBP);
}

static void note_branch(struct findings *f, const struct insn *i, u64 next, u64 size)
{
	switch (i->op) {
	case OP_RET:
		f->returns++;
		return;
	case OP_JMP:
	case OP_JCC:
		if (i->opnd[0].kind == OPD_REL && next + i->imm < size)
			return;
		break;
	}
	f->other = true; /* a call, or out of the function */
}

static void note(struct findings *f, const struct insn *i, u64 next, u64 size)
{
	if (i->op == OP_CPUID) {
		f->cpuids++;
		return;
	}
	if (i->flags & INSN_BRANCH) {
		note_branch(f, i, next, size);
		return;
	}
	if ((i->flags & INSN_ENDS) ||
	    ((i->flags & INSN_MEM) && i->op != OP_NOP && i->op != OP_LEA && !on_stack(i)))
		f->other = true;
	for (unsigned k = 0; k < i->nopnd; k++)
		if (i->opnd[k].kind == OPD_IMM) {
			f->intel |= (u32)i->imm == INTEL;
			f->amd |= (u32)i->imm == AMD;
		}
}

const u8 *hosttest_recognize(const u8 *code, size_t size)
{
	static const struct decode_mode mode = { .bits = 64, .vendor = VENDOR_INTEL };
	static const u8 endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	struct findings f = { 0 };
	size_t at = 0;

	if (size < sizeof(endbr64) + HOSTTEST_PATCH || size > 1024)
		return NULL;
	while (at < size) {
		struct insn i;

		if (decode(code + at, (unsigned)MIN(size - at, INSN_MAX_LEN), &mode, &i))
			return NULL;
		at += i.len;
		note(&f, &i, at, size);
	}
	if (f.other || !f.cpuids || !f.returns || !f.intel || !f.amd)
		return NULL;
	return memcmp(code, endbr64, sizeof(endbr64)) ? code : code + sizeof(endbr64);
}

/* --- this program --------------------------------------------------------------- */

/* What kvmtool's test would find. */
static bool host_passes(void)
{
	u32 a, b, c, d, vendor;

	__cpuid(0, a, vendor, c, d);
	if (vendor == INTEL && a >= 1) {
		__cpuid(1, a, b, c, d);
		return c & BIT(5);
	}
	if (vendor != AMD)
		return false;
	__cpuid(0x80000000, a, b, c, d);
	if (a < 0x80000001)
		return false;
	__cpuid(0x80000001, a, b, c, d);
	return c & BIT(2);
}

/* The first object is the program; its address is how far it was moved. */
static int first_object(struct dl_phdr_info *info, size_t size, void *bias)
{
	(void)size;
	*(u64 *)bias = info->dlpi_addr;
	return 1;
}

static const char *patch(const struct symbol *sym)
{
	static const u8 yes[HOSTTEST_PATCH] = { 0xb8, 1, 0, 0, 0, 0xc3 };
	const u8 *place = hosttest_recognize(sym->code, sym->size);
	u64 bias = 0, start, end;
	u8 *here;

	if (!place)
		return "its test of the host's processor is not one that we know";
	dl_iterate_phdr(first_object, &bias);
	here = (u8 *)(uintptr_t)(bias + sym->address);
	if (memcmp(here, sym->code, sym->size))
		return "its code in memory is not the file's";
	here += place - sym->code;
	start = (u64)(uintptr_t)here & ~(PAGE_SIZE - 1);
	end = ALIGN_UP((u64)(uintptr_t)here + sizeof(yes), PAGE_SIZE);
	if (mprotect((void *)(uintptr_t)start, end - start, PROT_READ | PROT_WRITE))
		return "its test of the host's processor cannot be changed in memory";
	memcpy(here, yes, sizeof(yes));
	if (mprotect((void *)(uintptr_t)start, end - start, PROT_READ | PROT_EXEC))
		return "its code cannot be made executable again";
	return NULL;
}

static bool is_named_lkvm(void)
{
	const char *base = strrchr(program_invocation_name, '/');

	base = base ? base + 1 : program_invocation_name;
	return !strncmp(base, "lkvm", 4) || !strcmp(base, "kvmtool");
}

static const char *look_at(const u8 *image, size_t size)
{
	struct symbol sym;

	if (symbol_find(image, size, HOSTTEST_FUNCTION, &sym))
		return patch(&sym);
	if (is_named_lkvm() && memmem(image, size, COMPLAINT, sizeof(COMPLAINT) - 1))
		return "kvmtool without its symbols (stripped): its test of the host's "
		       "processor cannot be found";
	return NULL;
}

const char *hosttest_pass(void)
{
	const char *error = NULL;
	struct stat st;
	void *image;
	int fd;

	if (host_passes())
		return NULL;
	fd = REAL(open)("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && st.st_size > 0) {
		image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (image != MAP_FAILED) {
			error = look_at(image, (size_t)st.st_size);
			munmap(image, (size_t)st.st_size);
		}
	}
	close(fd);
	return error;
}
