#!/bin/sh
# SPDX-License-Identifier: MIT
# Every header compiles alone.  $1: compiler command line for one C source.
cd "$(dirname "$0")/.." || exit 2
status=0
for h in $(find src include -name '*.h' ! -name '*.inc.h' | sort); do
	$1 "$h" || { echo "$h: does not compile alone"; status=1; }
done
exit $status
