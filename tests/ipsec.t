#!/bin/bash
# SPDX-License-Identifier: MIT
# require_ipsec against the kernel's policy database (SEC-IPSEC-1), and a stream whose security association goes and comes
# (SEC-IPSEC-4). It takes xfrm_user only, not ESP: where the test wants octets to pass, eth0 does not apply the policies.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
unshare -n ip xfrm policy >/dev/null 2>&1 || skip_all "the kernel has no IPsec policies (xfrm_user); tests/daemon/ipsec_test.c needs none"
rig_up 2
echo "upgrade_wait 500" >>"$IWSOCK_CONF"
A=$(host_addr 1) B=$(host_addr 2)
log=$RIG_DIR/iwarpd.1.log
TALK=$RIG_TESTS/lib/talk.py

# applied HOST yes|no: eth0 applies the policies, so that without an SA nothing passes; or it does not
applied() {
	local v=1
	[ "$2" = no ] || v=0
	host_exec "$1" sh -c "echo $v >/proc/sys/net/ipv4/conf/eth0/disable_xfrm; echo $v >/proc/sys/net/ipv4/conf/eth0/disable_policy"
}
# policy HOST add|del [out|in] [ports of a selector ...]: ESP between the hosts, both ways unless said
policy() {
	local h=$1 what=$2 l r d tmpl=
	shift 2
	l=$(host_addr "$h") r=$(host_addr $((3 - h)))
	[ $what = del ] || tmpl="priority 2000 tmpl proto esp mode transport"
	for d in ${1-out in}; do
		# shellcheck disable=SC2086
		case $d in
		out) host_exec "$h" ip xfrm policy $what src "$l" dst "$r" dir out $tmpl ;;
		in) host_exec "$h" ip xfrm policy $what src "$r" dst "$l" dir in $tmpl ;;
		esac || fail "ip xfrm policy $what on host $h"
	done
}
# once HOST ADDRESS PORT: a connection with the library, some questions and answers; "begun ok"
once() { echo $(host_exec_iw "$1" timeout 60 python3 "$TALK" client "$2" "$3" </dev/null 2>&1 | sed 's/^ok .*/ok/'); }
# reason_of HOST SIDE REASON: how many connections ended with it
reason_of() { host_ctl "$1" -j reasons | json "sum(r['as_$2'] for r in d if r['reason'] == '$3')"; }
# plain NAME HOST ADDRESS PORT REASON: it works, stays plain, and the reason is given
plain() {
	local n a
	n=$(reason_of "$2" client "$5") a=$(accel_count "$2" client)
	is "$(once "$2" "$3" "$4")" "begun ok" "$1: the connection works"
	has_ended() { [ "$(reason_of "$1" client "$2")" -gt "$3" ]; }
	until_true 10 has_ended "$2" "$5" "$n"
	is "$(($(accel_count "$2" client) - a)) $(($(reason_of "$2" client "$5") - n))" "0 1" "$1: it is plain TCP, reason $5" ||
		diag "$(plain_reasons "$2")"
}
# accelerated NAME HOST ADDRESS PORT: it talks until it is, which on a busy machine takes its time, and works
accelerated() {
	local a client
	a=$(accel_count "$2" client)
	host_told "$2" talk python3 "$TALK" client "$3" "$4"
	client=$!
	is_iwarp() { tell talk 20 && [ "$(accel_count "$1" client)" -gt "$2" ]; }
	until_true 10 is_iwarp "$2" "$a"
	ok $? "$1: it is accelerated" || diag "$(plain_reasons "$2")"
	tell_end talk "$client"
	is "$? $(sed -n '$s/ .*//p' "$RIG_DIR/talk.log") $(($(accel_count "$2" client) - a))" "0 ok 1" "$1: the connection works"
}
serve() { # HOST PORT [ADDRESS]: an echo server with the library
	host_bg_iw "$1" "server.$1.$2.log" python3 "$TALK" server "${3-$(host_addr "$1")}" "$2"
	host_port "$1" "$2"
}

