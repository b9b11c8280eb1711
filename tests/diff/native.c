/* SPDX-License-Identifier: MIT */
/*
 * The host's side.  A fault comes as a signal on the alternate stack; the
 * handler notes what the kernel says and resumes at diff_exit_fault, so that
 * one path stores the registers.  The handler must not use thread-local
 * storage: FS.base is the case's.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "cpu/hostcpu.h"
#include "diff.h"

#define TRAP_PAGE_FAULT 14 /* x86/exc.h does not go with <elf.h> */

#define HWCAP2_FSGSBASE (1u << 1)
#define ALT_STACK	65536

extern struct diff_state diff_in, diff_out;
extern u32 diff_exit, diff_use_fsgs, diff_use_avx;
void diff_enter(void);
extern char diff_exit_a[], diff_exit_b[], diff_exit_fault[];

static u8 *code_view, *data_view;
static volatile bool running;
static struct {
	u64 rip, rflags, cr2;
	u32 trapno, error;
} trap;

static u64 current_seed, current_number;

/* A fault outside a case: our own bug.  Says where, without the C library. */
static void own_fault(u64 rip, u32 trapno)
{
	char text[] = "diff: trap   outside a case, at                 \n";

	text[11] = (char)('0' + trapno / 10 % 10);
	text[12] = (char)('0' + trapno % 10);
	for (unsigned n = 0; n < 16; n++)
		text[32 + n] = "0123456789abcdef"[rip >> (60 - 4 * n) & 15];
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(3);
	{ char cmd[100]; for(int i=0;i<16;i++) text[32+i]="0123456789abcdef"[current_number >> (60-4*i) & 15]; if(write(2,text,sizeof(text)-1)<0) _exit(3); int fd=__builtin_choose_expr(1,0,0); (void)fd; extern int open(const char*,int,...); fd=open("/proc/self/maps",0); long n; while((n=read(fd,cmd,100))>0) if(write(2,cmd,n)<0) break; }
	_exit(3);
}

__attribute__((no_sanitize("address", "undefined", "thread"))) static void on_fault(
	int sig, siginfo_t *si, void *context)
{
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;

	(void)sig;
	(void)si;
	if (!running) {
		u64 on = guest_fault((u64)g[REG_RIP]);

		if (on) {
			g[REG_RIP] = (greg_t)on;
			return;
		}
		own_fault((u64)g[REG_RIP], (u32)g[REG_TRAPNO]);
	}
	running = false;
	trap.rip = (u64)g[REG_RIP];
	trap.rflags = (u64)g[REG_EFL];
	trap.trapno = (u32)g[REG_TRAPNO];
	trap.error = (u32)g[REG_ERR];
	trap.cr2 = (u64)g[REG_CR2];
	g[REG_RIP] = (greg_t)(uintptr_t)diff_exit_fault;
	g[REG_EFL] &= ~(greg_t)(RF_TF | RF_AC); /* not for our own code */
}

static void on_alarm(int sig)
{
	static const char text[] = "diff: a case does not end\n";

	(void)sig;
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(3);
	_exit(3);
}

static void die(const char *what)
{
	fprintf(stderr, "diff: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void map_at(u64 va, size_t n, int prot, int fd, off_t off)
{
	if (mmap((void *)(uintptr_t)va, n, prot, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		 off) != (void *)(uintptr_t)va)
		die("mmap");
	/* Present before the first case, so that a write to a read-only page is a
	 * protection fault. */
	(void)*(volatile u8 *)(uintptr_t)va;
}

static void map_data(u64 base, int fd)
{
	for (unsigned p = 0; p < DATA_SPAN; p++)
		if (p != DATA_HOLE)
			map_at(base + (DATA_FIRST + p) * 4096, 4096,
			       p == DATA_RO ? PROT_READ : PROT_READ | PROT_WRITE, fd,
			       CODE_BYTES + p * 4096);
}

static void *view(int fd, size_t n, off_t off)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

void native_handlers(void)
{
	static const int faults[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP};
	static u8 stack[ALT_STACK] __attribute__((aligned(16)));
	stack_t alt = {.ss_sp = stack, .ss_size = ALT_STACK};
	struct sigaction sa = {.sa_sigaction = on_fault,
			       .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	if (sigaltstack(&alt, NULL))
		die("sigaltstack");
	for (unsigned n = 0; n < ARRAY_SIZE(faults); n++)
		if (sigaction(faults[n], &sa, NULL))
			die("sigaction");
	signal(SIGVTALRM, on_alarm);
}

void native_init(void)
{
	int fd = memfd_create("diff", 0);

	if (fd < 0 || ftruncate(fd, CODE_BYTES + DATA_BYTES))
		die("memfd");
	code_view = view(fd, CODE_BYTES, 0);
	data_view = view(fd, DATA_BYTES, CODE_BYTES);
	map_at(CODE_VA, CODE_BYTES, PROT_READ | PROT_EXEC, fd, 0);
	map_data(DIFF_HIGH, fd);
	map_data(DIFF_LOW, fd);
	close(fd);
	diff_use_fsgs = native_has_fsgsbase();
	diff_use_avx = hostcpu()->avx;
}

bool native_has_fsgsbase(void)
{
	return getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
}

static u32 env_after_load(unsigned word)
{
	static const float operand = 1;
	u32 env[7];

	__asm__ volatile("fninit\n\tflds %1\n\tfnstenv %0\n\tfninit" : "=m"(env) : "m"(operand));
	return env[word];
}

bool native_notes_fop(void)
{
	return env_after_load(4) >> 16;
}

bool native_notes_fdp(void)
{
	return env_after_load(5);
}

u8 *native_code(void)
{
	return code_view;
}

u8 *native_data(void)
{
	return data_view;
}

u64 native_exit_address(bool b)
{
	return (u64)(uintptr_t)(b ? diff_exit_b : diff_exit_a);
}

void native_run(const struct diff_case *k, struct diff_outcome *out)
{
	/* Ten seconds of processor time without an end: report, do not hang.
	 * Armed once every so many cases, it is cheap enough. */
	if (k->number % 1024 == 0 || k->seed != current_seed) {
		struct itimerval t = {.it_value = {.tv_sec = 20}};

		setitimer(ITIMER_VIRTUAL, &t, NULL);
	}
	current_seed = k->seed;
	current_number = k->number;
	diff_in = k->in;
	diff_in.rip = k->start;
	running = true;
	diff_enter();
	running = false;
	*out = (struct diff_outcome){.how = (enum diff_exit)diff_exit, .s = diff_out};
	if (diff_exit == DIFF_END) {
		out->s.rip = k->start + k->code_len;
	} else if (diff_exit == DIFF_EXIT_B) {
		out->s.rip = CODE_VA + EXIT_B_OFF;
	} else {
		out->s.rip = trap.rip;
		out->s.rflags = trap.rflags;
		out->vector = (u8)trap.trapno;
		out->error = trap.error;
		out->cr2 = trap.trapno == TRAP_PAGE_FAULT ? trap.cr2 : 0;
	}
	if (!diff_use_avx)
		memcpy(out->s.ymmh, k->in.ymmh, sizeof(out->s.ymmh));
	if (!diff_use_fsgs) {
		out->s.fsbase = k->in.fsbase;
		out->s.gsbase = k->in.gsbase;
	}
}
