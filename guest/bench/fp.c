/* SPDX-License-Identifier: MIT */
/* Scalar floating point.  No library function whose last bit differs by machine. */
#include <string.h>

#include "work.h"

static u64 bits(double v)
{
	u64 u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

/* --- a system of 64 equations by elimination with pivots --------------------------------- */

#define N 64

static void eliminate(double a[N][N], double b[N])
{
	for (int k = 0; k < N; k++) {
		int p = k;

		for (int i = k + 1; i < N; i++)
			if (__builtin_fabs(a[i][k]) > __builtin_fabs(a[p][k]))
				p = i;
		if (p != k) {
			double row[N], t = b[k];

			memcpy(row, a[k], sizeof(row));
			memcpy(a[k], a[p], sizeof(row));
			memcpy(a[p], row, sizeof(row));
			b[k] = b[p];
			b[p] = t;
		}
		for (int i = k + 1; i < N; i++) {
			double f = a[i][k] / a[k][k];

			for (int m = k; m < N; m++)
				a[i][m] -= f * a[k][m];
			b[i] -= f * b[k];
		}
	}
}

u64 linpack(unsigned long n)
{
	static double a[N][N], b[N];
	u64 x = 1, sum = 0;

	while (n--) {
		for (int i = 0; i < N; i++) {
			for (int k = 0; k < N; k++)
				a[i][k] = (double)(random64(&x) >> 40) - 8388608.0;
			b[i] = (double)i;
		}
		eliminate(a, b);
		for (int i = N - 1; i >= 0; i--) {
			for (int k = i + 1; k < N; k++)
				b[i] -= a[i][k] * b[k];
			b[i] /= a[i][i];
		}
		sum = fold(sum, bits(b[0]) ^ bits(b[N - 1]));
	}
	return sum;
}

/* --- five bodies that attract each other ---------------------------------------------- */

struct body {
	double at[3], speed[3], mass;
};

static void nbody_step(struct body *body, double dt)
{
	for (int i = 0; i < 5; i++)
		for (int k = i + 1; k < 5; k++) {
			double d[3], square = 0, f;

			for (int c = 0; c < 3; c++) {
				d[c] = body[i].at[c] - body[k].at[c];
				square += d[c] * d[c];
			}
			f = dt / (square * __builtin_sqrt(square));
			for (int c = 0; c < 3; c++) {
				body[i].speed[c] -= d[c] * body[k].mass * f;
				body[k].speed[c] += d[c] * body[i].mass * f;
			}
		}
	for (int i = 0; i < 5; i++)
		for (int c = 0; c < 3; c++)
			body[i].at[c] += dt * body[i].speed[c];
}

u64 nbody(unsigned long n)
{
	struct body body[5];
	u64 sum = 0;

	for (int i = 0; i < 5; i++)
		body[i] = (struct body){ { 3.0 * i, 1.7 * i * i - 2, 0.3 - i },
					 { 0.1 * i, 0.2 - 0.05 * i, 0.01 * i * i },
					 i ? 0.1 / i : 40.0 };
	while (n--)
		nbody_step(body, 0.001);
	for (int i = 0; i < 5; i++)
		for (int c = 0; c < 3; c++)
			sum = fold(sum, bits(body[i].at[c]));
	return sum;
}

/* --- 80-bit floating point: polynomials and Newton's square root -------------------------- */

u64 x87(unsigned long n)
{
	long double sum = 0;
	u64 mantissa;

	for (unsigned long i = 0; i < n; i++) {
		long double v = (long double)(i % 1000 + 2), root = v, p = 0;

		for (int k = 0; k < 12; k++)
			root = 0.5L * (root + v / root);
		for (int k = 0; k < 24; k++)
			p = p * 0.37L + root;
		sum = sum * 0.5L + p;
	}
	memcpy(&mantissa, &sum, sizeof(mantissa));
	return mantissa;
}
