/* SPDX-License-Identifier: MIT */
/* The tables as an operating system walks them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake.h"

static u64 get(const u8 *p, unsigned n)
{
	u64 v = 0;

	memcpy(&v, p, n);
	return v;
}

static void check_sum(const u8 *p, u32 n)
{
	u8 s = 0;

	for (u32 i = 0; i < n; i++)
		s += p[i];
	assert_int_equal(s, 0);
}

/* The table at @gpa, inside the area, with the right signature and sum. */
static const u8 *table(struct machine *m, u64 gpa, const char *sig)
{
	const u8 *t = m->ram + gpa;

	assert_true(gpa >= ACPI_AREA && gpa + 36 <= ACPI_AREA + ACPI_SIZE);
	assert_memory_equal(t, sig, 4);
	assert_true(gpa + get(t + 4, 4) <= ACPI_AREA + ACPI_SIZE);
	if (strcmp(sig, "FACS"))
		check_sum(t, (u32)get(t + 4, 4));
	return t;
}

static const u8 *find(struct machine *m, u64 rsdp, const char *sig)
{
	const u8 *r = m->ram + rsdp, *x;

	assert_int_equal(rsdp & 15, 0);
	assert_memory_equal(r, "RSD PTR ", 8);
	check_sum(r, 20);
	assert_int_equal(r[15], 2);
	assert_int_equal(get(r + 20, 4), 36);
	check_sum(r, 36);
	x = table(m, get(r + 24, 8), "XSDT");
	for (u32 at = 36; at < get(x + 4, 4); at += 8)
		if (!memcmp(m->ram + get(x + at, 8), sig, 4))
			return table(m, get(x + at, 8), sig);
	fail_msg("no %s in the XSDT", sig);
	return NULL;
}

static void test_fadt(void **state)
{
	struct fake *f = fake_new(4, 2);
	const u8 *t = find(&f->m, acpi_build(&f->m), "FACP");

	(void)state;
	assert_int_equal(get(t + 4, 4), 276);
	assert_int_equal(t[8], 6);
	table(&f->m, get(t + 36, 4), "FACS");
	table(&f->m, get(t + 40, 4), "DSDT");
	assert_int_equal(get(t + 132, 8), get(t + 36, 4)); /* X_FIRMWARE_CTRL */
	assert_int_equal(get(t + 140, 8), get(t + 40, 4)); /* X_DSDT */
	assert_int_equal(get(t + 46, 2), 9);		   /* SCI */
	assert_int_equal(get(t + 48, 4), 0);		   /* no SMI command: ACPI is on */
	assert_int_equal(get(t + 56, 4), 0x600);
	assert_int_equal(get(t + 64, 4), 0x604);
	assert_int_equal(get(t + 76, 4), 0x608);
	assert_int_equal(t[88], 4);
	assert_int_equal(t[89], 2);
	assert_int_equal(t[91], 4);
	assert_true(get(t + 112, 4) & 1 << 10); /* reset register */
	assert_false(get(t + 112, 4) & 1 << 20); /* not hardware-reduced */
	assert_int_equal(t[116], 1);
	assert_int_equal(get(t + 120, 8), 0xcf9);
	assert_int_equal(t[128], 6);
	fake_free(f);
}

static void test_madt(void **state)
{
	static const unsigned counts[] = { 1, 2, 63, 64 };

	(void)state;
	for (unsigned c = 0; c < ARRAY_SIZE(counts); c++) {
		struct fake *f = fake_new(4, counts[c]);
		const u8 *t = find(&f->m, acpi_build(&f->m), "APIC");
		unsigned cpus = 0, ioapics = 0, overrides = 0, nmis = 0;

		assert_int_equal(get(t + 36, 4), 0xfee00000);
		assert_int_equal(get(t + 40, 4), 1); /* with 8259s */
		for (u32 at = 44; at < get(t + 4, 4); at += t[at + 1]) {
			assert_true(t[at + 1] >= 6 && at + t[at + 1] <= get(t + 4, 4));
			switch (t[at]) {
			case 0:
				assert_int_equal(t[at + 3], cpus++);
				assert_int_equal(get(t + at + 4, 4), 1);
				break;
			case 1:
				assert_int_equal(get(t + at + 4, 4), 0xfec00000);
				assert_int_equal(get(t + at + 8, 4), 0);
				ioapics++;
				break;
			case 2:
				if (t[at + 3] == 0)
					assert_int_equal(get(t + at + 4, 4), 2);
				else
					assert_int_equal(get(t + at + 8, 2), 0xd);
				overrides++;
				break;
			case 4:
				assert_int_equal(t[at + 2], 0xff);
				assert_int_equal(t[at + 5], 1);
				nmis++;
				break;
			default: fail_msg("entry of type %u", t[at]);
			}
		}
		assert_int_equal(cpus, counts[c]);
		assert_int_equal(ioapics, 1);
		assert_int_equal(overrides, 2);
		assert_int_equal(nmis, 1);
		fake_free(f);
	}
}

