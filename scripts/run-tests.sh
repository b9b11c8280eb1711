#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the test programs named as arguments and prints one line for each.
#
# A test passes with exit code 0, is skipped with 77 (its last line says why)
# and fails otherwise; its output is shown when it fails.  TEST_TIMEOUT
# (seconds, default 300) bounds each.  A script may print "CASES n" as a line
# of its own to say how many cases it ran.  Last line: "N passed, N failed".
cd "$(dirname "$0")/.." || exit 2
logs=$B/test-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0
for t in "$@"; do
	name=${t#"$B"/}
	name=${name#tests/}
	log=$logs/$(echo "$name" | tr / _).log
	start=$(date +%s%N)
	timeout -k 10 "${TEST_TIMEOUT:-300}" "$t" >"$log" 2>&1 </dev/null
	rc=$?
	ms=$((($(date +%s%N) - start) / 1000000))
	time=$(printf '%d.%03d s' $((ms / 1000)) $((ms % 1000)))
	case $rc in
	0)
		passed=$((passed + 1))
		echo "PASS $name ($time)"
		grep -E '^(CASES|SEED|TABLE|SKIP|XFAIL)' "$log" | sed 's/^/     /'
		;;
	77)
		skipped=$((skipped + 1))
		echo "SKIP $name: $(tail -n 1 "$log")"
		;;
	*)
		failed=$((failed + 1))
		[ $rc = 124 ] || [ $rc = 137 ] && echo "(timed out)" >>"$log"
		echo "FAIL $name (exit $rc, $time), last lines of $log:"
		tail -n 40 "$log" | sed 's/^/     /'
		;;
	esac
done
[ $skipped = 0 ] || echo "$skipped skipped, with the reasons above"
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
