# SPDX-License-Identifier: MIT
# Unit tests of the monitor and the commands link their objects too.
TESTED_CLI_OBJ := $(filter-out $(B)/src/cli/main.o,$(CLI_OBJ))

$(B)/tests/unit/monitor/%: tests/unit/monitor/%.c $(TESTED_CLI_OBJ) $(B)/liblocum.a $(B)/.flags
	$(SAY) TEST $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS_ALL) -MMD -MP -MF $@.d $(LDFLAGS_ALL) -o $@ $< \
		$(filter $(B)/src/monitor/%,$(TESTED_CLI_OBJ)) $(B)/liblocum.a -lcmocka
