/* SPDX-License-Identifier: MIT */
/*
 * AVX2, FMA, F16C, AES, SSE4.2, x87 and MMX in several processes at once, with signals in
 * between: registers must survive every switch.  Prints one line a process; the
 * same program on another machine prints the same lines.
 *
 * vec: exits with 0, or 77 and a reason if the processor lacks the instructions.
 * As process 1 it powers the machine off.
 */
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 5
#define TARGET	__attribute__((target("avx2,fma,f16c,aes,pclmul,sse4.2")))

/* Leaves nothing in the registers that was there. */
TARGET static void on_signal(int sig)
{
	(void)sig;
	__m256 v = _mm256_set1_ps((float)rand());

	__asm__ volatile("vmovups %0, %%ymm0\n\tvmovups %0, %%ymm7\n\tvmovups %0, %%ymm15"
			 :
			 : "x"(v)
			 : "xmm0", "xmm7", "xmm15");
	__asm__ volatile("fninit\n\tfldpi\n\tfldl2e\n\tfdivp\n\tmovq %%mm0, %%mm7\n\t"
			 "psubb %%mm7, %%mm3"
			 :
			 :
			 : "memory");
}

TARGET static uint64_t fold(__m256i v)
{
	uint64_t q[4], h = 0;

	_mm256_storeu_si256((__m256i *)q, v);
	for (unsigned k = 0; k < 4; k++)
		h = _mm_crc32_u64(h, q[k]) ^ h << 23 ^ q[k] * 0x9e3779b97f4a7c15ull;
	return h;
}

/* The values stay in registers from round to round. */
TARGET static uint64_t work(unsigned seed, unsigned rounds)
{
	static int table[1024];
	__m256 f = _mm256_set1_ps(1.0f + (float)seed), step = _mm256_set1_ps(0.999f);
	__m256i n = _mm256_set1_epi32((int)(seed * 2654435761u)), mask;
	__m128i key = _mm_set1_epi32((int)seed), block = _mm_set1_epi8((char)seed);

	for (int k = 0; k < 1024; k++)
		table[k] = k * 40503 ^ (int)seed;
	for (unsigned r = 0; r < rounds; r++) {
		f = _mm256_fmadd_ps(f, step, _mm256_cvtepi32_ps(_mm256_srli_epi32(n, 24)));
		f = _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_sqrt_ps(f), 0));
		mask = _mm256_cmpgt_epi32(n, _mm256_set1_epi32((int)r << 12));
		n = _mm256_add_epi32(n, _mm256_mask_i32gather_epi32(
						n, table, _mm256_and_si256(n, _mm256_set1_epi32(1023)),
						mask, 4));
		n = _mm256_xor_si256(n, _mm256_castps_si256(f));
		block = _mm_aesenc_si128(block, key);
		key = _mm_clmulepi64_si128(key, block, 0x10);
		key = _mm_xor_si128(key, _mm256_castsi256_si128(n));
		n = _mm256_inserti128_si256(n, block, 1);
	}
	return fold(n) ^ fold(_mm256_castps_si256(f)) ^ fold(_mm256_castsi128_si256(key));
}

/* x87 and then MMX registers over many rounds; the rounding mode changes, too. */
static uint64_t work_x87(unsigned seed, unsigned rounds)
{
	static const uint16_t control[2] = { 0x037f, 0x0b7f };
	uint64_t mantissa, sum = seed * 0x0123456789abcdefull;
	long double v = seed;

	for (unsigned r = 0; r < rounds; r++) {
		__asm__ volatile("fldcw %0" : : "m"(control[r & 1]));
		v = v * 0.9999L + 1 / (v + (long double)(r & 1023));
	}
	memcpy(&mantissa, &v, 8);
	__asm__ volatile("fldcw %2\n\t"
			 "movq %0, %%mm0\n\tmovq %0, %%mm5\n"
			 "1:\tpaddw %%mm5, %%mm0\n\tpmaddwd %%mm0, %%mm5\n\tpsrlw $3, %%mm5\n\t"
			 "pxor %%mm0, %%mm5\n\tdec %1\n\tjnz 1b\n\t"
			 "movq %%mm5, %0\n\temms"
			 : "+m"(sum), "+r"(rounds)
			 : "m"(control[0])
			 : "cc", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
	return mantissa ^ sum;
}

static int worker(unsigned seed)
{
	struct itimerval t = { .it_interval = { .tv_usec = 700 + 100 * (int)seed },
			       .it_value = { .tv_usec = 500 } };

	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &t, NULL);
	printf("VEC %u %016llx\n", seed, (unsigned long long)work(seed, 20000));
	printf("VEC x87 %u %016llx\n", seed, (unsigned long long)work_x87(seed, 1000000));
	return fflush(stdout) ? 1 : 0;
}

int main(void)
{
	int bad = 0, status;

	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
	    !__builtin_cpu_supports("pclmul")) {
		printf("VEC no AVX2, FMA or PCLMULQDQ\n");
		bad = 77;
	}
	fflush(stdout);
	for (unsigned k = 1; k <= WORKERS && !bad; k++)
		if (fork() == 0)
			_exit(worker(k));
	while (wait(&status) > 0)
		if (status)
			bad = 1;
	printf("VEC done %d\n", bad);
	fflush(stdout);
	if (getpid() == 1)
		reboot(RB_POWER_OFF);
	return bad;
}
