/* SPDX-License-Identifier: MIT */
/* Memory: copying and filling 16 KiB, chains of dependent loads, atomic operations. */
#include <sys/mman.h>

#include "work.h"

#define BYTES 16384ul

static u8 from[BYTES] __attribute__((aligned(64))), to[BYTES] __attribute__((aligned(64)));

static u64 sum_of(const u8 *p)
{
	u64 sum = 0;

	for (unsigned long i = 0; i < BYTES; i += 8)
		sum = fold(sum, *(const u64 *)(const void *)(p + i));
	return sum;
}

static void prepare(void)
{
	u64 x = 1;

	for (unsigned long i = 0; i < BYTES; i++)
		from[i] = (u8)random64(&x);
}

u64 memcpy_sse(unsigned long n)
{
	prepare();
	while (n--) {
		const u8 *s = from;
		u8 *d = to;

		from[n % BYTES]++;
		__asm__ volatile("1:	movdqa (%0), %%xmm0\n"
				 "	movdqa 16(%0), %%xmm1\n"
				 "	movdqa 32(%0), %%xmm2\n"
				 "	movdqa 48(%0), %%xmm3\n"
				 "	movdqa %%xmm0, (%1)\n"
				 "	movdqa %%xmm1, 16(%1)\n"
				 "	movdqa %%xmm2, 32(%1)\n"
				 "	movdqa %%xmm3, 48(%1)\n"
				 "	add $64, %0\n"
				 "	add $64, %1\n"
				 "	cmp %2, %0\n"
				 "	jne 1b"
				 : "+r"(s), "+r"(d)
				 : "r"(from + BYTES)
				 : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3");
	}
	return sum_of(to);
}

u64 memcpy_rep(unsigned long n)
{
	prepare();
	while (n--) {
		const u8 *s = from;
		u8 *d = to;
		u64 count = BYTES;

		from[n % BYTES]++;
		__asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(count) : : "memory");
	}
	return sum_of(to);
}

u64 memset_sse(unsigned long n)
{
	u64 sum = 0;

	while (n--) {
		u8 *d = to;

		__asm__ volatile("	movq %2, %%xmm0\n"
				 "	punpcklqdq %%xmm0, %%xmm0\n"
				 "1:	movdqa %%xmm0, (%0)\n"
				 "	movdqa %%xmm0, 16(%0)\n"
				 "	movdqa %%xmm0, 32(%0)\n"
				 "	movdqa %%xmm0, 48(%0)\n"
				 "	add $64, %0\n"
				 "	cmp %1, %0\n"
				 "	jne 1b"
				 : "+r"(d)
				 : "r"(to + BYTES), "r"((u64)n)
				 : "memory", "cc", "xmm0");
		sum = fold(sum, to[n % BYTES]);
	}
	return sum ^ sum_of(to);
}

u64 memset_rep(unsigned long n)
{
	u64 sum = 0;

	while (n--) {
		u8 *d = to;
		u64 count = BYTES / 8;

		__asm__ volatile("rep stosq" : "+D"(d), "+c"(count) : "a"((u64)n) : "memory");
		sum = fold(sum, to[n % BYTES]);
	}
	return sum ^ sum_of(to);
}

/* --- chains of dependent loads ------------------------------------------------------------ */

/* One cycle through all 64-byte lines of @bytes in random order. */
static void **make_chain(size_t bytes)
{
	size_t lines = bytes / 64;
	char *p = pages(bytes, PROT_READ | PROT_WRITE);
	u32 *order = pages(lines * sizeof(*order), PROT_READ | PROT_WRITE);
	u64 x = 88172645463325252ull;

	for (size_t i = 0; i < lines; i++)
		order[i] = (u32)i;
	for (size_t i = lines - 1; i > 0; i--) {
		size_t k = random64(&x) % i;
		u32 t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	for (size_t i = 0; i < lines; i++)
		*(void **)(void *)(p + order[i] * 64ul) = p + order[(i + 1) % lines] * 64ul;
	munmap(order, lines * sizeof(*order));
	return (void **)(void *)p;
}

static u64 chase(unsigned long n, size_t bytes)
{
	static void **start;
	void **p;

	if (!start)
		start = make_chain(bytes);
	p = start;
	for (unsigned long i = 0; i < n; i++)
		p = *p;
	return (u64)((char *)p - (char *)start);
}

u64 chase_64k(unsigned long n)
{
	return chase(n, 64 << 10);
}

u64 chase_4m(unsigned long n)
{
	return chase(n, 4 << 20);
}

u64 chase_64m(unsigned long n)
{
	return chase(n, 64 << 20);
}

/* One of each kind is four operations. */
u64 atomics(unsigned long n)
{
	static u64 word[2];
	u64 sum = 0;

	for (unsigned long i = 0; i < n; i += 4) {
		u64 old = __atomic_fetch_add(&word[0], i, __ATOMIC_SEQ_CST);

		__atomic_compare_exchange_n(&word[1], &sum, old, 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		sum += __atomic_exchange_n(&word[1], old ^ i, __ATOMIC_SEQ_CST);
		__atomic_or_fetch(&word[0], i & 0xff, __ATOMIC_SEQ_CST);
	}
	return fold(sum, word[0]);
}
