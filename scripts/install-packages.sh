# SPDX-License-Identifier: MIT
# Shell functions for ./demo and ./check.  Sourced in the project's root.

# as_root COMMAND...: run it as root, or through sudo.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		return 127
	fi
}

# Once a run: the package lists, if apt has none or an old one.
refresh_lists() {
	[ -n "${lists_fresh:-}" ] && return 0
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null 2>&1
	lists_fresh=1
}

# install_packages NAME...: what is missing is installed, or all of it is named.
install_packages() {
	missing=
	for p; do
		dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' ||
			missing="$missing $p"
	done
	[ -z "$missing" ] && return 0
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "missing packages (no apt-get here to install them):$missing" >&2
		return 1
	fi
	echo "installing:$missing"
	refresh_lists
	# shellcheck disable=SC2086
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends $missing >/dev/null && return 0
	echo "could not install:$missing (root or sudo is needed)" >&2
	return 1
}

# download_package NAME: the .deb (of what a metapackage depends on) into
# build/deb, not installed.  Fails silently when there is no network: what
# needs it says so.
download_package() {
	mkdir -p build/deb
	ls build/deb/"$1"_*.deb >/dev/null 2>&1 && return 0
	refresh_lists
	target=$1
	case $1 in
	linux-image-cloud-amd64)
		ls build/deb/linux-image-*-cloud-amd64_*.deb >/dev/null 2>&1 && return 0
		target=$(apt-cache depends "$1" 2>/dev/null |
			sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
		;;
	esac
	[ -n "$target" ] && (cd build/deb && apt-get download -qq "$target" >/dev/null 2>&1)
}

# unpack_kernel: the newest cloud kernel of build/deb as build/kernel/vmlinuz.
unpack_kernel() {
	[ -f build/kernel/vmlinuz ] && return 0
	deb=$(ls build/deb/linux-image-*-cloud-amd64_*.deb 2>/dev/null | tail -n 1)
	[ -n "$deb" ] || return 1
	mkdir -p build/kernel
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C build/kernel --strip-components=2 \
		--wildcards './boot/vmlinuz-*' && mv build/kernel/vmlinuz-* build/kernel/vmlinuz
}
