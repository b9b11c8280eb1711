#!/bin/bash
# SPDX-License-Identifier: MIT
# The kernel's KVM selftests, unmodified, under `locum exec`; expectations in
# tests/selftests/list.txt.  Arguments: names to run instead of the whole list.
set -u
cd "$(dirname "$0")/../.." || exit 2
case ${MODE:-rel} in asan | tsan | fuzz)
	echo "preloading a sanitized library into an unsanitized program is not supported"
	exit 77 ;;
esac
list=tests/selftests/list.txt
names=$(awk -v long="${LONG:-}" '$1 !~ /^#/ && NF && ($2 != "long" || long) { print $1 }' $list)
[ $# -gt 0 ] && names=$*
# shellcheck disable=SC2086
scripts/build-selftests.sh $names
rc=$?
[ $rc = 0 ] || exit $rc

# kvm_clock_test insists that the host's clocksource is the TSC.
run() {
	local name=$1 file=/sys/devices/system/clocksource/clocksource0/current_clocksource
	shift
	if [ "$name" = kvm_clock_test ] && [ "$(cat $file 2>/dev/null)" != tsc ]; then
		echo tsc >build/selftests/clocksource
		# shellcheck disable=SC2016
		unshare -m sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' \
			build/selftests/clocksource $file ./locum exec -- "$@"
	else
		./locum exec -- "$@"
	fi
}

# judge WANT EXIT: sets got (for reports) and kind: pass, skip or bad.
judge() {
	case $2 in 0) got=pass ;; 4) got=skip ;; 124 | 137) got=timeout ;; *) got="fail($2)" ;; esac
	case $1:$got in
	pass:pass | long:pass) kind=pass ;;
	skip:skip | needs:fail* | xfail:fail* | xfail:timeout) kind=skip ;;
	*) kind=bad ;;
	esac
}

bad=0 passed=0 skipped=0
for name in $names; do
	read -r _ want args <<<"$(awk -v n="$name" '$1 == n' $list | tr '\t' ' ')"
	# A reason has spaces; arguments follow `pass` and `long` alone.
	reason=
	case $want in *:*) reason=":${want#*:}${args:+ $args}" want=${want%%:*} args= ;; esac
	log=build/selftests/$name.log
	start=$(date +%s%N)
	LIMIT=${SELFTEST_TIMEOUT:-$([ "$want" = long ] && echo 1200 || echo 120)}
	# shellcheck disable=SC2086
	( ulimit -c 0; export -f run; timeout -k 5 "$LIMIT" bash -c 'run "$@"' - "$name" \
		build/selftests/bin/"$name" ${args:-} ) >"$log" 2>&1 </dev/null
	judge "$want" $?
	ms=$((($(date +%s%N) - start) / 1000000))
	case $kind in
	pass) passed=$((passed + 1)); echo "TABLE $name: pass ($ms ms)" ;;
	skip) skipped=$((skipped + 1)); echo "TABLE $name: $want$reason ($ms ms)" ;;
	bad)
		bad=$((bad + 1))
		echo "TABLE $name: $got, expected ${want:-a row} ($ms ms); last lines:"
		tail -n 15 "$log" | sed 's/^/    /' ;;
	esac
done

# Every test of the source has its row.
if [ $# = 0 ]; then
	for f in build/selftests/src/*/tools/testing/selftests/kvm/{,x86_64/}*.c; do
		name=$(basename "$f" .c)
		awk -v n="$name" '$1 == n { found = 1 } END { exit !found }' $list && continue
		echo "TABLE $name: no row in $list"
		bad=$((bad + 1))
	done
fi
echo "TABLE selftests: $passed pass, $skipped skip with reasons, $bad fail"
echo "CASES $((passed + skipped + bad))"
[ $bad = 0 ]
