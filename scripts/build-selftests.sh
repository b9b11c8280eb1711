#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the kernel's KVM selftests from Debian's linux-source-6.1 into
# build/selftests/bin.  Arguments: names of tests (x86_64/NAME.c or NAME.c).
# Exit: 0; 77 with the reason when the source package is not there; 1.
#
# The archive is streamed once and only the folders that the tests need are
# kept, under build/selftests/src.
set -u
cd "$(dirname "$0")/.." || exit 2
out=build/selftests
src=$out/src/linux-source-6.1
kvm=$src/tools/testing/selftests/kvm

unpack() {
	local tarball=/usr/src/linux-source-6.1.tar.xz deb
	deb=$(ls build/deb/linux-source-6.1_*.deb 2>/dev/null | tail -n 1)
	mkdir -p $out/src.tmp || return 1
	if [ -f $tarball ]; then
		cat $tarball
	elif [ -n "$deb" ]; then
		dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/src/linux-source-6.1.tar.xz
	else
		echo "linux-source-6.1 is neither installed nor in build/deb (apt-get download linux-source-6.1)"
		exit 77
	fi | tar -xJ -C $out/src.tmp --wildcards \
		'linux-source-6.1/tools/testing/selftests/kvm/*' \
		'linux-source-6.1/tools/testing/selftests/rseq/*' \
		'linux-source-6.1/tools/testing/selftests/kselftest*.h' \
		'linux-source-6.1/tools/include/*' 'linux-source-6.1/tools/lib/*.c' \
		'linux-source-6.1/tools/arch/x86/include/*'
	local rc=("${PIPESTATUS[@]}")
	[ "${rc[0]}" = 77 ] && exit 77
	[ "${rc[1]}" = 0 ] || return 1
	rm -rf $out/src && mv $out/src.tmp $out/src
}

[ -d $kvm ] || unpack || exit 1
mkdir -p $out/obj $out/bin

flags="-DTEST_ASSERT_EQ=ASSERT_EQ -include /usr/include/linux/stddef.h -O2 -g -std=gnu99 -w -fno-stack-protector -fno-PIE -no-pie -pthread -D_GNU_SOURCE
	-I$src/tools/include -I$src/tools/arch/x86/include -I$kvm/include
	-I$kvm/include/x86_64 -I$kvm/../rseq -I$kvm/.. -I/usr/include"

# The tests' common library: one archive.
if [ ! -f $out/libkvm.a ]; then
	for f in $kvm/lib/*.c $kvm/lib/x86_64/*.c $kvm/lib/x86_64/*.S $kvm/../rseq/rseq.c; do
		[ -f "$f" ] || continue
		# shellcheck disable=SC2086
		gcc $flags -fno-tree-loop-distribute-patterns \
			-c "$f" -o "$out/obj/$(echo "${f#"$kvm"/}" | tr / _).o" || exit 1
	done
	ar rcs $out/libkvm.a.tmp $out/obj/*.o && mv $out/libkvm.a.tmp $out/libkvm.a
fi

status=0
for name in "$@"; do
	bin=$out/bin/$name
	[ -x "$bin" ] && continue
	f=$kvm/x86_64/$name.c
	[ -f "$f" ] || f=$kvm/$name.c
	[ -f "$f" ] || { echo "no selftest named $name"; status=1; continue; }
	# shellcheck disable=SC2086
	gcc $flags "$f" $out/libkvm.a -o "$bin" -ldl -lrt || status=1
done
exit $status
