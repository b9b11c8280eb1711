#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `locum bench invlpg`: exact invalidation needs less than a third of the walks
# that dropping the whole VPID needs, on a heap with page-protection barriers.
# The workloads of `locum bench peers` in small: the checksums in a guest are
# those on the host.
set -u
B=${B:-build/rel}
cd "$(dirname "$0")/../.." || exit 2
kernel=${KERNEL:-build/kernel/vmlinuz}
. scripts/install-packages.sh
[ -n "${KERNEL:-}" ] || unpack_kernel
[ -f "$kernel" ] || { echo "SKIP: no kernel at $kernel: scripts/install-packages.sh fetches it"; exit 77; }
json=$(mktemp)
trap 'rm -f "$json"' EXIT
"$B/locum" bench --quick --kernel "$kernel" --json "$json" invlpg || exit 1
value() { # column
	grep -F '"gc-heap", "unit": "walks"' "$json" | grep -oE "\"$1\": [0-9]+" | grep -oE '[0-9]+$'
}
address=$(value address) context=$(value context)
echo "walks on the heap: address $address, context $context"
bad=0
[ -n "$address" ] && [ "$address" -gt 0 ] && [ $((address * 3)) -lt "$context" ] || bad=1

case ${MODE:-rel} in
asan | tsan | cov) echo "SKIP the workloads of peers: too slow in this mode"; exit $bad ;;
esac
dir=$B/bench
mkdir -p "$dir"
WORK_DIVIDE=200 "$B/guest/bench" all >"$dir/host"
"$B/locum" run -k "$kernel" -i "$B/guest/bench.initrd" -c 2 -m 512 --timeout 250 \
	-p 'console=ttyS0 quiet panic=-1 WORK=all WORK_DIVIDE=200' </dev/null 2>&1 | tr -d '\r' >"$dir/guest"
n=0
for row in $(sed -n 's/^ROW("\([^"]*\)".*/\1/p' src/cli/bench_rows.def); do
	host=$(awk -v r="$row" '$1 == "RESULT" && $2 == r { print $4 }' "$dir/host")
	guest=$(awk -v r="$row" '$1 == "RESULT" && $2 == r { print $4 }' "$dir/guest")
	if [ -n "$guest" ] && [ "${host:-$guest}" = "$guest" ]; then
		n=$((n + 1))
	elif grep -q "^SKIP $row " "$dir/guest"; then
		grep "^SKIP $row " "$dir/guest"
	else
		echo "FAILED: $row: checksum ${host:-none} on the host, ${guest:-none} in the guest: $(grep -a "^FAIL $row " "$dir/guest" "$dir/host")"
		bad=1
	fi
done
[ $bad = 0 ] || tail -n 5 "$dir/guest"

# The command itself, where it compares two columns.
mkdir -p "$dir/tmp"
TMPDIR=$dir/tmp "$B/locum" bench peers --quick --rounds 1 --only boot,fib,futex/2 --columns locum-run,native \
	--kernel "$kernel" --json "$json" >"$dir/table" 2>&1 || { echo "FAILED: bench peers: exit $?"; tail -n 5 "$dir/table"; bad=1; }
[ -z "$(ls "$dir/tmp")" ] || { echo "FAILED: left behind: $(ls "$dir/tmp")"; bad=1; }
number='[0-9]+\.[0-9]+'
for want in "\"boot\", \"unit\": \"s\", \"values\": {\"locum-run\": $number}" \
	"\"fib\", \"unit\": \"ns\", \"values\": {\"locum-run\": $number, \"native\": $number}" \
	"\"futex/2\", \"unit\": \"ns\", \"values\": {\"locum-run\": $number" \
	"\"integer\", \"ratios\": {\"locum-run/native\": $number}"; do
	grep -qE "$want" "$json" || { echo "FAILED: not in the JSON: $want"; bad=1; }
	n=$((n + 1))
done
echo "CASES $n"
exit $bad
