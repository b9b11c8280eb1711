#!/bin/bash
# SPDX-License-Identifier: MIT
# The command line: mistakes and damaged images give one line and the fixed
# exit code; bare guests end as they should.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
L=$B/locum
d=$B/cli
mkdir -p "$d"
bad=0 n=0

# expect CODE PATTERN COMMAND...: exit code, and stderr of one line that matches.
expect() {
	local code=$1 pattern=$2 out rc
	shift 2
	n=$((n + 1))
	out=$(timeout 60 "$@" 2>&1 >/dev/null </dev/null)
	rc=$?
	if [ $rc != "$code" ] || ! grep -qE -- "$pattern" <<<"$out" ||
		{ [ "$code" = 2 ] && [ "$(wc -l <<<"$out")" -gt 1 ]; }; then
		echo "FAILED: $* -> exit $rc (want $code): $out"
		bad=1
	fi
}

g=$B/guest/bare
expect 2 'KERNEL is missing' $L run
expect 2 'No such file' $L run -k /nonexistent
expect 2 'unrecognized option' $L run --nonsense
expect 2 'number from' $L run -k x -c 0
expect 2 'number from' $L run -k x -c 65
expect 2 'number from' $L run -k x -m 12x
expect 2 'number from' $L run -k x -m -1
expect 2 'unexpected argument' $L run -k x y
expect 2 'software or /dev/kvm' $L run -k x --backend foo
expect 2 'not a regular file' $L run -k /dev
: >"$d/empty"
expect 2 'regular file with anything' $L run -k "$d/empty"
head -c 100000 /dev/urandom >"$d/noise"
expect 2 'no kernel image' $L run -k "$d/noise"
expect 2 'valid|known|keys' $L run -k "$d/noise" --set nonsense=1
expect 2 'tlb.invlpg' $L run -k "$d/noise" --set tlb.invlpg=perhaps
expect 2 'is not vendor' $L run -k "$g/hello" --cpu +nonsense
head -c 110 "$g/hello" >"$d/cut"
expect 2 'truncated|damaged|nothing to load|is not there|without a PVH' $L run -k "$d/cut"
if [ -f build/kernel/vmlinuz ]; then
	head -c 3000000 build/kernel/vmlinuz >"$d/vmlinuz-cut"
	expect 2 'truncated' $L run -k "$d/vmlinuz-cut"
	expect 2 'MiB of memory' $L run -k build/kernel/vmlinuz -m 16
	expect 2 'too little memory' $L run -k build/kernel/vmlinuz -m 75 -i build/kernel/vmlinuz
fi
mkfifo "$d/fifo" 2>/dev/null
expect 2 'not a regular file' $L run -k "$d/fifo"
expect 2 'Not a directory' $L run -k "$g/hello" --stats "$d/empty/x"
expect 2 'initrd|No such file' $L run -k "$g/hello" -i /nonexistent
expect 2 'time-marker' $L run -k "$g/hello" --time-marker ''
expect 2 'not with --backend' $L run -k "$g/hello" --backend /dev/kvm --set engine=interp
expect 2 'not with --backend' $L run -k "$g/hello" --backend /dev/kvm --stats "$d/x"
expect 2 'not offered' $L run -k "$g/hello" --cpu +la57
# The only segment's physical address moved to 2 GiB.
cp "$g/hello" "$d/high"
printf '\0\0\0\200' | dd of="$d/high" bs=1 seek=$((52 + 12)) conv=notrunc status=none
expect 2 'no free memory' $L run -k "$d/high"
expect 2 'no command' $L frobnicate
expect 2 'no program' $L exec
expect 2 'Is a directory' $L exec -- /
printf '#!%s\n' "$PWD/$d/loop" >"$d/loop" && chmod +x "$d/loop"
expect 2 'without end' $L exec -- "$d/loop"
printf '#!/nonexistent x\n' >"$d/nowhere" && chmod +x "$d/nowhere"
expect 2 'No such file' $L exec -- "$d/nowhere"
printf '#! %s\n' "$PWD/$B/guest/bench" >"$d/static" && chmod +x "$d/static"
expect 2 'statically linked' $L exec -- "$d/static"
expect 2 'not a 64-bit' $L exec -- "$g/hello"
if [ "$(id -u)" = 0 ]; then
	cp /bin/true "$d/setuid" && chown 1 "$d/setuid" && chmod 4755 "$d/setuid"
	expect 2 'setuid' $L exec -- "$d/setuid"
