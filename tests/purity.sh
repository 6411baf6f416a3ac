#!/bin/sh
# lib/core is pure: it calls no clock, socket, file, thread, log or global. Proof: the symbols that its library needs from
# elsewhere are all in a short list.
# usage: purity.sh LIBRARY ALLOWED
set -eu
library=$1
allowed=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The library of nothing would be pure too.
nm --defined-only "$library" | awk 'NF == 3 && $2 == "T" { print $3 }' >"$work/defined"
[ -s "$work/defined" ] || { echo "purity: $library defines no function"; exit 1; }

nm --defined-only "$library" | awk 'NF == 3 { print $3 }' | sort -u >"$work/own"
nm --undefined-only "$library" | awk 'NF == 2 { print $2 }' | sort -u >"$work/needed"
sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$allowed" | sort -u >"$work/allowed"

comm -23 "$work/needed" "$work/own" | comm -23 - "$work/allowed" >"$work/forbidden"
if [ -s "$work/forbidden" ]; then
	echo "purity: lib/core calls what it must not (allowed: $allowed):"
	nm -A --undefined-only "$library" | grep -w -F -f "$work/forbidden"
	exit 1
fi

# Writable globals. Constants with pointers in them are in .data.rel.ro: read-only once loaded.
objdump -t "$library" | awk 'NF > 4 && $(NF - 2) ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $(NF - 2) !~ /^\.data\.rel\.ro/ &&
	$NF !~ /^\./ { print $NF }' >"$work/globals"
if [ -s "$work/globals" ]; then
	echo "purity: lib/core has writable globals: $(tr '\n' ' ' <"$work/globals")"
	exit 1
fi
echo "purity: $(wc -l <"$work/needed") symbols needed, all allowed or its own"
