#!/bin/bash
# SPDX-License-Identifier: MIT
# The small KVM clients of tests/client under `locum exec`.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
case ${MODE:-rel} in asan | tsan | fuzz)
	echo "preloading a sanitized library into an unsanitized program is not supported"
	exit 77 ;;
esac
kicks=10000
[ -n "${LONG:-}" ] && kicks=200000
bad=0 n=0
for bin in "$B"/tests/client/*; do
	[ -x "$bin" ] && [ ! -d "$bin" ] || continue
	name=$(basename "$bin")
	args=
	[ "$name" = kicks ] && args=$kicks
	start=$(date +%s%N)
	# shellcheck disable=SC2086
	timeout -k 5 "${TEST_TIMEOUT:-250}" ./locum exec -- "$bin" $args
	rc=$?
	ms=$((($(date +%s%N) - start) / 1000000))
	n=$((n + 1))
	[ $rc = 0 ] || bad=1
	echo "TABLE $name: $([ $rc = 0 ] && echo pass || echo "FAIL ($rc)") ($ms ms)"
done
echo "CASES $n"
exit $bad
