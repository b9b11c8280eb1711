/* SPDX-License-Identifier: MIT */
/*
 * Sequences of ioctls over several VMs, vCPUs and threads, with guests that
 * run: no crash, no hang, no leak; client memory that no slot shows is never
 * written; every KVM_RUN ends when it is kicked.
 *
 *   ioctl [--seconds N] [--seed N] [--only N]   sequences from a seed
 *   ioctl FILE...                               replay
 *
 * FUZZ_TRACE=1 prints every call.
 */
#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ioctl/world.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static void some_run(struct input *in)
{
	unsigned i = world_pick_vcpu(in);
	u8 how = in8(in);

	world_run(i, 1 + (how & 7), 100u << (how >> 3 & 3), how & 0x80 ? how >> 5 & 1 : -1,
		  in32(in));
}

static void step(struct input *in)
{
	u8 what = in8(in);

	if (what < 4)
		request_vm(in);
	else if (what < 16)
		request_vcpu(in);
	else if (what < 36)
		request_slot(in);
	else if (what < 68)
		guest_load(in);
	else if (what < 104)
		some_run(in);
	else if (what < 118)
		request_msrs(in);
	else if (what < 126)
		request_routing(in);
	else if (what < 128)
		world_close_vcpu(in_below(in, VCPUS));
	else if (what < 129)
		world_close_vm(in_below(in, VMS));
	else if (what < 133)
		request_event(in);
	else if (what < 190)
		request_change(in);
	else
		request_any(in);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static bool ready;
	struct input in = { data, size };

	if (!ready)
		world_init();
	ready = true;
	/* Something to work with in most sequences. */
	request_vm(&in);
	request_vcpu(&in);
	guest_load(&in);
	while (in.left)
		step(&in);
	world_end();
	return 0;
}

#ifndef LOCUM_LIBFUZZER

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Descriptors and threads, once the library has what it keeps. */
static void check_leaks(void)
{
	static int fds, threads;
	int f = entries("/proc/self/fd"), t;

	/* A joined thread may still be on its way out of /proc. */
	for (int i = 0; (t = entries("/proc/self/task")) > threads && threads && i < 1000; i++)
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	if (!fds) {
		fds = f;
		threads = t;
	}
	if (f > fds || t > threads)
		world_fail("%d descriptors (were %d), %d threads (were %d)", f, fds, t, threads);
}

static u64 state;

static u8 random_byte(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (u8)(state >> 29);
}

static void one(u64 seed, u64 n)
{
	static u8 buf[4096];
	size_t size;

	state = (seed + 1) * 0x9e3779b97f4a7c15u + n * 0xd1342543de82ef95u;
	for (int i = 0; i < 8; i++)
		random_byte();
	size = 64 + (random_byte() | (random_byte() & 15u) << 8) % (sizeof(buf) - 64);
	for (size_t i = 0; i < size; i++)
		buf[i] = random_byte();
	LLVMFuzzerTestOneInput(buf, size);
	check_leaks();
}

static void replay(const char *name)
{
	static u8 buf[65536];
	FILE *f = fopen(name, "rb");
	size_t n = f ? fread(buf, 1, sizeof(buf), f) : 0;

	if (!f) {
		perror(name);
		exit(1);
	}
	fclose(f);
	LLVMFuzzerTestOneInput(buf, n);
	check_leaks();
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "seconds", 1, NULL, 't' },
						 { "seed", 1, NULL, 's' },
						 { "only", 1, NULL, 'n' },
						 { NULL, 0, NULL, 0 } };
	u64 seed = 1, n = 0, only = ~0ull;
	time_t seconds = 0, end;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 't')
			seconds = atol(optarg);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			only = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	for (int i = optind; i < argc; i++)
		replay(argv[i]);
	if (only != ~0ull)
		one(seed, only);
	end = time(NULL) + seconds;
	for (; only == ~0ull && time(NULL) < end; n++) {
		if (getenv("FUZZ_TRACE") || getenv("FUZZ_COUNT"))
			fprintf(stderr, "SEQUENCE %llu\n", n);
		one(seed, n);
	}
	printf("SEED %llu\nTABLE %llu sequences, %lu ioctls, %lu times KVM_RUN\nCASES %llu\n", seed,
	       n, world.ioctls, world.runs, n + (u64)(argc - optind));
	return 0;
}
#endif
