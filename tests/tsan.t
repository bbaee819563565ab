#!/bin/bash
# SPDX-License-Identifier: MIT
# The library under ThreadSanitizer, in programs under ThreadSanitizer: threads that connect, accept, wait, duplicate, fork and close at
# the same time, plain, on one host and over two; and what it knows of threads, processes and sets, by itself.
. "$(dirname "$0")/lib/tap.sh"
top=${IW_TOP:-$(cd "$(dirname "$0")/.." && pwd)}
progs="f_ways churn connect_thread_poll many_conns bulk_both bulk_busy threads_many f_cancel"
b=$(mktemp -d "${TMPDIR:-/tmp}/tsan.XXXXXX") || exit 1
trap 'rm -rf "$b"' EXIT
mkdir -p "$b/o" "$b/tests/sock" "$b/tests/lib"
cc="${CC:-gcc} -I. -D_GNU_SOURCE -std=gnu11 -O1 -g -fsanitize=thread -fno-strict-aliasing"

cd "$top" || exit 1
# The fence of the peers page's sequence lock is not modelled by the sanitizer; the fields themselves are atomic.
make -s B="$IW_BUILD" library-sources | xargs -P 2 -I{} sh -c \
	"f={}; exec $cc -Wno-tsan -fPIC -fvisibility=hidden -DIW_SYSCONFDIR='\"/etc\"' -DIWSOCK_VERSION='\"tsan\"' -c -o $b/o/\$(echo \${f%.c} | tr / _).o \$f" &&
	$cc -shared -Wl,-z,nodelete -Wl,-Bsymbolic-functions -Wl,--version-script=preload/libiwsock.map -o "$b/libiwsock.so" "$b"/o/*.o -ldl
ok $? "the library builds with -fsanitize=thread"
for p in $progs; do
	$cc -o "$b/tests/sock/$p" tests/sock/*/"$p.c" -lpthread || fail "$p builds"
done
cp "$IW_BUILD/iwarpd" "$IW_BUILD/iwctl" "$b"
cp "$IW_BUILD"/tests/lib/* "$b/tests/lib/"
IW_BUILD=$b TSAN_OPTIONS="log_path=$b/report:exitcode=66:${TSAN_OPTIONS-}" tests/sock.t -m "plain local rings remote mapped restless local-k remote-k relay" $progs >"$b/out" 2>&1
ok $? "$progs: plain, on one host without and with rings, on two, mapped, at any call" || sed 's/^/# /' "$b/out" | tail -n 60
is "$(grep -Ec '^ok .* (remote|mapped|restless)$' "$b/out")" 24 "all of them ran"
for p in quiet holders sets ready; do
	$cc -o "$b/${p}_test" tests/unit/${p}_test.c "$IW_BUILD/libproto.a" -lcmocka -lpthread && TSAN_OPTIONS="log_path=$b/report:exitcode=66:${TSAN_OPTIONS-}" "$b/${p}_test" >"$b/out" 2>&1
	ok $? "tests/unit/${p}_test" || sed 's/^/# /' "$b/out" | tail -n 20
done
cat "$b"/report.* 2>/dev/null | head -n 60 >"$b/reports"
is "$(wc -l <"$b/reports")" 0 "no report" || sed 's/^/# /' "$b/reports"
done_testing
