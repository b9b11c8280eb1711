/* SPDX-License-Identifier: MIT */
/* `locum caps`: what is offered, asked through the API itself. */
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "monitor/backend.h"
#include "monitor/cpuflags.h"

static const struct {
	const char *name;
	unsigned long cap;
} caps[] = {
#define CAP(name) { #name, KVM_CAP_##name }
	CAP(IRQCHIP), CAP(HLT), CAP(USER_MEMORY), CAP(SET_TSS_ADDR), CAP(EXT_CPUID),
	CAP(NR_VCPUS), CAP(NR_MEMSLOTS), CAP(MP_STATE), CAP(COALESCED_MMIO), CAP(SYNC_MMU),
	CAP(DESTROY_MEMORY_REGION_WORKS), CAP(USER_NMI), CAP(SET_GUEST_DEBUG), CAP(IRQ_ROUTING),
	CAP(IRQ_INJECT_STATUS), CAP(JOIN_MEMORY_REGIONS_WORKS), CAP(MCE), CAP(IRQFD), CAP(PIT2),
	CAP(SET_BOOT_CPU_ID), CAP(PIT_STATE2), CAP(IOEVENTFD), CAP(SET_IDENTITY_MAP_ADDR),
	CAP(ADJUST_CLOCK), CAP(VCPU_EVENTS), CAP(DEBUGREGS), CAP(XSAVE), CAP(XCRS),
	CAP(TSC_CONTROL), CAP(GET_TSC_KHZ), CAP(MAX_VCPUS), CAP(TSC_DEADLINE_TIMER),
	CAP(SYNC_REGS), CAP(KVMCLOCK_CTRL), CAP(SIGNAL_MSI), CAP(READONLY_MEM), CAP(SPLIT_IRQCHIP),
	CAP(IMMEDIATE_EXIT), CAP(MAX_VCPU_ID), CAP(GET_MSR_FEATURES), CAP(NESTED_STATE),
	CAP(EXCEPTION_PAYLOAD), CAP(MANUAL_DIRTY_LOG_PROTECT2), CAP(X86_USER_SPACE_MSR),
	CAP(X86_MSR_FILTER), CAP(BINARY_STATS_FD), CAP(SREGS2), CAP(XSAVE2),
#undef CAP
};

static void print_cpuid(const struct backend *be, int fd)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entry[256];
	} id = { .head.nent = 256 };

	if (be->ioctl(fd, KVM_GET_SUPPORTED_CPUID, (unsigned long)&id))
		return;
	printf("\nCPU features, as --cpu names them:\n");
	cpuflags_print(id.entry, id.head.nent);
	printf("\n%-10s %-5s %-8s %-8s %-8s %-8s\n", "CPUID", "index", "eax", "ebx", "ecx", "edx");
	for (u32 i = 0; i < id.head.nent; i++)
		printf("%08x   %-5u %08x %08x %08x %08x\n", id.entry[i].function,
		       id.entry[i].index, id.entry[i].eax, id.entry[i].ebx, id.entry[i].ecx,
		       id.entry[i].edx);
}

static void print_msrs(const struct backend *be, int fd, unsigned long list, const char *what)
{
	struct {
		struct kvm_msr_list head;
		u32 index[1024];
	} l = { .head.nmsrs = 1024 };

	if (be->ioctl(fd, list, (unsigned long)&l))
		return;
	printf("\n%s:", what);
	for (u32 i = 0; i < l.head.nmsrs; i++)
		printf("%s%08x", i % 8 ? " " : "\n  ", l.index[i]);
	putchar('\n');
}

int cmd_caps(int argc, char **argv)
{
	const struct backend *be = &backend_software;
	int fd;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--backend") || i + 1 == argc)
			return usage_error("caps", "unexpected argument '%s'", argv[i]);
		be = backend_find(argv[++i]);
		if (!be)
			return usage_error("caps", "--backend %s: software or /dev/kvm is wanted",
					   argv[i]);
	}
	fd = be->open();
	if (fd < 0) {
		fprintf(stderr, "locum caps: %s: %s\n", be->name, strerror(-fd));
		return EXIT_USAGE;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(caps); i++)
		printf("%-28s %ld\n", caps[i].name,
		       be->ioctl(fd, KVM_CHECK_EXTENSION, caps[i].cap));
	print_cpuid(be, fd);
	print_msrs(be, fd, KVM_GET_MSR_INDEX_LIST, "MSRs to save");
	print_msrs(be, fd, KVM_GET_MSR_FEATURE_INDEX_LIST, "MSRs that tell features");
	be->close(fd);
	return 0;
}
