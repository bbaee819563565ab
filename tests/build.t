#!/bin/bash
# SPDX-License-Identifier: MIT
# Building in one checkout again and again, while packages, version, directories and users change.
. "$(dirname "$0")/lib/tap.sh"
top=$(cd "$(dirname "$0")/.." && pwd)
command -v autoconf >/dev/null || skip_all "needs autoconf"
dir=$(mktemp -d "${TMPDIR:-/tmp}/iwt-build.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
mkdir bin src
(cd "$top" && tar c Makefile configure.ac config.mk.in packaging conf proto daemon preload iwctl man tests/unit tests/lib) | tar x -C src
cd src || exit 1

# a pkg-config that does not find what is in $dir/gone
cat >../bin/pkg-config <<END
#!/bin/sh
for a; do grep -qxF -e "\$a" '$dir/gone' && exit 1; done
exec $(command -v pkg-config) "\$@"
END
chmod +x ../bin/pkg-config
gone() { printf '%s\n' "$@" >"$dir/gone"; }
quietly() { "$@" >"$dir/log" 2>&1 || { sed 's/^/# /' "$dir/log" | tail -n 20; return 1; }; }
export PATH=$dir/bin:$PATH
# whoever started us may have been make
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES SAN B V CC CFLAGS

gone cmocka
quietly make build/plain/obj/proto/crc32c.o
ok $? "built without cmocka"
make build/plain/tests/unit/crc_test >"$dir/log" 2>&1
[ $? = 2 ] && grep -q 'apt-get install libcmocka-dev' "$dir/log"
ok $? "tests do not build, and make says what to install"
gone
quietly make build/plain/tests/unit/crc_test
ok $? "cmocka is installed: tests build"
make -q build/plain/tests/unit/crc_test
ok $? "and nothing is made again"
gone librdmacm
quietly make config.mk && grep -q 'HAVE_VERBS = 0' config.mk
ok $? "a package that is not needed goes: built without it"
gone jansson
make build/plain/obj/proto/crc32c.o >"$dir/log" 2>&1
[ $? = 2 ] && grep -q 'apt-get install libjansson-dev' "$dir/log"
ok $? "one that is needed goes: make says what to install"
# whoever installs or takes away need not have what it was built with
make -n uninstall DESTDIR="$dir/d" >"$dir/log" 2>&1
ok $? "and what is installed can still be taken away"
gone

quietly make build/plain/obj/daemon/main.o
strings -a build/plain/obj/daemon/main.o | grep -q '^/etc/iwsock/iwarpd.conf'
ok $? "the settings are in /etc"
quietly make build/plain/obj/daemon/main.o sysconfdir=/opt/etc
strings -a build/plain/obj/daemon/main.o | grep -q '^/opt/etc/iwsock/iwarpd.conf'
ok $? "another directory for settings: it is made again"
sed -i 's/^AC_INIT(\[iwsock\], .*/AC_INIT([iwsock], [9.8.7])/' configure.ac
quietly make build/plain/obj/daemon/main.o
strings -a build/plain/obj/daemon/main.o | grep -qx 'iwarpd 9.8.7\|9.8.7'
ok $? "another version: it is made again"

if [ "$(id -u)" = 0 ]; then
	chmod 755 "$dir"
	[ -z "${TMPDIR-}" ] || chmod a+x "$TMPDIR"
	chown -R 65534:65534 .
	make -s clean
	quietly make build/plain/obj/proto/crc32c.o
	quietly tests/lib/hand-over build/plain
	is "$(find . ! -uid 65534)" "" "what root made is the owner's"
	touch configure.ac proto/crc32c.c
	quietly setpriv --reuid 65534 --regid 65534 --clear-groups make build/plain/obj/proto/crc32c.o
	ok $? "who builds on"
else
	skip "what root made is the owner's" "not root"
	skip "who builds on" "not root"
fi
# an option, or a build that is not there, is no place for logs
cp "$top/tests/run" tests/
out=$(tests/run -v tests/rooms.t 2>&1)
is "$? $(ls -d ./-v 2>/dev/null)" "2 " "tests/run with something else than a build ends"
[[ $out = *"no such directory"* ]]
ok $? "and says so" || diag "$out"
out=$(tests/run . rooms.t 2>&1)
is "$? $(grep -c 'rooms.t: no such test' <<<"$out")" "2 1" "tests/run with a name that is no test ends"
done_testing
