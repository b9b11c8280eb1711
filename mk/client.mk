# SPDX-License-Identifier: MIT
# Small KVM clients (tests/client), run unmodified under `locum exec`.
CLIENT_SRC := $(sort $(wildcard tests/client/*.c))
CLIENT_BIN := $(patsubst %.c,$(B)/%,$(CLIENT_SRC))
TEST_DEPS += $(CLIENT_BIN)

$(B)/tests/client/%: tests/client/%.c tests/client/client.h tests/client/replay.h
	$(SAY) CLIENT $<
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -D_GNU_SOURCE -Wall -Wextra -Werror \
		-Wno-gnu-variable-sized-type-not-at-end -pthread -no-pie -o $@ $<
