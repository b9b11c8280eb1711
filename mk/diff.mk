# SPDX-License-Identifier: MIT
# The random differential runner (tests/diff/).

DIFF_SRC := $(sort $(wildcard tests/diff/*.c tests/diff/*.S))
DIFF_OBJ := $(patsubst %.S,$(B)/%.o,$(patsubst %.c,$(B)/%.o,$(DIFF_SRC)))
DIFF_BIN := $(B)/tests/diff/runner
TEST_DEPS += $(DIFF_BIN)

# Its signal handler runs with the FS.base of a case: no stack protector.
CFLAGS_native := -fno-stack-protector

# Position-independent: random 32-bit addresses must not meet the program.
$(DIFF_BIN): $(DIFF_OBJ) $(B)/liblocum.a
	$(SAY) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) -pie -o $@ $^

-include $(patsubst %.o,%.d,$(DIFF_OBJ))
