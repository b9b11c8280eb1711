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

bad=0 n=0
for name in $names; do
	read -r _ want args <<<"$(awk -v n="$name" '$1 == n' $list)"
	[ "$want" = long ] && want=pass
	log=build/selftests/$name.log
	start=$(date +%s%N)
	# shellcheck disable=SC2086
	LIMIT=${SELFTEST_TIMEOUT:-120}
	( ulimit -c 0; export -f run; timeout -k 5 "$LIMIT" bash -c 'run "$@"' - "$name" \
		build/selftests/bin/"$name" ${args:-} ) >"$log" 2>&1 </dev/null
	rc=$?
	ms=$((($(date +%s%N) - start) / 1000000))
	case $rc in 0) got=pass ;; 4) got=skip ;; 124 | 137) got=timeout ;; *) got="fail($rc)" ;; esac
	n=$((n + 1))
	if [ "$got" = "${want%%:*}" ] || { [ "${want%%:*}" = xfail ] && [ $got != pass ]; }; then
		echo "TABLE $name: $got ($ms ms)${want#"${want%%:*}"}"
	else
		bad=1
		echo "TABLE $name: $got, expected ${want:-pass} ($ms ms); last lines:"
		tail -n 15 "$log" | sed 's/^/    /'
	fi
done
echo "CASES $n"
exit $bad
