# SPDX-License-Identifier: MIT
# docs/abi.md: the table of ioctls and capabilities, for readers.
GENABI := $(B)/gen/genabi

$(GENABI): tools/genabi.c src/api/ioctls.def src/api/caps.def
	$(SAY) HOSTCC $@
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -D_GNU_SOURCE -Isrc $(WARN) -o $@ tools/genabi.c

abi: $(GENABI) ## write docs/abi.md
	$(Q)$(GENABI) > docs/abi.md

lint: abi-lint
abi-lint: $(GENABI)
	$(Q)$(GENABI) | cmp -s - docs/abi.md || { echo 'docs/abi.md is not what the tables say: make abi' >&2; exit 1; }
.PHONY: abi abi-lint
