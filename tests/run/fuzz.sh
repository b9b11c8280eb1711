#!/bin/bash
# SPDX-License-Identifier: MIT
# Replays the corpus of every fuzz target, and runs random sequences of ioctls:
# 30 seconds, LONG=1: 10 minutes.  SEED=N chooses other ones.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
case ${MODE:-rel} in fuzz)
	echo "libFuzzer's targets run by \`make fuzz\`"
	exit 77 ;;
esac
export TSAN_OPTIONS="suppressions=tests/fuzz/ioctl/tsan.supp${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
shopt -s nullglob
seconds=30
[ -n "${LONG:-}" ] && seconds=600
bad=0
for target in "$B"/fuzz/*; do
	[ -f "$target" ] && [ -x "$target" ] || continue
	name=$(basename "$target")
	args=()
	[ "$name" = ioctl ] && args=(--seconds $seconds --seed "${SEED:-1}")
	# What guests do wrong is told on stderr; of that, the end is enough.
	"$target" "${args[@]}" tests/fuzz/corpus/"$name"/* 2> >(tail -n 100 >"$B/fuzz-$name.log")
	rc=$?
	[ $rc = 0 ] && continue
	sleep 1
	echo "FAILED: $name: exit $rc"
	tail -n 35 "$B/fuzz-$name.log"
	bad=1
done
exit $bad
