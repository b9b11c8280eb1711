#!/bin/bash
# SPDX-License-Identifier: MIT
# Debian's cloud kernel to a shell command: BOOTS times (default 2, LONG=1: 20)
# with 1, 2 and 4 vCPUs.  None may hang; the median time is printed.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
. scripts/install-packages.sh
if ! unpack_kernel; then
	echo "no linux-image-*-cloud-amd64 package in build/deb (./check downloads it)"
	exit 77
fi
busybox=$(command -v busybox) || { echo "busybox-static is not installed"; exit 77; }
boots=${BOOTS:-2}
[ -n "${LONG:-}" ] && boots=${BOOTS:-20}
limit=60
case ${MODE:-rel} in asan | tsan | cov) boots=1 limit=270 ;; esac
dir=$B/boot
mkdir -p "$dir"
cat >"$dir/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
echo "BOOT $(/bin/busybox uname -r) $(/bin/busybox nproc) $(/bin/busybox seq 1 1000 | /bin/busybox md5sum)"
echo LOCUM-BOOT-DONE
/bin/busybox poweroff -f
INIT
"$B"/tools/mkinitrd "$dir/initrd" init="$dir/init":755 bin/busybox="$busybox":755 proc/ sys/ dev/ ||
	exit 1
bad=0
for cpus in 1 2 4; do
	times=
	[ "$boots" = 1 ] && [ $cpus = 4 ] && [ $limit != 60 ] && continue
	for ((i = 0; i < boots; i++)); do
		"$B"/locum run -k build/kernel/vmlinuz -i "$dir/initrd" -c $cpus -m 512 \
			-p 'console=ttyS0 quiet panic=-1' --timeout $limit --time-marker LOCUM-BOOT-DONE \
			--stats "$dir/stats.json" </dev/null >"$dir/console" 2>"$dir/errors"
		rc=$?
		want="$cpus 53d025127ae99ab79e8502aae2d9bea6  -"
		if [ $rc != 0 ] || ! tr -d '\r' <"$dir/console" | grep -q "^BOOT [^ ]* $want\$"; then
			echo "boot $i with $cpus vCPUs: exit $rc"
			tail -n 5 "$dir/console" "$dir/errors"
			bad=1
			continue
		fi
		grep -q '"tlb_flush_fallback": [1-9]' "$dir/stats.json" && { echo "tlb_flush_fallback is not 0"; bad=1; }
		times="$times $(sed -n 's/.*DONE" \([0-9.]*\) s.*/\1/p' "$dir/errors")"
	done
	echo "$times" | tr ' ' '\n' | grep . | sort -n | awk -v c=$cpus '{ t[NR] = $1 }
		END { if (NR) printf "TABLE boot, %d vCPUs: %d of them, median %.2f s, worst %.2f s\n", c, NR, t[int((NR + 1) / 2)], t[NR] }'
done
exit $bad
