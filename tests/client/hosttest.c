/* SPDX-License-Identifier: MIT */
/*
 * A client that, like kvmtool, asks the host's own CPUID for VMX or SVM before
 * it opens /dev/kvm, in a function of kvmtool's name.
 */
#include "client.h"

#include <cpuid.h>

bool kvm__arch_cpu_supports_vm(void);

__attribute__((noinline)) bool kvm__arch_cpu_supports_vm(void)
{
	unsigned a, b, c, d, base, bit;

	__cpuid(0, a, b, c, d);
	switch (b) {
	case 0x756e6547:
		base = 0;
		bit = 5;
		break;
	case 0x68747541:
		base = 0x80000000;
		bit = 2;
		break;
	default:
		return false;
	}
	__cpuid(base, a, b, c, d);
	if (a < base + 1)
		return false;
	__cpuid(base + 1, a, b, c, d);
	return c >> bit & 1;
}

int main(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	CHECK(kvm__arch_cpu_supports_vm());
	/* The page that was written is executable and not writable again. */
	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end;
		char access[8];

		CHECK(sscanf(line, "%lx-%lx %7s", &start, &end, access) == 3);
		if ((uintptr_t)kvm__arch_cpu_supports_vm - start < end - start)
			CHECK(!strcmp(access, "r-xp"));
	}
	fclose(f);
	return 0;
}
