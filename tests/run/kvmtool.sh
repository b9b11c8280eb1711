#!/bin/bash
# SPDX-License-Identifier: MIT
# kvmtool as a client: LKVM=PATH of an unstripped lkvm that the user built.
# BOOTS boots (default 3, LONG=1: 10) of the cloud kernel with 2 vCPUs to a shell
# command.  (The kernel brings up one of them: kvmtool describes processors by
# MP tables, which Debian's kernels are built without.)
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
case ${MODE:-rel} in asan | tsan | fuzz)
	echo "preloading a sanitized library into an unsanitized program is not supported"
	exit 77 ;;
esac
if [ -z "${LKVM:-}" ]; then
	echo "LKVM=PATH does not name an lkvm: kvmtool is in no Debian 12 package and must be built by hand"
	exit 77
fi
[ -x "$LKVM" ] || { echo "LKVM=$LKVM is not a program"; exit 1; }
. scripts/install-packages.sh
if ! unpack_kernel; then
	echo "no linux-image-*-cloud-amd64 package in build/deb (./check downloads it)"
	exit 77
fi
busybox=$(command -v busybox) || { echo "busybox-static is not installed"; exit 77; }
boots=${BOOTS:-3}
[ -n "${LONG:-}" ] && boots=${BOOTS:-10}
dir=$B/kvmtool
mkdir -p "$dir/home"
cat >"$dir/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
echo "BOOT $(/bin/busybox uname -r) $(/bin/busybox seq 1 1000 | /bin/busybox md5sum)"
/bin/busybox reboot -f
INIT
"$B"/tools/mkinitrd "$dir/initrd" init="$dir/init":755 bin/busybox="$busybox":755 proc/ dev/ || exit 1
bad=0 times= n=0
for ((i = 0; i < boots; i++)); do
	start=$(date +%s%N)
	HOME=$PWD/$dir/home timeout -k 5 100 ./locum exec -- "$LKVM" run -k build/kernel/vmlinuz \
		-i "$dir/initrd" -c 2 -m 512 --network mode=none -p 'console=ttyS0 quiet' \
		</dev/null >"$dir/console" 2>"$dir/errors"
	rc=$?
	n=$((n + 1))
	if [ $rc != 0 ] || ! tr -d '\r' <"$dir/console" |
		grep -q '^BOOT [^ ]* 53d025127ae99ab79e8502aae2d9bea6  -$'; then
		echo "boot $i: exit $rc"
		tail -n 5 "$dir/console" "$dir/errors"
		bad=1
		continue
	fi
	times="$times $((($(date +%s%N) - start) / 1000000))"
done
echo "$times" | tr ' ' '\n' | grep . | sort -n | awk '{ t[NR] = $1 }
	END { if (NR) printf "TABLE kvmtool, 2 vCPUs: %d boots, median %.2f s, worst %.2f s\n", NR, t[int((NR + 1) / 2)] / 1000, t[NR] / 1000 }'

# Without symbols the test of the host cannot be found: one line, exit 2.
if ! grep -qwE '^flags.*(vmx|svm)' /proc/cpuinfo && command -v strip >/dev/null; then
	n=$((n + 1))
	strip -o "$dir/lkvm" "$LKVM" || exit 1
	out=$(timeout 20 ./locum exec -- "$dir/lkvm" run -k build/kernel/vmlinuz 2>&1 </dev/null)
	rc=$?
	if [ $rc != 2 ] || [ "$(wc -l <<<"$out")" != 1 ] || ! grep -q 'without its symbols' <<<"$out"; then
		echo "FAILED: a stripped lkvm: exit $rc: $out"
		bad=1
	fi
fi
echo "CASES $n"
exit $bad
