#!/bin/bash
# SPDX-License-Identifier: MIT
# Debian's QEMU, unmodified, as a KVM client: boots the cloud kernel with its
# interrupt controllers here, split and its own.
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
bad=0
while read -r cpus machine; do
	start=$(date +%s%N)
	# shellcheck disable=SC2086
	timeout -k 5 120 ./locum exec -- qemu-system-x86_64 -M $machine -smp $cpus -accel kvm -m 256 \
		-nodefaults -no-reboot -display none -serial stdio -kernel build/kernel/vmlinuz \
		-initrd "$B/boot/initrd" -append 'console=ttyS0 quiet panic=-1' \
		</dev/null >"$B/boot/qemu.log" 2>&1
	rc=$?
	ms=$((($(date +%s%N) - start) / 1000000))
	if [ $rc = 0 ] && tr -d '\r' <"$B/boot/qemu.log" | grep -qa "^BOOT [^ ]* $cpus "; then
		echo "TABLE qemu -M $machine -smp $cpus: pass ($ms ms)"
	else
		echo "TABLE qemu -M $machine -smp $cpus: FAIL (exit $rc, $ms ms)"
		tail -n 5 "$B/boot/qemu.log"
		bad=1
	fi
done <<'LIST'
2 pc
1 q35,kernel-irqchip=split
1 pc,kernel-irqchip=off
2 microvm
LIST
exit $bad
