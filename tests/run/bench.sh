#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `locum bench invlpg`: exact invalidation needs less than a third of the walks
# that dropping the whole VPID needs, on a heap with page-protection barriers.
set -u
B=${B:-build/rel}
cd "$(dirname "$0")/../.." || exit 2
kernel=${KERNEL:-build/kernel/vmlinuz}
[ -f "$kernel" ] || { echo "SKIP: no kernel at $kernel: scripts/install-packages.sh fetches it"; exit 77; }
json=$(mktemp)
trap 'rm -f "$json"' EXIT
"$B/locum" bench --quick --kernel "$kernel" --json "$json" invlpg || exit 1
value() { # column
	grep -F '"gc-heap", "unit": "walks"' "$json" | grep -oE "\"$1\": [0-9]+" | grep -oE '[0-9]+$'
}
address=$(value address) context=$(value context)
echo "walks on the heap: address $address, context $context"
[ -n "$address" ] && [ "$address" -gt 0 ] && [ $((address * 3)) -lt "$context" ]