/* --- AML: the grammar as far as the table uses it ------------------------- */

struct aml {
	const u8 *p, *end;
	char found[256]; /* names, in order of appearance */
};

/* PkgLength: end of the package that starts here. */
static const u8 *package_end(struct aml *a)
{
	const u8 *start = a->p;
	unsigned extra = *a->p >> 6, n = extra ? *a->p & 15 : *a->p & 63;

	a->p++;
	for (unsigned i = 0; i < extra; i++)
		n |= (unsigned)*a->p++ << (4 + 8 * i);
	assert_true(start + n <= a->end && n > extra);
	return start + n;
}

static void name(struct aml *a)
{
	if (*a->p == '\\')
		a->p++;
	assert_true(a->p + 4 <= a->end);
	strncat(a->found, (const char *)a->p, 4);
	strcat(a->found, " ");
	a->p += 4;
}

static void term(struct aml *a);

static void terms(struct aml *a, const u8 *end)
{
	const u8 *outer = a->end;

	a->end = end;
	while (a->p < end)
		term(a);
	assert_ptr_equal(a->p, end);
	a->end = outer;
}

static void term(struct aml *a)
{
	const u8 *end;

	switch (*a->p++) {
	case 0x00: case 0x01: break;	     /* Zero, One */
	case 0x0a: a->p += 1; break;	     /* byte */
	case 0x0c: a->p += 4; break;	     /* double word */
	case 0x08: name(a); term(a); break;  /* Name */
	case 0x10:			     /* Scope */
		end = package_end(a);
		name(a);
		terms(a, end);
		break;
	case 0x11: /* Buffer: its size, then bytes */
		end = package_end(a);
		assert_int_equal(*a->p, 0x0a);
		assert_int_equal(a->p[1], end - a->p - 2);
		a->p = end;
		break;
	case 0x12: { /* Package: number of elements */
		end = package_end(a);
		unsigned n = *a->p++;

		while (n--)
			term(a);
		assert_ptr_equal(a->p, end);
		break;
	}
	case 0x5b:
		assert_int_equal(*a->p++, 0x82); /* Device */
		end = package_end(a);
		name(a);
		terms(a, end);
		break;
	default: fail_msg("AML byte %#x", a->p[-1]);
	}
	assert_true(a->p <= a->end);
}

/* Resource items of _CRS: a port range and an interrupt, then the end tag. */
static void check_resources(const u8 *p)
{
	assert_int_equal(p[0], 0x47);
	assert_int_equal(get(p + 2, 2), 0x3f8);
	assert_int_equal(get(p + 4, 2), 0x3f8);
	assert_int_equal(p[7], 8);
	assert_int_equal(p[8], 0x22);
	assert_int_equal(get(p + 9, 2), 1 << 4);
	assert_int_equal(p[11], 0x79);
}

static void test_dsdt(void **state)
{
	struct fake *f = fake_new(4, 1);
	const u8 *fadt = find(&f->m, acpi_build(&f->m), "FACP");
	const u8 *t = table(&f->m, get(fadt + 40, 4), "DSDT"), *crs;
	u32 n = (u32)get(t + 4, 4);
	struct aml a = { .p = t + 36, .end = t + n };

	(void)state;
	terms(&a, t + n);
	assert_string_equal(a.found, "_S5_ _SB_ COM1 _HID _UID _CRS ");
	assert_int_equal(t[8], 2); /* integers of 64 bits */
	crs = memmem(t, n, "_CRS\x11", 5);
	assert_non_null(crs);
	check_resources(crs + 8);
	/* _HID is PNP0501, compressed. */
	assert_non_null(memmem(t, n, "_HID\x0c\x41\xd0\x05\x01", 9));
	fake_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fadt),
		cmocka_unit_test(test_madt),
		cmocka_unit_test(test_dsdt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
