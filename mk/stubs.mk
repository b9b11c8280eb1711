# SPDX-License-Identifier: MIT
# Instruction stubs: tools/genstubs walks the decode table at build time.

GENSTUBS := $(B)/gen/genstubs
STUB_OBJ := $(B)/gen/fp_bodies.o $(B)/gen/fp_table.o
ifneq ($(filter cpu,$(CORE_LAYERS)),)
GEN_OBJ += $(STUB_OBJ)
endif

$(GENSTUBS): tools/genstubs.c $(wildcard src/decode/*.c src/decode/*.h src/decode/*.def) \
		src/cpu/fp_stub.h $(wildcard src/x86/*.h src/base/*.h)
	$(SAY) HOSTCC $@
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -g -D_GNU_SOURCE -Isrc $(WARN) -o $@ tools/genstubs.c \
		$(wildcard src/decode/*.c)

$(B)/gen/fp_bodies.S: $(GENSTUBS)
	$(Q)$(GENSTUBS) bodies > $@
$(B)/gen/fp_table.c: $(GENSTUBS)
	$(Q)$(GENSTUBS) table > $@
$(B)/gen/fp_bodies.o: $(B)/gen/fp_bodies.S
	$(SAY) AS $@
	$(Q)$(CC) -c -o $@ $<
$(B)/gen/fp_table.o: $(B)/gen/fp_table.c $(B)/.flags
	$(SAY) CC $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -c -o $@ $<
