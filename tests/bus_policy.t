#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl check-policy: accepts what the manual shows, names the line of an error, takes hostile files without harm.
. "$(dirname "$0")/lib/tap.sh"
: "${IW_BUILD:=$(dirname "$0")/../build/plain}"
ctl=$IW_BUILD/iwctl
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
top=$(dirname "$0")/..

sed -n '/^\.SH EXAMPLE/,/^\.fi/p' "$top/man/iwsock.conf.5" | grep -v '^\.' >"$dir/example"
out=$("$ctl" check-policy "$dir/example")
is $? 0 "the example of iwsock.conf(5) is right"
is "$(grep -c ' \(iwarp\|tcp\) ' <<<"$out")" "$(grep -c '^[it]' "$dir/example")" "and every rule of it is shown"
"$ctl" check-policy "$top/conf/iwsock.conf" >/dev/null
is $? 0 "conf/iwsock.conf is right"

grep -q '^Everything else: iwarp, upgrade_after 100 calls 1M, upgrade_wait 0\.$' <<<"$out"
ok $? "with what holds for everything else"
is "$(grep -c ' \(16M\|0\|100 calls 1M\)  *0$' <<<"$out")" 4 "and the limits of each rule"
"$ctl" -j check-policy "$top/conf/iwsock.conf" | tr -d ' \n' | grep -q '"upgrade_after":"192calls4M","upgrade_after_far":"4096calls64M","upgrade_wait":0'
ok $? "in JSON too; the default is what conf/iwsock.conf says"
grep '^#upgrade_' "$top/conf/iwsock.conf" | tr -d '#' >"$dir/default"
is "$("$ctl" check-policy "$dir/default")" "$("$ctl" check-policy /dev/null)" "and its lines say the defaults"

printf 'iwarp both * *\n\ntcp connect x 10.0.0.0/33\n' >"$dir/bad"
err=$("$ctl" check-policy "$dir/bad" 2>&1)
is $? 1 "a wrong line: exit code 1"
is "$(grep -c "$dir/bad:3: " <<<"$err")" 1 "file and line are named"
"$ctl" -j check-policy "$dir/bad" | grep -q '"ok": false'
ok $? "and in JSON"
"$ctl" check-policy "$dir/none" 2>/dev/null
is $? 1 "no such file: exit code 1"
head -c 70000 /dev/zero | tr '\0' '#' >"$dir/long"
"$ctl" check-policy "$dir/long" 2>/dev/null
is $? 1 "a file that is too long: exit code 1"
yes 'tcp both * *' | head -n 300 >"$dir/many"
"$ctl" check-policy "$dir/many" 2>/dev/null
is $? 1 "too many rules: exit code 1"
seed=$RANDOM$RANDOM
diag "seed $seed"
bad=0
for i in $(seq 50); do
	openssl enc -aes-128-ctr -nosalt -pass "pass:$seed.$i" -in /dev/zero 2>/dev/null | head -c $((i * 37)) >"$dir/fuzz"
	{ cat "$dir/example"; cat "$dir/fuzz"; } >"$dir/fuzz2"
	for f in "$dir/fuzz" "$dir/fuzz2"; do
		"$ctl" -j check-policy "$f" >/dev/null 2>&1
		[ $? -le 1 ] || bad=$((bad + 1))
	done
done
is $bad 0 "random files are refused or accepted, nothing else"
done_testing
