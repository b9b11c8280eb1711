#!/bin/bash
# SPDX-License-Identifier: MIT
# AVX2, FMA, F16C, AES, PCLMULQDQ, x87 and MMX in a Linux guest, more processes than vCPUs:
# the same results as on the host.  Without AVX the guest must not find it.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
. scripts/install-packages.sh
unpack_kernel || { echo "no linux-image-*-cloud-amd64 package in build/deb (./check downloads it)"; exit 77; }
limit=60
case ${MODE:-rel} in asan | tsan | cov) limit=270 ;; esac
dir=$B/vec
mkdir -p "$dir"
"$B/guest/vec" | sort >"$dir/host"
grep -q 'VEC done 0' "$dir/host" || { echo "the host: $(head -n 1 "$dir/host")"; exit 77; }
"$B/tools/mkinitrd" "$dir/initrd" init="$B/guest/vec":755 proc/ dev/ || exit 1
bad=0

# guest CPUS EXPECTED [OPTION...]
guest() {
	local cpus=$1 expected=$2
	shift 2
	"$B/locum" run -k build/kernel/vmlinuz -i "$dir/initrd" -c "$cpus" -m 256 \
		-p 'console=ttyS0 quiet panic=-1' --timeout $limit "$@" </dev/null >"$dir/console" 2>"$dir/errors"
	local rc=$?
	tr -d '\r' <"$dir/console" | grep -a '^VEC' | sort >"$dir/guest"
	if [ $rc != 0 ] || ! diff "$expected" "$dir/guest" >"$dir/diff"; then
		echo "FAILED: $cpus vCPUs $*: exit $rc; host (<) and guest (>):"
		cat "$dir/diff"
		tail -n 5 "$dir/errors"
		bad=1
	fi
}

guest 1 "$dir/host"
guest 3 "$dir/host"
printf 'VEC done 77\nVEC no AVX2, FMA or PCLMULQDQ\n' | sort >"$dir/none"
guest 1 "$dir/none" --set host.hide=avx
echo "CASES 3"
exit $bad
