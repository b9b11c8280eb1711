/* SPDX-License-Identifier: MIT */
/* kvmtool's test of the host: found by name in an ELF file, recognized by its
 * instructions, and nothing else taken for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "shim/hosttest.h"
#include "shim/symbol.h"

/* Code between two labels of one asm block, as bytes. */
#define CODE(name, text)                                                       \
	__asm__(".section .rodata\n" #name "_start:\n" text "\n" #name         \
		"_end:\n.previous\n");                                         \
	extern const u8 name##_start[], name##_end[]

#define ASK                                                                    \
	"xor %eax, %eax\n cpuid\n cmp $0x756e6547, %ebx\n je 1f\n"             \
	"cmp $0x68747541, %ebx\n jne 3f\n mov $0x80000001, %eax\n cpuid\n"     \
	"shr $2, %ecx\n jmp 2f\n 1: mov $1, %eax\n cpuid\n shr $5, %ecx\n"     \
	"2: mov %ecx, %eax\n and $1, %eax\n pop %rbx\n ret\n"                  \
	"3: xor %eax, %eax\n pop %rbx\n ret"

CODE(plain, "push %rbx\n" ASK);
CODE(endbr, "endbr64\n push %rbx\n" ASK);
CODE(stack, "push %rbx\n movl $0, -4(%rsp)\n" ASK);
CODE(padded, "push %rbx\n" ASK "\n nopw 0x0(%rax,%rax,1)");
CODE(calls, "push %rbx\n call .+9\n" ASK);
CODE(jumps_out, "push %rbx\n jmp .+500\n" ASK);
CODE(stores, "push %rbx\n mov %eax, 0x1000(%rip)\n" ASK);
CODE(system_call, "push %rbx\n syscall\n" ASK);
CODE(indirect, "push %rbx\n jmp *%rax\n" ASK);
CODE(garbage, "push %rbx\n .byte 0x06\n" ASK);
CODE(cut, "push %rbx\n" ASK "\n .byte 0x0f");
CODE(one_maker, "push %rbx\n xor %eax, %eax\n cpuid\n cmp $0x756e6547, %ebx\n pop %rbx\n ret");
CODE(no_cpuid, "cmp $0x756e6547, %ebx\n je 1f\n cmp $0x68747541, %ebx\n 1: ret");
CODE(no_return, "1: cpuid\n cmp $0x756e6547, %ebx\n cmp $0x68747541, %ebx\n jmp 1b");

static const struct {
	const char *name;
	const u8 *start, *end;
	int place; /* where the answer goes; -1: not recognized */
} shapes[] = {
	{ "as compiled", plain_start, plain_end, 0 },
	{ "with ENDBR64", endbr_start, endbr_end, 4 },
	{ "with locals on the stack", stack_start, stack_end, 0 },
	{ "with a long NOP behind", padded_start, padded_end, 0 },
	{ "with a call", calls_start, calls_end, -1 },
	{ "with a jump out of it", jumps_out_start, jumps_out_end, -1 },
	{ "with a store elsewhere", stores_start, stores_end, -1 },
	{ "with a system call", system_call_start, system_call_end, -1 },
	{ "with an indirect jump", indirect_start, indirect_end, -1 },
	{ "with an invalid byte", garbage_start, garbage_end, -1 },
	{ "cut off", cut_start, cut_end, -1 },
	{ "one maker alone", one_maker_start, one_maker_end, -1 },
	{ "without CPUID", no_cpuid_start, no_cpuid_end, -1 },
	{ "without return", no_return_start, no_return_end, -1 },
};

static void shapes_are_told_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		size_t n = (size_t)(shapes[i].end - shapes[i].start);
		const u8 *p = hosttest_recognize(shapes[i].start, n);

		if (p != (shapes[i].place < 0 ? NULL : shapes[i].start + shapes[i].place))
			fail_msg("%s: %s", shapes[i].name, p ? "recognized" : "not recognized");
	}
	assert_null(hosttest_recognize(plain_start, 0));
	assert_null(hosttest_recognize(plain_start, 5));
}

/* --- a small ELF file ------------------------------------------------------------ */

#define ADDRESS 0x401000

struct file {
	Elf64_Ehdr e;
	Elf64_Phdr p[2];
	u8 code[256];
	char strings[64];
	Elf64_Sym sym[4];
	Elf64_Shdr s[3]; /* none, .symtab, .strtab */
};

