#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run kvm-unit-tests images from the folder KUT (built there by its owner:
# ./configure && make) and compare with tests/kut/expected.txt, which may only
# improve.  Each run of x86/unittests.cfg is made twice: by QEMU with
# `locum exec`, with the configuration's own parameters, and by `locum run`.
#
#   scripts/kut.sh KUT [NAME...]
#   LIMIT=S  seconds a run, 180 by default       ONLY=qemu|run  one side
#   LOGS=DIR the console of every run, build/kut by default
set -u
kut=${1:?usage: scripts/kut.sh FOLDER [NAME...]}
shift
cd "$(dirname "$0")/.." || exit 2
expected=tests/kut/expected.txt
B=${B:-build/rel}
limit=${LIMIT:-180}
logs=${LOGS:-build/kut}
[ -f "$kut/x86/unittests.cfg" ] || { echo "kut: no x86/unittests.cfg in $kut"; exit 2; }
ls "$kut"/x86/*.flat >/dev/null 2>&1 || { echo "kut: no images in $kut/x86: build them there first"; exit 2; }
mkdir -p "$logs"

# One line a run: name, image, processors, architecture, groups, parameters of
# QEMU, arguments of the image; an empty field is "-".
runs() {
	awk -v OFS='\t' '
	function put() {
		if (name != "")
			print name, v["file"], v["smp"], v["arch"], v["groups"], v["qemu_params"], v["test_args"]
	}
	function clear() {
		v["file"] = v["arch"] = v["groups"] = v["qemu_params"] = v["test_args"] = "-"
		v["smp"] = 1
	}
	/^\[/ { put(); clear(); name = substr($0, 2, length($0) - 2); next }
	/^[a-z_]+ *=/ {
		key = $1; sub(/=.*/, "", key)
		text = $0; sub(/^[a-z_]+ *= */, "", text)
		gsub(/^["\047]|["\047]$/, "", text)
		v[key] = text
	}
	END { put() }' "$kut/x86/unittests.cfg"
	# One of ours: what AMD processors do otherwise.
	printf 'emulator-intel\temulator.flat\t1\t-\t-\t-cpu qemu64,vendor=GenuineIntel\t-\n'
}

# --cpu of `locum run` from QEMU's -cpu MODEL,LIST: the switches and the vendor.
cpu_switches() {
	local list=${1#*-cpu } word out=
	[ "$list" != "$1" ] || return 0
	list=${list%% *}
	while IFS= read -r word; do
		case $word in
		[+-]* | vendor=GenuineIntel | vendor=AuthenticAMD) out+=,$word ;;
		esac
	done <<< "$(tr , '\n' <<< "$list")"
	out=${out//vendor=GenuineIntel/vendor=intel}
	out=${out//vendor=AuthenticAMD/vendor=amd}
	echo "${out#,}"
}

memory_of() {
	local m
	m=$(grep -oE -- '-m [0-9]+' <<< "$1" | cut -d' ' -f2)
	echo "${m:-512}"
}

# run_SIDE NAME IMAGE PROCESSORS PARAMETERS ARGUMENTS
run_qemu() {
	local -a words
	eval "words=($4)"
	timeout -k 5 "$limit" "$B/locum" exec -- qemu-system-x86_64 --no-reboot -nodefaults \
		-global kvm-pit.lost_tick_policy=discard -device pc-testdev \
		-device isa-debug-exit,iobase=0xf4,iosize=0x4 -display none -serial stdio \
		-device pci-testdev -machine accel=kvm -kernel "$kut/x86/$2" -smp "$3" \
		${5:+-append "$5"} ${words[@]+"${words[@]}"} > "$logs/$1.qemu" 2>&1 < /dev/null
}

run_run() {
	local cpu
	cpu=$(cpu_switches "$4")
	timeout -k 5 $((limit + 10)) "$B/locum" run -k "$kut/x86/$2" -c "$3" -m "$(memory_of "$4")" \
		${cpu:+--cpu "$cpu"} ${5:+-p "$5"} --timeout "$limit" > "$logs/$1.run" 2>&1 < /dev/null
}

# pass, skip, abort (the image gave up), fail:N, timeout or exit:N, from the exit status and the console.
verdict() {
	local summary
	summary=$(grep -aE '^SUMMARY' "$2" | tail -1)
	case $1 in
	1 | 0)	if [[ $summary =~ ([0-9]+)\ tests,\ ([0-9]+)\ skipped ]] &&
			[ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]; then
			echo skip
		elif [ "$1" = 1 ]; then
			echo pass
		else
			echo exit:0
		fi ;;
	77 | 155) echo skip ;; # 155: (77 << 1) | 1
	127) echo abort ;;
	124 | 137) echo timeout ;;
	3) if [[ $summary =~ ([0-9]+)\ unexpected ]]; then echo "fail:${BASH_REMATCH[1]}"; else echo fail; fi ;;
	*) echo "exit:$1" ;;
	esac
}

passed=0 failed=0 known=0 untested=0
check() { # name side verdict seconds
	local want reason word
	read -r _ _ want reason <<< "$(awk -v n="$1" -v s="$2" '$1 == n && $2 == s' "$expected")"
	if [ -z "${want:-}" ]; then
		word="NEW (no line in $expected)"
		failed=$((failed + 1))
	elif [ "$want" = "$3" ]; then
		[ "$3" = pass ] && passed=$((passed + 1)) || known=$((known + 1))
		word="as expected${reason:+: $reason}"
	elif [ "$3" = pass ]; then
		word="BETTER than $want: update $expected"
		failed=$((failed + 1))
	else
		word="WORSE: $want was expected; $logs/$1.$2"
		failed=$((failed + 1))
	fi
	printf '%-28s %-5s %-10s %4s s  %s\n' "$1" "$2" "$3" "$4" "$word"
}

wanted() { # name arch groups
	[ "$2" != i386 ] || return 1
	case " $3 " in
	*" nodefault "* | *" vmx "* | *" svm "* | *" pmu "* | *" hyperv "*) return 1 ;;
	esac
	case $1 in
	svm_* | intel_iommu | amd_iommu) return 1 ;;
	esac
}

while IFS=$'\t' read -r name file smp arch groups params args; do
	if [ $# -gt 0 ]; then
		case " $* " in *" $name "*) ;; *) continue ;; esac
	elif ! wanted "$name" "$arch" "$groups"; then
		continue
	fi
	if [ ! -f "$kut/x86/$file" ]; then
		echo "$name: $file is not built there"
		untested=$((untested + 1))
		continue
	fi
	[ "$params" != - ] || params=
	[ "$args" != - ] || args=
	for side in qemu run; do
		[ "${ONLY:-$side}" = "$side" ] || continue
		start=$SECONDS
		# Arguments may have commands in them: kvmclock_test's is the time of day.
		"run_$side" "$name" "$file" "$smp" "$params" "$(eval "echo \"$args\"")"
		check "$name" $side "$(verdict $? "$logs/$name.$side")" $((SECONDS - start))
	done
done <<< "$(runs)"
echo "$passed pass, $known fail or skip as known, $failed not as expected, $untested not built"
[ $failed = 0 ]