for h in 1 2; do applied $h no; done
serve 1 7501
serve 2 7502
accelerated "not required" 1 "$B" 7502
is "$(host_ctl 1 -j status | json "d['require_ipsec']")" off "status: off"

# ---- one host requires it, and there is no policy ----
: >"$RIG_DIR/iwarpd.conf"
daemon_stop 1 && daemon_start 1 -c "$RIG_DIR/iwarpd.conf" -o negative_cache=3600
accelerated "not required yet" 1 "$B" 7502
requires() { # VALUE: the settings are read again
	echo "require_ipsec = $1" >"$RIG_DIR/iwarpd.conf"
	kill -HUP "$(daemon_pid 1)"
	until_true 10 sh -c "'$IW_BUILD/iwctl' -r '$(host_dir 1)' -j status | grep -q '\"require_ipsec\": \"$2\"'"
}
requires yes on
ok $? "required from now on"
grep -q "session to $B: no IPsec policy covers the connection" "$log"
ok $? "the session with the other host ends"
grep -q "require_ipsec: 0 IPsec policies" "$log"
ok $? "the log tells how many policies there are"
plain "no policy, to the other host" 1 "$B" 7502 no-ipsec
is "$(once 2 "$A" 7501)" "begun ok" "no policy, from the other host: the connection works"
until_true 10 grep -q "$B: no IPsec policy covers the connection" "$log"
ok $? "its control session is refused, and the log says why"
is "$(accel_count 1 server)" 0 "nothing from there is accelerated"
until_true 10 sh -c "[ \"\$('$IW_BUILD/iwctl' -r '$(host_dir 2)' -j reasons | grep -c '\"reason\": \"peer-refused\"')\" = 1 ]"
out=$(host_ctl 2 check "$A:7501")
is "$(grep -c "Conclusion: plain TCP, peer-refused" <<<"$out")" 1 "check at the other host names the refusal" || diag "$out"
out=$(host_ctl 1 check "$B:7502")
is $? 1 "check here: no"
is "$(grep -c "Conclusion: plain TCP, no-ipsec" <<<"$out")" 1 "and why" || diag "$out"
is "$(host_ctl 1 -j peers | json "[p['reason'] for p in d if p['address'] == '$B']")" "['no-ipsec']" "the host is known as one without IPsec"
is "$(host_ctl 1 status | grep -c '^require_ipsec  *on, 0 policies')" 1 "status shows it"
serve 1 7503 127.0.0.1
accelerated "within the host no IPsec is needed" 1 127.0.0.1 7503

requires no off
ok $? "not required any more"
accelerated "without a policy, which the negative cache does not hinder" 1 "$B" 7502
requires yes on
ok $? "required again"
plain "no policy, again" 1 "$B" 7502 no-ipsec

# ---- policies come and go ----
policy 1 add out
plain "outbound only" 1 "$B" 7502 no-ipsec
policy 1 add in
until_true 10 sh -c "! '$IW_BUILD/iwctl' -r '$(host_dir 1)' -j peers | grep -q no-ipsec"
ok $? "a change of the policies is noticed at once, whatever the negative cache says"
host_ctl 2 check "$A:7501" >/dev/null	# it was refused before: asks anew
until_true 10 host_ctl 2 check "$A:7501"
accelerated "ESP in both directions" 1 "$B" 7502
accelerated "and from the other host" 2 "$A" 7501
out=$(host_ctl 1 check "$B:7502")
is "$? $(grep -c 'IPsec policies ask for ESP' <<<"$out")" "0 1" "check says so" || diag "$out"
is "$(host_ctl 1 -j status | json "(d['require_ipsec'], d['ipsec_policies'])")" "('on', 2)" "status too"
out=$(host_exec 1 "$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" doctor)
is "$(grep -c '^ok *IPsec *required; the kernel has 2 policies' <<<"$out") $(grep -c '^warn *IPsec *there is no security association' <<<"$out")" "1 1" "doctor, too" ||
	diag "$out"

