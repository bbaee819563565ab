#!/bin/bash
# SPDX-License-Identifier: MIT
# What libiwsock.so exports and imports, against the reviewed lists; and every name of this libc that has to do with descriptors
# or sockets must have been reviewed: intercepted, or why not (tests/exports.list).
shopt -s lastpipe
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
so=${IW_BUILD:-build/plain}/libiwsock.so
list=tests/exports.list
n=0 failed=0

result() { # ok? name; details on stdin
	local details
	details=$(cat)
	n=$((n + 1))
	if [ -z "$details" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		sed 's/^/# /' <<<"$details"
		failed=1
	fi
}

for tool in nm ldd; do
	command -v $tool >/dev/null || { echo "Bail out! $tool not found"; exit 1; }
done
[ -e "$so" ] || { echo "Bail out! $so is not built"; exit 1; }
libc=$(ldd "$so" | awk '$1 == "libc.so.6" { print $3 }')
names() { nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u; }
reviewed() { awk -v what="$1" '!/^#/ && $2 ~ what { print $1 }' $list | sort -u; }

comm -3 <(names "$so") <(reviewed '^intercepted$') | sed 's/^\t\(.*\)/\1 is on the list and not exported/; t; s/$/ is exported and not on the list/' |
	result "the library exports what the list says"

awk '!/^#/ && NF && $2 != "intercepted" && ($2 != "not:" || NF < 3) { print "line " NR ": " $0 }' $list |
	result "every entry says 'intercepted' or 'not: why'"

awk '!/^#/ && NF { print $1 }' $list | sort | uniq -d | result "no name is on the list twice"

# Names that move data, wait, make or end descriptors, or start processes; string, printf and thread functions look similar.
touches='sock|accept|listen|connect|^bind$|shutdown|send|recv|poll|select|close|^_*dup|fcntl|ioctl|read|write|splice|^tee$|copy_file|fdopen'
touches+='|peername|fork|^exec|fexec|spawn|^clone|daemon$|^syscall|pipe|fdelt|^_*open|creat64|^creat$|aio_|dprintf'
other='thread_|pthread|mem|readdir|readlink|_nl_|__gconv|^xdr|^svc|^clnt|^auth|^fts|iconv|catclose|regexec|re_exec|rexec|dlclose|duplocale|sem_close|closelog'
other+='|openlog|closedir|opendir|open_catalog|open_tree|handle_at|tcsendbreak|_IO_|__rpc|posix_spawn_file|posix_spawnattr|mq_|freadable|freading'
other+='|__libc_(single|alloc|clnt|scratch)|readpassphrase|__nss_|__nptl|pidfd'
comm -23 <(names "$libc" | grep -E "$touches" | grep -Ev "$other") <(reviewed .) | result "every name of $(basename "$libc") that concerns us was reviewed"

# Nothing we call inside may be a name that somebody, or we ourselves, interpose.
nm -D --undefined-only "$so" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u >"${TMPDIR:-/tmp}/imports.$$"
comm -12 "${TMPDIR:-/tmp}/imports.$$" <(names "$so") | result "no exported name is called through the linker"
grep -xE '(malloc|calloc|realloc|free|printf|fprintf|puts|write|syslog|pthread_create|abort|exit)' "${TMPDIR:-/tmp}/imports.$$" |
	result "no allocation, no output, no thread"
rm -f "${TMPDIR:-/tmp}/imports.$$"
echo "1..$n"
exit $failed
