#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails when a file under src/ includes a header of a layer that
# scripts/layers.txt does not allow it.
cd "$(dirname "$0")/.." || exit 2
awk '
FNR == NR {
	if ($0 ~ /^[a-z0-9]+:/) {
		split($0, half, ":"); layer = half[1]
		known[layer] = 1; ok[layer, layer] = 1
		n = split(half[2], deps, " ")
		for (i = 1; i <= n; i++) ok[layer, deps[i]] = 1
	}
	next
}
{
	split(FILENAME, part, "/"); layer = part[2]
	if (!(layer in known)) {
		printf "%s: layer \"%s\" is not in scripts/layers.txt\n", FILENAME, layer
		bad = 1; nextfile
	}
	if (match($0, /^[ \t]*#[ \t]*include[ \t]*"/)) {
		file = substr($0, RSTART + RLENGTH); sub(/".*/, "", file)
		split(file, dir, "/"); target = dir[1]
		if (target == "locum") target = "public"
		if (file !~ /\//) {
			printf "%s:%d: include \"%s\" from the src root\n", FILENAME, FNR, file
			bad = 1
		} else if (!((layer, target) in ok)) {
			printf "%s:%d: %s must not include %s\n", FILENAME, FNR, layer, file
			bad = 1
		}
	}
}
END { exit bad }
' scripts/layers.txt $(find src -name '*.[chS]' -o -name '*.def' | sort)
