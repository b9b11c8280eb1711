#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `locum stat`: counters of a running VM from outside.
set -u
B=${B:-build/rel}
cd "$(dirname "$0")/../.." || exit 2
tmp=$(mktemp -d)
passed=0 failed=0
check() { # what, command...
	local what=$1
	shift
	if "$@"; then
		echo "ok: $what"
		passed=$((passed + 1))
	else
		echo "FAIL: $what"
		failed=$((failed + 1))
	fi
}
stat() { "$B/locum" stat "$@"; }

"$B/locum" run -k "$B/guest/bare/spin" -c 2 --timeout 60 2> "$tmp/err" > /dev/null < /dev/null &
pid=$!
trap 'kill $pid 2> /dev/null; wait; rm -rf "$tmp"' EXIT
for _ in $(seq 100); do
	stat $pid > "$tmp/table" 2> /dev/null && grep -q '^exits ' "$tmp/table" && break
	sleep 0.1
done

check 'the table counts one VM and two vCPUs' grep -qx '1 VM, 2 vCPUs' "$tmp/table"
check 'in a pipe there is one table and no rates' \
	test "$(grep -c '^counter  *total$' "$tmp/table")" = 1
stat --json $pid > "$tmp/json"
check '--json names the process, its VM and two vCPUs' \
	grep -qE "^\[\{\"pid\": $pid, \"id\": \"kvm-$pid\.1\", \"vm\": \{[^}]*\}, \"vcpus\": \[\{[^}]*\}, \{[^}]*\}\]\}\]$" "$tmp/json"
check '--json has the processor'\''s and the TLB'\''s counters' \
	grep -qE '"exits": [0-9]+.*"walks": [0-9]+' "$tmp/json"
check 'without a process, the VM is found as well' \
	eval 'stat --json | grep -q "\"pid\": $pid,"'

err=$(stat 999999999 2>&1)
check 'no such process: one line, exit 2' test "$? $err" = \
	'2 locum stat: process 999999999: no such process'
err=$(stat $$ 2>&1)
check 'a process without VMs: one line, exit 2' test "$? $err" = \
	"2 locum stat: process $$ has no VM of Locum"
err=$(stat --frob 2>&1)
check 'an unknown option: one line, exit 2' test "$? $(wc -l <<< "$err")" = '2 1'

kill -9 $pid
wait $pid 2> /dev/null
err=$(stat $pid 2>&1)
check 'after kill -9 nothing is left' test $? = 2
echo "$passed passed, $failed failed"
[ $failed = 0 ]
