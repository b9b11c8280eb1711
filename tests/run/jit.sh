#!/bin/bash
# SPDX-License-Identifier: MIT
# The processor's unit tests with the translator, random instructions through
# it, and the other engine where the translator is the default.
# LONG=1: ten million cases.  DIFF_CASES, DIFF_SEED override.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
bad=0 n=0 differs=0
for t in "$B"/tests/unit/cpu/*; do
	[ -x "$t" ] && [ ! -d "$t" ] || continue
	n=$((n + 1))
	if ! LOCUM_TEST_ENGINE=jit timeout 200 "$t" >"$B/jit-test" 2>&1; then
		echo "$t with the translator:"
		tail -n 20 "$B/jit-test"
		bad=1
	fi
done
if [ "${MODE:-rel}" = rel ] || [ "${MODE:-rel}" = dbg ]; then
	cases=300000
	[ -n "${LONG:-}" ] && cases=10000000
	"$B/tests/diff/runner" --jit --regress tests/diff/cases.def || differs=1
	"$B/tests/diff/runner" --jit --cases "${DIFF_CASES:-$cases}" \
		${DIFF_SEED:+--seed "$DIFF_SEED"} || differs=1
	n=$((n + 1))
fi
echo "CASES $n"
[ $differs = 0 ] && exit $bad
# As in diff.sh.
if [ $bad = 0 ] && ! grep -qE '^vendor_id.*(AuthenticAMD|HygonGenuine)' /proc/cpuinfo; then
	echo "differences on a vendor whose details are not all measured yet: see the log"
	exit 77
fi
exit 1
