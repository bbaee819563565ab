#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes for tracers (USDT): those in the programs are those of the manual, with as many arguments, and the library needs nothing for them.
. "$(dirname "$0")/lib/tap.sh"
cd "$(dirname "$0")/.." || exit 1
: "${IW_BUILD:=build/plain}"
command -v readelf >/dev/null || skip_all "no readelf"
grep -q '^HAVE_SDT = 1' config.mk || skip_all "built without sys/sdt.h"

# provider:name arguments, of an object; of a page
notes() { LC_ALL=C readelf -n "$1" | awk '$1 == "Provider:" { p = $2 } $1 == "Name:" { n = $2 } $1 == "Arguments:" { print p ":" n, NF - 1 }' | sort -u; }
manual() { sed -n '/^\.SH PROBES/,/^\.SH/s/^\.B \([a-z]*:[a-z_]*\)(\(.*\))$/\1 \2/p' "$1" | awk '{ print $1, NF - 1 }' | sort; }
for pair in iwarpd:iwarpd.8 libiwsock.so:libiwsock.7; do
	got=$(notes "$IW_BUILD/${pair%:*}")
	is "$got" "$(manual "man/${pair#*:}")" "probes of ${pair%:*} are those of ${pair#*:}"
	is "$(sed 's/:.*//' <<<"$got" | sort -u)" "$(sed 's/\.so:.*//; s/:.*//' <<<"$pair")" "by its name"
done
semaphores=$(LC_ALL=C readelf -n "$IW_BUILD/libiwsock.so" | awk '/Semaphore:/ { print $NF }' | sort -u)
is "$semaphores" "0x0000000000000000" "nobody has to write to the library's memory"
is "$(LC_ALL=C readelf -d "$IW_BUILD/libiwsock.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^lib[cm]\.so\|^libdl\.so\|^ld-linux' | tr '\n' ' ')" "" \
	"the library needs nothing but libc"
done_testing
