#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/mkinitrd against busybox cpio: names, modes, contents.
set -u
cd "$(dirname "$0")/../.." || exit 2
B=${B:-build/rel}
busybox=$(command -v busybox) || { echo "busybox-static is not installed"; exit 77; }
M=$B/tools/mkinitrd
d=$B/mkinitrd
rm -rf "$d" && mkdir -p "$d/in" "$d/out"
bad=0 n=0
check() {
	n=$((n + 1))
	[ "$2" = "$3" ] || { echo "FAILED: $1:"; diff <(echo "$2") <(echo "$3"); bad=1; }
}
: >"$d/in/empty"
for size in 1 2 3 4 5 4097; do head -c $size /dev/urandom >"$d/in/f$size"; done
args=(empty="$d/in/empty" 'odd=name:=x' proc/ a/b/c/ a/b/f5="$d/in/f5":4755)
args[1]=bin/sh="$d/in/f3":755
for size in 1 2 3 4 4097; do args+=("data/f$size=$d/in/f$size:600"); done
$M "$d/cpio" "${args[@]}" || { echo "mkinitrd failed"; exit 1; }
check "list" "$("$busybox" cpio -tv <"$d/cpio" 2>/dev/null | awk '{ print $1, $2, $NF }')" \
"drwxr-xr-x 0/0 dev
crw------- 0/0 dev/console
-rw-r--r-- 0/0 empty
drwxr-xr-x 0/0 bin
-rwxr-xr-x 0/0 bin/sh
drwxr-xr-x 0/0 proc
drwxr-xr-x 0/0 a
drwxr-xr-x 0/0 a/b
drwxr-xr-x 0/0 a/b/c
-rwsr-xr-x 0/0 a/b/f5
drwxr-xr-x 0/0 data
-rw------- 0/0 data/f1
-rw------- 0/0 data/f2
-rw------- 0/0 data/f3
-rw------- 0/0 data/f4
-rw------- 0/0 data/f4097"
(cd "$d/out" && "$busybox" cpio -id empty bin/sh 'a/*' 'data/*' <../cpio 2>/dev/null)
for f in empty:empty bin/sh:f3 a/b/f5:f5 data/f1:f1 data/f2:f2 data/f3:f3 data/f4:f4 data/f4097:f4097; do
	n=$((n + 1))
	cmp "$d/out/${f%:*}" "$d/in/${f#*:}" || bad=1
done
fails() {
	n=$((n + 1))
	"$@" >"$d/said" 2>&1
	rc=$?
	[ $rc = 2 ] && [ "$(wc -l <"$d/said")" = 1 ] || { echo "FAILED: $* -> $rc: $(cat "$d/said")"; bad=1; }
}
fails $M
fails $M "$d/x" init=/nonexistent:755
fails $M "$d/x" nothing
fails $M /nonexistent/x proc/
echo "CASES $n"
exit $bad