mkfifo "$RIG_DIR/in"
host_bg_iw 1 long.log sh -c "exec python3 '$TALK' client $B 7502 <$RIG_DIR/in"
long=$!
exec 8>"$RIG_DIR/in"
long_is_iwarp() { echo 1 >&8; [ "$(stream_count 1 "r['pid'] == $long and r['transport'] == 'iwarp'")" = 1 ]; }
until_true 10 long_is_iwarp
policy 1 del in
plain "the policy inward is gone" 1 "$B" 7502 no-ipsec
echo 2 >&8
until_true 10 grep -q "did 2" "$RIG_DIR/long.log"
ok $? "a stream from before goes on"
is "$(stream_count 1 "r['pid'] == $long and r['transport'] == 'iwarp'")" 1 "over iWARP"
exec 8>&-
until_true 10 rig_ended $long
policy 1 add in

# ---- exceptions for a port, and what the other end of it sees ----
accelerated "the policy is back" 1 "$B" 7502
host_exec 1 ip xfrm policy add src "$A" dst "$B" proto tcp dport 7502 dir out priority 1000
plain "a passthrough for the port" 1 "$B" 7502 no-ipsec
accelerated "others are not concerned" 2 "$A" 7501
host_exec 1 ip xfrm policy add src "$B" dst "$A" proto tcp dport 7501 dir in priority 1000
n=$(reason_of 1 server no-ipsec)
plain "a passthrough for a port of this host: the client's daemon, which requires nothing, is told" 2 "$A" 7501 other-end
has_counted() { [ $(($(reason_of 1 server no-ipsec) - n)) = 1 ]; }
until_true 10 has_counted
ok $? "the server's daemon counts the reason"
host_exec 1 ip xfrm policy del src "$B" dst "$A" proto tcp dport 7501 dir in
host_exec 1 ip xfrm policy del src "$A" dst "$B" proto tcp dport 7502 dir out
accelerated "without the passthrough" 2 "$A" 7501

# ---- SEC-IPSEC-4: no SA for a while ----
# What an IKE daemon's delete leaves behind: policies that ask for ESP and no SA. The kernel lets nothing pass until there is one.
cat >"$RIG_DIR/load.py" <<'END'
import select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.settimeout(120)
n = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    block = b"%015d\n" % n * 512
    s.sendall(block)
    got = b""
    while len(got) < len(block):
        x = s.recv(65536)
        if not x:
            sys.exit("end of stream after %d" % n)
        got += x
    if got != block:
        sys.exit("other octets after %d" % n)
    n += 1
    with open(sys.argv[3], "w") as f:
        f.write("%d\n" % n)
print("all %d" % n)
END
policy 2 add
daemon_stop 2 && daemon_start 2 -o require_ipsec=yes
serve 2 7504
until_true 10 host_ctl 1 check "$B:7504"
mkfifo "$RIG_DIR/stop"
nsenter --net="$(host_ns 1)" env IWSOCK_RUNDIR="$(host_dir 1)" LD_PRELOAD="$RIG_LIB" \
	python3 "$RIG_DIR/load.py" "$B" 7504 "$RIG_DIR/count" <"$RIG_DIR/stop" >"$RIG_DIR/load.log" 2>&1 &
