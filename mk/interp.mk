# SPDX-License-Identifier: MIT
# The interpreter's benchmark.

$(B)/tests/bench/interp: tests/bench/interp.c $(B)/liblocum.a $(B)/.flags
	$(SAY) BENCH $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit -Itests $(CFLAGS_ALL) -MMD -MP -MF $@.d $(LDFLAGS_ALL) \
		-o $@ $< $(B)/liblocum.a

bench-interp: $(B)/tests/bench/interp ## MIPS of the interpreter on small loops
	$(Q)$<
.PHONY: bench-interp
-include $(B)/tests/bench/interp.d
