# SPDX-License-Identifier: MIT
# Fuzz targets: `make MODE=fuzz CC=clang fuzz TIME=60`.  Every other mode builds
# them as replayers of tests/fuzz/corpus.
FUZZ_SRC := $(sort $(wildcard tests/fuzz/*.c))
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ_SRC))
TEST_DEPS += $(FUZZ_BIN)
TIME ?= 60
FUZZ_FLAGS := $(if $(filter fuzz,$(MODE)),-DLOCUM_LIBFUZZER -fsanitize=fuzzer)

$(B)/fuzz/%: tests/fuzz/%.c $(B)/liblocum.a $(B)/.flags
	$(SAY) FUZZ $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(FUZZ_FLAGS) -o $@ $< $(B)/liblocum.a

fuzz: $(FUZZ_BIN) ## run each fuzz target for TIME seconds (MODE=fuzz CC=clang)
	$(Q)$(if $(filter fuzz,$(MODE)),,echo 'fuzzing needs MODE=fuzz CC=clang' >&2; exit 2)
	$(Q)for f in $(notdir $(FUZZ_BIN)); do mkdir -p $(B)/corpus/$$f && $(B)/fuzz/$$f \
		-max_total_time=$(TIME) -max_len=24 -print_final_stats=0 $(B)/corpus/$$f \
		tests/fuzz/corpus/$$f || exit 1; done
.PHONY: fuzz
