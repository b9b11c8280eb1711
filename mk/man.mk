# SPDX-License-Identifier: MIT
MAN := $(wildcard man/*.[1-8])

install: install-man
install-man:
	$(foreach m,$(MAN),install -Dm644 $(m) $(DESTDIR)$(PREFIX)/share/man/man$(subst .,,$(suffix $(m)))/$(notdir $(m)) && ):

# Every key of the settings stands in the page, and troff finds no fault in it.
lint: man-lint
man-lint:
	$(Q)for k in $$(grep -oE '^	\{ "[a-z]+\.?[a-z_]*", "' src/api/config.c | cut -d'"' -f2); do \
		grep -q "^\.It Cm $$k " man/locum.1 || { echo "man/locum.1: no word of $$k" >&2; exit 1; }; done
	$(Q)! command -v groff >/dev/null || for m in $(MAN); do \
		groff -man -mdoc -Tutf8 -ww -z $$m 2>&1 | grep . && exit 1 || :; done
.PHONY: install-man man-lint
