#!/bin/bash
# SPDX-License-Identifier: MIT
# Replays the corpus of every fuzz target.
set -u
cd "$(dirname "$0")/../.." || exit 2
for target in "${B:-build/rel}"/fuzz/*; do
	[ -x "$target" ] || continue
	"$target" tests/fuzz/corpus/"$(basename "$target")"/* || exit 1
done