static void make_file(struct file *f)
{
	size_t n = (size_t)(plain_end - plain_start);

	memset(f, 0, sizeof(*f));
	memcpy(f->e.e_ident, ELFMAG, SELFMAG);
	f->e.e_ident[EI_CLASS] = ELFCLASS64;
	f->e.e_machine = EM_X86_64;
	f->e.e_phoff = offsetof(struct file, p);
	f->e.e_phentsize = sizeof(f->p[0]);
	f->e.e_phnum = 2;
	f->e.e_shoff = offsetof(struct file, s);
	f->e.e_shentsize = sizeof(f->s[0]);
	f->e.e_shnum = 3;
	f->p[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = 0x400000,
				.p_filesz = 64, .p_memsz = 64 };
	f->p[1] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = ADDRESS,
				.p_offset = offsetof(struct file, code),
				.p_filesz = sizeof(f->code), .p_memsz = sizeof(f->code) };
	memcpy(f->code + 16, plain_start, n);
	memcpy(f->strings, "\0main\0" HOSTTEST_FUNCTION, 6 + sizeof(HOSTTEST_FUNCTION));
	f->sym[1] = (Elf64_Sym){ .st_name = 1, .st_value = ADDRESS, .st_size = 16,
				 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) };
	f->sym[2] = (Elf64_Sym){ .st_name = 6, .st_value = 0x123,
				 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE) };
	f->sym[3] = (Elf64_Sym){ .st_name = 6, .st_value = ADDRESS + 16, .st_size = n,
				 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) };
	f->s[1] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB, .sh_link = 2,
				.sh_offset = offsetof(struct file, sym),
				.sh_size = sizeof(f->sym) };
	f->s[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct file, strings),
				.sh_size = sizeof(f->strings) };
}

static bool find(const struct file *f, size_t size, struct symbol *sym)
{
	return symbol_find((const u8 *)f, size, HOSTTEST_FUNCTION, sym);
}

static void the_function_is_found_by_name(void **state)
{
	struct symbol sym;
	struct file f;

	(void)state;
	make_file(&f);
	assert_true(find(&f, sizeof(f), &sym));
	assert_int_equal(sym.address, ADDRESS + 16);
	assert_ptr_equal(sym.code, f.code + 16);
	assert_ptr_equal(hosttest_recognize(sym.code, sym.size), f.code + 16);
}

static void files_without_it_have_none(void **state)
{
	struct symbol sym;
	struct file f;

	(void)state;
	make_file(&f);
	f.strings[8] = 'X';
	assert_false(find(&f, sizeof(f), &sym));
	make_file(&f);
	f.e.e_shnum = 0; /* stripped */
	assert_false(find(&f, sizeof(f), &sym));
	make_file(&f);
	f.sym[3].st_size = 4096; /* more than the segment has */
	assert_false(find(&f, sizeof(f), &sym));
	make_file(&f);
	f.p[1].p_flags = PF_R; /* data */
	assert_false(find(&f, sizeof(f), &sym));
	make_file(&f);
	f.p[1].p_filesz = 1ull << 40;
	f.sym[3].st_size = 1ull << 39;
	assert_false(find(&f, sizeof(f), &sym));
	make_file(&f);
	f.strings[63] = 'x'; /* no end: not compared beyond the table */
	f.sym[3].st_name = 60;
	assert_false(find(&f, sizeof(f), &sym));
	make_file(&f);
	f.s[1].sh_link = 77;
	assert_false(find(&f, sizeof(f), &sym));
}

/* Cut off and damaged at random: no answer outside the file. */
static void damaged_files_do_no_harm(void **state)
{
	struct file f, *copy;
	struct symbol sym;

	(void)state;
	make_file(&f);
	srand(1);
	for (int i = 0; i < 200000; i++) {
		size_t size = rand() % 4 ? sizeof(f) : (size_t)rand() % sizeof(f) + 1;

		copy = malloc(size); /* of this very size: the sanitizer watches */
		memcpy(copy, &f, size);
		for (int k = rand() % 4; k; k--)
			((u8 *)copy)[(size_t)rand() % size] ^= (u8)(1 << rand() % 8);
		if (find(copy, size, &sym)) {
			assert_true(sym.code >= (u8 *)copy && sym.code <= (u8 *)copy + size);
			assert_true(sym.size <= (u64)((u8 *)copy + size - sym.code));
			hosttest_recognize(sym.code, sym.size);
		}
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes_are_told_apart),
		cmocka_unit_test(the_function_is_found_by_name),
		cmocka_unit_test(files_without_it_have_none),
		cmocka_unit_test(damaged_files_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
