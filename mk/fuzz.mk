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

# The parts of a target that is more than one file.
FUZZ_PARTS_ioctl := $(sort $(wildcard tests/fuzz/ioctl/*.c))
$(B)/fuzz/ioctl: tests/fuzz/ioctl.c $(FUZZ_PARTS_ioctl) tests/fuzz/ioctl/world.h \
		$(B)/liblocum.a $(B)/.flags
	$(SAY) FUZZ $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(FUZZ_FLAGS) -o $@ $< \
		$(FUZZ_PARTS_ioctl) $(B)/liblocum.a

FUZZ_LEN_decode := 24
FUZZ_LEN_ioctl := 4096

fuzz: $(FUZZ_BIN) ## run each fuzz target for TIME seconds (MODE=fuzz CC=clang)
	$(Q)$(if $(filter fuzz,$(MODE)),,echo 'fuzzing needs MODE=fuzz CC=clang' >&2; exit 2)
	$(Q)$(foreach f,$(notdir $(FUZZ_BIN)),mkdir -p $(B)/corpus/$f tests/fuzz/corpus/$f && \
		$(B)/fuzz/$f -max_total_time=$(TIME) -max_len=$(FUZZ_LEN_$f) \
		-print_final_stats=0 $(B)/corpus/$f tests/fuzz/corpus/$f &&) true
.PHONY: fuzz
