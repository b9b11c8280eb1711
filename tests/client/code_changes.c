/* SPDX-License-Identifier: MIT */
/*
 * Code that changes behind the processor's back: by the client between two
 * KVM_RUNs, by the client before it injects an interrupt, through a second
 * mapping of the same page, by a slot that is replaced.
 */
#include "client.h"

/* Calls the function at 0x40000 for ever and reports what it returned. */
GUEST_CODE(caller, "1: movl $0x40000, %ecx\n call *%rcx\n outl %eax, $0x10\n jmp 1b");

static struct machine m;

/* mov eax, value; ret */
static void put_function(uint8_t *at, uint32_t value)
{
	at[0] = 0xb8;
	memcpy(at + 1, &value, 4);
	at[5] = 0xc3;
}

static uint32_t next_report(void)
{
	uint32_t v;

	CHECK(machine_run(&m) == KVM_EXIT_IO && m.run->io.port == 0x10 && m.run->io.size == 4);
	memcpy(&v, (char *)m.run + m.run->io.data_offset, 4);
	return v;
}

static void between_runs(void)
{
	machine_init(&m, caller_start, caller_end);
	for (uint32_t i = 1; i < 3000; i++) {
		put_function(m.ram + 0x40000, i);
		/* The report that was pending may stand for the old code only if
		 * the guest had called it before we wrote: it had not. */
		CHECK(next_report() == i);
	}
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
}

/* The kernel's own write(2)s into guest memory, as device threads do. */
static void by_read_call(void)
{
	uint8_t code[6];
	int pipefd[2];

	machine_init(&m, caller_start, caller_end);
	CHECK(!pipe(pipefd));
	for (uint32_t i = 1; i < 500; i++) {
		put_function(code, i);
		CHECK(write(pipefd[1], code, 6) == 6);
		CHECK(read(pipefd[0], m.ram + 0x40000, 6) == 6);
		CHECK(next_report() == i);
	}
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
}

/* The guest writes its own code through another address of the same page:
 * slot 1 at 4M (not identity mapped; gpa 0x400000) shows the page of 0x40000. */
GUEST_CODE(alias, "1: incl %ebx\n movl %ebx, 0x400001\n movl $0x40000, %ecx\n call *%rcx\n"
		  "outl %eax, $0x10\n jmp 1b");

static void through_alias(bool shared_file)
{
	machine_init(&m, alias_start, alias_end);
	if (shared_file) {
		/* Two mappings of one file page at different host addresses. */
		int fd = memfd_create("page", 0);
		uint8_t *a, *b;

		CHECK(fd >= 0 && !ftruncate(fd, 4096));
		a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		machine_slot(&m, 0, 0, m.ram, 0, 0);
		machine_slot(&m, 0, 0, m.ram, 0x40000, 0);
		machine_slot(&m, 1, 0x40000, a, 4096, 0);
		machine_slot(&m, 2, 0x41000, m.ram + 0x41000, RAM_SIZE - 0x41000, 0);
		machine_slot(&m, 3, 0x400000, b, 4096, 0);
		put_function(a, 0);
	} else {
		machine_slot(&m, 1, 0x400000, m.ram + 0x40000, 4096, 0);
		put_function(m.ram + 0x40000, 0);
	}
	for (uint32_t i = 1; i < 3000; i++)
		CHECK(next_report() == i);
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
}

static void slot_replaced(void)
{
	uint8_t *page[2];

	machine_init(&m, caller_start, caller_end);
	machine_slot(&m, 0, 0, m.ram, 0, 0);
	machine_slot(&m, 0, 0, m.ram, 0x40000, 0);
	machine_slot(&m, 2, 0x41000, m.ram + 0x41000, RAM_SIZE - 0x41000, 0);
	for (int i = 0; i < 2; i++) {
		page[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		put_function(page[i], 100 + (uint32_t)i);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		machine_slot(&m, 1, 0x40000, page[i & 1], 4096, 0);
		CHECK(next_report() == 100 + (i & 1));
		machine_slot(&m, 1, 0x40000, page[i & 1], 0, 0);
	}
	close(m.cpu);
	close(m.vm);
	close(m.kvm);
}

int main(void)
{
	between_runs();
	by_read_call();
	through_alias(false);
	through_alias(true);
	slot_replaced();
	return 0;
}
