#!/bin/bash
# SPDX-License-Identifier: MIT
# The message catalogue: an entry for each MESSAGE_ID and no other, with its manual page; systemd's tool takes it, and shows it.
. "$(dirname "$0")/lib/tap.sh"
cd "$(dirname "$0")/.." || exit 1
file=conf/iwarpd.catalog
ids=$(sed -n 's/^#define LOG_ID_[A-Z]*\t"\([0-9a-f]\{32\}\)".*/\1/p' daemon/base/log.h | sort)
is "$(sed -n 's/^-- \([0-9a-f]*\)$/\1/p' "$file" | sort)" "$ids" "an entry for each MESSAGE_ID, and no other"
for id in $ids; do
	entry=$(sed -n "/^-- $id\$/,/^-- /p" "$file" | sed '1d; /^-- /d')
	is "$(grep -c '^Subject: .' <<<"$entry") $(grep -c '^Defined-By: iwarpd$' <<<"$entry")" "1 1" "$id has its head"
	missing=
	for page in $(sed -n 's/^Documentation: man:\(.*\)(\([1-8]\))$/\1.\2/p' <<<"$entry"); do
		[ -e "man/$page" ] || missing+=" $page"
	done
	grep -q '^Documentation: man:' <<<"$entry" && [ -z "$missing" ]
	ok $? "and manual pages that are there" || diag "$missing"
done
fields=$(sed -n 's/.*field(d, "\([A-Z_]*\)=.*/\1/p' daemon/base/log.c | sort -u)
wrong=$(grep -o '@[A-Z_]*@' "$file" | tr -d @ | sort -u | grep -vxF "$fields")
is "$wrong" "" "fields in it are those of our lines"

if command -v journalctl >/dev/null; then
	dir=$(mktemp -d) || exit 1
	trap 'rm -rf "$dir"' EXIT
	mkdir -p "$dir/usr/lib/systemd/catalog" "$dir/var/lib/systemd/catalog"
	cp "$file" "$dir/usr/lib/systemd/catalog"
	out=$(SYSTEMD_LOG_LEVEL=notice journalctl --root="$dir" --update-catalog 2>&1)
	is "$? $out" "0 " "systemd's tool takes it"
	is "$(journalctl --root="$dir" --list-catalog 2>/dev/null | cut -d' ' -f1 | sort)" "$ids" "and knows all of it"
else
	skip "systemd's tool takes it" "no journalctl"
fi
done_testing
