/* SPDX-License-Identifier: MIT */
/* Integer code: loops, sorting, hashing, recursion, calls through pointers. */
#include <string.h>

#include "work.h"

/* --- primes below 2^18 ---------------------------------------------------------- */

u64 sieve(unsigned long n)
{
	static u8 flag[1 << 18];
	u64 sum = 0;

	while (n--) {
		memset(flag, 1, sizeof(flag));
		for (u32 i = 2; i * i < sizeof(flag); i++)
			if (flag[i])
				for (u32 k = i * i; k < sizeof(flag); k += i)
					flag[k] = 0;
		for (u32 i = 2; i < sizeof(flag); i++)
			sum += flag[i];
		sum = fold(sum, n);
	}
	return sum;
}

/* --- quicksort of 4096 words ------------------------------------------------------ */

static void insertion(u32 *a, long n)
{
	for (long i = 1; i < n; i++) {
		u32 v = a[i];
		long k = i;

		for (; k > 0 && a[k - 1] > v; k--)
			a[k] = a[k - 1];
		a[k] = v;
	}
}

static void quicksort(u32 *a, long n)
{
	while (n > 12) {
		u32 pivot = a[n / 2];
		long i = 0, k = n - 1;

		while (i <= k) {
			while (a[i] < pivot)
				i++;
			while (a[k] > pivot)
				k--;
			if (i <= k) {
				u32 t = a[i];

				a[i++] = a[k];
				a[k--] = t;
			}
		}
		quicksort(a, k + 1);
		a += i;
		n -= i;
	}
	insertion(a, n);
}

u64 sort(unsigned long n)
{
	static u32 a[4096];
	u64 x = 88172645463325252ull, sum = 0;

	while (n--) {
		for (unsigned i = 0; i < 4096; i++)
			a[i] = (u32)random64(&x);
		quicksort(a, 4096);
		for (unsigned i = 0; i < 4096; i += 64)
			sum = fold(sum, a[i]);
		for (unsigned i = 1; i < 4096; i++)
			if (a[i - 1] > a[i])
				fail("not sorted");
	}
	return sum;
}

/* --- SHA-256 of 4 KiB (FIPS 180-4) ------------------------------------------------- */

static u32 sha_k[64];

/* The first 32 bits of the fractional part of the cube root of @prime: the
 * largest r with r^3 <= prime * 2^96, modulo 2^32. */
static u32 cube_root_bits(u32 prime)
{
	unsigned __int128 target = (unsigned __int128)prime << 96;
	u64 r = 0;

	for (int bit = 34; bit >= 0; bit--) {
		u64 t = r | 1ull << bit;

		if ((unsigned __int128)t * t * t <= target)
			r = t;
	}
	return (u32)r;
}

static void sha_init(void)
{
	unsigned n = 0;

	for (u32 p = 2; n < 64; p++) {
		u32 d = 2;

		while (d * d <= p && p % d)
			d++;
		if (d * d > p)
			sha_k[n++] = cube_root_bits(p);
	}
}

static u32 ror(u32 v, int by)
{
	return v >> by | v << (32 - by);
}

static void sha_block(u32 h[8], const u32 block[16])
{
	u32 w[64], s[8];

	memcpy(w, block, 64);
	for (int i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		       (ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(s, h, sizeof(s));
	for (int i = 0; i < 64; i++) {
		u32 t1 = s[7] + (ror(s[4], 6) ^ ror(s[4], 11) ^ ror(s[4], 25)) +
			 ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha_k[i] + w[i];
		u32 t2 = (ror(s[0], 2) ^ ror(s[0], 13) ^ ror(s[0], 22)) +
			 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += t1;
		s[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		h[i] += s[i];
}

u64 sha256(unsigned long n)
{
	static u32 data[1024];
	u32 h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	u64 x = 1;

	if (!sha_k[0])
		sha_init();
	for (unsigned i = 0; i < 1024; i++)
		data[i] = (u32)random64(&x);
	while (n--)
		for (unsigned i = 0; i < 1024; i += 16)
			sha_block(h, data + i);
	return (u64)h[0] << 32 | h[7];
}

/* --- linked list, matrix and CRC in turn --------------------------------------------- */

struct node {
	struct node *next;
	u32 key, value;
};

static u32 crc_step(u32 crc, u32 v)
{
	for (int bit = 0; bit < 16; bit++, v >>= 1)
		crc = (crc ^ v) & 1 ? crc >> 1 ^ 0xa001 : crc >> 1;
	return crc;
}

static struct node *reverse(struct node *list)
{
	struct node *done = NULL;

	while (list) {
		struct node *next = list->next;

		list->next = done;
		done = list;
		list = next;
	}
	return done;
}

static u32 list_part(u32 seed)
{
	static struct node nodes[64];
	struct node *list = NULL;
	u32 found = 0;

	for (u32 i = 0; i < 64; i++) {
		nodes[i] = (struct node){ list, (i * 37 + seed) % 64, i };
		list = &nodes[i];
	}
	list = reverse(list);
	for (u32 key = seed % 8; key < 64; key += 8)
		for (struct node *p = list; p; p = p->next)
			if (p->key == key) {
				found = found * 5 + p->value;
				break;
			}
	return found;
}

static u32 matrix_part(u32 seed)
{
	static short a[12][12], b[12][12];
	static int c[12][12];
	u32 sum = 0;

	for (int i = 0; i < 12; i++)
		for (int k = 0; k < 12; k++) {
			a[i][k] = (short)(seed + (u32)(i * k));
			b[i][k] = (short)(seed ^ (u32)(i - k));
		}
	for (int i = 0; i < 12; i++)
		for (int k = 0; k < 12; k++) {
			c[i][k] = 0;
			for (int m = 0; m < 12; m++)
				c[i][k] += a[i][m] * b[m][k] >> 2;
			sum += (u32)c[i][k];
		}
	return sum;
}

u64 mix(unsigned long n)
{
	u32 crc = 0xffff;
	u64 sum = 0;

	while (n--) {
		u32 v = list_part(crc) ^ matrix_part(crc);

		for (int i = 0; i < 16; i++)
			crc = crc_step(crc, v + (u32)i);
		sum = fold(sum, crc);
	}
	return sum;
}

/* --- calls -------------------------------------------------------------------------- */

static __attribute__((noinline)) u64 fib_of(u64 n)
{
	u64 a, b;

	if (n < 2)
		return n;
	a = fib_of(n - 1);
	__asm__("" : "+r"(a)); /* keeps both calls as they are written */
	b = fib_of(n - 2);
	__asm__("" : "+r"(b));
	return a + b;
}

u64 fib(unsigned long n)
{
	u64 sum = 0;

	while (n--)
		sum = fold(sum, fib_of(16 + (n & 1)));
	return sum;
}

#define STEP(name, expression)                                       \
	static __attribute__((noinline)) u64 name(u64 a, u64 b) \
	{                                                            \
		return expression;                                   \
	}
STEP(step_add, a + b)
STEP(step_sub, a - b)
STEP(step_xor, a ^ b)
STEP(step_mul, a *b)
STEP(step_shift, a << 7 | b >> 57)
STEP(step_and, (a & b) + 1)
STEP(step_or, a | b)
STEP(step_swap, __builtin_bswap64(a) - b)

u64 fnptr(unsigned long n)
{
	static u64 (*volatile const table[8])(u64, u64) = {
		step_add, step_sub, step_xor, step_mul, step_shift, step_and, step_or, step_swap,
	};
	u64 a = 1, x = 12345;

	for (unsigned long i = 0; i < n; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		a = table[x >> 61](a, x);
	}
	return a;
}
