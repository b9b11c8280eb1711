# SPDX-License-Identifier: MIT
kut: all ## run kvm-unit-tests images of the folder KUT=DIR (built there by you)
	$(Q)B=$(B) scripts/kut.sh "$(or $(KUT),$(error usage: make kut KUT=FOLDER))" $(NAMES)
.PHONY: kut
