# SPDX-License-Identifier: MIT
# Unit tests of the shim link the parts of it that replace no function of libc.
TESTED_SHIM_OBJ := $(B)/src/shim/hosttest.o $(B)/src/shim/symbol.o $(B)/src/shim/real.o

$(B)/tests/unit/shim/%: tests/unit/shim/%.c $(TESTED_SHIM_OBJ) $(B)/liblocum.a $(B)/.flags
	$(SAY) TEST $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS_ALL) -MMD -MP -MF $@.d $(LDFLAGS_ALL) -o $@ $< \
		$(TESTED_SHIM_OBJ) $(B)/liblocum.a -lcmocka
