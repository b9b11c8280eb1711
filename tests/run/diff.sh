#!/bin/sh
# SPDX-License-Identifier: MIT
# Random instructions on the host's processor and in the interpreter.
# LONG=1: ten million cases.  DIFF_CASES, DIFF_SEED override.
if [ "$MODE" = tsan ]; then
	echo "one thread, at addresses that ThreadSanitizer wants for itself"
	exit 77
fi
cases=200000
[ -n "$LONG" ] && cases=10000000
[ -n "$DIFF_CASES" ] && cases=$DIFF_CASES
# Random 32-bit addresses would hit AddressSanitizer's memory: our side alone.
case $MODE in
asan | fuzz) only=--guest-only ;;
*) only= ;;
esac
status=0
"$B/tests/diff/runner" --regress tests/diff/cases.def || status=1
"$B/tests/diff/runner" $only --cases "$cases" ${DIFF_SEED:+--seed "$DIFF_SEED"} \
	${LONG:+--coverage} || status=1
# Which bytes a fault names, and the like, was measured on AMD's processors.
if [ $status != 0 ] && ! grep -qE '^vendor_id.*(AuthenticAMD|HygonGenuine)' /proc/cpuinfo; then
	echo "differences on a vendor whose details have not been measured yet: see the log"
	exit 77
fi
exit $status