load=$!
RIG_PIDS+=($load)
exec 7>"$RIG_DIR/stop"
count() { cat "$RIG_DIR/count" 2>/dev/null || echo 0; }
beyond() { [ "$(count)" -gt "$1" ]; }
# TCP at one of the two waits longer and longer for an acknowledgement: the first one that comes would end that
stalled() { { host_exec 1 ss -Htni 'dport = :7504'; host_exec 2 ss -Htni 'sport = :7504'; } | grep -q ' backoff:'; }
until_true 10 beyond 20
ok $? "SEC-IPSEC-4: a stream under load"
load_is_iwarp() { [ "$(stream_count 1 "r['pid'] == $load and r['transport'] == 'iwarp'")" = 1 ]; }
until_true 20 load_is_iwarp
id=$(host_ctl 1 -j streams | json "[r['id'] for r in d if r['pid'] == $load and r['transport'] == 'iwarp']")
at_least ${#id} 10 "SEC-IPSEC-4: over iWARP"
for round in 1 2; do
	for h in 1 2; do applied $h yes; done
	until_true 10 stalled
	ok $? "SEC-IPSEC-4: round $round: the SA is gone, nothing passes"
	n=$(count)
	for h in 1 2; do applied $h no; done
	until_true 60 beyond $((n + 20))
	ok $? "SEC-IPSEC-4: round $round: a new one, the transfer goes on"
done
is "$(host_ctl 1 -j streams | json "[r['id'] for r in d if r['pid'] == $load and r['transport'] == 'iwarp']")" "$id" \
	"SEC-IPSEC-4: it is the same stream"
exec 7>&-
wait $load
is "$? $(sed 's/[0-9]*$/N/' "$RIG_DIR/load.log")" "0 all N" "SEC-IPSEC-4: every octet came, in order"

for h in 1 2; do applied $h yes; done
out=$(host_ctl 1 check "$B:7504")
is "$? $(grep -c 'but it does not answer' <<<"$out") $(grep -c 'IPsec policies ask for ESP.*was not looked at' <<<"$out")" "1 1 1" \
	"no SA, and the session still stands: check says that nothing passes, and what it looked at" || diag "$out"
for h in 1 2; do applied $h no; done
until_true 60 host_ctl 1 check "$B:7504"
ok $? "a new SA: check says yes again"

# ---- a daemon that may not look ----
if command -v setpriv >/dev/null; then
	daemon_stop 1
	host_bg 1 nocap.log setpriv --bounding-set -net_admin --inh-caps -all "$IW_BUILD/iwarpd" --run-dir "$(host_dir 1)" \
		$RIG_DAEMON_OPTS -o require_ipsec=yes
	nocap=$!
	until_true 20 host_ctl 1 status
	ok $? "without CAP_NET_ADMIN it starts"
	is "$(grep -c 'error: require_ipsec: the IPsec policies of the kernel cannot be read' "$RIG_DIR/nocap.log") $(grep -c AmbientCapabilities "$RIG_DIR/nocap.log")" \
		"1 1" "and says what it cannot do, and what it takes" || diag "$(cat "$RIG_DIR/nocap.log")"
	is "$(host_ctl 1 -j status | json "d['require_ipsec']")" unreadable "status says so"
	serve 1 7505
	serve 1 7506 127.0.0.1
	plain "nothing to other hosts is accelerated" 1 "$B" 7504 no-ipsec
	is "$(once 2 "$A" 7505)" "begun ok" "from other hosts: the connection works"
	is "$(accel_count 1 server)" 0 "and is not accelerated either"
	accelerated "within the host" 1 127.0.0.1 7506
	host_end $nocap

	# as iwarpd.service runs it, with what the manual says to add
	cp "$IW_BUILD/iwarpd" "$RIG_DIR/iwarpd"
	mkdir -m 755 "$RIG_DIR/user" && chown 65534 "$RIG_DIR/user"
	chmod 755 "$RIG_DIR"
	host_bg 1 user.log setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set -all,+net_admin,+net_bind_service \
		--inh-caps -all,+net_admin,+net_bind_service --ambient-caps -all,+net_admin,+net_bind_service \
		"$RIG_DIR/iwarpd" --run-dir "$RIG_DIR/user" -o require_ipsec=yes
	user=$!
	until_true 20 "$IW_BUILD/iwctl" --run-dir "$RIG_DIR/user" status
	is "$("$IW_BUILD/iwctl" --run-dir "$RIG_DIR/user" -j status | json "(d['uid'], d['require_ipsec'], d['ipsec_policies'])")" "(65534, 'on', 2)" \
		"an ordinary user with CAP_NET_ADMIN (and the control port) reads the policies" || diag "$(cat "$RIG_DIR/user.log")"
	host_end $user
else
	skip "a daemon without CAP_NET_ADMIN" "no setpriv"
fi
done_testing