fi
expect 2 'nonsense' $L exec --set nonsense=1 -- /bin/true
expect 2 'no kernel' $L bench peers --kernel /nonexistent
expect 2 'unexpected' $L bench peers more
expect 2 'there are: boot .* sieve ' $L bench peers --kernel "$g/hello" --only sieve,nonsense
expect 2 'some of locum,qemu-tcg' $L bench peers --kernel "$g/hello" --only sieve --columns host
expect 2 '1 to 9' $L bench peers --rounds 10
expect 2 'of peers' $L bench invlpg --only sieve
expect 2 'backend' $L caps --backend qemu
case ${MODE:-rel} in
asan | tsan | fuzz) echo "SKIP two cases: a sanitized library cannot be preloaded" ;;
*)
	expect 0 '^$' $L exec -- /bin/true
	printf '#!/bin/sh\nexit 7\n' >"$d/script" && chmod +x "$d/script"
	expect 7 '^$' $L exec -- "$d/script"
	;;
esac
expect 2 'no such program' $L exec -- /nonexistent
expect 2 'statically linked' $L exec -- "$B/guest/bench"
expect 2 'which benchmark' $L bench
printf noise >"$d/noexec" && chmod +x "$d/noexec"
expect 2 "neither an ELF" $L exec -- "$d/noexec"

# Guests.
run() {
	local code=$1 pattern=$2 out rc
	shift 2
	n=$((n + 1))
	out=$(timeout 60 $L run "$@" 2>&1 </dev/null)
	rc=$?
	if [ $rc != "$code" ] || ! grep -qE -- "$pattern" <<<"$out"; then
		echo "FAILED: locum run $* -> exit $rc (want $code): $out"
		bad=1
	fi
}
run 43 'hello, locum' -k "$g/hello"
run 4 'triple fault' -k "$g/triple"
run 124 'still running' -k "$g/spin" --timeout 1
run 124 'still running' -k "$g/halt" --timeout 1
run 4 'rip 0x1000[0-9a-f]* .code: 0f 0b.*IDT .limit 0. has no gate' -k "$g/triple"
run 0 '^$' -k "$g/reset"
run 43 'hello' -k "$g/hello" -c 4 --stats "$d/stats.json"
grep -q '"vcpus": \[' "$d/stats.json" || { echo "no statistics"; bad=1; }
# Input, output that nobody takes, a terminal.
n=$((n + 3))
out=$(printf 'abcq' | timeout 60 $L run -k "$g/echo" --timeout 20)
rc=$?
[ $rc = 1 ] && [ "$out" = abc ] || { echo "FAILED: echo: exit $rc: $out"; bad=1; }
timeout 60 $L run -k "$g/chatter" --timeout 1 2>/dev/null | sleep 6
rc=${PIPESTATUS[0]}
[ "$rc" = 124 ] || { echo "FAILED: full pipe: exit $rc"; bad=1; }
if command -v script >/dev/null && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	(sleep 2; printf '\001x') | timeout 60 script -qec "$L run -k $g/spin --timeout 30; echo EXIT \$?" /dev/null >"$d/tty"
	grep -q 'EXIT 0' "$d/tty" || { echo "FAILED: Ctrl-A x: $(cat "$d/tty")"; bad=1; }
fi
$L run --help | grep -q 'usage: locum' || { echo "no help of a command"; bad=1; }
$L --help | grep -q 'usage: locum' || { echo "no help"; bad=1; }
$L caps | grep -q '^IRQCHIP *1' || { echo "no caps"; bad=1; }
echo "CASES $n"
exit $bad
