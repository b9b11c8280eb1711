# SPDX-License-Identifier: MIT
# Static programs that run inside guests, and the initrd of the benchmark.
GUEST_BIN := $(patsubst guest/%.c,$(B)/guest/%,$(wildcard guest/*.c))

$(B)/guest/%: guest/%.c
	$(SAY) GUEST $<
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -D_GNU_SOURCE -Wall -Wextra -Werror -static -o $@ $<

$(B)/guest/bench.initrd: $(B)/guest/bench $(B)/guest/flush $(B)/tools/mkinitrd
	$(Q)$(B)/tools/mkinitrd $@.tmp init=$<:755 flush=$(B)/guest/flush:755 proc/ && mv $@.tmp $@

bench.initrd: $(B)/guest/bench.initrd
	$(Q)cp -f $< $@

all: bench.initrd

install: install-guest
install-guest: all
	install -Dm644 $(B)/guest/bench.initrd $(DESTDIR)$(PREFIX)/share/locum/bench.initrd
.PHONY: install-guest
TEST_DEPS += $(GUEST_BIN)

# Bare-metal images: one assembly file each, loaded by multiboot.
BARE_BIN := $(patsubst guest/bare/%.S,$(B)/guest/bare/%,$(wildcard guest/bare/*.S))
TEST_DEPS += $(BARE_BIN)

$(B)/guest/bare/%: guest/bare/%.S guest/bare/bare.h
	$(SAY) GUEST $<
	@mkdir -p $(@D)
	$(Q)$(CC) -m32 -nostdlib -static -fno-pie -no-pie -Wl,-Ttext-segment=0x100000,--build-id=none,-e,start \
		-Wl,-z,noseparate-code -o $@ $<
