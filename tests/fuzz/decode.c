/* SPDX-License-Identifier: MIT */
/*
 * Any bytes, any mode: at most 15 bytes long, nothing read beyond what is
 * there, the same answer twice, and a handler or none for what was decoded.
 * First byte: mode and vendor.  libFuzzer's entry point; other builds replay
 * the files that are named as arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/handlers.h"
#include "decode/decode.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static void must(bool cond, const char *what)
{
	if (cond)
		return;
	fprintf(stderr, "decode: %s\n", what);
	abort();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static const u8 bits[4] = { 16, 32, 64, 64 };
	struct decode_mode mode;
	struct insn a, b;
	enum decode_status s;
	u8 *copy;

	if (size < 2)
		return 0;
	mode = (struct decode_mode){ .bits = bits[data[0] & 3], .vendor = data[0] >> 2 & 1 };
	/* An allocation of the exact size: one byte too far is seen. */
	copy = malloc(size - 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	s = decode(copy, (unsigned)(size - 1), &mode, &a);
	must(decode(copy, (unsigned)(size - 1), &mode, &b) == s && !memcmp(&a, &b, sizeof(a)),
	     "two answers");
	must(a.len <= INSN_MAX_LEN && a.len < size, "length");
	if (s == DECODE_OK) {
		must(a.len > 0 && a.op != OP_INVALID && a.op < OP_COUNT && a.row < insn_row_count(),
		     "row");
		/* What was enough stays enough, and one byte less is not. */
		must(decode(copy, a.len, &mode, &b) == DECODE_OK, "its own length");
		must(a.len == 1 || decode(copy, a.len - 1u, &mode, &b) == DECODE_SHORT, "one byte less");
		(void)op_select(&a);
	}
	if (s == DECODE_SHORT)
		must(size - 1 < INSN_MAX_LEN, "short of bytes that are there");
	free(copy);
	return 0;
}

#ifndef LOCUM_LIBFUZZER
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		u8 buf[4096];
		FILE *f = fopen(argv[i], "rb");
		size_t n = f ? fread(buf, 1, sizeof(buf), f) : 0;

		if (!f) {
			perror(argv[i]);
			return 1;
		}
		fclose(f);
		LLVMFuzzerTestOneInput(buf, n);
	}
	printf("CASES %d\n", argc - 1);
	return 0;
}
#endif
