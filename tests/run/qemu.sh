#!/bin/bash
# SPDX-License-Identifier: MIT
# QEMU's machines, interrupt controllers, processors and models: the cloud kernel
# boots to its init on every one.
# BOOTS=N boots of each (default 1, LONG=1: 50); TCG=1: the same under QEMU TCG beside
# them; ONLY=TEXT: the rows that contain it.
set -u
cd "$(dirname "$0")/../.." || exit 2
case ${MODE:-rel} in asan | tsan | fuzz)
	echo "preloading a sanitized library into an unsanitized program is not supported"
	exit 77 ;;
esac
B=${B:-build/rel}
. scripts/install-packages.sh
command -v qemu-system-x86_64 >/dev/null || { echo "qemu-system-x86 is not installed"; exit 77; }
unpack_kernel || { echo "no linux-image-*-cloud-amd64 package in build/deb"; exit 77; }
[ -f "$B/boot/initrd" ] || BOOTS=1 tests/run/boot.sh >/dev/null || { echo "no initrd"; exit 1; }
boots=${BOOTS:-$([ -n "${LONG:-}" ] && echo 50 || echo 1)}
dir=$B/qemu
mkdir -p "$dir"
bad=0 n=0

# boot ACCEL CPUS MACHINE MODEL: prints milliseconds from start to power-off.
boot() {
	accel=$1 cpus=$2 machine=$3 model=$4
	start=$(date +%s%N)
	set -- qemu-system-x86_64 -M "$machine" -smp "$cpus" -cpu "$model" -m 256 \
		-nodefaults -no-user-config -no-reboot -display none -serial stdio \
		-kernel build/kernel/vmlinuz -initrd "$B/boot/initrd" \
		-append 'console=ttyS0 quiet panic=-1' -accel "$accel"
	[ "$accel" = kvm ] && set -- ./locum exec -- "$@"
	timeout -k 5 "${BOOT_TIMEOUT:-60}" "$@" </dev/null >"$dir/log" 2>&1
	rc=$?
	echo $((($(date +%s%N) - start) / 1000000))
	[ $rc = 0 ] && tr -d '\r' <"$dir/log" | grep -qa "^BOOT [^ ]* $cpus "
}

median() {
	printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

while read -r cpus machine model wanted; do
	row="-M $machine -smp $cpus -cpu $model"
	case $row in *"${ONLY:-}"*) ;; *) continue ;; esac
	good=0 times=()
	if [ "$wanted" = xfail ]; then
		n=$((n + 1))
		if BOOT_TIMEOUT=10 boot kvm "$cpus" "$machine" "$model" >/dev/null; then
			echo "TABLE $row: boots, although docs/quirks.md says that it does not"
			bad=1
		else
			echo "TABLE $row: fails, as docs/quirks.md says"
		fi
		continue
	fi
	for ((i = 0; i < boots; i++)); do
		if t=$(boot kvm "$cpus" "$machine" "$model"); then
			good=$((good + 1))
		else
			tail -n 5 "$dir/log"
			bad=1
		fi
		times+=("$t")
	done
	n=$((n + 1))
	beside=
	if [ -n "${TCG:-}" ]; then
		if t=$(boot tcg "$cpus" "$(sed 's/,kernel-irqchip=[a-z]*//' <<<"$machine")" \
			"${model/host/max}"); then
			beside=", TCG $t ms"
		else
			beside=", TCG fails"
		fi
	fi
	echo "TABLE $row: $good of $boots, $(median "${times[@]}") ms$beside"
done <<'LIST'
1 pc max
2 pc max
4 pc max
1 pc,kernel-irqchip=split max
2 pc,kernel-irqchip=split max
1 pc,kernel-irqchip=off max
2 pc,kernel-irqchip=off max xfail
1 q35 max
2 q35 max
4 q35 max
1 q35,kernel-irqchip=split max
2 q35,kernel-irqchip=split max
1 q35,kernel-irqchip=off max
2 q35,kernel-irqchip=off max xfail
1 microvm max
2 microvm max
4 microvm max
2 microvm,kernel-irqchip=split max
1 microvm,kernel-irqchip=off max
1 microvm,pit=off,pic=off,rtc=off max
2 microvm,pit=off,pic=off,rtc=off max
2 pc host
2 q35 host
2 pc qemu64
2 q35 qemu64
LIST
echo "CASES $n"
exit $bad
