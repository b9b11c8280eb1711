#!/bin/bash
# SPDX-License-Identifier: MIT
# Every fallback: the host is made to lack each feature in turn, and all at once.
#   each: random instructions against the host's processor, one bare guest
#   all:  the unit tests of the processor, and a boot of Linux on two vCPUs
# The names come from the program's own message.  An instruction set that only
# the host's own instructions can execute is #UD without them and not compared.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
L=$B/locum
names=$($L run -k /dev/null --set host.hide=? 2>&1 | sed -n 's/.*any of //p' | tr + ' ')
[ -n "$names" ] || { echo "locum does not list what can be hidden"; exit 1; }
all=${names// /+}
only= cases=${DIFF_CASES:-4000}
case ${MODE:-rel} in
asan | fuzz) only=--guest-only ;; # as in diff.sh
esac
dir=$B/hide
mkdir -p "$dir"
bad=0 n=0

# try NAME CODE COMMAND...: its output is shown if it ends otherwise.  77 is a skip.
try() {
	local name=$1 code=$2 rc
	shift 2
	n=$((n + 1))
	timeout 250 "$@" >"$dir/out" 2>&1 </dev/null
	rc=$?
	[ $rc = "$code" ] || [ $rc = 77 ] && return
	# As in diff.sh: one case of some 100,000 still differs on Intel's.
	case $* in *diff/runner*)
		if ! grep -qE '^vendor_id.*(AuthenticAMD|HygonGenuine)' /proc/cpuinfo; then
			echo "without $name: differences on a vendor whose details are not all measured yet"
			return
		fi ;;
	esac
	echo "FAILED without $name: $* (exit $rc)"
	tail -n 8 "$dir/out"
	bad=1
}

for one in $names $all; do
	if [ "${MODE:-rel}" != tsan ]; then
		# shellcheck disable=SC2086
		try "$one" 0 env HIDE="$one" "$B/tests/diff/runner" $only --cases "$cases"
	fi
	try "$one" 43 "$L" run -k "$B/guest/bare/hello" --set host.hide="$one" --timeout 30
done
for t in tests/unit/cpu/*.c; do
	try everything 0 env HIDE="$all" "$B/${t%.c}"
done
for t in tests/unit/vm/*.c tests/unit/api/*.c; do
	try everything 0 env LOCUM_SET=host.hide="$all" "$B/${t%.c}"
done

. scripts/install-packages.sh
busybox=$(command -v busybox)
if [ -n "$busybox" ] && unpack_kernel; then
	cat >"$dir/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
echo "HIDDEN $(/bin/busybox nproc) $(/bin/busybox seq 1 1000 | /bin/busybox md5sum)"
/bin/busybox poweroff -f
INIT
	"$B"/tools/mkinitrd "$dir/initrd" init="$dir/init":755 bin/busybox="$busybox":755 \
		proc/ dev/ || exit 1
	for one in tsc "$all"; do
		try "$one" 0 "$L" run -k build/kernel/vmlinuz -i "$dir/initrd" -c 2 -m 512 \
			-p 'console=ttyS0 quiet panic=-1' --timeout 200 --set host.hide="$one"
		tr -d '\r' <"$dir/out" | grep -q '^HIDDEN 2 53d025127ae99ab79e8502aae2d9bea6 ' ||
			{ echo "FAILED without $one: no greeting from Linux"; tail -n 5 "$dir/out"; bad=1; }
	done
else
	echo "SKIP the boots: no kernel in build/deb or no busybox-static (./check gets them)"
fi
echo "CASES $n"
exit $bad
