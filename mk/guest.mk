# SPDX-License-Identifier: MIT
# Static programs that run inside guests, and the initrd of the benchmark.
GUEST_BIN := $(patsubst guest/%.c,$(B)/guest/%,$(wildcard guest/*.c))

$(B)/guest/%: guest/%.c
	$(SAY) GUEST $<
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -D_GNU_SOURCE -Wall -Wextra -Werror -static -o $@ $<

# The workloads of `locum bench`: one program.  No FMA behind its back, so that
# every machine computes the same.
BENCH_SRC := $(wildcard guest/bench/*.c)
BENCH_OBJ := $(patsubst guest/bench/%.c,$(B)/guest/bench.d/%.o,$(BENCH_SRC))
BENCH_CFLAGS := -std=gnu11 -O2 -D_GNU_SOURCE -Isrc -Wall -Wextra -Werror -fno-math-errno \
	-ffp-contract=off -fwrapv -fno-strict-aliasing
BENCH_CFLAGS_vec := -O3
GUEST_BIN += $(B)/guest/bench

$(B)/guest/bench.d/%.o: guest/bench/%.c guest/bench/work.h src/cli/bench_rows.def
	$(SAY) GUEST $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(BENCH_CFLAGS) $(BENCH_CFLAGS_$*) -c -o $@ $<

$(B)/guest/bench: $(BENCH_OBJ)
	$(SAY) LD $@
	$(Q)$(CC) -static -pthread -o $@ $^

# For the rows "shell" and "tcc": a static busybox, and a tcc that is installed or
# whose package was downloaded, with its libraries and their loader.
BUSYBOX := $(shell b=$$(command -v busybox) && ! ldd $$b >/dev/null 2>&1 && echo $$b)
TCC_DEB := $(lastword $(sort $(wildcard build/deb/tcc_*.deb)))
TCC := $(if $(TCC_DEB),$(B)/tcc/usr/bin/tcc,$(shell command -v tcc))

$(B)/tcc/usr/bin/tcc: $(TCC_DEB)
	$(Q)mkdir -p $(B)/tcc && dpkg-deb -x $< $(B)/tcc && touch $@

$(B)/guest/bench.initrd: $(B)/guest/bench $(B)/guest/flush $(B)/tools/mkinitrd $(BUSYBOX) $(TCC)
	$(SAY) CPIO $@
	$(Q)$(B)/tools/mkinitrd $@.tmp init=$<:755 flush=$(B)/guest/flush:755 proc/ tmp/ \
		$(if $(BUSYBOX),bin/busybox=$(BUSYBOX):755) \
		$(if $(TCC),tcc/tcc=$(TCC):755 $$(ldd $(TCC) | awk \
			'$$2 == "=>" { print "tcc/" $$1 "=" $$3 ":755" } $$1 ~ /ld-linux/ { print "tcc/ld.so=" $$1 ":755" }')) \
		&& mv $@.tmp $@

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
