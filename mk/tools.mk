# SPDX-License-Identifier: MIT
# Small programs that the scripts use.
TOOLS := $(patsubst tools/%.c,$(B)/tools/%,$(filter-out tools/gen%,$(wildcard tools/*.c)))
TEST_DEPS += $(TOOLS)

$(B)/tools/%: tools/%.c
	$(SAY) TOOL $<
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -D_GNU_SOURCE -Wall -Wextra -Werror -o $@ $<
