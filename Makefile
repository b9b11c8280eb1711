# SPDX-License-Identifier: MIT
# Locum: `make help` lists the targets.  Objects go to build/MODE/.

MODE ?= rel
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
B := build/$(MODE)

ifeq ($(filter rel dbg asan tsan cov fuzz,$(MODE)),)
$(error MODE must be one of: rel dbg asan tsan cov fuzz)
endif

ifeq (,$(findstring j,$(firstword -$(MAKEFLAGS))))
MAKEFLAGS += -j$(shell nproc)
endif
Q := $(if $(V),,@)
SAY = @printf '  %-7s %s\n'
SAY := $(if $(V),@:,$(SAY))

WARN := -Wall -Wextra $(if $(filter 0,$(WERROR)),,-Werror) -Wformat=2 -Wundef -Wshadow \
	-Wvla -Wwrite-strings -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wpointer-arith -Wredundant-decls
# The KVM ABI's requests end in arrays of no length; a struct that gives one its
# room has it in the middle, which clang alone remarks on.
WARN += -Wno-gnu-variable-sized-type-not-at-end
OPT_rel := -O2
OPT_dbg := -O1 -DLOCUM_DEBUG_BUILD
OPT_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -DLOCUM_SANITIZE
# gcc: fences are not modelled (-Wtsan); reports about them would be false.
OPT_tsan := -O1 -fsanitize=thread -Wno-tsan -DLOCUM_SANITIZE
OPT_cov := -O0 --coverage
OPT_fuzz := -O1 -fsanitize=address,undefined,fuzzer-no-link -DLOCUM_SANITIZE
LD_asan := -fsanitize=address,undefined
LD_tsan := -fsanitize=thread
LD_cov := --coverage
LD_fuzz := -fsanitize=address,undefined

CPPFLAGS += -D_GNU_SOURCE -Isrc -Iinclude -I$(B)/gen
CFLAGS_ALL = -std=gnu11 -g -fPIC -pthread -fno-strict-aliasing -fwrapv -fno-common \
	-fno-omit-frame-pointer -fvisibility=hidden $(OPT_$(MODE)) $(WARN) $(CFLAGS)
LDFLAGS_ALL = -pthread $(LD_$(MODE)) $(LDFLAGS)

CORE_LAYERS := base x86 decode mem mmu cpu jit irq pv vm api
CORE_SRC := $(sort $(foreach l,$(CORE_LAYERS),$(wildcard src/$(l)/*.c src/$(l)/*.S)))
SHIM_SRC := $(sort $(wildcard src/shim/*.c src/shim/*.S))
CLI_SRC := $(sort $(wildcard src/monitor/*.c src/cli/*.c))
obj = $(patsubst %.c,$(B)/%.o,$(patsubst %.S,$(B)/%.o,$(1)))

CORE_OBJ = $(call obj,$(CORE_SRC)) $(GEN_OBJ)
SHIM_OBJ := $(call obj,$(SHIM_SRC))
CLI_OBJ := $(call obj,$(CLI_SRC))

all: locum liblocum.so ## build ./locum and ./liblocum.so (default)

# Units add generated sources, guests and tests of their own here.
-include $(sort $(wildcard mk/*.mk))

$(B)/.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(LDFLAGS_ALL)' | cmp -s - $@ || \
		echo '$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(LDFLAGS_ALL)' > $@

$(B)/%.o: %.c $(B)/.flags | $(GEN_HDR)
	$(SAY) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(CFLAGS_$(notdir $(<:.c=))) -MMD -MP -c -o $@ $<

$(B)/%.o: %.S $(B)/.flags
	$(SAY) AS $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -g -fPIC -MMD -MP -c -o $@ $<

$(B)/liblocum.a: $(CORE_OBJ)
	$(SAY) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/liblocum.so: $(CORE_OBJ) $(SHIM_OBJ)
	$(SAY) LD $@
	$(Q)$(CC) -shared -Wl,-soname,liblocum.so.0 $(LDFLAGS_ALL) -o $@ $^

$(B)/locum: $(CLI_OBJ) $(B)/liblocum.a
	$(SAY) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ -lm

locum liblocum.so: %: $(B)/%
	$(Q)cp -f $< $@.tmp && mv -f $@.tmp $@

# --- tests -----------------------------------------------------------------
UNIT_SRC := $(sort $(wildcard tests/unit/*/*.c))
UNIT_BIN := $(patsubst %.c,$(B)/%,$(UNIT_SRC))
TESTLIBS_decode := -lZydis

$(B)/tests/unit/%: tests/unit/%.c $(B)/liblocum.a $(B)/.flags
	$(SAY) TEST $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS_ALL) -MMD -MP -MF $@.d $(LDFLAGS_ALL) -o $@ $< \
		$(B)/liblocum.a -lcmocka $(TESTLIBS_$(firstword $(subst /, ,$*)))

tests: all $(UNIT_BIN) $(TEST_DEPS) ## build the tests without running them

check: tests lint ## run every test that fits in 15 minutes
	$(Q)MODE=$(MODE) B=$(B) scripts/run-tests.sh $(UNIT_BIN) $(sort $(wildcard tests/run/*.sh))

check-long: tests ## the long runs: sweeps and soaks of an hour
	$(Q)MODE=$(MODE) B=$(B) LONG=1 TEST_TIMEOUT=7200 scripts/run-tests.sh $(UNIT_BIN) $(sort $(wildcard tests/run/*.sh))

lint: ## layer check, headers compile alone, script syntax
	$(Q)scripts/check-layers.sh
	$(Q)scripts/check-headers.sh "$(CC) $(CPPFLAGS) -std=gnu11 -fsyntax-only -x c"

format: ## run clang-format over the sources
	$(Q)clang-format -i $$(git ls-files '*.c' '*.h')

PREFIX ?= /usr/local
install: all ## install under PREFIX (default /usr/local)
	install -Dm755 $(B)/locum $(DESTDIR)$(PREFIX)/bin/locum
	install -Dm755 $(B)/liblocum.so $(DESTDIR)$(PREFIX)/lib/liblocum.so.0
	ln -sf liblocum.so.0 $(DESTDIR)$(PREFIX)/lib/liblocum.so
	install -Dm644 include/locum/kvm.h $(DESTDIR)$(PREFIX)/include/locum/kvm.h

clean: ## remove build products
	rm -rf build locum liblocum.so

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' Makefile mk/*.mk 2>/dev/null | sed -E 's/:.*## /\t/' | expand -t 14
	@echo 'variables: MODE=rel|dbg|asan|tsan|cov|fuzz CC= V=1 WERROR=0 PREFIX='

FORCE:
.PHONY: all tests check check-long lint format install clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:
-include $(patsubst %.o,%.d,$(CORE_OBJ) $(SHIM_OBJ) $(CLI_OBJ)) $(UNIT_BIN:=.d)
