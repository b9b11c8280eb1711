/* SPDX-License-Identifier: MIT */
/* Code that is written while it is used. */
#include <string.h>
#include <sys/mman.h>

#include "work.h"

#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)

typedef u64 (*code_fn)(u64 v);

static code_fn entry_of(u8 *code)
{
	code_fn fn;

	memcpy(&fn, &code, sizeof(fn));
	return fn;
}

/* One operation: another immediate into an instruction, and a call of it. */
u64 smc(unsigned long n)
{
	static const u8 body[] = { 0x48, 0x8d, 0x87, 0, 0, 0, 0, 0xc3 }; /* lea rax, [rdi+imm]; ret */
	static u8 *code;
	u64 sum = 0;

	if (!code)
		code = pages(4096, RWX);
	memcpy(code, body, sizeof(body));
	while (n--) {
		u32 imm = (u32)n & 0x7fffffff;

		*(volatile u32 *)(void *)(code + 3) = imm;
		sum = entry_of(code)(sum ^ imm);
	}
	return sum;
}

/* A function of @len instructions that begins at @p; returns its end. */
static u8 *emit(u8 *p, unsigned len, u64 *x)
{
	static const u8 ops[4][3] = {
		{ 0x48, 0x01, 0xf8 }, /* add rax, rdi */
		{ 0x48, 0x31, 0xf8 }, /* xor rax, rdi */
		{ 0x48, 0xd1, 0xc0 }, /* rol rax, 1 */
		{ 0x48, 0x29, 0xf8 }, /* sub rax, rdi */
	};

	memcpy(p, "\x48\x89\xf8", 3); /* mov rax, rdi */
	p += 3;
	while (len--) {
		u64 r = random64(x);

		if (r & 4) {
			u32 imm = (u32)(r >> 32);

			memcpy(p, "\x48\x05", 2); /* add rax, imm */
			memcpy(p + 2, &imm, 4);
			p += 6;
		} else {
			memcpy(p, ops[r & 3], 3);
			p += 3;
		}
	}
	*p++ = 0xc3;
	return p;
}

/* One operation: a function of 16 instructions is written and called 8 times. */
u64 jit(unsigned long n)
{
	static u8 *code;
	u64 x = 88172645463325252ull, sum = 1;
	u8 *p;

	if (!code)
		code = pages(65536, RWX);
	p = code;
	while (n--) {
		u8 *fn = p;

		p = emit(p, 16, &x);
		for (int i = 0; i < 8; i++)
			sum = entry_of(fn)(sum);
		p = (u8 *)(((uintptr_t)p + 15) & ~15ul);
		if (p - code > 65536 - 256)
			p = code;
	}
	return sum;
}
