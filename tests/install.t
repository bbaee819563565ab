#!/bin/bash
# SPDX-License-Identifier: MIT
# `make install` puts exactly what tests/install.list says into place, `make uninstall` takes it away, changed settings stay;
# and packages are of the same version and have the same files.
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
build=${IW_BUILD:-build/plain}	# not from the root: make takes no space in it
trap 'rm -rf "$dir"' EXIT
n=0
check() { # NAME STATUS: 0 is ok
	n=$((n + 1))
	[ "$2" -eq 0 ] && echo "ok $n - $1" || echo "not ok $n - $1"
}
run() { # the same programs as those under test
	make -s B="${build#"$PWD/"}" prefix=/usr sysconfdir=/etc DESTDIR="$dir" "$@" >"$dir.log" 2>&1 || sed 's/^/# /' "$dir.log"
	rm -f "$dir.log"
}

run install
(cd "$dir" && find . \( -type f -o -type l \) -printf '%m %P\n' | LC_ALL=C sort -k2) >"$dir/list"
got=$(grep -v ' list$' "$dir/list")
rm "$dir/list"
diff <(grep -v '^#' tests/install.list) <(printf '%s\n' "$got") | sed 's/^/# /' >&2
[ "$(grep -v '^#' tests/install.list)" = "$got" ]
check "make install puts the listed files into place" $?

! grep -rIl '@[a-z]*dir@' "$dir"
check "no path was left to be filled in" $?

printf '# changed\n' >>"$dir/etc/iwsock/iwarpd.conf"
run install
grep -q '^# changed' "$dir/etc/iwsock/iwarpd.conf"
check "a second install keeps changed settings" $?

run uninstall
left=$(cd "$dir" && find . \( -type f -o -type l \))
[ "$left" = ./etc/iwsock/iwarpd.conf ]
check "make uninstall leaves nothing but changed settings" $?

if command -v systemd-analyze >/dev/null; then
	mkdir "$dir/units"
	sed -e 's|@sbindir@/iwarpd|/bin/true|' conf/iwarpd.service >"$dir/units/iwarpd.service"
	sed -e 's|@bindir@/iwarpctl|/bin/true|' conf/iwarp-metrics@.service >"$dir/units/iwarp-metrics@.service"
	cp conf/*.socket "$dir/units/"
	sed -i '/^Documentation=/d' "$dir"/units/*
	out=$(systemd-analyze verify "$dir"/units/iwarp* 2>&1)
	[ -z "$out" ]
	check "systemd accepts the units" $?
	[ -z "$out" ] || printf '%s\n' "$out" | sed 's/^/# /' >&2
	# what is left: the network, its families and addresses, other users, the clock's device, which ProtectClock= brings, the root directory
	out=$(systemd-analyze security --offline=true --threshold=13 --no-pager "$dir/units/iwarpd.service" 2>&1)
	status=$?
	check "and say 1.3 at most of what the daemon could do" $status
	[ $status = 0 ] || printf '%s\n' "$out" | grep -E '✗|Overall' | sed 's/^/# /'
	out=$(systemd-analyze security --offline=true --threshold=5 --no-pager "$dir/units/iwarp-metrics@.service" 2>&1)
	status=$?
	check "and next to nothing of what tells metrics could do" $status
	[ $status = 0 ] || printf '%s\n' "$out" | grep -E '✗|Overall' | sed 's/^/# /'
else
	check "systemd accepts the units # SKIP no systemd-analyze" 0
	check "and say 1.3 at most of what the daemon could do # SKIP no systemd-analyze" 0
	check "and next to nothing of what tells metrics could do # SKIP no systemd-analyze" 0
fi

version=$(sed -n 's/^AC_INIT(\[iwsock\], \[\(.*\)\])/\1/p' configure.ac)
[ -n "$version" ] && [ "$(sed -n '1s/^iwsock (\(.*\)) .*/\1/p' packaging/debian/changelog)" = "$version" ]
check "packaging/debian/changelog begins with the version of configure.ac" $?
[ -n "$version" ] && [ "$(sed -n 's/^Version: //p' packaging/iwsock.spec)" = "$version" ]
check "and so is packaging/iwsock.spec" $?
[ "$(sed -n '/^%pre/,/^END/s/^\(u .*\)/\1/p' packaging/iwsock.spec)" = "$(grep '^u' conf/iwarpd.sysusers)" ]
check "which makes the same user" $?
if command -v rpmspec >/dev/null; then
	# the tool by its second name, and the bus' policy below /usr, as in packaging/debian
	want=$(sed '/^#/d; s/^... //; /^usr\/bin\/iwctl$/d; s,^etc/dbus-1,usr/share/dbus-1,' tests/install.list | LC_ALL=C sort)
	have=$(rpmspec -P packaging/iwsock.spec | sed -n '/^%files/,/^%changelog/p' | sed -n 's/^\(%config(noreplace) \)*\///p' | sed 's/\*$//; s,^usr/lib64/,usr/lib/,' | LC_ALL=C sort)
	[ -n "$have" ] && [ "$have" = "$want" ]
	same=$?
	check "and has the files that are installed" $same
	[ $same = 0 ] || diff <(echo "$want") <(echo "$have") | sed 's/^/# /'
else
	check "and has the files that are installed # SKIP no rpmspec" 0
fi
echo "1..$n"
